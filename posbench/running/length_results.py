"""What the tests of a run found: rows and views, and sums by text where tokens are paired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from posbench.core.evaluation import Answered, Evaluation
from posbench.core.extension import Extension
from posbench.core.row import Row, View
from posbench.core.task import PairedTask, Summed
from posbench.core.transformer import Transformer
from posbench.records.record import ByText, TextSums
from posbench.running.setup import Setup

NOTHING = Summed(0, 0.0, 0)


@dataclass(frozen=True)
class LengthResults:
    """All that was measured, at every test length."""

    rows: list[Row]
    views: list[View] = field(default_factory=list)
    sums: dict[int, dict[str, Summed]] = field(default_factory=dict)  # by n and text

    @classmethod
    def of(cls, setup: Setup, model: Transformer, extension: Extension | None) -> Self:
        """The tests of a model with an extension."""
        if not isinstance(setup.task, PairedTask):
            return cls(*setup.evaluation.evaluate(model, extension))
        tests = setup.tests(PairedEvaluation)
        return cls(*tests.evaluate(model, extension), tests.sums)

    @classmethod
    def joined(cls, several: Iterable[Self]) -> Self:
        """One after another, each at lengths of its own."""
        found = cls([])
        for each in several:
            found.rows.extend(each.rows)
            found.views.extend(each.views)
            found.sums.update(each.sums)
        return found

    @property
    def by_text(self) -> ByText | None:
        """The sums as a record holds them; None of a task whose tokens are not paired."""
        if not self.sums:
            return None
        names = sorted(set().union(*self.sums.values()))
        tests = []
        for n, of_test in self.sums.items():
            of_texts = [of_test.get(name, NOTHING) for name in names]
            tests.append(
                TextSums(
                    test_length=n,
                    tokens=[each.tokens for each in of_texts],
                    nats=[each.nats for each in of_texts],
                    right=[each.right for each in of_texts],
                )
            )
        return ByText(names=names, tests=tests)


class PairedEvaluation(Evaluation):
    """The same tests, which also keep their `sums`, by n and text."""

    def __init__(self, task: PairedTask, *others: Any) -> None:
        super().__init__(task, *others)
        self.paired = task
        self.sums: dict[int, dict[str, Summed]] = {}

    def row(
        self,
        n: int,
        multiple: float,
        tested: Sequence[Answered],
        model: Transformer,
        untrained: float | None,
    ) -> Row:
        [each] = tested
        texts = self.paired.texts(len(each.batch.tokens), self.seed, "test")
        self.sums[n] = self.paired.by_text(each.forced, texts)
        return super().row(n, multiple, tested, model, untrained)
