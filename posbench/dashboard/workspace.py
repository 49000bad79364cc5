"""The Workspace: how far, at what cost, how it was trained, and every cell."""

from __future__ import annotations

from typing import Any

from posbench.dashboard import panels
from posbench.loggers import metrics


def workspace(project: str, entity: str) -> Any:
    ws, wr = panels.library()
    return ws.Workspace(
        entity=entity,
        project=project,
        name="posbench",
        sections=[
            ws.Section(name="How far", panels=[*panels.reaching(wr)], is_open=True),
            ws.Section(name="Cost", panels=[*panels.costing(wr)], is_open=True),
            ws.Section(name="Where", panels=[*panels.placing(wr)], is_open=True),
            ws.Section(name="Training", panels=[*panels.training(wr)]),
        ],
        runset_settings=ws.RunsetSettings(groupby=[ws.Config(metrics.METHOD)]),
    )
