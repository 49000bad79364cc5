"""NTK-fixed: NTK with digits counted from 1."""

from __future__ import annotations

from posbench.extensions.ntk_mixed import NTKMixed


class NTKFixed(NTKMixed):
    r"""NTK whose slowest pair is slowed by exactly the length factor and whose fastest is slowed a
    little.

    $\lambda_m = s^{(m+1)/K}$, NTK-RoPE-fixed (J. Su, kexue.fm/archives/9706): `NTKMixed` with c
    = 1.

    Digits counted from 1: the ratio of neighbours is $s^{1/K}$ where NTK has $s^{1/(K-1)}$, and the
    fastest pair is stretched by it too.
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__(1.0, scale)
