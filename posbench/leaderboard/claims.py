"""What papers say, compared with records: reads `claims.yaml` and records, writes `claims.md`.

`python -m posbench.claims FOLDER` reads FOLDER/claims.yaml, a list of claims written down before
the runs. Each says that one extension does better than another, or than a number, and the
verdict comes from the paired differences over seeds. The same records give the same bytes.
Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml  # type: ignore[import-untyped]

from posbench.errors import PosbenchError
from posbench.leaderboard.summaries import Estimate, number
from posbench.records import files
from posbench.records.record import labelled

VERDICTS = {
    "holds": "the whole 95 % interval lies above the margin",
    "contradicted": "the whole interval lies below the margin",
    "open": "the interval contains the margin",
    "not measured": "fewer than two seeds have both sides",
}


@dataclass(frozen=True)
class Claim:
    """`of` beats `over` by more than `by`, in mean score at the multiples `at`.

    A side is an extension with settings as its row is labelled, "pi" or "pi (extension.scale=2)",
    on each of the `encodings`; "rope_short_base/direct" names the encoding itself; `over` may also
    be a number. TypeError if a field has the wrong type.
    """

    claim: str
    source: str
    of: str
    over: str | float
    at: list[float]
    by: float = 0.0
    over_at: list[float] | None = None  # the same multiples if left out
    encodings: list[str] = field(default_factory=lambda: ["rope"])
    remark: str = ""  # written after the runs: what explains the verdict

    def __post_init__(self) -> None:
        def numbers(value: object) -> bool:
            return (
                isinstance(value, list)
                and value != []
                and all(type(each) in (int, float) for each in value)
            )

        for name, value, expected, fits in (
            ("of", self.of, "an extension", isinstance(self.of, str)),
            ("over", self.over, "an extension or a number", type(self.over) in (str, int, float)),
            ("by", self.by, "a number", type(self.by) in (int, float)),
            ("at", self.at, "a list of multiples", numbers(self.at)),
            (
                "over_at",
                self.over_at,
                "a list of multiples",
                self.over_at is None or numbers(self.over_at),
            ),
            ("encodings", self.encodings, "a list of encodings", isinstance(self.encodings, list)),
        ):
            if not fits:
                raise TypeError(f"{name} must be {expected}, got {value!r}")

    def difference(self, runs: pd.DataFrame, encoding: str) -> Estimate:
        """The difference between the two sides, over the seeds that have both.

        `runs` are the runs of one task.
        """
        left = _accuracy(runs, encoding, self.of, self.at)
        if isinstance(self.over, str):
            right = _accuracy(runs, encoding, self.over, self.over_at or self.at)
            return Estimate.over((left - right).dropna())
        return Estimate.over((left - self.over).dropna())

    def verdict(self, difference: Estimate) -> str:
        if not difference.half_width >= 0:  # also if it is NaN
            return "not measured"
        if difference.mean - difference.half_width > self.by:
            return "holds"
        return "contradicted" if difference.mean + difference.half_width < self.by else "open"


def _accuracy(runs: pd.DataFrame, encoding: str, side: str, multiples: list[float]) -> pd.Series:
    """Each seed's mean over the multiples, [seed]; NaN if one of them is missing."""
    own, _, extension = side.rpartition("/")
    mine = runs[(runs["encoding"] == (own or encoding)) & (runs["side"] == extension)]
    table = mine.pivot(index="seed", columns="multiple", values="score").reindex(columns=multiples)
    return table.mean(axis=1, skipna=False)


def table(folder: Path) -> pd.DataFrame:
    """One row per run and test length: protocol, task, encoding, side, seed, multiple, score.

    PosbenchError if the folder has no records.
    """
    rows: list[dict[str, Any]] = []
    for record in files.records(folder):
        run = {
            "protocol": record.protocol.label,
            "task": record.task.label,
            "task_changed": bool(record.task.changed),
            "encoding": record.method.base,
            "side": labelled(record.method.extension, record.method.changed),
            "seed": record.seed,
        }
        rows += [run | {"multiple": row.multiple, "score": row.score} for row in record.rows]
    if not rows:
        raise PosbenchError(f"no records in {folder}: run what its claims are about first")
    frame = pd.DataFrame(rows)
    return frame.drop_duplicates(
        ["protocol", "task", "encoding", "side", "seed", "multiple"], keep="last"
    )


def read(path: Path) -> list[Claim]:
    try:
        return [Claim(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise PosbenchError(
            f"{path} is not a list of claims ({reason}): see `Claim` in "
            "posbench/leaderboard/claims.py"
        ) from None


def markdown(claims: list[Claim], frame: pd.DataFrame) -> str:
    lines = [
        "# Claims",
        "",
        "Written down before the runs, in `claims.yaml`; remarks came afterwards. A difference is",
    ]
    lines += [
        "that of mean scores, paired over seeds, with its 95 % interval (Student's t).",
        "",
    ]
    lines += [f"- **{verdict}**: {meaning}." for verdict, meaning in VERDICTS.items()]
    for protocol, runs in frame.groupby("protocol"):
        lines += ["", f"## Protocol {protocol}", "", _counts(claims, runs)]
        for claim in claims:
            lines += ["", f"### {claim.claim}", "", *_stated(claim), "", *_found(claim, runs)]
            lines += ["", claim.remark.strip()] if claim.remark else []
    lines += [
        "",
        "Generated by `python -m posbench.claims` from the records beside it; do not edit.",
        "",
    ]
    return "\n".join(lines)


def _stated(claim: Claim) -> list[str]:
    over = f"`{claim.over}`" if isinstance(claim.over, str) else number(claim.over)
    if claim.over_at:
        over += f" at {_lengths(claim.over_at)}"
    margin = f" by more than {number(claim.by)}" if claim.by else ""
    return [f"`{claim.of}` at {_lengths(claim.at)} above {over}{margin}. Source: {claim.source}."]


def _lengths(multiples: list[float]) -> str:
    return ", ".join(f"{multiple:g}x" for multiple in multiples)


def _found(claim: Claim, runs: pd.DataFrame) -> list[str]:
    lines = ["| task | encoding | difference | verdict |", "| --- | --- | ---: | --- |"]
    for task, encoding, difference in _differences(claim, runs):
        lines.append(f"| {task} | {encoding} | {difference} | {claim.verdict(difference)} |")
    return lines


def _differences(claim: Claim, runs: pd.DataFrame) -> Iterator[tuple[str, str, Estimate]]:
    """The difference on every task and encoding.

    A task whose settings were changed, as its name then says, counts only if it has both sides.
    """
    for task, part in runs.groupby("task"):
        for encoding in claim.encodings:
            difference = claim.difference(part, encoding)
            if not part["task_changed"].any() or not pd.isna(difference.mean):
                yield str(task), encoding, difference


def _counts(claims: list[Claim], runs: pd.DataFrame) -> str:
    verdicts = [
        claim.verdict(found) for claim in claims for _, _, found in _differences(claim, runs)
    ]
    return ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in VERDICTS) + "."


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posbench.claims", description="What papers say, against records."
    )
    parser.add_argument("folder", type=Path, help="with claims.yaml and records")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if regenerating changes the file"
    )
    chosen = parser.parse_args(arguments)
    path = chosen.folder / "claims.md"
    try:
        text = markdown(read(chosen.folder / "claims.yaml"), table(chosen.folder))
        if chosen.check and not (path.exists() and path.read_bytes() == text.encode()):
            raise PosbenchError(
                f"regenerating changes {path}: run `python -m posbench.claims {chosen.folder}`"
            )
        if not chosen.check:
            path.write_bytes(text.encode())
    except (PosbenchError, OSError) as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1
    emit(f"{path}: up to date." if chosen.check else f"Written: {path}")
    return 0
