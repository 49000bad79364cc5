"""Extensions of one encoding at some lengths, in a README, and their picture."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.boards import opening
from posbench.showing.table import code, pipes, with_interval
from posbench.statistics.aggregates import Estimate
from posbench.statistics.measures import mean_curve

BANDS = 3
"""Curves with their intervals."""


@dataclass(frozen=True)
class ExcerptOfLengths:
    """The mean over tasks of each extension at each multiple, with its interval over seeds."""

    extensions: tuple[str, ...]
    encoding: str
    multiples: tuple[float, ...]

    WORDS = "EXTENSIONS of ENCODING at MULTIPLES"

    @classmethod
    def of(cls, words: str) -> ExcerptOfLengths | None:
        """What a comment asks for with these words; None if that is something else."""
        multiple = r"\d+(?:\.\d+)?"
        found = re.fullmatch(rf"([\w+\- ]+) of ([\w\-]+) at ({multiple}(?: {multiple})*)", words)
        if found is None:
            return None
        multiples = tuple(float(multiple) for multiple in found[3].split())
        return cls(tuple(found[1].split()), found[2], multiples)

    def scores(self, table: pd.DataFrame, protocol: str) -> dict[str, pd.DataFrame]:
        """The mean over tasks of each extension, [seed, multiple]: see `mean_curve`.

        Args:
            table: all runs
            protocol: of those that are shown

        Raises:
            PosbenchError: if one has no run on a task that another has, has runs of unlike
                settings, or lacks a multiple on a task
        """
        runs = table[table["protocol"] == protocol]
        ours = runs[(runs["encoding"] == self.encoding) & (runs["changed"] == "")]
        ours = ours[~ours["task_changed"]]
        tasks = set(ours["task"])
        found = {}
        for extension in self.extensions:
            mine = ours[ours["extension"] == extension]
            if set(mine["task"]) != tasks or mine.empty:
                raise PosbenchError(
                    f"there are no runs of {self.encoding} with {extension} on "
                    f"{', '.join(sorted(tasks - set(mine['task']))) or 'any task'}: run them, or "
                    "leave the extension out"
                )
            if mine.duplicated(["task", "seed", "multiple"]).any():
                raise PosbenchError(
                    f"the runs of {self.encoding} with {extension} are of several versions or "
                    "settings, which have no mean in common: keep those of one"
                )
            found[extension] = mean_curve(mine, tasks)
            if lacking := [each for each in self.multiples if each not in found[extension]]:
                raise PosbenchError(
                    f"not every seed of {self.encoding} with {extension} was tested at "
                    f"{lacking[0]:g}x on all of {', '.join(sorted(tasks))}: run what is missing, "
                    "or leave the length out"
                )
        return found

    def markdown(self, scores: dict[str, pd.DataFrame]) -> str:
        """The table, the best at the longest length first."""
        rows = [[code(name), *self._cells(scores[name])] for name in self._ordered(scores)]
        headings = ["extension", *(f"{multiple:g}x" for multiple in self.multiples)]
        return "\n".join([*pipes(headings, rows), ""])

    def _cells(self, scores: pd.DataFrame) -> list[str]:
        estimates = (Estimate.over(scores[multiple].dropna()) for multiple in self.multiples)
        return list(map(with_interval, estimates))

    def picture(self, scores: dict[str, pd.DataFrame]) -> str:
        """Score against length, as SVG; with intervals of the first ones, for more would cover each
        other.

        Raises:
            PosbenchError: if there are more curves than can be told apart
        """
        if len(scores) > opening.LOOKS:
            raise PosbenchError(
                f"the picture of a README tells {opening.LOOKS} curves apart, and its first "
                f"comment names {len(scores)} extensions: leave some out"
            )
        multiples = sorted(set.intersection(*(set(each.columns) for each in scores.values())))
        shown = [multiple for multiple in multiples if multiple >= 1]
        curves: dict[str, pd.Series] = {}
        halves: dict[str, pd.Series] = {}
        for name in self._ordered(scores):
            estimates = [Estimate.over(scores[name][multiple].dropna()) for multiple in shown]
            curves[name] = pd.Series([each.mean for each in estimates], shown)
            widths = pd.Series([each.half_width for each in estimates], shown)
            if widths.notna().all() and len(halves) < BANDS:
                halves[name] = widths
        return opening.drawn(curves, "Mean score over tasks against length", halves, alone=True)

    def _ordered(self, scores: dict[str, pd.DataFrame]) -> list[str]:
        longest = self.multiples[-1]
        return sorted(scores, key=lambda name: (-scores[name][longest].mean(), name))
