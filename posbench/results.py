"""Records: one small JSON file a run, written when the run is complete, and the table of all of
them.

`python -m posbench.results publish` copies chosen records from your own results to the published
ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from posbench.errors import PosbenchError

SCHEMA = 2
LOCAL = Path("results/local")
PUBLISHED = Path("results/published")
Record = dict[str, Any]

PLAIN = {"_target_": "posbench.extensions.direct.Direct"}
"""The content of the default extension."""

PARTS = (
    "protocol",
    "task",
    "method",
    "seed",
    "training",
    "rows",
    "config",
    "provenance",
    "timings",
)
COLUMNS = {
    "protocol": "str",
    "protocol_hash": "str",
    "task": "str",
    "task_hash": "str",
    "task_version": "int64",
    "measure": "str",  # what the score is
    "method": "str",
    "method_hash": "str",
    "plain": "bool",  # the encoding as it was trained, without an extension
    "class": "str",
    "seed": "int64",
    "train_length": "int64",
    "train_positions": "int64",
    "training_hash": "str",  # of what the weights depend on: runs that share it share them
    "parameters": "int64",
    "solved": "bool",
    "solved_step": "float64",  # NaN where training never reached it
    "train_cpu_seconds": "float64",
    "train_gpu_seconds": "float64",
    "source_hash": "str",
    "test_length": "int64",
    "multiple": "float64",
    "aggregated": "bool",
    "total_length": "int64",
    "num_samples": "int64",
    "score": "float64",
    "sequence_accuracy": "float64",
    "sequence_accuracy_without_end": "float64",
    "correct_prefix": "float64",
    "token_accuracy_teacher_forced": "float64",
    "token_accuracy_within_trained_distance": "float64",  # NaN where a test has no such tokens
    "token_accuracy_beyond_trained_distance": "float64",
    "loss": "float64",
    "chance": "float64",
    "untrained": "float64",  # NaN where the encoding has no parameters
}
"""Of the long table, with their types."""


ACCURACIES = (
    "score",
    "sequence_accuracy",
    "sequence_accuracy_without_end",
    "correct_prefix",
    "token_accuracy_teacher_forced",
)
"""Of the columns, those that are 0 where nothing is right."""


def record_path(results_dir: str | Path, protocol: str, task: str, method: str, seed: int) -> Path:
    return Path(results_dir) / "records" / protocol / task / method / f"seed={seed}.json"


def audit_path(record: Path) -> Path:
    """Where the audit of the run with that record is kept: like `record_path`, under audits/."""
    records = record.parents[3]
    return records.parent / "audits" / record.relative_to(records)


def audits(results_dir: str | Path) -> list[Record]:
    """The audits of a results folder that were made of its records as they are."""
    found = []
    for path in sorted(Path(results_dir).glob("records/**/seed=*.json")):
        if (beside := audit_path(path)).exists():
            audit, provenance = (
                json.loads(beside.read_text(encoding="utf-8")),
                read(path)["provenance"],
            )
            if all(audit[key] == provenance.get(key) for key in ("source_hash", "evaluation_hash")):
                found.append(audit)
    return found


def finite(value: Any) -> Any:
    """The value with null for every number in it that is none, which JSON cannot hold: a loss may
    overflow at a length far beyond training. A score that follows from such a loss is 0.
    """
    if isinstance(value, dict):
        changed = {key: finite(each) for key, each in value.items()}
        return changed | {"score": 0.0} if changed.get("score", 0.0) is None else changed
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(record: Record, path: Path) -> None:
    """Write atomically: a record is either complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path) -> Record:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PosbenchError(
            f"{path} is not a readable record ({error}): delete it and repeat the run"
        ) from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else None
        raise PosbenchError(
            f"{path} has record schema {found}, this version reads {SCHEMA}: repeat the run with "
            "force=true"
        )
    if missing := [part for part in PARTS if part not in record]:
        raise PosbenchError(f"{path} lacks {', '.join(missing)}: delete it and repeat the run")
    return record


def records(results_dir: str | Path) -> list[Record]:
    """All records of a results folder, in the order of their paths."""
    return [read(path) for path in sorted(Path(results_dir).glob("records/**/seed=*.json"))]


def load(results_dir: str | Path = LOCAL) -> pd.DataFrame:
    """The long table of all records: one row a (run, test length)."""
    return table(records(results_dir))


def table(found: Iterable[Record]) -> pd.DataFrame:
    rows = []
    for record in found:
        training = record["training"]
        run = {
            "protocol": record["protocol"]["label"],
            "protocol_hash": record["protocol"]["hash"],
            "task": record["task"]["label"],
            "task_hash": record["task"]["hash"],
            "task_version": record["task"]["version"],
            "measure": record["task"]["measure"],
            "method": record["method"]["label"],
            "method_hash": record["method"]["hash"],
            "plain": record["config"]["extension"] == PLAIN,
            "class": record["method"]["class"],
            "seed": record["seed"],
            "train_length": training["train_length"],
            "train_positions": training["train_positions"],
            "training_hash": training["hash"],
            "parameters": training["parameters"],
            "solved": training["solved"],
            "solved_step": training["solved_step"],
            "train_cpu_seconds": cpu_seconds(record),
            "train_gpu_seconds": gpu_seconds(record),
            "source_hash": record["provenance"]["source_hash"],
        }
        rows += [run | row for row in record["rows"]]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def views(found: Iterable[Record]) -> pd.DataFrame:
    """The second long table: one row a run, test length and bin of what tokens are told apart
    by.
    """
    rows = []
    for record in found:
        run = {
            "protocol_hash": record["protocol"]["hash"],
            "task_hash": record["task"]["hash"],
            "task_version": record["task"]["version"],
            "method_hash": record["method"]["hash"],
            "seed": record["seed"],
        }
        for view in record.get("cells", []):
            where = {"test_length": view["test_length"], "by": view["by"]}
            bins = zip(*(view[name] for name in BINNED), strict=True)
            rows += [run | where | dict(zip(BINNED, values, strict=True)) for values in bins]
    # As in the first table, the last record of a run that is there twice counts.
    return pd.DataFrame(rows, columns=[*VIEWED, *BINNED]).drop_duplicates(
        [*VIEWED, "above"], keep="last"
    )


def choices(found: Iterable[Record]) -> pd.DataFrame:
    """The third: one row a run that had settings to choose from, those of an extension or learning
    rates.
    """
    rows = []
    for record in found:
        chosen = dict((record.get("search") or {}).get("chosen", {}))
        if record["training"].get("learning_rates"):
            chosen["learning_rate"] = record["training"]["learning_rate"]
        elif not record.get("search"):
            continue
        rows.append(
            {
                "protocol_hash": record["protocol"]["hash"],
                "task_hash": record["task"]["hash"],
                "task_version": record["task"]["version"],
                "method_hash": record["method"]["hash"],
                "seed": record["seed"],
                "chosen": chosen,
            }
        )
    return pd.DataFrame(rows, columns=[*CHOSEN, "chosen"]).drop_duplicates(CHOSEN, keep="last")


CHOSEN = ["protocol_hash", "task_hash", "task_version", "method_hash", "seed"]
VIEWED = (*CHOSEN, "test_length", "by")
BINNED = ("above", "up_to", "num_tokens", "token_accuracy_teacher_forced", "loss")


def cpu_seconds(record: Record) -> float:
    """What was spent before the test: the shared training, and the further training or search of
    this row.
    """
    timings = record["timings"]
    search = timings["preparation_cpu_seconds"] if record.get("search") else 0.0
    return float(
        timings["train_cpu_seconds"] + timings.get("further_training_cpu_seconds", 0.0) + search
    )


def gpu_seconds(record: Record) -> float:
    """What the shared training, and no other, held a GPU for; 0 where it was trained on a CPU."""
    return float(record["timings"].get("train_gpu_seconds", 0.0))


def publish(source: Path, target: Path, protocol: str, task: str, method: str) -> int:
    """Copy the matching records; returns how many. Patterns are those of file names (`*`, `?`)."""
    found = sorted(source.glob(f"records/{protocol}/{task}/{method}/seed=*.json"))
    for path in found:
        read(path)  # refuse to publish what cannot be read
    for path in [*found, *(audit for record in found if (audit := audit_path(record)).exists())]:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m posbench.results", description="Keep records.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "publish", help="copy records from your own results to the published ones"
    )
    command.add_argument(
        "--from", dest="source", type=Path, default=LOCAL, help="default: %(default)s"
    )
    command.add_argument(
        "--to", dest="target", type=Path, default=PUBLISHED, help="default: %(default)s"
    )
    command.add_argument("--protocol", default="cpu", help="name or pattern, default: %(default)s")
    command.add_argument("--task", default="*", help="name or pattern, default: all")
    command.add_argument("--method", default="*", help="name or pattern, default: all")
    chosen = parser.parse_args(arguments)
    try:
        count = publish(chosen.source, chosen.target, chosen.protocol, chosen.task, chosen.method)
    except PosbenchError as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1
    pattern = f"protocol {chosen.protocol}, task {chosen.task}, method {chosen.method}"
    if not count:
        print(f"posbench: no record of {pattern} in {chosen.source}: run it first", file=sys.stderr)
        return 1
    print(f"Copied {count} records ({pattern}) to {chosen.target}.")
    print(f"Bring the published board up to date: python -m posbench.leaderboard {chosen.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
