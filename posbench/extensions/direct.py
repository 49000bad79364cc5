"""Direct extrapolation: the trained model as it is."""

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension


class Direct(Extension):
    """Nothing is changed.

    Every other extension is compared with it, and it is legal on every encoding.
    """

    changes = False

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding
