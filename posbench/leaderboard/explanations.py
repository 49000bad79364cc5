"""Where the pages of `posbench.explain` are, to which boards link."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def explanation_path(results_dir: str | Path, methods: Sequence[str], task: str) -> Path:
    """Where `posbench.explain` keeps its page of these methods on a task; all are labels."""
    name = "-".join([*methods, task]).replace("/", "_")
    return Path(results_dir) / "explain" / f"{name}.html"
