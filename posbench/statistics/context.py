"""What more context gives or takes: losses of the same tokens, at two lengths or of two methods.

    d = sum_t (a_t - b_t) / sum_t N_t,  in nats a token

where t are texts, N_t the tokens of a text that were asked for, and a_t and b_t their losses in all
under the two. The share of tokens that are right differs likewise. Tokens of one text depend on
each other, so the 95 % interval is that of texts drawn again, with all of their tokens; and p is
twice the smaller share of the draws on either side of 0, each side with one draw more. It is at
least 2 / 2^n for n texts, what flips of their signs can give. Fewer than three texts have neither.
Of fewer than 30, n - 1 are drawn, and what is drawn is widened by t / z: see `likelihoods.Draws`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from posbench.core.streams import stream_seed
from posbench.statistics.aggregates import CONFIDENCE, DRAWS, FEWEST, Array, quantile
from posbench.statistics.likelihoods import ENOUGH
from posbench.statistics.randomisation import holm, least_sign_flip

SUMS = ("nats", "right")


@dataclass(frozen=True)
class Difference:
    """A difference a token, with the bounds of its interval."""

    mean: float
    low: float
    high: float
    p: float  # that there is none

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "not known"
        if math.isnan(self.low):
            return f"{self.mean:+.3f}"
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def sums(by_text: pd.DataFrame, row: str, multiple: float) -> pd.DataFrame:
    """The tokens, nats and right tokens of each text, by seed and text.

    `by_text` has a line a run, test length and text: columns row, seed, multiple, text, tokens,
    nats and right.
    """
    mine = by_text[(by_text["row"] == row) & (by_text["multiple"] == multiple)]
    return mine.set_index(["seed", "text"])[["tokens", *SUMS]].sort_index()


def change(by_text: pd.DataFrame, row: str, multiple: float) -> pd.DataFrame:
    """What a row loses at a multiple minus what it loses at 1x, of each text, as `sums` has it."""
    first, longer = (sums(by_text, row, at) for at in (1.0, multiple))
    both = longer.join(first[list(SUMS)], how="inner", rsuffix="_first")
    return both.assign(**{name: both[name] - both[f"{name}_first"] for name in SUMS})[
        ["tokens", *SUMS]
    ]


def difference(
    one: pd.DataFrame, other: pd.DataFrame, what: str = "nats", draws: int = DRAWS
) -> Difference:
    """The first minus the second; of both the seeds and texts that both have, with the same tokens.

    `one` and `other` are what `sums` returns, `what` is "nats" or "right". It is NaN where a loss
    of either overflowed, and where they have no such text.
    """
    both = one.join(other, how="inner", lsuffix="_one", rsuffix="_other")
    both = both[both["tokens_one"] == both["tokens_other"]]
    if both.empty:
        return Difference(*4 * (math.nan,))
    lines = pd.DataFrame(
        {"tokens": both["tokens_one"], "sum": both[f"{what}_one"] - both[f"{what}_other"]}
    )
    # The seeds of a text are drawn together.
    texts = lines.groupby("text").agg(lambda values: values.sum(skipna=False))
    tokens, values = (texts[name].to_numpy(float) for name in ("tokens", "sum"))
    mean = float(values.sum() / tokens.sum())
    if len(texts) < FEWEST or math.isnan(mean):
        return Difference(mean, *3 * (math.nan,))
    drawn = _drawn(len(texts), draws)
    means = drawn @ values / (drawn @ tokens)
    if len(texts) < ENOUGH:
        means = mean + (means - mean) * quantile(len(texts)) / quantile(math.inf)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    side = min((means <= 0).sum(), (means >= 0).sum())
    p = max(least_sign_flip(len(texts)), min(1.0, 2 * (side + 1) / (draws + 1)))
    return Difference(mean, float(low), float(high), p)


def of_rows(by_text: pd.DataFrame, multiples: Sequence[float]) -> pd.DataFrame:
    """A line for each row that was tested at 1x and at all of the multiples; the lowest loss at the
    last comes first.

    Columns: `seeds`; `nats` and `right`, a token at 1x; the `Difference` of each multiple to 1x, in
    nats; and `gained`, that of the share right at the last. `by_text` is as `sums` takes it.
    """
    lines: dict[str, dict[Any, Any]] = {}
    for row, mine in by_text.groupby("row"):
        first, *longer = (sums(mine, str(row), multiple) for multiple in (1.0, *multiples))
        if any(each.empty for each in (first, *longer)):
            continue
        changes = [difference(each, first) for each in longer]
        known = {name: first[name].sum(skipna=False) / first["tokens"].sum() for name in SUMS}
        lines[str(row)] = {
            "seeds": mine["seed"].nunique(),
            **known,
            **dict(zip(multiples, changes, strict=True)),
            "gained": difference(longer[-1], first, "right"),
        }
    at_last = {row: each["nats"] + each[multiples[-1]].mean for row, each in lines.items()}
    best = sorted(lines, key=lambda row: (math.isnan(at_last[row]), at_last[row]))
    columns = ["seeds", *SUMS, *multiples, "gained"]
    return pd.DataFrame([lines[row] for row in best], best, columns)


def beside_the_first(
    by_text: pd.DataFrame, rows: Sequence[str], multiple: float
) -> dict[str, Difference]:
    """At one length, each of the rows but the first minus the first, in nats.

    p is adjusted over all pairs of the rows. `by_text` is as `sums` takes it.
    """
    at = [sums(by_text, row, multiple) for row in rows]
    # The pairs of the first row come first.
    found = [difference(other, one) for one, other in itertools.combinations(at, 2)]
    adjusted = holm([each.p for each in found])
    pairs = zip(rows[1:], found, adjusted, strict=False)
    return {row: replace(less, p=p) for row, less, p in pairs}


def _drawn(count: int, draws: int) -> Array:
    """How often each of `count` texts is in each draw, [draw, text]: the same for all rows."""
    rng = np.random.default_rng(stream_seed("texts", 0))
    taken = count if count >= ENOUGH else count - 1
    return rng.multinomial(taken, np.full(count, 1 / count), draws).astype(float)
