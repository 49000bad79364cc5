"""What a record is: every column has a meaning, and a bad value is one sentence with its place."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from making import DIRECT, altered, changed, plain, record, save, searched
from rich.console import Console

from posbench import results
from posbench.base.content_hash import content_hash
from posbench.base.errors import PosbenchError
from posbench.config.names import MethodName, Name
from posbench.records import files, tables
from posbench.records.record import SCHEMA, Record
from posbench.running import scores
from posbench.sharing.command import main as results_command
from posbench.statistics.measures import of_runs

# -- bad records -----------------------------------------------------------------------------------

REPEAT, UPGRADE = "repeat the run", "upgrade posbench"
LARGE = 99999999999999999999999


def with_value(place: str, value: Any) -> bytes:
    return json.dumps(altered(record(), {place: value})).encode()


def without(*parts: str) -> bytes:
    content = record().as_json()
    for part in parts:
        *path, last = [int(word) if word.isdigit() else word for word in part.split(".")]
        inside: Any = content
        for word in path:
            inside = inside[word]
        del inside[last]
    return json.dumps(content).encode()


BAD: dict[str, tuple[bytes, str, str]] = {
    "cut off": (b'{"schema_version": 4, "proto', "not a readable record", REPEAT),
    "empty": (b"", "not a readable record", REPEAT),
    "not text": (b"\xff\xfe\x00", "not a readable record", REPEAT),
    "a list": (b"[1, 2]", "record schema None", REPEAT),
    "no schema": (b"{}", "record schema None", REPEAT),
    "schema 99": (b'{"schema_version": 99}', "record schema 99", UPGRADE),
    "schema 3": (b'{"schema_version": 3}', "record schema 3", REPEAT),
    "nothing but a schema": (b'{"schema_version": 4}', "protocol", REPEAT),
    "no task": (without("task"), "task: field required", REPEAT),
    "no training": (without("training", "rows"), "training: field required", REPEAT),
    "an unknown part": (with_value("timings", {}), "timings", REPEAT),
    "no rows": (with_value("rows", []), "rows", REPEAT),
    "a score of 'high'": (with_value("rows.1.score", "high"), "rows.1.score", REPEAT),
    "a score of 7": (with_value("rows.1.score", 7), "rows.1.score", REPEAT),
    "a score below -1": (with_value("rows.1.score", -1.5), "rows.1.score", REPEAT),
    "no score": (with_value("rows.1.score", None), "rows.1.score", REPEAT),
    "an accuracy of 2": (
        with_value("rows.0.sequence_accuracy", 2),
        "rows.0.sequence_accuracy",
        REPEAT,
    ),
    "a seed of 'zero'": (with_value("seed", "zero"), "seed", REPEAT),
    "a seed below 0": (with_value("seed", -1), "seed", REPEAT),
    "a seed too large": (with_value("seed", LARGE), "seed", REPEAT),
    "a method that is a text": (with_value("method", "rope"), "method", REPEAT),
    "a method without a hash": (with_value("method", {"name": "rope"}), "method.hash", REPEAT),
    "no settings": (with_value("config", {}), "config", REPEAT),
    "settings without tests": (without("config.evaluation"), "evaluation", REPEAT),
    "a task that leads elsewhere": (with_value("task.name", "../../evil"), "task.name", REPEAT),
    "an absolute protocol": (with_value("protocol.name", "/evil"), "protocol.name", REPEAT),
    "a method that hides": (with_value("method.name", ".evil"), "method.name", REPEAT),
    "a method without a name": (with_value("method.name", ""), "method.name", REPEAT),
    "a method of two lines": (with_value("method.name", "e\nvil"), "method.name", REPEAT),
    "a task for another system": (with_value("task.name", "..\\evil"), "task.name", REPEAT),
    "a hash that leads elsewhere": (with_value("task.hash", "../../.."), "task.hash", REPEAT),
    "no gate": (without("gate"), "gate: field required", REPEAT),
    "no multiple of positions": (without("rows.0.true_multiple"), "rows.0.true_multiple", REPEAT),
    "no proficiency": (without("rows.0.proficiency"), "rows.0.proficiency", REPEAT),
    "an extension that is a text": (with_value("config.extension", "ntk"), "extension", REPEAT),
}


@pytest.mark.parametrize(("content", "named", "advice"), BAD.values(), ids=BAD)
def test_a_bad_record_is_one_sentence_with_file_field_and_what_to_do(
    tmp_path: Path, content: bytes, named: str, advice: str
) -> None:
    [path] = save(tmp_path, record())
    path.write_bytes(content)
    for read in (lambda: files.read(path), lambda: results.load(tmp_path)):
        with pytest.raises(PosbenchError) as raised:
            read()
        said = str(raised.value)
        assert said.startswith(f"{path} ") and named in said
        assert advice in said.rpartition(": ")[2]
        assert "\n" not in said and "Traceback" not in said


def test_a_value_that_belongs_to_another_type_but_says_the_same_is_read(tmp_path: Path) -> None:
    [path] = save(tmp_path, record())
    path.write_bytes(with_value("rows.0.score", 1))
    assert files.read(path) == record()


def test_seeds_up_to_the_largest_fit_into_the_table(tmp_path: Path) -> None:
    save(tmp_path, record(seed=2**63 - 1))
    assert set(results.load(tmp_path)["seed"]) == {2**63 - 1}


def test_a_record_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    made = changed(record(), {"diverged": "the loss became nan", "method.changed": ["a=1"]})
    [path] = save(tmp_path, made)
    assert files.read(path) == made and json.loads(path.read_text())["schema_version"] == SCHEMA


# -- names -----------------------------------------------------------------------------------------


def test_a_name_with_changed_settings_has_a_label_for_people_and_a_slug_for_folders() -> None:
    own = Name(name="copy", hash="1234567890abcdef")
    assert (own.label, own.slug) == ("copy", "copy")
    other = Name(name="copy", changed=("task.a=1", "task.b=2"), hash="1234567890abcdef")
    assert (other.label, other.slug) == ("copy (task.a=1, task.b=2)", "copy-12345678")


def test_a_method_knows_its_encoding_without_the_extension() -> None:
    method = MethodName(
        name="ssmax-alibi+yarn",
        changed=("encoding.base=500", "extension.scale=4"),
        hash="1234567890abcdef",
        encoding="ssmax",
        host="alibi",
        extension="yarn",
        encoding_changed=("encoding.base=500",),
    )
    assert (method.base, method.base_label) == ("ssmax-alibi", "ssmax-alibi (encoding.base=500)")
    assert method.label == "ssmax-alibi+yarn (encoding.base=500, extension.scale=4)"


# -- what follows from the parts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracies", "solved"),
    [({1: 0.95, 2: 0.0}, True), ({1: 0.94, 2: 1.0}, False), ({2: 1.0}, False)],
)
def test_solved_is_what_the_test_at_the_training_length_says(
    accuracies: dict[float, float], solved: bool
) -> None:
    assert record("rope", accuracies).solved is solved


def test_the_gate_is_that_of_the_task() -> None:
    found = record("rope", {1: 0.9, 2: 0.0})
    assert changed(found, {"gate": 0.9}).solved and not found.solved


def test_what_is_held_against_the_gate_is_the_proficiency() -> None:
    found = record("rope", {1: 0.9, 2: 1.0})
    assert changed(found, {"rows.0.proficiency": 0.95}).solved
    assert not changed(found, {"rows.0.score": 0.95}).solved
    assert not changed(found, {"rows.1.proficiency": 1.0}).solved


@pytest.mark.parametrize(
    ("score", "chance", "corrected"),
    [(1.0, 0.25, 1.0), (0.25, 0.25, 0.0), (0.625, 0.25, 0.5), (0.0, 0.25, -1 / 3), (0.5, 0, 0.5)],
)
def test_a_score_is_corrected_for_chance(score: float, chance: float, corrected: float) -> None:
    [row, *_] = changed(record(), {"rows.0.score": score, "rows.0.chance": chance}).rows
    assert row.corrected == pytest.approx(corrected)


def test_an_extension_that_changes_nothing_is_plain_wherever_its_class_stands() -> None:
    assert plain(record()).plain and not record().plain
    moved = {"config.extension": DIRECT | {"_target_": "posbench.extensions.other.Direct"}}
    assert changed(record(), moved).plain
    assert not changed(record(), {"config.extension": DIRECT | {"scale": 2}}).plain


def test_the_hash_of_a_training_is_that_of_its_settings_and_its_code() -> None:
    training = record().training
    expected = content_hash([training.settings_hash, training.source_hash])
    assert training.hash == expected
    for field in ("settings_hash", "source_hash"):
        assert changed(record(), {f"training.{field}": "1"}).training.hash != expected


def test_cpu_seconds_count_a_search_and_no_other_preparation() -> None:
    """Of a row without a search it is a further training, which is counted, and reading weights."""
    spent = {
        "evaluated.preparation_cpu_seconds": 3.0,
        "evaluated.further_training_cpu_seconds": 5.0,
    }
    assert changed(record(), spent).cpu_seconds == 65
    assert changed(record(), spent | {"search": searched({"scale": 2.0})}).cpu_seconds == 68


def test_gpu_seconds_are_those_of_the_shared_training_on_a_gpu() -> None:
    assert record().training.gpu_seconds == 0
    on_gpu = changed(record(), {"training.device": "NVIDIA H200", "training.wall_seconds": 30.0})
    assert on_gpu.training.gpu_seconds == 30


# -- the long table --------------------------------------------------------------------------------


def test_every_column_has_a_meaning_and_what_is_measured_a_unit() -> None:
    said = tables.documentation().set_index("column")
    assert list(said.index) == list(tables.table([]).columns) == list(tables.COLUMNS)
    assert all(meaning and meaning.endswith(".") for meaning in said["meaning"])
    no_unit = said.index[said["unit"] == ""]
    assert {*no_unit} == {
        *said.index[said["type"].isin(["str", "bool"])],
        "task_version",
        "seed",
    }, "all that is measured is measured in something"
    assert set(said["type"]) == {"str", "bool", "int64", "float64"}


def test_the_columns_are_printed_with_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert results_command(["columns"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(tables.COLUMNS)
    [line] = [line for line in lines if line.startswith("train_length")]
    assert line.split()[:3] == ["train_length", "int64", "n"] and "task length" in line


CHECKED: dict[str, Callable[[pd.Series], bool]] = {
    "protocol_chosen": lambda column: set(column) == {"smoke"},
    "protocol": lambda column: set(column) == {"smoke (training.steps=10)"},
    "task": lambda column: set(column) == {"copy (task.num_symbols=8)"},
    "task_changed": lambda column: set(column) == {True},
    "method": lambda column: set(column) == {"a (encoding.base=5, extension.scale=4)"},
    "encoding": lambda column: set(column) == {"rope-alibi"},
    "extension": lambda column: set(column) == {"yarn"},
    "changed": lambda column: set(column) == {"encoding.base=5, extension.scale=4"},
    "num_tokens": lambda column: column.tolist() == [176, 336],
    "num_tokens_within": lambda column: column.tolist() == [160, 0],
    "num_tokens_beyond": lambda column: column.tolist() == [0, 320],
}


def test_names_and_changes_have_columns_of_their_own() -> None:
    made = record(
        "a (encoding.base=5, extension.scale=4)",
        protocol="smoke (training.steps=10)",
        task="copy (task.num_symbols=8)",
        encoding="rope",
        host="alibi",
        extension="yarn",
    )
    table = tables.table([made])
    for name, holds in CHECKED.items():
        assert holds(table[name]), f"{name}: {table[name].tolist()}"


def test_the_table_of_a_run_says_where_its_loss_is_no_number() -> None:
    whole = record("rope", {1: 1.0, 2: 0.0, 4: 0.0})
    assert scores.table(whole, None).caption is None
    lost = changed(whole, {"rows.1.loss": None, "rows.2.loss": None})
    said = str(scores.table(lost, None).caption)
    assert said.startswith("At 2x, 4x the loss is no number: ")


def said_by(made: Record, base: Record | None) -> list[str]:
    """The lines that a run ends with, below its table."""
    terminal = Console(file=io.StringIO(), width=100, soft_wrap=True)
    terminal.print(scores.result(made, None if base is None else base.rows))
    out = terminal.file.getvalue()  # type: ignore[attr-defined]
    return [line for line in out.splitlines() if line.startswith(("The gate", "Area"))]


def test_a_run_ends_with_the_area_and_the_reach_that_a_board_gives_it() -> None:
    made, base = record("rope_ntk", {1: 1.0, 2: 0.75, 4: 0.25, 8: 0.0}), record("rope", {1: 1.0})
    far, near = tables.table([made]), tables.table([base])
    ours, plain = (of_runs(table).iloc[0] for table in (far, near))
    assert said_by(made, None) == [
        "The gate of the task is 0.95 at 1x: learned.",
        f"Area from 1x to 8x, corrected for chance: rope_ntk {ours['area']:.3f} "
        f"(half at {ours['reach']}x).",
    ]
    assert 0.4 < ours["area"] < 0.6 and str(ours["reach"]) == "2.83"
    assert np.isnan(plain["area"]) and len(said_by(base, None)) == 1  # 8x was not tested


def test_a_run_has_learned_if_its_training_has_without_the_extension() -> None:
    right, wrong = {1: 1.0, 8: 1.0}, {1: 0.0, 8: 0.0}
    made = record("rope_pi", wrong, encoding="rope", extension="pi")
    base = record("rope", right)
    gate, area = said_by(made, base)
    assert gate.endswith(": learned.")
    assert area.endswith("rope_pi 0.000 (half at < 1x), rope 1.000 (half at > 8x).")
    assert said_by(made, made)[0].endswith("not learned, so that longer lengths say little.")
    # Where the weights are elsewhere, the record alone says what training has learned.
    lost = made.model_copy(update={"solved_step": 300})
    assert said_by(lost, None)[0].endswith("learned at step 300, and lost with the extension.")
    unknown = made.model_copy(update={"solved_step": None})
    assert "without it these weights are not tested here" in said_by(unknown, None)[0]


def test_the_table_of_a_run_cuts_no_name() -> None:
    terminal, long = Console(file=io.StringIO(), width=60), "rope_" + 20 * "long"
    terminal.print(scores.table(record(method=long), None))
    said = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in said and said.count("long") > 15
