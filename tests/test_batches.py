"""What a training sees: every seed and every step draws sequences and lengths of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from posbench.core.batches import training_batch
from posbench.core.settings import TrainingConfig
from posbench.core.task import Batch
from posbench.tasks.copy import Copy


def batch(seed: int, step: int, **settings: Any) -> Batch:
    chosen = {"min_length": 6, "max_length": 6, "batch_size": 4} | settings
    return training_batch(Copy(), TrainingConfig(**chosen), seed, step)


def lengths(seed: int) -> list[int]:
    found = [batch(seed, step, min_length=2, max_length=9, batch_size=1) for step in range(60)]
    return [(each.tokens.shape[1] - 3) // 2 for each in found]


@pytest.mark.parametrize("settings", [{}, {"packing": 40}], ids=["single", "packed"])
def test_every_seed_and_every_step_trains_on_sequences_of_its_own(settings: dict[str, Any]) -> None:
    rows = [
        row.tobytes()
        for seed in range(3)
        for step in range(5)
        for row in batch(seed, step, **settings).tokens
    ]
    assert len(set(rows)) == len(rows) == 60
    again = batch(2, 4, **settings).tokens
    assert [row.tobytes() for row in again] == rows[-4:]


def test_every_seed_draws_lengths_of_its_own_and_all_that_are_allowed() -> None:
    assert len({tuple(lengths(seed)) for seed in range(5)}) == 5
    assert set(lengths(0)) == set(lengths(1)) == set(range(2, 10))


def test_sequences_of_one_packed_row_are_not_one_sequence_repeated() -> None:
    rows = batch(0, 0, packing=44).tokens
    assert rows.shape == (4, 45)  # three sequences of fifteen tokens
    assert not np.array_equal(rows[:, :15], rows[:, 15:30])
    assert not np.array_equal(rows[:, 15:30], rows[:, 30:])


def test_every_seed_and_every_step_draws_offsets_of_its_own() -> None:
    found = [
        tuple(batch(seed, step, random_offset=1000).ids["index"][:, 0])
        for seed in range(3)
        for step in range(5)
    ]
    assert len(set(found)) == 15


def test_examples_that_come_again_are_those_of_the_same_seed() -> None:
    """Twelve examples are three steps of four, and the fourth step is the first again."""
    first, fourth = (batch(1, step, num_examples=12).tokens for step in (0, 3))
    assert np.array_equal(first, fourth)
    assert not np.array_equal(first, batch(2, 3, num_examples=12).tokens)
