"""Records are written whole or not at all, read with care, and only chosen ones are published."""

from __future__ import annotations

import gzip
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from making import audits_of, changed, record, save, view

from posbench import results
from posbench.base.disk import write_json
from posbench.base.errors import PosbenchError
from posbench.base.wording import counted
from posbench.records import files, published, tables
from posbench.records.record import Audit, AuditRow, Record
from posbench.sharing.command import main as results_command


def test_the_long_table_has_one_row_a_run_and_length_with_fixed_columns_and_types(
    tmp_path: Path,
) -> None:
    save(tmp_path, record(seed=0), record(seed=1, accuracies={1: 0.1, 2: 0.0}))
    table = results.load(tmp_path)
    assert {
        name: str(kind).replace("object", "str") for name, kind in table.dtypes.items()
    } == tables.COLUMNS
    assert table[["seed", "multiple", "sequence_accuracy"]].to_numpy().tolist() == [
        [0, 1, 1.0],
        [0, 2, 0.5],
        [1, 1, 0.1],
        [1, 2, 0.0],
    ]
    assert table["solved_step"].isna().tolist() == [False, False, True, True]
    assert table["token_accuracy_beyond_trained_distance"].isna().tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_the_types_are_the_same_where_a_whole_column_is_missing_or_there_is_no_record(
    tmp_path: Path,
) -> None:
    save(tmp_path / "unsolved", record(accuracies={1: 0.0}))
    unsolved, none = results.load(tmp_path / "unsolved"), tables.table([])
    assert unsolved.dtypes.equals(none.dtypes)
    assert len(none) == 0


def folders_with_records(tmp_path: Path) -> Path:
    """A folder of folders, of which two hold records and one lies deeper, one has none, and a file
    beside them.
    """
    save(tmp_path / "results/main", record())
    save(tmp_path / "results/more/other", record())
    (tmp_path / "results/empty/records").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Words\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "no records in nowhere: name a folder that holds records/"),
        ("README.md", "no records in README.md: name a folder that holds records/"),
        ("results", "no records in results: name a folder that holds records/"),
        ("results/local", "no records in results/local: run `python -m posbench` first"),
        ("", "load takes one folder, got '': name a folder that holds records/"),
        (None, "load takes one folder, got None: name a folder that holds records/"),
        (3, "load takes one folder, got 3"),
        (b"results/main", "load takes one folder, got b'results/main'"),
        (
            ["results/main", "results/more/other"],
            "load takes one folder, got ['results/main', 'results/more/other']: "
            "pandas.concat([load(each) for each in FOLDERS]) has the runs of several",
        ),
        (f"results/{'a' * 300}", ": name a folder that holds records/"),
    ],
)
def test_what_holds_no_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any, said: str
) -> None:
    monkeypatch.chdir(folders_with_records(tmp_path))
    with pytest.raises(PosbenchError) as refusal:
        results.load(name)
    assert said in str(refusal.value)
    if isinstance(name, str) and name:
        with pytest.raises(PosbenchError) as refusal:
            results.load(Path(name))
        assert said in str(refusal.value)


def test_a_folder_given_as_a_path_or_a_text_is_read(tmp_path: Path) -> None:
    folder = folders_with_records(tmp_path) / "results/main"
    assert len(results.load(folder)) == len(results.load(f"{folder}/")) == 2


def test_records_come_in_the_order_of_their_paths_whatever_order_they_were_written_in(
    tmp_path: Path,
) -> None:
    found = [record(method, seed=seed) for method in ("rope", "alibi") for seed in (2, 0, 1)]
    save(tmp_path, *found)
    order = [(each.method.label, each.seed) for each in files.records(tmp_path)]
    assert order == sorted(order)


def test_a_record_that_was_replaced_leaves_no_test_of_it_in_any_table(tmp_path: Path) -> None:
    """The older one climbed to 16x, and the newer one has learned nothing."""
    bins = [view("depth", n, (0, 0.5, 8, 1.0, 0.1)) for n in (20, 160)]
    older = record(accuracies={1: 1.0, 2: 0.9, 16: 0.6}).model_copy(update={"views": tuple(bins)})
    [path] = save(tmp_path, older)
    path.rename(path.with_suffix(".1a2b3c4d.json"))
    save(tmp_path, record(accuracies={1: 0.0, 2: 0.0}))
    found = files.records(tmp_path)
    assert len(found) == 2
    assert tables.table(found)[["multiple", "score"]].to_numpy().tolist() == [[1, 0], [2, 0]]
    assert tables.table(found)["solved_step"].isna().all()
    assert len(tables.views([older])) == 2
    assert len(tables.views(found)) == 0


def test_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    assert [p.name for p in path.parent.iterdir()] == ["seed=0.json"]
    assert files.read(path) == record()


def test_a_crash_while_writing_leaves_the_old_record_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = save(tmp_path, record())
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save(tmp_path, record(accuracies={1: 0.0}))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["seed=0.json"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_no_number_is_none_and_the_score_that_follows_from_it_the_least(
    number: float,
) -> None:
    [row, _] = changed(record(), {"rows.0.loss": number, "rows.0.score": number}).rows
    assert (row.loss, row.score) == (None, -1.0)


def test_a_number_that_json_does_not_know_is_refused(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    with pytest.raises(ValueError, match="finite number"):
        save(tmp_path, changed(record(), {"training.cpu_seconds": float("nan")}))
    with pytest.raises(ValueError, match="sequence_accuracy"):
        changed(record(), {"rows.0.sequence_accuracy": float("nan")})
    assert files.read(path) == record()


def publish(tmp_path: Path, *arguments: str) -> int:
    return results_command(
        ["publish", "--from", str(tmp_path / "own"), "--to", str(tmp_path / "all"), *arguments]
    )


def names_published(tmp_path: Path) -> list[tuple[str, int]]:
    return [(each.method.label, each.seed) for each in files.records(tmp_path / "all")]


def test_of_a_run_that_was_repeated_with_other_code_the_last_record_is_published_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = record("rope")
    [path] = save(tmp_path / "own", first)
    files.kept_beside(path)
    save(tmp_path / "own", changed(first, {"rows.1.score": 0.25}), record("rope", seed=1))
    assert len(files.records(tmp_path / "own")) == 3
    assert publish(tmp_path) == 0
    assert "Copied 2 records" in capsys.readouterr().out
    assert {each.rows[1].score for each in files.records(tmp_path / "all")} > {0.25}


@pytest.mark.parametrize(
    ("beside", "command"),
    [
        ((), "posbench board"),
        (("claims.yaml",), "posbench board claims"),
        (("claims.yaml", "leaderboard.csv"), "posbench board"),
    ],
)
def test_publishing_names_the_command_of_the_page_that_the_folder_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: tuple[str, ...], command: str
) -> None:
    save(tmp_path / "own", record("rope"))
    (tmp_path / "all").mkdir()
    for name in beside:
        (tmp_path / "all" / name).write_text("")
    assert publish(tmp_path) == 0
    assert f"up to date: {command} {tmp_path / 'all'}\n" in capsys.readouterr().out


def test_publishing_copies_the_chosen_records_only_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(
        tmp_path / "own",
        *(record(method, seed=seed) for method in ("rope", "rope_ntk", "alibi") for seed in (0, 1)),
        record("rope", task="passkey"),
        record("rope", protocol="smoke"),
    )
    assert publish(tmp_path, "--protocol", "cpu", "--task", "copy", "--method", "rope*") == 0
    assert names_published(tmp_path) == [(m, s) for m in ("rope", "rope_ntk") for s in (0, 1)]
    written = {path.name for path in (tmp_path / "all").rglob("*.json*")}
    assert written == {"copy.jsonl.gz"}
    said = capsys.readouterr().out
    assert "Copied 4 records (protocol cpu, task copy, method rope*)" in said
    assert f"posbench board {tmp_path / 'all'}" in said
    assert results.load(tmp_path / "all").equals(
        results.load(tmp_path / "own")
        .query("protocol == 'cpu' and task == 'copy' and method != 'alibi'")
        .reset_index(drop=True)
    )


def audit_of(record_path: Path) -> Audit:
    """An audit that found nothing, written beside the record."""
    key = Audit.key_of(files.read(record_path))
    rows = [AuditRow(test_length=10, num_samples=8, disagreements=0, prefix_disagreements=0)]
    names = ("protocol", "task", "method", "seed", "source_hash", "evaluation_hash")
    audit = Audit(**dict(zip(names, key, strict=True)), rows=rows)
    write_json(audit.model_dump(mode="json"), files.audit_path(record_path))
    return audit


def test_publishing_takes_the_audit_of_a_record_along_and_no_other(tmp_path: Path) -> None:
    source = tmp_path / "records" / "own"  # a name that a path may also have elsewhere
    first, second = save(source, record("rope"), record("alibi"))
    assert files.audit_path(first) == source / "audits" / first.relative_to(source / "records")
    audit, _ = audit_of(first), audit_of(second)
    words = ["--from", str(source), "--to", str(tmp_path / "all"), "--method", "rope"]
    assert results_command(["publish", *words]) == 0
    assert files.read_folder(tmp_path / "all").audits == [audit]
    assert (tmp_path / "all" / "audits.jsonl").read_text().count("\n") == 1


def test_published_records_are_unpacked_beside_ones_own_and_published_again_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, everything, again = (tmp_path / name for name in ("own", "all", "again"))
    first, _ = save(own, record("rope"), record("alibi"))
    audit = audit_of(first)
    assert publish(tmp_path) == 0
    kept = record("alibi", {1: 1.0, 2: 0.875})  # of one's own, and newer
    save(again, kept)
    assert results_command(["unpack", str(everything), "--to", str(again)]) == 0
    assert "Copied 1 record to" in capsys.readouterr().out
    where = again / first.relative_to(own)
    assert files.read(where) == files.read(first) and files.read_folder(again).audits == [audit]
    assert files.read(files.path_of(kept, again)) == kept
    words = ["--from", str(again), "--to", str(tmp_path / "once more"), "--method", "rope"]
    assert results_command(["publish", *words]) == 0
    lines = [gzip.decompress((folder / "records/copy.jsonl.gz").read_bytes()).splitlines()
             for folder in (everything, tmp_path / "once more")]  # fmt: skip
    assert (
        lines[1][0] in lines[0]
        and (everything / "audits.jsonl").read_text()
        == (tmp_path / "once more" / "audits.jsonl").read_text()
    )
    assert results_command(["unpack", str(tmp_path / "nothing")]) == 1


def of_version(version: int) -> Record:
    return changed(record(), {"task_version": version, "training.source_hash": f"{version:016}"})


def unpacked(source: Path, target: Path) -> None:
    assert results_command(["unpack", str(source), "--to", str(target)]) == 0


@pytest.mark.parametrize(
    ("own", "published", "in_place"), [(1, 2, 2), (2, 1, 2)], ids=["the later", "the earlier"]
)
def test_another_run_of_the_same_name_is_unpacked_beside_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: int, published: int, in_place: int
) -> None:
    mine, theirs = of_version(own), of_version(published)
    assert files.path_of(mine, tmp_path) == files.path_of(theirs, tmp_path)
    [path] = save(tmp_path / "mine", mine)
    audits = [audit_of(path), audit_of(*save(tmp_path / "theirs", theirs))]
    for count in (1, 0):
        unpacked(tmp_path / "theirs", tmp_path / "mine")
        assert f"Copied {counted(count, 'record')} to" in capsys.readouterr().out
        held = files.read_folder(tmp_path / "mine").whole()
        assert sorted(each.task_version for each in held.records) == [1, 2]
        assert files.read(path).task_version == in_place
        key = {audit.key for audit in held.audits}
        assert key == {audit.key for audit in audits} and len(held.audits) == 2


def test_an_audit_that_cannot_be_read_is_not_lost_where_another_is_unpacked(tmp_path: Path) -> None:
    [path] = save(tmp_path / "mine", of_version(1))
    audit = audit_of(*save(tmp_path / "theirs", of_version(2)))
    there = files.audit_path(path)
    there.parent.mkdir(parents=True)
    there.write_bytes(b"\xff{")
    unpacked(tmp_path / "theirs", tmp_path / "mine")
    held = files.read_folder(tmp_path / "mine")
    assert held.audits == [audit] and len(held.unreadable) == 1
    assert b"\xff{" in [each.read_bytes() for each in there.parent.iterdir()]


@pytest.mark.parametrize("kept", ["beside", "packed"])
def test_a_run_that_is_there_under_another_name_is_not_unpacked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    save(tmp_path / "theirs", record())
    published.publish([record()], [], tmp_path / "mine")
    if kept == "beside":
        [path] = save(tmp_path / "mine", record())
        files.kept_beside(path)
        (tmp_path / "mine/records/copy.jsonl.gz").unlink()
    unpacked(tmp_path / "theirs", tmp_path / "mine")
    assert "Copied 0 records to" in capsys.readouterr().out
    assert len(files.records(tmp_path / "mine")) == 1


def test_nothing_is_unpacked_where_the_file_of_a_name_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "theirs", record("alibi"), record("rope"))
    [path] = save(tmp_path / "mine", record("rope"))
    for text in ("{", '{"schema_version": 99}', "[]"):
        path.write_text(text)
        words = ["unpack", str(tmp_path / "theirs"), "--to", str(tmp_path / "mine")]
        assert results_command(words) == 1
        error = capsys.readouterr().err
        assert error.startswith("posbench: ") and error.count("\n") == 1 and str(path) in error
        assert files.loose(tmp_path / "mine") == [path] and path.read_text() == text


def test_an_audit_counts_for_the_record_alone_that_it_was_made_of(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    audit = audit_of(path)
    assert files.read_folder(tmp_path).audits == [audit]
    files.write(changed(record(), {"evaluated.source_hash": "1"}), path)
    assert files.read_folder(tmp_path).audits == []


def test_an_unreadable_audit_is_one_sentence_and_stops_no_record(tmp_path: Path) -> None:
    first, second = save(tmp_path, record("rope"), record("alibi"))
    audit, _ = audit_of(first), audit_of(second)
    for text in ("{", '{"protocol": "cpu"}', "[]"):
        files.audit_path(second).write_text(text)
        held = files.read_folder(tmp_path)
        assert (len(held.records), held.audits) == (2, [audit])
        [sentence] = held.unreadable
        assert str(files.audit_path(second)) in sentence and "\n" not in sentence
        with pytest.raises(PosbenchError, match="audit"):
            held.whole()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["publish", "unpack", "bundle", "export"])
def test_each_record_is_read_once(command: str, tmp_path: Path, validated: list[str]) -> None:
    source, target = str(tmp_path / "own"), str(tmp_path / "new.tar.gz")
    paths = save(tmp_path / "own", record("rope"), record("alibi"))
    audit_of(paths[0])
    validated.clear()
    words = {
        "publish": ["--from", source, "--to", target],
        "unpack": [source, "--to", target],
        "bundle": [target, "--from", source],
        "export": [source, "--to", target],
    }
    assert results_command([command, *words[command]]) == 0
    assert sorted(validated) == sorted(map(str, (*paths, files.audit_path(paths[0]))))


def test_publishing_again_replaces_a_run_and_keeps_the_others(tmp_path: Path) -> None:
    save(tmp_path / "own", record("rope"), record("alibi"), record("rope", task="passkey"))
    assert publish(tmp_path) == 0
    save(tmp_path / "own", record("rope", {1: 1.0, 2: 0.75}))
    assert publish(tmp_path, "--task", "copy", "--method", "rope") == 0
    found = files.records(tmp_path / "all")
    assert [(each.task.name, each.method.name, each.rows[1].score) for each in found] == [
        ("copy", "alibi", 0.5),
        ("copy", "rope", 0.75),
        ("passkey", "rope", 0.5),
    ]


def test_publishing_refuses_an_unreadable_record_before_it_copies_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, last = save(tmp_path / "own", record("alibi"), record("rope"))
    last.write_text("{")
    assert publish(tmp_path) == 1
    assert not (tmp_path / "all").exists()
    error = capsys.readouterr().err
    assert error.startswith("posbench: ") and error.count("\n") == 1 and str(last) in error


def test_publishing_refuses_to_add_to_records_that_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "own", record("rope"))
    assert publish(tmp_path) == 0
    path = tmp_path / "all/records/copy.jsonl.gz"
    path.write_bytes(damaged := path.read_bytes()[:-20])
    capsys.readouterr()
    assert publish(tmp_path) == 1
    error = capsys.readouterr().err
    assert error.startswith("posbench: ") and error.count("\n") == 1 and str(path) in error
    assert path.read_bytes() == damaged


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "own", record("rope"))
    (tmp_path / "all").write_text("a file")
    assert publish(tmp_path) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"posbench: {tmp_path / 'all'} is a file, and a folder is needed")
    assert error.endswith(": name another\n") and error.count("\n") == 1


class Killed(BaseException):
    """What comes after is not done, as after kill -9."""


def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[str, Path], None]
) -> None:
    """From now on `before` is told of every file of lines that is about to be put or removed."""

    def telling(word: str, change: Callable[..., None]) -> Callable[..., None]:
        def changes(*paths: Any, **named: Any) -> None:
            path = Path(paths[-1])
            if path.is_relative_to(folder) and path.suffix in (".gz", ".jsonl"):
                before(word, path)
            change(*paths, **named)

        return changes

    monkeypatch.setattr(os, "replace", telling("put", os.replace))
    monkeypatch.setattr(Path, "unlink", telling("remove", Path.unlink))


def killed_at(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is changed in the folder after so many changes."""
    left = itertools.count(-number)

    def kill(word: str, path: Path) -> None:
        if next(left) >= 0:
            raise Killed

    watched(folder, monkeypatch, kill)


def with_audits(*found: Record) -> tuple[list[Record], list[Audit]]:
    return list(found), audits_of(*found)


def bytes_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


OLD = [
    record(method, seed=seed, task=task)
    for method in ("rope", "alibi")
    for seed in (0, 1)
    for task in ("copy", "sort")
]
GOES = record("rope", task="goes")
OTHER_CODE = {"training.source_hash": "1", "evaluated.source_hash": "2", "rows.0.loss": 0.5}
NEW = [changed(each, OTHER_CODE) for each in OLD]
AUDITED, LINES = ["put audits"], ["put copy", "put sort"]
CHANGES = {
    published.publish: [*AUDITED, *LINES, *AUDITED],
    published.write: [*AUDITED, *LINES, "remove goes", *AUDITED],
}
"""Audits are there before the records that they were made of, with the old; then the lines of two
tasks; then audits without the old. Where these are to be all records, one file goes.
"""
KILLS = [(write, number) for write, made in CHANGES.items() for number in range(len(made))]


def put(write: Callable[..., None], folder: Path) -> None:
    write(*with_audits(*NEW), folder)


@pytest.mark.fault("kill -9 between any two files of publishing")
@pytest.mark.parametrize(("write", "number"), KILLS)
def test_publishing_that_is_killed_loses_no_record_and_is_ended_by_the_same_command(
    write: Callable[..., None], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for each in (folder, undisturbed):
        published.write(*with_audits(*OLD, GOES), each)
    put(write, undisturbed)
    with monkeypatch.context() as patched:
        killed_at(number, folder, patched)
        with pytest.raises(Killed):
            put(write, folder)
    held = files.read_folder(folder).whole()
    assert all(each in (*OLD, *NEW, GOES) for each in held.records)
    assert {each.run for each in held.records} | {GOES.run} == {each.run for each in (*OLD, GOES)}
    assert {each.key for each in held.audits} == {Audit.key_of(each) for each in held.records}
    put(write, folder)
    assert bytes_of(folder) == bytes_of(undisturbed)


@pytest.mark.parametrize("write", CHANGES)
def test_publishing_puts_audits_before_their_records_and_removes_the_old_after(
    write: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.write(*with_audits(*OLD, GOES), tmp_path)
    made: list[str] = []
    watched(tmp_path, monkeypatch, lambda *of: made.append(f"{of[0]} {of[1].name.split('.')[0]}"))
    put(write, tmp_path)
    assert made == CHANGES[write]


def test_what_several_processes_publish_at_once_is_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads before it writes, and while one does, the others wait."""
    made = published.contents

    def slowly(*given: Any) -> dict[str, str]:
        time.sleep(0.05)
        return made(*given)

    monkeypatch.setattr(published, "contents", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: published.publish([each], audits_of(each), tmp_path), OLD))
    held = files.read_folder(tmp_path).whole()
    assert {each.run for each in held.records} == {each.run for each in OLD}
    assert len(held.audits) == len(OLD)


def test_publishing_leaves_a_file_alone_that_stays_as_it_is(tmp_path: Path) -> None:
    published.publish(*with_audits(*OLD), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl*")}
    published.publish(*with_audits(changed(OLD[0], {"rows.0.loss": 0.5})), tmp_path)
    touched = {path.name for path in before if path.stat().st_mtime_ns != before[path]}
    assert touched == {"copy.jsonl.gz"}


def test_commands_that_are_said_can_be_copied_where_a_folder_has_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, board, sent = (tmp_path / name for name in ("my runs", "my board", "my bundle.tar.gz"))
    save(own, record())
    assert results_command(["publish", "--from", str(own), "--to", str(board)]) == 0
    assert f": posbench board '{board}'\n" in capsys.readouterr().out
    assert results_command(["bundle", str(sent), "--from", str(own)]) == 0
    assert f": posbench records accept '{sent}'\n" in capsys.readouterr().out
    assert results_command(["verify", str(own), "--restamp"]) == 1
    assert f"publish --from '{own}' --to FOLDER" in capsys.readouterr().err


def test_publishing_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "own", record())
    assert publish(tmp_path, "--method", "alibi") == 1
    own = tmp_path / "own"
    assert capsys.readouterr().err == (
        f"posbench: no record in {own} has method alibi: the only one is rope\n"
    )
    assert publish(tmp_path, "--method", "ropee") == 1
    assert capsys.readouterr().err.endswith(" has method ropee: did you mean rope?\n")
