"""Attention within chunks of the sequence."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.masks import Masked


class Chunked(Masked):
    r"""The host, with each query seeing only the keys of its own chunk.

    The host, with a query i seeing only the keys $j \le i$ of its own chunk: $\lfloor i/c
    \rfloor = \lfloor j/c \rfloor$ (Llama 4 in transformers, in three layers of four).

    Chunks of c tokens are counted by index. The first query of a chunk sees itself alone, so that
    only layers without chunks carry anything from one to the next. No distance is new beyond the
    training length. The extension of this name puts the same mask on a trained model.
    """

    def __init__(self, host: PositionEncoding, chunk: int) -> None:
        if chunk < 1:
            raise ConfigError(f"chunk is a number of tokens, at least 1, got {chunk}")
        super().__init__(host, lambda query, key: query // chunk == key // chunk)
        self.chunk = chunk
