"""A few rows of a board for a README: the named extensions of one encoding, and their picture.

The rows stand between two comments of the README, which say what they are:

    <!-- board results/extensions: direct pi ntk yarn of rope_short_base at 1 2 4 8 -->
    ...
    <!-- end of board -->

`python -m posbench.leaderboard results/extensions --excerpt README.md` writes them, and the picture
excerpt.svg beside the records; with `--check` it fails if that would change anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from posbench.errors import PosbenchError
from posbench.leaderboard import opening
from posbench.leaderboard.summaries import NOTHING, Estimate, without_repeats

MARKED = re.compile(
    r"(<!-- board (?P<folder>\S+): (?P<extensions>[\w+ ]+) of (?P<encoding>\w+)"
    r" at (?P<multiples>[\d. ]+) -->\n).*?(<!-- end of board -->)",
    re.DOTALL,
)
PICTURE = "excerpt.svg"


@dataclass(frozen=True)
class Excerpt:
    """What the comment in the README asks for."""

    folder: Path
    extensions: tuple[str, ...]
    encoding: str
    multiples: tuple[float, ...]

    @classmethod
    def of(cls, text: str, readme: Path) -> Excerpt:
        """The excerpt that a README asks for; PosbenchError if it asks for none."""
        found = MARKED.search(text)
        if found is None:
            raise PosbenchError(
                f"{readme} has no comment that asks for a board: write "
                "<!-- board FOLDER: EXTENSIONS of ENCODING at MULTIPLES --> and "
                "<!-- end of board --> into it"
            )
        return cls(
            Path(found["folder"]),
            tuple(found["extensions"].split()),
            found["encoding"],
            tuple(float(multiple) for multiple in found["multiples"].split()),
        )

    def scores(self, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """The score of each extension, [seed, multiple]: the mean over tasks."""
        runs = without_repeats(table)
        ours = runs[(runs["encoding"] == self.encoding) & (runs["changed"] == "")]
        ours = ours[~ours["task_changed"]]
        tasks = set(ours["task"])
        found = {}
        for extension in self.extensions:
            mine = ours[ours["extension"] == extension]
            if set(mine["task"]) != tasks or mine.empty:
                raise PosbenchError(
                    f"{self.folder} lacks runs of {self.encoding} with {extension} on "
                    f"{', '.join(sorted(tasks - set(mine['task']))) or 'any task'}: run them, or "
                    "leave the extension out"
                )
            means = mine.groupby(["seed", "multiple"])["score"].agg(["mean", "count"])
            complete = means[means["count"] == len(tasks)]["mean"]
            found[extension] = complete.unstack("multiple")
        return found

    def markdown(self, scores: dict[str, pd.DataFrame]) -> str:
        """The table, the best at the longest length first."""
        longest = self.multiples[-1]
        order = sorted(scores, key=lambda name: (-scores[name][longest].mean(), name))
        headings = [f"{multiple:g}x" for multiple in self.multiples]
        lines = ["| extension | " + " | ".join(headings) + " |"]
        lines.append("| --- |" + " ---: |" * len(headings))
        for name in order:
            cells = [_shown(scores[name][multiple]) for multiple in self.multiples]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def picture(self, scores: dict[str, pd.DataFrame]) -> str:
        """Score against length, as SVG."""
        longest = self.multiples[-1]
        order = sorted(scores, key=lambda name: (-scores[name][longest].mean(), name))
        multiples = sorted(set.intersection(*(set(each.columns) for each in scores.values())))
        shown = [multiple for multiple in multiples if multiple >= 1]
        curves, halves = {}, {}
        for name in order:
            estimates = [Estimate.over(scores[name][multiple].dropna()) for multiple in shown]
            curves[name] = pd.Series([each.mean for each in estimates], shown)
            widths = pd.Series([each.half_width for each in estimates], shown)
            if widths.notna().all():
                halves[name] = widths
        return opening.drawn(curves, "Mean score over tasks against length", halves, alone=True)


def _shown(values: pd.Series) -> str:
    estimate = Estimate.over(values.dropna())
    return NOTHING if np.isnan(estimate.mean) else str(estimate)


def excerpts(readme: Path, folder: Path, table: pd.DataFrame) -> dict[Path, str]:
    """The README with its rows, and the picture, by their paths."""
    text = readme.read_text(encoding="utf-8")
    asked = Excerpt.of(text, readme)
    if asked.folder.resolve() != folder.resolve():
        raise PosbenchError(f"{readme} asks for a board of {asked.folder}, not of {folder}")
    scores = asked.scores(table)
    rows = asked.markdown(scores)
    new = MARKED.sub(lambda found: f"{found[1]}\n{rows}\n{found[found.re.groups]}", text, count=1)
    return {readme: new, folder / PICTURE: asked.picture(scores)}
