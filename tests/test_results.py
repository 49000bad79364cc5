"""Records are written whole or not at all, read with care, and only chosen ones are published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from posbench import results
from posbench.errors import PosbenchError
from posbench.provenance import content_hash


def record(
    method: str = "rope",
    accuracies: Mapping[float, float] | None = None,
    seed: int = 0,
    protocol: str = "cpu",
    task: str = "copy",
    version: int = 1,
    further: Sequence[float] = (),
    **hashes: str,
) -> results.Record:
    """A small record; `accuracies` by multiple of a training length of 10, solved from .95 at
    1x.
    """
    accuracies = accuracies or {1: 1.0, 2: 0.5}
    solved = accuracies[1] >= 0.95

    def name(part: str, label: str) -> dict[str, Any]:
        return {"label": label, "slug": label, "hash": hashes.get(part, content_hash(label))}

    return {
        "schema": results.SCHEMA,
        "protocol": name("protocol", protocol),
        "task": name("task", task) | {"version": version, "measure": "sequence accuracy"},
        "method": name("method", method) | {"class": "zero-shot"},
        "seed": seed,
        "training": {
            "train_length": 10,
            "train_positions": 22,
            "hash": content_hash([task, method, seed]),
            "parameters": 1000,
            "solved": solved,
            "solved_step": 100 if solved else None,
        },
        "rows": [
            {
                "test_length": round(10 * multiple),
                "multiple": float(multiple),
                "aggregated": multiple not in further,
                "total_length": round(20 * multiple) + 3,
                "num_samples": 16,
                "score": accuracy,
                "sequence_accuracy": accuracy,
                "token_accuracy_teacher_forced": accuracy,
                "token_accuracy_within_trained_distance": accuracy if multiple <= 1 else None,
                "token_accuracy_beyond_trained_distance": accuracy if multiple > 1 else None,
                "loss": 1.0,
                "chance": 0.001,
            }
            for multiple, accuracy in accuracies.items()
        ],
        "config": {
            "task": {"_target_": "nowhere.Task"},
            "encoding": {"_target_": "nowhere.Encoding"},
            "extension": {"_target_": "nowhere.Extension"},
        },
        "provenance": {"source_hash": "0"},
        "timings": {"train_cpu_seconds": 60.0},
    }


def save(folder: Path, *found: results.Record) -> list[Path]:
    paths = [
        results.record_path(
            folder, *(r[part]["slug"] for part in ("protocol", "task", "method")), r["seed"]
        )
        for r in found
    ]
    for path, content in zip(paths, found, strict=True):
        results.write(content, path)
    return paths


def test_the_long_table_has_one_row_a_run_and_length_with_fixed_columns_and_types(
    tmp_path: Path,
) -> None:
    save(tmp_path, record(seed=0), record(seed=1, accuracies={1: 0.1, 2: 0.0}))
    table = results.load(tmp_path)
    assert {
        name: str(kind).replace("object", "str") for name, kind in table.dtypes.items()
    } == results.COLUMNS
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
    unsolved, none = results.load(tmp_path / "unsolved"), results.load(tmp_path / "nothing")
    assert unsolved.dtypes.equals(none.dtypes)
    assert len(none) == 0


def test_records_come_in_the_order_of_their_paths_whatever_order_they_were_written_in(
    tmp_path: Path,
) -> None:
    found = [record(method, seed=seed) for method in ("rope", "alibi") for seed in (2, 0, 1)]
    save(tmp_path, *found)
    order = [(r["method"]["label"], r["seed"]) for r in results.records(tmp_path)]
    assert order == sorted(order)


def test_a_record_put_aside_when_a_setting_changed_is_still_read(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    path.rename(path.with_suffix(".1a2b3c4d.json"))
    save(tmp_path, record())
    assert len(results.records(tmp_path)) == 2


def test_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    assert [p.name for p in path.parent.iterdir()] == ["seed=0.json"]
    assert results.read(path) == record()


def test_a_crash_while_writing_leaves_the_old_record_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = save(tmp_path, record())
    before = path.read_bytes()

    def half(content: Any, file: Any, **_: Any) -> None:
        file.write('{"schema": 1, "pro')
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dump", half)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, record(accuracies={1: 0.0}))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["seed=0.json"]


def test_a_number_that_json_does_not_know_is_refused(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    with pytest.raises(ValueError, match="JSON compliant"):
        save(tmp_path, record(accuracies={1: float("nan")}))
    assert results.read(path) == record()


DAMAGED = {
    "cut off": b'{"schema": 1, "proto',
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "not an object": b"[1, 2]",
    "of another schema": b'{"schema": 99}',
    "without parts": b'{"schema": 1, "seed": 0}',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    [path] = save(tmp_path, record())
    path.write_bytes(content)
    with pytest.raises(PosbenchError) as raised:
        results.load(tmp_path)
    assert str(path) in str(raised.value) and "repeat the run" in str(raised.value)
    assert "\n" not in str(raised.value)


def publish(tmp_path: Path, *arguments: str) -> int:
    return results.main(
        ["publish", "--from", str(tmp_path / "own"), "--to", str(tmp_path / "all"), *arguments]
    )


def published(tmp_path: Path) -> list[str]:
    return sorted(
        str(path.relative_to(tmp_path / "all" / "records"))
        for path in (tmp_path / "all").rglob("*.json")
    )


def test_publishing_copies_the_chosen_records_only_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(
        tmp_path / "own",
        *(record(method, seed=seed) for method in ("rope", "rope_ntk", "alibi") for seed in (0, 1)),
        record("rope", task="passkey"),
        record("rope", protocol="smoke"),
    )
    assert publish(tmp_path, "--task", "copy", "--method", "rope*") == 0
    assert published(tmp_path) == [
        f"cpu/copy/{m}/seed={s}.json" for m in ("rope", "rope_ntk") for s in (0, 1)
    ]
    said = capsys.readouterr().out
    assert "Copied 4 records (protocol cpu, task copy, method rope*)" in said
    assert f"python -m posbench.leaderboard {tmp_path / 'all'}" in said
    assert results.load(tmp_path / "all").equals(
        results.load(tmp_path / "own")
        .query("protocol == 'cpu' and task == 'copy' and method != 'alibi'")
        .reset_index(drop=True)
    )


def test_publishing_takes_the_audit_of_a_record_along(tmp_path: Path) -> None:
    source = tmp_path / "records" / "own"  # a name that a path may also have elsewhere
    first, second = save(source, record("rope"), record("alibi"))
    results.write({"rows": []}, results.audit_path(first))
    assert results.main(["publish", "--from", str(source), "--to", str(tmp_path / "all")]) == 0
    copied = {
        path.relative_to(tmp_path / "all").as_posix() for path in (tmp_path / "all").rglob("*.json")
    }
    audit = results.audit_path(first).relative_to(source).as_posix()
    assert audit.startswith("audits/cpu/")
    assert copied == {audit, *(path.relative_to(source).as_posix() for path in (first, second))}


def test_publishing_refuses_an_unreadable_record_before_it_copies_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, last = save(tmp_path / "own", record("alibi"), record("rope"))
    last.write_text("{")
    assert publish(tmp_path) == 1
    assert not (tmp_path / "all").exists()
    error = capsys.readouterr().err
    assert error.startswith("posbench: ") and error.count("\n") == 1 and str(last) in error


def test_publishing_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "own", record())
    assert publish(tmp_path, "--method", "alibi") == 1
    error = capsys.readouterr().err
    assert (
        error.startswith("posbench: no record of protocol cpu, task *, method alibi")
        and error.count("\n") == 1
    )
