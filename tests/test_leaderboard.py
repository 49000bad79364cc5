"""The command: the same records give the same bytes, and a mistake is a sentence."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from boards import FILES, a_board, contents
from making import changed, record, save

from posbench.base.errors import PosbenchError
from posbench.boards import command as leaderboard
from posbench.config import board as definition
from posbench.records import files, published


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes_in_whatever_order_they_were_written(
    tmp_path: Path,
) -> None:
    found = a_board(tmp_path / "one")
    random.Random(0).shuffle(found)
    save(tmp_path / "other", *found)
    for folder in ("one", "other", "one"):
        assert leaderboard.main([str(tmp_path / folder)], emit=lambda line: None) == 0
        assert contents(tmp_path / "one") == contents(tmp_path / folder)


@pytest.mark.slow
def test_bytes_depend_on_no_terminal_locale_or_matplotlibrc_and_torch_is_not_imported(
    tmp_path: Path,
) -> None:
    a_board(tmp_path)
    leaderboard.main([str(tmp_path)], emit=lambda line: None)
    before = contents(tmp_path)
    for name in FILES:
        (tmp_path / name).unlink()
    (tmp_path / "matplotlibrc").write_text(
        "font.size: 30\nsvg.hashsalt: other\naxes.facecolor: red\n"
    )
    code = (
        "import sys; from posbench.boards import command; "
        "status = command.main(sys.argv[1:]); "
        "assert not {'torch', 'lightning'} & set(sys.modules); sys.exit(status)"
    )
    surroundings = {
        "COLUMNS": "20",
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONHASHSEED": "7",
        "MPLBACKEND": "pdf",
        "MATPLOTLIBRC": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | surroundings,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_check_passes_after_generating_and_fails_after_tampering(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_board(tmp_path)
    check = [str(tmp_path), "--check"]
    assert leaderboard.main(check) == 1  # not there yet
    assert not any((tmp_path / name).exists() for name in FILES)
    leaderboard.main([str(tmp_path)])
    assert leaderboard.main(check) == 0
    before = {tmp_path / name: (tmp_path / name).read_bytes() for name in FILES}
    for path, content in before.items():
        path.write_bytes(content.replace(b"alibi", b"alibis"))
    capsys.readouterr()
    assert leaderboard.main(check) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and all(str(path) in error for path in before)
    for path, content in before.items():
        assert path.read_bytes() != content  # it writes nothing
        path.write_bytes(content)
    assert leaderboard.main(check) == 0
    shutil.rmtree(tmp_path / "records" / "cpu" / "copy" / "alibi")
    assert leaderboard.main(check) == 1


def test_without_any_record_there_is_one_sentence_and_no_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leaderboard.main([str(tmp_path)]) == 1
    out, error = capsys.readouterr()
    assert error.startswith(f"posbench: no records in {tmp_path}: ") and error.count("\n") == 1
    assert not out and not (tmp_path / "leaderboard.md").exists()


@pytest.mark.slow
def test_unreadable_records_are_left_out_and_named_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "whole", record("alibi"))
    save(tmp_path / "part", record("alibi"))
    assert leaderboard.main([str(tmp_path / "whole")], emit=lambda line: None) == 0
    bad = save(tmp_path / "part", record("rope"), record("nope"))
    for path, content in zip(bad, ("{", '{"schema_version": 99}'), strict=True):
        path.write_text(content)
    capsys.readouterr()
    assert leaderboard.main([str(tmp_path / "part")]) == 1
    out, error = capsys.readouterr()
    said = error.splitlines()
    assert len(said) == 2 and all(line.startswith("posbench: left out: ") for line in said)
    assert any(str(bad[0]) in line and "not a readable record" in line for line in said)
    assert any(str(bad[1]) in line and "record schema 99" in line for line in said)
    assert "Written" in out
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    assert leaderboard.main([str(tmp_path / "part"), "--check"], emit=lambda line: None) == 1
    assert capsys.readouterr().err == error, "the files are what the other records say"
    assert leaderboard.main([str(tmp_path / "whole"), "--check"], emit=lambda line: None) == 0


def test_without_a_readable_record_no_board_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [path] = save(tmp_path, record())
    path.write_text("{")
    assert leaderboard.main([str(tmp_path)]) == 1
    out, error = capsys.readouterr()
    assert [line[:10] for line in error.splitlines()] == ["posbench: "] * 2 and not out
    assert str(path) in error and not (tmp_path / "leaderboard.md").exists()


@pytest.mark.slow
def test_a_published_folder_gives_the_board_of_its_records(tmp_path: Path) -> None:
    """With scores that are counts of their tests, and so come back exactly."""
    found = a_board(tmp_path / "own")
    exact = [changed(each, {f"rows.{i}.num_samples": 10 for i in range(2)}) for each in found]
    save(tmp_path / "own", *exact)
    published.publish(files.records(tmp_path / "own"), [], tmp_path / "all")
    for folder in ("own", "all"):
        assert leaderboard.main([str(tmp_path / folder)], emit=lambda line: None) == 0
    assert contents(tmp_path / "own") == contents(tmp_path / "all")


def test_without_records_of_ones_own_the_main_board_is_pointed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(files.MAIN, record())
    assert leaderboard.main([]) == 1
    error = capsys.readouterr().err
    assert f"no records in {files.LOCAL}" in error
    assert f"posbench board {files.MAIN}" in error


@pytest.mark.slow
def test_a_board_takes_what_another_panel_asked_for_and_refuses_what_nobody_had_fixed(
    tmp_path: Path,
) -> None:
    windows, served = definition.load("windows"), definition.load("served")
    folder = tmp_path / "windows"
    made, other = (
        record("rope_short_base", None, 20, "learned", "language", extension=extension)
        for extension in ("direct", "pi")
    )
    own = [changed(each, {"definition": windows.hash}) for each in (made, record("rope"))]
    leaderboard.refuse_others(folder, windows, own)
    leaderboard.refuse_others(folder, windows, [changed(made, {"definition": served.hash})])
    unasked = [changed(each, {"definition": served.hash, "seed": 22}) for each in (made, other)]
    unasked.append(changed(other, {"definition": served.hash}))
    rate = "learned (training.learning_rate=0.006)"
    faster = record("rope_short_base", None, 20, rate, "language", extension="direct")
    unasked.append(changed(faster, {"definition": served.hash}))
    for strange in (
        *unasked,
        changed(made, {"definition": ""}),
        changed(made, {"definition": "0123456789abcdef"}),
    ):
        hash = strange.definition
        with pytest.raises(PosbenchError, match=f"another definition.*{hash[:8] or 'none'}"):
            leaderboard.refuse_others(folder, windows, [strange])
        leaderboard.refuse_others(tmp_path / "mine", windows, [strange])
