"""What papers say, as a file states it before the runs: reads and refuses `claims.yaml`.

A claim says that one row scores higher than another, or than a number. `verdicts` says whether it
does. Nothing here imports torch.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml  # type: ignore[import-untyped]
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError, place_and_reason
from posbench.base.wording import printable
from posbench.config.folders import own_names
from posbench.config.yaml_text import loaded

# -- one side of a claim, as its file writes it and as records name its row ------------------------


class Side(NamedTuple):
    """A row that a claim compares: "pi", "pi (extension.scale=2)" or "rope_short_base/direct"."""

    encoding: str  # "" for each of the claim's encodings
    extension: str
    changed: str  # settings that differ from the row's own; "" if none do

    @classmethod
    def of(cls, text: object) -> Side:
        """Parse a side; ValueError if it is no text, or empty."""
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise ValueError("not an extension")
        row, _, settings = text.partition(" (")
        encoding, _, extension = row.rpartition("/")
        return cls(encoding, extension, settings.removesuffix(")"))

    @property
    def label(self) -> str:
        """The side without its encoding."""
        return f"{self.extension} ({self.changed})" if self.changed else self.extension

    def __str__(self) -> str:
        return f"{self.encoding}/{self.label}" if self.encoding else self.label


# -- a claim ---------------------------------------------------------------------------------------

Text = Annotated[str, Field(pattern=r"\S"), AfterValidator(printable)]
Row = Annotated[Side, PlainValidator(Side.of)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Multiple = Annotated[Number, Field(gt=0)]
Names = Annotated[list[Text], Field(min_length=1)]
Multiples = Annotated[list[Multiple], Field(min_length=1)]


class Claim(BaseModel):
    """`of` scores higher than `over`, by more than `by`, in the mean over the multiples `at`.

    A side is an extension with settings as its row is labelled, "pi" or "pi (extension.scale=2)",
    on each of the `encodings`; "rope_short_base/direct" names the encoding itself; `over` may also
    be a number. Scores and `by` are shares, corrected for chance.

    A claim about the settings of a paper names `experiments` in place of tasks; those of the other
    side, where they differ, are `over_experiments`, in the same order. Descriptions of the fields
    say what must be there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    claim: Text = Field(description="a sentence")
    source: Text = Field(description="where it is published")
    of: Row = Field(description="an extension with settings")
    over: Row | Number = Field(description="an extension with settings, or a number")
    at: Multiples = Field(description="a list of multiples above 0")
    by: Number = Field(0.0, description="a number")
    # The same multiples if left out:
    over_at: Multiples | None = Field(None, description="a list of multiples above 0")
    encodings: Names = Field(["rope"], description="a list of names of encodings")
    # If left out, every task with its own settings:
    tasks: Names | None = Field(None, description="a list of tasks")
    # Names in conf/experiment, in place of tasks:
    experiments: Names | None = Field(None, description="a list of experiments")
    # The same experiments if left out:
    over_experiments: Names | None = Field(None, description="a list of experiments")
    # The paper whose claims are corrected together; if left out, see `family`:
    paper: Text | None = Field(None, description="the name of a paper")
    # If left out, reach where a multiple is beyond 1x:
    about: Literal["reach", "training length"] | None = Field(
        None, description="reach or training length"
    )
    # Whether it was written after its records were seen:
    post_hoc: bool = Field(False, description="true or false")
    # Written after the runs: what explains the verdict.
    remark: Annotated[str, AfterValidator(printable)] = Field("", description="a text")

    @model_validator(mode="after")
    def _fits(self) -> Claim:
        if self.experiments and self.tasks:
            raise ValueError("experiments have tasks of their own: leave out tasks")
        own, over = self.experiments or [], self.over_experiments or []
        for name in ("encodings", "tasks", "experiments"):
            values = getattr(self, name) or []
            if len(set(values)) < len(values):
                raise ValueError(f"{name} names one of them twice, which counts its pairs twice")
        sides = [side for side in (self.of, self.over) if isinstance(side, Side)]
        if len(self.encodings) > 1 and all(side.encoding for side in sides):
            raise ValueError(
                "every side names its own encoding, and would count once for each of encodings: "
                "leave that out"
            )
        if over and len(over) != len(own):
            raise ValueError(
                f"over_experiments must be as many as experiments, {len(own)}, got {len(over)}"
            )
        if unknown := sorted({*own, *over}.difference(own_names("experiment"))):
            raise ValueError(
                f"there is no experiment {unknown[0]!r}: name a file of conf/experiment, without "
                ".yaml"
            )
        return self

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
            return self.about == "reach"
        return max([*self.at, *(self.over_at or [])]) > 1


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file; PosbenchError names the entry, the field, its value and what fits."""
    try:
        entries = loaded(read_text(path))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise PosbenchError(f"{path} cannot be read: {reason}") from None
    if not isinstance(entries, list) or not entries:
        raise PosbenchError(f"{path} must be a list of claims, got {_short(entries)}")
    claims = [_claim(entry, f"{path}, entry {index}") for index, entry in enumerate(entries, 1)]
    said: dict[str, int] = {}
    for index, claim in enumerate(claims, 1):
        if (first := said.setdefault(claim.claim, index)) != index:
            raise PosbenchError(
                f"{path}, entry {index}: claim must be another than that of entry {first}, got "
                f"{claim.claim!r}"
            )
    return claims


def _short(value: Any) -> str:
    return textwrap.shorten(repr(value), 200, placeholder=" ...")


def _claim(entry: Any, where: str) -> Claim:
    if not isinstance(entry, dict):
        raise PosbenchError(f"{where} must be a claim with its fields, got {_short(entry)}")
    for name, value in entry.items():
        if name not in Claim.model_fields:
            known = ", ".join(Claim.model_fields)
            raise PosbenchError(f"{where}: {name} must be one of {known}, got {name}: {value!r}")
    try:
        return Claim.model_validate(entry)
    except ValidationError as error:
        place, reason = place_and_reason(error)
    if not place:
        raise PosbenchError(f"{where}: {reason}")
    name = place.partition(".")[0]
    expected = Claim.model_fields[name].description
    got = repr(entry[name]) if name in entry else "none"
    raise PosbenchError(f"{where}: {name} must be {expected}, got {got}")
