"""QK-norm: queries and keys of one length."""

from __future__ import annotations

from torch import Tensor, nn


class QKNorm(nn.Module):
    r"""$q \leftarrow g^q \odot q\,/\sqrt{\overline{q^2} + \epsilon}$ and the same of k with $g^k$,
    in every head by itself and before the encoding, which turns what was normalised.

    $g^q$ and $g^k$ [head width] are learned in each layer, start at 1 and are those of all heads:
    the form of Qwen 3 (arXiv 2505.09388) and Gemma 3, $\epsilon = 10^{-6}$. OLMo 2 and 3 take the
    mean over all heads together. Scores cannot grow without the scales growing.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.q = nn.RMSNorm(head_width, eps=1e-6)
        self.k = nn.RMSNorm(head_width, eps=1e-6)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        # In float32 whatever the precision of training, as in transformers.
        exact = self.q.weight.dtype
        return self.q(q.to(exact)).to(q.dtype), self.k(k.to(exact)).to(k.dtype)
