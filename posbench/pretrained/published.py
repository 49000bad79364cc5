"""What the published records say of extensions: gains, costs at 1x, and those of one factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from posbench.base.errors import ConfigError
from posbench.base.wording import counted
from posbench.boards.measured_runs import MeasuredRuns
from posbench.config.board import board_of
from posbench.records import files, tables
from posbench.showing.table import number
from posbench.statistics import effects
from posbench.statistics.effects import AdditiveFit
from posbench.statistics.likelihoods import LAST_TOKENS, added

HOSTS = {"rope_short_base": 0.70, "rope": 0.20}
"""Rows of the main board whose extensions were measured, with the share of their pairs that turn:
ln(L / 2 pi) / ln b of L = 40 positions, which is .70 by definition of the short base, and .20 at
10,000."""
FACTORS = (2, 4, 8)
"""For one factor at all lengths, those that were measured."""
DRAWS = 2_000
"""Of the bootstrap: a fifth of those of the board, for an answer within seconds."""


@dataclass(frozen=True)
class HostRows:
    """The extensions of one host, fitted on the tasks that it has learned."""

    host: str
    fitted: AdditiveFit

    @classmethod
    def all_of(cls, folder: Path, draws: int = DRAWS) -> dict[str, HostRows]:
        """By host, of a board; ConfigError where the folder has no such records."""
        if not (folder / "records").is_dir():
            raise ConfigError(
                f"{folder} has no records: give results= the folder of the published ones, which a "
                "clone of the repository has"
            )
        records = [each for each in files.records(folder) if each.method.encoding in HOSTS]
        board = board_of(folder)
        measured = MeasuredRuns.of(records, board)
        found = {}
        for host in HOSTS:
            runs = measured.runs
            rows = runs["row"].map(lambda row, host=host: extension_of(row, host) is not None)
            mine = runs[rows & (runs["class"] == "zero-shot")]
            mine = mine[mine["protocol_name"] == board.protocol].assign(learned=mine["trained"])
            if mine.empty:
                raise ConfigError(f"{folder} has no rows of {host}: give the published records")
            scored, names = measured.with_scores(mine)
            found[host] = cls(host, AdditiveFit.of(scored, names, draws))
        return found

    def gains(self, multiple: float) -> pd.DataFrame:
        """By extension, over none at a multiple: see `AdditiveFit.differences`."""
        found = self.fitted.differences(self.host, measure=f"{multiple:g}x")
        return found.rename(index=lambda row: extension_of(row, self.host))

    def row(self, extension: str) -> str | None:
        """The row of an extension; None where it was not measured."""
        rows = (row for row in self.fitted.rows if extension_of(row, self.host) == extension)
        return next(rows, None)


def extension_of(row: str, host: str) -> str | None:
    """The extension of a row of a host; "" of the host itself, None of another's row."""
    if row == host:
        return ""
    for joint in ("+", "_"):
        if row.startswith(host + joint):
            name = row.removeprefix(host + joint)
            return None if name.startswith("short_base") else name
    return None


def retrieval(results: Path, host: str, multiple: float) -> pd.Series:
    """By extension, the score on two tasks of retrieval minus that of the host, of five seeds, at
    the nearest multiple that results/extensions has; there are too few tasks for an interval.
    """
    path = results / "extensions" / "leaderboard.csv"
    if not path.is_file():
        return pd.Series(dtype=float)
    table = pd.read_csv(path)
    table = table[table["task"].isin(("passkey", "key_value_retrieval"))]
    nearest = min(table["multiple"].unique(), key=lambda each: abs(each - multiple))
    names = table["method"].map(lambda row: extension_of(row, host))
    mine = table.assign(extension=names)[names.notna() & (table["multiple"] == nearest)]
    cells = mine.pivot_table(index="extension", columns="task", values="score")
    return (cells - cells.loc[""]).mean(axis=1)


# -- one factor for all lengths --------------------------------------------------------------------


def nearest_factor(wanted: float) -> int:
    """The measured factor whose ratio to the wanted one is nearest to 1, the larger of two."""
    return min(reversed(FACTORS), key=lambda each: abs(math.log(each / wanted)))


@dataclass(frozen=True)
class OneFactor:
    """What a factor that is set for all lengths costs at 1x and below, by results/served and
    results/pretrained_served.
    """

    results: Path
    host: str

    def lines(self, extension: str, wanted: float) -> Iterator[str]:
        """A sentence for the small models and one for real ones; that there is none otherwise."""
        factor = nearest_factor(wanted)
        said = [*self._of_small(extension, factor), *self._of_real(extension, factor)]
        yield from said
        if not (self.results / "served" / "records").is_dir():
            yield (
                f"What one factor of {extension} costs there is in results/served of the "
                "repository: name results/ of a clone with results=."
            )
        elif not said:
            yield (
                f"What one factor of {extension} costs there was not measured: the command below "
                "does it, scale=served."
            )

    def _of_small(self, extension: str, factor: int) -> Iterator[str]:
        if not (self.results / "served" / "records").is_dir():
            return
        rows = HostRows.all_of(self.results / "served", effects.DRAWS)[self.host]
        following, fixed = rows.row(extension), rows.row(f"{extension}_served_{factor}")
        if following is None or fixed is None:
            return
        line = rows.fitted.differences(following, [fixed], "1x").loc[fixed]
        tasks = counted(int(line["common"]), "task")
        yield (
            f"In results/served, a factor of {factor} for all lengths changes the score of "
            f"{extension} at 1x by {interval(line)} over {tasks}, in small models."
        )

    def _of_real(self, extension: str, factor: int) -> Iterator[str]:
        folder = self.results / "pretrained_served"
        if not (folder / "records").is_dir():
            return
        frame = tables.table(files.records(folder))
        frame = frame[frame["task"] == LAST_TOKENS]
        frame = frame[frame["multiple"] <= 1]  # beyond, a factor is what it is there for
        found = []
        for (model, length), mine in frame.groupby(["encoding", "test_length"]):
            cost = added(mine, f"{extension}_served_{factor}")
            if cost is not None:
                texts = counted(mine["seed"].nunique(), "text")
                found.append(
                    f"{number(cost.mean, 3)} ±{number(cost.half_width, 3)} at {length} tokens of "
                    f"{str(model).rpartition('-')[0]} ({texts})"
                )
        if found:
            yield (
                f"In results/pretrained_served, it adds to the loss, in nats a token with its 95 % "
                f"interval: {'; '.join(found)}."
            )


def signed(difference: float) -> str:
    """A difference with its sign: +.38; a dash where it is not known."""
    return f"{'+' if round(difference, 2) >= 0 else ''}{number(difference)}"


def interval(line: pd.Series) -> str:
    """A difference with its 95 % interval: +.38 (.10 to .66)."""
    mean = signed(float(line["difference"]))
    if pd.isna(line["low"]):
        return mean
    # A bound next to 0 has the digit that says on which side it is.
    low, high = (number(each, 2 + (0 < abs(each) < 0.005)) for each in (line["low"], line["high"]))
    return f"{mean} ({low} to {high})"
