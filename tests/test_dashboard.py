"""The W&B pages as code, and the picture of them that needs no server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import pytest
from boards import with_views

from posbench.running.loggers import metrics
from posbench.running.loggers import metrics as told
from posbench.sharing.dashboard.command import _to_preview, as_json, main, report, workspace
from posbench.sharing.dashboard.preview import KINDS, preview

DATA = Path(__file__).parent / "data" / "dashboard"


@pytest.mark.parametrize("page", [workspace, report])
def test_a_page_is_what_it_was(page: Callable[[str, str], Any]) -> None:
    """Bring the snapshot up to date with `python -m posbench.dashboard --to tests/data/dashboard`,
    and look at the difference.
    """
    pytest.importorskip("wandb_workspaces")
    made = as_json(page("posbench", ""))
    assert made == (DATA / f"{page.__name__}.json").read_text()


def test_pages_name_only_what_is_logged() -> None:
    """A panel of a metric that nothing logs would stay empty, and nobody would say so."""
    logged = {metrics.tested(each) for each in told.TESTED} | {*metrics.CURVE, metrics.STEP}
    logged |= {*told.summary(making.record(accuracies={1: 1.0, 8: 0.5})), "cells", "depth_map"}
    for page in ("workspace", "report"):
        text = (DATA / f"{page}.json").read_text()
        named = set(re.findall(r'"((?:test|train|validation|trainer)/\w+)"', text))
        named |= set(re.findall(r'"summary:(\w+)', text))
        assert len(named) > 5 and named <= logged
        assert '"method' in text, "runs are grouped by it"


def test_random_ids_are_numbered_wherever_they_stand() -> None:
    class Page:
        def __init__(self, random: str) -> None:
            self.random = random

        def _to_model(self) -> Page:
            return self

        def model_dump_json(self, by_alias: bool) -> str:
            node = {"__id__": self.random, "then": [{"viewId": self.random}], "name": "x"}
            return json.dumps(node)

    one, other = (as_json(Page(random)) for random in ("a1b2c3d4e5f6", "zz00zz00zz00"))
    assert one == other and one.count('"id-0"') == 2


def test_a_server_is_asked_for_nothing_without_an_entity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--to", str(tmp_path), "--save"]) == 1
    assert "--save needs --entity" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_preview_draws_the_panels_of_the_workspace_from_what_runs_are_told() -> None:
    workspace = json.loads((DATA / "workspace.json").read_text())
    sections = workspace["spec"]["section"]["panelBankConfig"]["sections"]
    panels = [panel for section in sections for panel in section["panels"]]
    assert {panel["viewType"] for panel in panels} == set(KINDS)
    mine = [each for each in with_views() if each.task.label == "copy"]
    figure = preview(workspace, mine)
    titles = [panel["config"].get("chartTitle") or "" for panel in panels]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    by_title = dict(zip(titles, figure.axes, strict=True))
    lines = {line.get_label(): line for line in by_title["Score"].lines}
    assert list(lines["rope"].get_xdata()) == [1, 2, 8]
    assert list(lines["rope"].get_ydata()) == pytest.approx([1.0, 0.85, 0.1]), (
        "the mean of two seeds"
    )
    widths = [bar.get_width() for bar in by_title["Score at 8x"].patches]
    assert widths == pytest.approx([0.6, 0.1]), "alibi and rope"
    areas = [told.summary(each)["area"] for each in mine if each.method.label == "rope"]
    dots = by_title["Area by CPU seconds of training"].lines
    assert len(dots) == 2 and dots[1].get_ydata()[0] == pytest.approx(sum(areas) / 2)


def test_a_preview_of_nothing_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces")
    making.save(tmp_path / "results", *with_views())
    words = ["--to", str(tmp_path / "to"), "--preview", str(tmp_path / "results"), "--task"]
    assert main([*words, "passkey"]) == 1
    assert "has no records of task=passkey: name another with --task" in capsys.readouterr().err
    nowhere = str(tmp_path / "nowhere")
    assert main(["--to", str(tmp_path / "to"), "--preview", nowhere]) == 1
    assert f"no records in {nowhere}: name a folder of results" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()
    assert main([*words, "copy"]) == 0
    assert (tmp_path / "to/workspace.png").read_bytes().startswith(b"\x89PNG")


def test_a_preview_mixes_no_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("wandb_workspaces")
    of_cpu = [making.record(seed=seed) for seed in (0, 1)]
    making.save(tmp_path / "results", *of_cpu, making.record(protocol="gpu"))
    words = ["--to", str(tmp_path / "to"), "--preview", str(tmp_path / "results"), "--task", "copy"]
    assert main([*words, "--protocol", "cuda"]) == 1
    assert capsys.readouterr().err.endswith("choose one of cpu, gpu with --protocol\n")
    for more, shown in (([], {"cpu"}), (["--protocol", "gpu"], {"gpu"})):
        drawn = _to_preview(tmp_path / "results", "copy", more[1] if more else None)
        assert {record.protocol.label for record in drawn} == shown
        assert main([*words, *more]) == 0
        said = "Drawn: cpu, which has most records of copy; --protocol draws gpu."
        assert (said in capsys.readouterr().out) == (not more)
