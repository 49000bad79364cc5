"""Errors a user can cause. Each carries one sentence: the value, what was expected, what to do."""


class PosbenchError(Exception):
    """An error the user can put right; shown as its sentence, without a traceback."""


class ConfigError(PosbenchError, ValueError):
    """A setting has a value that cannot work."""


class IllegalExtension(PosbenchError):
    """An extension needs something that the encoding does not have."""


class Diverged(PosbenchError):
    """The training loss is no longer finite, after `cpu_seconds` of CPU time."""

    def __init__(self, sentence: str, cpu_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.cpu_seconds = cpu_seconds


class Terminated(BaseException):
    """SIGTERM or Ctrl-C arrived. Not an `Exception`, so that a sweep stops instead of going on."""
