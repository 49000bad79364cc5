"""What is said of a row among others: on the terminal, as Markdown, and as a table in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from posbench.boards.definition import Board
from posbench.comparing.standing import Standing
from posbench.leaderboard.summaries import number
from posbench.records import files
from posbench.records.record import Record

ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def text(found: Standing, board: Board, notes: Sequence[str]) -> str:
    """The place, the groups and the rivals, for a terminal."""
    lines = [*sentences(found, board), "", *_aligned(groups(found)), "", *_aligned(rivals(found))]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def sentences(found: Standing, board: Board) -> Iterator[str]:
    """Where it stands, and how sure that is."""
    ours = found.summary.loc[found.row]
    others = len(found.summary) - 1
    low, high = ours["tasks_rank_low"], ours["tasks_rank_high"]
    yield (
        f"{found.row} is {ordinal(found.place_of(found.row))} of {others + 1} {found.kind} rows on "
        f"{len(found.tasks)} of the {len(board.all_tasks)} tasks of board {board.name}: with other "
        f"tasks and seeds {ordinal(int(low))} to {ordinal(int(high))}, tier "
        f"{ours['tasks_tier']:.0f}."
    )
    given = ""
    if not pd.isna(ours["seeds_low"]):
        given = f", {number(ours['seeds_low'])} to {number(ours['seeds_high'])} given these tasks"
    yield (
        f"Overall {number(ours['overall'])} ({number(ours['tasks_low'])} to "
        f"{number(ours['tasks_high'])} over tasks{given}); it learned {ours['learned']:.0%} of "
        f"its trainings, and its reach is {found.reach} times the length of training."
    )


def groups(found: Standing) -> pd.DataFrame:
    """Our row and its rivals, with the score of each group."""
    shown = found.summary.loc[found.rows]
    columns = {"overall": shown["overall"], **{name: shown[name] for name in found.groups}}
    table = pd.DataFrame({name: column.map(number) for name, column in columns.items()})
    table.insert(0, "place", [str(found.place_of(row)) for row in table.index])
    return table.rename_axis("row").reset_index()


def rivals(found: Standing) -> pd.DataFrame:
    """How sure it is that our row is above each of them."""
    return pd.DataFrame(
        {
            "than": [rival.row for rival in found.rivals],
            "P(better)": [number(rival.above) for rival in found.rivals],
            "P(as good)": [number(rival.equivalent) for rival in found.rivals],
            "P(worse)": [number(rival.below) for rival in found.rivals],
        }
    )


def markdown(found: Standing, board: Board, notes: Sequence[str]) -> str:
    parts = [
        f"# {found.row} on board {board.name}",
        " ".join(sentences(found, board)),
        _pipes(groups(found)),
        "Whether it is better, over tasks and seeds; rows that differ by less than "
        f"{number(board.judged.equivalent)} are as good:",
        _pipes(rivals(found)),
        *(f"> {note}" for note in notes),
    ]
    return "\n\n".join(parts) + "\n"


def latex(found: Standing) -> str:
    """A table for a paper: our row in bold, among its rivals."""
    table = groups(found)
    table["row"] = [_escaped(row) for row in table["row"]]
    ours = table["row"] == _escaped(found.row)
    table = table.where(~ours, table.map(lambda cell: rf"\textbf{{{cell}}}"))
    columns = "l" + "r" * (table.shape[1] - 1)
    lines = [" & ".join(map(str, table.columns)), *(" & ".join(row) for row in table.to_numpy())]
    body = "\n".join(f"{line} \\\\" for line in lines[1:])
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{lines[0]} \\\\\n\\midrule\n{body}\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def write(
    found: Standing,
    board: Board,
    notes: Sequence[str],
    own: Sequence[Record],
    published: Sequence[Record],
    folder: Path,
) -> list[Path]:
    """The report beside the records, in Markdown and LaTeX."""
    name = own[0].method.slug
    written = {
        folder / f"{name}.md": markdown(found, board, notes),
        folder / f"{name}.tex": latex(found),
    }
    with files.writing_to(folder):
        for path, content in written.items():
            with files.atomically(path) as beside:
                beside.write_text(content, encoding="utf-8")
    return list(written)


def ordinal(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, "th")
    return f"{number}{last}"


def _escaped(label: str) -> str:
    return label.replace("_", r"\_").replace("%", r"\%").replace("&", r"\&")


def _aligned(table: pd.DataFrame) -> list[str]:
    rows = [list(map(str, table.columns)), *table.astype(str).to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _pipes(table: pd.DataFrame) -> str:
    rows = [list(map(str, table.columns)), *table.astype(str).to_numpy().tolist()]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines.insert(1, " | ".join(["---"] + ["---:"] * (table.shape[1] - 1)))
    return "\n".join(f"| {line} |" for line in lines)
