"""Where the pages of `posbench.explain` are, to which boards link."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

FOLDER = "explain"


def explanation_path(protocol: str, task: str, methods: Sequence[str], seed: int) -> Path:
    """Where in a results folder the page of these methods is kept, as records are; all names are
    slugs.
    """
    return Path(FOLDER) / protocol / task / ",".join(methods) / f"seed={seed}.html"


def explanations(results_dir: Path) -> list[Path]:
    """The pages that are there, by their paths in the results folder."""
    return sorted(path.relative_to(results_dir) for path in results_dir.glob(f"{FOLDER}/**/*.html"))
