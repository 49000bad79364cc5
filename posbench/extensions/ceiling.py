"""What the model could do if the encoding had nothing to extrapolate."""

from posbench.extensions.direct import Direct


class Ceiling(Direct):
    """No extension, but a training of its own for each test length: the same model, task, steps and
    seed, with n up to that length.

    What it does not reach, the model cannot do in these steps; only what lies between it and a
    method is the method's want of extrapolation. Trained for the lengths beyond training that enter
    the mean, and shown for no others; what an encoding makes of the longest test, such as the rows
    of a table, it makes of the longest of all.
    """

    method_class = "ceiling"
    retrained = True
