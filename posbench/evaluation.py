"""Evaluation: one trained model, one extension, accuracy at every test length."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.attention import Attention, Plan, attend, by_rows
from posbench.config import EvaluationConfig
from posbench.coverage import reached, share_untrained
from posbench.extension import Extension
from posbench.scoring import Inputs, inputs, position_ids
from posbench.streams import stream_seed
from posbench.task import Batch, Task
from posbench.transformer import Block, Transformer

Rows = list[dict[str, Any]]

TOKENS_PER_PASS = {"cpu": 2**12}
"""Tokens put through the model at once, by kind of device: what a core's cache holds. Changes no token."""
TOKENS_PER_PASS_ELSEWHERE = 2**17
"""On accelerators, which want larger pieces; bounds memory."""

ROWS_AT_ONCE = 64
"""Queries of the last layer whose attention weights are held at once."""

DISTANCE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, np.inf)
"""Bins of the distance between a query and its source, in multiples of the largest trained distance."""


def test_lengths(settings: EvaluationConfig, train_length: int) -> dict[int, float]:
    """Task length n -> multiple of the training length, ascending, the aggregated and the further ones."""
    multiples = sorted({*settings.multiples, *settings.further})
    lengths = {round(multiple * train_length): multiple for multiple in multiples}
    # Short trainings round two multiples to one length; keep the one that names the length best.
    return {n: min(multiples, key=lambda m: abs(m * train_length - n)) for n in lengths}


@dataclass(frozen=True)
class Answers:
    """What one teacher-forced pass says about sequences, [batch, n]: entries are those of the tokens asked for."""

    asked: np.ndarray  # bool
    right: np.ndarray  # bool, False where nothing is asked
    losses: np.ndarray  # float32, nats, 0 where nothing is asked

    @property
    def sequences(self) -> np.ndarray:
        """[batch], every answer token right, the end of the sequence among them."""
        return (self.right == self.asked).all(1)

    @property
    def mean_loss(self) -> float:
        return float(self.losses[self.asked].mean())

    @property
    def without_end(self) -> np.ndarray:
        """[batch], every answer token right, whatever follows: the last token asked for ends the sequence."""
        last = self.asked & (self.asked[:, ::-1].cumsum(1)[:, ::-1] == 1)
        return (self.right | last | ~self.asked).all(1)

    @property
    def correct_prefix(self) -> np.ndarray:
        """[batch], the share of the answer before its first wrong token."""
        wrong_before = (self.asked & ~self.right).cumsum(1) > 0
        return (self.asked & ~wrong_before).sum(1) / self.asked.sum(1)


class Tests:
    """The test sequences of one run and the measures on them: the same for every encoding and every extension."""

    __test__ = False  # for pytest, which would collect it by its name

    def __init__(
        self, task: Task, settings: EvaluationConfig, train_length: int, train_positions: int, seed: int
    ) -> None:
        self.task, self.settings, self.seed = task, settings, seed
        self.train_length, self.train_positions = train_length, train_positions
        self.lengths = test_lengths(settings, train_length)

    def batch(self, n: int, num_samples: int | None = None) -> Batch:
        return self.task.batch(n, num_samples or self.settings.num_samples, self.seed, "test", n)

    def extended(self, model: Transformer, extension: Extension | None, n: int) -> Transformer:
        """The model as it is tested on length n.

        The extension is told the positions of the whole sequence, prompt and answer, so that teacher forcing and
        greedy decoding use one and the same scale.
        """
        if extension is None:
            return model
        return model.with_encodings(extension.extend(model.encodings, *self.spans(model, n)))

    def spans(self, model: Transformer, n: int) -> tuple[int, int]:
        """The positions of training and of a test of length n, as the encodings give them."""
        stack = model.encodings
        return stack.span(self.train_positions, training=True), stack.span(self.task.num_positions(n))

    def inputs(self, batch: Batch, model: Transformer, n: int) -> Inputs:
        return inputs(batch, model.encodings, stream_seed(self.seed, "test", "positions", n))

    def answers(self, model: Transformer, base: Transformer, batch: Batch, n: int) -> Answers:
        """Of the model, with the positions that its base is given."""
        device = next(model.parameters()).device
        size = max(1, TOKENS_PER_PASS.get(device.type, TOKENS_PER_PASS_ELSEWHERE) // batch.tokens.shape[1])
        right, losses = (np.zeros(batch.answer[:, 1:].shape, dtype) for dtype in (bool, np.float32))
        for start in range(0, len(batch.tokens), size):
            rows = slice(start, start + size)
            data = self.inputs(batch.part(rows), base, n).to(device)
            predicted = answer_logits(model, data).float()
            asked = data.where.cpu().numpy()
            right[rows][asked] = (predicted.argmax(-1) == data.labels).cpu().numpy()
            losses[rows][asked] = F.cross_entropy(predicted, data.labels, reduction="none").cpu().numpy()
        return Answers(batch.answer[:, 1:], right, losses)

    def rows(self, model: Transformer, extension: Extension | None) -> tuple[Rows, Rows]:
        """One row a test length, and one cell a test length and bin of distances."""
        rows, cells = [], []
        model.eval()
        trained = self._trained_entries(model)
        for n, multiple in self.lengths.items():
            extended, batch = self.extended(model, extension, n), self.batch(n)
            answers = self.answers(extended, model, batch, n)
            correct = answers.right[answers.asked]
            reach = _distances(batch) / self.task.max_distance(self.train_length)
            within, beyond = (reach >= 0) & (reach <= 1), reach > 1
            ids = position_ids(batch.part(slice(0, 1)), model.encodings)
            rows.append(
                {
                    "test_length": n,
                    "multiple": multiple,
                    "aggregated": multiple in self.settings.multiples,
                    "total_length": self.task.total_length(n),
                    "test_positions": self.spans(model, n)[1],
                    "num_samples": self.settings.num_samples,
                    "sequence_accuracy": float(answers.sequences.mean()),
                    "sequence_accuracy_without_end": float(answers.without_end.mean()),
                    "correct_prefix": float(answers.correct_prefix.mean()),
                    "token_accuracy": float(correct.mean()),
                    "token_accuracy_within_trained_distance": _mean(correct[within]),
                    "token_accuracy_beyond_trained_distance": _mean(correct[beyond]),
                    "loss": answers.mean_loss,
                    "chance": self.task.chance(n),
                    "untrained": share_untrained(trained, extended.encodings, ids, model.num_heads, model.width),
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

    def _trained_entries(self, model: Transformer) -> list[Tensor]:
        longest = self.task.batch(self.train_length, 1, self.seed, "coverage")
        ids = position_ids(longest, model.encodings)
        return reached(model.encodings, ids, model.num_heads, model.width, training=True)


@torch.inference_mode()
def answer_logits(model: Transformer, data: Inputs) -> Tensor:
    """Of the tokens to be predicted, [number of places, vocab]: `scoring.logits`, at a lower price.

    What the last layer puts out is wanted from the first asked place on, and nowhere before it: most of a long prompt
    needs no attention and no MLP there. What it takes in is still every token.
    """
    x = model.encodings.embed(model.embedding(data.tokens), data.pos)
    *early, last = zip(model.blocks, model.encodings, strict=True)
    for layer, encoding in early:
        x = layer(x, data.pos, data.segments, encoding)
    start = int(data.where.any(0).nonzero()[0])
    block: Block = last[0]  # type: ignore[assignment]
    normed = block.attention_norm(x)
    q, k, v = block.qkv(normed).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
    call = Attention(q, k, v, normed, data.pos, data.pos, scale=1 / math.sqrt(q.shape[-1]), segments=data.segments)
    attended = _last_rows(last[1].encode(call), start)
    x = x[:, start:] + block.out(attended.transpose(1, 2).flatten(-2))
    x = x + block.mlp_out(F.gelu(block.mlp_in(block.mlp_norm(x))))
    return model.head(model.norm(x)[data.where[:, start:]])


def _last_rows(plan: Plan, start: int) -> Tensor:
    """What attention puts out for the queries from `start` on."""
    if 2 * start < plan.num_queries:  # most of them: then a fused kernel for all is faster than explicit weights
        return attend(plan)[..., start:, :]

    def outputs(rows: slice) -> Tensor:
        rows = slice(start + rows.start, start + rows.stop)
        return plan.output(plan.weights(plan.logits(rows), rows), rows)

    return by_rows(outputs, plan.num_queries - start, ROWS_AT_ONCE)


def _distances(batch: Batch) -> np.ndarray:
    """Tokens between the query that predicts a token and its source, -1 where there is no one source."""
    query = np.arange(batch.tokens.shape[1]) - 1
    distance = np.where(batch.source >= 0, query - batch.source, -1)
    return distance[:, 1:][batch.answer[:, 1:]].astype(float)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
