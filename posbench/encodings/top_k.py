"""Top-k selection: a query attends to its best keys only."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Normaliser, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class TopK(Wrapper):
    r"""Each query attends to the few keys that score best and to its own, and to no others.

    $w_{ij} = \frac{e^{z_{ij}}}{\sum_{j' \in S_i} e^{z_{ij'}}}$ for $j \in S_i$ and 0 for other
    keys, where $S_i$ has i itself and the k - 1 largest of the scores $z_{ij}$, $j < i$, with
    `keys` k (Explicit Sparse Transformer, arXiv 1912.11637; top-k attention, arXiv 2106.06899).

    DeepSeek V3.2 (arXiv 2512.02556) and GLM-5 also attend to the k best keys, but choose them by
    the scores of a small indexer that is trained for it; here the scores choose among themselves.
    The papers keep the own key only if it is among the best. Here it always is one of the k, for
    normalisers count on it and masks keep it too; MoBA (arXiv 2502.13189) keeps its own block. Keys
    that tie with the last of the k are all kept.

    Beyond the training length a query still divides its weight among k keys, however many it could
    choose from: what is lost to many bad keys in a softmax is not lost here. A wrong key that
    scores well takes its share as before. Keys that are left out get no gradient, nor does the
    choice. A query that sees at most k keys has them all. A host with another normaliser keeps it,
    on the keys that are left; biases are part of z.
    """

    def __init__(self, host: PositionEncoding, keys: int) -> None:
        if keys < 1:
            raise ConfigError(
                f"keys are those that a query attends to, its own too: at least 1, got {keys}"
            )
        super().__init__(host)
        self.keys = keys

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a).each(
            lambda part, _: replace(part, normalise=among_best(part.normalise, self.keys))
        )


def among_best(normalise: Normaliser, keys: int) -> Normaliser:
    """The normaliser on the `keys` best keys of every row."""
    return lambda logits, allowed: normalise(logits, best(logits, allowed, keys))


def best(logits: Tensor, allowed: Tensor, keys: int) -> Tensor:
    """True for a query's own key and the `keys` - 1 that score best, [batch, heads, rows, keys]."""
    own = allowed & (allowed.flip(-1).cumsum(-1).flip(-1) == 1)  # the last that is allowed
    ranked = logits.detach().masked_fill(~allowed, -torch.inf).masked_fill(own, torch.inf)
    last = ranked.topk(min(keys, ranked.shape[-1]), -1).values[..., -1:]
    return allowed & (ranked >= last)
