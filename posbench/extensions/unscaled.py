r"""Extensions whose $\lambda_m$ do not depend on the length: they change every length alike."""

from __future__ import annotations

from abc import abstractmethod

from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies


class Unscaled(FrequencyExtension):
    """A frequency extension without a scale, which changes the training length as well."""

    scale_policy = "none"

    def __init__(self) -> None:
        super().__init__()

    @property
    def is_identity(self) -> bool:
        return False

    @abstractmethod
    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        r"""$\lambda_m$ for m = 0..K-1."""

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        return self.unscaled(frequencies, train_positions)
