"""NTK-mixed: the exponent of the stretch is a power of the index."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies


class NTKMixed(FrequencyExtension):
    r"""NTK whose exponent follows a power of the pair's number.

    $\lambda_m = \exp\bigl(\ln s\,\bigl(\tfrac{m+1}{K}\bigr)^{c}\bigr)$, NTK-RoPE-mixed
    (J. Su, kexue.fm/archives/9706).

    The position is a number of mixed radix: digits are counted from 1, so every pair is stretched,
    the fastest by a little, and the slowest by all of s. With `power` c = 0.625, the post's choice,
    exponents rise early and middle pairs are stretched more than under NTK. At the training length
    s = 1 and nothing changes.
    """

    def __init__(self, power: float = 0.625, scale: float | None = None) -> None:
        super().__init__(scale)
        if not power > 0:
            raise ConfigError(
                "power must exceed 0, so that slow pairs are stretched more than fast ones, got "
                f"{power}"
            )
        self.power = power

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        return tuple(
            scale ** (((m + 1) / frequencies.count) ** self.power) for m in range(frequencies.count)
        )
