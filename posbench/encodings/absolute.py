"""Absolute encodings, added to the token embeddings once: learned rows, and sines and cosines."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError
from posbench.frequencies import Frequencies


class Learned(PositionEncoding):
    r"""A learned row a position: $x_i \leftarrow x_i + P_i$ (BERT, arXiv 1810.04805; GPT).

    Rows are drawn from $N(0, \sigma^2)$ with the standard deviation of the token embeddings, as in BERT and
    GPT. Beyond the training length the rows exist (`num_rows` covers the longest test) but were never
    trained: that failure is this method's result. Positions beyond `num_rows` raise `IndexError`.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"rows"}
    relative = False
    float_positions = False

    def __init__(self, model_width: int, num_rows: int, init_std: float = 1.0) -> None:
        super().__init__()
        if num_rows < 1:
            raise ConfigError(f"num_rows is the number of positions that have a row, at least 1, got {num_rows}")
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + F.embedding(pos, self.table)


class Sinusoidal(PositionEncoding):
    r"""$P_{p,2m} = \sin(p\,\theta_m),\; P_{p,2m+1} = \cos(p\,\theta_m)$ with
    $\theta_m = b^{-2m/D}$, added to the embeddings times `scale` (arXiv 1706.03762, section 3.5).

    D is the model width, not the head width. $\langle P_p, P_q\rangle = \sum_m \cos((p-q)\theta_m)$ depends
    on $|p-q|$ alone, but a layer sees $P$ through its own projections, so the model is not relative. The
    paper multiplies token embeddings by $\sqrt D$ instead of scaling P; here embeddings start with standard
    deviation 1, and P has a root mean square of 0.71. Beyond the training length P is defined, in
    combinations of phases never seen.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}
    relative = False

    def __init__(self, model_width: int, base: float = 10000.0, scale: float = 1.0) -> None:
        super().__init__()
        if model_width % 2:
            raise ConfigError(f"sinusoidal needs an even model width, got {model_width}")
        self.frequencies = Frequencies(model_width // 2, base)
        self.scale = scale

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        cos, sin = self.frequencies.tables(pos, x.dtype)
        return x + self.scale * torch.stack((sin, cos), -1).flatten(-2)
