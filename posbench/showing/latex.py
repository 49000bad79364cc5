"""Tables for papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from posbench.showing.numbers import NOTHING

SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    NOTHING: "--",
}


def tabular(
    headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None
) -> str:
    """A table for `booktabs`, whose cells are LaTeX already; the first column is set to the left.

    With a caption it floats.
    """
    cells = pd.DataFrame(list(rows), columns=list(headings))
    columns = f"l{'r' * (len(headings) - 1)}"
    text: str = cells.to_latex(index=False, escape=False, caption=caption, column_format=columns)
    return text


def escaped(text: str) -> str:
    """A text as LaTeX shows it; a name may break behind an underscore."""
    return "".join(SIGNS.get(sign, sign) for sign in text).replace("\\_", "\\_\\allowbreak{}")
