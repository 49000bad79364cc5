"""`python -m posbench.sweep BOARD`: plan a board, or run what is missing of it.

    python -m posbench.sweep main --plan                      what is to be run, and CPU hours
    python -m posbench.sweep main --seeds 10                  run it; the same command goes on
    python -m posbench.sweep main --protocol smoke --seeds 10 a dry run of everything

Runs go one after another, seeds outermost, and one that fails does not stop the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from omegaconf import open_dict

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
    parser.add_argument("--plan", action="store_true", help="say what is to be run, no more")
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


def applicable(planned: Sequence[Job]) -> tuple[list[Job], dict[str, list[str]]]:
    """The jobs that can be run, and the tasks on which each other row has nothing to go by.

    An encoding that takes its position ids from the task does not apply to a task without them.
    """
    from omegaconf import OmegaConf

    from posbench.composing.building import build
    from posbench.composing.legality import TEST_POSITIONS, TRAIN_POSITIONS, node
    from posbench.encoding import EncodingStack

    asked: dict[tuple[str, ...], str] = {}
    supplied: dict[str, frozenset[str]] = {}
    kept: list[Job] = []
    refused: dict[str, list[str]] = defaultdict(list)
    for job in planned:
        if job.row not in asked:
            cfg = hydra.compose("config", [f"protocol={job.protocol}", *job.row])
            cfg.train_positions, cfg.test_positions = TRAIN_POSITIONS, TEST_POSITIONS
            plain: Any = OmegaConf.to_container(cfg, resolve=True)
            layers = plain["encoding"].get("layers", [plain["encoding"]])
            asked[job.row] = EncodingStack([build(layer, "encoding") for layer in layers], 1).ids
        if job.task not in supplied:
            target = node("task", job.task).task["_target_"]
            supplied[job.task] = hydra.utils.get_class(target).ids | {"index"}  # type: ignore[attr-defined]
        if asked[job.row] in supplied[job.task]:
            kept.append(job)
        elif job.task not in refused[" ".join(job.row)]:
            refused[" ".join(job.row)].append(job.task)
    return kept, refused


def say_plan(
    board: Board,
    planned: Sequence[Job],
    kept: Sequence[Job],
    refused: dict[str, list[str]],
    folders: Sequence[Path],
) -> None:
    """Print what there is to do, what does not apply, and what it costs by earlier records."""
    trainings = {_training(job) for job in kept}
    print(f"Board {board.name}, definition {board.hash[:8]}:")
    counts = Counter(job.part for job in kept)
    for part, count in counts.items():
        print(f"  {count:6,} runs  {part}")
    print(f"  {len(kept):6,} runs in all, on {len(trainings):,} trainings")
    if refused:
        print(f"Not applicable, {len(planned) - len(kept):,} runs:")
    for row, tasks in refused.items():
        print(f"  {row} takes its ids from the task: not on {', '.join(tasks)}")
    known = [record for folder in folders if folder.is_dir() for record in files.records(folder)]
    steps = {task: _steps(task) for task in {job.task for job in kept}}
    spent = cost(kept, known, steps)
    if spent.unknown < len(kept):
        without = f"; without {spent.unknown:,} runs that no record tells of"
        print(
            f"About {spent.total:.1f} CPU hours: {spent.training:.1f} of training, "
            f"{spent.evaluation:.1f} of tests{without if spent.unknown else ''}."
        )
    else:
        print("No record tells what this costs: give folders that have some with --costs.")


def _steps(task: str) -> int:
    from posbench.composing.legality import node

    return int(node("task", task).training.steps)


def run(board: Board, kept: Sequence[Job], results_dir: Path) -> int:
    """Run what is not complete; 1 if something failed, each with its sentence and its command."""
    from omegaconf import OmegaConf

    from posbench.composing.building import build
    from posbench.composing.identity import identify
    from posbench.running.run import run as run_one

    failed: list[tuple[Job, str]] = []
    started = time.monotonic()
    for index, job in enumerate(kept, start=1):
        left = (time.monotonic() - started) / max(index - 1, 1) * (len(kept) - index + 1)
        where = f"{index:,} of {len(kept):,}, {left / 3600:.1f} h left, {len(failed)} failed"
        print(f"[{where}] ", end="")
        words = [*job.words, f"results_dir={results_dir}", f"definition={board.hash}"]
        try:
            cfg = hydra.compose("config", words, return_hydra_config=True)
            choices = dict(cfg.hydra.runtime.choices)
            with open_dict(cfg):
                del cfg["hydra"]
            identity = identify(cfg, choices)
            task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
            run_one(cfg, identity, task)
        except PosbenchError as error:
            print(f"posbench: {error}", file=sys.stderr, flush=True)
            failed.append((job, str(error)))
    print(f"{len(kept) - len(failed):,} done, {len(failed):,} failed.")
    for job, sentence in failed:
        print(f"  python -m posbench {' '.join(job.words)}\n    {sentence}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
