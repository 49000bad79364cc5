"""What the model could do if the encoding had nothing to extrapolate."""

from collections.abc import Sequence

from posbench.base.errors import ConfigError
from posbench.extensions.direct import Direct


class Ceiling(Direct):
    """The same model is trained again at each test length.

    No extension, but a training of its own for each test length: the same model, task, steps and
    seed, with n up to that length.

    What it does not reach, the model cannot do in these steps; only what lies between it and a
    method is the method's want of extrapolation. Trained for the tests at `multiples` of the
    training length, and shown for no others; what an encoding makes of the longest test, such as
    the rows of a table, it makes of the longest of all. ConfigError without a multiple above 1.
    """

    method_class = "ceiling"

    def __init__(self, multiples: Sequence[float]) -> None:
        if not multiples or min(multiples) <= 1:
            raise ConfigError(
                "multiples are those of the tests for which a ceiling is trained, above 1 and one "
                f"at least, got {list(multiples)}"
            )
        self.retrained = tuple(float(multiple) for multiple in multiples)
