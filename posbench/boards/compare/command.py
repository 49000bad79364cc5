"""`posbench compare mine/encoding/decay.yaml`: from a file to its place among all others.

    posbench compare mine/encoding/decay.yaml --quick    two tasks, one seed: minutes
    posbench compare mine/extension/slow_half.yaml       tasks of most rows, three seeds
    posbench compare method=rope encoding.base=500 seed=10,11,12,13,14 task=copy,sort
    posbench compare mine/task/every_other.yaml          which rows can do a task

What is missing of its runs is made first, by a sweep that can be stopped and goes on when the
command is given again. Every other row comes from published records, those of the main board unless
--against names a folder, with the same seeds as far as they are published. It prints the place and
the nearest rows, and lists rows that are excluded for missing tasks. FOLDER/compare/ has them as
ROW.md and .tex, and ROW.html is the page of a board with the row open among the others. Of a task,
the rows that the board refers to are trained, or those of method=.
"""

from __future__ import annotations

import argparse
import math
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import counted, printable
from posbench.boards.compare import of_task, report
from posbench.boards.compare.of_row import differences, standing, worth
from posbench.boards.compare.of_task import TaskSubject
from posbench.boards.compare.report import Unrecorded
from posbench.boards.compare.rivals import Rivals, RowKind, of_other_tasks, on_tasks_as_here
from posbench.boards.compare.subject import USUAL_SEEDS, RowSubject, subject
from posbench.config import board as definition
from posbench.config import commands, mistakes
from posbench.config.board import Board
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.words import Word
from posbench.records import files
from posbench.records.record import Record
from posbench.showing.table import number
from posbench.sweeping.plan import SweepPlan, plan, published
from posbench.sweeping.requests import Request

MAIN = "main"
QUIET = "hydra.sweeper.leaderboard=false"
"""A word of a sweep that says nothing of the leaderboard."""


def main(arguments: list[str] | None = None) -> int:
    chosen = _parsed(arguments)
    left = "the same command goes on from here, and with --no-training reports what there is"
    words = [word for word in chosen.words if "=" in word]
    return exit_status(lambda: _compared(chosen), words, chosen.config_dir, left)


def compared(arguments: Sequence[str]) -> int:
    """As `main`, but what is wrong is raised: for callers in Python."""
    return _compared(_parsed(arguments))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = commands.parser(
        "posbench compare", "A method of your own, or a task, among the published ones."
    )
    parser.add_argument(
        "words",
        nargs="+",
        help="mine/encoding/decay.yaml, mine/extension/slow_half.yaml, "
        "mine/task/every_other.yaml, or words as after python -m posbench; task= and seed= choose "
        "among the board's",
    )
    parser.add_argument("--quick", action="store_true", help="two tasks and one seed: minutes")
    parser.add_argument("--board", default=MAIN, help="default: %(default)s")
    parser.add_argument("--against", type=Path, help="a folder of records, for the published ones")
    commands.add_config_dir(parser, help="with files of your own: one")
    parser.add_argument(
        "--no-training", action="store_true", help="compare what there is, and train nothing"
    )
    return parser.parse_intermixed_args(arguments)


def _compared(chosen: argparse.Namespace) -> int:
    own: list[Path] = chosen.config_dir
    mistakes.check([word for word in chosen.words if "=" in word], own)
    if len(own) > 1:
        raise PosbenchError(
            f"--config-dir {' and '.join(map(str, own))}: what is compared stands in one "
            "folder, so give that alone"
        )
    board = definition.load(chosen.board, own)
    if (task := TaskSubject.of(chosen.words, board, quick=chosen.quick)) is not None:
        if own and own[0].resolve() != task.folder.resolve():
            raise PosbenchError(
                f"task {task.task} is not in {own[0]}: what is compared stands in one folder"
            )
        with composing(task.folder):
            return _compare_rows(task, board, chosen)
    mine = subject(chosen.words, board, *own)
    with composing(*mine.folders):
        return _compare(mine, board, chosen)


def _compare(mine: RowSubject, board: Board, chosen: argparse.Namespace) -> int:
    mistakes.check([*mine.row, *mine.settings], mine.folders)
    if not board.all_tasks:
        raise PosbenchError(
            f"board {board.name} runs experiments, and a row is compared on tasks: choose a board "
            "that has them, as --board main"
        )
    against = chosen.against or published()
    found = files.records(against)
    if not found:
        raise PosbenchError(
            f"{against} holds no records to compare with: name a folder of published ones with "
            "--against"
        )
    seeds = mine.chosen_seeds(board, quick=chosen.quick)
    kind = RowKind.of_words(mine.runs(board, board.all_tasks[:1], seeds[:1]).runs[0])
    here, left = on_tasks_as_here(found, board, mine.protocol(board))
    if not here:
        raise PosbenchError(
            f"{against} holds no records on the tasks of board {board.name} as they are here: "
            "name a folder of such records with --against"
        )
    rivals = Rivals.of(here, kind, board, seeds)
    rivals.refuse_lack()
    tasks = mine.chosen_tasks(rivals, quick=chosen.quick)
    rivals.refuse_lack(tasks)
    mine.refuse_other_tasks(board, tasks)
    results_dir = Path(compose(*mine.settings).content["results_dir"])

    command = [] if chosen.no_training else mine.command(board, tasks, seeds)
    again = _again(chosen)
    planned, stopped = _made(mine.runs(board, tasks, seeds), command)
    own = _complete(planned, again, tried=bool(command))
    held = rivals.beside(own)  # what was stopped has fewer tasks, or fewer seeds of some
    there = standing(own, held)
    ran = sorted({record.seed for record in own})
    notes = [
        *of_other_tasks(left),
        *held.remarks(there.tasks),
        *_worth(worth(here, board, there.tasks, ran, kind), there.tasks, ran, board),
        *_notes(planned, ran, again),
        *differences(own, held.records),
    ]
    print(printable(report.text(there, board, notes)))
    from posbench.explain.sketches import sketch  # and with it torch

    source = Unrecorded(mine.folders, sketch(there.row, mine.row))
    paths = report.write(there, board, notes, own, results_dir / "compare", source)
    print(f"Written: {', '.join(map(str, paths))}")
    return _ended(planned, stopped)


def _compare_rows(mine: TaskSubject, board: Board, chosen: argparse.Namespace) -> int:
    """The rows of a board on a task of the user."""
    mistakes.check([f"task={mine.task}", *mine.settings], [mine.folder])
    against = chosen.against or published()
    results_dir = Path(compose(*mine.settings).content["results_dir"])
    command = [] if chosen.no_training else mine.command
    again = _again(chosen)
    planned, stopped = _made(mine.runs, command)
    own = _complete(planned, again, tried=bool(command))
    here, left = on_tasks_as_here(files.records(against), board, mine.protocol)
    found = of_task.TaskStanding.of(own, here, board)
    notes = [*of_other_tasks(left), *of_task.remarks(planned, mine.seeds, again)]
    print(printable(of_task.text(found, board, notes)))
    path = results_dir / "compare" / f"task_{found.task}.md"
    write_whole(path, of_task.page(found, board, notes).markdown())
    print(f"Written: {path}")
    return _ended(planned, stopped)


def _made(request: Request, command: Sequence[str]) -> tuple[SweepPlan, bool]:
    """The plan of what is asked for, after the sweep of these words, if any, has made what was
    missing, and whether that was stopped. The sweep says its cost.
    """
    there = _without_force(request)
    planned = plan(request if command else there)
    for said in _refused(planned):
        print(said)
    if not planned.runs or not command:
        return planned, False
    print(f"python -m posbench {shlex.join(command)}", flush=True)
    status = _swept([sys.executable, "-m", "posbench", *command, QUIET])
    made, stopped = plan(there), status < 0 or status > 128
    if stopped and not made.complete:
        raise KeyboardInterrupt
    return made, stopped


def _swept(words: Sequence[str]) -> int:
    """The exit status of a sweep. Ctrl-C reaches it as well: it keeps what it has, and is waited
    for, so that what is complete can be compared.
    """
    with subprocess.Popen(words) as sweep:
        try:
            return sweep.wait()
        except KeyboardInterrupt:
            return sweep.wait()


def _without_force(request: Request) -> Request:
    """The runs as they are looked at: force=true calls for making them, and never finds them."""
    return Request(
        [tuple(word for word in words if Word.of(word).key != "force") for words in request.runs]
    )


def _complete(planned: SweepPlan, again: str, *, tried: bool) -> list[Record]:
    own = [record for run in planned.complete if (record := run.spec.record()) is not None]
    if not own:
        why = "the sweep has said what became of each" if tried else again
        raise PosbenchError(f"none of its runs is complete, so there is nothing to compare: {why}")
    return own


def _again(chosen: argparse.Namespace) -> str:
    """How runs that are missing are made."""
    without = " without --no-training" if chosen.no_training else ""
    return f"the same command{without} makes them"


def _ended(planned: SweepPlan, stopped: bool) -> int:
    """The exit status; KeyboardInterrupt if it is that of a person."""
    if stopped:
        raise KeyboardInterrupt
    return 1 if planned.runs or planned.wrong else 0


def _refused(planned: SweepPlan) -> Iterator[str]:
    for words, said in planned.wrong.items():
        raise PosbenchError(f"{' '.join(words)}: {said}")
    for reason, rows in planned.refused.items():
        for row, tasks in rows.items():
            yield f"{row} is not tested on {', '.join(tasks)}: {reason}"


def _worth(
    known: tuple[float, int], tasks: Sequence[str], seeds: Sequence[int], board: Board
) -> Iterator[str]:
    """What a choice of tasks and seeds says of the whole board."""
    correlation, rows = known
    if len(tasks) == len(board.all_tasks) and len(seeds) >= USUAL_SEEDS:
        return
    of = f"{counted(len(tasks), 'task')} and {counted(len(seeds), 'seed')} of the board"
    if math.isnan(correlation):
        complete = f"{rows or 'no'} published row{' has' if rows == 1 else 's have'}"
        yield (
            f"This covers {of}. How well its order agrees with that of the whole board is not "
            f"known: {complete} all of its tasks, and a rank correlation needs three."
        )
    else:
        yield (
            f"This covers {of}. On this part, the order of the {rows} published rows with a "
            f"number has a rank correlation of {number(correlation)} with their order on the "
            "whole board."
        )


def _notes(planned: SweepPlan, seeds: Sequence[int], again: str) -> Iterator[str]:
    if len(seeds) < USUAL_SEEDS:
        yield "Intervals given these tasks need several seeds; three are the least."
    if planned.runs:
        yield f"{counted(len(planned.runs), 'run')} missing: {again}."
