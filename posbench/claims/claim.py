"""What papers say, as a file states it before the runs: reads and refuses `claims.yaml`.

A claim says that one row scores higher than another, or than a number. `verdicts` says whether it
does. Nothing here imports torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from posbench.errors import PosbenchError

REACH, TRAINING_LENGTH = "reach", "training length"
ABOUT = (REACH, TRAINING_LENGTH)


@dataclass(frozen=True)
class Claim:
    """`of` scores higher than `over`, by more than `by`, in the mean over the multiples `at`.

    A side is an extension with settings as its row is labelled, "pi" or "pi (extension.scale=2)",
    on each of the `encodings`; "rope_short_base/direct" names the encoding itself; `over` may also
    be a number. Scores and `by` are shares, corrected for chance.

    A claim about the settings of a paper names `experiments` in place of tasks; those of the other
    side, where they differ, are `over_experiments`, in the same order.
    """

    claim: str
    source: str
    of: str
    over: str | float
    at: list[float]
    by: float = 0.0
    over_at: list[float] | None = None  # the same multiples if left out
    encodings: list[str] = field(default_factory=lambda: ["rope"])
    tasks: list[str] | None = None  # if left out, every task with its own settings
    experiments: list[str] | None = None  # of conf/experiment, in place of tasks
    over_experiments: list[str] | None = None  # the same experiments if left out
    paper: str | None = None  # whose claims are corrected together; if left out, see `family`
    about: str | None = None  # if left out, reach where a multiple is beyond 1x
    post_hoc: bool = False  # written after its records were seen
    remark: str = ""  # written after the runs: what explains the verdict

    @property
    def family(self) -> str:
        """The paper: `paper`, or the first source up to a semicolon, as its arXiv id if it has."""
        if self.paper:
            return self.paper
        first = self.source.partition(";")[0].strip()
        found = re.search(r"arXiv \d{4}\.\d{4,5}", first)
        return found[0] if found else first

    @property
    def places(self) -> list[str] | None:
        """Names of what both sides were run on; None for every task."""
        return self.experiments or self.tasks

    def place_of_over(self, place: str) -> str:
        """Where the other side of a place was run."""
        if self.experiments is None or self.over_experiments is None:
            return place
        return self.over_experiments[self.experiments.index(place)]

    @property
    def about_reach(self) -> bool:
        """Whether it speaks of lengths beyond training, so that its sides have to master 1x."""
        if self.about:
            return self.about == REACH
        return max([*self.at, *(self.over_at or [])]) > 1


def _text(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and value != [] and all(map(fits, value))


_multiples = _list_of(lambda value: _number(value) and value > 0)  # type: ignore[operator]

EXPECTED: dict[str, tuple[str, Callable[[object], bool]]] = {
    "claim": ("a sentence", _text),
    "source": ("where it is published", _text),
    "of": ("an extension with settings", _text),
    "over": ("an extension with settings, or a number", lambda v: _text(v) or _number(v)),
    "at": ("a list of multiples above 0", _multiples),
    "by": ("a number", _number),
    "over_at": ("a list of multiples above 0", _multiples),
    "encodings": ("a list of names of encodings", _list_of(_text)),
    "tasks": ("a list of tasks", _list_of(_text)),
    "experiments": ("a list of experiments", _list_of(_text)),
    "over_experiments": ("a list of experiments", _list_of(_text)),
    "paper": ("the name of a paper", _text),
    "about": (" or ".join(ABOUT), lambda value: value in ABOUT),
    "post_hoc": ("true or false", lambda value: isinstance(value, bool)),
    "remark": ("a text", lambda value: isinstance(value, str)),
}
"""What each field of an entry must be, in words and as a test."""


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file; PosbenchError names the entry, the field, its value and what fits."""
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise PosbenchError(f"{path} cannot be read: {reason}") from None
    if not isinstance(entries, list) or not entries:
        raise PosbenchError(f"{path} must be a list of claims, got {entries!r}")
    claims = [_claim(entry, f"{path}, entry {index}") for index, entry in enumerate(entries, 1)]
    said: dict[str, int] = {}
    for index, claim in enumerate(claims, 1):
        if (first := said.setdefault(claim.claim, index)) != index:
            raise PosbenchError(
                f"{path}, entry {index}: claim must be another than that of entry {first}, got "
                f"{claim.claim!r}"
            )
    return claims


def _claim(entry: Any, where: str) -> Claim:
    if not isinstance(entry, dict):
        raise PosbenchError(f"{where} must be a claim with its fields, got {entry!r}")
    for name, value in entry.items():
        if name not in EXPECTED:
            known = ", ".join(EXPECTED)
            raise PosbenchError(f"{where}: {name} must be one of {known}, got {name}: {value!r}")
        expected, fits = EXPECTED[name]
        if not fits(value):
            raise PosbenchError(f"{where}: {name} must be {expected}, got {value!r}")
    for each in fields(Claim):
        needed = each.default is MISSING and each.default_factory is MISSING
        if needed and each.name not in entry:
            raise PosbenchError(f"{where}: {each.name} must be {EXPECTED[each.name][0]}, got none")
    if "experiments" in entry and "tasks" in entry:
        raise PosbenchError(f"{where}: experiments have tasks of their own: leave out tasks")
    own, over = entry.get("experiments", []), entry.get("over_experiments", [])
    if over and len(over) != len(own):
        raise PosbenchError(
            f"{where}: over_experiments must be as many as experiments, {len(own)}, got {len(over)}"
        )
    return Claim(**entry)
