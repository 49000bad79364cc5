"""Published records are small lines that lose nothing: counts are exact, losses have four digits,
and the same records give the same bytes.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import changed, record, save, view

from posbench import results
from posbench.base.errors import PosbenchError
from posbench.records import files, packing
from posbench.records.packing import Shelf, as_count, as_share, packed, unpacked
from posbench.records.published import publish, write_packed
from posbench.records.record import Record
from posbench.sharing.verify import differences

CURVE = {
    "step": [10, 20],
    "loss": [1.23456789, 0.00123456],
    "validation_loss": [2.34567891, 3.0],
    "score": [0.1234567891, 1.0],
}
SEARCH = {
    "length": 20,
    "num_samples": 64,
    "trials": [
        {"settings": {"beta_fast": 3, "exponents": [0.1234567890123, 2]}, "loss": 0.123456},
        {"settings": {}, "loss": None},
    ],
}
FINETUNING = {"hash": "f00d", "steps": 20, "lengths": [10, 40], "curve": CURVE, "device": "cpu"}
CEILING = [
    {
        "test_length": 20,
        "hash": "abcd",
        "learning_rate": 0.0012345678,
        "steps": 100,
        "cpu_seconds": 12.3456789,
    }
]
RATES = [{"learning_rate": 0.003, "loss": 0.123456}, {"learning_rate": 0.1, "loss": None}]
UNEVEN = changed(
    record("yarn", {1: 1.0, 2: 1 / 3, 4: 0.0}),
    {
        "rows.1.num_samples": 384,
        "rows.1.sequence_accuracy": 128 / 384,
        "rows.1.num_tokens": 3 * 384,
        "rows.1.token_accuracy_teacher_forced": 1 / 1152,
        "rows.1.correct_prefix": 0.123456789,
        "rows.1.loss": 12.3456789,
        "rows.2.loss": None,
        "rows.0.untrained": 1 / 7,
    },
)
VIEWS = [
    view("depth", 10, (0.0, 0.5, 7, 3 / 7, 1.23456), (0.5, 1.0, 9, 1.0, 0.5)),
    view("distance", 20, (0.0, 1.0, 3, 1 / 3, 2.0), (1.0, None, 11, 5 / 11, float("inf"))),
]
DIVERGED = changed(
    record("diverged", {1: 0.0, 2: 0.0}),
    {
        "diverged": "the loss became nan",
        "training.steps": None,
        "training.curve": {"step": [], "loss": [], "validation_loss": [], "score": []},
        **{f"rows.{i}.num_samples": 0 for i in range(2)},
        **{f"rows.{i}.num_tokens": 0 for i in range(2)},
        **{f"rows.{i}.loss": None for i in range(2)},
    },
)
KINDS = {
    "plain": record(),
    "shares that are no counts": record("rope", {1: 0.95, 2: 1 / math.pi}),
    "uneven shares, and none": UNEVEN,
    "a score of its own": changed(record(), {"rows.1.score": 0.123456789}),
    "a proficiency of its own": changed(record(), {"rows.1.proficiency": 0.123456789}),
    "a score and a proficiency": changed(
        record(), {"rows.1.score": 0.75, "rows.1.proficiency": 0.5}
    ),
    "a score worse than guessing": changed(record(), {"rows.1.score": -0.25}),
    "a length that no n has": changed(record(), {"rows.1.true_multiple": 43 / 22}),
    "views": changed(record(), {"views": VIEWS}),
    "diverged": DIVERGED,
    "a search": changed(record(), {"search": SEARCH}),
    "fine-tuned": changed(record(), {"finetuning": FINETUNING}),
    "a ceiling": changed(record(), {"ceiling": CEILING, "method_class": "ceiling"}),
    "learning rates": changed(record(), {"training.learning_rates": RATES}),
    "a curve": changed(record(), {"training.curve": CURVE}),
    "settings that were changed": record(
        "rope (encoding.base=5)", task="copy (task.n=8)", protocol="cpu (training.steps=5)"
    ),
    "a host": record("ssmax-alibi", encoding="ssmax", host="alibi"),
    "carried over": changed(
        record(),
        {"carried_over": {"source_hash": "1", "evaluation_hash": "2", "verified": 3, "of": 40}},
    ),
    "on a GPU": changed(record(), {"training.device": "NVIDIA H200", "evaluated.commit": None}),
    "on a CPU whose kind is known": changed(
        record(), {"training.cpu": "GenuineIntel amx_tile", "evaluated.cpu": "AuthenticAMD avx2"}
    ),
}


def test_a_measure_that_is_that_of_another_is_not_written_twice() -> None:
    own = {f"rows.{place}.{name}": 0.75 for place in range(2) for name in ("score", "proficiency")}
    rows = packed(changed(record("rope", {1: 1.0, 2: 1.0}), own), Shelf(), Shelf())["rows"]
    assert rows["score"] == [0.75, 0.75] and rows["proficiency"] is None


def published(folder: Path, *found: Record) -> list[Record]:
    write_packed(list(found), [], folder)
    return files.records(folder)


def leaves(node: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict | list):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield from leaves(value, f"{place}.{key}")
    else:
        yield place, node


def digits(place: str) -> int | None:
    """To how many digits a number is kept; None: as it is."""
    _, _, name = place.rstrip("0123456789.").rpartition(".")
    if place.startswith((".config", ".search.trials.0.settings")):
        return None
    if name in ("loss", "validation_loss"):
        return 4
    return 6 if name in ("score", "proficiency", "correct_prefix", "untrained") else None


# -- round trip ------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_a_record_comes_back_as_it_was_to_the_digits_that_are_kept(
    tmp_path: Path, made: Record
) -> None:
    [found] = published(tmp_path, made)
    before, after = dict(leaves(made.as_json())), dict(leaves(found.as_json()))
    assert before.keys() == after.keys()
    for place, value in before.items():
        kept = digits(place)
        if isinstance(value, float):
            close = pytest.approx(value, rel=0.5 * 10 ** (1 - (kept or 16)), abs=1e-6)
            assert after[place] == (close if kept or "accuracy" in place else value), place
        else:
            assert after[place] == value, place
    assert published(tmp_path / "again", found) == [found], "what has been rounded stays as it is"


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_what_is_compared_is_what_is_published(tmp_path: Path, made: Record) -> None:
    [found] = published(tmp_path, made)
    assert packing.comparable(found) == packing.comparable(made)


CLAIMED: list[tuple[str, Any]] = [
    ("protocol.name", "gpu"),
    ("protocol.hash", "another"),
    ("task.name", "passkey"),
    ("task.changed", ["task.num_symbols=8"]),
    ("task_version", 2),
    ("measure", "luck"),
    ("gate", 0.0),
    ("method.name", "mine"),
    ("method.hash", "another"),
    ("method.encoding", "mine"),
    ("method.host", "alibi"),
    ("method.extension", "yarn"),
    ("method.model", ["qk_norm"]),
    ("method_class", "fine-tuned"),
    ("scale_policy", "fixed"),
    ("seed", 7),
    ("command", "python -m posbench method=mine"),
    ("solved_step", None),
    ("training.settings_hash", "another"),
    ("training.parameters", 7),
    ("config.extension", {"_target_": "posbench.extensions.direct.Direct"}),
    ("config.evaluation.num_samples", 9),
    ("config.sources", {"training": "os"}),
    ("config.model", {"qk_norm": True}),
]


@pytest.mark.parametrize(("place", "value"), CLAIMED, ids=[place for place, _ in CLAIMED])
def test_all_that_a_record_claims_and_its_command_decides_is_compared(
    place: str, value: Any
) -> None:
    told = changed(record(), {place: value})
    (found,) = differences(packing.comparable(told), packing.comparable(record()))
    assert found.startswith(place)


def test_a_chance_is_compared_to_six_digits() -> None:
    """OpenBLAS chooses its kernel by the processor, and the last digit of a sum goes with it."""
    one, other, wrong = (
        packing.comparable(changed(record(), {"rows.0.chance": value}))
        for value in (6.194922169178714e-09, 6.194922169178715e-09, 6.19493e-09)
    )
    assert one == other
    assert list(differences(one, wrong)) == ["rows.chance.0: 6.19493e-09 was 6.19492e-09"]


def test_when_and_where_and_for_which_board_a_record_was_made_is_not_compared() -> None:
    elsewhere = {
        "training.source_hash": "1",
        "training.device": "NVIDIA H200",
        "training.cpu": "AuthenticAMD avx512f",
        "training.commit": None,
        "training.versions": {"torch": "2.12.0"},
        "training.cpu_seconds": 1.0,
        "training.wall_seconds": 1.0,
        "evaluated": changed(record(), {"evaluated.source_hash": "1"}).evaluated,
        "definition": "1",
        "carried_over": KINDS["carried over"].carried_over,
        "config.task": {"_target_": "posbench.tasks.nowhere.Task"},
        "config.model": {"qk_norm": False, "short_conv": 0},
    }
    plain = changed(record(), {"config.model": {}})
    assert packing.comparable(changed(plain, elsewhere)) == packing.comparable(plain)


def test_the_kind_of_a_cpu_is_written_only_where_it_is_known() -> None:
    """So that publishing records older than this field again changes no byte of them."""
    known = {"training.cpu": "AuthenticAMD avx512f", "evaluated.cpu": "AuthenticAMD avx512f"}
    for made, written in ((record(), False), (changed(record(), known), True)):
        assert any('"cpu":' in text for text in packing.pack([made]).values()) is written


def test_losses_have_four_digits_and_shares_are_exact(tmp_path: Path) -> None:
    [found] = published(tmp_path, UNEVEN)
    row = found.rows[1]
    assert (row.sequence_accuracy, row.loss) == (128 / 384, 12.35)
    assert (row.token_accuracy_teacher_forced, row.correct_prefix) == (1 / 1152, 0.123457)
    lines = (tmp_path / "records" / "copy.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["rows"]["sequence_accuracy"] == [16, 128, 0]


@given(st.integers(1, 2**20), st.data())
def test_a_share_is_kept_as_its_count(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, total))
    kept = as_count(count / total, total)
    assert kept == count and isinstance(kept, int)
    assert as_share(kept, total) == count / total


@given(st.one_of(st.none(), st.floats(0, 1)), st.integers(0, 10_000))
def test_a_share_that_is_no_count_keeps_six_digits(share: float | None, total: int) -> None:
    kept = json.loads(json.dumps(as_count(share, total)))
    back = as_share(kept, total)
    assert (back is None) if share is None else back == pytest.approx(share, rel=1e-5, abs=6e-7)
    assert as_count(back, total) == kept, "and again the same"


counts = st.lists(st.integers(0, 384), min_size=3, max_size=3)
numbers = st.one_of(st.none(), st.floats(0, 1e6, allow_subnormal=False))


@settings(max_examples=40, deadline=None)
@given(counts, st.lists(numbers, min_size=3, max_size=3), st.booleans())
def test_any_counts_and_losses_come_back(
    right: list[int], lost: list[float | None], own_score: bool
) -> None:
    changes: dict[str, Any] = {}
    for index, (count, loss) in enumerate(zip(right, lost, strict=True)):
        share = count / 384
        row = {"num_samples": 384, "sequence_accuracy": share, "loss": loss}
        row["score"] = share / 3 if own_score else share
        changes |= {f"rows.{index}.{name}": value for name, value in row.items()}
    made = changed(record("rope", {1: 1.0, 2: 0.5, 4: 0.0}), changes)
    shared, trainings = Shelf(), Shelf()
    line = json.loads(json.dumps(packed(made, shared, trainings)))
    found = Record.model_validate(unpacked(line, shared.parts, trainings.parts))
    for row, before in zip(found.rows, made.rows, strict=True):
        assert row.sequence_accuracy == before.sequence_accuracy
        assert row.score == pytest.approx(before.score, rel=1e-5, abs=0)
        expected = before.loss if before.loss is None else float(f"{before.loss:.4g}")
        assert row.loss == expected


@pytest.mark.parametrize("count", [None, 1, 2, 64])
def test_the_number_of_threads_is_written_only_where_there_were_several(count: int | None) -> None:
    """So that what is published stays as it is; of one thread a line says as little as of none."""
    made = changed(record(), {"training.threads": count, "evaluated.threads": count})
    shared, trainings = Shelf(), Shelf()
    line = json.loads(json.dumps(packed(made, shared, trainings)))
    origins = [part for part in shared.parts.values() if "commit" in part]
    several = None if count in (None, 1) else count
    assert origins and all(part.get("threads") == several for part in origins)
    found = Record.model_validate(unpacked(line, shared.parts, trainings.parts))
    assert (found.training.threads, found.evaluated.threads) == (several, several)
    again, of_them = Shelf(), Shelf()
    assert json.loads(json.dumps(packed(found, again, of_them))) == line
    assert (again.parts, of_them.parts) == (shared.parts, trainings.parts)


def test_only_a_training_made_in_step_with_others_says_so() -> None:
    for count in (1, 3):
        made, shared, trainings = changed(record(), {"training.replicas": count}), Shelf(), Shelf()
        line = packed(made, shared, trainings)
        [training] = trainings.parts.values()
        assert training.get("replicas") == (None if count == 1 else 3)
        found = Record.model_validate(unpacked(line, shared.parts, trainings.parts))
        assert found.training.replicas == count


# -- files -----------------------------------------------------------------------------------------


def many() -> list[Record]:
    return [
        record(method, {1: 1.0, 2: seed / 10}, seed, task=task)
        for method in ("rope", "alibi", "rope (encoding.base=5)")
        for seed in (2, 0, 10)
        for task in ("copy", "passkey")
    ] + [*KINDS.values()]


def test_the_same_records_in_another_order_give_the_same_bytes() -> None:
    found = many()
    first = packing.pack(found)
    for number in range(5):
        random.Random(number).shuffle(found)
        assert packing.pack(found) == first
    assert set(first) == {
        "records/copy.jsonl",
        "records/passkey.jsonl",
        f"records/{KINDS['settings that were changed'].task.slug}.jsonl",
        "trainings.jsonl",
        "shared.jsonl",
    }


def test_publishing_in_parts_gives_the_bytes_of_publishing_at_once(tmp_path: Path) -> None:
    found = [each for each in many() if each not in KINDS.values()]
    publish(found, [], tmp_path / "once")
    for each in reversed(found):
        publish([each], [], tmp_path / "parts")

    def contents(folder: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert contents(tmp_path / "once") == contents(tmp_path / "parts")


def test_what_is_published_is_all_that_is_there(tmp_path: Path) -> None:
    published(tmp_path, record(), record(task="passkey"))
    assert published(tmp_path, record()) == [record()]
    assert not (tmp_path / "records" / "passkey.jsonl").exists()


def test_records_of_ones_own_and_published_ones_stand_side_by_side(tmp_path: Path) -> None:
    published(tmp_path, record("alibi"))
    save(tmp_path, record("rope"))
    assert set(results.load(tmp_path)["method"]) == {"alibi", "rope"}


def test_trainings_of_one_hash_that_took_other_times_stay_apart(tmp_path: Path) -> None:
    """Weights are shared by their hash alone; two sweeps may have made the same ones."""
    one = record("rope")
    other = changed(record("rope_ntk"), {"training": one.training, "training.cpu_seconds": 99.0})
    same = changed(record("rope_pi"), {"training": one.training})
    assert one.training.hash == other.training.hash == same.training.hash
    found = {each.method.name: each for each in published(tmp_path, one, other, same)}
    assert found["rope"].training.cpu_seconds == found["rope_pi"].training.cpu_seconds == 60.0
    assert found["rope_ntk"].training.cpu_seconds == 99.0
    assert (tmp_path / "trainings.jsonl").read_text().count("\n") == 2


def test_a_line_is_small_and_what_records_share_is_there_once(tmp_path: Path) -> None:
    """A run like those of the published boards has nine test lengths and two views."""
    multiples = (1, 1.25, 1.5, 2, 3, 4, 6, 8, 16)
    found = []
    for seed in range(20):
        rng = random.Random(seed)
        made = record("rope_ntk", {m: rng.randrange(385) / 384 for m in multiples}, seed)
        changes: dict[str, Any] = {}
        for index in range(len(multiples)):
            changes[f"rows.{index}.num_samples"] = 384
            changes[f"rows.{index}.loss"] = rng.random()
            changes[f"rows.{index}.correct_prefix"] = rng.random()
        bins = [(k / 10, (k + 1) / 10, 77, rng.randrange(78) / 77, rng.random()) for k in range(10)]
        changes["views"] = [view("depth", 20, *bins), view("distance", 40, *bins)]
        changes["config.task"] = {"_target_": "nowhere.Task", "text": "x" * 3000}
        found.append(changed(made, changes))
    contents = packing.pack(found)
    lines = contents["records/copy.jsonl"].splitlines()
    assert len(lines) == 20 and max(map(len, lines)) < 3000
    assert contents["shared.jsonl"].count("x" * 3000) == 1


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    published(tmp_path, record("alibi"), record("nope"), record("rope"))
    return tmp_path


def sentence(folder: Path) -> str:
    """What is said of the folder, by all that reads it."""
    with pytest.raises(PosbenchError) as raised:
        files.records(folder)
    said = str(raised.value)
    assert "\n" not in said
    assert files.read_folder(folder).unreadable[0] == said
    return said


def in_line(path: Path, number: int, old: str, new: str) -> None:
    lines = path.read_text().splitlines()
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    path.write_text("".join(f"{line}\n" for line in lines))


def left(folder: Path) -> list[str]:
    return [each.method.name for each in files.read_folder(folder).records]


def test_a_truncated_line_is_named_and_the_others_are_read(folder: Path) -> None:
    path = folder / "records" / "copy.jsonl"
    path.write_text(path.read_text()[:-40])
    said = sentence(folder)
    assert said.startswith(f"{path}, line 3 is not JSON") and "take it from its commit" in said
    assert left(folder) == ["alibi", "nope"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"seed":0', '"seed":"zero"', "seed"),
        ('"seed":0', '"seed":99999999999999999999999', "seed"),
        ('"sequence_accuracy":[16,8]', '"sequence_accuracy":[16,17]', "rows.1.score"),
        ('"sequence_accuracy":[16,8]', '"sequence_accuracy":[16]', "cannot be unpacked"),
        ('"training":"', '"training":"x', "is not there"),
        ('"rows":', '"lines":', "rows is not there"),
        ('"schema_version":4', '"schema_version":99', "upgrade posbench"),
        ('"schema_version":4', '"schema_version":2', "repeat the run"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_the_others_are_read(
    folder: Path, old: str, new: str, named: str
) -> None:
    path = folder / "records" / "copy.jsonl"
    in_line(path, 2, old, new)
    said = sentence(folder)
    assert said.startswith(f"{path}, line 2 ") and named in said
    assert left(folder) == ["alibi", "rope"]


def test_a_line_that_is_no_object_is_named(folder: Path) -> None:
    path = folder / "records" / "copy.jsonl"
    path.write_text("[1]\n" + path.read_text())
    assert sentence(folder).startswith(f"{path}, line 1 is not a JSON object")
    assert len(left(folder)) == 3


def test_a_shared_part_that_is_missing_is_named_with_each_line_that_needs_it(folder: Path) -> None:
    path = folder / "shared.jsonl"
    needed = json.loads((folder / "records" / "copy.jsonl").read_text().splitlines()[0])["task"]
    lines = [line for line in path.read_text().splitlines(True) if needed not in line]
    path.write_text("".join(lines))
    said = sentence(folder)
    assert said.startswith(f"{folder / 'records' / 'copy.jsonl'}, line 1 ") and needed in said
    assert "take all files of the folder from one commit" in said
    assert len(files.read_folder(folder).unreadable) == 3 and left(folder) == []


@pytest.mark.parametrize("name", ["shared", "trainings"])
def test_a_missing_file_is_named_once(folder: Path, name: str) -> None:
    path = folder / f"{name}.jsonl"
    path.unlink()
    assert sentence(folder).startswith(f"{path} cannot be read (No such file or directory)")
    save(folder, record("own"))
    assert len(files.read_folder(folder).unreadable) == 1 and left(folder) == ["own"]


@pytest.mark.parametrize("name", ["shared", "trainings"])
@pytest.mark.parametrize("line", ["{", "[1]", '{"id": "1"}', "null"])
def test_a_bad_line_of_a_shared_file_is_named_once(folder: Path, name: str, line: str) -> None:
    path = folder / f"{name}.jsonl"
    path.write_text(path.read_text() + line + "\n")
    number = path.read_text().count("\n")
    assert sentence(folder).startswith(f"{path}, line {number} ")
    assert len(files.read_folder(folder).unreadable) == 1


def test_a_file_that_is_no_text_is_named(folder: Path) -> None:
    for path in (folder / "records" / "copy.jsonl", folder / "shared.jsonl"):
        before = path.read_bytes()
        path.write_bytes(b"\xff\xfe\x00")
        assert sentence(folder).startswith(f"{path} cannot be read")
        path.write_bytes(before)


def test_a_file_that_is_no_text_stops_no_other_file(tmp_path: Path) -> None:
    published(tmp_path, record(task="copy"), record(task="sort"))
    (tmp_path / "records" / "copy.jsonl").write_bytes(b"\xff\xfe\x00")
    held = files.read_folder(tmp_path)
    assert [each.task.name for each in held.records] == ["sort"] and len(held.unreadable) == 1


@pytest.mark.parametrize("line", ["{", "[]", '{"protocol": "cpu"}'])
def test_a_bad_line_of_the_audits_is_named(folder: Path, line: str) -> None:
    (folder / "audits.jsonl").write_text(line + "\n")
    with pytest.raises(PosbenchError) as raised:
        files.read_folder(folder).whole()
    assert str(raised.value).startswith(f"{folder / 'audits.jsonl'}, line 1 ")
    assert len(files.records(folder)) == 3 and len(files.read_folder(folder).unreadable) == 1
