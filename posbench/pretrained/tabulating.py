"""The measurements of a model, as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from posbench.core.row import Row as Test
from posbench.pretrained.measuring import Measurement
from posbench.pretrained.recording import Candidate, Recorder
from posbench.showing.table import Line, Table, number, span
from posbench.statistics.aggregates import wilson
from posbench.statistics.likelihoods import More


@dataclass(frozen=True)
class Score:
    """The samples of one extension at one length, and their means."""

    rows: Sequence[Test]

    @property
    def scores(self) -> list[float]:
        return [row.score for row in self.rows]

    @property
    def log_likelihood(self) -> float:
        """The mean over tokens of answers, in nats."""
        return -float(np.mean(self.losses))

    @property
    def perplexity(self) -> tuple[float, float, float]:
        """The perplexity of texts of equal length, and its 95 percent interval over texts."""
        low, high = _drawn(self.losses)
        return float(np.exp(-self.log_likelihood)), float(np.exp(low)), float(np.exp(high))

    @property
    def losses(self) -> list[float]:
        return [np.inf if row.loss is None else row.loss for row in self.rows]


def interval_of(scores: Sequence[float]) -> tuple[float, float]:
    """The 95 percent interval of the mean over samples; Wilson's if each is right or wrong, NaN of
    a single sample that is neither.
    """
    if set(scores) <= {0.0, 1.0}:
        return wilson(round(sum(scores)), len(scores))
    return _drawn(scores)


def over(one: Score, other: Score) -> More:
    """The amount by which `one` exceeds `other` in log-likelihood, on the samples of both."""
    return More.of(pd.DataFrame({"one": one.losses, "other": other.losses}))


def _drawn(values: Sequence[float]) -> tuple[float, float]:
    """The 95 percent interval of a mean over samples, from the bootstrap."""
    if len(values) < 2:
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    drawn = bootstrap((values,), np.mean, method="percentile", rng=rng).confidence_interval
    return float(drawn.low), float(drawn.high)


def table(
    recorder: Recorder,
    task: Measurement,
    rows: Sequence[Candidate],
    lengths: Sequence[int],
    texts: Sequence[int],
) -> Iterator[str]:
    """One line an extension and length; each is compared with the first on the same samples."""
    samples = [each for text in texts for each in task.numbers(text)]
    of_text = task.by == "position"
    measured = ["perplexity", "95 percent"] if of_text else ["95 percent", "log-likelihood"]
    headings = [task.name, "tokens", "samples", "score", *measured]
    if len(rows) > 1:
        headings.append(f"log-likelihood over {rows[0].name}, 95 percent")
    lines = []
    for length in lengths:
        first: Score | None = None
        for row in rows:
            each = _score(recorder, task, row, length, samples)
            cells = [str(length), str(len(each.rows)), number(float(np.mean(each.scores)))]
            if of_text:
                perplexity, low, high = each.perplexity
                cells += [f"{perplexity:.3f}", span(low, high, 3)]
            else:
                cells += [span(*interval_of(each.scores)), f"{each.log_likelihood:.3f}"]
            if len(rows) > 1:
                cells.append("" if first is None else str(over(each, first)))
            first = first or each
            lines.append(Line(row.name, cells))
    yield from Table.of(headings, lines).aligned()
    yield ""


def _score(
    recorder: Recorder, task: Measurement, row: Candidate, length: int, samples: Sequence[int]
) -> Score:
    records = [recorder.known(task, row, each) for each in samples]
    found = [
        each
        for record in records
        if record is not None
        for each in record.rows
        if each.test_length == length
    ]
    return Score(found)
