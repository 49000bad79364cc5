"""What has been measured of a model, as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from posbench.pretrained.measuring import Measurement
from posbench.pretrained.recording import Candidate, Recorder
from posbench.records.row import Row
from posbench.statistics.likelihoods import More, resampled


@dataclass(frozen=True)
class Score:
    """What the samples of one extension at one length come to."""

    rows: Sequence[Row]

    @property
    def share(self) -> float:
        return float(np.mean([row.score for row in self.rows]))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 percent interval of the share over samples; Wilson's if each is right or wrong."""
        scores = [row.score for row in self.rows]
        if set(scores) <= {0.0, 1.0}:
            found = binomtest(round(sum(scores)), len(scores)).proportion_ci(method="wilson")
            return float(found.low), float(found.high)
        low, high = resampled(pd.DataFrame({"it": scores})).intervals()["overall"].loc["it"]
        return float(low), float(high)

    @property
    def log_likelihood(self) -> float:
        """The mean over tokens of answers, in nats."""
        return -float(np.mean(self.losses))

    @property
    def losses(self) -> list[float]:
        return [np.inf if row.loss is None else row.loss for row in self.rows]


def over(one: Score, other: Score) -> More:
    """By how much `one` exceeds `other` in log-likelihood, on the samples that both share."""
    return More.of(pd.DataFrame({"one": one.losses, "other": other.losses}))


HEADINGS = (
    f"{'task':20}{'tokens':>8}  {'extension':18}{'samples':>8}{'score':>7}  {'95 percent':14}"
    f"{'log-lik.':>9}  over the first, 95 percent"
)


def table(
    recorder: Recorder,
    task: Measurement,
    rows: Sequence[Candidate],
    lengths: Sequence[int],
    texts: Sequence[int],
) -> Iterator[str]:
    """One line an extension and length; each is compared with the first on the same samples."""
    yield HEADINGS
    numbers = [number for text in texts for number in task.numbers(text)]
    for length in lengths:
        first: Score | None = None
        for row in rows:
            each = _score(recorder, task, row, length, numbers)
            low, high = each.interval
            said = ""
            if first is not None:
                said = str(over(each, first))
            first = first or each
            yield (
                f"{task.name:20}{length:8}  {row.name:18}{len(each.rows):8}{each.share:7.2f}  "
                f"{f'[{low:.2f}, {high:.2f}]':14}{each.log_likelihood:9.3f}  {said}".rstrip()
            )


def _score(
    recorder: Recorder, task: Measurement, row: Candidate, length: int, numbers: Sequence[int]
) -> Score:
    records = [recorder.known(task, row, number) for number in numbers]
    found = [
        each
        for record in records
        if record is not None
        for each in record.rows
        if each.test_length == length
    ]
    return Score(found)
