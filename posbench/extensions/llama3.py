"""Llama 3: by parts, with a ramp in turns between two low bounds."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.extensions.by_parts import ByParts


class Llama3(ByParts):
    r"""Slow pairs are interpolated, fast ones stay, and those between are mixed, as in Llama 3.1.

    $1/\lambda_m = g_m + (1 - g_m)/s$ with $g_m = \mathrm{clip}\bigl(\frac{r_m - l}{h - l}, 0,
    1\bigr)$ (Llama 3.1, arXiv 2407.21783; transformers' "llama3").

    l, `low_freq_factor`, is 1 and h, `high_freq_factor`, 4 turns in training: by parts with a ramp
    in turns, no temperature, and bounds low enough for any L above 25. Published with one s = 8 (32
    in Llama 3.2) at every length and long training afterwards.
    """

    def __init__(
        self,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        scale: float | None = None,
    ) -> None:
        if not high_freq_factor > low_freq_factor > 0:
            raise ConfigError(
                "needs high_freq_factor > low_freq_factor > 0 turns in training, got "
                f"{high_freq_factor} and {low_freq_factor}"
            )
        super().__init__(high_freq_factor, low_freq_factor, "turns", scale)
