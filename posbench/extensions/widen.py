"""Windows that were trained become wider at test."""

from __future__ import annotations

from posbench.base.errors import IllegalExtension
from posbench.core.encoding import EncodingStack, PositionEncoding, Wrapper
from posbench.core.extension import Scaled
from posbench.core.masks import Masked, Visible


class Widen(Scaled):
    r"""The sliding windows that were trained become wider by a factor at test.

    A query i sees the keys $i - w' < j \le i$ with $w' = \mathrm{round}(s\,w)$, in every layer that
    was trained with a window w (modded-nanogpt, records 33 and 35, which validates with 13 blocks
    after 11 in training; no paper).

    Left out (null), s is L'/L for each test length: a window then covers the same share of the test
    as of the training, and nothing changes at the training length. Layers without a window stay as
    they are, and `Only` chooses among those that have one. A temperature aside, it is the one lever
    where windows have RoPE and the full layers have no positions: no distance beyond the window is
    ever used there, so that other frequencies or distances change nothing.

    Inside the wider window distances from w on are new to the host, as they are to RoPE without a
    window beyond its training length. modded-nanogpt puts YaRN on the frequencies at the same time:
    that is this extension and `YaRN` in a sequence. Windows are masks with an attribute `window`,
    as the encoding `SlidingWindow` is. Chunks, and heads whose windows are part of a formula
    (Hard-ALiBi), are not.
    """

    needs = "mask"

    def part(self, stack: EncodingStack) -> EncodingStack:
        return stack.replaced([layer for layer in stack if widened(layer, 1.0) is not layer])

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return widened(encoding, self.scale_at(train_positions, test_positions))

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        if not len(self.part(stack)):
            raise IllegalExtension(
                "Widen needs a layer with a sliding window, which this encoding does not have"
            )
        return super().extend(stack, train_positions, test_positions)


def widened(encoding: PositionEncoding, scale: float) -> PositionEncoding:
    """The encoding with every window in it `scale` times as wide; itself if there is none.

    A window is a mask that has an attribute `window`, the keys that a query sees with its own.
    """
    if not isinstance(encoding, Wrapper):
        return encoding
    host = widened(encoding.host, scale)
    if isinstance(encoding, Masked) and "window" in vars(encoding):
        window = round(scale * encoding.window)
        return encoding.variant(host=host, window=window, visible=last(window))
    return encoding if host is encoding.host else encoding.variant(host=host)


def last(window: int) -> Visible:
    """A query's own key and those just before it."""
    return lambda query, key: query - key < window
