"""Published records are lines that lose nothing: shares are exact, losses have four digits, and the
same records give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from making import changed, record, save, view

from posbench import results
from posbench.base.errors import PosbenchError
from posbench.records import files, lines
from posbench.records.published import publish, write
from posbench.records.record import Record
from posbench.records.rounding import as_share, rounded
from posbench.sharing.agreement import comparable, differences

COPY = "records/copy.jsonl.gz"
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


def test_a_measure_that_is_that_of_another_is_rounded_as_that_is() -> None:
    """A share has all its digits, and a score of its own six."""
    third = {"rows.1.num_samples": 3, "rows.1.sequence_accuracy": 1 / 3}
    own = {"rows.1.score": 1 / 3, "rows.1.proficiency": 1 / 3}
    made = changed(record("rope", {1: 1.0, 2: 1.0}), third | own)
    same, other = (rounded(each)["rows"][1] for each in (made, changed(made, {"rows.0.score": 0})))
    assert (same["score"], same["proficiency"]) == (1 / 3, 1 / 3)
    assert (other["score"], other["proficiency"]) == (0.333333, 0.333333)


def published(folder: Path, *found: Record) -> list[Record]:
    write(list(found), [], folder)
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
    assert comparable(found) == comparable(made)


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
    ("config.hydra_search", {"training": "os"}),
    ("config.model", {"qk_norm": True}),
]


@pytest.mark.parametrize(("place", "value"), CLAIMED, ids=[place for place, _ in CLAIMED])
def test_all_that_a_record_claims_and_its_command_decides_is_compared(
    place: str, value: Any
) -> None:
    told = changed(record(), {place: value})
    (found,) = differences(comparable(told), comparable(record()))
    assert found.startswith(place)


def test_a_chance_is_compared_to_six_digits() -> None:
    """OpenBLAS chooses its kernel by the processor, and the last digit of a sum goes with it."""
    one, other, wrong = (
        comparable(changed(record(), {"rows.0.chance": value}))
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
    assert comparable(changed(plain, elsewhere)) == comparable(plain)


def test_losses_have_four_digits_and_shares_are_exact(tmp_path: Path) -> None:
    [found] = published(tmp_path, UNEVEN)
    row = found.rows[1]
    assert (row.sequence_accuracy, row.loss) == (128 / 384, 12.35)
    assert (row.token_accuracy_teacher_forced, row.correct_prefix) == (1 / 1152, 0.123457)


@pytest.mark.slow
@given(st.integers(1, 2**20), st.data())
def test_a_share_of_a_count_is_exact(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, total))
    assert as_share(count / total, total) == count / total
    assert as_share(float(f"{count / total:.8f}"), total) == count / total


@example(share=0.5152565858949075, total=1147)
@given(st.one_of(st.none(), st.floats(0, 1)), st.integers(0, 10_000))
def test_a_share_that_is_no_count_keeps_six_digits(share: float | None, total: int) -> None:
    back = as_share(share, total)
    assert (back is None) if share is None else back == pytest.approx(share, rel=1e-5, abs=6e-7)
    assert as_share(back, total) == back, "and again the same"


counts = st.lists(st.integers(0, 384), min_size=3, max_size=3)
numbers = st.one_of(st.none(), st.floats(0, 1e6, allow_subnormal=False))


@pytest.mark.slow
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
    (text,) = lines.contents([made]).values()
    found = Record.model_validate_json(text)
    for row, before in zip(found.rows, made.rows, strict=True):
        assert row.sequence_accuracy == before.sequence_accuracy
        assert row.score == pytest.approx(before.score, rel=1e-5, abs=0)
        expected = before.loss if before.loss is None else float(f"{before.loss:.4g}")
        assert row.loss == expected


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
    first = lines.contents(found)
    for number in range(5):
        random.Random(number).shuffle(found)
        assert lines.contents(found) == first
    assert set(first) == {
        "records/copy.jsonl.gz",
        "records/passkey.jsonl.gz",
        f"records/{KINDS['settings that were changed'].task.slug}.jsonl.gz",
    }


def test_a_file_names_neither_a_time_nor_itself(tmp_path: Path) -> None:
    """So that its bytes are those of its records: RFC 1952, 2.3.1, flags and MTIME."""
    published(tmp_path, record())
    content = (tmp_path / COPY).read_bytes()
    assert content[:8] == bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0])


def test_a_line_is_a_whole_record_that_other_programs_read(tmp_path: Path) -> None:
    made = sorted(many(), key=lambda each: each.task.slug)
    published(tmp_path, *made)
    with gzip.open(tmp_path / COPY, "rt") as opened:
        (first, *_) = opened
    keys = [*json.loads(first)]
    fields = Record.model_fields.keys() - {"by_text"}  # of tasks whose tests ask for the same
    assert keys == sorted(fields), "every field, in this order"
    assert Record.model_validate_json(first) in files.records(tmp_path)


def test_a_file_that_another_zlib_has_compressed_is_left_alone(tmp_path: Path) -> None:
    published(tmp_path, record())
    path = tmp_path / COPY
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1))
    before = path.read_bytes()
    publish([record()], [], tmp_path)
    assert path.read_bytes() == before
    publish([record("alibi")], [], tmp_path)
    assert len(files.records(tmp_path)) == 2 and path.read_bytes() != before


@pytest.mark.slow
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
    assert [path.name for path in tmp_path.rglob("*.*")] == ["copy.jsonl.gz"]


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
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    rewrite(path, "".join(f"{line}\n" for line in lines).encode())


def rewrite(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content))


def left(folder: Path) -> list[str]:
    return [each.method.name for each in files.read_folder(folder).records]


def test_a_line_that_is_cut_off_is_named_and_the_others_are_read(folder: Path) -> None:
    path = folder / COPY
    rewrite(path, gzip.decompress(path.read_bytes())[:-40])
    said = sentence(folder)
    assert said.startswith(f"{path}, line 3 is not JSON") and "take it from its commit" in said
    assert left(folder) == ["alibi", "nope"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"seed":0', '"seed":"zero"', "seed"),
        ('"seed":0', '"seed":99999999999999999999999', "seed"),
        ('"sequence_accuracy":0.5', '"sequence_accuracy":1.5', "rows.1.sequence_accuracy"),
        ('"sequence_accuracy":0.5', '"sequence_accuracy":NaN', "NaN is no number of JSON"),
        ('"num_samples":16', '"num_samples":Infinity', "Infinity is no number of JSON"),
        ('"commit":"c0ffee"', r'"commit":"\ud800"', "is half a character"),
        ('"rows":', '"lines":', "no valid record"),
        ('"schema_version":4', '"schema_version":99', "upgrade posbench"),
        ('"schema_version":4', '"schema_version":2', "repeat the run"),
        ('"schema_version":4,', "", "has record schema None"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_the_others_are_read(
    folder: Path, old: str, new: str, named: str
) -> None:
    path = folder / COPY
    in_line(path, 2, old, new)
    said = sentence(folder)
    assert said.startswith(f"{path}, line 2 ") and named in said
    assert left(folder) == ["alibi", "rope"]


def test_a_text_may_hold_the_names_of_what_is_no_number(tmp_path: Path) -> None:
    made = changed(DIVERGED, {"diverged": "NaN, and -Infinity after it"})
    assert published(tmp_path, made) == [made]


@pytest.mark.parametrize(
    ("line", "said"),
    [(b"[1]", "is not a JSON object"), (b"[" * 100_000, "is not JSON (it is nested too deeply)")],
    ids=["a list", "nested"],
)
def test_a_line_that_is_no_object_is_named(folder: Path, line: bytes, said: str) -> None:
    path = folder / COPY
    rewrite(path, line + b"\n" + gzip.decompress(path.read_bytes()))
    assert sentence(folder).startswith(f"{path}, line 1 {said}")
    assert len(left(folder)) == 3


def test_a_line_that_is_not_utf_8_is_named_and_the_others_are_read(folder: Path) -> None:
    path = folder / COPY
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    rewrite(path, lines[0] + lines[1].replace(b"c0ffee", b"\xff", 1) + lines[2])
    said = sentence(folder)
    assert said.startswith(f"{path}, line 2 is not JSON") and "can't decode byte 0xff" in said
    assert left(folder) == ["alibi", "rope"]


DAMAGES = {
    "the end is missing": (lambda data: data[:-9], "ended before"),
    "the sum is wrong": (lambda data: data[:-8] + bytes(8), "CRC check failed"),
    "a byte is wrong": (lambda data: data[:10] + b"\xff" + data[11:], "invalid"),
    "something follows": (lambda data: data + b"more", "Not a gzipped file"),
    "it is plain text": (gzip.decompress, "Not a gzipped file"),
    "it is no text": (lambda data: b"\xff\xfe\x00", "Not a gzipped file"),
}


@pytest.mark.fault("a file of published records that gzip cannot unpack", times=6)
def test_a_file_that_is_damaged_is_named_and_stops_no_other(tmp_path: Path) -> None:
    for number, (name, (damage, reason)) in enumerate(DAMAGES.items()):
        folder = tmp_path / str(number)
        published(folder, record(task="copy"), record(task="sort"))
        path = folder / COPY
        path.write_bytes(damage(path.read_bytes()))
        said = sentence(folder)
        assert said.startswith(f"{path}, line ") and reason in said, name
        held = files.read_folder(folder)
        assert [each.task.name for each in held.records][-1] == "sort", name
        before = path.read_bytes()
        with pytest.raises(PosbenchError, match="cannot be unpacked"):
            publish([record("alibi")], [], folder)
        assert path.read_bytes() == before, name


BOMBS = {
    "one line": (b"x" * 2**20, 200, "line 1 is not read"),
    "empty lines": (b"\n" * 2**20, 200, f"line {lines.MOST_LINES + 1} is not read"),
}


@pytest.mark.slow
@pytest.mark.fault("a small file that unpacks to a line, or to lines, of gigabytes")
@pytest.mark.parametrize("name", BOMBS)
def test_no_more_is_unpacked_than_a_file_of_records_has(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, count, said = BOMBS[name]
    monkeypatch.setattr(lines, "MOST_LINES", 1000)
    path = tmp_path / COPY
    path.parent.mkdir()
    with gzip.open(path, "wb", compresslevel=1) as opened:
        for _ in range(count):
            opened.write(block)
    tracemalloc.start()
    held = files.read_folder(tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * files.LARGEST and held.records == []
    assert f"{path}, {said.replace(str(100_001), '1001')}" in held.unreadable[-1]


def test_no_more_is_written_than_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_LINES", 2)
    found = [record("rope", seed=seed) for seed in range(3)]
    assert lines.contents(found[:2])
    with pytest.raises(PosbenchError, match="task copy has 3 records, and a file of records has"):
        lines.contents(found)


@pytest.mark.parametrize("line", ["{", "[]", '{"protocol": "cpu"}'])
def test_a_bad_line_of_the_audits_is_named(folder: Path, line: str) -> None:
    (folder / "audits.jsonl").write_text(line + "\n")
    with pytest.raises(PosbenchError) as raised:
        files.read_folder(folder).whole()
    assert str(raised.value).startswith(f"{folder / 'audits.jsonl'}, line 1 ")
    assert len(files.records(folder)) == 3 and len(files.read_folder(folder).unreadable) == 1
