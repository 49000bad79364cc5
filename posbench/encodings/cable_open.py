"""CABLE with gates that start open."""

from __future__ import annotations

from torch import nn

from posbench.base.errors import ConfigError
from posbench.encodings.cable import Cable


class OpenCable(Cable):
    r"""CABLE whose tokens contribute next to nothing at first, so that every key is seen.

    $B_{ij} = -\sum_{s=j+1}^{i} \ln\left(1 + e^{w_h^\top x_s + b_h}\right)$ as in `Cable` (arXiv
    2503.08067), but $b_h$ starts at `-openness`, not at 0.

    At 5 a token lowers earlier scores by .007 at first, and not by the .69 of the paper: the start
    of `FoX`, which is the same function with the sign of the gate's input turned. So rows of the
    two differ by no more than the size at which $w_h$ begins, and the row `cable` beside this one
    tells what its start costs in a short training.
    """

    def __init__(self, model_width: int, num_heads: int, openness: float = 5.0) -> None:
        super().__init__(model_width, num_heads)
        if not openness >= 0:
            raise ConfigError(
                f"openness is how far below 0 the gates start and must be 0 or more, got {openness}"
            )
        nn.init.constant_(self.gate.bias, -openness)
