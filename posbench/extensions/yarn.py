"""YaRN: NTK-by-parts with a temperature."""

from __future__ import annotations

import math

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.extensions.temperature import Heated, constant


class YaRN(FrequencyExtension):
    r"""Slow pairs are interpolated, fast ones stay, those between are mixed, and scores are made
    sharper.

    NTK-by-parts with a temperature (arXiv 2309.00071): $1/\lambda_m = g_m + (1 - g_m)/s$ and
    cos, sin times $a = 0.1\ln s + 1$, so that logits grow by $a^2$.

    $g_m$ keeps pairs that turn more than `beta_fast` times in training and interpolates those that
    turn less than `beta_slow` times. The ramp between is linear in m, from $\lfloor m(\beta_{fast})
    \rfloor$ to $\lceil m(\beta_{slow}) \rceil$ with $m(n) = K \ln(L / 2\pi n)/\ln b$, both kept
    within the indices of a head's 2K channels: this is the form of the authors' code and of
    transformers, not the ramp in turns of the paper, from which middle frequencies differ by up to
    a factor of 3. Where L is so short that even the fastest pair turns less than `beta_slow` times,
    that pair alone is kept (transformers' ramp turns round there). The published `beta_fast` of 32
    was tuned at L = 2048 to 4096: below L = 201 not one pair turns that often, so it must shrink
    with L. The default is the power of the turns of the fastest pair that gives 32 at 4,096.

    DeepSeek (arXiv 2405.04434) splits the temperature: with `mscale` $\mu$ and `mscale_all_dim`
    $\nu$, cos and sin are multiplied by $a = (0.1\mu\ln s + 1)/(0.1\nu\ln s + 1)$ and all content
    scores, those of channels that do not turn as well, by $(0.1\nu\ln s + 1)^2$. 1 and 0 are YaRN;
    where all channels turn the product is that of $\mu$ alone. DeepSeek V2 has 0.707 and 0.707, V3
    has 1 and 1. transformers ignores $\mu$ where $\nu$ is 0, and has the factor on all scores in
    DeepSeek's models alone. `truncate` false leaves the ends of the ramp where they fall between
    indices, as gpt-oss has it.
    """

    def __init__(
        self,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        scale: float | None = None,
        mscale: float = 1.0,
        mscale_all_dim: float = 0.0,
        truncate: bool = True,
    ) -> None:
        super().__init__(scale)
        for name, value in (("mscale", mscale), ("mscale_all_dim", mscale_all_dim)):
            if not 0 <= value < math.inf:
                raise ConfigError(
                    f"{name} is a factor on the growth of the temperature, at least 0, got {value}"
                )
        if not beta_fast > beta_slow > 0:
            raise ConfigError(
                f"needs beta_fast > beta_slow > 0 turns, got {beta_fast} and {beta_slow}"
            )
        self.beta_fast = beta_fast
        self.beta_slow = beta_slow
        self.mscale = mscale
        self.mscale_all_dim = mscale_all_dim
        self.truncate = truncate

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        count, base = frequencies.count, frequencies.base

        def index(turns: float) -> float:
            """Where, on the continuous index m, a pair makes that many turns in training."""
            return count * math.log(train_positions / (2 * math.pi * turns)) / math.log(base)

        low, high = index(self.beta_fast), index(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * count - 1)
        width = max(high - low, 0.001)
        keep = (1 - min(max((m - low) / width, 0.0), 1.0) for m in range(count))
        return tuple(1 / (g + (1 - g) / scale) for g in keep)

    def magnitude(self, train_positions: int, scale: float) -> float:
        return growth(self.mscale, scale) / growth(self.mscale_all_dim, scale)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        new = super().apply(encoding, train_positions, test_positions)
        scale = self.scale_at(train_positions, test_positions)
        everywhere = growth(self.mscale_all_dim, scale) ** 2
        return new if everywhere == 1 else Heated(new, constant(everywhere))


def growth(factor: float, scale: float) -> float:
    return 0.1 * factor * math.log(scale) + 1
