"""Records of schema 2, one JSON file a run, as records of today.

Names and hashes are those that the record's command has today; numbers stay as they are. Schema 2
did not say how many tokens a test asks for: they are counted on the test sequences, which only the
settings and the seed decide. The hashes of source stay as well. No code of today has them, so such
records count as made by earlier code until `verify --restamp` has repeated a sample.
"""

from __future__ import annotations

import functools
import json
import shlex
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from omegaconf import OmegaConf, open_dict

from posbench.composing.building import build
from posbench.composing.identity import Identity, identify
from posbench.encoding import EncodingStack
from posbench.errors import PosbenchError
from posbench.evaluation import Evaluation, distances
from posbench.provenance import content_hash, without_places
from posbench.records.record import Audit, Record
from posbench.running.setup import Setup

COMMAND = "python -m posbench "
Json = dict[str, Any]


def migrated(old: Json) -> Record:
    """The record of today with the numbers of one of schema 2.

    PosbenchError, if the command of the record asks for other settings today.
    """
    identity, setup = _composed(old["provenance"]["command"])
    _refuse_other_settings(old, setup)
    training, origin, timings = old["training"], old["provenance"], old["timings"]
    chosen = setup.config.training.candidates
    settings = next(
        (each for each in chosen if each.learning_rate == training.get("learning_rate")), chosen[0]
    )
    stack = EncodingStack(setup.encodings(), len(setup.specifications))
    evaluated = origin.get("evaluated") or {
        key: origin[key] for key in ("commit", "versions", "device")
    }
    return Record.model_validate(
        {
            "protocol": identity.protocol,
            "task": identity.task,
            "task_version": old["task"]["version"],
            "measure": old["task"]["measure"],
            "method": identity.method,
            "method_class": old["method"]["class"],
            "scale_policy": old["method"].get("scale_policy", setup.extension.scale_policy),
            "seed": old["seed"],
            "training": {
                "settings_hash": content_hash(setup.training_settings(settings)),
                "source_hash": origin["source_hash"],
                "train_length": training["train_length"],
                "train_positions": training["train_positions"],
                "learning_rate": settings.learning_rate,
                "learning_rates": training.get("learning_rates"),
                "steps": training.get("steps", settings.total_steps),
                "parameters": training["parameters"],
                "curve": _curve(training["curve"]),
                "device": origin["device"],
                "commit": origin["commit"],
                "versions": origin["versions"],
                "cpu_seconds": timings["train_cpu_seconds"],
                "wall_seconds": timings["train_wall_seconds"],
            },
            "solved_step": training["solved_step"],
            "search": _search(old.get("search")),
            "finetuning": _finetuning(old.get("finetuning")),
            "ceiling": _ceiling(old.get("ceiling")),
            "rows": [_row(row, setup, stack, bool(old.get("ceiling"))) for row in old["rows"]],
            "views": old["cells"],
            "config": setup.settings,
            "evaluated": {
                **evaluated,
                "source_hash": origin.get("evaluation_hash", ""),
                "preparation_cpu_seconds": timings.get("preparation_cpu_seconds", 0.0),
                "further_training_cpu_seconds": timings.get("further_training_cpu_seconds", 0.0),
                "evaluation_cpu_seconds": timings["evaluation_cpu_seconds"],
            },
            "command": identity.command,
            "diverged": old.get("diverged"),
        }
    )


@functools.cache
def _composed(command: str) -> tuple[Identity, Setup]:
    words = shlex.split(command.removeprefix(COMMAND))
    cfg = hydra.compose("config", words, return_hydra_config=True)
    choices = dict(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
    return identify(cfg, choices), Setup(cfg, task)


def _refuse_other_settings(old: Json, setup: Setup) -> None:
    then, now = (without_places(config) for config in (old["config"], setup.settings))
    then["model"].pop("rotary_share", None)  # now a setting of the one encoding that reads it
    for section in then:
        if section != "extension" and then[section] != now[section]:
            raise PosbenchError(
                f"{old['provenance']['command']} asks for other settings of {section} today: "
                f"{now[section]}, not {then[section]}"
            )


def _row(row: Json, setup: Setup, stack: EncodingStack, ceiling: bool) -> Json:
    n = row["test_length"]
    train_length = n if ceiling else setup.train_length
    asked = (
        (0, 0, 0)
        if not row["num_samples"]
        else _asked(setup.evaluation, n, row["num_samples"], train_length)
    )
    counts = dict(zip(("num_tokens", "num_tokens_within", "num_tokens_beyond"), asked, strict=True))
    lacking = {
        "test_positions": stack.span(setup.task.num_positions(n)),
        "sequence_accuracy_without_end": row["sequence_accuracy"],
        "correct_prefix": row["sequence_accuracy"],
        "token_accuracy_within_trained_distance": None,
        "token_accuracy_beyond_trained_distance": None,
        "loss": None,
        "untrained": None,
        "score": row["sequence_accuracy"],
    }
    return lacking | row | counts


def _asked(
    evaluation: Evaluation, n: int, num_samples: int, train_length: int
) -> tuple[int, int, int]:
    """Tokens that the test asks for: all, and those within and beyond the trained distance."""
    batch = evaluation.batch(n, num_samples)
    relative = distances(batch) / evaluation.task.max_distance(train_length)
    within = int(np.sum((relative >= 0) & (relative <= 1)))
    return len(relative), within, int(np.sum(relative > 1))


def _curve(points: list[Json]) -> Json:
    names = ("step", "loss", "validation_loss", "score")
    return {name: [point[name] for point in points] for name in names}


def _search(old: Json | None) -> Json | None:
    if old is None:
        return None
    return {key: old[key] for key in ("length", "num_samples", "trials")}


def _finetuning(old: Json | None) -> Json | None:
    return None if old is None else old | {"curve": _curve(old["curve"])}


def _ceiling(old: list[Json] | None) -> list[Json] | None:
    if old is None:
        return None
    kept = ("test_length", "learning_rate", "steps", "cpu_seconds")
    return [{key: each[key] for key in kept} | {"hash": each["checkpoint"]} for each in old]


def migrated_audit(old: Json, record: Record) -> Audit:
    """The audit of that record."""
    names = ("protocol", "task", "method", "seed", "source_hash", "evaluation_hash")
    return Audit.model_validate(
        dict(zip(names, Audit.key_of(record), strict=True)) | {"rows": old["rows"]}
    )


def read_old(path: Path) -> Json:
    """The content of a file of schema 2."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("schema") != 2:
        raise PosbenchError(f"{path} is no record of schema 2: it has {content.get('schema')}")
    return content
