"""How likely answers are under an extension, beside the same weights without one.

    ll(row, sample) = -loss,  the log-likelihood of a token of the answer, the mean, in nats
    more(row) = mean over samples of (ll(row, sample) - ll(host, sample))

A pretrained model is measured on samples that all its extensions share, and an answer is right or
wrong: the likelihood distinguishes extensions long before the score does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from posbench.base.errors import PosbenchError
from posbench.core.streams import stream_seed
from posbench.statistics.aggregates import CONFIDENCE, DRAWS, Array, Estimate, is_pretrained

METHOD = ["method", "method_hash"]
ENOUGH = 30
"""Samples from which on a difference has the interval of the bootstrap. That of fewer would be too
narrow, and Student's t takes its place.
"""

# -- means over samples, or over seeds, as others would have given them ----------------------------


@dataclass(frozen=True)
class Draws:
    """Means of rows as they might have come out, with the estimates they vary around.

    A percentile of what is drawn from three values is that of a normal distribution whose spread is
    known. It is estimated, and so deviations from the estimate are widened by t / z, the quantiles
    of Student's t and of the normal distribution that bound 95 %: 2.2 times for three values.
    """

    rows: list[str]  # in the order of their names
    estimates: Array  # [row]
    overall: Array  # [draw, row]; rounded, so that rows that are the same tie

    def difference(self, a: str, b: str) -> tuple[float, float]:
        """The 95 % percentile interval of the mean of `a` minus that of `b`."""
        drawn = self.overall[:, self.rows.index(a)] - self.overall[:, self.rows.index(b)]
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(low), float(high)


def resampled(values: pd.DataFrame, task: str = "", draws: int = DRAWS, seed: int = 0) -> Draws:
    """Resample seeds or samples with replacement, the same for all rows; `values` is [seed, row].

    Of k seeds k - 1 are drawn: the mean of k would have (k - 1) / k of the variance that an
    unbiased estimate has, two thirds with three seeds. A single seed does not vary. Rows without a
    mean are left out. `task` names the stream of random numbers.

    Source: McCarthy and Snowden 1985, "The bootstrap and finite population sampling" (k - 1 of k).
    """
    values = values.sort_index().sort_index(axis=1).dropna(axis=1)
    if values.empty:
        raise PosbenchError("no row has a value of every seed: give the runs of fewer rows")
    count, rows = len(values), [str(row) for row in values]
    key = repr([f"{each} {each}" for each in values.index])
    random = np.random.default_rng(stream_seed(seed, "seeds", 0, task, key))
    chosen = random.integers(count, size=(draws, max(count - 1, 1)), dtype=np.uint16)
    times = (chosen[:, :, None] == np.arange(count)).sum(1)
    areas = values.to_numpy(float)
    estimates, means = areas.mean(0), times @ areas / chosen.shape[1]
    tail = (1 + CONFIDENCE) / 2
    factor = special.stdtrit(count - 1, tail) / special.ndtri(tail) if count > 1 else 1.0
    return Draws(rows, estimates, np.round(estimates + factor * (means - estimates), 9))


# -- likelihoods -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class More:
    """By how much a row exceeds another, in nats, with the 95 % interval over samples, which fewer
    than three do not have: NaN.
    """

    more: float
    low: float
    high: float

    @classmethod
    def of(cls, losses: pd.DataFrame) -> More:
        """The first of two columns over the second; `losses` is [sample, row]."""
        one, other = losses.columns
        found = Estimate.over(losses[other] - losses[one])
        low, high = found.mean - found.half_width, found.mean + found.half_width
        if len(losses) >= ENOUGH:
            low, high = resampled(-losses).difference(one, other)
        return cls(float((losses[other] - losses[one]).mean()), low, high)

    def __str__(self) -> str:
        return self.to(2)

    def to(self, digits: int) -> str:
        """With its interval, to so many digits: "+1.41 [+1.15, +1.67]"."""
        # Adding 0 makes 0 of -0.
        said = [
            f"{round(each, digits) + 0.0:+.{digits}f}" for each in (self.more, self.low, self.high)
        ]
        return said[0] if math.isnan(self.low) else f"{said[0]} [{said[1]}, {said[2]}]"


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of one row at one length, and by how much it exceeds its host. A mean over
    the samples whose loss is a number would flatter a row of which some overflow: it has none.
    """

    log_likelihood: float
    more: More | None = None
    overflowed: int = 0
    samples: int = 0

    @property
    def lost(self) -> str:
        """How many samples overflow, if any do."""
        return f"overflows on {self.overflowed} of {self.samples}" if self.overflowed else ""

    def __str__(self) -> str:
        if self.overflowed:
            return self.lost
        return f"{self.log_likelihood:.2f}" + (f", {self.more}" if self.more else "")

    def cell(self, digits: int) -> str:
        """What a table has of it: by how much it exceeds its host, or itself where it is one."""
        if self.overflowed:
            return self.lost
        return f"{self.log_likelihood:.{digits}f}" if self.more is None else self.more.to(digits)


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
        for (label, digest), own in tests.groupby(METHOD):
            if overflowed := int(own["loss"].isna().sum()):
                lost = Likelihood(math.nan, None, overflowed, len(own))
                found[label, digest, float(multiple)] = lost
                continue
            # The host under another name is no other row to be above.
            others = [host for host in hosts if host[1] != digest]
            both = [
                pd.DataFrame({"row": losses[label, digest], "host": losses[host]}).dropna()
                for host in others
                if host in losses
            ]
            more = [More.of(pair) for pair in both if len(pair) > 1]
            likely = -float(losses[label, digest].mean())
            found[label, digest, float(multiple)] = Likelihood(likely, next(iter(more), None))
    return found


LAST_TOKENS = "last_tokens"
"""The task of pretrained models that measures a loss on the same tokens at every length."""


def added(table: pd.DataFrame, extension: str, questions: int = 1) -> Estimate | None:
    """The loss of an extension minus that of none, over the texts that both have read, with the
    interval of Student's t; None where it was not measured.

    Args:
        table: the lines of one model on one task at one length
        extension: its name
        questions: samples that share a text, of which its mean is taken
    """
    losses = table.pivot(index="seed", columns="extension", values="loss")
    if extension not in losses:
        return None
    more = (losses[extension] - losses["direct"]).dropna()
    return Estimate.over(more.groupby(more.index // questions).mean())
