"""Right or wrong: what one teacher-forced forward pass says about a batch.

Greedy decoding and teacher forcing make their first mistake at the same token, because up to there
both have seen the same prefix. So one forward pass gives the exact greedy sequence accuracy. Token
accuracy has no such property: ours is measured under teacher forcing, and is always named so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.core.encoding import Draw, EncodingStack
from posbench.core.task import EOS, Answers, Batch
from posbench.core.transformer import Transformer


@dataclass(frozen=True)
class Inputs:
    """A batch as the model takes it: `tokens` [batch, n], and `labels` at the places in `where`."""

    tokens: Tensor
    pos: Tensor  # [batch|1, n]
    segments: Tensor  # [batch, n]
    where: Tensor  # bool [batch, n], the places that predict
    labels: Tensor  # [number of places]
    first: int  # column of the first place

    def part(self, rows: slice) -> Inputs:
        """The sequences in `rows`, at the positions that they have among all."""
        before, inside = (int(self.where[:end].sum()) for end in (rows.start, rows.stop))
        pos = self.pos if len(self.pos) == 1 else self.pos[rows]
        return Inputs(
            self.tokens[rows],
            pos,
            self.segments[rows],
            self.where[rows],
            self.labels[before:inside],
            self.first,
        )

    def to(self, device: torch.device) -> Inputs:
        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return Inputs(
            moved(self.tokens),
            moved(self.pos),
            moved(self.segments),
            moved(self.where),
            moved(self.labels),
            self.first,
        )


def inputs(
    batch: Batch, encodings: EncodingStack, positions_seed: int, training: bool = False
) -> Inputs:
    """Turn a batch into inputs: all tokens but the last, with the token at t + 1 predicted at t.

    `positions_seed` seeds whatever the encodings draw.
    """
    tokens, segments = torch.from_numpy(batch.tokens), torch.from_numpy(batch.segments)
    answer = batch.answer[:, 1:]
    draw = Draw(len(tokens), torch.Generator().manual_seed(positions_seed), training)
    pos = encodings.positions(position_ids(batch, encodings), draw)
    labels, first = torch.from_numpy(batch.tokens[:, 1:][answer]), int(answer.any(0).argmax())
    return Inputs(tokens[:, :-1], pos, segments[:, :-1], torch.from_numpy(answer), labels, first)


def position_ids(batch: Batch, encodings: EncodingStack) -> Tensor:
    """The input tokens' ids, [batch|1, n], of the kind that the encodings ask for."""
    if encodings.ids == "index" and "index" not in batch.ids:
        return torch.arange(batch.tokens.shape[1] - 1)[None]
    return torch.tensor(batch.ids[encodings.ids])[:, :-1]


def logits(model: Transformer, data: Inputs) -> Tensor:
    """Logits of the tokens to be predicted, [number of places, vocab]."""
    return model(data.tokens, data.pos, data.segments, data.where, data.first)


def loss(model: Transformer, data: Inputs) -> Tensor:
    """Mean cross-entropy of the tokens to be predicted, in nats."""
    return F.cross_entropy(logits(model, data), data.labels)


@torch.inference_mode()
def answers(model: Transformer, data: Inputs, batch: Batch) -> Answers:
    """What one teacher-forced pass over `data`, the inputs of `batch`, says about its answers."""
    predicted = logits(model, data).float()
    asked, ends = batch.answer[:, 1:], (batch.answer & (batch.tokens == EOS))[:, 1:]
    right, losses = (np.zeros(asked.shape, dtype) for dtype in (bool, np.float32))
    right[asked] = (predicted.argmax(-1) == data.labels).cpu().numpy()
    losses[asked] = F.cross_entropy(predicted, data.labels, reduction="none").cpu().numpy()
    return Answers(asked, right, losses, ends)
