"""Another base for the same grid of frequencies."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.extensions.unscaled import Unscaled


class ABF(Unscaled):
    r"""The base of RoPE is multiplied by a factor.

    $\lambda_m = g^{m/K}$, that is $\theta'_m = b'^{-m/K}$ with the base $b' = g\,b$: adjusted
    base frequency (arXiv 2309.16039).

    NTK is this with $g = s^{d/(d-2)}$; here g is `growth`, the same at every length. Published as
    500,000 after 10,000 for eight times the length, with long training afterwards, which is not
    done here: without it, the base for s times the training length is about $b\,s$. As a factor
    the setting means the same whatever base was trained with.
    """

    def __init__(self, growth: float = 50.0) -> None:
        super().__init__()
        if not growth > 0:
            raise ConfigError(f"growth is a factor on the base and must exceed 0, got {growth}")
        self.growth = growth

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        return tuple(self.growth ** (m / frequencies.count) for m in range(frequencies.count))
