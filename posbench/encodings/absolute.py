"""Absolute encodings, put into the token embeddings once: learned rows, and sines and cosines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError
from posbench.frequencies import Frequencies


class Learned(PositionEncoding):
    r"""A learned row a position: $x_i \leftarrow x_i + P_i$ (BERT, arXiv 1810.04805; GPT).

    Rows are drawn from $N(0, \sigma^2)$ with the standard deviation of the token embeddings, as in
    BERT and GPT. Beyond the training length the rows exist (`num_rows` covers the longest test) but
    were never trained: that failure is this method's result. Positions beyond `num_rows` raise
    `IndexError`.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"rows"}
    relative = False
    float_positions = False

    def __init__(self, model_width: int, num_rows: int, init_std: float = 1.0) -> None:
        super().__init__()
        if num_rows < 1:
            raise ConfigError(
                f"num_rows is the number of positions that have a row, at least 1, got {num_rows}"
            )
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + F.embedding(pos, self.table)


class Multiplicative(Learned):
    r"""A learned factor a position and channel: $x_i \leftarrow x_i \odot (1 + P_i)$ (the
    multiplicative form in J. Su's survey of encodings, kexue.fm/archives/8130).

    The survey writes $x_i \odot p_i$. With $p_i = 1 + P_i$ and $P \sim N(0, \sigma^2)$ the same
    family starts near the token itself, and weight decay pulls towards no position instead of
    towards no token. Beyond the training length as `Learned`.
    """

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x * (1 + F.embedding(pos, self.table))


class Sinusoidal(PositionEncoding):
    r"""$P_{p,2m} = \sin(p\,\theta_m),\; P_{p,2m+1} = \cos(p\,\theta_m)$ with
    $\theta_m = b^{-2m/D}$, added to the embeddings times `scale` (arXiv 1706.03762, section 3.5).

    D is the model width, not the head width. $\langle P_p, P_q\rangle = \sum_m \cos((p-q)\theta_m)$
    depends on $|p-q|$ alone, but a layer sees $P$ through its own projections, so the model is not
    relative. The paper multiplies token embeddings by $\sqrt D$ instead of scaling P; here
    embeddings start with standard deviation 1, and P has a root mean square of 0.71. Beyond the
    training length P is defined, in combinations of phases never seen.

    `layout` "interleaved" is the paper's; "half" has all sines before all cosines, as Marian and
    tensor2tensor: the same up to the order of channels. `spacing` "paper" is the formula above,
    whose slowest frequency falls short of 1/b; "tensor2tensor" spreads the same number evenly up to
    it, $\theta_m = b^{-m/(D/2-1)}$, as the authors' code, fairseq and M2M-100.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}
    relative = False
    scale: float | Tensor

    def __init__(
        self,
        model_width: int,
        base: float = 10000.0,
        scale: float = 1.0,
        layout: str = "interleaved",
        spacing: str = "paper",
    ) -> None:
        super().__init__()
        if model_width % 2:
            raise ConfigError(f"sinusoidal needs an even model width, got {model_width}")
        if layout not in LAYOUTS:
            raise ConfigError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
        if spacing not in SPACINGS:
            raise ConfigError(f"spacing must be one of {', '.join(SPACINGS)}, got {spacing!r}")
        self.frequencies = SPACINGS[spacing](Frequencies(model_width // 2, base))
        self.arrange = LAYOUTS[layout]
        self.scale = scale

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        cos, sin = self.frequencies.tables(pos, x.dtype)
        return x + self.scale * self.arrange(sin, cos)


class ScaledSinusoidal(Sinusoidal):
    r"""`Sinusoidal` times one learned number: $x_i \leftarrow x_i + g\,P_i$ (the scaled sinusoidal
    embedding of x-transformers; no paper).

    g starts at `init_scale`. Published: $1/\sqrt D$, next to token embeddings of about that size;
    the default starts at the size of the token embeddings here. Beyond the training length as
    `Sinusoidal`.
    """

    shared = ("scale",)

    def __init__(
        self,
        model_width: int,
        base: float = 10000.0,
        init_scale: float = 1.0,
        layout: str = "interleaved",
        spacing: str = "paper",
    ) -> None:
        super().__init__(model_width, base, layout=layout, spacing=spacing)
        self.scale = nn.Parameter(torch.tensor(float(init_scale)))


def interleaved(sin: Tensor, cos: Tensor) -> Tensor:
    return torch.stack((sin, cos), -1).flatten(-2)


def half(sin: Tensor, cos: Tensor) -> Tensor:
    return torch.cat((sin, cos), -1)


def paper(frequencies: Frequencies) -> Frequencies:
    return frequencies


def tensor2tensor(frequencies: Frequencies) -> Frequencies:
    """b^(-m/(K-1)) for m = 0..K-1, which is the series of the base b^(K/(K-1))."""
    count = frequencies.count
    if count < 2:
        raise ConfigError(
            "spacing tensor2tensor ends at 1/base and needs 2 frequencies: use a model width of 4 "
            "or more"
        )
    return replace(frequencies, base=frequencies.base ** (count / (count - 1)))


LAYOUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"interleaved": interleaved, "half": half}
SPACINGS: dict[str, Callable[[Frequencies], Frequencies]] = {
    "paper": paper,
    "tensor2tensor": tensor2tensor,
}
