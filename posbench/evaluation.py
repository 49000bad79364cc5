"""Evaluation: one trained model, one extension, accuracy at every test length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.batches import packed
from posbench.config import EvaluationConfig, TrainingConfig
from posbench.coverage import share_untrained, used_entries
from posbench.extension import Extension
from posbench.records.row import Row, View
from posbench.scoring import Inputs, inputs, logits, position_ids
from posbench.streams import stream_seed
from posbench.task import EOS, Batch, Task
from posbench.transformer import Transformer

TOKENS_PER_PASS = {"cpu": 2**12}
"""Tokens put through the model at once, by kind of device: what a core's cache holds."""
TOKENS_PER_PASS_ELSEWHERE = 2**17
"""On accelerators, which want larger pieces; bounds memory."""

RELATIVE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, np.inf)
"""Bins of the distance between a query and its source, in multiples of the largest trained
distance, and of the place of a query, in multiples of the positions of training."""

DEPTH_EDGES = tuple(tenth / 10 for tenth in range(11))
"""Bins of where the source stands in its prompt: 0 at the start, 1 at the end."""


def test_lengths(settings: EvaluationConfig, train_length: int) -> dict[int, float]:
    """The multiple of the training length by task length n, ascending, further lengths included."""
    multiples = sorted({*settings.multiples, *settings.further})
    lengths = {round(multiple * train_length): multiple for multiple in multiples}
    # Short trainings round two multiples to one length; keep the one that names the length best.
    return {n: min(multiples, key=lambda m: abs(m * train_length - n)) for n in lengths}


class Evaluation:
    """The tests of one run: sequences and measures, the same for every encoding and extension."""

    def __init__(
        self,
        task: Task,
        settings: EvaluationConfig,
        training: TrainingConfig,
        train_positions: int,
        seed: int,
    ) -> None:
        self.task, self.settings, self.training, self.seed = task, settings, training, seed
        self.train_length, self.train_positions = training.lengths[1], train_positions
        self.lengths = test_lengths(settings, self.train_length)

    def batch(self, n: int, num_samples: int | None = None) -> Batch:
        return self.task.batch(n, num_samples or self.settings.num_samples, self.seed, "test", n)

    def extend(self, model: Transformer, extension: Extension | None, n: int) -> Transformer:
        """The model as it is tested on length n.

        The extension is told the positions of the whole sequence, prompt and answer, so that
        teacher forcing and greedy decoding use one and the same scale.
        """
        if extension is None:
            return model
        return model.with_encodings(extension.extend(model.encodings, *self.spans(model, n)))

    def spans(self, model: Transformer, n: int) -> tuple[int, int]:
        """The positions of training and of a test of length n, as the encodings give them."""
        stack = model.encodings
        return stack.span(self.train_positions, training=True), stack.span(
            self.task.num_positions(n)
        )

    def inputs(self, batch: Batch, model: Transformer, n: int) -> Inputs:
        return inputs(batch, model.encodings, stream_seed(self.seed, "test", "positions", n))

    def predict(self, model: Transformer, base: Transformer, batch: Batch, n: int) -> Answers:
        """The answers of `model` under teacher forcing.

        Positions come from `base`, so that an extension cannot draw them anew.
        """
        device = next(model.parameters()).device
        right, losses = (np.zeros(batch.answer[:, 1:].shape, dtype) for dtype in (bool, np.float32))
        for rows in pieces(batch, device):
            data = self.inputs(batch.part(rows), base, n).to(device)
            with torch.inference_mode():
                predicted = logits(model, data).float()
            asked = data.where.cpu().numpy()
            right[rows][asked] = (predicted.argmax(-1) == data.labels).cpu().numpy()
            losses[rows][asked] = (
                F.cross_entropy(predicted, data.labels, reduction="none").cpu().numpy()
            )
        return Answers(batch.answer[:, 1:], right, losses, _ends(batch))

    def decode(self, model: Transformer, base: Transformer, batch: Batch, n: int) -> Answers:
        """The answers of `model` decoded greedily, token by token; they have no losses."""
        device = next(model.parameters()).device
        right = np.zeros(batch.answer[:, 1:].shape, bool)
        for rows in pieces(batch, device):
            right[rows] = greedy(model, self.inputs(batch.part(rows), base, n).to(device))
        return Answers(batch.answer[:, 1:], right, np.zeros(right.shape, np.float32), _ends(batch))

    def evaluate(
        self, model: Transformer, extension: Extension | None
    ) -> tuple[list[Row], list[View]]:
        """One row for each test length, and its views.

        A view tells tokens apart by the distance or the depth of their source, or by position.
        """
        rows: list[Row] = []
        views: list[View] = []
        model.eval()
        trained = self._trained_entries(model)
        for n, multiple in self.lengths.items():
            extended, batch = self.extend(model, extension, n), self.batch(n)
            forced = self.predict(extended, model, batch, n)
            # What is asked for the sequence as a whole may be decoded; what is said of tokens is of
            # teacher forcing.
            answers = (
                forced
                if self.settings.decoding == "teacher_forced"
                else self.decode(extended, model, batch, n)
            )
            correct, loss = forced.right[forced.asked], forced.mean_loss
            distance = distances(batch) / self.task.max_distance(self.train_length)
            within, beyond = (distance >= 0) & (distance <= 1), distance > 1
            ids = position_ids(batch.part(slice(0, 1)), model.encodings)
            accuracy = float(answers.sequences.mean())
            rows.append(
                Row(
                    test_length=n,
                    multiple=multiple,
                    aggregated=multiple in self.settings.multiples,
                    total_length=self.task.total_length(n),
                    test_positions=self.spans(model, n)[1],
                    num_samples=self.settings.num_samples,
                    num_tokens=len(correct),
                    num_tokens_within=int(within.sum()),
                    num_tokens_beyond=int(beyond.sum()),
                    score=self.task.score(n, accuracy, loss),
                    sequence_accuracy=accuracy,
                    sequence_accuracy_without_end=float(answers.without_end.mean()),
                    correct_prefix=float(answers.correct_prefix.mean()),
                    token_accuracy_teacher_forced=float(correct.mean()),
                    token_accuracy_within_trained_distance=_mean(correct[within]),
                    token_accuracy_beyond_trained_distance=_mean(correct[beyond]),
                    loss=loss,
                    chance=self.task.chance(n),
                    untrained=share_untrained(
                        trained, extended.encodings, ids, model.num_heads, model.width
                    ),
                )
            )
            views += self._views(n, batch, correct, forced.losses[forced.asked])
        return rows, views

    def _views(
        self, n: int, batch: Batch, correct: np.ndarray, losses: np.ndarray
    ) -> Iterator[View]:
        """Tokens by where their source is; for a task without sources, by their own place."""
        sourced = batch.source[:, 1:][batch.answer[:, 1:]] >= 0
        place = np.broadcast_to(np.arange(batch.tokens.shape[1] - 1), batch.tokens[:, 1:].shape)[
            batch.answer[:, 1:]
        ]
        of = {
            "distance": (
                distances(batch) / self.task.max_distance(self.train_length),
                RELATIVE_EDGES,
                sourced,
            ),
            "depth": (_depths(batch), DEPTH_EDGES, sourced),
            "position": (
                (place + 1) / self.train_positions,
                RELATIVE_EDGES,
                ~sourced & (not sourced.any()),
            ),
        }
        for by, (values, edges, shown) in of.items():
            if shown.any():
                bins = binned(values[shown], edges, correct[shown], losses[shown])
                yield View.model_validate({"test_length": n, "by": by} | bins)

    def _trained_entries(self, model: Transformer) -> list[Tensor]:
        """Entries that a training sequence of the largest length uses, at any of its offsets."""
        if self.training.packing:
            full = replace(
                self.training,
                batch_size=1,
                min_length=self.train_length,
                max_length=self.train_length,
            )
            longest = packed(self.task, replace(full, length_scale=1.0), self.seed, 0)
        else:
            longest = self.task.batch(self.train_length, 1, self.seed, "coverage")
        ids, stack = position_ids(longest, model.encodings), model.encodings
        last = self.training.random_offset if stack.ids == "index" else 0
        starts = {*range(0, last, ids.shape[1]), last}
        each = [
            used_entries(stack, ids + start, model.num_heads, model.width, training=True)
            for start in starts
        ]
        return [torch.stack(masks).any(0) for masks in zip(*each, strict=True)]


def pieces(batch: Batch, device: torch.device) -> Iterator[slice]:
    """Slices of as many sequences as may go through the model at once."""
    size = max(
        1, TOKENS_PER_PASS.get(device.type, TOKENS_PER_PASS_ELSEWHERE) // batch.tokens.shape[1]
    )
    for start in range(0, len(batch.tokens), size):
        yield slice(start, start + size)


@torch.inference_mode()
def greedy(model: Transformer, data: Inputs) -> np.ndarray:
    """Which tokens of the answers are right, [batch, n], where each is predicted from the prompt
    and those before it.

    The model is given prefixes, as if it were generating: the tokens it has chosen, and nothing of
    what comes after.
    """
    tokens, right = data.tokens.clone(), torch.zeros_like(data.where)
    labels = torch.zeros_like(data.tokens)
    labels[data.where] = data.labels
    for column in data.where.any(0).nonzero()[:, 0].tolist():
        asked, seen = data.where[:, column], slice(0, column + 1)
        last = torch.zeros_like(data.where[:, seen])
        last[:, -1] = asked
        chosen = model(tokens[:, seen], data.pos[:, seen], data.segments[:, seen], last).argmax(-1)
        right[asked, column] = chosen == labels[asked, column]
        if column + 1 < tokens.shape[1]:
            tokens[asked, column + 1] = chosen
    return right.cpu().numpy()


def binned(
    values: np.ndarray, edges: Sequence[float], correct: np.ndarray, losses: np.ndarray
) -> dict[str, list[Any]]:
    """Means over the bins (low, high] that hold tokens, as the columns of a `View`."""
    bins = np.clip(
        np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2
    )  # an edge 0 is in the first bin
    used, index, counts = np.unique(bins, return_inverse=True, return_counts=True)
    shares, lost = (np.bincount(index, weights=each) / counts for each in (correct, losses))
    return {
        "above": [float(edges[b]) for b in used],
        "up_to": [float(edges[b + 1]) if np.isfinite(edges[b + 1]) else None for b in used],
        "num_tokens": counts.tolist(),
        "token_accuracy_teacher_forced": shares.tolist(),
        "loss": lost.round(6).tolist(),  # a millionth of a nat
    }


def _ends(batch: Batch) -> np.ndarray:
    return (batch.answer & (batch.tokens == EOS))[:, 1:]


def _depths(batch: Batch) -> np.ndarray:
    """Where in its own prompt the source of a token stands, from 0 at its start to 1 at its end."""
    length = np.maximum(
        (batch.segments == 0).sum(1, keepdims=True) - 3, 1
    )  # without BOS and SEP, from 0 on
    return ((batch.source - 1) / length)[:, 1:][batch.answer[:, 1:]]


def distances(batch: Batch) -> np.ndarray:
    """Tokens between the query that predicts a token and its source; -1 for a token without one."""
    query = np.arange(batch.tokens.shape[1]) - 1
    distance = np.where(batch.source >= 0, query - batch.source, -1)
    return distance[:, 1:][batch.answer[:, 1:]].astype(float)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
