"""Records as tables: one row a run and test length, and what else can be distinguished."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic.fields import FieldInfo

from posbench.base.errors import PosbenchError
from posbench.core.row import Part, Row, Unit
from posbench.records.record import Record


class RunColumns(Part):
    """What a row of the long table says of its run, before the measures of `Row`."""

    protocol_chosen: str
    """Name of the protocol, whatever settings were changed."""
    protocol: str
    """Name, with the settings that were changed."""
    protocol_hash: str
    """Hash of its content."""
    task: str
    """Name, with the settings that were changed."""
    task_hash: str
    """Hash of its content."""
    task_version: int
    """Counts changes of the task that alter a token."""
    task_changed: bool
    """Whether settings of the task differ from its own."""
    measure: str
    """What the score is."""
    method: str
    """Name, with the settings that were changed."""
    method_hash: str
    """Hash of its content."""
    encoding: str
    """Name, with its host where it has another than its own."""
    extension: str
    """Name; of several, their names in order."""
    changed: str
    """Settings of the method that differ from its own, with commas."""
    plain: bool
    """The encoding as it was trained, without an extension."""
    method_class: str
    """Rows are ranked within their class."""
    seed: int
    """What initialisation, data and tests are drawn with."""
    train_length: Annotated[int, Unit("n")]
    """Longest task length n in training."""
    train_positions: Annotated[int, Unit("positions")]
    """Largest position in training plus one."""
    training_hash: str
    """Hash of all that the weights depend on: runs share them."""
    parameters: Annotated[int, Unit("numbers")]
    """Trained numbers, embeddings included."""
    solved: bool
    """The test at the training length reached the score of the gate."""
    solved_step: Annotated[float | None, Unit("steps")]
    """First validation with that score."""
    step_multiplications: Annotated[float | None, Unit("products")]
    """Those of one training step, at the longest trained length; none: the record is older."""
    multiplications: Annotated[float | None, Unit("products")]
    """Those of the training up to `solved_step`."""
    train_cpu_seconds: Annotated[float, Unit("s")]
    """Training, and what the row did before its test."""
    train_gpu_seconds: Annotated[float, Unit("s")]
    """The shared training, where it held a GPU."""
    source_hash: str
    """Hash of the code that trained it."""

    @classmethod
    def of(cls, record: Record) -> RunColumns:
        training = record.training
        return cls(
            protocol_chosen=record.protocol.name,
            protocol=record.protocol.label,
            protocol_hash=record.protocol.hash,
            task=record.task.label,
            task_hash=record.task.hash,
            task_version=record.task_version,
            task_changed=bool(record.task.changed),
            measure=record.measure,
            method=record.method.label,
            method_hash=record.method.hash,
            encoding=record.method.base,
            extension=record.method.extension,
            changed=", ".join(record.method.changed),
            plain=record.plain,
            method_class=record.method_class,
            seed=record.seed,
            train_length=training.train_length,
            train_positions=training.train_positions,
            training_hash=training.hash,
            parameters=training.parameters,
            solved=record.solved,
            solved_step=record.solved_step,
            step_multiplications=training.multiplications,
            multiplications=_product(record.solved_step, training.multiplications),
            train_cpu_seconds=record.cpu_seconds,
            train_gpu_seconds=training.gpu_seconds,
            source_hash=training.source_hash,
        )


def _product(steps: int | None, each: int | None) -> int | None:
    return None if steps is None or each is None else steps * each


FIELDS: dict[str, FieldInfo] = {**RunColumns.model_fields, **Row.model_fields}
"""The columns of the long table, in order."""


def _dtype(field: FieldInfo) -> str:
    """How pandas holds a column; a number that may be lacking is a float, and then NaN."""
    kinds = {int: "int64", float: "float64", bool: "bool", str: "str"}
    named = [part for part in _parts(field.annotation) if part in kinds]
    return "float64" if float in named else kinds[named[0]]


def _parts(annotation: Any) -> list[Any]:
    arguments = typing.get_args(annotation)
    return [part for each in arguments for part in _parts(each)] if arguments else [annotation]


COLUMNS = {name: _dtype(field) for name, field in FIELDS.items()}
"""Column -> its type in pandas."""


def documentation() -> pd.DataFrame:
    """What each column of the long table means, its type and its unit."""
    return pd.DataFrame(
        [
            {
                "column": name,
                "type": COLUMNS[name],
                "unit": next((each for each in field.metadata if isinstance(each, Unit)), ""),
                "meaning": field.description,
            }
            for name, field in FIELDS.items()
        ]
    )


CONTENTS = ["protocol_hash", "task_hash", "task_version", "method_hash"]
"""What a run is of, whatever it is called."""
NAMES = ["protocol", "task", "method"]
RUN = [*NAMES, *CONTENTS, "seed"]
"""What distinguishes runs in all tables: the same settings may have two names, each with runs."""
BINNED = ("above", "up_to", "num_tokens", "token_accuracy_teacher_forced", "loss")


def latest(found: Iterable[Record]) -> list[Record]:
    """The last record of each run.

    A run that was repeated with other code has an older record beside it, `seed=0.<hash>.json`,
    which comes first in the order of paths. It is left out whole: it may have been tested at
    lengths at which the newer one was not.
    """
    return list({record.run: record for record in found}.values())


def run_of(record: Record) -> dict[str, Any]:
    """What distinguishes a run, by the columns of `RUN`."""
    labels = (record.protocol.label, record.task.label, record.method.label)
    hashes = (record.protocol.hash, record.task.hash, record.task_version, record.method.hash)
    return dict(zip(RUN, (*labels, *hashes, record.seed), strict=True))


def table(found: Iterable[Record]) -> pd.DataFrame:
    """The long table: one row a (run, test length); `documentation` says what its columns mean."""
    # Column by column: a dictionary a row takes four times as long.
    # Of each record no more is kept than is shown, and of each run the last, as by `latest`.
    kept = {record.run: (RunColumns.of(record).__dict__, record.rows) for record in found}
    runs = [run for run, _ in kept.values()]
    rows = [row.__dict__ for _, several in kept.values() for row in several]
    places = np.repeat(np.arange(len(runs)), [len(several) for _, several in kept.values()])
    columns = {name: _column(name, runs).take(places) for name in RunColumns.model_fields}
    columns |= {name: _column(name, rows) for name in Row.model_fields}
    return pd.DataFrame(columns, columns=list(COLUMNS))


def refuse_mixed(table: pd.DataFrame, names: Sequence[str]) -> None:
    """PosbenchError if runs that go by the same names are not of one content, as after a change of
    a default or of a task: their scores have no common mean. It says in which column they differ.

    Args:
        table: the long table, or other rows with the names, `seed` and `multiple`
        names: columns that choose what a mean is taken over
    """
    contents = [column for column in CONTENTS if column in table]
    kinds = table[[*names, *contents]].drop_duplicates()
    several = kinds[kinds.duplicated([*names], keep=False)]
    if len(several):
        mine = several[(several[[*names]] == several[[*names]].iloc[0]).all(axis=1)]
        column = next(column for column in contents if mine[column].nunique() > 1)
        values = " and ".join(map(str, mine[column].unique()))
        raise PosbenchError(
            f"{_called(mine, names)} has runs of {column} {values}, which have no common mean: "
            "keep those of one"
        )
    again = table[table.duplicated([*names, "seed", "multiple"])]
    if len(again):
        first = again.iloc[0]
        raise PosbenchError(
            f"{_called(again, names)} is there twice with seed {first['seed']} at "
            f"{first['multiple']:g}x: keep one of the two"
        )


def _called(table: pd.DataFrame, names: Sequence[str]) -> str:
    """What the first row goes by, as in "task=copy, method=rope"."""
    return ", ".join(f"{name}={table[name].iloc[0]}" for name in names)


def _column(name: str, parts: Sequence[dict[str, Any]]) -> Any:
    return pd.array([part[name] for part in parts], dtype=COLUMNS[name])


def views(found: Iterable[Record]) -> pd.DataFrame:
    """The second long table: one row a run, test length and bin of a view."""
    rows = []
    for record in latest(found):
        run = run_of(record)
        for view in record.views:
            where = run | {"test_length": view.test_length, "by": view.by}
            bins = zip(*(getattr(view, name) for name in BINNED), strict=True)
            rows += [where | dict(zip(BINNED, values, strict=True)) for values in bins]
    return pd.DataFrame(rows, columns=[*RUN, "test_length", "by", *BINNED])


SUMMED = ("tokens", "nats", "right")


def by_text(found: Iterable[Record]) -> pd.DataFrame:
    """One row a run, test length and text, of tasks that ask for the same tokens at each length."""
    rows: list[dict[str, Any]] = []
    for record in latest(found):
        if record.by_text is None:
            continue
        multiples = {row.test_length: row.multiple for row in record.rows}
        for test in record.by_text.tests:
            where = run_of(record) | {"multiple": multiples[test.test_length]}
            columns = [record.by_text.names, *(getattr(test, name) for name in SUMMED)]
            for values in zip(*columns, strict=True):
                rows.append(where | dict(zip(("text", *SUMMED), values, strict=True)))
    table = pd.DataFrame(rows, columns=[*RUN, "multiple", "text", *SUMMED])
    return table[table["tokens"] > 0].astype({"nats": float})


def choices(found: Iterable[Record]) -> pd.DataFrame:
    """The third: one row for each run that chose settings: an extension's, or a learning rate."""
    rows = []
    for record in latest(found):
        chosen = dict(record.search.chosen) if record.search else {}
        if record.training.learning_rates:
            chosen["learning_rate"] = record.training.learning_rate
        elif not record.search:
            continue
        rows.append(run_of(record) | {"chosen": chosen})
    return pd.DataFrame(rows, columns=[*RUN, "chosen"])
