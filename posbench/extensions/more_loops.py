"""More loops than in training, for tests that are longer."""

from __future__ import annotations

from posbench.base.errors import IllegalExtension
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Scaled
from posbench.core.looped import LoopedStack


class MoreLoops(Scaled):
    r"""The blocks are applied more often than in training, as often as the test is longer.

    $R' = \mathrm{round}(s R)$ loops in place of the R of training, $s = \max(1, L'/L)$ or `scale`;
    see `Looped`. Steps in proportion to the length are what copying, parity and addition take when
    a loop does one of them (arXiv 2409.15647, T(n) = n or n + 1 there).

    There, training had the same proportion, and a second rule stops at the most confident answer.
    Here training had R loops at all its lengths, so more of them are new to the weights: what this
    measures is whether a loop does a step. Nothing changes at the training length. Encodings stay
    as they are, so distances beyond it are as new as without. A test costs s times as much.
    """

    needs = "loops"

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        if not isinstance(stack, LoopedStack):
            raise IllegalExtension(
                "MoreLoops applies blocks more often than training did, and this model was trained "
                "to apply them once: set model.loops to 2 or more"
            )
        return stack.repeated(round(self.scale_at(train_positions, test_positions) * stack.loops))
