"""Beyond the tests: a rung is measured while the one before is half solved, and it changes nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from posbench.base.errors import ConfigError
from posbench.core import evaluation
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.evaluation import Evaluation
from posbench.core.extension import Extension
from posbench.core.row import Row
from posbench.core.task import EOS, Answers, Batch
from posbench.running.setup import Setup
from posbench.running.subject import setup

SMALL = (
    "evaluation.multiples=[1,2]",
    "evaluation.longest=2",
    "evaluation.ladder=[4,8,16]",
    "evaluation.num_samples=64",
    "evaluation.ladder_samples=32",
    "model.width=16",
    "model.num_heads=1",
    "model.head_width=16",
)


def answering(monkeypatch: pytest.MonkeyPatch, right: Mapping[float, int], made: Setup) -> None:
    """Let the model answer that many sequences, and no others, by the multiple of a test."""
    by_length = {
        made.task.total_length(evaluation.nearest(made.task, made.train_length, multiple)): count
        for multiple, count in right.items()
    }

    def predict(self: Evaluation, model: Any, base: Any, batch: Batch) -> Answers:
        asked, ends = batch.answer[:, 1:], (batch.answer & (batch.tokens == EOS))[:, 1:]
        said = asked.copy()
        said[by_length[batch.tokens.shape[1]] :] = False
        return Answers(asked, said, np.ones(asked.shape, np.float32), ends)

    monkeypatch.setattr(Evaluation, "predict", predict)


def climbed(
    monkeypatch: pytest.MonkeyPatch,
    right: Mapping[float, int],
    *words: str,
    extension: Extension | None = None,
) -> list[Row]:
    made = setup(*SMALL, *words)
    answering(monkeypatch, right, made)
    return made.evaluation.evaluate(made.model(), extension)[0]


ALL = {1: 64, 2: 64, 4: 32, 8: 32, 16: 32}
"""Every sequence right."""


# A copy is not guessed; of two answers, half are guessed, and .75 is half of what is left.
@pytest.mark.parametrize(
    ("task", "right", "last"),
    [
        ("copy", ALL, 16),
        ("copy", ALL | {2: 32}, 16),
        ("copy", ALL | {2: 31}, 2),
        ("copy", ALL | {4: 16}, 16),
        ("copy", ALL | {4: 15}, 4),
        ("copy", ALL | {8: 15}, 8),
        ("copy", ALL | {16: 0}, 16),
        ("copy", ALL | {1: 0}, 16),
        ("copy", ALL | {1: 0, 2: 0}, 2),
        ("majority", ALL | {2: 48, 4: 24}, 16),
        ("majority", ALL | {2: 47}, 2),
        ("majority", ALL | {2: 48, 4: 23}, 4),
    ],
)
def test_a_rung_is_measured_while_the_length_before_is_half_solved_beyond_guessing(
    monkeypatch: pytest.MonkeyPatch, task: str, right: dict[float, int], last: float
) -> None:
    rows = climbed(monkeypatch, right, f"task={task}", "method=nope")
    assert [row.multiple for row in rows] == [each for each in (1, 2, 4, 8, 16) if each <= last]
    assert [row.aggregated for row in rows] == [row.multiple <= 2 for row in rows]
    assert [row.num_samples for row in rows] == [64 if row.multiple <= 2 else 32 for row in rows]
    for row in rows:
        assert row.score == right[row.multiple] / row.num_samples
        assert row.corrected == pytest.approx((row.score - row.chance) / (1 - row.chance))
        assert row.true_multiple == pytest.approx(row.multiple, abs=0.05)
        assert (row.untrained is None) or row.aggregated


class EndsAt(Extension):
    """Changes nothing, and knows no test of more positions."""

    def __init__(self, most: int) -> None:
        self.most = most

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        if test_positions > self.most:
            raise ConfigError("the longest test is too long")
        return stack

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("task=copy", "method=rope"), 16),
        (("task=copy", "method=learned"), 2),  # a row for each position of the longest test
        (("task=copy", "method=learned", "encoding.num_rows=176"), 8),  # 8 times 22
        (("task=copy", "method=learned", "encoding.num_rows=175"), 4),
        (("task=copy", "method=random_positions"), 2),
        (("task=copy", "method=random_positions", "encoding.largest=176"), 8),
        (("task=copy_unique", "method=rope", "task.num_symbols=43"), 4),  # 88 positions
        (("task=copy_unique", "method=rope", "task.num_symbols=42"), 2),
    ],
)
def test_the_ladder_ends_where_the_task_or_the_encoding_does(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], last: float
) -> None:
    right = {multiple: count for multiple, count in ALL.items() if multiple <= last}
    made = setup(*SMALL, *words)
    answering(monkeypatch, right, made)
    rows, _ = made.evaluation.evaluate(made.model(), None)
    assert made.train_positions == 22 and rows[-1].multiple == last


@pytest.mark.parametrize(
    ("method", "last"),
    [
        ("learned_table_interpolation", 32),
        ("learned_table_interpolation_ratio", 32),
        ("learned_table_tiling", 32),
        ("learned_table_hierarchical", 16),  # 22 rows make 484 positions
    ],
)
def test_the_ladder_goes_as_far_as_an_extended_table(
    monkeypatch: pytest.MonkeyPatch, method: str, last: float
) -> None:
    """The table itself has a row for each position of the longest test, and would end at 2."""
    made = setup(*SMALL, "evaluation.ladder=[4,8,16,32]", "task=copy", f"method={method}")
    answering(monkeypatch, ALL | {32: 32}, made)
    rows, _ = made.evaluation.evaluate(made.model(), made.extension)
    assert made.train_positions == 22 and rows[-1].multiple == last


class Cut(Extension):
    """Leaves the positions below a limit."""

    def __init__(self, most: int) -> None:
        self.most = most

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding.variant(max_positions=self.most)


@pytest.mark.parametrize(("most", "last"), [(87, 2), (88, 4), (351, 8), (352, 16)])
def test_the_ladder_ends_where_the_extended_encoding_does(
    monkeypatch: pytest.MonkeyPatch, most: int, last: float
) -> None:
    rows = climbed(monkeypatch, ALL, "task=copy", "method=rope", extension=Cut(most))
    assert rows[-1].multiple == last


@pytest.mark.parametrize(("most", "last"), [(87, 2), (88, 4), (351, 8), (352, 16)])
def test_the_ladder_ends_where_the_extension_does(
    monkeypatch: pytest.MonkeyPatch, most: int, last: float
) -> None:
    words = ("task=copy", "method=rope")
    rows = climbed(monkeypatch, ALL, *words, extension=EndsAt(most))
    assert rows[-1].multiple == last


def test_an_extension_that_knows_no_test_within_the_multiples_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="too long"):
        climbed(monkeypatch, ALL, "task=copy", "method=rope", extension=EndsAt(43))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["alibi", "rope_yarn"])
def test_the_ladder_changes_no_row_before_it(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(evaluation, "HALF", -1.0)  # these weights know nothing
    words = (*SMALL, "task=passkey", f"method={method}")
    found = {}
    for ladder in ("[]", "[4]", "[4,8]"):
        made = setup(*words, f"evaluation.ladder={ladder}")
        found[ladder] = made.evaluation.evaluate(made.model(), made.extension)
    (none, seen), (one, seen_one), (two, seen_two) = found.values()
    assert len(none) == 2 and none == one[:2] == two[:2] and one[2] == two[2]
    assert [row.multiple for row in two] == [1, 2, 4, 8]
    assert seen == seen_one == seen_two, "a rung has no views"
