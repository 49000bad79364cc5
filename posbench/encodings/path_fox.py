"""PaTH with the forget gate of FoX."""

from __future__ import annotations

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.fox import FoX
from posbench.encodings.path import PaTH


class PaTHFoX(PositionEncoding):
    r"""PaTH together with the forget gate of FoX.

    $z_{ij} = c\; q_i^\top H_i \cdots H_{j+1}\, k_j + \sum_{s=j+1}^{i} \ln f_s$: `PaTH` with the
    forget gate of `FoX` (arXiv 2505.16381, PaTH-FoX).

    The gate is added after the scale, as FoX has it. The authors' code multiplies it by
    $1/\sqrt{d_h}$ together with the product, which is the same model with slower gates: they would
    have to be learned $\sqrt{d_h}$ times as large. Its gates start around one half, with a weight
    halved every $\sqrt{d_h}$ tokens; here they start as in `FoX`.
    """

    def __init__(
        self,
        model_width: int,
        num_heads: int,
        head_width: int,
        rank: int,
        kernel: int,
        bias_init: float = 5.0,
    ) -> None:
        super().__init__()
        self.path = PaTH(model_width, num_heads, head_width, rank, kernel)
        self.fox = FoX(model_width, num_heads, bias_init)

    def encode(self, a: Attention) -> Attention:
        return self.fox.encode(self.path.encode(a))
