"""What a training leaves behind besides its weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

import torch
from pydantic import Field

from posbench.config import provenance
from posbench.config.names import MOST_TEXTS, Text
from posbench.core.row import Part
from posbench.records.record import RecordedCurve, Seconds


class Log(Part):
    """What a training leaves behind besides its weights."""

    curve: RecordedCurve
    cpu_seconds: Seconds
    wall_seconds: Seconds
    device: Text
    cpu: Text | None = None  # its kind; none: the log is older than this field
    # Of torch; none: the log is older than this field.
    threads: int | None = Field(default=None, ge=1)
    commit: Text | None
    versions: Annotated[dict[Text, Text], Field(max_length=MOST_TEXTS)]
    replicas: int = Field(default=1, ge=1)  # trainings that were made in step, this one among them

    @classmethod
    def of(
        cls,
        points: list[dict[str, float]],
        cpu_seconds: float,
        wall_seconds: float,
        device: str,
        replicas: int = 1,
    ) -> Self:
        """The log of a training that has just ended."""
        curve = {name: [point[name] for point in points] for name in RecordedCurve.model_fields}
        return cls(
            curve=RecordedCurve.model_validate(curve),
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
            device=device,
            cpu=provenance.cpu(),
            threads=torch.get_num_threads(),
            commit=provenance.commit(),
            versions=provenance.versions(),
            replicas=replicas,
        )

    def points(self) -> Iterator[dict[str, float]]:
        """The curve, validation by validation."""
        columns = dict(self.curve)
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
