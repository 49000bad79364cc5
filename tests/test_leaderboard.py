"""The leaderboard says what the records say, mixes nothing, and writes the same bytes every
time.
"""

from __future__ import annotations

import html
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_results import record, save

from posbench import provenance, results
from posbench.leaderboard import board as leaderboard
from posbench.leaderboard import comparisons, figures, summaries
from posbench.leaderboard import remarks as remarking
from posbench.leaderboard import sections as sectioning
from posbench.leaderboard.summaries import Estimate, Length, Summary, TaskBoard

FILES = ("leaderboard.md", "leaderboard.html", "leaderboard.csv", "runs.csv")


def boards(*found: results.Record) -> list[list[TaskBoard]]:
    return summaries.boards(results.table(found))


def summarised(*found: results.Record) -> dict[str, Summary]:
    """By name, of records of one task under one protocol."""
    [[board]] = boards(*found)
    return {summary.method: summary for summary in board.summaries}


def overall(*found: results.Record) -> dict[str, list[str]]:
    """Method -> cells of the table over all tasks, in the order of the table."""
    [tasks] = boards(*found)
    table = sectioning.overall_section(tasks).table
    return {row.name: [row.mark, *row.cells] for row in table.rows}


def remarks(*found: results.Record) -> str:
    return "\n".join(remarking.remarks(list(found), results.table(found)))


def seeds(
    method: str, accuracies: Iterable[dict[float, float]], **more: str
) -> list[results.Record]:
    return [
        record(method, by_multiple, seed, **more) for seed, by_multiple in enumerate(accuracies)
    ]


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def a_board(folder: Path) -> list[results.Record]:
    """Two tasks, three methods, two seeds, one of them unsolved, one method on one task only."""
    found = [
        *seeds("rope", [{1: 1.0, 2: 0.5}, {1: 0.9, 2: 0.3}]),
        *seeds("rope", [{1: 1.0, 2: 0.7}, {1: 1.0, 2: 0.5}], task="passkey"),
        *seeds("nope", [{1: 0.2, 2: 0.1}, {1: 0.1, 2: 0.0}]),
        *seeds("nope", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}], task="passkey"),
        *seeds("alibi", [{1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}]),
    ]
    save(folder, *found)
    return found


# -- numbers ---------------------------------------------------------------------------------------


def test_mean_and_interval_are_those_computed_by_hand() -> None:
    rope = summarised(*seeds("rope", [{1: 1.0, 2: 0.6, 4: 0.2}, {1: 1.0, 2: 0.8, 4: 0.4}]))["rope"]
    assert rope.scores.tolist() == pytest.approx([0.4, 0.6])  # 1x is no extrapolation
    assert rope.mean.mean == pytest.approx(0.5)
    assert rope.mean.half == pytest.approx(12.7062 * 0.1, abs=1e-4)  # t(.975, 1) * s / sqrt(2)
    assert str(rope.mean) == ".50 ±1.27"  # not clipped: two seeds say little
    assert str(rope.cells[2].accuracy) == ".70 ±1.27"
    assert (rope.cells[4].lowest, rope.cells[4].highest) == (0.2, 0.4)


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_the_interval_is_that_of_students_t(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    estimate = Estimate.over(values)
    low, high = stats.t.interval(0.95, count - 1, values.mean(), stats.sem(values))
    assert (estimate.mean - estimate.half, estimate.mean + estimate.half) == pytest.approx(
        (low, high)
    )


def test_one_seed_has_a_mean_but_no_interval() -> None:
    assert str(summarised(record())["rope"].mean) == ".50"
    assert "1 of 1 rows rest on one seed" in remarks(record())
    assert "one seed" not in remarks(record(seed=0), record(seed=1))


def test_further_lengths_are_shown_in_brackets_and_not_averaged() -> None:
    [[board]] = boards(record("rope", {1: 1.0, 2: 0.8, 4: 0.4, 8: 0.0}, further=[8]))
    [rope] = board.summaries
    assert rope.mean.mean == pytest.approx(0.6)
    table = sectioning.tabulated(sectioning._task_columns(board.lengths), board.summaries)
    shown = dict(zip(table.headings[1:], table.rows[0].cells, strict=True))
    assert (shown["4x"], shown["(8x)"], shown["mean"]) == (".40", ".00", ".60")


def test_unsolved_seeds_stay_in_the_mean_and_the_solved_ones_stand_beside_it() -> None:
    rope = summarised(*seeds("rope", [{1: 1.0, 2: 0.8}, {1: 0.94, 2: 0.2}]))["rope"]
    assert rope.mean.mean == pytest.approx(0.5)
    assert rope.mean_of_solved == pytest.approx(0.8)
    assert (rope.num_solved, rope.solved_step) == (1, 100)


@pytest.mark.parametrize(
    ("accuracies", "effective"),
    [
        ({1: 1.0, 1.5: 0.95, 2: 0.96, 4: 0.94}, 2),  # from .95
        ({1: 1.0, 1.5: 0.96, 2: 0.90, 4: 0.99}, 1.5),  # all shorter ones included
        ({1: 0.94, 1.5: 1.0, 2: 1.0, 4: 1.0}, np.nan),
        ({1: 1.0, 1.5: 1.0, 2: 1.0, 4: 1.0}, 4),
    ],
)
def test_the_effective_length_is_the_largest_that_is_solved_with_all_shorter_ones(
    accuracies: dict[float, float], effective: float
) -> None:
    assert summarised(record("rope", accuracies))["rope"].effective == pytest.approx(
        effective, nan_ok=True
    )


def test_the_effective_length_is_that_of_the_mean_over_seeds() -> None:
    assert summarised(*seeds("rope", [{1: 1.0, 2: 0.92}, {1: 1.0, 2: 1.0}]))["rope"].effective == 2


def test_numbers_are_found_by_their_length_and_seed_and_never_by_their_place() -> None:
    found = [
        *seeds("rope", [{1: 1.0, 2: 0.5, 4: 0.1}, {1: 0.9, 2: 0.3, 4: 0.0}]),
        *seeds("alibi", [{1: 1.0, 2: 0.9, 4: 0.8}]),
    ]
    files = [leaderboard.csv(boards(*found))]
    for number in range(3):
        random.Random(number).shuffle(found)
        for each in found:
            random.Random(number).shuffle(each["rows"])
        files.append(leaderboard.csv(boards(*found)))
    assert len(set(files)) == 1


def test_a_record_without_one_of_the_lengths_gives_no_mean_over_other_lengths() -> None:
    short = summarised(record("rope", {1: 1.0, 2: 0.9}), record("nope", {1: 1.0, 2: 0.2, 4: 0.1}))[
        "rope"
    ]
    assert (str(short.mean), str(short.cells[4].accuracy), short.effective) == (
        "\N{EN DASH}",
        "\N{EN DASH}",
        1,
    )


def test_rows_are_sorted_by_mean_and_ties_by_name() -> None:
    found = [
        record(name, {1: 1.0, 2: mean})
        for name, mean in [("b", 0.5), ("a", 0.5), ("z", 0.9), ("c", 0.1)]
    ]
    assert list(summarised(*found)) == ["z", "a", "b", "c"]


# -- all tasks -------------------------------------------------------------------------------------


def test_the_mean_over_tasks_is_over_the_seeds_that_have_them_all() -> None:
    shown = overall(
        *seeds("rope", [{1: 1.0, 2: 0.6}, {1: 1.0, 2: 0.4}]),
        *seeds("rope", [{1: 1.0, 2: 0.2}, {1: 1.0, 2: 0.2}, {1: 1.0, 2: 1.0}], task="passkey"),
    )
    # Seeds 0 and 1: .4 and .3. Seed 2 lacks copy.
    assert shown["rope"][:5] == ["", ".35 ±.64", ".35", "1.00", ".35"]
    assert shown["rope"][6:8] == ["2", "4/4"], "and so are the trainings that are counted"


def test_a_row_that_lacks_a_task_stands_last_without_a_mean() -> None:
    shown = overall(
        *seeds("alibi", [{1: 1.0, 2: 1.0}]),
        *(
            each
            for task in ("copy", "passkey")
            for each in seeds("rope", [{1: 1.0, 2: 0.1}], task=task)
        ),
    )
    assert list(shown) == ["rope", "alibi"]
    assert shown["alibi"][1:5] == ["– (1 of 2 tasks)", "\N{EN DASH}", "\N{EN DASH}", "\N{EN DASH}"]  # noqa: RUF001


def test_a_method_without_a_seed_on_all_tasks_has_no_mean() -> None:
    shown = overall(record("rope", seed=0, task="copy"), record("rope", seed=1, task="passkey"))
    assert shown["rope"][1] == "– (no seed on all tasks)"  # noqa: RUF001


def test_one_task_needs_no_table_over_all_of_them() -> None:
    assert len(sectioning.sections(boards(record()))) == 1


# -- nothing is mixed ------------------------------------------------------------------------------


def test_protocols_are_never_mixed_not_even_under_one_name() -> None:
    found = [record("rope", {1: 1.0, 2: 0.2}), record("rope", {1: 1.0, 2: 0.8}, seed=1)]
    found[1]["protocol"]["hash"] = "feedfeedfeedfeed"
    [[one], [other]] = boards(*found)
    assert {board.summaries[0].mean.mean for board in (one, other)} == {0.2, 0.8}
    assert one.protocol != other.protocol and "cpu [feedfeed]" in (one.protocol, other.protocol)
    assert "Records of 2 protocols" in remarks(*found)


@pytest.mark.parametrize("change", ["version", "hash"])
def test_versions_and_settings_of_a_task_have_tables_of_their_own(change: str) -> None:
    found = [record("rope", {1: 1.0, 2: 0.2}), record("rope", {1: 1.0, 2: 0.8}, seed=1)]
    found[1]["task"][change] = {"version": 2, "hash": "feedfeedfeedfeed"}[change]
    [[one, other]] = boards(*found)
    assert {board.summaries[0].mean.mean for board in (one, other)} == {0.2, 0.8}
    assert one.task != other.task
    assert {"version": "copy, version 2", "hash": "copy [feedfeed]"}[change] in (
        one.task,
        other.task,
    )
    assert "several versions or settings" in remarks(*found)


def test_one_name_for_two_methods_gives_two_rows_that_show_their_hash() -> None:
    found = [record("rope", {1: 1.0, 2: 0.2}), record("rope", {1: 1.0, 2: 0.8}, seed=1)]
    found[0]["method"]["hash"], found[1]["method"]["hash"] = "aaaaaaaabbbbbbbb", "ccccccccdddddddd"
    rows = summarised(*found)
    assert {name: row.mean.mean for name, row in rows.items()} == {
        "rope [cccccccc]": 0.8,
        "rope [aaaaaaaa]": 0.2,
    }
    assert "One name stands for methods of different settings" in remarks(*found)


def test_one_method_under_two_names_gives_two_rows_and_a_remark() -> None:
    found = [record("rope", {1: 1.0, 2: 0.2}), record("mine", {1: 1.0, 2: 0.8})]
    found[1]["method"]["hash"] = found[0]["method"]["hash"]
    assert set(summarised(*found)) == {"rope", "mine"}
    assert "mine = rope" in remarks(*found)


def test_a_run_that_is_there_twice_counts_once_and_the_later_file_wins(tmp_path: Path) -> None:
    [path] = save(tmp_path, record("rope", {1: 1.0, 2: 0.2}))
    path.rename(
        path.with_suffix(".1a2b3c4d.json")
    )  # put aside by a change of settings that was changed back
    save(tmp_path, record("rope", {1: 1.0, 2: 0.8}))
    found = results.records(tmp_path)
    rope = summarised(*found)["rope"]
    assert (len(rope.scores), rope.mean.mean) == (1, 0.8)
    assert "1 record repeats a run" in remarks(*found)


def test_seeds_trained_by_different_code_are_remarked_on() -> None:
    found = [record(seed=0), record(seed=1)]
    assert "different versions of the code" not in remarks(*found)
    found[1]["provenance"]["source_hash"] = "1"
    assert "different versions of the code (rope)" in remarks(*found)


def test_records_of_older_training_code_are_remarked_on_where_the_code_is_installed() -> None:
    modules = {"task": "posbench.tasks.copy", "encoding": "posbench.encodings.rope"}
    modules["extension"] = "posbench.extensions.yarn"
    current = record()
    current["config"] = {part: {"_target_": f"{module}.Name"} for part, module in modules.items()}
    current["provenance"]["source_hash"] = provenance.training_hash(
        *(current["config"][part] for part in ("task", "encoding"))
    )
    evaluated = provenance.evaluation_hash(current["config"]["extension"])
    current["provenance"]["evaluation_hash"] = evaluated
    assert "other code" not in remarks(current)
    current["provenance"]["evaluation_hash"] = "0"
    assert "1 of 1 records come from other code than this version's (rope)" in remarks(current)
    current["provenance"]["evaluation_hash"] = evaluated
    current["provenance"]["source_hash"] = "0"
    assert "1 of 1 records come from other code than this version's (rope)" in remarks(current)
    current["config"]["task"]["_target_"] = "posbench.tasks.before_it_was_renamed.Name"
    assert "other code" in remarks(current)
    current["config"]["task"]["_target_"] = "of_ones_own.not_installed_here.Name"
    assert "other code" not in remarks(current)
    assert "The code of some methods is not at hand" in remarks(current)


def test_the_smoke_protocol_is_said_to_mean_nothing() -> None:
    assert "smoke protocol" in remarks(record(protocol="smoke (training.steps=10)"))
    assert "smoke protocol" not in remarks(record(protocol="smokeless"))


# -- what is shown ---------------------------------------------------------------------------------


def test_not_having_learned_is_told_from_not_having_extrapolated_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(
        tmp_path,
        *seeds("unlearned", [{1: 0.9, 2: 0.0}]),
        *seeds("shortsighted", [{1: 1.0, 2: 0.0}]),
    )
    assert leaderboard.main([str(tmp_path)]) == 0
    terminal = capsys.readouterr().out
    text, page, table, _ = (content.decode() for content in contents(tmp_path))
    assert "| unlearned *(did not learn)* |" in text and "| shortsighted |" in text
    assert re.search(r'<td>unlearned <span class="mark">did not learn</span></td>', page)
    assert "<td>shortsighted</td>" in page
    assert "unlearned (did not learn)  " in terminal and "shortsighted (did" not in terminal
    solved = pd.read_csv(tmp_path / "leaderboard.csv").groupby("method")["seeds_solved"].max()
    assert solved.to_dict() == {"unlearned": 0, "shortsighted": 1}
    assert table.startswith("protocol,task,measure,method,")


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


def spoilt(method: str, **more: str) -> results.Record:
    """A run whose training was solved and whose extension has lost the training length."""
    found = record(method, {1: 0.2, 2: 0.1}, **more)
    found["training"]["solved_step"] = 150
    return found


def test_an_extension_that_loses_the_training_length_is_told_from_a_model_that_never_learned() -> (
    None
):
    unsolved = record("unlearned", {1: 0.2, 2: 0.1})
    unsolved["training"]["solved_step"] = None
    shown = summarised(spoilt("spoilt"), unsolved, record("rope", {1: 1.0, 2: 0.1}))
    assert {name: row.mark for name, row in shown.items()} == {
        "spoilt": "fails at 1x",
        "unlearned": "did not learn",
        "rope": "",
    }
    lost = record("mixed", {1: 0.2, 2: 0.1}, task="passkey")
    lost["training"]["solved_step"] = None
    rows = overall(spoilt("both"), spoilt("both", task="passkey"), spoilt("mixed"), lost)
    assert {name: row[0] for name, row in rows.items()} == {
        "both": "fails at 1x",
        "mixed": "did not learn passkey, fails at 1x on copy",
    }


def test_a_row_counts_what_it_has_spent_beyond_the_shared_training() -> None:
    plain, searched, tuned = (record(name, {1: 1.0}) for name in ("plain", "searched", "tuned"))
    for found in (plain, searched, tuned):
        found["timings"] = {"train_cpu_seconds": 40.0, "preparation_cpu_seconds": 3.0}
    searched["search"] = {"chosen": {}}
    tuned["finetuning"] = {"steps": 10}
    tuned["timings"]["further_training_cpu_seconds"] = 5.0
    spent = results.table([plain, searched, tuned]).groupby("method")["train_cpu_seconds"].max()
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
    found["rows"][1]["chance"] = 1e-9
    [section] = sectioning.sections(boards(found))
    assert any("probability of at most 0.001" in note for note in section.notes)


def test_a_name_with_markup_in_it_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    name = "rope (a=${x}|b, c=${y}) <script>alert(1)</script>"
    found = record(name)
    found["method"]["slug"] = "rope-1a2b3c4d"
    save(tmp_path, found)
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    text, page, *_ = (content.decode() for content in contents(tmp_path))
    assert "<script>alert" not in page and html.escape(name) in page
    assert name.replace("|", "\\|") in text
    assert set(pd.read_csv(tmp_path / "leaderboard.csv")["method"]) == {name}


def test_the_page_needs_no_network_and_every_row_finds_its_curve(tmp_path: Path) -> None:
    a_board(tmp_path)
    leaderboard.main([str(tmp_path)], emit=lambda line: None)
    page = (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!\#)[^"']*|@import|url\((?!\#)""", page)
    rows = re.findall(r'data-curve="([^"]+)"', page)
    assert len(rows) == 2 * 5  # a row in the table of a task, and one in its table of distances
    assert all(page.count(f'id="{row}"') == 1 for row in rows)
    assert page.count("<svg") == 2


def curves(count: int, halves: float = 0.1) -> list[figures.Curve]:
    return [
        figures.Curve(f"method {i}", i, [1, 2, 4], [1, 0.5, i / count], [halves] * 3)
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


# -- the command -----------------------------------------------------------------------------------


def test_the_same_records_give_the_same_bytes_in_whatever_order_they_were_written(
    tmp_path: Path,
) -> None:
    found = a_board(tmp_path / "one")
    random.Random(0).shuffle(found)
    save(tmp_path / "other", *found)
    for folder in ("one", "other", "one"):
        assert leaderboard.main([str(tmp_path / folder)], emit=lambda line: None) == 0
        assert contents(tmp_path / "one") == contents(tmp_path / folder)


def test_bytes_depend_on_no_terminal_locale_or_matplotlibrc_and_torch_is_not_imported(
    tmp_path: Path,
) -> None:
    a_board(tmp_path)
    leaderboard.main([str(tmp_path)], emit=lambda line: None)
    before = contents(tmp_path)
    for name in FILES:
        (tmp_path / name).unlink()
    (tmp_path / "matplotlibrc").write_text(
        "font.size: 30\nsvg.hashsalt: other\naxes.facecolor: red\n"
    )
    code = (
        "import sys; from posbench import leaderboard; status = leaderboard.main(sys.argv[1:]); "
        "assert not {'torch', 'lightning'} & set(sys.modules); sys.exit(status)"
    )
    surroundings = {
        "COLUMNS": "20",
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONHASHSEED": "7",
        "MPLBACKEND": "pdf",
        "MATPLOTLIBRC": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | surroundings,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path) == before


def test_check_passes_after_generating_and_fails_after_tampering(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_board(tmp_path)
    check = [str(tmp_path), "--check"]
    assert leaderboard.main(check) == 1  # not there yet
    assert not any((tmp_path / name).exists() for name in FILES)
    leaderboard.main([str(tmp_path)])
    assert leaderboard.main(check) == 0
    for name in FILES:
        path, before = tmp_path / name, (tmp_path / name).read_bytes()
        path.write_bytes(before.replace(b"alibi", b"alibis"))
        capsys.readouterr()
        assert leaderboard.main(check) == 1
        error = capsys.readouterr().err
        assert (
            error.startswith(f"posbench: regenerating changes {name} in") and error.count("\n") == 1
        )
        assert path.read_bytes() != before  # it writes nothing
        path.write_bytes(before)
    shutil.rmtree(tmp_path / "records" / "cpu" / "copy" / "alibi")
    assert leaderboard.main(check) == 1


def test_check_compares_the_curves_as_well(tmp_path: Path) -> None:
    a_board(tmp_path)
    leaderboard.main([str(tmp_path)], emit=lambda line: None)
    page = tmp_path / "leaderboard.html"
    page.write_bytes(page.read_bytes().replace(b"stroke-width: 1.8", b"stroke-width: 1.80"))
    assert leaderboard.main([str(tmp_path), "--check"], emit=lambda line: None) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no records in"),
        ("{", "is not a readable record"),
        ('{"schema": 99}', "has record schema 99"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, sentence: str
) -> None:
    if content is not None:
        save(tmp_path, record("alibi"))
        [path] = save(tmp_path, record())
        path.write_text(content)
    assert leaderboard.main([str(tmp_path)]) == 1
    out, error = capsys.readouterr()
    assert (
        error.startswith("posbench: ") and sentence in error and error.count("\n") == 1 and not out
    )
    assert not (tmp_path / "leaderboard.md").exists()


def test_without_records_of_ones_own_the_published_board_is_pointed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(results.PUBLISHED, record())
    assert leaderboard.main([]) == 1
    error = capsys.readouterr().err
    assert f"no records in {results.LOCAL}" in error
    assert f"python -m posbench.leaderboard {results.PUBLISHED}" in error


# -- measures of a run -----------------------------------------------------------------------------


def lengths_of(*multiples: float, further: tuple[float, ...] = ()) -> list[Length]:
    return [Length(round(10 * m), 20, m, m not in further, 0.0) for m in multiples]


def test_the_area_does_not_depend_on_how_densely_lengths_were_chosen() -> None:
    falling = {1: 1.0, 2: 0.5, 4: 0.0}
    assert summaries.area(falling, lengths_of(1, 2, 4)) == pytest.approx(0.5)
    between = falling | {2**0.5: 0.75, 2**1.5: 0.25}
    assert summaries.area(between, lengths_of(*sorted(between))) == pytest.approx(0.5)
    assert (
        summaries.area({1: 1.0, 2: 1.0, 4: 1.0, 8: 0.0}, lengths_of(1, 2, 4, 8, further=(8,)))
        == 1.0
    )
    assert np.isnan(summaries.area({1: 1.0}, lengths_of(1)))
    # Lengths below that of training are not part of it.
    assert summaries.area({0.5: 0.0} | falling, lengths_of(0.5, 1, 2, 4)) == pytest.approx(0.5)


@pytest.mark.parametrize(("threshold", "found"), [(0.95, 1.5), (0.5, 2.0), (1.0, np.nan)])
def test_how_far_a_run_reaches_is_asked_of_two_thresholds(threshold: float, found: float) -> None:
    scores = {1: 0.99, 1.5: 0.96, 2: 0.6, 4: 0.3, 8: 0.9}
    assert summaries.reach(scores, threshold) == pytest.approx(found, nan_ok=True)


def test_the_board_shows_area_and_both_reaches_and_gpu_seconds_where_there_are_some(
    tmp_path: Path,
) -> None:
    found = seeds("rope", [{1: 1.0, 2: 0.6, 4: 0.2}, {1: 1.0, 2: 0.6, 4: 0.0}])

    def shown() -> dict[str, str]:
        table = sectioning.sections(boards(*found))[0].table
        return dict(zip(table.headings[1:], table.rows[0].cells, strict=True))

    assert (shown()["area"], shown()["effective"], shown()["half"]) == (".58", "1x", "2x")
    assert "GPU s" not in shown()
    found[0]["timings"]["train_gpu_seconds"] = 30.0
    assert shown()["GPU s"] == "15"


def test_the_table_of_runs_has_one_row_a_run_with_its_measures(tmp_path: Path) -> None:
    one, other = seeds("rope", [{1: 1.0, 2: 0.6, 4: 0.2}, {1: 0.9, 2: 0.96, 4: 0.0}])
    other["training"] |= {"solved": False, "solved_step": None}
    table = summaries.per_run(results.table([one, other])).set_index("seed")
    assert table.index.tolist() == [0, 1]
    first = table.loc[
        0, ["in_distribution", "learned", "solved", "mean", "area", "effective_95", "effective_50"]
    ]
    assert first.tolist() == [1.0, True, True, pytest.approx(0.4), pytest.approx(0.6), 1.0, 2.0]
    second = table.loc[1]
    assert (second["in_distribution"], second["learned"], np.isnan(second["effective_95"])) == (
        0.9,
        False,
        True,
    )
    assert second["effective_50"] == 2.0 and second["train_cpu_seconds"] == 60.0


def test_scores_of_unlike_measures_have_no_mean_in_common() -> None:
    found = [record("rope", task=task) for task in ("copy", "passkey", "language")]
    found[2]["task"]["measure"] = "share explained"
    titles = {section.title: section for section in sectioning.sections(boards(*found))}
    assert "Mean over 2 tasks, protocol cpu" in titles and len(titles) == 4
    notes = titles["language, protocol cpu"].notes
    assert "The score is the share explained." in notes and not any(
        "Guessing" in note for note in notes
    )


def test_a_measure_of_its_own_names_the_axis_and_is_what_is_averaged() -> None:
    found = record("rope", {1: 0.9, 2: 0.5})
    found["task"]["measure"] = "share explained"
    for row in found["rows"]:
        row["sequence_accuracy"] = 0.0
    [section] = sectioning.sections(boards(found))
    assert "share explained" in section.curves and section.measure == "share explained"
    assert summarised(found)["rope"].mean.mean == 0.5


# -- tasks and protocols compared ------------------------------------------------------------------


def plain(*found: results.Record) -> tuple[results.Record, ...]:
    for each in found:
        each["config"]["extension"] = dict(results.PLAIN)
    return found


def discriminated(*found: results.Record) -> comparisons.Discrimination | None:
    [tasks] = comparisons.discriminations(results.table(found))
    return tasks[0] if tasks else None


def test_what_a_task_tells_apart_is_measured_between_encodings_alone() -> None:
    rows = plain(
        *seeds("rope", [{1: 1.0, 2: 1.0, 4: 0.4}, {1: 1.0, 2: 0.8, 4: 0.2}]),
        *seeds("nope", [{1: 1.0, 2: 0.1, 4: 0.3}, {1: 1.0, 2: 0.1, 4: 0.3}]),
    )
    rows[3]["training"] |= {"solved": False, "solved_step": None}
    rows[0]["training"]["solved_step"], rows[1]["training"]["solved_step"] = 200, 300
    for row, seconds in zip(rows, (10.0, 20.0, 30.0, 40.0), strict=True):
        row["timings"]["train_cpu_seconds"] = seconds
    extended = record("rope_yarn", {1: 1.0, 2: 0.5, 4: 0.5})  # an extension is no encoding
    ceiling = record("ceiling", {1: 1.0, 2: 0.9, 4: 0.7})
    ceiling["method"]["class"] = "ceiling"
    task = discriminated(*rows, extended, ceiling)
    assert task is not None
    assert (task.num_solved, task.num_trainings, task.solved_step, task.cpu_seconds) == (
        3,
        4,
        200,
        25,
    )
    assert task.spread == {2: pytest.approx(0.4), 4: pytest.approx(0.0)}
    assert task.ceiling == {2: 0.9, 4: 0.7}


@pytest.mark.parametrize(
    ("accuracies", "seconds", "solved", "fit"),
    [
        ({1: 1.0, 2: 0.2, 4: 0.2}, 60.0, True, True),
        (
            {1: 1.0, 2: 0.2, 4: 1.0},
            60.0,
            True,
            False,
        ),  # one length that tells them apart is not enough
        ({1: 1.0, 2: 0.2, 4: 0.2}, 91.0, True, False),
        ({1: 1.0, 2: 0.2, 4: 0.2}, 60.0, False, False),
    ],
)
def test_a_task_is_fit_if_solved_in_time_and_telling_encodings_apart(
    accuracies: dict[float, float], seconds: float, solved: bool, fit: bool
) -> None:
    rows = plain(record("rope", {1: 1.0, 2: 1.0, 4: 1.0}), record("nope", accuracies))
    for row in rows:
        row["timings"]["train_cpu_seconds"] = seconds
    rows[1]["training"]["solved"] = solved
    task = discriminated(*rows)
    assert task is not None and task.fit is fit


def test_tasks_are_compared_where_there_are_several_and_methods_to_tell_apart() -> None:
    assert discriminated(*plain(record("rope"))) is None
    found = plain(
        *(record(method, task=task) for method in ("rope", "nope") for task in ("copy", "passkey"))
    )
    table = results.table(found)
    shown = sectioning.sections(summaries.boards(table), None, comparisons.discriminations(table))
    [compared] = [
        section for section in shown if section.title == "What tasks tell apart, protocol cpu"
    ]
    assert [row.name for row in compared.table.rows] == ["copy", "passkey"]
    assert compared.table.headings[:4] == ["task", "solved", "CPU s", "steps"]
    own = plain(*(record(method, task="copy (task.num_symbols=8)") for method in ("rope", "nope")))
    assert discriminated(*own) is None, "an experiment of somebody's own is not compared"


def test_protocols_agree_as_far_as_the_order_of_their_methods_does() -> None:
    scores = {"a": 0.9, "b": 0.6, "c": 0.3, "d": 0.1}
    other = {"a": 0.5, "b": 0.7, "c": 0.2, "d": 0.1}
    found = [record(method, {1: 1.0, 2: value}) for method, value in scores.items()]
    found += [
        record(method, {1: 1.0, 2: value}, protocol="until_solved")
        for method, value in other.items()
    ]
    tuned = record("e", {1: 1.0, 2: 0.0})
    tuned["method"]["class"] = "tuned"
    [each] = comparisons.agreements(boards(*found, tuned))
    expected = stats.spearmanr(list(scores.values()), list(other.values())).statistic
    assert (each.num_methods, each.first) == (4, ("a", "b")) and each.correlation == pytest.approx(
        expected
    )
    assert comparisons.agreements(boards(*found[:4])) == []
    half = record(
        "f", {1: 1.0}, protocol="until_solved"
    )  # without a mean it is neither ranked nor the best
    [same] = comparisons.agreements(boards(*found, tuned, record("f", {1: 1.0}), half))
    assert same == each
    assert np.isnan(comparisons.rank_correlation(pd.Series([1, 1, 1]), pd.Series([1, 2, 3])))
    table = sectioning.agreement_section([each]).table
    assert table.rows[0].cells == [
        "cpu / until_solved",
        "4",
        "1",
        "4/4",
        ".80",
        "\N{EN DASH}",
        "a / b",
    ]


def test_protocols_are_compared_over_the_seeds_of_both_and_with_what_seeds_differ_by() -> None:
    cpu = {"a": (0.9, 0.1), "b": (0.6, 0.6), "c": (0.3, 0.9)}
    other = {"a": 0.8, "b": 0.5, "c": 0.2}
    found = [
        run
        for method, each in cpu.items()
        for run in seeds(method, [{1: 1.0, 2: value} for value in each])
    ]
    found += [
        record(method, {1: 1.0, 2: value}, protocol="until_solved")
        for method, value in other.items()
    ]
    found[-1]["training"]["hash"] = "another"
    [each] = comparisons.agreements(boards(*found))
    assert (each.num_seeds, each.num_shared) == (1, 2)
    assert each.correlation == 1, "over both seeds of cpu the methods would tie or turn round"
    assert each.between_seeds == -1 and each.first == ("a", "a")


def test_a_training_that_did_not_learn_makes_no_spread() -> None:
    scores = {"a": 0.9, "b": 0.7, "c": 0.0}
    rows = plain(*(record(name, {1: 1.0, 2: score, 4: score}) for name, score in scores.items()))
    rows[2]["training"]["solved"] = False
    task = discriminated(*rows)
    assert task is not None and task.spread[2] == pytest.approx(0.1)
    assert (task.num_solved, task.num_trainings) == (2, 3)
    for row in rows:
        row["training"]["solved"] = False
    task = discriminated(*rows)
    assert task is not None and np.isnan(task.spread[2]) and not task.fit


def test_what_was_chosen_is_shown_for_each_seed() -> None:
    plain, one, two, rates = (
        record(name, {1: 1.0, 2: 0.5}) for name in ("rope", "yarn", "yarn", "alibi")
    )
    two["seed"] = 1
    for searched in (one, two):
        searched["timings"]["preparation_cpu_seconds"] = 1.0
    one["search"] = {"chosen": {"beta_fast": 3, "beta_slow": 0.75, "exponents": [0.1, 0.5, 0.3]}}
    two["search"] = {"chosen": {}}
    rates["training"] |= {
        "learning_rates": [{"learning_rate": 3e-3, "loss": 0.1}],
        "learning_rate": 3e-3,
    }
    found = [plain, one, two, rates]
    [section] = sectioning.sections(boards(*found), choices=results.choices(found))
    [table] = [each.table for each in section.details if each.title == "What was chosen"]
    assert table.headings == ["method", "seed 0", "seed 1"]
    assert {row.name: row.cells for row in table.rows} == {
        "yarn": ["beta_fast 3, beta_slow 0.75, exponents 3 numbers from .10 to .50", "defaults"],
        "alibi": ["learning_rate 0.003", "\N{EN DASH}"],
    }
    [without] = sectioning.sections(boards(plain), choices=results.choices([plain]))
    assert "What was chosen" not in {each.title for each in without.details}


def test_a_run_that_lacks_a_length_has_no_mean_anywhere() -> None:
    whole, part = record("rope", {1: 1.0, 2: 0.5, 4: 0.1}), record("rope", {1: 1.0, 4: 0.3}, seed=1)
    table = summaries.per_run(results.table([whole, part])).set_index("seed")
    assert (
        table.loc[0, "mean"] == pytest.approx(0.3) and table.loc[1, ["mean", "area"]].isna().all()
    )
    [row] = boards(whole, part)[0][0].summaries
    assert np.isnan(row.mean.mean) and np.isnan(row.mean_of_solved)


def test_half_is_not_said_where_guessing_comes_as_far() -> None:
    found = record("rope", {1: 0.6, 2: 0.5})
    for row in found["rows"]:
        row["chance"] = 0.5
    assert np.isnan(boards(found)[0][0].summaries[0].half)
    assert summaries.per_run(results.table([found]))["effective_50"].isna().all()


def test_a_run_that_diverged_and_was_repeated_is_not_spoken_of() -> None:
    failed, repeated = (
        record("rope", {1: 0.0, 2: 0.0}) | {"diverged": "the loss became nan"},
        record("rope", {1: 1.0}),
    )
    assert any("diverged" in note for note in remarking.remarks([failed], results.table([failed])))
    both = [failed, repeated]
    assert not any("diverged" in note for note in remarking.remarks(both, results.table(both)))


# -- by depth and position -------------------------------------------------------------------------


def viewed(
    method: str, by: str, *bins: tuple[float, float | None, int, float, float], seed: int = 0
) -> results.Record:
    found = record(method, {1: 1.0, 2: 0.5}, seed)
    above, up_to, counts, right, lost = (list(each) for each in zip(*bins, strict=True))
    view = dict(zip(results.BINNED, (above, up_to, counts, right, lost), strict=True))
    found["cells"] = [{"test_length": 20, "by": by} | view, {"test_length": 10, "by": by} | view]
    return found


def detail(*found: results.Record) -> dict[str, sectioning.Detail]:
    [section] = sectioning.sections(boards(*found), results.views(found))
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
    other["method"]["class"] = "ceiling"
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


def tenths(method: str, *right: float) -> results.Record:
    bins = [(k / 10, (k + 1) / 10, 5, value, 0.1) for k, value in enumerate(right)]
    return viewed(method, "depth", *bins)


def test_depths_are_drawn_where_methods_are_few_and_sources_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[tuple[list[figures.Grid], list[str], list[float]]] = []
    real = figures.depth_grids
    monkeypatch.setattr(figures, "depth_grids", lambda *a: drawn.append(a) or real(*a))

    def depths(*found: results.Record) -> str:
        [section] = sectioning.sections(boards(*found), results.views(found))
        return section.depths

    svg = depths(tenths("rope", *[0.9] * 10), tenths("nope ${x} <b>", *[k / 10 for k in range(10)]))
    text = " ".join(
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter()
        if node.tag.endswith("text")
    )
    assert "rope" in text and "nope ${x} <b>" in text and "where in the prompt" in text
    [(grids, lengths, edges)] = drawn
    assert lengths == ["1x", "2x"] and edges == [k / 10 for k in range(11)]
    nope, rope = grids  # ties by name
    assert rope.values.tolist() == [[0.9] * 10] * 2
    assert nope.values[0].tolist() == [k / 10 for k in range(10)]
    assert svg == depths(
        tenths("rope", *[0.9] * 10), tenths("nope ${x} <b>", *[k / 10 for k in range(10)])
    )
    assert depths(tenths("rope", *[0.9] * 7)) == "", "sources stand in a part of the prompt"
    assert depths(*(tenths(f"m{k}", *[0.9] * 10) for k in range(sectioning.FEW + 1))) == "", (
        "too many to look at"
    )
    assert depths(record("rope")) == ""


def test_a_single_depth_is_not_shown() -> None:
    assert "Token accuracy by depth" not in detail(
        viewed("rope", "depth", (0.9, 1.0, 10, 1.0, 0.5))
    )
