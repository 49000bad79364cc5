"""What is said of a row among others: on the terminal, as Markdown, and as a table in LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from posbench.base.disk import write_whole
from posbench.base.wording import agreeing, counted
from posbench.boards.by_length import by_length
from posbench.boards.compare.of_row import RowStanding
from posbench.boards.page import Focus, document
from posbench.config.board import Board
from posbench.records.record import Record
from posbench.showing.table import Line, Table, number, paragraph, plain
from posbench.statistics.aggregates import FEWEST


@dataclass(frozen=True)
class Unrecorded:
    """What records do not say of our row."""

    folders: Sequence[Path] = ()  # of one's own, which commands on the page name
    sketch: Mapping[str, Any] | None = None  # its line, see `posbench.explain.sketches`


NOWHERE = Unrecorded()
ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def text(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    """The place, the groups and the rivals, for a terminal."""
    lines = [*sentences(found, board), "", *groups(found).aligned()]
    if drawn(found):
        lines += ["", *rivals(found).aligned()]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def drawn(found: RowStanding) -> bool:
    """Whether anything is known of how sure it is that our row is above another."""
    return not all(math.isnan(rival.above) for rival in found.rivals)


def sentences(found: RowStanding, board: Board) -> Iterator[str]:
    """Where it stands, and how sure that is."""
    ours = found.summary.loc[found.row]
    others = len(found.summary) - 1
    yield (
        f"{found.row} is {ordinal(found.place_of(found.row))} of {others + 1} {found.kind} rows on "
        f"{len(found.tasks)} of the {len(board.all_tasks)} tasks of board {board.name}"
        f"{_with_others(found)}."
    )
    margin = number(board.judged.equivalent)
    if above := found.equivalent_above(found.row):
        yield (
            f"{counted(above, 'row')} above it {agreeing(above, 'leads', 'lead')} by less than "
            f"{margin}, which is no difference."
        )
    bounds = [
        f"{number(ours[f'{name}_low'])} to {number(ours[f'{name}_high'])} {said}"
        for name, said in (("tasks", "over tasks"), ("seeds", "given these tasks"))
        if not pd.isna(ours[f"{name}_low"])
    ]
    interval = f" ({', '.join(bounds)})" if bounds else ""
    yield (
        f"Overall {number(ours['overall'])}{interval}; at 1x "
        f"{100 * ours['learned']:.0f} % of its runs get to the gate of their task, and its reach "
        f"is {found.reach} times the length of training."
    )


def _with_others(found: RowStanding) -> str:
    """The interval of its rank."""
    ours, over = found.summary.loc[found.row], found.ranked.over
    if pd.isna(ours[f"{over}_rank_low"]):
        return (
            f"; with fewer than {FEWEST} seeds of some row, and too few tasks to draw from, "
            "nothing says how sure that is"
        )
    low, high = (ordinal(int(ours[f"{over}_rank_{side}"])) for side in ("low", "high"))
    return f": with {found.ranked.drawn} {low} to {high}"


def groups(found: RowStanding) -> Table:
    """Our row and its rivals, with the score of each group."""
    columns = ["overall", *found.groups]
    rows = []
    for row in found.rows:
        scores = [number(found.summary.loc[row, column]) for column in columns]
        cells = [str(found.place_of(row)), *scores]
        rows.append(Line(row, cells, own=row == found.row))
    return Table.of(["row", "place", *columns], rows)


def rivals(found: RowStanding) -> Table:
    """How sure it is that our row is above each of them."""
    rows = [
        Line(each.row, [number(share) for share in (each.above, each.equivalent, each.below)])
        for each in found.rivals
    ]
    return Table.of(["than", "P(better)", "P(as good)", "P(worse)"], rows)


def markdown(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    parts = [
        f"# {plain(found.row)} on board {plain(board.name)}",
        paragraph(" ".join(sentences(found, board))),
        "\n".join(groups(found).pipes),
        *(
            (
                f"Whether it is better, were {found.ranked.drawn} drawn; rows that differ by less "
                f"than {number(board.judged.equivalent)} are as good:",
                "\n".join(rivals(found).pipes),
            )
            if drawn(found)
            else ()
        ),
        *(f"> {paragraph(note)}" for note in notes),
    ]
    return "\n\n".join(parts) + "\n"


def html(
    found: RowStanding, board: Board, notes: Sequence[str], source: Unrecorded = NOWHERE
) -> str:
    """The page of a board, of our row and all that it stands among, with what is said first."""
    title = f"{found.row} on board {board.name}"
    focus = Focus(found.row, title, list(sentences(found, board)), source.sketch)
    return document(
        board,
        found.measured,
        [found.ranked],
        found.records,
        notes,
        [],
        by_length(found.measured),
        focus,
        folders=source.folders,
    )


def write(
    found: RowStanding,
    board: Board,
    notes: Sequence[str],
    own: Sequence[Record],
    folder: Path,
    source: Unrecorded = NOWHERE,
) -> list[Path]:
    """The report beside the records: as a page, in Markdown and in LaTeX."""
    name = own[0].method.slug
    written = {
        folder / f"{name}.html": html(found, board, notes, source),
        folder / f"{name}.md": markdown(found, board, notes),
        folder / f"{name}.tex": groups(found).latex(),
    }
    for path, content in written.items():
        write_whole(path, content)
    return list(written)


def ordinal(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, "th")
    return f"{number}{last}"
