"""The board as a static site: index.html, and beside it what can be downloaded."""

from __future__ import annotations

from pathlib import Path

from posbench.base.disk import read_text, write_whole
from posbench.boards.generated import Generated
from posbench.showing.pages import explanations, policy

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


HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content=\""""
"""How pages of posbench begin: what a browser has read first holds for the rest."""


def write(source: Path, made: Generated, folder: Path) -> list[str]:
    """Write what was made of the records of `source` into `folder`; the same records give the same
    bytes. Returns a sentence for each file that is left out.
    """
    pages = dict(made.pages)
    contents = {"index.html": pages.pop(PAGE)} | pages
    contents |= {"README.md": CARD, ".nojekyll": ""}  # without the latter pages are rebuilt first
    left_out = list(made.left_out)
    for path in explanations(source):
        try:
            contents[path.as_posix()] = _explanation(source / path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            left_out.append(f"{source / path} is not copied ({reason}): make it again")
    for name, content in contents.items():
        write_whole(folder / name, content, folder)
    return left_out


def _explanation(path: Path) -> str:
    """A page of `posbench.explain`; ValueError if it could run scripts where it is shown."""
    text = read_text(path)
    if not text.startswith(f'{HEAD}{policy()}">\n'):
        raise ValueError("it does not begin with the policy that lets no page run a script")
    return text
