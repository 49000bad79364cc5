"""Dynamic NTK: a stretch that grows faster than the length."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.extensions.ntk import NTK


class DynamicNTK(NTK):
    r"""NTK with a base that grows with the test length and is as in training up to the training
    length.

    $\lambda_m = \alpha^{m/(K-1)}$ with $\alpha = f\,\max(1, L'/L) - (f - 1)$, the base $b' =
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
