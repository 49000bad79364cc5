"""Sines and cosines of the position, added to the token embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies


class Sinusoidal(PositionEncoding):
    r"""Sines and cosines of the position at many frequencies are added to the embeddings.

    $P_{p,2m} = \sin(p\,\theta_m),\; P_{p,2m+1} = \cos(p\,\theta_m)$ with
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
