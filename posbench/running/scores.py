"""The scores that a run ends with, and what they come to, made of its record. Imports no torch and
no pandas, so that a run which is complete shows them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter
from rich.console import Group
from rich.table import Table
from rich.text import Text

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_bytes, write_json
from posbench.config.provenance import COMPARED, minor
from posbench.config.source_hash import source_hash
from posbench.core.row import Row
from posbench.records.record import Record
from posbench.statistics.measures import area, reach

ROWS = TypeAdapter(list[Row])
CHECKPOINTS = "checkpoints"
"""The folder of a results folder in which trainings are kept."""
ANNOUNCED, STEP = "posbench: ", "  step "
"""How the lines begin in which a run says what it is, and how far it is."""


def result(record: Record, base: Sequence[Row] | None) -> Group:
    """The table of scores, and below it what a board makes of them."""
    return Group(table(record, base), *(Text(line) for line in _worth(record, base)))


def _worth(record: Record, base: Sequence[Row] | None) -> list[str]:
    """Did it learn the task, and how far does it reach? An extension counts by its training."""
    lines = [f"The gate of the task is {record.gate:g} at 1x: {_verdict(record, base)}."]
    shown = [(record.method.label, record.rows), (record.method.base_label, base or [])]
    numbers = [(label, *_area_and_reach(rows)) for label, rows in shown if rows]
    said = [f"{label} {of:.3f} (half at {far}x)" for label, of, far in numbers if not np.isnan(of)]
    if said:
        lines.append(f"Area from 1x to 8x, corrected for chance: {', '.join(said)}.")
    return lines


def _verdict(record: Record, base: Sequence[Row] | None) -> str:
    tested = base or record.rows
    if any(row.multiple == 1 and row.proficiency >= record.gate for row in tested):
        return "learned"
    if base is None and not record.plain:  # what training has learned, an extension may lose at 1x
        if record.solved_step is not None:
            return f"learned at step {record.solved_step}, and lost with the extension"
        return "not passed with the extension; without it these weights are not tested here"
    return "not learned, so that longer lengths say little"


def _area_and_reach(rows: Sequence[Row]) -> tuple[float, str]:
    """The two numbers of a run, as boards have them."""
    multiples = [row.true_multiple for row in rows]
    scores, chances = [row.score for row in rows], [row.chance for row in rows]
    return area(multiples, scores, chances), str(reach(multiples, scores, chances))


def table(record: Record, base: Sequence[Row] | None) -> Table:
    """Score by test length, beside the same weights without the extension."""
    method = record.method
    made = Table(title=f"{record.measure} on {record.task.label}", title_justify="left")
    for heading in ("length", "n", "tokens", method.label):
        made.add_column(heading, justify="right", overflow="fold")
    if base is not None:
        made.add_column(
            f"{method.base_label} ({_beside(record)})", justify="right", overflow="fold"
        )
        made.add_column("gained", justify="right", overflow="fold")
    without = {row.test_length: row.score for row in base or []}
    for row in record.rows:
        lengths = (f"{row.multiple:g}x", str(row.test_length), str(row.total_length))
        cells = [*lengths, f"{row.score:.3f}"]
        if base is not None:
            before = without.get(row.test_length)  # the ladder may go further than the base
            cells += ["", ""] if before is None else [f"{before:.3f}", f"{row.score - before:+.3f}"]
        made.add_row(*cells)
    if lost := [f"{row.multiple:g}x" for row in record.rows if row.loss is None]:
        made.caption_justify = "left"
        made.caption = (
            f"At {', '.join(lost)} the loss is no number: something in the model overflows or is "
            "NaN there, and scores say no more than that."
        )
    return made


def _beside(record: Record) -> str:
    """What is beside its scores."""
    if record.finetuning is not None:
        return "before fine-tuning"
    return "same weights" if record.ceiling is None else "trained at 1x"


class WithoutExtension:
    """The rows of a run's weights without its extension, kept beside the weights: measured once,
    and shown beside every extension of them.
    """

    def __init__(self, record: Record, results_dir: str | Path) -> None:
        tested = record.evaluated
        versions = [minor(tested.versions.get(name)) for name in COMPARED]
        # As others would give other rows.
        computing = [*versions, tested.device, tested.threads or 1]
        code = source_hash("posbench.core.evaluation")
        test = content_hash([record.config["evaluation"], code, computing])
        folder = Path(results_dir, CHECKPOINTS, record.training.hash)
        self.path = folder / f"tested-{test}.json"

    def rows(self) -> list[Row] | None:
        """None where they have not been measured, or cannot be read: they are measured again."""
        try:
            return ROWS.validate_json(read_bytes(self.path))
        except (OSError, ValueError):  # not there, damaged, or not to be read now
            return None

    def keep(self, rows: Sequence[Row]) -> None:
        write_json([row.model_dump(mode="json") for row in rows], self.path)
