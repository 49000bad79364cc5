"""How likely answers are under an extension, beside the same weights without one.

    ll(row, sample) = -loss,  the log-likelihood of a token of the answer, the mean, in nats
    more(row) = mean over samples of (ll(row, sample) - ll(host, sample))

A pretrained model is measured on samples that all its extensions share, and an answer is right or
wrong: the likelihood tells extensions apart long before the score does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.statistics import bootstrap
from posbench.statistics.bootstrap import Draws

PRETRAINED = "pretrained"
"""What the classes of rows of pretrained models begin with."""
BOARD = ["protocol_hash", "task_hash", "task_version"]


@dataclass(frozen=True)
class More:
    """By how much a row exceeds another, in nats, with the 95 % interval over samples, which a
    single one does not have: NaN.
    """

    more: float
    low: float
    high: float

    @classmethod
    def of(cls, losses: pd.DataFrame) -> More:
        """The first of two columns over the second; `losses` is [sample, row]."""
        one, other = losses.columns
        low, high = math.nan, math.nan
        if len(losses) > 1:
            low, high = resampled(-losses).difference(one, other)
        return cls(float((losses[other] - losses[one]).mean()), low, high)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.more:+.2f}"
        return f"{self.more:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of one row at one length, and by how much it exceeds its host."""

    log_likelihood: float
    more: More | None = None

    def __str__(self) -> str:
        return f"{self.log_likelihood:.2f}" + (f", {self.more}" if self.more else "")


def resampled(values: pd.DataFrame) -> Draws:
    """Means over samples, as others would have given them; `values` is [sample, row].

    All rows share what is drawn.
    """
    lines = [
        {"row": row, "task": "", "group": "", "seed": seed, "training": str(seed), "area": value}
        for row, of_row in values.items()
        for seed, value in of_row.items()
    ]
    return bootstrap.given_tasks(pd.DataFrame(lines))


def of_board(table: pd.DataFrame, hashes: Sequence[object]) -> dict[tuple[str, float], Likelihood]:
    """By the hash of a method and the multiple of a test; empty where nothing is pretrained.

    Args:
        table: the long table of records
        hashes: of the one task under one protocol, as `BOARD` names them
    """
    mine = table[(table[BOARD] == list(hashes)).all(axis=1)]
    mine = mine[mine["method_class"].str.startswith(PRETRAINED)]
    found: dict[tuple[str, float], Likelihood] = {}
    for (_, multiple), tests in mine.groupby(["encoding", "multiple"]):
        hosts = set(tests.loc[tests["plain"], "method_hash"])
        losses = tests.pivot_table(index="seed", columns="method_hash", values="loss")
        for row in losses:
            both = [losses[[row, host]].dropna() for host in hosts - {row}]
            more = [More.of(pair) for pair in both if len(pair) > 1]
            likely = -float(losses[row].mean())
            found[str(row), float(multiple)] = Likelihood(likely, *more[:1])
    return found


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """One sentence for each pretrained model and task: extensions at the longest test, best first.

    The model without extension must be there to be compared with.
    """
    mine = table[table["method_class"].str.startswith(PRETRAINED)]
    for (*hashes, model), tests in mine.groupby([*BOARD, "encoding"]):
        found = of_board(tests, hashes)
        longest = float(tests["multiple"].max())
        names = tests.drop_duplicates("method_hash").set_index("method_hash")["extension"]
        changed = tests.drop_duplicates("method_hash").set_index("method_hash")["changed"]
        said = {
            f"{names[row]} ({changed[row]})" if changed[row] else str(names[row]): likelihood.more
            for (row, multiple), likelihood in found.items()
            if multiple == longest and likelihood.more is not None
        }
        if not said:
            continue
        ordered = sorted(said.items(), key=lambda each: (-each[1].more, each[0]))
        task = tests.iloc[0]["task"]
        rows = ", ".join(f"{name} {more}" for name, more in ordered)
        yield (
            f"{task} at {longest:g}x, gain in log-likelihood of an answer's token over {model} "
            f"without extension, in nats, with 95 % intervals over samples: {rows}."
        )
