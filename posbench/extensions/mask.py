"""Extensions that hide keys at test time, so that a query sees about as many as in training.

Any encoding allows it, and no distance, number of keys or sum over keys is new. The price is reach:
what lies further back can only come by way of other tokens, layer by layer.
"""

from __future__ import annotations

from abc import abstractmethod

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.core.masks import Masked, Visible


class Mask(Extension):
    """A mask whose `size` is a number of tokens, by index; left out (null), it follows from the
    trained positions so that the training length is as it was. With another size, training
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
