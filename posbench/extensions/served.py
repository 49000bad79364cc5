"""One scale for every length, as a server is set."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension, ExtensionWrapper, Searched

FOLLOWS = "per test length"


class Served(ExtensionWrapper):
    r"""An extension has one scale for all lengths, short ones as well: a server is set once.

    What `extension` makes of the encoding for tests of $s\,L$ positions, at every length, with
    `factor` s and the training length L (`rope_scaling` of vLLM and transformers, which is read
    with the model; dynamic NTK and the two lists of LongRoPE follow the length there as well).

    Beside the row of the inner extension, which gets a scale for each test length and changes
    nothing up to L, it tells what the fixed one costs: tests of up to L are changed as well, and
    tests beyond $s\,L$ have a scale that is too small. Where an extension has a `scale` of its own,
    setting that gives the same; this also serves those whose factor follows from the length in
    another way, such as the groups of `SelfExtend`. What does not follow the length of a test is
    refused, for it is served already: `DCA`, `ReRoPE`, `ABF`.
    """

    scale_policy = "fixed"

    def __init__(self, extension: Extension, factor: float) -> None:
        super().__init__(extension)
        if not 1 <= factor < float("inf"):
            raise ConfigError(
                "factor is that of the longest test to the training length, at least 1, got "
                f"{factor}"
            )
        name = type(extension).__name__
        if extension.trains or isinstance(extension, Searched):
            raise ConfigError(
                f"{name} trains or searches for another extension and is not served itself: give "
                "it this one as its extension"
            )
        if FOLLOWS not in extension.scale_policy:
            raise ConfigError(
                f"{name} has no scale that follows the length of a test, so it is served as it is: "
                "choose an extension that has one, as yarn with scale null"
            )
        self.factor = factor

    @property
    def is_identity(self) -> bool:
        return self.factor == 1 and self.extension.is_identity

    def told(self, train_positions: int) -> int:
        """The positions of a test that the extension is told, whatever the test."""
        return round(self.factor * train_positions)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return super().apply(encoding, train_positions, self.told(train_positions))

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        return super().extend(stack, train_positions, self.told(train_positions))
