"""Records of a whole board that were never run: to see how pages bear its size, and nothing else.

    python tests/support/full_size.py FOLDER [SEEDS [BOARD]]    of 3 seeds and the main board

Scores fall with the length as 1 / (1 + (m / r)^k), where r and k are drawn by row, task and seed;
a few trainings learn nothing. The same arguments give the same records.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import making
import numpy as np
import yaml
from offered import CONF

from posbench.base.content_hash import content_hash
from posbench.config import board as definition
from posbench.config.board import Board, Rows
from posbench.config.board_rows import pairs
from posbench.config.methods import methods
from posbench.config.names import MethodName, Name
from posbench.core.row import Row, View
from posbench.records import published
from posbench.records.record import Record, RecordedCurve

LADDER = (16.0, 32.0, 64.0)
BINS = 10
CLASSES = {
    "_tuned": "tuned",
    "_search": "tuned",
    "_fine_tuned": "fine-tuned",
    "drope": "fine-tuned",
    "pose": "trained beyond",
    "_continued": "fine-tuned",
    "ceiling": "ceiling",
}
SAMPLED = ("random_positions", "random_positions_published", "shape", "cape", "random_floats")
SUPPLIED = ("abacus", "bipe", "coupling")
SAMPLES = 512


def records(board: Board, num_seeds: int = 3) -> Iterator[Record]:
    """A record for every row, task and seed, as many seeds as asked for at most."""
    made = set()
    for rows in board.parts.values():
        for task in rows.tasks or board.all_tasks:
            for name in _names(rows):
                for seed in rows.seeds[:num_seeds]:
                    key = (rows.protocol, task, name.label, seed)
                    if key not in made:
                        made.add(key)
                        yield _record(board, rows, name, task, seed)


def _names(rows: Rows) -> Iterator[MethodName]:
    called = {tuple(method[:2]): name for name, method in methods().items() if not method.model}
    named = dict(zip(pairs(rows), rows.methods, strict=False))
    for pair in pairs(rows):
        base, extension, changed = pair
        encoding, *model = base.split("-")
        name = named.get(pair) or called.get((encoding, extension), f"{base}+{extension}")
        settings = tuple(changed.split(", ")) if changed else ()
        yield MethodName(
            name=name,
            changed=settings,
            hash=content_hash([name, settings]),
            encoding=encoding,
            extension=extension,
            model=tuple(model),
        )


def _class(name: MethodName) -> str:
    if name.encoding in SAMPLED:
        return "trained beyond"
    if name.encoding in SUPPLIED:
        return "task-supplied ids"
    ends = [kind for end, kind in CLASSES.items() if name.extension.endswith(end)]
    return ends[-1] if ends else "zero-shot"


@functools.cache
def _config(group: str, name: str) -> dict[str, Any]:
    path = CONF / group / f"{name}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {key: value for key, value in content.items() if key != "defaults"}


def _drawn(*names: Any) -> np.random.Generator:
    return np.random.default_rng(int(content_hash(list(names)), 16))


def _record(board: Board, rows: Rows, name: MethodName, task: str, seed: int) -> Record:
    protocol = rows.protocol or board.protocol
    drawn = _drawn(name.label, task, seed, protocol)
    by_row, by_task = _drawn(name.label), _drawn(name.label, task)
    half = 1 + 10 ** by_row.uniform(-0.8, 0.7) * by_task.uniform(0.4, 1.6) * drawn.uniform(0.8, 1.2)
    steep = by_task.uniform(2, 6)
    learned = by_task.uniform() > 0.08 or drawn.uniform() > 0.5
    chance = {"passkey": 0.0625, "key_value_retrieval": 0.0625, "induction": 0.0625}.get(task, 1e-4)
    top = drawn.uniform(0.96, 1.0) if learned else drawn.uniform(0.0, 0.5)

    def score(multiple: float) -> float:
        reached = top * (1 + (1 / half) ** steep) / (1 + (multiple / half) ** steep)
        return round(max(chance, min(1.0, reached)) * SAMPLES) / SAMPLES

    multiples = [float(each) for each in board.multiples]
    for rung in LADDER:
        if score(multiples[-1]) >= 0.5:
            multiples.append(rung)
    trained = {"key_value_retrieval": 62, "in_context_language": 50}.get(task, 40)
    cpu = float(by_row.uniform(20, 90) * by_task.uniform(0.5, 2))

    def tested(multiple: float) -> Row:
        found, aggregated = score(multiple), multiple <= board.multiples[-1]
        lost = round(4 * (1 - found), 3)
        return making.row(multiple, found, aggregated, trained // 2, SAMPLES, chance, lost)

    share_of_weights = name.encoding, name.model, task, seed, protocol
    return Record(
        protocol=Name(name=protocol, hash=content_hash(protocol)),
        task=Name(name=task, hash=content_hash(task)),
        task_version=1,
        measure="sequence accuracy" if "language" not in task else "share explained",
        gate=0.95,
        method=name,
        method_class=_class(name),
        scale_policy="none",
        seed=seed,
        training=making.training(
            settings_hash=content_hash(share_of_weights),
            train_length=trained // 2,
            train_positions=trained,
            steps=2000,
            parameters=int(by_row.integers(98_000, 140_000)),
            curve=RecordedCurve(
                step=[1000, 2000], loss=[2.0, 0.5], validation_loss=[1.5, 0.4], score=[0.25, top]
            ),
            cpu_seconds=round(cpu, 1),
        ),
        solved_step=int(by_task.integers(4, 40)) * 50 if learned else None,
        rows=[tested(multiple) for multiple in multiples],
        views=tuple(_views(task, multiples[: len(board.multiples)], score, trained)),
        config={
            "task": _config("task", task).get("task", {}) | {"num_symbols": 16},
            "encoding": _config("encoding", name.encoding),
            "extension": _config("extension", name.extension),
            "evaluation": {"num_samples": SAMPLES},
            "model": {"width": 64, "num_heads": 4, "head_width": 32},
        },
        evaluated=making.evaluated(),
        command=f"python -m posbench task={task} method={name.name} seed={seed}",
        definition=board.hash,
    )


def _views(task: str, multiples: list[float], score: Any, trained: int) -> Iterator[View]:
    for multiple in multiples:
        by = "position" if "language" in task else "depth"
        edges = [k / BINS * (1 if by == "depth" else multiple) for k in range(BINS + 1)]
        places = (np.arange(BINS) + 0.5) / BINS
        near = [float(score(max(1.0, multiple * (1 - place)))) for place in places]
        lost = [round(3 * (1 - share), 3) for share in near]
        bins = zip(edges[:-1], edges[1:], [SAMPLES] * BINS, near, lost, strict=True)
        yield making.view(by, round(multiple * trained / 2), *bins)


def write(folder: Path, num_seeds: int = 3, name: str = "main") -> int:
    """Write the records of a board; returns how many they are."""
    found = list(records(definition.load(name), num_seeds))
    published.write(found, [], folder)
    return len(found)


if __name__ == "__main__":
    folder, *others = sys.argv[1:]
    count = write(Path(folder), int(others[0]) if others else 3, *others[1:])
    print(f"{count} records in {folder}")
