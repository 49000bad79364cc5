"""Attention to the keys that score best, in training or only at test time."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Normaliser, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class Selected(Wrapper):
    """A host whose queries attend to their own key and to the `keys` - 1 that score best."""

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
