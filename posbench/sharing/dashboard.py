"""`posbench records dashboard`: the W&B Workspace and Report of a project, as code.

    posbench records dashboard                        both as JSON, in results/dashboard
    posbench records dashboard --entity ME --save     both at the server, for which you have a key

They show what `posbench.running.loggers.wandb` tells W&B of a run. Needs posbench[dashboard].
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from posbench.base.disk import write_whole, writing_to
from posbench.base.errors import PosbenchError
from posbench.config import command_lines
from posbench.config.exit_status import exit_status
from posbench.running.loggers import metrics

# -- A page as JSON --------------------------------------------------------------------------------


def as_json(made: Any) -> str:
    """The JSON that the library would send, with its random ids numbered as they come."""
    content = json.loads(made._to_model().model_dump_json(by_alias=True))
    found: dict[str, str] = {}
    return json.dumps(_numbered(content, found), indent=1, sort_keys=True) + "\n"


ID = re.compile(r"[0-9a-z]{7,14}")  # numbers in base 36, mostly of eleven digits


def _numbered(content: Any, found: dict[str, str], key: str = "") -> Any:
    if isinstance(content, dict):
        return {name: _numbered(value, found, name) for name, value in content.items()}
    if isinstance(content, list):
        return [_numbered(value, found, key) for value in content]
    if isinstance(content, str):
        if key.strip("_").lower().endswith("id") and ID.fullmatch(content):
            found.setdefault(content, f"id-{len(found)}")
        return found.get(content, content)
    return content


# -- the panels of both pages, with the names that posbench.running.loggers.wandb gives to values --


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


# -- the Workspace ---------------------------------------------------------------------------------


def workspace(project: str, entity: str) -> Any:
    ws, wr = library()
    return ws.Workspace(
        entity=entity,
        project=project,
        name="posbench",
        sections=[
            ws.Section(name="How far", panels=[*reaching(wr)], is_open=True),
            ws.Section(name="Cost", panels=[*costing(wr)], is_open=True),
            ws.Section(name="Where", panels=[*placing(wr)], is_open=True),
            ws.Section(name="Training", panels=[*training(wr)]),
        ],
        runset_settings=ws.RunsetSettings(groupby=[ws.Config(metrics.METHOD)]),
    )


# -- the Report ------------------------------------------------------------------------------------

TITLE = "posbench: how far position encodings go"
TEXT = (
    "Each line is a method, the mean over its seeds; the band is their standard error. Lengths are "
    "multiples of what was trained on, so 1 is the trained length. Filter by one task: scores of "
    "different tasks have no common mean here. Rows of different classes (zero-shot, tuned, "
    "fine-tuned) were given different things and are not compared with each other."
)


def report(project: str, entity: str) -> Any:
    _, wr = library()

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
            grid(reaching(wr)),
            wr.H1(text="Cost"),
            grid(costing(wr)),
            wr.H1(text="Where"),
            wr.P(text="Accuracy by test length and by where in the prompt the source is."),
            grid(placing(wr)),
            wr.H1(text="Training"),
            grid(training(wr)),
        ],
    )


# -- the command -----------------------------------------------------------------------------------

FOLDER = Path("results/dashboard")


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser(
        "posbench records dashboard", "The W&B pages of a project, as code."
    )
    help = "default: %(default)s"
    parser.add_argument("--project", default="posbench", help=help)
    parser.add_argument("--entity", default="", help="user or team whose project it is")
    parser.add_argument("--to", dest="folder", type=Path, default=FOLDER, help=help)
    parser.add_argument("--save", action="store_true", help="at the server; needs a key")
    chosen = parser.parse_args(arguments)

    def written() -> int:
        if chosen.save and not chosen.entity:
            raise PosbenchError("--save needs --entity: the user or team whose project it is")
        pages = {
            "workspace": workspace(chosen.project, chosen.entity),
            "report": report(chosen.project, chosen.entity),
        }
        with writing_to(chosen.folder):
            chosen.folder.mkdir(parents=True, exist_ok=True)
            for name, made in pages.items():
                path = chosen.folder / f"{name}.json"
                write_whole(path, as_json(made))
                print(f"Written: {path}")
        if chosen.save:
            for name, made in pages.items():
                print(f"Saved: the {name}, {_saved(made).url}")
        return 0

    return exit_status(written)


def _saved(made: Any) -> Any:
    try:
        return made.save()
    except Exception as error:  # the library passes on whatever its transport raises
        reason = " ".join(str(error).split())
        raise PosbenchError(
            f"W&B did not take it ({reason}): look at the key (`wandb login`), the entity and the "
            "network; the JSON is written"
        ) from None
