"""DPE: Self-Extend with a group size for each band of frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Scaled
from posbench.core.frequencies import Frequencies
from posbench.extensions.distances import below, counted, grouped
from posbench.extensions.pair_positions import PairExtension, PairSeen
from posbench.extensions.regions import at_least, from_the_first, joined

PUBLISHED = (0.25, 0.25, 0.125, 1.0, 2.0, 2.0, 1.0, 8.0)
"""Group sizes as shares of s: 4, 4, 2, 16, 32, 32, 16, 128 for Llama 3 8B at s = 16."""


class DPE(Scaled, PairExtension):
    r"""Near distances stay; further keys are seen in groups, whose size is another for each band of
    frequencies.

    Pair m turns by $d'_m\,\theta_m$ with $d'_m = d$ for $d < W$, else $\lfloor i/G_m \rfloor -
    \lfloor j/G_m \rfloor + W - \lfloor W/G_m \rfloor$ (DPE, arXiv 2504.18857): `SelfExtend` with a
    group size for each band.

    The pairs are divided evenly into as many bands as there are `ratios` r, the fastest first, and
    band b has groups of $G = \max(1, \mathrm{round}(r_b\,s))$ positions. The default ratios are the
    sizes that the authors give for Llama 3 8B at s = 16: 4, 4, 2, 16, 32, 32, 16 and 128 for eight
    bands, with W = 1,024 of 8,192 (`window`). They were found for that model by a search
    (`DPESearch`); a second file of the authors has 2, 8, 2, 8, 32, 32, 32, 4 for it. Fast pairs
    have seen every angle, so that small groups bring them nothing new, although their d' are.

    Left out (null), `scale` s is L'/L for each test length, and where it is 1 every G is 1: nothing
    changes at the training length. Groups are counted from the first token. The floor of W/G is
    that of the authors' code when it decodes; its code for prompts has W/G as it is. The authors
    group 48 of 64 pairs in each head, those with the largest norms of queries and keys, or all;
    here it is all. A host that is a wrapper keeps true distances for its own part of the scores.
    """

    def __init__(
        self, window: int, ratios: Sequence[float] = PUBLISHED, scale: float | None = None
    ) -> None:
        super().__init__(scale)
        counted("window", window)
        if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
            raise ConfigError(
                "ratios are group sizes as shares of the scale, one above 0 for each band, got "
                f"{list(ratios)}"
            )
        self.window = window
        self.ratios = tuple(map(float, ratios))

    def sizes(self, pairs: int, scale: float) -> tuple[int, ...]:
        """G of every pair."""
        bands = len(self.ratios)
        chosen = (self.ratios[m * bands // pairs] for m in range(pairs))
        return tuple(1 if scale == 1 else max(1, round(ratio * scale)) for ratio in chosen)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        below("window", self.window, train_positions)
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        scale = self.scale_at(train_positions, test_positions)
        return Banded(encoding, self.sizes(frequencies.count, scale), self.window)


class Banded(PairSeen):
    """The host as it is for near keys; further away each pair sees groups of a size of its own."""

    def __init__(self, host: PositionEncoding, sizes: tuple[int, ...], window: int) -> None:
        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            far = {
                size: (grouped(i, size) + window - window // size, grouped(j, size))
                for size in set(sizes)
            }
            q_pos, k_pos = zip(*(far[size] for size in sizes), strict=True)
            return torch.stack(q_pos, -1), torch.stack(k_pos, -1)

        super().__init__(host, places)
        self.is_far = at_least(window)

    def encode(self, a: Attention) -> Plan:
        def select(rows: slice) -> Tensor:
            return self.is_far(a, rows)[:, None].to(torch.uint8)

        return joined(select, [self.host.encode(a), super().encode(a)])
