"""The metrics of a run by the names that dashboards know them by, and what they group runs by."""

from __future__ import annotations

METHOD = "method"
"""What runs are grouped by, so that seeds are drawn as one line with its spread."""
STEP = "trainer/global_step"
"""What Lightning's logger of W&B calls the step of a training."""
CURVE = ("train/loss", "validation/loss", "validation/score")
"""Metrics of a training, drawn against its step; `posbench.training` logs them."""
LENGTH = "test/length"
CELLS, DEPTH_MAP = "cells", "depth_map"
"""All that was measured, as a table; the accuracy by length and depth, as a picture."""
AREA, REACH, SOLVED_STEP, TRAIN_SECONDS = "area", "reach", "solved_step", "train_cpu_seconds"
"""Values of a summary."""


def tested(column: str) -> str:
    """A column of the tests: "test/score"."""
    return f"test/{column}"


def summarised(name: str) -> str:
    """A value of the summary, for libraries that keep it among the metrics: "summary/area"."""
    return f"summary/{name}"


def score_at(multiple: float) -> str:
    """The score at a multiple, in a summary: "score_8x"."""
    return f"score_{multiple:g}x"
