"""The panels of both pages, named as `posbench.loggers.wandb` names what it tells."""

from __future__ import annotations

from typing import Any

from posbench.errors import PosbenchError
from posbench.loggers import metrics


def reaching(wr: Any) -> list[Any]:
    multiple = metrics.tested("multiple")
    axis = {"x": multiple, "log_x": True, "title_x": "test length / training length"}
    seeds = {"groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
    return [
        wr.LinePlot(
            title="Score",
            y=[metrics.tested("score")],
            range_y=(0, 1),
            layout=_place(wr, 0, 0, 12),
            **axis,
            **seeds,
        ),
        wr.LinePlot(
            title="Loss", y=[metrics.tested("loss")], layout=_place(wr, 12, 0, 12), **axis, **seeds
        ),
        wr.BarPlot(title="Area, 1x to 8x", metrics=[metrics.AREA], layout=_place(wr, 0, 8, 8)),
        wr.BarPlot(title="Reach", metrics=[metrics.REACH], layout=_place(wr, 8, 8, 8)),
        wr.BarPlot(title="Score at 8x", metrics=[metrics.score_at(8)], layout=_place(wr, 16, 8, 8)),
    ]


def costing(wr: Any) -> list[Any]:
    return [
        wr.ScatterPlot(
            title="Area by CPU seconds of training",
            x=wr.SummaryMetric(metrics.TRAIN_SECONDS),
            y=wr.SummaryMetric(metrics.AREA),
            log_x=True,
            layout=_place(wr, 0, 0, 12),
        ),
        wr.BarPlot(
            title="Steps until solved", metrics=[metrics.SOLVED_STEP], layout=_place(wr, 12, 0, 12)
        ),
    ]


def placing(wr: Any) -> list[Any]:
    return [
        wr.MediaBrowser(
            title="Accuracy by depth", media_keys=[metrics.DEPTH_MAP], layout=_place(wr, 0, 0, 24)
        ),
        wr.WeavePanelSummaryTable(table_name=metrics.CELLS, layout=_place(wr, 0, 8, 24)),
    ]


def training(wr: Any) -> list[Any]:
    step = {"x": metrics.STEP, "title_x": "step"}
    return [
        wr.LinePlot(title=name, y=[name], layout=_place(wr, 8 * index, 0, 8), **step)
        for index, name in enumerate(metrics.CURVE)
    ]


def _place(wr: Any, x: int, y: int, width: int) -> Any:
    """A page is 24 wide."""
    return wr.Layout(x=x, y=y, w=width, h=8)


def library() -> tuple[Any, Any]:
    try:
        import wandb_workspaces.reports.v2 as wr
        import wandb_workspaces.workspaces as ws
    except ImportError:
        raise PosbenchError(
            "the dashboard needs a library: pip install 'posbench[dashboard]'"
        ) from None
    return ws, wr
