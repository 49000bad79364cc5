"""`python -m posbench.sweep BOARD`: plan a board, or run what is missing of it.

    python -m posbench.sweep main --plan                      what is to be run, and CPU hours
    python -m posbench.sweep main --seeds 10                  run it; the same command goes on
    python -m posbench.sweep main --protocol smoke --seeds 10 a dry run of everything

Runs go one after another, seeds outermost, and one that fails does not stop the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from posbench.boards import definition
from posbench.boards.definition import Board
from posbench.boards.plan import Job, cost, jobs
from posbench.composing.compose import composing
from posbench.errors import PosbenchError
from posbench.records import files


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posbench.sweep", description="A board: planned, or run."
    )
    parser.add_argument("board", help="its name: main, or one of your own in FOLDER/board")
    parser.add_argument("--config-dir", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--plan", action="store_true", help="say what is to be run, and run nothing")
    parser.add_argument("--protocol", help="instead of the board's: smoke for a dry run")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the board's, these alone")
    parser.add_argument("--tasks", nargs="+", help="of the board's, these alone")
    parser.add_argument("--parts", nargs="+", help="of the board's, these alone")
    parser.add_argument(
        "--results-dir", type=Path, default=files.LOCAL, help="default: %(default)s"
    )
    parser.add_argument(
        "--costs", type=Path, nargs="+", default=[], help="folders whose records tell costs"
    )
    parser.add_argument(
        "--share", default="1/1", help="this of so many processes, e.g. 1/2 and 2/2"
    )
    chosen = parser.parse_args(arguments)
    try:
        board = definition.load(chosen.board, chosen.config_dir)
        planned = jobs(board, chosen.protocol, chosen.seeds, chosen.tasks, chosen.parts)
        if not planned:
            raise PosbenchError(f"nothing of board {board.name} is left by these choices")
        with composing(*chosen.config_dir):
            kept, refused = applicable(planned)
            say_plan(board, planned, kept, refused, [chosen.results_dir, *chosen.costs])
            return 0 if chosen.plan else run(board, _part(kept, chosen.share), chosen.results_dir)
    except PosbenchError as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1


def _part(kept: list[Job], share: str) -> list[Job]:
    """The jobs of one process of several; those of one training stay together."""
    number, _, of = share.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise PosbenchError(f"--share {share} is no share: write 1/2 and 2/2 for two processes")
    trainings = list(dict.fromkeys(_training(job) for job in kept))
    mine = set(trainings[int(number) - 1 :: int(of)])
    return [job for job in kept if _training(job) in mine]


def _training(job: Job) -> tuple[str, str, str, int]:
    return job.protocol, job.task, job.encoding, job.seed
