"""Training batches: a pure function of settings, seed and step, the same for every encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posbench.core.settings import TrainingConfig
from posbench.core.streams import stream_seed
from posbench.core.task import Batch, Task


def training_batch(task: Task, settings: TrainingConfig, seed: int, step: int) -> Batch:
    """The batch of one training step.

    All its sequences have one length, drawn uniformly. With `packing`, each row instead fills a
    context with several sequences.
    """
    if settings.num_examples:
        step %= settings.num_examples // settings.batch_size
    if settings.packing:
        batch = packed(task, settings, seed, step)
    else:
        n = _length(settings, seed, "train", "length", step)
        batch = task.batch(n, settings.batch_size, seed, "train", step)
    if settings.random_offset:
        batch = shifted(
            batch,
            settings.random_offset,
            np.random.default_rng(stream_seed(seed, "train", "offset", step)),
        )
    return everywhere(batch) if settings.loss_on == "all" else batch


def packed(task: Task, settings: TrainingConfig, seed: int, step: int) -> Batch:
    """Contexts of `packing` input tokens, filled with sequences of random lengths.

    A row has one token more, to be predicted. The last sequence is cut where the context ends.
    Positions continue through the row and attention crosses from one sequence to the next, as in
    the trainings that pack (arXiv 2402.01032, 2310.16028), so absolute positions and distances far
    beyond one sequence are trained. All rows of a batch use the same lengths.
    """
    parts: list[Batch] = []
    while sum(part.tokens.shape[1] for part in parts) <= settings.packing:
        n = _length(settings, seed, "train", "length", step, len(parts))
        parts.append(task.batch(n, settings.batch_size, seed, "train", step, len(parts)))
    return joined(parts, settings.packing + 1)


def joined(parts: Sequence[Batch], total: int) -> Batch:
    """Join batches one after another and cut the rows after `total` tokens.

    The task's ids start anew in every batch; indices go on.
    """
    starts = np.cumsum([0, *(part.tokens.shape[1] for part in parts[:-1])])
    sources = [
        np.where(part.source >= 0, part.source + start, -1)
        for part, start in zip(parts, starts, strict=True)
    ]

    def row(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(arrays, 1)[:, :total]

    return Batch(
        row([part.tokens for part in parts]),
        row([part.answer for part in parts]),
        row(sources),
        row([part.segments for part in parts]),
        {kind: row([part.ids[kind] for part in parts]) for kind in parts[0].ids},
    )


def shifted(batch: Batch, largest: int, rng: np.random.Generator) -> Batch:
    """Shift all indices of a sequence by one random number from 0 to `largest`.

    Ids supplied by the task stay as they are.
    """
    index = np.arange(batch.tokens.shape[1]) + rng.integers(0, largest + 1, (len(batch.tokens), 1))
    return replace(batch, ids={**batch.ids, "index": index})


def everywhere(batch: Batch) -> Batch:
    """Ask the model for every token after the first, including the prompt's."""
    return replace(
        batch, answer=np.tile(np.arange(batch.tokens.shape[1]) > 0, (len(batch.tokens), 1))
    )


def _length(settings: TrainingConfig, seed: int, *stream: str | int) -> int:
    low, high = settings.lengths
    return low + stream_seed(seed, *stream) % (high - low + 1)
