"""What the pages of the board show: tables, curves and pictures."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from boards import boards, contents, overall, seeds, summarised
from making import changed, plain, record, save, searched, view

from posbench.boards import command as leaderboard
from posbench.boards import likelihood_sentences
from posbench.boards import sections as sectioning
from posbench.boards.section import Detail
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing import figures
from posbench.showing.table import pipes
from posbench.statistics import likelihoods

# -- tables and curves -----------------------------------------------------------------------------


def test_not_having_learned_is_told_from_not_having_extrapolated_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = seeds("lost", [{1: 0.9, 2: 0.0}])
    save(
        tmp_path,
        *map(plain, seeds("unlearned", [{1: 0.9, 2: 0.0}])),
        *map(plain, seeds("shortsighted", [{1: 1.0, 2: 0.0}])),
        *[changed(each, {"solved_step": 100}) for each in lost],
    )
    assert leaderboard.main([str(tmp_path)]) == 0
    terminal = capsys.readouterr().out
    text, page, table, _ = (content.decode() for content in contents(tmp_path))
    assert "| unlearned *(did not learn)* |" in text and "| shortsighted |" in text
    assert '<th scope="row">unlearned <span class="mark">did not learn</span><td' in page
    assert '<th scope="row">shortsighted<td' in page
    assert '<th scope="row">lost <span class="mark">fails at 1x</span><td' in page
    assert "| lost *(fails at 1x)* |" in text
    assert "unlearned (did not learn)  " in terminal and "shortsighted (did" not in terminal
    solved = pd.read_csv(tmp_path / "leaderboard.csv").groupby("method")["seeds_solved"].max()
    assert solved.to_dict() == {"unlearned": 0, "shortsighted": 1, "lost": 0}
    assert table.startswith("protocol,task,measure,method,")


def test_a_cell_may_hold_bars_and_line_breaks() -> None:
    lines = pipes(["a|b", "n", "why"], [["|x|", "1", "one\nline"]], "lrl")
    assert lines == [r"| a\|b | n | why |", "| --- | ---: | --- |", r"| \|x\| | 1 | one line |"]
    assert pipes(["a", "b", "c"], [])[1] == "| --- | ---: | ---: |"


def test_over_all_tasks_a_row_names_the_tasks_that_it_did_not_learn() -> None:
    unsolved, solved = {1: 0.1, 2: 0.0}, {1: 1.0, 2: 0.5}
    shown = overall(
        *seeds("half", [unsolved]),
        *seeds("half", [solved], task="passkey"),
        *seeds("none", [unsolved]),
        *seeds("none", [unsolved], task="passkey"),
        *seeds("both", [solved]),
        *seeds("both", [solved], task="passkey"),
    )
    assert {name: row[0] for name, row in shown.items()} == {
        "both": "",
        "half": "did not learn copy",
        "none": "did not learn",
    }


def spoilt(method: str, **more: str) -> Record:
    """A run whose training was solved and whose extension has lost the training length."""
    return changed(record(method, {1: 0.2, 2: 0.1}, **more), {"solved_step": 150})


def test_an_extension_that_loses_the_training_length_is_told_from_a_model_that_never_learned() -> (
    None
):
    unsolved = record("unlearned", {1: 0.2, 2: 0.1})
    shown = summarised(spoilt("spoilt"), unsolved, record("rope", {1: 1.0, 2: 0.1}))
    assert {name: row.mark for name, row in shown.items()} == {
        "spoilt": "fails at 1x",
        "unlearned": "did not learn",
        "rope": "",
    }
    lost = record("mixed", {1: 0.2, 2: 0.1}, task="passkey")
    rows = overall(spoilt("both"), spoilt("both", task="passkey"), spoilt("mixed"), lost)
    assert {name: row[0] for name, row in rows.items()} == {
        "both": "fails at 1x",
        "mixed": "did not learn passkey, fails at 1x on copy",
    }


def test_a_row_counts_what_it_has_spent_beyond_the_shared_training() -> None:
    spending = {"training.cpu_seconds": 40.0, "evaluated.preparation_cpu_seconds": 3.0}
    unlike: dict[str, dict[str, Any]] = {
        "plain": {},
        "searched": {"search": searched({})},
        "tuned": {"evaluated.further_training_cpu_seconds": 5.0},
    }
    found = [changed(record(name, {1: 1.0}), spending | values) for name, values in unlike.items()]
    spent = tables.table(found).groupby("method")["train_cpu_seconds"].max()
    assert spent.to_dict() == {"plain": 40.0, "searched": 43.0, "tuned": 45.0}


def test_the_table_of_distances_shows_both_sides_and_where_there_are_no_tokens() -> None:
    [section] = sectioning.sections(boards(*seeds("rope", [{1: 1.0, 2: 0.5}, {1: 0.9, 2: 0.3}])))
    [distances] = section.details
    assert distances.table.headings == ["method", "1x", "2x"]
    assert distances.table.rows[0].cells == [".95 / –", "– / .40"]  # noqa: RUF001


def test_each_task_says_what_guessing_would_score() -> None:
    found = record()
    [section] = sectioning.sections(boards(found))
    assert any("probability of 0.001" in note for note in section.notes)
    found = changed(found, {"rows.1.chance": 1e-9})
    [section] = sectioning.sections(boards(found))
    assert any("probability of at most 0.001" in note for note in section.notes)


def test_a_name_with_markup_in_it_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    name = "rope (a=${x}|b, c=<script>alert(1)</script>)"
    save(tmp_path, record(name))
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    text, page, *_ = (content.decode() for content in contents(tmp_path))
    assert "<script>alert" not in page and html.escape(name) in page
    assert r"rope (a=${x}\|b, c=\<script>alert(1)\</script>)" in text
    assert set(pd.read_csv(tmp_path / "leaderboard.csv")["method"]) == {name}


def curves(count: int, half_width: float = 0.1) -> list[figures.Curve]:
    return [
        figures.Curve(f"method {i}", i, [1, 2, 4], [1, 0.5, i / count], [half_width] * 3)
        for i in range(count)
    ]


def test_no_two_of_many_curves_look_the_same() -> None:
    looks = {
        tuple(i % len(cycle) for cycle in (figures.COLOURS, figures.DASHES, figures.MARKERS))
        for i in range(100)
    }
    assert len(looks) == 100


def test_the_drawing_is_wellformed_and_holds_every_name() -> None:
    drawing = figures.score_by_length(curves(14), [1, 2, 4], "here", "score")
    root = ElementTree.fromstring(drawing)
    texts = {
        element.text.strip()
        for element in root.iter("{http://www.w3.org/2000/svg}text")
        if element.text
    }
    assert {f"method {i}" for i in range(14)} | {"1x", "2x", "4x"} <= texts
    assert figures.score_by_length(curves(14), [1, 2, 4], "here", "score") == drawing


def test_a_crowd_of_curves_is_drawn_without_legend_and_bands_and_each_can_be_pointed_at() -> None:
    drawing = figures.score_by_length(curves(figures.MANY + 1), [1, 2, 4], "here", "score")
    assert "method 1" not in drawing and "-band" not in drawing
    assert all(f'id="curve-here-{i}"' in drawing for i in range(figures.MANY + 1))
    assert "method 1" in figures.score_by_length(curves(figures.MANY), [1, 2, 4], "here", "score")


def test_a_curve_of_one_seed_has_no_band() -> None:
    root = ElementTree.fromstring(
        figures.score_by_length(curves(1, np.nan), [1, 2, 4], "here", "score")
    )
    drawn = {
        group.get("id"): len(list(group.iter())) - 1
        for group in root.iter("{http://www.w3.org/2000/svg}g")
    }
    assert drawn["curve-here-0"] > 0
    assert drawn.get("curve-here-0-band", 0) == 0


# -- what was chosen -------------------------------------------------------------------------------


def test_what_was_chosen_is_shown_for_each_seed() -> None:
    settings = {"beta_fast": 3, "beta_slow": 0.75, "exponents": [0.1, 0.5, 0.3]}
    tried = [{"learning_rate": 3e-3, "loss": 0.1}, {"learning_rate": 1e-3, "loss": None}]
    rates = {"training.learning_rates": tried, "training.learning_rate": 3e-3}
    found = [
        record("rope"),
        changed(record("yarn", seed=0), {"search": searched(settings)}),
        changed(record("yarn", seed=1), {"search": searched({})}),
        changed(record("alibi"), rates),
    ]
    [section] = sectioning.sections(boards(*found), choices=tables.choices(found))
    [table] = [each.table for each in section.details if each.title == "What was chosen"]
    assert table.headings == ["method", "seed 0", "seed 1"]
    assert {row.name: row.cells for row in table.rows} == {
        "yarn": ["beta_fast 3, beta_slow 0.75, exponents 3 numbers from .10 to .50", "defaults"],
        "alibi": ["learning_rate 0.003", "\N{EN DASH}"],
    }
    [without] = sectioning.sections(boards(found[0]), choices=tables.choices(found[:1]))
    assert "What was chosen" not in {each.title for each in without.details}


# -- by depth and position -------------------------------------------------------------------------


def viewed(
    method: str, by: str, *bins: tuple[float, float | None, int, float, float], seed: int = 0
) -> Record:
    views = [view(by, n, *bins) for n in (20, 10)]
    return changed(record(method, {1: 1.0, 2: 0.5}, seed), {"views": views})


def detail(*found: Record) -> dict[str, Detail]:
    [section] = sectioning.sections(boards(*found), tables.views(found))
    return {each.title: each for each in section.details}


def test_accuracy_by_depth_weighs_seeds_by_their_tokens() -> None:
    one = viewed("rope", "depth", (0.0, 0.5, 10, 1.0, 0.1), (0.5, 1.0, 10, 0.4, 0.1))
    two = viewed("rope", "depth", (0.0, 0.5, 30, 0.6, 0.1), (0.5, 1.0, 10, 0.2, 0.1), seed=1)
    table = detail(one, two)["Token accuracy by depth"].table
    assert table.headings == ["method", "0–.50", ".50–1.00"]  # noqa: RUF001
    assert table.rows[0].cells == [".70", ".30"]


def test_views_of_a_record_that_was_replaced_do_not_count() -> None:
    old = viewed("rope", "depth", (0.0, 0.5, 30, 0.0, 0.1), (0.5, 1.0, 10, 0.0, 0.1))
    new = viewed("rope", "depth", (0.0, 0.5, 10, 1.0, 0.1), (0.5, 1.0, 10, 0.4, 0.1))
    assert detail(old, new)["Token accuracy by depth"].table.rows[0].cells == ["1.00", ".40"]


def test_the_ceiling_has_no_loss_by_position() -> None:
    one = viewed("rope", "position", (0.0, 1.0, 10, 1.0, 0.5), (1.0, 2.0, 10, 0.4, 2.5))
    other = viewed("rope_ceiling", "position", (0.0, 1.0, 10, 1.0, 0.25))
    other = changed(other, {"method_class": "ceiling"})
    assert [row.name for row in detail(one, other)["Loss by position"].table.rows] == ["rope"]


def test_loss_by_position_has_an_open_end_and_gaps_where_a_method_has_no_tokens() -> None:
    one = viewed("rope", "position", (0.0, 1.0, 10, 1.0, 0.5), (16.0, None, 10, 0.4, 2.5))
    other = viewed("nope", "position", (0.0, 1.0, 10, 1.0, 0.25))
    table = detail(one, other)["Loss by position"].table
    assert table.headings == ["method", "0–1.00", "> 16.00"]  # noqa: RUF001
    assert {row.name: row.cells for row in table.rows} == {
        "rope": [".50", "2.50"],
        "nope": [".25", "\N{EN DASH}"],
    }


def test_a_single_depth_is_not_shown() -> None:
    assert "Token accuracy by depth" not in detail(
        viewed("rope", "depth", (0.9, 1.0, 10, 1.0, 0.5))
    )


# -- settings under two names ----------------------------------------------------------------------


def two_names(change: Callable[[int], dict[str, Any]]) -> list[Record]:
    """Runs of the same settings under two names, each with values of its own."""
    return [
        changed(record(name, {1: 1.0, 2: 0.5}, method_hash="f" * 16), change(number))
        for number, name in enumerate(("one", "two"))
    ]


def test_two_names_of_the_same_settings_each_have_their_own_depths() -> None:
    def views(number: int) -> dict[str, Any]:
        return {"views": [view("depth", 20, (0.0, 0.5, 10, 1.0, 0.1), (0.5, 1.0, 10, number, 0.1))]}

    rows = detail(*two_names(views))["Token accuracy by depth"].table.rows
    assert {row.name: row.cells for row in rows} == {"one": ["1.00", ".00"], "two": ["1.00"] * 2}


def test_two_names_of_the_same_settings_each_have_their_own_choice() -> None:
    found = two_names(lambda number: {"search": searched({"beta_fast": number})})
    [section] = sectioning.sections(boards(*found), choices=tables.choices(found))
    [table] = [each.table for each in section.details if each.title == "What was chosen"]
    assert {row.name: row.cells for row in table.rows} == {
        "one": ["beta_fast 0"],
        "two": ["beta_fast 1"],
    }


def test_two_names_of_the_same_settings_each_have_their_own_likelihood() -> None:
    """Each beside the model that both extend, and none beside its other name."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    found = [
        changed(each, kind | {"seed": seed, "rows.1.loss": 1.0 + number})
        for seed in (0, 1)
        for number, each in enumerate((plain(record("model")), *two_names(lambda _: {})))
    ]
    [section] = sectioning.sections(boards(*found), table=tables.table(found))
    [table] = [each.table for each in section.details if each.title == "Log-likelihood"]
    assert {row.name: row.cells[-1] for row in table.rows} == {
        "model": "-1.00",
        "one": "-2.00, -1.00 [-1.00, -1.00]",
        "two": "-3.00, -2.00 [-2.00, -2.00]",
    }
    renamed = [changed(plain(each), kind) for each in two_names(lambda _: {}) for _ in "ab"]
    found = [changed(each, {"seed": seed % 2}) for seed, each in enumerate(renamed)]
    assert {each.more for each in likelihoods.of_board(tables.table(found)).values()} == {None}


def test_a_row_of_which_some_losses_overflow_has_no_likelihood_and_says_so() -> None:
    """A mean over the others would flatter it."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    rows = (plain(record("model")), *two_names(lambda _: {}))
    found = [
        changed(
            each,
            kind | {"seed": seed, "rows.1.loss": None if (number, seed) == (1, 0) else 2.0},
        )
        for seed in (0, 1)
        for number, each in enumerate(rows)
    ]
    table = tables.table(found)
    shown = {label: str(each) for (label, *_), each in likelihoods.of_board(table).items()}
    assert shown["one"] == "overflows on 1 of 2"
    assert shown["two"].startswith("-2.00, +0.00 [")
    [said] = likelihood_sentences.sentences(table)
    assert said.endswith("two +0.00 [+0.00, +0.00], one overflows on 1 of 2.")


@pytest.mark.parametrize("part", ["protocol", "task"])
def test_details_of_one_board_are_not_those_of_another_of_the_same_content(part: str) -> None:
    """A protocol or a task of one's own may say what another says."""
    found = [
        changed(each, {f"{part}.name": f"mine_{number}", f"{part}.hash": "f" * 16})
        for number, each in enumerate(
            viewed("rope", "depth", (0.0, 0.5, 10, right, 0.1), (0.5, 1.0, 10, right, 0.1))
            for right in (0.0, 1.0)
        )
    ]
    shown = sectioning.sections(boards(*found), tables.views(found))
    depths = {
        section.title: each.table.rows[0].cells
        for section in shown
        for each in section.details
        if each.title == "Token accuracy by depth"
    }
    assert sorted(depths.values()) == [[".00"] * 2, ["1.00"] * 2]
