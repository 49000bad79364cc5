r"""Extensions of the NTK kind: powers of s that grow with the index of a pair.

m = 0 is the fastest of K frequencies, s the factor of extension; NTK itself is $\lambda_m =
s^{m/(K-1)}$.
"""

from __future__ import annotations

from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension
from posbench.extensions.frequency import NTK
from posbench.frequencies import Frequencies


class NTKMixed(FrequencyExtension):
    r"""$\lambda_m = \exp\bigl(\ln s\,\bigl(\tfrac{m+1}{K}\bigr)^{c}\bigr)$, NTK-RoPE-mixed
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


class NTKFixed(NTKMixed):
    r"""$\lambda_m = s^{(m+1)/K}$, NTK-RoPE-fixed (J. Su, kexue.fm/archives/9706): `NTKMixed` with c
    = 1.

    Digits counted from 1: the ratio of neighbours is $s^{1/K}$ where NTK has $s^{1/(K-1)}$, and the
    fastest pair is stretched by it too.
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__(1.0, scale)


class DynamicNTK(NTK):
    r"""$\lambda_m = \alpha^{m/(K-1)}$ with $\alpha = f\,\max(1, L'/L) - (f - 1)$, the base $b' =
    b\,\alpha^{d/(d-2)}$ ("dynamic NTK", emozilla, 2023; transformers' "dynamic", where f is
    `factor`).

    $\alpha$ is 1 up to the training length L and $f^2 - f + 1$, not f, at the length L' = f L: more
    than NTK at the same length, which makes up for the middle pairs that NTK leaves too fast. With
    f = 1 it is NTK with one scale for each length, and that is what the YaRN paper calls dynamic
    scaling. Published for generation, where the length grows and rotated keys are cached; here
    every length is evaluated whole, each with its own $\alpha$. f is 2 in most models that have it;
    transformers has no default.
    """

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        if not factor >= 1:
            raise ConfigError(
                "factor is how much faster than the length alpha grows, at least 1 (NTK), got "
                f"{factor}"
            )
        self.factor = factor

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        return super().stretch(
            frequencies, train_positions, self.factor * scale - (self.factor - 1)
        )
