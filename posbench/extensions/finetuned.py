"""Extensions with a little training after them, and what is done for its sake."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posbench.encoding import Draw, EncodingStack, PositionEncoding, Wrapper
from posbench.errors import ConfigError
from posbench.extension import Around, Extension, FineTuning, Scaled, Searched
from posbench.extensions.temperature import Heated, constant


class FineTuned(Around):
    """An extension, then training goes on with it for a few steps: PI, NTK and YaRN as they are
    published.

    It starts from the weights that all extensions share, with AdamW anew, warm-up over a tenth of
    the steps and the protocol's decay at the end. `steps` and `learning_rate` are shares of those
    of the training, `multiple` times the longest training length is the longest here (from the
    shortest on, one length a batch, as before). The extension is given the positions of that length
    while it is trained and those of each test afterwards: one `scale` for both, where it has one,
    is what the papers do.

    Whatever is trained longer must be held against the same steps at the same lengths without the
    extension: that is this class around `Direct`.
    """

    is_identity = False

    def __init__(
        self,
        extension: Extension,
        steps: float = 0.1,
        multiple: float = 2.0,
        learning_rate: float = 1.0,
    ) -> None:
        super().__init__(extension)
        if extension.trains or isinstance(extension, Searched):
            raise ConfigError(
                f"{type(extension).__name__} trains or searches by itself and cannot be "
                "fine-tuned: choose the extension inside it, with the settings that were found"
            )
        self.finetuning = FineTuning(steps, multiple, learning_rate)
        if self.method_class == Extension.method_class:
            self.method_class = "fine-tuned"


class Dropped(Scaled):
    r"""No position at all, $z_{ij} = \tau\,c\,\langle q_i, k_j\rangle$ with $\tau = 1 +
    \text{growth} \cdot \ln s$ (DroPE, arXiv 2512.12167): what a NoPE model would compute with these
    weights.

    Published with a short training at the training length after it, a share of 0.005 to 0.02 of all
    steps, and for RoPE; legal on every encoding. The paper fits the temperature for each model at
    each length; `growth` is 0.1 here, the constant of YaRN, and 0 switches it off. s is `scale`, or
    left out (null) $\max(1, L'/L)$ for each length.
    """

    is_identity = False

    def __init__(self, growth: float = 0.1, scale: float | None = None) -> None:
        super().__init__(scale)
        if not growth >= 0:
            raise ConfigError(
                f"growth of the temperature with the logarithm must not be negative, got {growth}"
            )
        self.growth = growth

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        factor = 1 + self.growth * math.log(self.scale_at(train_positions, test_positions))
        return Heated(PositionEncoding(), constant(factor))


class Skipping(Wrapper):
    """The host with a gap in the positions of every training sequence; tests have none."""

    method_class = "trained beyond"

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        self.method_class = type(self).method_class
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
    r"""In training, $p_i = i + u\,[i \ge c]$ with c uniform in $\{1, \dots, n-1\}$ and u uniform in
    $\{0, \dots, L' - n\}$, drawn for each sequence: the positions of a target length L' in
    sequences of the training length (PoSE with two chunks, arXiv 2309.10400).

    L' is `multiple` times the positions seen in training. Tests count positions as ever. Published
    inside a fine-tuning, after PI, NTK or YaRN by L'/L; without training it changes nothing. The
    paper also shifts the second chunk's text; here a sequence stays whole, since its answer depends
    on all of it.
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
        """Around the first layer, which draws the positions of all, whether or not it makes use of
        them itself.
        """
        super().extend(stack, train_positions, test_positions)  # refuses where no layer does
        first, *others = stack
        return stack.replaced([self.apply(first, train_positions, test_positions), *others])
