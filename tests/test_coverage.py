"""Which entries of an encoding a test uses untrained: counted by hand where they can be."""

from __future__ import annotations

import pytest
import torch

from posbench.core.coverage import share_untrained, used_entries
from posbench.core.encoding import EncodingStack
from posbench.encodings.learned import Learned
from posbench.encodings.rope import RoPE
from posbench.encodings.t5 import T5
from posbench.extensions.pi import PI
from posbench.running.subject import setup


def ids(n: int) -> torch.Tensor:
    return torch.arange(n)[None]


def share(base: EncodingStack, extended: EncodingStack, trained: int, tested: int) -> float | None:
    return share_untrained(
        used_entries(base, ids(trained), 2, 4, 8, training=True), extended, ids(tested), 2, 4, 8
    )


def test_rows_beyond_training_are_untrained() -> None:
    stack = EncodingStack([Learned(8, 40)])
    assert share(stack, stack, 10, 10) == 0
    assert share(stack, stack, 10, 40) == pytest.approx(30 / 40)
    (mask,) = used_entries(stack, ids(10), 2, 4, 8, training=True)
    assert mask[:10].all() and not mask[10:].any()


def test_a_bucket_that_begins_beyond_training_is_untrained() -> None:
    """8 buckets up to 32: distances 0 to 3, then from 4, 7, 12 and 20 on."""
    stack = EncodingStack([T5(2, 8, 8, 32)])
    assert share(stack, stack, 21, 60) == 0
    assert share(stack, stack, 20, 60) == pytest.approx(1 / 8)
    assert share(stack, stack, 5, 60) == pytest.approx(3 / 8)


def test_encodings_without_parameters_have_no_share() -> None:
    stack = EncodingStack([RoPE(4)])
    assert share(stack, PI().extend(stack, 8, 16), 8, 16) is None


@pytest.mark.slow
def test_a_record_holds_the_share_at_each_length() -> None:
    run = setup("encoding=learned")
    rows, _ = run.evaluation.evaluate(run.model(), None)
    shares = {row.multiple: row.untrained for row in rows}
    assert shares[1] == 0
    for row in rows:
        positions = run.task.num_positions(row.test_length)
        assert shares[row.multiple] == pytest.approx(1 - run.train_positions / positions)
