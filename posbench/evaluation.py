"""Evaluation: one trained model, one extension, accuracy at every test length."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from posbench.config import EvaluationConfig
from posbench.coverage import untrained
from posbench.extension import Extension
from posbench.scoring import inputs, position_ids, score
from posbench.streams import stream_seed
from posbench.task import Batch, Task
from posbench.transformer import Transformer

Rows = list[dict[str, Any]]

TOKENS_PER_PASS = 2**14
"""Tokens put through the model at once; bounds memory, changes no token."""

DISTANCE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, np.inf)
"""Bins of the distance between a query and its source, in multiples of the largest trained distance."""


def test_lengths(settings: EvaluationConfig, train_length: int) -> dict[int, float]:
    """Task length n -> multiple of the training length, ascending, the aggregated and the further ones."""
    multiples = sorted({*settings.multiples, *settings.further})
    lengths = {round(multiple * train_length): multiple for multiple in multiples}
    # Short trainings round two multiples to one length; keep the one that names the length best.
    return {n: min(multiples, key=lambda m: abs(m * train_length - n)) for n in lengths}


def evaluate(
    model: Transformer,
    extension: Extension | None,
    task: Task,
    settings: EvaluationConfig,
    train_length: int,
    train_positions: int,
    seed: int,
) -> tuple[Rows, Rows]:
    """One row a test length, and one cell a test length and bin of distances.

    The extension is told the positions of the whole sequence, prompt and answer, so that teacher forcing and
    greedy decoding use one and the same scale.
    """
    rows, cells = [], []
    model.eval()
    longest = task.batch(train_length, 1, seed, "coverage")
    for n, multiple in test_lengths(settings, train_length).items():
        extended = model
        if extension is not None:
            stack = model.encodings
            spans = stack.span(train_positions, training=True), stack.span(task.num_positions(n))
            extended = model.with_encodings(extension.extend(stack, *spans))
        batch = task.batch(n, settings.num_samples, seed, "test", n)
        ids = position_ids(longest, model.encodings), position_ids(batch.part(slice(0, 1)), model.encodings)
        correct, losses, sequences = _scores(extended, batch, seed, n)
        reach = _distances(batch) / task.max_distance(train_length)
        within, beyond = (reach >= 0) & (reach <= 1), reach > 1
        rows.append(
            {
                "test_length": n,
                "multiple": multiple,
                "aggregated": multiple in settings.multiples,
                "total_length": task.total_length(n),
                "num_samples": settings.num_samples,
                "sequence_accuracy": float(sequences.mean()),
                "token_accuracy": float(correct.mean()),
                "token_accuracy_within_trained_distance": _mean(correct[within]),
                "token_accuracy_beyond_trained_distance": _mean(correct[beyond]),
                "loss": float(losses.mean()),
                "chance": task.chance(n),
                "untrained": untrained(model.encodings, extended.encodings, ids, model.num_heads, model.width),
            }
        )
        for low, high in itertools.pairwise(DISTANCE_EDGES):
            here = (reach > low) & (reach <= high)
            if here.any():
                cells.append(
                    {
                        "test_length": n,
                        "distance_above": low,
                        "distance_up_to": high if np.isfinite(high) else None,
                        "num_tokens": int(here.sum()),
                        "token_accuracy": float(correct[here].mean()),
                    }
                )
    return rows, cells


def _scores(model: Transformer, batch: Batch, seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    device = next(model.parameters()).device
    size = max(1, TOKENS_PER_PASS // batch.tokens.shape[1])
    parts = []
    for start in range(0, len(batch.tokens), size):
        piece = batch.part(slice(start, start + size))
        data = inputs(piece, model.encodings, stream_seed(seed, "test", "positions", n))
        parts.append(score(model, data.to(device)))
    return (
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.losses for part in parts]),
        np.concatenate([part.sequences for part in parts]),
    )


def _distances(batch: Batch) -> np.ndarray:
    """Tokens between the query that predicts a token and its source, -1 where there is no one source."""
    query = np.arange(batch.tokens.shape[1]) - 1
    distance = np.where(batch.source >= 0, query - batch.source, -1)
    return distance[:, 1:][batch.answer[:, 1:]].astype(float)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
