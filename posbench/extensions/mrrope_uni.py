"""MrRoPE-Uni: every middle digit gets the same radix."""

from __future__ import annotations

from posbench.extensions.mrrope import MrRoPE


class MrRoPEUni(MrRoPE):
    r"""MrRoPE that enlarges the radix of every middle digit by the same factor.

    MrRoPE-Uni: $\lambda_m = s^{t_m/n}$, every middle digit gets the radix $\beta\,s^{1/n}$
    (arXiv 2601.22181).

    NTK between l and h. See `MrRoPE`.
    """

    def exponent(self, t: int, n: int) -> float:
        return t / n
