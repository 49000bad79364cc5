"""What leaves the house: the W&B pages as code, a data set, a static site, figures, a notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import making
import pandas as pd
import pytest

from posbench import dashboard, results
from posbench.errors import PosbenchError
from posbench.loggers import metrics, told
from posbench.loggers.preview import KINDS, preview
from posbench.records import tables
from posbench.records.record import Record
from posbench.results.command import main as results_command
from posbench.statistics.estimates import Estimate

DATA = Path(__file__).parent / "data" / "dashboard"
NOTEBOOK = Path(__file__).parent.parent / "results" / "explore.ipynb"


def found() -> list[Record]:
    """Two methods, two tasks, two seeds, with views."""
    made = [
        making.plain(
            making.record(method, {1: 1.0, 2: 0.9 - 0.1 * seed, 8: worst}, seed=seed, task=task)
        )
        for method, worst in (("rope", 0.1), ("alibi", 0.6))
        for task in ("copy", "sort")
        for seed in (0, 1)
    ]
    halves = making.view("depth", 10, (0, 0.5, 8, 0.5, 1), (0.5, 1, 8, 0.1, 1))
    return [making.changed(each, {"views": [halves]}) for each in made]


# -- the W&B pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["workspace", "report"])
def test_a_page_is_what_it_was(page: str) -> None:
    """Bring the snapshot up to date with `python -m posbench.dashboard --to tests/data/dashboard`,
    and look at the difference.
    """
    pytest.importorskip("wandb_workspaces")
    made = dashboard.as_json(getattr(dashboard, page)("posbench", ""))
    assert made == (DATA / f"{page}.json").read_text()


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

    one, other = (dashboard.as_json(Page(random)) for random in ("a1b2c3d4e5f6", "zz00zz00zz00"))
    assert one == other and one.count('"id-0"') == 2


def test_a_server_is_asked_for_nothing_without_an_entity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dashboard.main(["--to", str(tmp_path), "--save"]) == 1
    assert "--save needs --entity" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_preview_draws_the_panels_of_the_workspace_from_what_runs_are_told() -> None:
    workspace = json.loads((DATA / "workspace.json").read_text())
    sections = workspace["spec"]["section"]["panelBankConfig"]["sections"]
    panels = [panel for section in sections for panel in section["panels"]]
    assert {panel["viewType"] for panel in panels} == set(KINDS)
    mine = [each for each in found() if each.task.label == "copy"]
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
    making.save(tmp_path / "results", *found())
    words = ["--to", str(tmp_path / "to"), "--preview", str(tmp_path / "results"), "--task"]
    assert dashboard.main([*words, "passkey"]) == 1
    assert "has no records of task=passkey: name another with --task" in capsys.readouterr().err
    assert dashboard.main([*words, "copy"]) == 0
    assert (tmp_path / "to/workspace.png").read_bytes().startswith(b"\x89PNG")


# -- a data set and a site -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("export")
    making.save(folder / "local", *found())
    words = ["export", "--from", str(folder / "local")]
    assert results_command([*words, str(folder / "out")]) == 0
    assert results_command([*words, str(folder / "again")]) == 0
    return folder


def test_parquet_holds_the_long_table(exported: Path) -> None:
    read = pd.read_parquet(exported / "out/dataset/data/cells.parquet")
    pd.testing.assert_frame_equal(read, results.load(exported / "local"), check_dtype=False)
    assert len(pd.read_parquet(exported / "out/dataset/data/views.parquet")) == 16


def test_the_card_names_every_file_and_every_column(exported: Path) -> None:
    import yaml

    card = (exported / "out/dataset/README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    files = {
        path.relative_to(exported / "out/dataset").as_posix()
        for path in (exported / "out/dataset/data").iterdir()
    }
    assert {each["data_files"] for each in front["configs"]} == files
    assert front["size_categories"] == ["n<1K"] and front["license"] == "apache-2.0"
    assert all(f"| `{name}` |" in card for name in tables.COLUMNS)
    assert "8 runs, 2 methods, 2 tasks, 2 seeds" in card


def test_the_site_is_whole(exported: Path) -> None:
    site = exported / "out/site"
    page = (site / "index.html").read_text()
    assert "<html" in page and "alibi" in page and (site / ".nojekyll").exists()
    assert (site / "README.md").read_text().startswith("---\ntitle: posbench\n")
    for link in re.findall(r'(?:href|src)="([^"#:]+)"', page):
        assert (site / link).exists(), link


def test_the_same_records_give_the_same_bytes(exported: Path) -> None:
    for path in (exported / "out").rglob("*"):
        if path.is_file():
            other = exported / "again" / path.relative_to(exported / "out")
            assert path.read_bytes() == other.read_bytes(), path.name


def test_there_must_be_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results_command(["export", str(tmp_path / "out"), "--from", str(tmp_path)]) == 1
    assert f"no records in {tmp_path}" in capsys.readouterr().err


# -- figures and the notebook ----------------------------------------------------------------------


def test_a_figure_has_a_panel_a_task_and_the_mean_of_a_methods_seeds() -> None:
    figure = results.plot(tables.table(found()), methods=["alibi", "rope"])
    assert [axes.get_title() for axes in figure.axes] == ["copy", "sort"]
    (line,) = [each for each in figure.axes[0].get_lines() if each.get_label() == "rope"]
    assert line.get_xdata().tolist() == [1, 2, 8]
    assert line.get_ydata().tolist() == pytest.approx([1.0, 0.85, 0.1])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["alibi", "rope"]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_band_ends_where_scores_do() -> None:
    worst = enumerate((0.1, 1.0, 1.0))
    seeds = [making.record("rope", {1: 1.0, 2: score}, seed=seed) for seed, score in worst]
    (axes,) = results.plot(tables.table(seeds)).axes
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.0, 1.0)  # .7 with 1.29 on either side


def test_a_line_ends_where_a_seed_has_no_test() -> None:
    climbed = making.record("rope", {1: 1.0, 2: 1.0, 16: 0.9}, seed=0)
    ended = making.record("rope", {1: 1.0, 2: 0.4}, seed=1)
    figure = results.plot(tables.table([climbed, ended]))
    (line,) = [each for each in figure.axes[0].get_lines() if each.get_label() == "rope"]
    assert line.get_xdata().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"methods": ["ropee"]}, "method 'ropee' is not in the table: did you mean rope"),
        ({"tasks": ["copyy"]}, "task 'copyy' is not in the table: did you mean copy"),
        ({"measure": "task"}, "measure='task' is no column with numbers"),
    ],
)
def test_a_figure_of_what_is_not_there_is_refused(words: dict, said: str) -> None:
    with pytest.raises(PosbenchError, match=re.escape(said)):
        results.plot(tables.table(found()), **words)


def test_a_figure_of_several_protocols_is_refused() -> None:
    mixed = tables.table([making.record(), making.record(protocol="gpu")])
    with pytest.raises(PosbenchError, match="several protocols"):
        results.plot(mixed)


def test_a_figure_of_several_versions_is_refused() -> None:
    mixed = tables.table([making.record(), making.record(version=2), making.record("alibi")])
    said = "task=copy, method=rope has runs of task_version 1 and 2, which have no common mean"
    with pytest.raises(PosbenchError, match=said):
        results.plot(mixed)
    assert results.plot(mixed, methods=["alibi"]).axes, "what is not drawn may be mixed"
    plain = mixed[["task", "method", "seed", "multiple", "chance", "score"]]
    with pytest.raises(PosbenchError, match="method=rope is there twice with seed 0 at 1x"):
        results.plot(plain)


def test_a_band_is_the_interval_of_three_seeds_or_more() -> None:
    runs = [making.record("rope", {1: 1.0, 2: 0.4 + seed / 10}, seed) for seed in range(4)]
    (axes,) = results.plot(tables.table(runs)).axes
    (band,) = axes.collections
    heights = [y for x, y in band.get_paths()[0].vertices if x == 2]
    found = Estimate.over([0.4, 0.5, 0.6, 0.7])
    assert max(heights) == pytest.approx(found.mean + found.half_width)
    assert min(heights) == pytest.approx(found.mean - found.half_width)
    (axes,) = results.plot(tables.table(runs[:2])).axes
    assert not axes.collections


@pytest.mark.slow
def test_the_notebook_runs_from_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    notebook = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in cells if cell["outputs"]], "outputs are not committed"
    space: dict = {}
    for cell in cells:
        exec("".join(cell["source"]), space)
    assert len(space["shown"]) >= 3 and space["summary"]["overall"].notna().all()
