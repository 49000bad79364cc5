"""What an untrained encoding does to attention, seen on tokens that are all alike."""

from __future__ import annotations

import numpy as np
import torch

from posbench.attention import Attention
from posbench.encoding import PositionEncoding

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


def by_distance(values: np.ndarray) -> np.ndarray:
    """The values by distance d from the last token, [heads, n]."""
    return values[:, -1, ::-1]
