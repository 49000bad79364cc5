"""Attention under an untrained encoding, measured on tokens that are all alike."""

from __future__ import annotations

import numpy as np
import torch

from posbench.core.attention import Attention
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.running.subject import Subject

HEADS, WIDTH, DRAWS = 4, 32, 16
SIZES = (
    "protocol=cpu",
    f"model.num_heads={HEADS}",
    f"model.head_width={WIDTH}",
    f"model.width={HEADS * WIDTH}",
)
MAP = 48  # tokens in the maps
STRETCH = 4  # pictures show an extension at this multiple of the training length


def equal_tokens(n: int, batch: int) -> Attention:
    """A call whose tokens all have the same queries, keys and values.

    The layer input, which a content-dependent encoding also reads, is random.
    """
    x = torch.randn(
        batch, n, HEADS * WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    same = torch.ones(batch, HEADS, n, WIDTH, dtype=torch.float64)
    pos = torch.arange(n)[None]
    segments = torch.zeros(1, n, dtype=torch.long)
    return Attention(same, same, same, x, pos, pos, scale=WIDTH**-0.5, segments=segments)


@torch.no_grad()
def measured(layer: PositionEncoding, n: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The quantity shown, its values [heads, n, n] and the attention weights [heads, n, n]."""
    a, rows = equal_tokens(n, DRAWS), slice(0, n)
    plan = layer.encode(a)
    logits, hidden = plan.logits(rows), ~plan.allowed(rows)
    weights = plan.weights(logits, rows).mean(0)
    embedded = layer.embed(torch.zeros_like(a.x[:1]), a.q_pos)[0]
    if not embedded.any():
        embedded = layer.embed(torch.ones_like(a.x[:1]), a.q_pos)[0] - 1  # if it multiplies
    if embedded.any():
        products = (embedded @ embedded.T / embedded.shape[-1])[None]
        return "product of the encodings", products.expand(HEADS, n, n).numpy(), weights.numpy()
    scores = logits.masked_fill(hidden, torch.nan).mean(0)
    return "score", scores.expand(HEADS, n, n).numpy(), weights.numpy()


class Probe:
    """A row of the board at the sizes of the pictures, and what they show of its first layer.

    An extension shows itself at STRETCH times the training length.
    """

    def __init__(self, *words: str) -> None:
        self.subject = Subject(*words)
        self.run = self.subject.made(*SIZES)
        self.base = self.run.model().encodings  # as it is trained
        self.trained = self.base.span(self.run.train_positions, training=True)
        self.stack = self.at(STRETCH * self.trained)
        layers: list[PositionEncoding] = [self.stack.layers[index] for index in self.stack.firsts]  # type: ignore[misc]
        plans = [layer.encode(equal_tokens(16, 1)) for layer in layers]
        self.path = ", ".join(dict.fromkeys(plan.path for plan in plans))  # type: ignore[attr-defined]
        twice = 2 * self.run.train_positions
        limit = min(twice, self.stack.max_positions or twice)
        self.quantity, values, _ = measured(layers[0], limit)
        self.curves = values[:, -1, ::-1]  # [heads, limit], by the distance from the last token
        _, scores, weights = measured(layers[0], MAP)
        self.map = scores[0]  # of the first head, [query, key]
        self.weights = weights[0] * np.arange(1, MAP + 1)[:, None]  # uniform attention is 1

    def at(self, length: int) -> EncodingStack:
        """The encodings, extended to a length if there is an extension that changes them."""
        extension = self.run.extension
        changed = extension.changes
        stack = extension.extend(self.base, self.trained, length) if changed else self.base
        return stack.double()
