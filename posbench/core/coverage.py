"""Which of an encoding's parameters a test uses although training never reached them.

These are rows of a table, buckets, or units of a network. An entry of a parameter counts as reached
if some output depends on it, that is, if its gradient is not zero. This is measured on random
tokens, so it is an estimate where positions depend on content.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention, dense
from posbench.core.encoding import Draw, EncodingStack
from posbench.core.streams import stream_seed

DRAWS = 32
"""How many draws are examined when an encoding draws its positions."""


def share_untrained(
    trained: list[Tensor],
    extended: EncodingStack,
    ids: Tensor,
    num_heads: int,
    head_width: int,
    width: int,
) -> float | None:
    """The share of the entries used by a test that no training sequence reaches.

    `trained` is what `used_entries` gives for a training sequence of the largest length. `extended`
    is the encoding as tested: it has the trained encoding's parameters, or none. `ids` [1, n] are
    the test's position ids. None if no parameters are used.
    """
    if not trained or not list(extended.parameters()):
        return None
    tested = used_entries(extended, ids, num_heads, head_width, width, training=False)
    used = sum(int(mask.sum()) for mask in tested)
    new = sum(int((mask & ~before).sum()) for mask, before in zip(tested, trained, strict=True))
    return new / used if used else None


@torch.enable_grad()
def used_entries(
    stack: EncodingStack, ids: Tensor, num_heads: int, head_width: int, width: int, training: bool
) -> list[Tensor]:
    """A mask for each parameter, True for the entries that some output depends on."""
    parameters = list(stack.parameters())
    if not parameters:
        return []
    device = parameters[0].device
    masks = [torch.zeros_like(parameter, dtype=torch.bool) for parameter in parameters]
    seen: list[Tensor] = []  # most encodings draw nothing: the same positions are looked at once
    for index in range(DRAWS):
        generator = torch.Generator().manual_seed(stream_seed("coverage", index))
        pos = stack.positions(ids, Draw(1, generator, training)).to(device)
        if any(torch.equal(pos, before) for before in seen):
            continue
        seen.append(pos)
        out = _outputs(stack, pos, num_heads, head_width, width, generator)
        gradients = torch.autograd.grad(out, parameters, allow_unused=True)
        for mask, gradient in zip(masks, gradients, strict=True):
            if gradient is not None:
                mask |= gradient != 0
    return masks


def _outputs(
    stack: EncodingStack,
    pos: Tensor,
    num_heads: int,
    head_width: int,
    width: int,
    generator: torch.Generator,
) -> Tensor:
    """A random linear combination of everything the encodings put out."""
    n = pos.shape[1]

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(pos.device)

    x = random(1, n, width)
    total = (stack.embed(x, pos) * random(1, n, width)).sum()
    for layer in stack:
        q, k, v = (random(1, num_heads, n, head_width) for _ in range(3))
        call = Attention(q, k, v, x, pos, pos, scale=head_width**-0.5)
        out = dense(layer.encode(call))
        total = total + (out * random(*out.shape)).sum()
    return total
