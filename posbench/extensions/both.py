"""Two extensions, one after the other."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension, Searched


class Both(Extension):
    """Two extensions apply one after the other.

    The second extension of what the first has made of the encoding: either may be a sequence
    itself.

    Each part takes hold of the layers that offer what it needs, and refuses by itself where none
    does: also where the part before has used that up. Both are told the same two lengths.
    """

    def __init__(self, first: Extension, second: Extension) -> None:
        self.parts = (first, second)
        for part in self.parts:
            if part.trains or isinstance(part, Searched):
                raise ConfigError(
                    f"{type(part).__name__} trains or searches for another extension and cannot be "
                    "part of a sequence: give it the sequence as its extension"
                )
        self.needs = " and ".join(dict.fromkeys(part.needs for part in self.parts if part.needs))
        self.changes = any(part.changes for part in self.parts)
        policies = dict.fromkeys(
            part.scale_policy for part in self.parts if part.scale_policy != Extension.scale_policy
        )
        self.scale_policy = " and ".join(policies) or Extension.scale_policy
        classes = [
            part.method_class for part in self.parts if part.method_class != Extension.method_class
        ]
        self.method_class = classes[0] if classes else Extension.method_class

    @property
    def is_identity(self) -> bool:
        return all(part.is_identity for part in self.parts)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        for part in self.parts:
            encoding = part.apply(encoding, train_positions, test_positions)
        return encoding

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        for part in self.parts:
            stack = part.extend(stack, train_positions, test_positions)
        return stack
