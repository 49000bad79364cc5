"""The pairs of rows that a board made a prediction about, and whether it held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from posbench.boards.ranking import Ranked, span
from posbench.config.board import Board, Contrast
from posbench.showing.pages import Chapter
from posbench.showing.table import NOTHING, Line, Table, number
from posbench.statistics.effects import Fitted

NOTE = (
    "Written down before the runs. A pair is compared on the tasks that both rows have learned, by "
    "the area from 1x to 8x of the trainings that learned. The difference is the mean over these "
    "tasks, first less second, with its 95 % interval over tasks and seeds, which no test corrects "
    "for the number of pairs."
)
ROUNDING = 1e-9
HEADINGS = ["pair", "tasks both learned", "as predicted on", "difference", "holds"]


def contrast_parts(board: Board, found: Sequence[Ranked]) -> Iterator[Chapter]:
    """A section for each prediction of the board that has runs."""
    if not board.contrasts or not found:
        return
    runs = pd.concat([each.part.runs for each in found])
    runs = runs[runs["class"] == found[0].kind].drop_duplicates(["row", "task", "seed"])
    if not runs["learned"].any():
        return
    fitted = Fitted.of(runs, draws=board.judged.draws, seed=board.judged.seed)
    for said, contrast in board.contrasts.items():
        lines = [_line(fitted, contrast, *pair) for pair in contrast.pairs]
        verdicts = [line.cells[-1] for line in lines]
        counts = ", ".join(
            f"{verdicts.count(each)} {name}"
            for each, name in (("yes", "as predicted"), ("no", "not"), (NOTHING, "not known"))
            if each in verdicts
        )
        rule = f"by more than {number(contrast.by)}"
        rule += (
            f", on at least {100 * contrast.share:.0f} % of these tasks"
            if contrast.share is not None
            else " in the mean over these tasks"
        )
        notes = [f"It holds for a pair if the first reaches further {rule}. {counts}.", NOTE]
        yield Chapter(said, [*notes, Table.of(HEADINGS, lines)])


def _line(fitted: Fitted, contrast: Contrast, first: str, second: str) -> Line:
    name = f"{first}, {second}"
    if not {first, second} <= {*fitted.rows}:
        return Line(name, ["0", *[NOTHING] * 3])
    cells = fitted.cell_means()
    each = (cells.loc[first] - cells.loc[second]).dropna()
    if each.empty:
        return Line(name, ["0", *[NOTHING] * 3])
    above = int((each - contrast.by > ROUNDING).sum())
    line = fitted.differences(second, [first]).loc[first]
    mean = float(line["difference"])
    holds = mean - contrast.by > ROUNDING
    if contrast.share is not None:
        holds = above >= contrast.share * len(each) - ROUNDING
    shown = number(mean)
    if not pd.isna(line["low"]):
        shown += f" ({span(line['low'], line['high'])})"
    return Line(name, [str(len(each)), f"{above} of {len(each)}", shown, "yes" if holds else "no"])
