"""The metrics of a run by the names that dashboards know them by, and what they group runs by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from posbench.config.identity import Identity, title
from posbench.config.methods import AS_TRAINED
from posbench.core.row import Row
from posbench.records.record import Record
from posbench.statistics.measures import area, reach

METHOD = "method"
"""What runs are grouped by, so that seeds are drawn as one line with its spread."""
STEP = "trainer/global_step"
"""What Lightning's logger of W&B calls the step of a training."""
CURVE = ("train/loss", "validation/loss", "validation/score")
"""Metrics of a training, drawn against its step; `posbench.core.training` logs them."""
EVERY = 10
"""Steps from one line of `OF_STEPS` to the next."""
OF_STEPS = (
    "train/step_loss",
    "train/learning_rate",
    "train/gradient_norm",
    "train/tokens_per_second",
)
"""Metrics of single steps: the loss of the batch, the rate, the norm before it is clipped."""
LENGTH = "test/length"
CELLS, DEPTH_MAP = "cells", "depth_map"
"""All that was measured, as a table; the accuracy by length and depth, as a picture."""
AREA, REACH, SOLVED_STEP, TRAIN_SECONDS = "area", "reach", "solved_step", "train_cpu_seconds"
"""Values of a summary."""


def tested(column: str) -> str:
    """A column of the tests: "test/score"."""
    return f"test/{column}"


def score_at(multiple: float) -> str:
    """The score at a multiple, in a summary: "score_8x"."""
    return f"score_{multiple:g}x"


# -- what dashboards are told of a run -------------------------------------------------------------

# Libraries differ in how they take it; see the other modules here. Nothing in this one imports any
# of them.

TESTED = ("score", "sequence_accuracy", "token_accuracy_teacher_forced", "loss", "multiple")
"""Columns of a row that are drawn against the test length."""
SUMMARISED = (1, 2, 4, 8)
"""Multiples whose scores a summary holds."""
LONGEST_TAG = 64
"""Characters; W&B refuses a run with a longer tag."""


@dataclass(frozen=True)
class About:
    """What is known of a run before it begins."""

    title: str
    group: str  # runs that differ in their seed alone: "cpu/copy/rope_yarn"
    job_type: str  # "encoding", or "extension" where an extension is tested
    tags: tuple[str, ...]
    names: dict[str, Any]  # what runs are grouped and filtered by
    id: str = ""  # of what the run finds, the same when it is made again; "": a new one

    @classmethod
    def of(cls, run: Identity | Record, seed: int, id: str = "") -> Self:
        protocol, task, method = run.protocol, run.task, run.method
        extended = method.extension != AS_TRAINED
        tags = [protocol.name, task.name, method.base, *([method.extension] if extended else [])]
        return cls(
            title=title(method, task, protocol, seed),
            group="/".join(name.slug for name in (protocol, task, method)),
            job_type="extension" if extended else "encoding",
            tags=tuple(dict.fromkeys(tag[:LONGEST_TAG] for tag in tags)),
            names={
                "protocol": protocol.name,
                "task": task.name,
                METHOD: method.label,
                "seed": seed,
                **{
                    f"{kind}_changes": ", ".join(name.changed)
                    for kind, name in (("protocol", protocol), ("task", task))
                    if name.changed
                },
            },
            id=id,
        )

    def config(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The names at the top, where a sweep has them too, and all settings below them."""
        return self.names | {"settings": dict(settings)}


@runtime_checkable
class Teller(Protocol):
    """What the loggers of this package have in common, besides what Lightning asks of a logger."""

    @property
    def kept(self) -> str:
        """Where it is once it is closed, and how it is looked at or sent; "" if there is no need
        to say so.
        """

    def begin(self, about: About, say: Callable[[str], None]) -> None:
        """Open the run. What keeps it from its server is reported once, and stops nothing."""

    def log_record(self, record: Record) -> None:
        """The tests and the summary of the run, which is complete now."""

    def close(self) -> None:
        """End it; otherwise the next run of a sweep would go on in this one."""


def tests(record: Record) -> Iterator[tuple[int, dict[str, float]]]:
    """The test length n, and what was measured there; what is lacking is left out."""
    for row in record.rows:
        values = {tested(column): getattr(row, column) for column in TESTED}
        yield row.test_length, {key: value for key, value in values.items() if value is not None}


def curve(record: Record) -> Iterator[tuple[int, dict[str, float]]]:
    """The step, and the point of the training's curve there."""
    found = record.training.curve
    points = zip(found.step, found.loss, found.validation_loss, found.score, strict=True)
    for step, *values in points:
        yield step, dict(zip(CURVE, values, strict=True))


def summary(record: Record) -> dict[str, float | str | bool]:
    """One value each: area, reach, some scores, solved, cost, class. What is unknown is left out.

    The reach of a run that holds all its lengths is the last of them, and `reach_is` says "> 8".
    """
    rows = [row for row in record.rows if row.multiple >= 1]
    multiples, scores, chances = (
        [getattr(row, name) for row in rows] for name in ("true_multiple", "score", "chance")
    )
    reached = reach(multiples, scores, chances)
    found: dict[str, Any] = {
        AREA: area(multiples, scores, chances),
        REACH: reached.value,
        "reach_is": str(reached),
        **{score_at(row.multiple): row.score for row in rows if row.multiple in SUMMARISED},
        "solved": record.solved,
        SOLVED_STEP: record.solved_step,
        TRAIN_SECONDS: record.cpu_seconds,
        "train_gpu_seconds": record.training.gpu_seconds,
        "evaluation_cpu_seconds": record.evaluated.evaluation_cpu_seconds,
        "parameters": record.training.parameters,
        "class": record.method_class,
        "diverged": record.diverged is not None,
    }
    return {name: value for name, value in found.items() if _known(value)}


def _known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def cells(record: Record) -> tuple[list[str], list[list[Any]]]:
    """All that was measured: the columns of `Row`, and a row a test length."""
    columns = list(Row.model_fields)
    return columns, [[getattr(row, name) for name in columns] for row in record.rows]
