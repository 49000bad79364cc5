"""The report on a row among others: on the terminal, as Markdown, and as a table in LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from posbench.base.disk import write_whole
from posbench.base.wording import counted, listed
from posbench.boards import opening, page_data
from posbench.boards.compare.of_row import RowStanding
from posbench.boards.findings import headline
from posbench.boards.page import in_browser
from posbench.boards.remarks import origins
from posbench.boards.tables import less_the_first, ranked, share, task_parts
from posbench.config.board import Board
from posbench.records.record import Record
from posbench.showing.pages import Chapter, Page
from posbench.showing.table import NOTHING, Line, Markdown, Table, bounds, number, span
from posbench.statistics.standings import SIGNIFICANT

MADE = Markdown("Made by `posbench compare` from published records and yours.")
TO_ITS_ROW = Markdown("[To its row](#own)")
FEW = 4
"""Rows that are named where ours is shown to reach less far than these."""
THIN = 3
"""Tasks, as of a quick comparison, on which a correction for many rows leaves hardly anything."""
ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def text(found: RowStanding, board: Board, notes: Sequence[str]) -> str:
    """The place and the rivals, for a terminal."""
    lines = [*sentences(found, board), "", *numbers(found).aligned()]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def sentences(found: RowStanding, board: Board) -> Iterator[str]:
    """What it has learned, how far it reaches of it, and its place."""
    ours = found.summary.loc[found.row]
    tasks = counted(len(found.tasks), "task")
    runs = found.ranked.part.runs
    learned = runs.loc[runs["row"] == found.row, "learned"]
    yield (
        f"{found.row} has learned {int(ours['tasks'])} of {tasks} of board {board.name}, with "
        f"{int(learned.sum())} of {counted(len(learned), 'training')}."
    )
    if math.isnan(ours["reaches"]):
        yield "So how far it reaches is not known."
        return
    yield f"Of what it has learned it reaches {number(ours['reaches'])}{bounds(ours)}."
    if found.than is not None:
        yield one_comparison(found, found.than)
    yield place(found)
    sure = [str(row) for row in found.rivals.index[found.rivals["p_holm"] < SIGNIFICANT]]
    named = f": {', '.join(sure)}" if sure else ""
    if len(found.rivals):
        yield (
            f"On the tasks that both have learned it differs from {len(sure)} of the "
            f"{counted(len(found.rivals), 'row')} in the table{named}. "
            "The test is corrected for the number of rows, the intervals are not."
        )


def one_comparison(found: RowStanding, than: str) -> str:
    """Ours minus the one row that it was to be compared with, as if there were no others."""
    if than not in found.others.index or not found.others.loc[than, "common"]:
        return f"No task has been learned by both it and {than}, so nothing is known of the two."
    line = found.others.loc[than]
    tasks = counted(int(line["common"]), "task")
    said = f"It minus {than} is {number(line['difference'])}"
    if math.isnan(line["p"]):
        return f"{said}, on {tasks}. An interval takes three tasks that both have learned."
    verdict = "it is not shown to differ"
    if line["p"] < SIGNIFICANT:
        verdict = f"it reaches {'further' if line['difference'] > 0 else 'less far'}"
    interval = f"{number(line['low'])} to {number(line['high'])}"
    return (
        f"{said} (95 % {interval}, {tasks}): {verdict}. This is one comparison, which is not "
        "corrected for others. It counts if the row was chosen before the results were known."
    )


def place(found: RowStanding) -> str:
    """Its place among the rows of its class, as far as differences show it."""
    placed = found.ranked.placed
    if found.row not in placed:
        return "It has no place in the table, with fewer than two thirds of the tasks."
    if found.places is None:
        return "It has no place yet: an interval takes three tasks that it has learned."
    (best, worst), rows = found.places, counted(len(placed), f"{found.kind} row")
    if best == worst:
        return f"It has the {ordinal(best)} place of {rows}."
    if (best, worst) == (1, len(placed)):
        said = f"Its place is open: it is not shown to differ from any other of {rows}."
        tasks = int(found.summary.loc[found.row, "tasks"])
        return said if tasks > THIN else f"{said} On {tasks} tasks that is usual: compare on more."
    others = counted(worst - best, "other")
    above = found.shown(-1) if 1 < best <= 1 + FEW else []
    further = f" {listed(above)} {'reaches' if len(above) == 1 else 'reach'} further."
    return (
        f"Its place is between the {ordinal(best)} and the {ordinal(worst)} of {rows}: it is not "
        f"shown to differ from {others}.{further if above else ''}"
    )


def numbers(found: RowStanding) -> Table:
    """Our row and its rivals: both numbers of each, and ours minus theirs."""
    rows, table = (
        [],
        found.rivals.rename(columns={"low": "difference_low", "high": "difference_high"}),
    )
    for row in found.rows:
        line = found.summary.loc[row]
        less = less_the_first(table.loc[row]) if row in table.index else NOTHING
        interval = span(line["low"], line["high"])
        tasks = f"{int(line['tasks'])}/{int(line['num_tasks'])}"
        cells = [share(line["learned"]), tasks, number(line["reaches"]), interval, less]
        rows.append(Line(row, cells, own=row == found.row, lacking=not line["placed"]))
    return Table.of(["row", "learned", "tasks", "reaches", "95 %", "yours minus it"], rows)


def in_text(found: RowStanding, board: Board, notes: Sequence[str]) -> Page:
    """What is found, without the other rows of the board."""
    parts = [Chapter("", [numbers(found)])]
    lead = [" ".join(sentences(found, board))]
    return Page(title(found, board), parts, [], lead=lead, notes=notes)


def title(found: RowStanding, board: Board) -> str:
    return f"{found.row} on board {board.name}"


def of_all(
    found: RowStanding, board: Board, notes: Sequence[str], folders: Sequence[Path] = ()
) -> Page:
    """The page of a board, of our row and all rows of its class, with what is found first."""
    measured, ranking = found.measured, found.ranked
    tasks = list(task_parts(measured, board, ranking.part.protocol, found.row))
    return Page(
        title(found, board),
        [ranked(board, ranking, measured, found.row), Chapter("Task by task", tasks)],
        [origins(measured.records), MADE],
        lead=[*opening.measured_on(measured, ranking), TO_ITS_ROW],
        answer=[*measured.meaningless, *sentences(found, board), *headline([ranking])],
        notes=notes,
        picture=opening.picture(ranking, found.row),
        data=page_data.as_script(page_data.content(measured, [ranking], board, folders=folders)),
        **in_browser(),
    )


def write(
    found: RowStanding,
    board: Board,
    notes: Sequence[str],
    own: Sequence[Record],
    folder: Path,
    folders: Sequence[Path] = (),
) -> list[Path]:
    """The report beside the records, as a page, in Markdown and in LaTeX; commands on the page name
    the folders of the user.
    """
    name = own[0].method.slug
    written = {
        folder / f"{name}.html": of_all(found, board, notes, folders).html(),
        folder / f"{name}.md": in_text(found, board, notes).markdown(),
        folder / f"{name}.tex": numbers(found).latex(),
    }
    for path, content in written.items():
        write_whole(path, content)
    return list(written)


def ordinal(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, "th")
    return f"{number}{last}"
