"""What came of the predictions of a board, which are part of its definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.base.wording import counted, listed
from posbench.boards.measured_runs import MULTIPLES, MoreContext
from posbench.boards.ranking import ROUNDING, RankedRows
from posbench.config.board import Board, Contrast
from posbench.showing.pages import Chapter
from posbench.showing.table import NOTHING, Line, Table, number, span
from posbench.statistics.context import change, difference
from posbench.statistics.effects import AdditiveFit

WRITTEN = (
    "Predictions are part of the definition, and the list of changes names those that were added "
    "or changed after the first run."
)
PREDICTED = (
    f"{WRITTEN} Pairs are compared on the tasks that both rows have learned and the seeds that "
    "both have, by the area from 1x to 8x of the trainings that learned. The difference is first "
    "minus second, on average over these tasks. Its 95 % interval is over tasks and seeds, without "
    "a correction for the number of pairs."
)
PREDICTED_BY_CONTEXT = (
    f"{WRITTEN} A pair is compared on the same tokens of the seeds that both rows learned with. "
    "The difference is what the second loses from 1x to 8x minus what the first loses, in nats a "
    "token, so above 0 the first loses less. Its 95 % interval is over texts, without a correction "
    "for the number of pairs."
)
HEADINGS = ["pair", "tasks both learned", "as predicted on", "difference", "holds"]


@dataclass(frozen=True)
class PredictionOutcome:
    """What came of a prediction about a pair of rows."""

    first: str
    second: str
    common: int = 0  # tasks that both have learned
    above: int = 0  # on how many of these it is as predicted
    difference: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    p: float = float("nan")  # for itself alone, see `AdditiveFit.differences`
    holds: bool = False
    digits: int = 2  # of the difference

    @property
    def shown(self) -> str:
        """The difference with its interval; a dash where no task is common."""
        if not self.common:
            return NOTHING
        ends = "" if pd.isna(self.low) else f" ({span(self.low, self.high, self.digits)})"
        return f"{number(self.difference, self.digits)}{ends}"

    @property
    def verdict(self) -> str:
        return NOTHING if not self.common else "yes" if self.holds else "no"

    @property
    def line(self) -> Line:
        share = f"{self.above} of {self.common}" if self.common else NOTHING
        cells = [str(self.common), share, self.shown, self.verdict]
        return Line(f"{self.first}, {self.second}", cells)


def predictions(
    board: Board, found: Sequence[RankedRows], contexts: Sequence[MoreContext] = ()
) -> dict[str, list[PredictionOutcome]]:
    """What came of each prediction of the board, by its sentence; none without a training that
    learned. Where tests ask for the same tokens throughout, it is by what more context does.
    """
    if not board.contrasts or not found:
        return {}
    if contexts:
        return {
            said: [_by_context(contexts, contrast, *pair) for pair in contrast.pairs]
            for said, contrast in board.contrasts.items()
        }
    # Of all classes: a prediction may be about what tuning or further training adds.
    usual = [each.part.runs for each in found if each.part.protocol == found[0].part.protocol]
    runs = pd.concat(usual).drop_duplicates(["row", "task", "seed"])
    if not runs["learned"].any():
        return {}
    fitted = AdditiveFit.of(runs, draws=board.judged.draws, seed=board.judged.seed)
    return {
        said: [_predicted(fitted, contrast, *pair) for pair in contrast.pairs]
        for said, contrast in board.contrasts.items()
    }


def contrast_parts(
    board: Board, found: Sequence[RankedRows], contexts: Sequence[MoreContext] = ()
) -> Iterator[Chapter]:
    """A section for each prediction of the board that has runs."""
    for said, pairs in predictions(board, found, contexts).items():
        contrast = board.contrasts[said]
        verdicts = [pair.verdict for pair in pairs]
        known = (("yes", "holds for"), ("no", "fails for"), (NOTHING, "is open for"))
        came = listed(
            [
                f"{verb} {counted(verdicts.count(each), 'pair')}"
                for each, verb in known
                if each in verdicts
            ]
        )
        rule = _rule_by_context(contrast) if contexts else _rule(contrast)
        meant = PREDICTED_BY_CONTEXT if contexts else PREDICTED
        notes = [f"It holds for a pair {rule}. It {came}.", meant]
        yield Chapter(said, [*notes, Table.of(HEADINGS, [pair.line for pair in pairs])])


def _rule(contrast: Contrast) -> str:
    rule = f"if the first reaches further by more than {number(contrast.by)}"
    if contrast.by < 0:
        rule = f"unless the first falls short of the second by {number(-contrast.by)} or more"
    if contrast.share is None:
        return f"{rule}, on average over these tasks"
    if contrast.by < 0:
        rule = f"if the first falls short of the second by less than {number(-contrast.by)}"
    return f"{rule}, on at least {100 * contrast.share:.0f} % of these tasks"


def _rule_by_context(contrast: Contrast) -> str:
    return f"if the difference is above {number(contrast.by, 3)} nats a token"


def _by_context(
    contexts: Sequence[MoreContext], contrast: Contrast, first: str, second: str
) -> PredictionOutcome:
    """Of the first task that both have learned."""
    for found in contexts:
        if {first, second} <= {*found.rows.index}:
            less = difference(
                *(change(found.by_text, row, MULTIPLES[-1]) for row in (second, first))
            )
            if math.isnan(less.mean):  # no seed and text in common, or a loss that overflowed
                break
            holds = less.mean > contrast.by
            numbers = (less.mean, less.low, less.high, less.p)
            return PredictionOutcome(first, second, 1, int(holds), *numbers, holds, digits=3)
    return PredictionOutcome(first, second)


def _predicted(
    fitted: AdditiveFit, contrast: Contrast, first: str, second: str
) -> PredictionOutcome:
    if not {first, second} <= {*fitted.rows}:
        return PredictionOutcome(first, second)
    cells = fitted.with_common_seeds(first, second).cell_means().reindex([first, second])
    each = (cells.loc[first] - cells.loc[second]).dropna()
    if each.empty:
        return PredictionOutcome(first, second)
    above = int((each - contrast.by > ROUNDING).sum())
    line = fitted.differences(second, [first]).loc[first]
    mean, low, high, p = (float(line[name]) for name in ("difference", "low", "high", "p"))
    holds = mean - contrast.by > ROUNDING
    if contrast.share is not None:
        holds = above >= contrast.share * len(each) - ROUNDING
    return PredictionOutcome(first, second, len(each), above, mean, low, high, p, holds)
