"""`posbench compare mine/encoding/decay.yaml`: from a file to its place among all others.

    posbench compare mine/encoding/decay.yaml --quick    three tasks, one seed
    posbench compare mine/extension/slow_half.yaml       tasks that separate rows, all seeds
    posbench compare method=rope encoding.base=500 --whole    every task of the board
    posbench compare mine/task/every_other.yaml          which rows can do a task

Tasks are those that resolve the most pairs of published rows in an hour; task= and seed= choose
others. An extension is compared on the board whose trainings are in the zoo, if there is one, and
its tests are all that is made. What is missing of its runs is made first, by a sweep that can be
stopped and goes on when the command is given again. Every other row comes from published records,
those of results/BOARD unless --against names a folder, with the same seeds as far as they are
published. --than names the one row that yours was made to improve on: their difference is tested
alone, without a correction for all rows. It prints the place and the nearest rows, lists rows that
are excluded for missing tasks, and ends with the words that say more. FOLDER/compare/ has them as
ROW.md and .tex, and ROW.html is the page of a board with the row open among the others. Of a task,
the rows that the board refers to are trained, or those of method=.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted, printable
from posbench.boards.compare import of_task, report
from posbench.boards.compare.of_row import differences, standing
from posbench.boards.compare.of_task import TaskSubject
from posbench.boards.compare.rivals import Rivals, RowKind, of_other_tasks, on_tasks_as_here
from posbench.boards.compare.subject import USUAL_SEEDS, RowSubject, offered_seeds, subject
from posbench.config import board as definition
from posbench.config import command_lines, mistakes
from posbench.config.board import AS_TRAINED, Board
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.identity import identify
from posbench.config.words import Word
from posbench.records import files
from posbench.records.record import Record
from posbench.running.zoo import Zoo, zoos
from posbench.statistics.aggregates import FEWEST
from posbench.sweeping.plan import SweepPlan, in_zoo, plan
from posbench.sweeping.requests import Request

MAIN = "main"
QUIET = "hydra.sweeper.leaderboard=false"
"""A word of a sweep that says nothing of the leaderboard."""


def main(arguments: list[str] | None = None) -> int:
    chosen = _parsed(arguments)
    left = "the same command goes on from here, and with --no-training reports what there is"
    words = [word for word in chosen.words if "=" in word]
    return exit_status(lambda: _compared(chosen)[0], words, chosen.config_dir, left)


def compared(arguments: Sequence[str]) -> pd.DataFrame:
    """As `main`, but what is wrong is raised, and what is printed is returned as a frame; its
    `attrs` have the sentences and the notes.
    """
    return _compared(_parsed(arguments))[1]


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_lines.parser(
        "posbench compare", "A method of your own, or a task, among the published ones."
    )
    parser.add_argument(
        "words",
        nargs="+",
        help="mine/encoding/decay.yaml, mine/extension/slow_half.yaml, "
        "mine/task/every_other.yaml, or words as after python -m posbench; task= and seed= choose "
        "among the board's",
    )
    parser.add_argument("--quick", action="store_true", help="three tasks and one seed")
    parser.add_argument("--whole", action="store_true", help="every task of the board")
    parser.add_argument(
        "--board", help=f"default: the zoo's for an extension that it has weights for, or {MAIN}"
    )
    parser.add_argument(
        "--than",
        metavar="ROW",
        help="the one row that yours was made to improve on: their difference, not corrected",
    )
    parser.add_argument("--against", type=Path, help="a folder of records, for the published ones")
    command_lines.add_config_dir(parser, help="with files of your own: one")
    parser.add_argument(
        "--no-training", action="store_true", help="compare what there is, and train nothing"
    )
    return parser.parse_intermixed_args(arguments)


def _compared(chosen: argparse.Namespace) -> tuple[int, pd.DataFrame]:
    own: list[Path] = chosen.config_dir
    mistakes.check([word for word in chosen.words if "=" in word], own)
    if chosen.quick and chosen.whole:
        raise PosbenchError("--quick and --whole ask for few tasks and for all: leave one out")
    if len(own) > 1:
        raise PosbenchError(
            f"--config-dir {' and '.join(map(str, own))}: what is compared lies in one "
            "folder, so give that alone"
        )
    board = definition.load(chosen.board or MAIN, own)
    if (task := TaskSubject.of(chosen.words, board, quick=chosen.quick)) is not None:
        if own and own[0].resolve() != task.folder.resolve():
            raise PosbenchError(
                f"task {task.task} is not in {own[0]}: what is compared lies in one folder"
            )
        if chosen.than is not None:
            raise PosbenchError(
                f"--than {chosen.than} is for a row of yours, and {task.task} is a task: leave it "
                "out"
            )
        with composing(task.folder):
            return _compare_rows(task, board, chosen)
    mine = subject(chosen.words, board, *own)
    with composing(*mine.folders):
        if chosen.board is None and (other := _of_zoo(mine, chosen.words, own)) is not None:
            mine, board = other
        return _compare(mine, board, chosen)


def _of_zoo(
    mine: RowSubject, words: Sequence[str], own: Sequence[Path]
) -> tuple[RowSubject, Board] | None:
    """The same row on the board that a zoo is named after, if it is an extension of weights that
    are there, and the board has published records; None elsewhere.
    """
    if _extension(mine) == AS_TRAINED:
        return None
    for zoo in _zoos(mine):
        name = zoo.path.stem
        if name not in definition.names() or not _records_of(name).is_dir():
            continue
        board = definition.load(name)
        with suppress(PosbenchError):  # words that name tasks or seeds of another board
            there = subject(words, board, *own)
            seeds = there.chosen_seeds(board, quick=False)
            if len(_trained(there, board, board.all_tasks, seeds)) >= FEWEST:
                return there, board
    return None


def _zoos(mine: RowSubject) -> list[Zoo]:
    """Where its runs look for weights."""
    return zoos(str(compose(*mine.settings).content["zoo"]))


def _extension(mine: RowSubject) -> str:
    name: str = identify(compose(*mine.row)).method.extension
    return name


def _records_of(board: str) -> Path:
    """Where the records of a board are published, in a clone."""
    return Path("results", board, "records")


def _published_of(board: Board) -> Path:
    """The folder with the records of a board, or with those of the main one, which are always
    there.
    """
    own = _records_of(board.name)
    return own.parent if own.is_dir() else files.shipped()


def _trained(
    mine: RowSubject, board: Board, tasks: Sequence[str], seeds: Sequence[int]
) -> list[str]:
    """The tasks of which a zoo has all trainings; what else is complete does not count, so that
    earlier runs choose nothing.
    """
    planned = plan(_without_force(mine.runs(board, tasks, seeds)))
    runs = [*planned.complete, *planned.runs]
    there = in_zoo(runs)
    found = Counter(run.spec.identity.task.label for run in runs if run.training in there)
    return [task for task in tasks if found[task] == len(seeds)]


def _compare(
    mine: RowSubject, board: Board, chosen: argparse.Namespace
) -> tuple[int, pd.DataFrame]:
    mistakes.check([*mine.row, *mine.settings], mine.folders)
    if not board.all_tasks:
        raise PosbenchError(
            f"board {board.name} runs experiments, and a row is compared on tasks: choose a board "
            "that has them, as --board main"
        )
    against = chosen.against or _published_of(board)
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
    if chosen.than is not None:
        rivals.refuse_unknown(chosen.than)
    trained = _trained(mine, board, rivals.tried, seeds) if _zoos(mine) else []
    tasks = mine.chosen_tasks(rivals, quick=chosen.quick, whole=chosen.whole, trained=trained)
    rivals.refuse_lack(tasks)
    if chosen.than is not None:
        rivals.refuse_unknown(chosen.than, tasks)
    mine.refuse_other_tasks(board, tasks)
    results_dir = Path(compose(*mine.settings).content["results_dir"])

    command = [] if chosen.no_training else mine.command(board, tasks, seeds)
    again = _again(chosen)
    planned, stopped = _made(mine.runs(board, tasks, seeds), command)
    own = _complete(planned, again, tried=bool(command))
    held = rivals.beside(own)  # what was stopped has fewer tasks, or fewer seeds of some
    there = standing(own, held, than=chosen.than)
    ran = sorted({record.seed for record in own})
    notes = [
        *of_other_tasks(left),
        *held.remarks(there.tasks),
        *_covered(there.tasks, ran, board),
        *_chosen(rivals, tasks, mine, trained),
        *_notes(planned, ran, again),
        *differences(own, held.records),
    ]
    print(printable(report.text(there, board, notes)))
    from posbench.explain.sketches import sketch  # and with it torch

    drawn = there.sketched(sketch(there.row, mine.row))
    paths = report.write(drawn, board, notes, own, results_dir / "compare", mine.folders)
    print(f"Written: {', '.join(map(str, paths))}")
    for line in _next(mine, rivals, tasks, seeds, own[0]):
        print(printable(line))
    frame = there.frame()
    frame.attrs = {"sentences": list(report.sentences(there, board)), "notes": notes}
    return _ended(planned, stopped), frame


def _compare_rows(
    mine: TaskSubject, board: Board, chosen: argparse.Namespace
) -> tuple[int, pd.DataFrame]:
    """The rows of a board on a task of the user."""
    mistakes.check([f"task={mine.task}", *mine.settings], [mine.folder])
    against = chosen.against or _published_of(board)
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
    if lacking := {*offered_seeds(board, None, USUAL_SEEDS)} - {*mine.seeds}:
        print(printable(_with_seeds(len(lacking), {*mine.seeds, *lacking})))
    frame = found.summary.assign(on_board=found.known).rename_axis(index="row")
    frame.attrs = {"sentences": list(of_task.sentences(found, board)), "notes": notes}
    return _ended(planned, stopped), frame


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
    print(f"What is missing is trained: python -m posbench {shlex.join(command)}", flush=True)
    # As this process: modules of the current folder only where it sees them itself.
    alone = [] if {"", str(Path.cwd())} & {*sys.path} else ["-P"]
    status = _swept([sys.executable, *alone, "-m", "posbench", *command, QUIET])
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
        raise PosbenchError(
            f"none of its runs is complete, so there is nothing to compare{_older(planned)}: {why}"
        )
    return own


def _older(planned: SweepPlan) -> str:
    """How many runs that are missing have a record, which other code or settings made."""
    there = sum(run.spec.path.is_file() for run in planned.runs)
    if not there:
        return ""
    have = agreeing(there, "has", "have")
    return f", though {counted(there, 'run')} {have} a record of earlier code or settings"


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


def _covered(tasks: Sequence[str], seeds: Sequence[int], board: Board) -> Iterator[str]:
    """How much of the board was run, where that is not all of it."""
    if len(tasks) < len(board.all_tasks) or len(seeds) < USUAL_SEEDS:
        some = f"{counted(len(tasks), 'task')} and {counted(len(seeds), 'seed')}"
        yield f"This covers {some} of the board."


def _chosen(
    rivals: Rivals, tasks: Sequence[str], mine: RowSubject, trained: Sequence[str]
) -> Iterator[str]:
    """How the tasks were chosen, with what each of them tells."""
    worth = rivals.separating
    if "task" in mine.tests or len(tasks) == len(worth):
        return
    known = [
        f"{task} (it separates {worth.loc[task, 'resolved']:.0f} of "
        f"{worth.loc[task, 'pairs']:.0f} pairs of published rows)"
        for task in tasks
        if task in worth.index
    ]
    why = (
        "Tasks are those whose weights are there"
        if {*tasks} <= {*trained}
        else "Tasks are those that resolve the most pairs of published rows in an hour"
    )
    yield f"{why}: {', '.join(known)}."


def _next(
    mine: RowSubject, rivals: Rivals, tasks: Sequence[str], seeds: Sequence[int], own: Record
) -> Iterator[str]:
    """What says more: tasks enough for an interval, all seeds, all tasks, and one file of it for
    others.
    """
    offered = sorted({record.seed for record in rivals.offered})
    whole = rivals.common or rivals.tried
    if len(tasks) < FEWEST:
        more = [task for task in rivals.separating.index if task not in tasks]
        named = ",".join([*tasks, *map(str, more[: FEWEST - len(tasks)])])
        yield f"Next, on enough tasks for an interval: the same command with task={named}"
    elif lacking := {*offered} - {*seeds}:
        yield _with_seeds(len(lacking), offered)
    if "task" not in mine.tests and len(tasks) < len(whole):
        yield f"Next, on all {len(whole)} tasks: the same command with --whole, not --quick"
    if mine.folder is not None:
        words = ["posbench", "records", "bundle", f"{own.method.slug}.tar.gz"]
        words += ["--config-dir", str(mine.folder), "--method", own.method.slug]
        yield f"To send it in: {shlex.join(words)}"


def _with_seeds(lacking: int, seeds: Iterable[int]) -> str:
    named = ",".join(map(str, sorted(seeds)))
    return f"Next, with {counted(lacking, 'further seed')}: the same command with seed={named}"


def _notes(planned: SweepPlan, seeds: Sequence[int], again: str) -> Iterator[str]:
    if len(seeds) < USUAL_SEEDS:
        yield "The interval is of tasks more than of seeds: run three seeds or more."
    if planned.runs:
        yield f"{counted(len(planned.runs), 'run')} missing{_older(planned)}: {again}."
