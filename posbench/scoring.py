"""Right or wrong: what one teacher-forced forward pass says about a batch.

The first wrong token of greedy decoding is the first wrong token under teacher forcing, because up to there
both have seen the same prefix. So one forward pass gives the exact greedy sequence accuracy. Token accuracy
has no such property: it is that of teacher forcing, and always named so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.encoding import EncodingStack
from posbench.task import Batch
from posbench.transformer import Transformer


@dataclass(frozen=True)
class Inputs:
    """A batch as the model takes it: `tokens` [batch, n], the `labels` of the places in `where` [batch, n]."""

    tokens: Tensor
    pos: Tensor
    where: Tensor
    labels: Tensor  # [number of places]

    def to(self, device: torch.device) -> Inputs:
        return Inputs(*(t.to(device, non_blocking=True) for t in (self.tokens, self.pos, self.where, self.labels)))


def inputs(batch: Batch, encodings: EncodingStack, positions_seed: int) -> Inputs:
    """Input tokens are all but the last; the token at t + 1 is predicted at t."""
    tokens = torch.from_numpy(batch.tokens)
    where = torch.from_numpy(batch.answer)[:, 1:]
    ids = torch.arange(tokens.shape[1] - 1)[None] if batch.ids is None else torch.from_numpy(batch.ids)[:, :-1]
    pos = encodings.positions(ids, torch.Generator().manual_seed(positions_seed))
    return Inputs(tokens[:, :-1], pos, where, tokens[:, 1:][where])


def loss(model: Transformer, data: Inputs) -> Tensor:
    """Mean cross-entropy of the tokens to be predicted, nats."""
    return F.cross_entropy(model(data.tokens, data.pos, data.where), data.labels)


@dataclass(frozen=True)
class Scores:
    """One entry for each predicted token, in the order of `Inputs.where`, and each sequence."""

    correct: np.ndarray  # bool [tokens]
    losses: np.ndarray  # float32 [tokens], nats
    sequences: np.ndarray  # bool [batch], every answer token and EOS right


@torch.inference_mode()
def score(model: Transformer, data: Inputs) -> Scores:
    logits = model(data.tokens, data.pos, data.where).float()
    correct = logits.argmax(-1) == data.labels
    wrong = torch.zeros_like(data.where)
    wrong[data.where] = ~correct
    losses = F.cross_entropy(logits, data.labels, reduction="none")
    return Scores(correct.cpu().numpy(), losses.cpu().numpy(), (~wrong.any(1)).cpu().numpy())
