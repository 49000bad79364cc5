"""The one interface of an extension: what is done to a trained encoding so that it works further."""

from __future__ import annotations

from abc import ABC, abstractmethod

from posbench.encoding import EncodingStack, PositionEncoding
from posbench.errors import ConfigError, IllegalExtension
from posbench.frequencies import Frequencies


class Extension(ABC):
    """Changes a trained encoding: the new encoding shares the weights of the old.

    Lengths are counts of positions: the largest position seen in training, or in the test at hand, plus one;
    never the task's n. The test is told whole, prompt and answer, so that whatever an extension makes of its length
    is the same for teacher forcing and for greedy decoding, token after token.

    `needs`        the handle the encoding must offer, "" for none
    `method_class` what kind of result it gives: rows are compared within their class
    `changes`      False for direct extrapolation alone, the base that all others are compared with
    `is_identity`  the outputs at the training length are those of the base, bit for bit: declared here,
                   measured by the conformance suite
    `scale_policy` how it follows the length of a test: "none" (not by a factor), "fixed" (one factor at every
                   length, also at the training length) or "per test length"
    """

    needs: str = ""
    method_class: str = "zero-shot"
    changes: bool = True
    scale_policy: str = "none"

    @property
    def is_identity(self) -> bool:
        return True

    @abstractmethod
    def apply(self, encoding: PositionEncoding, train_positions: int, test_positions: int) -> PositionEncoding:
        """The encoding to use for a test of `test_positions`, after training on `train_positions`."""

    def extend(self, stack: EncodingStack, train_positions: int, test_positions: int) -> EncodingStack:
        """`apply` on every layer that offers what is needed; refused where none does."""
        if self.needs and self.needs not in stack.handles:
            raise IllegalExtension(f"{type(self).__name__} needs {self.needs}, which this encoding does not have")
        return stack.replaced(
            [
                self.apply(layer, train_positions, test_positions)
                if not self.needs or self.needs in layer.handles
                else layer
                for layer in stack
            ]
        )


class Scaled(Extension):
    r"""An extension by a factor s: `scale`, where it is set; the model is then changed at every length, also at the
    training length. Left out (null) it is $s = \max(1, L'/L)$ for each test length L' of its own, and nothing changes
    at the training length L. Both are common in practice and they are different rows.
    """

    def __init__(self, scale: float | None = None) -> None:
        if scale is not None and scale < 1:
            raise ConfigError(f"scale is the factor of extension, at least 1 (or null for one a length), got {scale}")
        self.scale = scale

    @property
    def is_identity(self) -> bool:
        return self.scale is None or self.scale == 1

    @property
    def scale_policy(self) -> str:  # type: ignore[override]
        return "per test length" if self.scale is None else "fixed"

    def scale_at(self, train_positions: int, test_positions: int) -> float:
        """S for a test of that length."""
        return self.scale if self.scale is not None else max(1.0, test_positions / train_positions)


class FrequencyExtension(Scaled):
    r"""An extension of the form $\theta'_m = \theta_m / \lambda_m$, with an optional factor on cos and sin."""

    needs = "frequencies"

    @abstractmethod
    def stretch(self, frequencies: Frequencies, train_positions: int, scale: float) -> tuple[float, ...]:
        r"""$\lambda_m$ for m = 0..K-1."""

    def magnitude(self, train_positions: int, scale: float) -> float:
        """The factor on every cosine and sine, 1 for most."""
        return 1.0

    def apply(self, encoding: PositionEncoding, train_positions: int, test_positions: int) -> PositionEncoding:
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        scale = self.scale_at(train_positions, test_positions)
        stretch = self.stretch(frequencies, train_positions, scale)
        return encoding.variant(frequencies=frequencies.stretched(stretch, self.magnitude(train_positions, scale)))
