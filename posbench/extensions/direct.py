"""Direct extrapolation: the trained model as it is."""

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension


class Direct(Extension):
    """No change. The base that every other extension is compared with; legal on every encoding."""

    changes = False

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding
