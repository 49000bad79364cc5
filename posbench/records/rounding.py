"""Numbers as they are published: shares are exact, losses have four digits, other measures six."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from posbench.records.record import Record

Json = dict[str, Any]

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


def rounded(record: Record) -> Json:
    """The content of a record as it is published; rounding that again changes nothing."""
    content = record.as_json()
    training, tuned, search = (content[name] for name in ("training", "finetuning", "search"))
    _round_rows(content["rows"])
    for view in content["views"]:
        shares = zip(view["token_accuracy_teacher_forced"], view["num_tokens"], strict=True)
        view["token_accuracy_teacher_forced"] = [as_share(*pair) for pair in shares]
        view["loss"] = _losses(view["loss"])
    for test in content.get("by_text", {"tests": ()})["tests"]:
        test["nats"] = [digits(value, 6) for value in test["nats"]]
    for curve in (training["curve"], *([tuned["curve"]] if tuned else [])):
        curve["loss"] = _losses(curve["loss"])
        curve["validation_loss"] = _losses(curve["validation_loss"])
        curve["score"] = [digits(value, 6) for value in curve["score"]]
    for tried in (*(training["learning_rates"] or ()), *(search["trials"] if search else ())):
        tried["loss"] = digits(tried["loss"], 4)
    return content


def _round_rows(rows: list[Json]) -> None:
    follows = {name: all(row[name] == row[other] for row in rows) for name, other in SAME.items()}
    for row in rows:
        for name, total in COUNTED.items():
            row[name] = as_share(row[name], row[total])
        for name, other in SAME.items():
            row[name] = row[other] if follows[name] else digits(row[name], 6)
        row["correct_prefix"] = digits(row["correct_prefix"], 6)
        row["untrained"] = digits(row["untrained"], 6)
        row["loss"] = digits(row["loss"], 4)


def as_share(share: float | None, total: int) -> float | None:
    """A share of a total as the count over the total that it is, to six digits if it is none."""
    if share is None:
        return None
    short = float(f"{share:.6g}")
    if not total:
        return short
    exact = round(share * total) / total
    # What is near to it with six digits alone would be read back as that count.
    return exact if min(abs(exact - share), abs(exact - short)) < 6e-7 else short


def digits(value: float | None, most: int) -> float | None:
    """The number with so many significant digits."""
    return None if value is None else float(f"{value:.{most}g}")


def _losses(values: Iterable[float | None]) -> list[float | None]:
    return [digits(value, 4) for value in values]
