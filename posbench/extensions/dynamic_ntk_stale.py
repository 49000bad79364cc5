"""Dynamic NTK with a cache of keys that were turned at earlier lengths."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.extensions.distances import real
from posbench.extensions.pair_positions import PairExtension, PairSeen
from posbench.extensions.regions import from_the_first


class StaleDynamicNTK(PairExtension):
    r"""Dynamic NTK with the known mistake of caches: keys keep the base of the length they were
    turned at.

    Pair m of the token at p turns by $p\,\theta_m / \lambda_m(p)$, at query and key, with
    $\lambda_m(p) = \alpha^{m/(K-1)}$ and $\alpha = f\,\max(1, (p + 1)/L) - (f - 1)$
    (huggingface/transformers#25104): each token has the base that `DynamicNTK` has when it is the
    last.

    This is a control, and nobody's method. Libraries that keep turned keys do this where a text is
    read token by token: the base grows with the length, and the keys in the cache are not turned
    again. A query and a key are then turned at different bases, so that the score no longer depends
    on their distance alone. `DynamicNTK` with the same `factor` f has one base for the whole test.
    Positions are counted from the first token. Up to L nothing changes. A prompt that is read at
    once has one base for all of its keys, which is closer to `DynamicNTK` than this.
    """

    def __init__(self, factor: float = 2.0) -> None:
        if not factor >= 1:
            raise ConfigError(
                "factor is how much faster than the length alpha grows, at least 1 (NTK), got "
                f"{factor}"
            )
        self.factor = factor

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        count = frequencies.count

        def slowed(pos: Tensor) -> Tensor:
            pos = real(pos)[..., None]
            longer = ((pos + 1) / train_positions).clamp(min=1)
            alpha = self.factor * longer - (self.factor - 1)
            powers = torch.arange(count, dtype=pos.dtype, device=pos.device) / max(count - 1, 1)
            return pos / alpha**powers

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return slowed(i), slowed(j)

        return PairSeen(encoding, places)
