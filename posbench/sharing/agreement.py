"""What two runs by one command must agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from posbench.config.provenance import without_places
from posbench.core.row import Row, View
from posbench.core.settings import without_off
from posbench.records.record import Record
from posbench.records.rounding import Json, digits, rounded

DESIGN = (
    "test_length",
    "multiple",
    "true_multiple",
    "aggregated",
    "total_length",
    "test_positions",
    "num_samples",
    "num_tokens",
    "num_tokens_within",
    "num_tokens_beyond",
    "chance",
)
"""Columns of a row that say what was asked, the same for all methods."""
REPEATED = (
    "settings_hash",
    "train_length",
    "train_positions",
    "learning_rate",
    "learning_rates",
    "steps",
    "parameters",
    "multiplications",
    "curve",
)
"""What two trainings by one command have in common, whatever code and machine they were made on."""
REFINED = ("steps", "lengths", "curve")
"""What is shared of a training that went on with an extension."""
RETRAINED = ("test_length", "learning_rate", "steps")
"""What is shared of the trainings of a ceiling."""
OF_ONE_RUN = ("accepted", "carried_over", "definition", "evaluated")
"""What two runs by one command may differ in: the code and the machine of the test, for which board
it was made, and who has repeated it.
"""
CAME_OUT = ("by_text", "ceiling", "diverged", "finetuning", "search", "solved_step", "views")
"""Parts of what is compared that are numbers of the run alone."""


def comparable(record: Record) -> Json:
    """What two runs by one command must agree on: what the record is called, the settings that it
    says it was made with, and its numbers as they are published.
    """
    content = rounded(record)
    rows = _columns(content["rows"], Row.model_fields)
    # That of sort is a convolution, whose last digit depends on the kernel that OpenBLAS chooses.
    rows["chance"] = [digits(value, 6) for value in rows["chance"]]
    finetuning, ceiling = content["finetuning"], content["ceiling"]
    said = {name: value for name, value in content.items() if name not in OF_ONE_RUN}
    return said | {
        "config": _settings(content["config"]),
        "rows": rows,
        "views": _columns(content["views"], View.model_fields),
        "training": _chosen(content["training"], REPEATED),
        "finetuning": finetuning and _chosen(finetuning, REFINED),
        "ceiling": ceiling and [_chosen(each, RETRAINED) for each in ceiling],
    }


def _columns(parts: Iterable[Json], names: Iterable[str]) -> Json:
    return {name: [part[name] for part in parts] for name in names}


def _chosen(part: Json, names: Iterable[str]) -> Json:
    return {name: part[name] for name in names if name in part}


def _settings(config: Json) -> Json:
    """Each class by its name alone, wherever its module is, and nothing that is off."""
    model = config.get("model")
    if isinstance(model, dict):
        config = config | {"model": without_off(model)}
    found: Json = without_places(config)
    return found


def stated(content: Json, lengths: Iterable[int]) -> Json:
    """The part of what `comparable` returns that no rounding changes: names, settings, counts, the
    lengths that enter means, and what was asked at `lengths`. Other lengths are left out because a
    ladder goes on by its scores. So are steps where training may end early, and a learning rate
    that was chosen by its loss.
    """
    rows, kept = content["rows"], set(lengths)
    tested, counting = rows["test_length"], rows["aggregated"]
    places = [place for place, length in enumerate(tested) if length in kept]
    settings = content["config"].get("training", {})
    came_out = {"curve"}
    if settings.get("stop_at") is not None or settings.get("until") is not None:
        came_out |= {"steps"}
    if content["training"]["learning_rates"] is not None:
        came_out |= {"learning_rate", "learning_rates"}
    training = {name: each for name, each in content["training"].items() if name not in came_out}
    return {name: part for name, part in content.items() if name not in CAME_OUT} | {
        "training": training,
        "rows": {name: [rows[name][place] for place in places] for name in DESIGN},
        "counting": [n for n, counts in zip(tested, counting, strict=True) if counts],
    }


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """All that is not the same, each by its place: "rows.loss.3: 0.12 was 0.13"."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{where}.{index}")
    elif old != new:
        yield f"{where}: {new} was {old}"
