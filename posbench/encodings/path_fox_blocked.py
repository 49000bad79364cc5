"""PaTH-FoX whose reflections are computed in blocks."""

from __future__ import annotations

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.fox import FoX
from posbench.encodings.path_blocked import BlockedPaTH


class BlockedPaTHFoX(PositionEncoding):
    r"""PaTH with the forget gate of FoX, its reflections computed in blocks.

    $z_{ij} = c\; q_i^\top H_i \cdots H_{j+1}\, k_j + \sum_{s=j+1}^{i} \ln f_s$: the same function
    and parameters as `path_fox` (arXiv 2505.16381), with `BlockedPaTH` in place of `PaTH`. Take
    `path_fox` to compare with its published records, and this one to train anew.
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
        self.path = BlockedPaTH(model_width, num_heads, head_width, rank, kernel)
        self.fox = FoX(model_width, num_heads, bias_init)

    def encode(self, a: Attention) -> Attention:
        return self.fox.encode(self.path.encode(a))
