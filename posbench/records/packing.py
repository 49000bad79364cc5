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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from posbench.errors import PosbenchError
from posbench.provenance import content_hash
from posbench.records.record import Audit, Record
from posbench.records.row import Row, View

Json = dict[str, Any]

COUNTED = {
    "sequence_accuracy": "num_samples",
    "sequence_accuracy_without_end": "num_samples",
    "token_accuracy_teacher_forced": "num_tokens",
    "token_accuracy_within_trained_distance": "num_tokens_within",
    "token_accuracy_beyond_trained_distance": "num_tokens_beyond",
}
"""Shares of a row, and what they are shares of."""
DESIGN = (
    "test_length",
    "multiple",
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
"""The same of a view."""
ORIGIN = ("source_hash", "device", "commit", "versions")
"""Where the weights of a training, or the numbers of a test, come from."""
OMITTED: Json = {
    "carried_over": None,
    "ceiling": None,
    "diverged": None,
    "finetuning": None,
    "search": None,
    "views": None,
}
"""What a line leaves out where it is so."""


# -- numbers ---------------------------------------------------------------------------------------


def counted(share: float | None, total: int) -> float | int | None:
    """A share as the count that it stands for, an integer; as itself where there is none."""
    if share is None:
        return None
    count = round(share * total)
    return count if total and abs(count / total - share) < 6e-7 else _digits(share, 6)


def shared_out(count: float | int | None, total: int) -> float | None:
    """The share that `counted` has made a count of."""
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
    if line["search"] is not None:
        for trial in line["search"]["trials"]:
            trial["loss"] = _digits(trial["loss"], 4)
    if line["finetuning"] is not None:
        line["finetuning"]["curve"] = _packed_curve(line["finetuning"]["curve"])
    training = _with_origin(line["training"], shared)
    training["curve"] = _packed_curve(training["curve"])
    line["training"] = trainings.put(training)
    return {
        key: value for key, value in line.items() if key not in OMITTED or OMITTED[key] != value
    }


def _packed_rows(rows: list[Row], shared: Shelf) -> Json:
    found: Json = {"design": shared.put(_columns(rows, DESIGN))}
    for name, total in COUNTED.items():
        found[name] = [counted(getattr(row, name), getattr(row, total)) for row in rows]
    differs = any(row.score != row.sequence_accuracy for row in rows)
    found["score"] = [_digits(row.score, 6) for row in rows] if differs else None
    found["correct_prefix"] = [_digits(row.correct_prefix, 6) for row in rows]
    found["untrained"] = [_digits(row.untrained, 6) for row in rows]
    found["loss"] = _losses(row.loss for row in rows)
    return found


def _packed_views(views: Sequence[View], shared: Shelf) -> Json:
    return {
        "design": shared.put(_columns(views, ASKED)),
        "right": [
            [
                counted(share, total)
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


def _packed_curve(curve: Json) -> Json:
    return curve | {
        "loss": _losses(curve["loss"]),
        "validation_loss": _losses(curve["validation_loss"]),
        "score": [_digits(value, 6) for value in curve["score"]],
    }


def _with_origin(part: Json, shared: Shelf) -> Json:
    rest = {key: value for key, value in part.items() if key not in ORIGIN}
    return rest | {"origin": shared.put({key: part[key] for key in ORIGIN})}


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
        columns[name] = [shared_out(count, number) for count, number in pairs]
    if rows["score"] is None:
        columns["score"] = columns["sequence_accuracy"]
    return _as_rows(columns)


def _unpacked_views(views: Json, shared: Json) -> list[Json]:
    design = shared[views["design"]]
    shares = [
        [shared_out(count, total) for count, total in zip(counts, totals, strict=True)]
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


def pack(records: Iterable[Record]) -> dict[str, str]:
    """The files of these records, by their path inside a folder."""
    shared, trainings = Shelf(), Shelf()
    by_task: dict[str, list[tuple[Any, ...]]] = {}
    for record in records:
        order = (record.protocol.slug, record.method.slug, record.seed)
        line = packed(record, shared, trainings)
        by_task.setdefault(record.task.slug, []).append((*order, _text(line)))
    return {
        **{
            f"records/{task}.jsonl": _lines(text for *_, text in sorted(lines))
            for task, lines in by_task.items()
        },
        "trainings.jsonl": _shelved(trainings),
        "shared.jsonl": _shelved(shared),
    }


def _shelved(shelf: Shelf) -> str:
    parts = sorted(shelf.parts.items())
    return _lines(_text({"id": reference, "part": part}) for reference, part in parts)


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False)


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def unpack(folder: Path) -> Iterator[tuple[Path, int, Json]]:
    """The content of every published record of a folder, with the file and line where it stands."""
    paths = sorted(folder.glob("records/*.jsonl"))
    if not paths:
        return
    shared, trainings = (_shelf(folder / f"{name}.jsonl") for name in ("shared", "trainings"))
    for path in paths:
        for number, line in _read_lines(path):
            try:
                yield path, number, unpacked(line, shared, trainings)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise PosbenchError(
                    f"{path}, line {number} cannot be unpacked ({type(error).__name__}: {error}): "
                    "take the files of this folder from one commit"
                ) from None


def unpack_audits(folder: Path) -> Iterator[Json]:
    """The content of every published audit of a folder."""
    if (path := folder / "audits.jsonl").exists():
        yield from (line for _, line in _read_lines(path))


def pack_audits(audits: Iterable[Audit]) -> str:
    """The file of these audits."""
    return _lines(sorted(_text(audit.model_dump(mode="json")) for audit in audits))


def _shelf(path: Path) -> Json:
    return {line["id"]: line["part"] for _, line in _read_lines(path)}


def _read_lines(path: Path) -> Iterator[tuple[int, Json]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PosbenchError(f"{path} cannot be read ({error.strerror}): publish again") from None
    for number, line in enumerate(lines, start=1):
        try:
            yield number, json.loads(line)
        except ValueError as error:
            raise PosbenchError(
                f"{path}, line {number} is not JSON ({error}): take it from its commit again"
            ) from None


def comparable(record: Record) -> Json:
    """The numbers of a record as they are published: what two runs of one command must agree on."""
    shared = Shelf()
    return {
        "rows": _columns(record.rows, DESIGN) | _packed_rows(record.rows, shared),
        "views": [_columns(record.views, ASKED), _packed_views(record.views, shared)],
        "curve": _packed_curve(record.training.curve.model_dump()),
    }
