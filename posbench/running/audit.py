"""Greedy decoding, token by token, against the one pass of teacher forcing that every test relies
on.

Up to the first wrong token both have seen the same prefix, so both must find the same first wrong
token, or none. That holds for whatever sees no later token and takes its scale from the whole
sequence; `audit=N` measures it.
"""

from __future__ import annotations

from typing import Any

from posbench.evaluation import Tests
from posbench.extension import Extension
from posbench.transformer import Transformer


def audited(
    tests: Tests, model: Transformer, extension: Extension | None, num_samples: int
) -> list[dict[str, Any]]:
    """One row a test length: on how many sequences the two disagree, and on how many answers'
    correct prefix.
    """
    rows = []
    model.eval()
    for n in tests.lengths:
        batch, extended = tests.batch(n, num_samples), tests.extended(model, extension, n)
        forced = tests.answers(extended, model, batch, n)
        decoded = tests.decoded(extended, model, batch, n)
        rows.append(
            {
                "test_length": n,
                "num_samples": num_samples,
                "disagreements": int((decoded.sequences != forced.sequences).sum()),
                "prefix_disagreements": int(
                    (decoded.correct_prefix != forced.correct_prefix).sum()
                ),
            }
        )
    return rows
