"""Published records: a line a run, and what many runs share in files of its own.

    records/<task>.jsonl   a line a run, sorted: its names, its numbers, and references
    trainings.jsonl        a line a training: its curve, cost and origin
    shared.jsonl           a line a part that lines refer to: settings, designs of tests, origins
    audits.jsonl           a line an audit

A reference is the hash of what it stands for. Shares are kept as counts and so are exact; losses
have four significant digits, other numbers six. The same records give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.config.provenance import without_places
from posbench.core.row import Row, View
from posbench.core.settings import without_off
from posbench.records.record import SCHEMA, Audit, Origin, Record

Json = dict[str, Any]
Shelves = tuple[Json, Json]
"""Parts and trainings that lines refer to, by their references."""

AUDITS = "audits.jsonl"
COUNTED = {
    "sequence_accuracy": "num_samples",
    "sequence_accuracy_without_end": "num_samples",
    "token_accuracy_teacher_forced": "num_tokens",
    "token_accuracy_within_trained_distance": "num_tokens_within",
    "token_accuracy_beyond_trained_distance": "num_tokens_beyond",
}
"""Shares of a row, and what they are shares of."""
SAME = {"score": "sequence_accuracy", "proficiency": "score"}
"""Measures that most tasks have from another, in the order in which they follow."""
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
ASKED = ("test_length", "by", "above", "up_to", "num_tokens")
"""Columns of a view that say what was asked."""
REPEATED = (
    "settings_hash",
    "train_length",
    "train_positions",
    "learning_rate",
    "learning_rates",
    "steps",
    "parameters",
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
CAME_OUT = ("ceiling", "diverged", "finetuning", "search", "solved_step", "views")
"""Parts of what is compared that are numbers of the run alone."""
LARGEST = 2**24
"""Bytes of a record, and characters of a line: what is larger is something else."""
MOST = 2**30
"""Bytes of a file of lines."""
HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON writes the halves of a character, of which one alone is none."""
OMITTED: Json = {
    "accepted": None,
    "carried_over": None,
    "ceiling": None,
    "diverged": None,
    "finetuning": None,
    "search": None,
    "views": None,
}
"""What a line leaves out where it is so."""


# -- numbers ---------------------------------------------------------------------------------------


def as_count(share: float | None, total: int) -> float | int | None:
    """A share as the count that it stands for, an integer; as itself where there is none."""
    if share is None:
        return None
    count = round(share * total)
    return count if total and abs(count / total - share) < 6e-7 else _digits(share, 6)


def as_share(count: float | int | None, total: int) -> float | None:
    """The share that `as_count` has made a count of."""
    return count / total if isinstance(count, int) else count


def _digits(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _losses(values: Iterable[float | None]) -> list[float | None]:
    return [_digits(value, 4) for value in values]


# -- one record ------------------------------------------------------------------------------------


class Shelf:
    """Parts by their hash, each once."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}

    def put(self, part: Any) -> str:
        reference = content_hash(part)
        self.parts[reference] = part
        return reference


def packed(record: Record, shared: Shelf, trainings: Shelf) -> Json:
    """The line of a record; what it shares with others goes onto the shelves."""
    line = record.as_json()
    line["protocol"], line["task"] = shared.put(line["protocol"]), shared.put(line["task"])
    line["config"] = {name: shared.put(part) for name, part in line["config"].items()}
    line["rows"] = _packed_rows(record.rows, shared)
    line["views"] = _packed_views(record.views, shared) if record.views else None
    line["evaluated"] = _with_origin(line["evaluated"], shared)
    line["search"] = _packed_search(line["search"])
    line["finetuning"] = _packed_finetuning(line["finetuning"])
    line["training"] = trainings.put(_packed_training(line["training"], shared))
    return {
        key: value for key, value in line.items() if key not in OMITTED or OMITTED[key] != value
    }


def _packed_rows(rows: list[Row], shared: Shelf) -> Json:
    found: Json = {"design": shared.put(_columns(rows, DESIGN))} | _measures(rows)
    for name, other in SAME.items():
        if all(getattr(row, name) == getattr(row, other) for row in rows):
            found[name] = None
    return found


def _measures(rows: list[Row]) -> Json:
    found: Json = {
        name: [as_count(getattr(row, name), getattr(row, total)) for row in rows]
        for name, total in COUNTED.items()
    }
    for name in ("score", "proficiency", "correct_prefix", "untrained"):
        found[name] = [_digits(getattr(row, name), 6) for row in rows]
    found["loss"] = _losses(row.loss for row in rows)
    return found


def _packed_views(views: Sequence[View], shared: Shelf) -> Json:
    return {"design": shared.put(_columns(views, ASKED))} | _measures_of_views(views)


def _measures_of_views(views: Sequence[View]) -> Json:
    return {
        "right": [
            [
                as_count(share, total)
                for share, total in zip(
                    view.token_accuracy_teacher_forced, view.num_tokens, strict=True
                )
            ]
            for view in views
        ],
        "loss": [_losses(view.loss) for view in views],
    }


def _columns(parts: Sequence[Any], names: Iterable[str]) -> Json:
    return {name: [getattr(part, name) for part in parts] for name in names}


def _packed_search(search: Json | None) -> Json | None:
    return search and search | {"trials": _rounded(search["trials"])}


def _packed_finetuning(finetuning: Json | None) -> Json | None:
    return finetuning and finetuning | {"curve": _packed_curve(finetuning["curve"])}


def _packed_training(training: Json, shared: Shelf) -> Json:
    rates = training["learning_rates"]
    if training["replicas"] == 1:  # so that what is published stays as it is
        training = {name: value for name, value in training.items() if name != "replicas"}
    return _with_origin(training, shared) | {
        "curve": _packed_curve(training["curve"]),
        "learning_rates": rates and _rounded(rates),
    }


def _rounded(tried: list[Json]) -> list[Json]:
    """What was tried, each with its loss."""
    return [each | {"loss": _digits(each["loss"], 4)} for each in tried]


def _packed_curve(curve: Json) -> Json:
    return curve | {
        "loss": _losses(curve["loss"]),
        "validation_loss": _losses(curve["validation_loss"]),
        "score": [_digits(value, 6) for value in curve["score"]],
    }


def _with_origin(part: Json, shared: Shelf) -> Json:
    rest = {key: value for key, value in part.items() if key not in Origin.model_fields}
    origin = {key: part[key] for key in Origin.model_fields}
    # So that what is published stays as it is.
    if origin["cpu"] is None:
        del origin["cpu"]
    if origin["threads"] in (None, 1):
        del origin["threads"]
    return rest | {"origin": shared.put(origin)}


# -- and back --------------------------------------------------------------------------------------


def unpacked(line: Json, shared: Json, trainings: Json) -> Json:
    """The content of the record that a line stands for; KeyError names a part that is not there."""
    found = OMITTED | line
    training = trainings[line["training"]]
    return found | {
        "protocol": shared[line["protocol"]],
        "task": shared[line["task"]],
        "config": {name: shared[reference] for name, reference in line["config"].items()},
        "rows": _unpacked_rows(line["rows"], shared),
        "views": _unpacked_views(found["views"], shared) if found["views"] else [],
        "evaluated": _without_origin(line["evaluated"], shared),
        "training": _without_origin(training, shared),
    }


def _unpacked_rows(rows: Json, shared: Json) -> list[Json]:
    columns = shared[rows["design"]] | {
        name: values for name, values in rows.items() if name != "design"
    }
    for name, total in COUNTED.items():
        pairs = zip(rows[name], columns[total], strict=True)
        columns[name] = [as_share(count, number) for count, number in pairs]
    for name, other in SAME.items():
        if rows[name] is None:
            columns[name] = columns[other]
    return _as_rows(columns)


def _unpacked_views(views: Json, shared: Json) -> list[Json]:
    design = shared[views["design"]]
    shares = [
        [as_share(count, total) for count, total in zip(counts, totals, strict=True)]
        for counts, totals in zip(views["right"], design["num_tokens"], strict=True)
    ]
    return _as_rows(design | {"token_accuracy_teacher_forced": shares, "loss": views["loss"]})


def _as_rows(columns: Json) -> list[Json]:
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _without_origin(part: Json, shared: Json) -> Json:
    rest = {key: value for key, value in part.items() if key != "origin"}
    return rest | shared[part["origin"]]


# -- files -----------------------------------------------------------------------------------------


def pack(records: Iterable[Record], audits: Sequence[Audit] = ()) -> dict[str, str]:
    """The files of these records and audits, by their path inside a folder."""
    shared, trainings = Shelf(), Shelf()
    by_task: dict[str, list[tuple[Any, ...]]] = {}
    for record in records:
        order = (record.protocol.slug, record.method.slug, record.seed)
        line = packed(record, shared, trainings)
        by_task.setdefault(record.task.slug, []).append((*order, _text(line)))
    contents = {
        f"records/{task}.jsonl": _lines(text for *_, text in sorted(lines))
        for task, lines in by_task.items()
    } | {"trainings.jsonl": _shelved(trainings), "shared.jsonl": _shelved(shared)}
    if audits:
        contents[AUDITS] = _lines(sorted(_text(each.model_dump(mode="json")) for each in audits))
    return contents


def _shelved(shelf: Shelf) -> str:
    parts = sorted(shelf.parts.items())
    return _lines(_text({"id": reference, "part": part}) for reference, part in parts)


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False)


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def record_of(text: str, where: str, shelves: Shelves) -> Json:
    """The content of the record that stands in a line; PosbenchError says what is wrong with it."""
    line = content_of(text, where)
    refuse_another_schema(line, where)
    try:
        return unpacked(line, *shelves)
    except KeyError as error:
        reason = f"{error.args[0]} is not there"
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        reason = str(error)
    raise PosbenchError(
        f"{where} cannot be unpacked ({reason}): take all files of the folder from one commit"
    )


def refuse_another_schema(content: Any, where: str) -> None:
    """Say what to do about a record of an older or a newer posbench; `where` names it."""
    names = ("schema_version", "schema")  # the second before 3
    known = [content[name] for name in names if isinstance(content, dict) and name in content]
    schema = known[0] if known else None
    if schema == SCHEMA:
        return
    newer = isinstance(schema, int) and schema > SCHEMA
    advice = "upgrade posbench" if newer else "repeat the run with force=true"
    raise PosbenchError(
        f"{where} has record schema {schema}, this version reads {SCHEMA}: {advice}"
    )


def shelves(folder: Path) -> Shelves:
    """What the lines of a folder refer to; without one part of it no line is safe."""
    return _shelf(folder / "shared.jsonl"), _shelf(folder / "trainings.jsonl")


def _shelf(path: Path) -> Json:
    found: Json = {}
    for where, text in lines_of(path):
        line = content_of(text, where)
        if not {"id", "part"} <= line.keys():
            raise PosbenchError(f"{where} holds no id and part: take it from its commit again")
        if content_hash(line["part"]) != line["id"]:
            raise PosbenchError(
                f"{where} was changed: its id is not the hash of its part, so take it from its "
                "commit again"
            )
        found[line["id"]] = line["part"]
    return found


def lines_of(path: Path) -> list[tuple[str, str]]:
    """The lines of a file, each after the place where it stands."""
    try:
        # Not splitlines: a text of JSON may hold what Unicode calls the end of a line.
        text = read_text(path, MOST)
        lines = text.removesuffix("\n").split("\n") if text else []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PosbenchError(
            f"{path} cannot be read ({reason}): take all files of the folder from one commit"
        ) from None
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, start=1)]


def parsed(text: str) -> Any:
    """The content of a text of JSON; ValueError where it is none, or none that can be held."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if HALF.search(text):  # of a pair, or alone, which no file can hold
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise ValueError(f"{half} is half a character") from None
    return found


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def content_of(text: str, where: str) -> Json:
    """The JSON object that stands in a line."""
    try:
        if len(text) > LARGEST:
            raise ValueError(f"{len(text):,} characters are more than a record has")
        content = parsed(text)
    except ValueError as error:
        raise PosbenchError(
            f"{where} is not JSON ({error}): take it from its commit again"
        ) from None
    if not isinstance(content, dict):
        raise PosbenchError(f"{where} is not a JSON object: take it from its commit again")
    return content


def comparable(record: Record) -> Json:
    """What two runs by one command must agree on: what the record is called, the settings that it
    says it was made with, and its numbers as they are published.
    """
    content = record.as_json()
    design = _columns(record.rows, DESIGN)
    # That of sort is a convolution, whose last digit depends on the kernel that OpenBLAS chooses.
    design["chance"] = [_digits(value, 6) for value in design["chance"]]
    training = _packed_training(content["training"], Shelf())
    finetuning, ceiling = _packed_finetuning(content["finetuning"]), content["ceiling"]
    said = {name: value for name, value in content.items() if name not in OF_ONE_RUN}
    return said | {
        "config": _settings(content["config"]),
        "rows": design | _measures(record.rows),
        "views": _columns(record.views, ASKED) | _measures_of_views(record.views),
        "training": {name: training[name] for name in REPEATED},
        "search": _packed_search(content["search"]),
        "finetuning": finetuning and {name: finetuning[name] for name in REFINED},
        "ceiling": ceiling and [{name: each[name] for name in RETRAINED} for each in ceiling],
    }


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
    if settings.get("stop_at") is not None:
        came_out |= {"steps"}
    if content["training"]["learning_rates"] is not None:
        came_out |= {"learning_rate", "learning_rates"}
    training = {name: each for name, each in content["training"].items() if name not in came_out}
    return {name: part for name, part in content.items() if name not in CAME_OUT} | {
        "training": training,
        "rows": {name: [rows[name][place] for place in places] for name in DESIGN},
        "counting": [n for n, counts in zip(tested, counting, strict=True) if counts],
    }


def _settings(config: Json) -> Json:
    """Each class by its name alone, wherever its module stands, and nothing that is off."""
    model = config.get("model")
    if isinstance(model, dict):
        config = config | {"model": without_off(model)}
    found: Json = without_places(config)
    return found
