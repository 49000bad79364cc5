"""The board as a static site: index.html, and beside it what can be downloaded."""

from __future__ import annotations

from pathlib import Path

from posbench.leaderboard.explanations import explanations
from posbench.leaderboard.generated import Generated

PAGE = "leaderboard.html"
CARD = """---
title: posbench
emoji: 📏
colorFrom: blue
colorTo: gray
sdk: static
app_file: index.html
pinned: false
license: apache-2.0
---

The leaderboard of posbench: transformer position encodings at lengths beyond training.
"""
"""What a static space reads; a repository's pages and other servers ignore it."""


def write(source: Path, made: Generated, folder: Path) -> list[Path]:
    """Write what was made of the records of `source` into `folder`; the same records give the same
    bytes.
    """
    pages = dict(made.pages)
    contents = {"index.html": pages.pop(PAGE)} | pages
    contents |= {"README.md": CARD, ".nojekyll": ""}  # without the latter pages are rebuilt first
    linked = explanations(source)
    contents |= {path.as_posix(): (source / path).read_text(encoding="utf-8") for path in linked}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]
