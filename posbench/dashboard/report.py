"""The Report: the panels of the Workspace, with what has to be known to read them."""

from __future__ import annotations

from typing import Any

from posbench.dashboard import panels
from posbench.loggers import metrics

TITLE = "posbench: how far position encodings go"
TEXT = (
    "Each line is a method, the mean over its seeds; the band is their standard error. Lengths are "
    "multiples of what was trained on, so 1 is the trained length. Filter by one task: scores of "
    "different tasks have no common mean here. Rows of different classes (zero-shot, tuned, "
    "fine-tuned) were given different things and are not compared with each other."
)


def report(project: str, entity: str) -> Any:
    _, wr = panels.library()

    def grid(shown: list[Any]) -> Any:
        runs = wr.Runset(project=project, name="by method", groupby=[f"config.{metrics.METHOD}"])
        return wr.PanelGrid(runsets=[runs], panels=shown)

    return wr.Report(
        project=project,
        entity=entity,
        title=TITLE,
        description="Accuracy beyond the trained length, and what it cost",
        blocks=[
            wr.P(text=TEXT),
            wr.H1(text="How far"),
            grid(panels.reaching(wr)),
            wr.H1(text="Cost"),
            grid(panels.costing(wr)),
            wr.H1(text="Where"),
            wr.P(text="Accuracy by test length and by where in the prompt the source stands."),
            grid(panels.placing(wr)),
            wr.H1(text="Training"),
            grid(panels.training(wr)),
        ],
    )
