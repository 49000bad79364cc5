"""Figures of scores by length, and the notebook that draws them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import making
import pytest
from boards import with_views

from posbench import results
from posbench.base.errors import PosbenchError
from posbench.records import tables
from posbench.statistics.aggregates import Estimate

NOTEBOOK = Path(__file__).parent.parent / "results" / "explore.ipynb"


@pytest.mark.slow
def test_a_figure_has_a_panel_a_task_and_the_mean_of_a_methods_seeds() -> None:
    figure = results.plot(tables.table(with_views()), methods=["alibi", "rope"])
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
        ({"measure": "scroe"}, "is no column with numbers of this table: did you mean score?"),
        ({"measure": ["score"]}, "measure=['score'] is no column with numbers of this table"),
        ({"methods": "ropee"}, "method 'ropee' is not in the table: did you mean rope"),
        ({"methods": []}, "no method is named: name one, or leave methods out for all"),
        ({"methods": [3]}, "method '3' is not in the table"),
        ({"tasks": 3}, "tasks must be a name or a list of names, got 3"),
    ],
)
def test_a_figure_of_what_is_not_there_is_refused(words: dict, said: str) -> None:
    with pytest.raises(PosbenchError, match=re.escape(said)):
        results.plot(tables.table(with_views()), **words)


@pytest.mark.slow
def test_one_name_draws_one_row() -> None:
    table = tables.table([making.record(name, task="copy") for name in ("rope", "nope")])
    for one in ("rope", ["rope"], ["rope", "rope"]):
        axes = results.plot(table, one, "copy").axes[0]
        named = [each.get_label() for each in axes.get_lines()]
        assert [name for name in named if not name.startswith("_")] == ["rope"]


@pytest.mark.parametrize("column", ["task", "method", "seed", "multiple", "chance"])
def test_the_column_that_a_figure_needs_and_lacks_is_named(column: str) -> None:
    table = tables.table([making.record()]).drop(columns=column)
    with pytest.raises(PosbenchError, match=f"the table lacks the column {column}, which"):
        results.plot(table)
    if column == "chance":
        assert results.plot(table, measure="loss").axes


def test_what_is_no_table_with_lengths_is_no_figure() -> None:
    with pytest.raises(PosbenchError, match=r"must be a data frame, .* got a str"):
        results.plot("results/main")
    table = tables.table([making.record()])
    with pytest.raises(PosbenchError, match="column multiple must hold numbers, and holds"):
        results.plot(table.assign(multiple=table["multiple"].map("{}x".format)))
    with pytest.raises(PosbenchError, match="column seed has nan in 2 lines: leave such lines out"):
        results.plot(table.assign(seed=float("nan")))
    with pytest.raises(PosbenchError, match="column chance has inf in 2 lines"):
        results.plot(table.assign(chance=float("inf")))
    with pytest.raises(PosbenchError, match="column method has None in 2 lines"):
        results.plot(table.assign(method=None))
    assert results.plot(table.assign(score=float("nan"))).axes, "what is unknown is not drawn"
    with pytest.raises(PosbenchError, match=r"above 0, got 0.0: leave such lines out"):
        results.plot(table.assign(multiple=0.0))


@pytest.mark.slow
def test_a_figure_of_more_curves_than_can_be_told_apart_is_refused_unless_they_are_named() -> None:
    names = [f"row{place}" for place in range(13)]
    table = tables.table([making.record(name) for name in names])
    with pytest.raises(PosbenchError, match=r"has 13 rows, .* more than 12 .* methods=\['rope'"):
        results.plot(table)
    assert results.plot(table, names).axes and results.plot(table[table["method"] != "row0"]).axes


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


@pytest.mark.slow
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
    assert len(space["shown"]) >= 3 and space["summary"]["reaches"].notna().all()
