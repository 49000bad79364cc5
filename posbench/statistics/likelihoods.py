"""How likely answers are under an extension, beside the same weights without one.

    ll(row, sample) = -loss,  the log-likelihood of a token of the answer, the mean, in nats
    more(row) = mean over samples of (ll(row, sample) - ll(host, sample))

A pretrained model is measured on samples that all its extensions share, and an answer is right or
wrong: the likelihood tells extensions apart long before the score does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from posbench.statistics import bootstrap
from posbench.statistics.bootstrap import Draws
from posbench.statistics.classes import is_pretrained

BOARD = ["protocol_hash", "task_hash", "task_version", "protocol", "task"]
METHOD = ["method", "method_hash"]


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


def of_board(table: pd.DataFrame) -> dict[tuple[str, str, float], Likelihood]:
    """By the label and the hash of a method and the multiple of a test; empty where nothing is
    pretrained.

    Args:
        table: the lines of one task under one protocol, of the long table of records
    """
    mine = table[table["method_class"].map(is_pretrained).astype(bool)]
    found: dict[tuple[str, str, float], Likelihood] = {}
    for (_, multiple), tests in mine.groupby(["encoding", "multiple"]):
        plain = tests.loc[tests["plain"], METHOD].drop_duplicates()
        hosts = sorted(plain.itertuples(index=False, name=None))
        losses = tests.pivot_table(index="seed", columns=METHOD, values="loss")
        for label, digest in losses:
            # The host under another name is no other row to be above.
            others = [host for host in hosts if host[1] != digest]
            both = [
                pd.DataFrame({"row": losses[label, digest], "host": losses[host]}).dropna()
                for host in others
            ]
            more = [More.of(pair) for pair in both if len(pair) > 1]
            likely = -float(losses[label, digest].mean())
            found[label, digest, float(multiple)] = Likelihood(likely, *more[:1])
    return found


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """One sentence for each pretrained model and task: extensions at the longest test, best first.

    The model without extension must be there to be compared with.
    """
    mine = table[table["method_class"].map(is_pretrained).astype(bool)]
    for (*_, model), tests in mine.groupby([*BOARD, "encoding"]):
        found = of_board(tests)
        longest = float(tests["multiple"].max())
        names = _extensions(tests)
        said = {
            names[label, digest]: likelihood.more
            for (label, digest, multiple), likelihood in found.items()
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


def _extensions(tests: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What each row has been given, with what was changed; the label where two have the same."""
    rows = tests.drop_duplicates(METHOD)
    changed = (rows["extension"] + " (" + rows["changed"] + ")").where(
        rows["changed"] != "", rows["extension"]
    )
    shown = rows["method"].where(changed.duplicated(keep=False), changed)
    return dict(zip(rows[METHOD].itertuples(index=False, name=None), shown, strict=True))
