"""Evaluation: one trained model, one extension, accuracy at every test length."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posbench.base.errors import ConfigError, PosbenchError
from posbench.core.batches import packed
from posbench.core.coverage import share_untrained, used_entries
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension
from posbench.core.row import Row, View
from posbench.core.scoring import Inputs, answers, inputs, position_ids
from posbench.core.settings import EvaluationConfig, TrainingConfig
from posbench.core.streams import stream_seed
from posbench.core.task import EOS, Answers, Batch, Task
from posbench.core.transformer import Transformer

TOKENS_PER_PASS = {"cpu": 2**12}
"""Tokens put through the model at once, by kind of device: what a core's cache holds."""
TOKENS_PER_PASS_ELSEWHERE = 2**17
"""On accelerators, which want larger pieces; bounds memory."""

RELATIVE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, np.inf)
"""Bins of the distance between a query and its source, in multiples of the largest trained
distance, and of the place of a query, in multiples of the positions of training."""

DEPTH_EDGES = tuple(tenth / 10 for tenth in range(11))
"""Bins of where the source is in its prompt: 0 at the start, 1 at the end."""


HALF = 0.5
"""The score, corrected for chance, that a rung of the ladder needs for the next to be measured."""


@dataclass(frozen=True)
class Lengths:
    """The task lengths n of a test, each with its multiple.

    A multiple is one of the positions of the longest training sequence; the length is the one whose
    positions come nearest.
    """

    trained: int  # the n that the multiples are of
    multiples: dict[int, float]  # by n, ascending

    @classmethod
    def of(cls, task: Task, settings: EvaluationConfig, trained: int) -> Lengths:
        """The lengths that the settings ask for; ConfigError if the task has none so long."""
        wanted = {multiple: nearest(task, trained, multiple) for multiple in settings.multiples}
        # Short trainings give two multiples one length; keep the one that names the length best.
        there = sorted(set(wanted.values()))
        named = {n: [multiple for multiple, length in wanted.items() if length == n] for n in there}
        return cls(
            trained,
            {
                n: min(
                    several, key=lambda multiple: abs(multiple - true_multiple(task, trained, n))
                )
                for n, several in named.items()
            },
        )


def nearest(task: Task, trained: int, multiple: float) -> int:
    """The length n whose positions are nearest to that multiple of those of training."""
    return (
        trained if multiple == 1 else task.nearest(multiple * task.num_positions(trained), trained)
    )


def true_multiple(task: Task, trained: int, n: int) -> float:
    """The positions of length n over those of the longest training sequence."""
    return task.num_positions(n) / task.num_positions(trained)


@dataclass(frozen=True)
class Answered:
    """The sequences of one length in a test, and how they were answered."""

    batch: Batch
    forced: Answers  # under teacher forcing, for numbers of tokens
    answers: Answers  # for numbers of sequences, decoded where the settings ask for that


class Evaluation:
    """The tests of one run: sequences and measures, the same for every encoding and extension."""

    def __init__(
        self,
        task: Task,
        settings: EvaluationConfig,
        lengths: Lengths,
        training: TrainingConfig,
        train_positions: int,
        seed: int,
    ) -> None:
        self.task, self.settings, self.training, self.seed = task, settings, training, seed
        self.lengths, self.train_positions = lengths, train_positions
        self.train_length = training.lengths[1]

    def batches(self, n: int, num_samples: int | None = None) -> list[Batch]:
        """The sequences of length n, a batch for each length that the test draws."""
        count = num_samples or self.settings.num_samples
        return self.task.tests(n, self.lengths.trained, count, self.seed, "test")

    def extend(self, model: Transformer, extension: Extension | None, n: int) -> Transformer:
        """The model in a test of length n.

        The extension is told the positions of the longest sequence of that test, prompt and answer,
        so that teacher forcing and greedy decoding use one and the same scale. If it were told
        those of each sequence, its scale would give away an answer that is a count.
        """
        if extension is None:
            return model
        positions = self.task.longest(n, self.lengths.trained)
        return model.with_encodings(self.encodings(model, extension, positions))

    def encodings(
        self, model: Transformer, extension: Extension | None, positions: int
    ) -> EncodingStack:
        """The encodings as they are in a test of so many positions."""
        if extension is None:
            return model.encodings
        return extension.extend(model.encodings, *self.spans(model, positions))

    def spans(self, model: Transformer, positions: int) -> tuple[int, int]:
        """The positions of training and of a test of so many, as the encodings give them."""
        stack = model.encodings
        return stack.span(self.train_positions, training=True), stack.span(positions)

    def inputs(self, batch: Batch, model: Transformer) -> Inputs:
        seed = stream_seed(self.seed, "test", "positions", batch.tokens.shape[1])
        return inputs(batch, model.encodings, seed)

    def predict(self, model: Transformer, base: Transformer, batch: Batch) -> Answers:
        """The answers of `model` under teacher forcing.

        Positions come from `base`, so that an extension cannot draw them anew.
        """
        return self._through(model, base, batch, answers)

    def decode(self, model: Transformer, base: Transformer, batch: Batch) -> Answers:
        """The answers of `model` decoded greedily, token by token; they have no losses."""
        return self._through(model, base, batch, decoded)

    def _through(
        self,
        model: Transformer,
        base: Transformer,
        batch: Batch,
        asked: Callable[[Transformer, Inputs, Batch], Answers],
    ) -> Answers:
        """The batch through the model, in pieces; a piece that memory does not hold in halves."""
        device = next(model.parameters()).device
        # The positions of a piece are drawn for the whole of it, however it is halved.
        waiting = [
            (self.inputs(batch.part(rows), base), batch.part(rows))
            for rows in reversed(list(pieces(batch, device)))
        ]
        found = []
        while waiting:
            data, part = waiting.pop()
            try:
                found.append(asked(model, data.to(device), part))
            except torch.OutOfMemoryError:
                waiting += _halves(data, part, device)
        return _joined(found)

    def evaluate(
        self, model: Transformer, extension: Extension | None
    ) -> tuple[list[Row], list[View]]:
        """One row for each test length, and its views; then the ladder, as far as it goes.

        A view separates tokens by the distance or the depth of their source, or by position.
        """
        rows: list[Row] = []
        views: list[View] = []
        model.eval()
        trained = self._trained_entries(model)
        for n, multiple in self.lengths.multiples.items():
            tested = self.test(model, extension, n, self.settings.num_samples)
            rows.append(
                self.row(n, multiple, tested, model, self._untrained(model, extension, trained, n))
            )
            views += self._views(n, tested)
        for multiple in self.settings.ladder:
            if rows[-1].corrected < HALF:
                break
            try:
                n = nearest(self.task, self.lengths.trained, multiple)
                tested = self.test(model, extension, n, self.settings.ladder_samples)
            except ConfigError:  # the task, the encoding or the extension ends before
                break
            rows.append(self.row(n, multiple, tested, model, None))
        return rows, views

    def test(
        self, model: Transformer, extension: Extension | None, n: int, num_samples: int
    ) -> list[Answered]:
        """The answers to every sequence of length n.

        ConfigError where the task, the encoding or the extension has nothing of that length.
        """
        positions = self.task.longest(n, self.lengths.trained)
        # An extension of a learned table makes more rows, and has to be told how many.
        most = self.encodings(model, extension, positions).max_positions
        needed = self.spans(model, positions)[1]
        if most is not None and most < needed:
            raise ConfigError(f"the encoding has {most} positions, and n = {n} needs {needed}")
        extended = self.extend(model, extension, n)
        found = []
        for batch in self.batches(n, num_samples):
            forced = said = self.predict(extended, model, batch)
            if self.settings.decoding == "greedy":
                said = replace(self.decode(extended, model, batch), losses=forced.losses)
            found.append(Answered(batch, forced, said))
        return found

    def row(
        self,
        n: int,
        multiple: float,
        tested: Sequence[Answered],
        model: Transformer,
        untrained: float | None,
    ) -> Row:
        """The measures of a test of length n."""

        def over_sequences(values: list[float]) -> float:
            return float(np.average(values, weights=[len(each.batch.tokens) for each in tested]))

        def of_sequences(measure: Callable[[Answers], np.ndarray]) -> float:
            return float(np.concatenate([measure(each.answers) for each in tested]).mean())

        correct = np.concatenate([each.forced.right[each.forced.asked] for each in tested])
        losses = np.concatenate([each.forced.losses[each.forced.asked] for each in tested])
        distance = np.concatenate([self._distances(each.batch) for each in tested])
        within, beyond = (distance >= 0) & (distance <= 1), distance > 1
        positions = self.task.longest(n, self.lengths.trained)
        return Row(
            test_length=n,
            multiple=multiple,
            true_multiple=true_multiple(self.task, self.lengths.trained, n),
            aggregated=multiple in self.lengths.multiples.values(),
            total_length=self.task.total_length(n),
            test_positions=self.spans(model, positions)[1],
            num_samples=sum(len(each.batch.tokens) for each in tested),
            num_tokens=len(correct),
            num_tokens_within=int(within.sum()),
            num_tokens_beyond=int(beyond.sum()),
            score=over_sequences([self.task.score(each.batch, each.answers) for each in tested]),
            proficiency=over_sequences(
                [self.task.proficiency(each.batch, each.answers) for each in tested]
            ),
            sequence_accuracy=of_sequences(lambda answers: answers.sequences),
            sequence_accuracy_without_end=of_sequences(lambda answers: answers.without_end),
            correct_prefix=of_sequences(lambda answers: answers.correct_prefix),
            token_accuracy_teacher_forced=float(correct.mean()),
            token_accuracy_within_trained_distance=_mean(correct[within]),
            token_accuracy_beyond_trained_distance=_mean(correct[beyond]),
            loss=float(losses.mean()),
            chance=self.task.chance(n),
            untrained=untrained,
        )

    def _distances(self, batch: Batch) -> np.ndarray:
        """Distances to sources, in multiples of the largest in training; negative: no source."""
        return distances(batch) / max(self.task.max_distance(self.train_length), 1)

    def _untrained(
        self, model: Transformer, extension: Extension | None, trained: list[Tensor], n: int
    ) -> float | None:
        batch = self.batches(n, 1)[-1]
        ids = position_ids(batch.part(slice(0, 1)), model.encodings)
        extended = self.extend(model, extension, n)
        sizes = model.num_heads, model.head_width, model.width
        return share_untrained(trained, extended.encodings, ids, *sizes)

    def _views(self, n: int, tested: Sequence[Answered]) -> Iterator[View]:
        """Tokens by where their source is; for a task without sources, by their own place."""
        correct = np.concatenate([each.forced.right[each.forced.asked] for each in tested])
        losses = np.concatenate([each.forced.losses[each.forced.asked] for each in tested])
        sourced, place = (
            np.concatenate([measure(each.batch) for each in tested])
            for measure in (_sourced, _places)
        )
        of = {
            "distance": (
                np.concatenate([self._distances(each.batch) for each in tested]),
                RELATIVE_EDGES,
                sourced,
            ),
            "depth": (
                np.concatenate([_depths(each.batch) for each in tested]),
                DEPTH_EDGES,
                sourced,
            ),
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
        sizes = model.num_heads, model.head_width, model.width
        each = [used_entries(stack, ids + start, *sizes, training=True) for start in starts]
        return [torch.stack(masks).any(0) for masks in zip(*each, strict=True)]


def _halves(data: Inputs, batch: Batch, device: torch.device) -> Sequence[tuple[Inputs, Batch]]:
    """The second and the first half of a piece that the memory of a device does not hold."""
    count, length = batch.tokens.shape
    if count == 1:
        raise PosbenchError(
            f"one sequence of {length:,} tokens does not fit in the memory of {device}: test "
            "shorter lengths (evaluation.multiples, evaluation.ladder), or on another device"
        )
    warnings.warn(
        f"{count} sequences of {length:,} tokens do not fit in the memory of {device}; they are "
        "tested in halves",
        stacklevel=2,
    )
    if device.type == "cuda":
        torch.cuda.empty_cache()
    first, second = slice(0, count // 2), slice(count // 2, count)
    return [(data.part(rows), batch.part(rows)) for rows in (second, first)]


def _joined(parts: Sequence[Answers]) -> Answers:
    """Answers to one batch that went through the model in parts."""
    names = [field.name for field in fields(Answers)]
    return Answers(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def pieces(batch: Batch, device: torch.device) -> Iterator[slice]:
    """Slices of as many sequences as may go through the model at once."""
    size = max(
        1, TOKENS_PER_PASS.get(device.type, TOKENS_PER_PASS_ELSEWHERE) // batch.tokens.shape[1]
    )
    for start in range(0, len(batch.tokens), size):
        yield slice(start, start + size)


def decoded(model: Transformer, data: Inputs, batch: Batch) -> Answers:
    """What greedy decoding answers; there are no losses."""
    right = greedy(model, data)
    asked, ends = batch.answer[:, 1:], (batch.answer & (batch.tokens == EOS))[:, 1:]
    return Answers(asked, right, np.zeros(right.shape, np.float32), ends)


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


def _sourced(batch: Batch) -> np.ndarray:
    """Whether a token that is asked for has a source."""
    return batch.source[:, 1:][batch.answer[:, 1:]] >= 0


def _places(batch: Batch) -> np.ndarray:
    """Where the tokens that are asked for are predicted, counted from 0."""
    shape = batch.tokens[:, 1:].shape
    return np.broadcast_to(np.arange(shape[1]), shape)[batch.answer[:, 1:]]


def _depths(batch: Batch) -> np.ndarray:
    """Where in its own prompt the source of a token is, from 0 at its start to 1 at its end."""
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
