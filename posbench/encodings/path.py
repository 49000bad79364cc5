"""PaTH: the tokens between a key and a query define a product of reflections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding

CHUNK = 64
"""Tokens whose reflections are multiplied out together; what it is changes no result."""


class PaTH(PositionEncoding):
    r"""Position comes from reflections: each token between key and query transforms the key by its
    own matrix.

    $z_{ij} = c\; q_i^\top H_i H_{i-1} \cdots H_{j+1}\, k_j$ with $H_s = I - \beta_s w_s
    w_s^\top$: position by accumulating Householder transformations (PaTH, arXiv 2505.16381).

    $w_s = \mathrm{SiLU}(\mathrm{conv}(U D x_s))$ over its length, per head: a projection of `rank`,
    then a causal convolution of each channel over `kernel` tokens. $\beta_s = 2\,\sigma(b_h^\top
    x_s + b_{h,0})$ lies between 0 (which is NoPE) and 2 (a mirror). All of it is learned in each
    layer. Where RoPE turns by a fixed angle a token, here the content says what a token does to the
    directions of the space: it can swap, erase and so keep track of a state. No factor lengthens a
    vector, so beyond the training length scores stay bounded. Published: rank 32, kernel 3. Token
    positions are not used: the order is that of the sequence.

    A later key, which causality hides, has the empty product. `reflected` is exact and needs no n x
    n matrix.
    """

    def __init__(
        self, model_width: int, num_heads: int, head_width: int, rank: int, kernel: int
    ) -> None:
        super().__init__()
        if rank < 1:
            raise ConfigError(
                f"rank is the width w is projected through and must be at least 1, got {rank}"
            )
        if kernel < 1:
            raise ConfigError(
                f"kernel counts the tokens of a convolution, its own too: at least 1, got {kernel}"
            )
        self.heads_and_width = (num_heads, head_width)
        self.kernel = kernel
        self.down = nn.Linear(model_width, rank, bias=False)
        self.up = nn.Linear(rank, num_heads * head_width, bias=False)
        channels = num_heads * head_width
        self.conv = nn.Conv1d(channels, channels, kernel, groups=channels, bias=False)
        self.strength = nn.Linear(model_width, num_heads)

    def encode(self, a: Attention) -> Attention:
        # Not in bfloat16, whatever the precision of training: a product of hundreds of factors
        # would drift.
        with torch.autocast(a.q.device.type, enabled=False):
            w, beta = self.directions(a.x.to(self.strength.weight.dtype))
            dtype = torch.promote_types(torch.promote_types(a.q.dtype, w.dtype), torch.float32)
            product = reflected(*(t.to(dtype) for t in (a.q, a.k, w, beta)))
        return replace(a, content=lambda rows: a.scale * product(rows))

    def directions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The unit directions w [batch, heads, n, head width], and beta [batch, heads, n]."""
        channels = F.pad(self.up(self.down(x)).mT, (self.kernel - 1, 0))
        w = F.silu(self.conv(channels)).unflatten(1, self.heads_and_width).mT
        return F.normalize(w, dim=-1), 2 * self.strength(x).sigmoid().mT


def reflected(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Callable[[slice], Tensor]:
    r"""A function: rows -> $q_i^\top H_i \cdots H_{j+1} k_j$ for those i and all j, [batch, heads,
    rows, keys].

    q, k, w: [batch, heads, n, width], beta: [batch, heads, n].

    Going back from i, $q \leftarrow q - \alpha_s w_s$ with $\alpha_s = \beta_s \langle w_s, q
    \rangle$. Inside a chunk each $\alpha_s$ depends on the later ones through $\langle w_s, w_t
    \rangle$ alone, so all of them solve one triangular system, and $z_{ij} = \langle q, k_j \rangle
    - \sum_{s > j} \alpha_s \langle w_s, k_j \rangle$. A chunk that lies wholly before the rows acts
    the same on all of them: one matrix that carries q across it, and keys that have been carried to
    its end. O(n) steps of O(n) numbers for one row, chunk by chunk.
    """
    n, width = q.shape[-2:]
    size = min(CHUNK, n)
    rest = -n % size

    def chunked(
        t: Tensor,
    ) -> Tensor:  # [batch, heads, chunks, size, width]; what is filled up reflects nothing
        return F.pad(t, (0, 0, 0, rest)).unflatten(-2, (-1, size))

    k_, w_, w_beta = chunked(k), chunked(w), chunked(beta[..., None] * w)
    eye = torch.eye(size, dtype=q.dtype, device=q.device)
    system = eye + (w_beta @ w_.mT).triu(1)
    inverse = torch.linalg.solve_triangular(
        system, eye.expand_as(system), upper=True, unitriangular=True
    )
    overlap = (w_ @ k_.mT).tril(-1)  # [.., s, j]: <w_s, k_j> for s > j
    solved = w_beta.mT @ inverse.mT  # alpha = q @ solved, where all of the chunk is passed
    carry = torch.eye(width, dtype=q.dtype, device=q.device) - solved @ w_
    carried = k_.mT - solved @ overlap

    def product(rows: slice) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            index = torch.arange(n, device=q.device)[rows]
            first, last = range(n)[rows][0] // size, range(n)[rows][-1] // size
            r = q[..., rows, :]
            parts = [r @ k[..., (last + 1) * size :, :].mT]
            for chunk in range(last, first - 1, -1):  # some rows lie inside, or before
                passed = index[:, None] >= chunk * size + torch.arange(size, device=q.device)
                alpha = ((r @ w_beta[..., chunk, :, :].mT) * passed) @ inverse[..., chunk, :, :].mT
                parts.append(r @ k_[..., chunk, :, :].mT - alpha @ overlap[..., chunk, :, :])
                r = r - alpha @ w_[..., chunk, :, :]
            for chunk in range(first - 1, -1, -1):
                parts.append(r @ carried[..., chunk, :, :])
                r = r @ carry[..., chunk, :, :]
            return torch.cat(parts[::-1], -1)[..., :n]

    return product
