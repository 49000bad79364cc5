"""What is said of a row among others: on the terminal, as Markdown, and as a table in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from posbench.boards.definition import Board
from posbench.compare.of_row import RowStanding
from posbench.disk import atomically, writing_to
from posbench.leaderboard.page import Focus, document
from posbench.records.record import Record
from posbench.showing.latex import escaped, tabular
from posbench.showing.numbers import number
from posbench.showing.table import Row, Table

ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def text(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    """The place, the groups and the rivals, for a terminal."""
    lines = [*sentences(found, board), "", *groups(found).aligned(), "", *rivals(found).aligned()]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def sentences(found: RowStanding, board: Board) -> Iterator[str]:
    """Where it stands, and how sure that is."""
    ours = found.summary.loc[found.row]
    others = len(found.summary) - 1
    yield (
        f"{found.row} is {ordinal(found.place_of(found.row))} of {others + 1} {found.kind} rows on "
        f"{len(found.tasks)} of the {len(board.all_tasks)} tasks of board {board.name}"
        f"{_with_others(ours)}."
    )
    bounds = [
        f"{number(ours[f'{name}_low'])} to {number(ours[f'{name}_high'])} {said}"
        for name, said in (("tasks", "over tasks"), ("seeds", "given these tasks"))
        if not pd.isna(ours[f"{name}_low"])
    ]
    interval = f" ({', '.join(bounds)})" if bounds else ""
    yield (
        f"Overall {number(ours['overall'])}{interval}; it learned {ours['learned']:.0%} of its "
        f"trainings, and its reach is {found.reach} times the length of training."
    )


def _with_others(ours: pd.Series) -> str:
    """Its rank and tier had other tasks and seeds been drawn."""
    if pd.isna(ours["tasks_rank_low"]):
        return "; one seed and one task of a group do not say how sure that is"
    low, high = (ordinal(int(ours[f"tasks_rank_{side}"])) for side in ("low", "high"))
    return f": with other tasks and seeds {low} to {high}, tier {ours['tasks_tier']:.0f}"


def groups(found: RowStanding) -> Table:
    """Our row and its rivals, with the score of each group."""
    columns = ["overall", *found.groups]
    rows = []
    for row in found.rows:
        scores = [number(found.summary.loc[row, column]) for column in columns]
        rows.append(Row(row, [str(found.place_of(row)), *scores]))
    return Table(["row", "place", *columns], rows)


def rivals(found: RowStanding) -> Table:
    """How sure it is that our row is above each of them."""
    rows = [
        Row(each.row, [number(share) for share in (each.above, each.equivalent, each.below)])
        for each in found.rivals
    ]
    return Table(["than", "P(better)", "P(as good)", "P(worse)"], rows)


def markdown(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    parts = [
        f"# {found.row} on board {board.name}",
        " ".join(sentences(found, board)),
        "\n".join(groups(found).pipes),
        "Whether it is better, over tasks and seeds; rows that differ by less than "
        f"{number(board.judged.equivalent)} are as good:",
        "\n".join(rivals(found).pipes),
        *(f"> {note}" for note in notes),
    ]
    return "\n\n".join(parts) + "\n"


def latex(found: RowStanding) -> str:
    """A table for a paper: our row in bold, among its rivals."""
    table = groups(found)
    lines = []
    for row in table.rows:
        cells = list(map(escaped, [row.name, *row.cells]))
        ours = row.name == found.row
        lines.append([rf"\textbf{{{cell}}}" for cell in cells] if ours else cells)
    return tabular(list(map(escaped, table.headings)), lines)


def html(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    """The page of a board, of our row and all that it stands among, with what is said first."""
    title = f"{found.row} on board {board.name}"
    focus = Focus(found.row, title, list(sentences(found, board)))
    return document(board, found.measured, [found.ranked], found.records, notes, [], focus)


def write(
    found: RowStanding,
    board: Board,
    notes: Sequence[str],
    own: Sequence[Record],
    folder: Path,
) -> list[Path]:
    """The report beside the records: as a page, in Markdown and in LaTeX."""
    name = own[0].method.slug
    written = {
        folder / f"{name}.html": html(found, board, notes),
        folder / f"{name}.md": markdown(found, board, notes),
        folder / f"{name}.tex": latex(found),
    }
    with writing_to(folder):
        for path, content in written.items():
            with atomically(path) as beside:
                beside.write_text(content, encoding="utf-8")
    return list(written)


def ordinal(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, "th")
    return f"{number}{last}"
