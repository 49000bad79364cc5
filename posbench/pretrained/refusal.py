"""Why a model cannot be measured here."""

from __future__ import annotations

import sys

from posbench.base.errors import PosbenchError


class CannotMount(PosbenchError):
    """A model, or a call of a mounted model, that the suite's attention cannot replace."""


def as_one_line(error: Exception) -> str:
    """Such as "IndexError: list index out of range"."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def need_transformers() -> None:
    """One sentence where the extra is not installed.

    A model is data, so transformers is told that it has no `kernels`, the package by which it
    fetches code for quantised weights and recurrent layers. It then computes them itself.
    """
    sys.modules.setdefault("kernels", None)  # type: ignore[arg-type]
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise PosbenchError(
            "transformers is not installed: pip install 'posbench[pretrained]'"
        ) from None
