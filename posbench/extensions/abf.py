"""Another base for the same grid of frequencies."""

from __future__ import annotations

from posbench.errors import ConfigError
from posbench.extensions.unscaled import Unscaled
from posbench.frequencies import Frequencies


class ABF(Unscaled):
    r"""$\lambda_m = (b'/b)^{m/K}$, that is $\theta'_m = b'^{-m/K}$: adjusted base frequency (arXiv
    2309.16039).

    NTK is this with $b' = b\,s^{d/(d-2)}$; here b' is `base`, the same at every length. Published
    as 500,000 after 10,000, with long training afterwards, which is not done here: a b' meant for s
    times the training length is about $b\,s$. A grid that is itself a part of another, as that of
    p-RoPE, has a smaller b of its own, and the same b' stretches it more.
    """

    def __init__(self, base: float = 500_000.0) -> None:
        super().__init__()
        if not base > 1:
            raise ConfigError(f"base must exceed 1: the first frequency is the fastest; got {base}")
        self.base = base

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        return tuple(
            (self.base / frequencies.base) ** (m / frequencies.count)
            for m in range(frequencies.count)
        )
