"""What command lines have in common: their options, and files that are written or checked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from posbench import cli
from posbench.base.errors import PosbenchError
from posbench.config import command_lines
from posbench.pretrained import command as pretrained
from posbench.pretrained import export
from posbench.sharing import command as records


def test_a_folder_of_ones_own_may_be_given_several_times() -> None:
    parser = command_lines.parser("python -m it", "It says.", check=True, config_dir=True)
    words = ["--config-dir", "one", "--check", "--config-dir", "two"]
    chosen = parser.parse_args(words)
    assert chosen.config_dir == [Path("one"), Path("two")] and chosen.check
    assert parser.parse_args([]).config_dir == [], "a default is no list that others add to"


@pytest.mark.parametrize("option", ["--check", "--config-dir=mine"])
def test_an_option_that_a_command_has_not_is_refused(option: str) -> None:
    with pytest.raises(SystemExit):
        command_lines.parser("python -m it", "It says.").parse_args([option])


def test_files_are_written_or_compared(tmp_path: Path) -> None:
    right, wrong, new = tmp_path / "right", tmp_path / "wrong", tmp_path / "deep" / "new"
    contents = dict.fromkeys((right, wrong, new), b"it\n")
    right.write_bytes(b"it\n")
    wrong.write_bytes(b"it\r\n")
    with pytest.raises(PosbenchError) as refused:
        command_lines.write_or_check(contents, True, "run `it`")
    assert str(refused.value) == f"regenerating changes {wrong}, {new}: run `it`"
    assert wrong.read_bytes() == b"it\r\n" and not new.parent.exists()
    command_lines.write_or_check(contents, False, "run `it`")
    assert {path.read_bytes() for path in contents} == {b"it\n"}
    command_lines.write_or_check(contents, True, "run `it`")


def test_a_page_is_called_as_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "README.md"
    said: list[str] = []

    def status(check: bool) -> int:
        return command_lines.write_page(
            path, lambda: "é\n", "it", check, said.append, "conf/README.md"
        )

    assert status(check=True) == 1
    assert capsys.readouterr().err == "posbench: regenerating changes conf/README.md: run `it`\n"
    assert status(check=False) == 0 == status(check=True)
    assert said == ["Written: conf/README.md", "conf/README.md: up to date."]
    assert path.read_bytes() == "é\n".encode()


def test_a_page_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "misspelt"
    assert command_lines.write_page(folder / "it.md", lambda: "nothing\n", "it", check=False) == 1
    said = capsys.readouterr().err
    assert said == f"posbench: {folder} is not a folder: name one that is there\n"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (pretrained, "`posbench pretrained`: "),
        (export, f"{export.USAGE}\n\n`posbench pretrained export`"),
    ],
)
@pytest.mark.parametrize("words", [["--help"], ["-h", "seed=0"], ["seed=0", "--help", "to=x"]])
def test_help_is_asked_for_wherever_it_stands(
    command: ModuleType, begins: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    out, error = capsys.readouterr()
    assert not ended.value.code and not error
    assert out.startswith(begins) and out.strip().endswith(str(command.__doc__).strip())


def test_without_words_the_help_of_pretrained_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was measured, which whoever looks at the exit status is told."""
    assert pretrained.main([]) == 1
    assert capsys.readouterr().out == pretrained.__doc__


def test_an_option_that_takes_words_alone_is_refused_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        export.main(["method=rope", "--too=x"])
    error = capsys.readouterr().err
    assert ended.value.code == 1
    assert error == "posbench: --too=x is not understood: write too=x, without dashes\n"
    with pytest.raises(SystemExit):
        export.main(["method=rope", "--tasks=x"])
    assert "write task=x, without dashes" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["help"], ["help", "me"]])
def test_without_a_command_nothing_runs(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(cli, "carried_out", lambda each: asked.append([*each]))
    monkeypatch.setattr(sys, "argv", ["posbench", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code and asked == [["run", "--help"]] * bool(words)
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in cli.COMMANDS) is (not words)


def test_an_option_of_another_command_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["upload", "here", "--onlne"], "did you mean --online?"),
        (["verify", "here", "--onlne"], "`posbench records --help` shows how it is written"),
    ):
        with pytest.raises(SystemExit):
            records.main(words)
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fast", "--chek"], "--chek is not understood: did you mean --check?"),
        (["--config-dir"], "argument --config-dir: expected one argument: `python -m it --help`"),
        (["fast", "slow"], "slow is not understood: `python -m it --help` shows how it is written"),
        (["fats"], "fats is unknown: did you mean fast? Choose one of fast, slow"),
        ([], "pace is missing: `python -m it --help` says what is needed"),
    ],
)
def test_what_a_parser_refuses_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = command_lines.parser("python -m it", "It says.", check=True, config_dir=True)
    parser.add_argument("pace", choices=["fast", "slow"])
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    out, error = capsys.readouterr()
    assert ended.value.code == 1 and not out
    assert error.startswith(f"posbench: {said}") and error.count("\n") == 1
