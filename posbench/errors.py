"""The errors a user can cause. Each carries one sentence: the value, what was expected, what to
do.
"""


class PosbenchError(Exception):
    """Something the user can put right; shown as its sentence, without a stack of frames."""


class ConfigError(PosbenchError, ValueError):
    """A setting has a value that cannot work."""


class IllegalExtension(PosbenchError):
    """An extension needs something of the encoding that the encoding does not have."""


class Diverged(PosbenchError):
    """Training produced a loss that is not a number, after so many seconds."""

    def __init__(self, sentence: str, cpu_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.cpu_seconds = cpu_seconds


class Terminated(BaseException):
    """SIGTERM arrived. Not an `Exception`, so that a sweep stops instead of going on to its next
    run.
    """
