"""`posbench records zoo`: trained weights in one file, which others need not train again.

    posbench records zoo pack served.safetensors --board served   those of a board
    posbench records zoo list results/zoo                         what a file or folder has

A run finds a training in results/zoo as it finds one of its own; the setting zoo= names another
file or folder, and zoo= alone none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from posbench.base.disk import damaged, noted, writing_to
from posbench.base.errors import PosbenchError, first_mistake
from posbench.base.wording import counted, printable
from posbench.config.command_lines import Parser
from posbench.config.compose import composing
from posbench.config.constructors import source_of_size
from posbench.config.exit_status import exit_status
from posbench.records.files import LOCAL
from posbench.running.checkpoints import CONTENT, FINISHED, WEIGHTS
from posbench.running.resuming import loaded
from posbench.running.scores import CHECKPOINTS
from posbench.running.zoo import SUFFIX, Kept, Zoo, write, zoos
from posbench.sweeping.plan import plan
from posbench.sweeping.requests import request


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="posbench records zoo", description="Trained weights, for others.")
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack", help="put the trainings of a board into a file")
    pack.set_defaults(carry_out=_pack)
    pack.add_argument("target", type=Path, help=f"the file to write, NAME{SUFFIX}")
    pack.add_argument("--board", required=True, help="whose trainings")
    help = "default: %(default)s"
    pack.add_argument("--from", dest="source", type=Path, default=LOCAL, help=help)
    shown = commands.add_parser("list", help="what a file has, or each file of a folder")
    shown.set_defaults(carry_out=_list)
    shown.add_argument("source", type=Path, nargs="?", default=Path("results/zoo"), help=help)
    chosen = parser.parse_args(arguments)
    return exit_status(lambda: chosen.carry_out(chosen))


def _pack(chosen: argparse.Namespace) -> int:
    if chosen.target.suffix != SUFFIX:
        raise PosbenchError(f"{chosen.target} is no name of a zoo: let it end in {SUFFIX}")
    asked = _trainings_of(chosen.board)
    found: dict[str, tuple[Kept, dict[str, torch.Tensor]]] = {}
    for key in asked:
        folder = chosen.source / CHECKPOINTS / key
        if (folder / FINISHED).exists():
            found[key] = _finished(folder)
    if not found:
        raise PosbenchError(
            f"{chosen.source} has none of the {counted(len(asked), 'training')} of board "
            f"{chosen.board}: make them first, with `posbench sweep board={chosen.board}`"
        )
    with writing_to(chosen.target.parent):
        write(found, chosen.target)
    size = chosen.target.stat().st_size / 1e6
    print(
        f"Written: {chosen.target}, {size:.1f} MB, with {len(found)} of "
        f"{counted(len(asked), 'training')} of board {chosen.board}."
    )
    return 0


def _trainings_of(board: str) -> list[str]:
    """The hashes of all trainings of a board, each once."""
    with composing():
        planned = plan(request([f"board={board}"]))
        runs = {run.training: run for run in (*planned.complete, *planned.runs)}
        return [key for run in runs.values() for key in run.spec.training_hashes]


def _finished(folder: Path) -> tuple[Kept, dict[str, torch.Tensor]]:
    """A training that is complete; Unreadable where it is damaged."""
    content, log = (noted(folder / name) for name in (CONTENT, FINISHED))
    try:
        said = Kept.model_validate({"content": content, "log": log})
    except ValidationError as error:
        raise damaged(folder, first_mistake(error)) from None
    return said, loaded(folder / WEIGHTS)


def _list(chosen: argparse.Namespace) -> int:
    found = zoos(chosen.source)
    if not found:
        raise PosbenchError(
            f"{chosen.source} has no zoo: name a file that ends in {SUFFIX}, or its folder"
        )
    for zoo in found:
        for line in _lines(zoo):
            print(printable(line))
    return 0


def _lines(zoo: Zoo) -> Iterator[str]:
    trainings = zoo.trainings
    yield f"{zoo.path}: {counted(len(trainings), 'training')}"
    lines = []
    for key, each in trainings.items():
        task, encoding = _called(each.content["task"][0]), _called(each.content["encoding"])
        steps = each.log.curve.step[-1] if each.log.curve.step else 0
        seed = f"seed {each.content['seed']}, {steps:,} steps"
        lines.append(
            (task, encoding, seed, f"  {key}  {encoding} on {task}, {seed}, made on {each.made_on}")
        )
    yield from (line for *_, line in sorted(lines))


def _called(node: Mapping[str, Any]) -> str:
    """A class with its settings that are no sizes of the model, by which trainings differ."""
    shown = [
        f"{name}={value}"
        for name, value in node.items()
        if not name.startswith("_") and source_of_size(name) is None
    ]
    return f"{node['_target_']}({', '.join(shown)})" if shown else str(node["_target_"])
