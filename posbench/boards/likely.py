"""How likely the right tokens are in pretrained models, under each extension: the answer of a board
of such models, and its first tables.

Answers in full are few where a model is small, and a loss has none. The numbers are those of
`posbench.statistics.likelihoods`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.base.wording import counted
from posbench.showing.pages import Chapter
from posbench.showing.table import NOTHING, Line, Table
from posbench.statistics import likelihoods
from posbench.statistics.aggregates import is_pretrained
from posbench.statistics.likelihoods import METHOD, Likelihood

TESTS = ["protocol_hash", "task_hash", "task_version", "protocol", "task"]
ABOUT = (
    "In nats a token, by the length of the text in tokens. The first line of a model is the mean "
    "log-likelihood of the right tokens without an extension. The others have what is added to it "
    "on the same samples, with the 95 % interval over samples: more than 0 is better."
)


@dataclass(frozen=True)
class LikelyRow:
    """A model with one extension, by the length of the text."""

    extension: str
    plain: bool
    samples: int
    found: dict[int, Likelihood]

    @property
    def order(self) -> tuple[bool, float, str]:
        """The model alone comes first, then what adds most to the longest text."""
        more = self.found[max(self.found)].more
        return not self.plain, -more.more if more else math.inf, self.extension


@dataclass(frozen=True)
class OfTask:
    """Pretrained models on one task under one protocol."""

    protocol: str
    task: str
    models: dict[str, list[LikelyRow]]

    @classmethod
    def all_of(cls, lengths: pd.DataFrame) -> list[OfTask]:
        """Of the long table of records; none where nothing is pretrained."""
        mine = lengths[lengths["method_class"].map(is_pretrained).astype(bool)]
        return [
            cls(
                protocol,
                task,
                {str(model): _extended(own) for model, own in tests.groupby("encoding")},
            )
            for (*_, protocol, task), tests in mine.groupby(TESTS)
        ]

    @property
    def part(self) -> Chapter:
        rows = [each for model in self.models.values() for each in model]
        tokens = sorted({length for each in rows for length in each.found})
        lines = [
            Line(each.extension, [f"{each.samples:,}", *_cells(each, tokens)], group=model)
            for model, extended in self.models.items()
            for each in extended
        ]
        table = Table.of(["extension", "samples", *(f"{each:,}" for each in tokens)], lines)
        return Chapter(
            f"{self.task}: how likely the right tokens are ({self.protocol})", [ABOUT, table]
        )

    @property
    def answer(self) -> Iterator[str]:
        """A sentence for each model: what adds most to its longest text, and what least."""
        for model, extended in self.models.items():
            longest = max(length for each in extended for length in each.found)
            there = [(each, each.found[longest].more) for each in extended if longest in each.found]
            known = [(each, more) for each, more in there if more is not None]
            if not known:
                continue
            known.sort(key=lambda pair: -pair[1].more)
            (best, most), (worst, least) = known[0], known[-1]
            said = f"{best.extension} adds {most.to(3)} nats a token"
            if len(known) > 1:
                said += f", which is most, and {worst.extension} {least.to(3)}, which is least"
            yield (
                f"{self.task} at {longest:,} tokens, over {counted(best.samples, 'sample')} of "
                f"{model}: {said}."
            )


def _extended(tests: pd.DataFrame) -> list[LikelyRow]:
    """The extensions of one model on one task, the model alone first."""
    found, names = likelihoods.of_board(tests), _names(tests)
    rows = []
    for (label, digest), own in tests.groupby(METHOD):
        multiples = own.drop_duplicates("test_length").set_index("test_length")["multiple"]
        at = {int(n): found[label, digest, float(of)] for n, of in multiples.items()}
        name = names[label, digest]
        rows.append(LikelyRow(name, bool(own["plain"].all()), own["seed"].nunique(), at))
    return sorted(rows, key=operator.attrgetter("order"))


def _cells(row: LikelyRow, tokens: Sequence[int]) -> list[str]:
    return [row.found[each].cell(3) if each in row.found else NOTHING for each in tokens]


def _names(tests: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What each row has been given, with what was changed; the label where two have the same."""
    rows = tests.drop_duplicates(METHOD)
    changed = (rows["extension"] + " (" + rows["changed"] + ")").where(
        rows["changed"] != "", rows["extension"]
    )
    shown = rows["method"].where(changed.duplicated(keep=False), changed)
    return dict(zip(rows[METHOD].itertuples(index=False, name=None), shown, strict=True))
