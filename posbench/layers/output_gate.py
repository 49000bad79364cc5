"""A gate on what attention has found."""

from __future__ import annotations

from torch import Tensor, nn


class OutputGate(nn.Module):
    r"""$o_i \leftarrow o_i \odot \sigma(W_g\, x_i)$, channel by channel of every head, before the
    projection $W_o$ (gated attention, arXiv 2505.06708, its position G1; Qwen3-Next).

    $x_i$ is the normalised input of the layer at the query, so a query can refuse all that it has
    seen: the weights of a softmax, which sum to 1, then need no token to rest on. $W_g$ [heads
    times head width, model width] is learned in each layer, without a bias.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, channels, bias=False)

    def forward(self, attended: Tensor, x: Tensor) -> Tensor:
        """`attended` is [batch, n, heads * head width], `x` [batch, n, width]."""
        return attended * self.gate(x).sigmoid()
