"""Why a model cannot be measured here."""

from posbench.errors import PosbenchError


class CannotMount(PosbenchError):
    """A model, or a call of a mounted model, that the suite's attention cannot stand in for."""
