"""PoSE: a gap in the positions of training sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, EncodingStack, PositionEncoding, Wrapper
from posbench.core.extension import Extension


class Skipping(Wrapper):
    """The host with a gap in the positions of every training sequence; tests have none."""

    method_class = "trained beyond"

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        if draw.training:
            n = ids.shape[1]
            # One gap a sequence: after which token, and how wide.
            after = torch.randint(1, n, (draw.batch_size, 1), generator=draw.generator)
            room = max(self.largest - int(ids.max()), 1)
            skip = torch.randint(0, room, (draw.batch_size, 1), generator=draw.generator)
            ids = ids + skip * (torch.arange(n) >= after)
        return self.host.positions(ids, draw)


class SkipWise(Extension):
    r"""Training goes on with a random gap in the positions, so that they reach a longer length.

    In training, $p_i = i + u\,[i \ge c]$ with c uniform in $\{1, \dots, n-1\}$ and u uniform in
    $\{0, \dots, L' - n\}$, drawn for each sequence: the positions of a target length L' in
    sequences of the training length (PoSE with two chunks, arXiv 2309.10400).

    The authors' code draws c from $\{1, \dots, \lceil n/2 \rceil\}$, so that the gap is in the
    first half of a sequence; here it may be anywhere, within an answer as well. L' is `multiple`
    times the positions seen in training. Tests count positions as ever. Published inside a
    fine-tuning, after PI, NTK or YaRN by L'/L; without training it changes nothing. The paper also
    shifts the second chunk's text; here a sequence stays whole, since its answer depends on all of
    it.
    """

    needs = "positions"
    method_class = "trained beyond"

    def __init__(self, multiple: float) -> None:
        if not multiple >= 1:
            raise ConfigError(
                f"multiple is that of the positions to be trained, at least 1, got {multiple}"
            )
        self.multiple = multiple

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return Skipping(encoding, round(self.multiple * train_positions))

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        """Wrap the first layer, which draws the positions of all, whether it uses them or not."""
        super().extend(stack, train_positions, test_positions)  # refuses where no layer does
        first, *others = stack
        return stack.replaced([self.apply(first, train_positions, test_positions), *others])
