"""MrRoPE-Pro: the radix of middle digits grows from one to the next."""

from __future__ import annotations

from posbench.extensions.mrrope import MrRoPE


class MrRoPEPro(MrRoPE):
    r"""MrRoPE whose radices grow along the middle digits.

    MrRoPE-Pro: $\lambda_m = s^{t_m(t_m+1)/(n(n+1))}$, radices grow along the middle digits
    (arXiv 2601.22181).

    The ratio of neighbours is $s^{2t/(n(n+1))}$, so the slower of the middle pairs take more of the
    stretch; under YaRN it is the faster ones that do. See `MrRoPE`.
    """

    def exponent(self, t: int, n: int) -> float:
        return t * (t + 1) / (n * (n + 1))
