"""Extensions that hide keys at test time, so that a query sees about as many as in training.

Any encoding allows it, and no distance, number of keys or sum over keys is new. The price is reach:
what lies further back can only come by way of other tokens, layer by layer.
"""

from __future__ import annotations

from abc import abstractmethod

from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError
from posbench.extension import Extension
from posbench.masks import Masked, Visible


class Mask(Extension):
    """A mask whose `size` is a number of tokens, by index; left out (null), it follows from the
    trained positions so that the training length is as it was. With a size of one's own, training
    may have seen more.
    """

    needs = "mask"

    def __init__(self, size: int | None, name: str) -> None:
        if size is not None and size < 1:
            raise ConfigError(
                f"{name} is a number of tokens, at least 1 (or null to follow training), got {size}"
            )
        self.size = size

    @property
    def is_identity(self) -> bool:
        return self.size is None

    @abstractmethod
    def usual(self, train_positions: int) -> int:
        """The smallest size that hides nothing at the training length."""

    @abstractmethod
    def visible(self, size: int) -> Visible: ...

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        size = self.size if self.size is not None else self.usual(train_positions)
        return Masked(encoding, self.visible(size))


class SlidingWindow(Mask):
    r"""A query i sees the keys $i - w < j \le i$: itself and the w - 1 before it, as in the
    encoding of this name (the convention of Mistral in transformers; arXiv 2004.05150 counts w/2 on
    each side).

    `window` w, left out, is the positions seen in training: the first L queries see what they saw,
    later ones the last L keys, and the largest distance is L - 1 as in training. Through l layers
    information travels l (w - 1) tokens. Keys are counted by index: where positions are drawn from
    a range that training has filled, L is that range, which is longer than a training sequence.
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__(window, "window")

    def usual(self, train_positions: int) -> int:
        return train_positions

    def visible(self, size: int) -> Visible:
        return lambda i, j: i - j < size


class Chunked(Mask):
    r"""A query i sees the keys $j \le i$ of its own chunk, $\lfloor i/c \rfloor = \lfloor j/c
    \rfloor$ (Llama 4 in transformers, in three layers of four with c = 8192, trained so).

    `chunk` c, left out, is the positions seen in training. Every chunk is then a training sequence
    of its own, and nothing passes from one to the next: the first query of a chunk sees itself
    alone, and what was asked in another chunk is out of reach. A lower bound for whatever carries
    information further.
    """

    def __init__(self, chunk: int | None = None) -> None:
        super().__init__(chunk, "chunk")

    def usual(self, train_positions: int) -> int:
        return train_positions

    def visible(self, size: int) -> Visible:
        return lambda i, j: i // size == j // size


class BlockCausal(Mask):
    r"""A query i sees the keys $j \le i$ of its own block and of the one before, $\lfloor i/b
    \rfloor - \lfloor j/b \rfloor \le 1$ (blockwise causal attention of xPos, arXiv 2212.10554).

    `block` b, left out, is half of the positions seen in training, as published, rounded up, so
    that the two blocks of a training sequence see each other. Later queries see from b + 1 to 2 b
    keys by their place in the block. Where L is odd the last query of a block looks back L
    positions, one more than in training. Published for xPos, legal on any encoding.
    """

    def __init__(self, block: int | None = None) -> None:
        super().__init__(block, "block")

    def usual(self, train_positions: int) -> int:
        return -(-train_positions // 2)

    def visible(self, size: int) -> Visible:
        return lambda i, j: i // size - j // size <= 1
