"""Depth by repetition: a transformer whose blocks are applied again and again."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.transformer import Transformer


class LoopedStack(EncodingStack):
    """The encodings of blocks that are applied `loops` times; each layer's is the same in all."""

    def __init__(
        self, layers: Sequence[PositionEncoding], num_specifications: int, loops: int
    ) -> None:
        super().__init__(layers, num_specifications)
        self.loops = loops

    @property
    def handles(self) -> frozenset[str]:
        return super().handles | {"loops"}

    def repeated(self, loops: int) -> LoopedStack:
        """The same encodings, applied another number of times."""
        new = self.replaced([*self])
        assert isinstance(new, LoopedStack)
        new.loops = loops
        return new


def stacked(layers: Sequence[PositionEncoding], kinds: int, loops: int) -> EncodingStack:
    """The encodings of a model that applies its blocks so often."""
    return EncodingStack(layers, kinds) if loops == 1 else LoopedStack(layers, kinds, loops)


class Looped(Transformer):
    r"""All blocks R times with the same weights: $h_0 = 0$, $h_t = f(h_{t-1} + e)$ and logits
    $W\,\mathrm{norm}(h_R)$, with f all blocks one after the other and R the `loops` of the stack.

    e is the embedded input, with what the encoding adds to it and, in training, one draw of
    dropout. It enters every loop: the input injection of looped transformers for length
    generalisation (arXiv 2409.15647, which has no positions). With R = 1 this is `Transformer`,
    bit for bit. The weights are those of R = 1; multiplications and the path of a gradient grow
    with R. Nothing tells a loop which one it is, where Universal Transformers (arXiv 1807.03819)
    add an embedding of the step and stop token by token.

    Departures from arXiv 2409.15647: there, a task has a known number of steps T(n), all its
    answer is predicted at once, and T follows each sequence, in training too. Here R is one number
    for all lengths of a training, and tokens are predicted one by one as in every other row. More
    loops for longer tests are an extension, `MoreLoops`. The final norm comes once, after the last
    loop; so h grows with R, and blocks, which norm what they read, weigh less in it.
    """

    encodings: LoopedStack

    def forward(
        self,
        tokens: Tensor,
        pos: Tensor,
        segments: Tensor | None = None,
        where: Tensor | None = None,
        first: int = 0,
    ) -> Tensor:
        """As `Transformer.forward`; only the last layer of the last loop begins at `first`."""
        injected = self.dropout(self.encodings.embed(self.embedding(tokens), pos))
        layers = list(zip(self.blocks, self.encodings, strict=True))
        last = self.encodings.loops * len(layers) - 1
        x = injected
        for index in range(last + 1):
            block, encoding = layers[index % len(layers)]
            if index and index % len(layers) == 0:
                x = x + injected
            x = block(x, pos, segments, encoding, first if index == last else 0)
        x = self.norm(x)
        return self.head(x if where is None else x[where[:, first:]])


def applied(stack: EncodingStack) -> list[PositionEncoding]:
    """The encodings in the order in which a model applies them."""
    return [*stack] * (stack.loops if isinstance(stack, LoopedStack) else 1)
