"""The page: what it holds as text, what it draws from, and what can be done in a browser."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import full_size
import numpy as np
import pandas as pd
import pytest
from boards import seeds
from browser import Page, browsing, found
from making import changed, plain, record, save, view

from posbench.boards import command as leaderboard
from posbench.boards import findings, opening
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.page import boards_beside, generate
from posbench.boards.page_data import LETTERS, as_script, content, root_above, thousandths
from posbench.boards.ranking import RankedRows, standings_without_board
from posbench.config import board as definition
from posbench.explain.sketches import LEVELS
from posbench.records.record import CeilingTraining, Record
from posbench.showing import table as latex
from posbench.showing.pages import explanation_path
from posbench.showing.table import NOTHING
from posbench.statistics import measures

NAMES = ("rope", "alibi", "t5", "nope")
TOP = Path(__file__).parents[1]
ROPE = {"_target_": "posbench.encodings.rope.RoPE"}
"""What the configuration of every run says of its encoding, so that a row has a text."""


def some_records() -> list[Record]:
    """Four rows of two classes on two tasks with three seeds, of which two share their training."""
    made = []
    for place, name in enumerate(NAMES):
        for task in ("copy", "passkey"):
            for seed in (0, 1, 2):
                low = 0.2 + 0.2 * place + 0.04 * seed + (0.1 if task == "copy" else 0.0)
                scores = {1: 1.0, 2: 0.9, 4: low, 8: low / 2}
                each = plain(record(name, scores, seed, task=task))
                each = changed(each, {"config.encoding": ROPE})
                bins = [(k / 4, (k + 1) / 4, 5, k / 4, 0.1) for k in range(4)]
                values: dict[str, Any] = {"views": [view("depth", 20, *bins)]}
                if name == "t5":
                    values |= {"method_class": "tuned"}
                made.append(changed(each, values))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("board"), *some_records()).parent


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "leaderboard.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Any]:
    return held_by(folder / "leaderboard.html")


def write(folder: Path, *made: Record) -> Path:
    """The page of a folder, with these records beside those that it has."""
    save(folder, *made)
    assert leaderboard.main([str(folder)], emit=lambda line: None) == 0
    return folder / "leaderboard.html"


def held_by(page: Path) -> dict[str, Any]:
    """What a page draws from."""
    text = page.read_text(encoding="utf-8")
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert match is not None
    return json.loads(match[1])


@pytest.mark.slow
def test_the_page_needs_no_network(text: str) -> None:
    assert not re.findall(r"""(?:src|href)=["'](?!\#)[^"']*|@import|url\((?!\#)""", text)
    assert "fetch(" not in text and "XMLHttpRequest" not in text


@pytest.mark.slow
@pytest.mark.parametrize("board", ["main", "extensions"])
def test_a_page_leads_to_the_published_boards_beside_it(tmp_path: Path, board: str) -> None:
    for name in ("main", "extensions"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "leaderboard.html").touch()
    other = {"main": "extensions", "extensions": "main"}[board]
    assert set(boards_beside(tmp_path / board).values()) == {
        "#tables",
        f"../{other}/leaderboard.html",
    }
    page = generate(tmp_path / board, some_records()).pages["leaderboard.html"]
    above = page[: page.index("</header>")]
    assert f'href="../{other}/leaderboard.html"' in above
    assert above.index("<nav") < above.index("“Learned” is the share") and "“Reaches”" in above
    asked = "Which encoding and which extension reach furthest, after equal steps?"
    title = {"main": asked, "extensions": "Leaderboard: extensions"}[board]
    assert f"<h1>{title}</h1>" in above, "a board has its question, another folder what is ranked"


@pytest.mark.slow
def test_what_follows_is_said_to_each_reader_with_a_link(folder: Path) -> None:
    """By the numbers of the sections, to which the links lead."""
    [standing, _] = standings_without_board(MeasuredRuns.of(some_records()))
    doors = findings.doors([standing])
    assert list(doors) == ["I train from scratch", "I have a method of my own"]
    said, alone, link = doors["I train from scratch"]
    assert alone == "nope stays first whichever task or seed is left out."
    reaches = standing.summary.loc["nope", "reaches"]
    assert f"nope reaches furthest of 3 rows: {reaches:.2f}".replace(" 0.", " .") in said
    [anchor] = re.findall(r"\(#(.*)\)", link)
    assert f'<h2 id="{anchor}">' in (folder / "leaderboard.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_tables_read_without_a_script(text: str) -> None:
    body = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
    ranked = re.findall(
        r'<tr[^>]*><th scope="row">(\w+)<td>100 %<td>2/2<td.*?--h:\d+">\.\d+<', body
    )
    assert ranked == ["nope", "alibi", "rope", "t5"]
    assert body.count("<summary>copy</summary>") == body.count("<summary>passkey</summary>") == 1
    assert '<svg class="map"' in body and "Zero-shot, protocol cpu" in body
    assert "On the tasks that each row learned, nope reaches furthest of 3 rows" in body
    assert "commit c0ffee" in body and "torch 2.9.0+cpu" in body and "on cpu" in body


@pytest.mark.slow
def test_a_column_that_no_row_has_anything_in_is_left_out(text: str, tmp_path: Path) -> None:
    """Of two tasks there is no interval, and of three there is."""
    more = [
        changed(each, {"task.name": "sort", "task.hash": "5" * 64})
        for each in some_records()
        if each.task.name == "copy"
    ]
    page = generate(tmp_path, [*some_records(), *more]).pages["leaderboard.html"]
    two, three = (each.split('id="task-by-task"')[0] for each in (text, page))
    for name, of_two, of_three in (
        ("reaches", True, True),
        ("95 %", False, True),
        ("TMACs", False, False),
    ):
        assert (f">{name}</th>" in two, f">{name}</th>" in three) == (of_two, of_three), name


def test_the_data_are_the_areas_of_all_runs(data: dict[str, Any], folder: Path) -> None:
    runs = pd.read_csv(folder / "runs.csv")
    assert sum(len(each) for task in data["runs"] for each in task.values()) == len(runs) == 24
    names = [row["name"] for row in data["rows"]]
    task = [task["name"] for task in data["tasks"]].index("copy")
    [seed, _, learned, area] = data["runs"][task][str(names.index("rope"))][1]
    assert (seed, learned) == (1, 1)
    measured = MeasuredRuns.of(some_records()).runs
    mine = measured[(measured["row"] == "rope") & (measured["task"] == "copy")].set_index("seed")
    assert area == round(1000 * mine.loc[1, "area"])


def test_the_curves_are_those_of_the_csv(data: dict[str, Any], folder: Path) -> None:
    csv = pd.read_csv(folder / "leaderboard.csv").set_index(["task", "method"])
    for task, of_rows in zip(data["tasks"], data["curves"], strict=True):
        assert len(of_rows) == len(NAMES)
        for row, (area, means, halves) in of_rows.items():
            lines = csv.loc[(task["name"], data["rows"][int(row)]["name"])]
            assert lines["multiple"].tolist() == task["multiples"]
            for column, told in (("score", means), ("half_width_95", halves)):
                assert told == thousandths(lines[column])
            assert [area] == thousandths(lines["reaches"].iloc[:1])


@pytest.mark.slow
def test_a_score_is_rounded_once(tmp_path: Path) -> None:
    """By way of thousandths .3746 would be .38."""
    pages = generate(tmp_path, [record("rope", {1: 1.0, 2: 0.3746})]).pages
    assert "| .37 |" in pages["leaderboard.md"]
    *_, row = re.findall(r'<tr><th scope="row">rope<td>.*', pages["leaderboard.html"])
    assert re.sub(r" style=[^>]*", "", row).endswith("<td>1.00<td>.37<td>1/1")


def test_what_the_page_draws_rounds_to_the_same_hundredths() -> None:
    """.7846 is .78, and by way of .785 it would be .79."""
    assert thousandths([0.7846, 0.7852, 0.145, 0.1454, -0.0251, 1.0, np.nan]) == [
        *(784, 786, 145, 146, -26, 1000),
        None,
    ]
    values = np.random.default_rng(0).random(20_000)
    for value, shown in zip(values, thousandths(values), strict=True):
        assert shown is not None and abs(shown - 1000 * value) < 1
        assert math.floor(shown / 10 + 0.5) == round(100 * value)


@pytest.mark.slow
def test_the_area_of_a_run_is_worked_out_once_for_all_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def counted(*given: Any) -> float:
        asked.append(given)
        return area(*given)

    area = measures.area
    monkeypatch.setattr(measures, "area", counted)
    generate(tmp_path, some_records())
    assert len(asked) == len(some_records())


@pytest.mark.slow
def test_a_row_says_how_it_is_explained_and_where_it_was(tmp_path: Path) -> None:
    ceiling = [CeilingTraining(test_length=20, hash="0", learning_rate=1, steps=1, cpu_seconds=1)]
    above = changed(record("ceiling"), {"ceiling": ceiling})
    changed_row = record("rope (encoding.base=5)", {1: 1.0, 2: 0.5})
    sent = changed(record("pi@gpt2"), {"command": "python -m posbench.pretrained model=gpt2"})
    save(tmp_path, record("nope"), changed_row, above, sent)
    for seed in (0, 7):  # of the second there is no record
        path = explanation_path("cpu", "copy", [changed_row.method.slug], seed)
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    rows = {row["name"]: row for row in held_by(write(tmp_path))["rows"]}
    assert rows["ceiling"]["explain"] == "", "another model at each length"
    assert rows["pi@gpt2"]["explain"] == "", "a model that posbench did not train"
    command = rows["nope"]["command"]
    assert rows["nope"]["explain"] == command.replace("python -m posbench ", "posbench explain ")
    assert rows["nope"]["explained"] == []
    path = f"explain/cpu/copy/{changed_row.method.slug}/seed%3D0.html"
    assert rows["rope (encoding.base=5)"]["explained"] == [["copy (cpu, seed 0)", path]]


@pytest.mark.slow
def test_each_class_has_its_own_text(tmp_path: Path) -> None:
    """Of two that are called alike, and of one's own that is called like one of posbench."""
    window = "sliding_window.SlidingWindow"
    of_encoding, of_extension = f"posbench.encodings.{window}", f"posbench.extensions.{window}"
    rope = "posbench.encodings.rope.RoPE"
    targets = {"rope": (rope, of_extension), "both": (of_encoding, of_extension)}
    made = [
        changed(
            record(name),
            {"config.encoding": {"_target_": one}, "config.extension": {"_target_": other}},
        )
        for name, (one, other) in (targets | {"mine": ("mine.rope.RoPE", of_extension)}).items()
    ]
    data = held_by(write(tmp_path, *made))
    classes = {row["name"]: row["classes"] for row in data["rows"]}
    window = "SlidingWindow"
    assert classes == {
        "rope": [[rope, "RoPE"], [of_extension, window]],
        "both": [[of_encoding, window], [of_extension, window]],
        "mine": [[of_extension, window]],
    }
    assert data["texts"].keys() == {rope, of_encoding, of_extension}
    assert data["texts"][of_encoding] != data["texts"][of_extension]


@pytest.mark.slow
def test_settings_of_layers_in_turn_are_shown_one_by_one(tmp_path: Path) -> None:
    host = {"_target_": "posbench.encodings.rope.RoPE", "base": 10000}
    window = {"_target_": "posbench.encodings.sliding_window.SlidingWindow", "window": 5}
    layers = [window | {"host": host}, {"_target_": "posbench.encodings.nope.NoPE"}]
    encoding = {"layers": layers, "factors": [1.0, 2.0], "map": "x" * 60}
    [row] = held_by(
        write(tmp_path, plain(changed(record("rope_window_nope"), {"config.encoding": encoding})))
    )["rows"]
    assert row["settings"] == [
        "layers.0.window=5",
        "layers.0.host.base=10000",
        "factors=[1.0, 2.0]",
        f"map={'x' * 56} ...",
    ]


def test_depths_are_summed_over_seeds(data: dict[str, Any]) -> None:
    letters = {each["20"] for task in data["depths"] for each in task.values()}
    assert letters == {"".join(LETTERS[round(k / 4 * 61)] for k in range(4))}
    assert LETTERS == LEVELS, "the script reads both with one alphabet"


def test_the_means_of_a_section_are_those_of_what_was_learned(data: dict[str, Any]) -> None:
    """All rows have learned both tasks, so that a mean is that of the means of the tasks."""
    measured = MeasuredRuns.of(some_records())
    known = measured.lengths.assign(value=(measured.lengths["score"] - 0.001) / 0.999)
    means = known.groupby(["row", "task", "multiple"])["value"].mean().groupby(["row", "multiple"])
    for section in data["sections"]:
        assert section["multiples"] == [1, 2, 4, 8]
        for row, told in zip(section["rows"], section["means"], strict=True):
            expected = means.mean()[data["rows"][row]["name"]]
            assert told == pytest.approx(1000 * expected.to_numpy(), abs=1.5)


def test_a_section_has_the_names_of_its_rows_as_the_map_draws_them(data: dict[str, Any]) -> None:
    for section in data["sections"]:
        rows = [data["rows"][row]["name"] for row in section["rows"]]
        assert section["names"] == opening.drawn_names(rows)


@pytest.mark.slow
def test_a_task_with_tests_below_the_training_length_alone_is_left_out(tmp_path: Path) -> None:
    """Short texts may be all that a pretrained model was asked for."""
    short = [record(name, {0.25: 1.0, 0.5: 0.9}, task="passkey") for name in NAMES]
    usual = [record(name, {1: 1.0, 2: 0.9}) for name in NAMES]
    made = generate(tmp_path, [*short, *usual])
    assert "passkey" not in made.pages["leaderboard.md"]
    assert "passkey" in made.pages["leaderboard.csv"]
    assert "Nothing" not in made.pages["leaderboard.html"]
    assert generate(tmp_path, short).pages["leaderboard.html"]


@pytest.mark.slow
@pytest.mark.parametrize(("multiples", "solved"), [((1, 2), True), ((2, 4), False)])
def test_what_was_not_tested_at_1x_is_not_said_to_fail_there(
    tmp_path: Path, multiples: tuple[float, float], solved: bool
) -> None:
    """Lengths beyond that of its training may be all that a pretrained model was asked for."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    scores = dict.fromkeys(multiples, 0.1)
    found = [
        changed(record(name, scores, task=task), kind)
        for name in NAMES
        for task in ("copy", "passkey")
    ]
    made = generate(tmp_path, found)
    [table] = [
        each for each in made.pages["leaderboard.md"].split("\n## ") if each.startswith("copy\n")
    ]
    cells = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    at = [name.strip() for name in cells[0]].index("learned")
    assert {line[at].strip() for line in cells[2:]} == ({"0/1"} if solved else {NOTHING})
    assert ("fails at 1x" in made.pages["leaderboard.md"]) == solved
    assert ("fails at 1x" in made.pages["leaderboard.html"]) == solved
    assert "Add samples with texts=3." in made.pages["leaderboard.md"]
    [told, runs] = [
        pd.read_csv(io.StringIO(made.pages[f"{name}.csv"])) for name in ("leaderboard", "runs")
    ]
    assert runs["learned"].isna().all() != solved
    assert set(told["seeds_at_1x"]) == {int(solved)}


@pytest.mark.slow
def test_the_share_that_is_solved_is_one_of_what_was_tested_at_1x(tmp_path: Path) -> None:
    """Later texts may have been read at other lengths alone."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    found = [
        changed(record(name, dict.fromkeys(multiples, 1.0), seed, task=task), kind)
        for name in NAMES
        for task in ("copy", "passkey")
        for seed, multiples in enumerate([(1, 2, 8), (2, 8), (2, 8)])
    ]
    made = generate(tmp_path, found)
    assert " 1/1 |" in made.pages["leaderboard.md"] and "/3 |" not in made.pages["leaderboard.md"]
    [standing] = standings_without_board(MeasuredRuns.of(found))
    assert set(standing.summary["learned"]) == {1.0}


@pytest.mark.slow
def test_commands_of_ones_own_name_the_folder_of_its_files(tmp_path: Path) -> None:
    own = tmp_path / "my own"
    (own / "encoding").mkdir(parents=True)
    (own / "encoding/decay.yaml").touch()
    command = "python -m posbench encoding=decay seed=0"
    found = [changed(record("decay"), {"command": command}), record("rope")]
    page = generate(tmp_path, found, folders=[own]).pages["leaderboard.html"]
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    decay, rope = held_by(tmp_path / "page.html")["rows"]
    words = f"--config-dir '{own}' encoding=decay seed=0"
    assert decay["command"] == f"python -m posbench {words}"
    assert decay["explain"] == f"posbench explain {words}"
    assert "--config-dir" not in rope["command"]


@pytest.mark.slow
def test_two_names_of_the_same_settings_are_two_rows_with_their_own_details(tmp_path: Path) -> None:
    """The commands that make them, what explains them, and where their sources stood."""
    made = [
        changed(
            record(name, {1: 1.0, 2: 0.5}, method_hash="f" * 16),
            {"views": [view("depth", 20, (0, 0.5, 8, right, 1), (0.5, 1, 8, right, 1))]},
        )
        for name, right in (("one", 0.0), ("two", 1.0))
    ]
    save(tmp_path, *made)
    for each in made:
        names = (each.protocol.slug, each.task.slug)
        page = tmp_path / explanation_path(*names, [each.method.slug], each.seed)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("why")
    content = held_by(write(tmp_path))
    rows = {row["name"]: row for row in content["rows"]}
    assert {name: row["command"] for name, row in rows.items()} == {
        each.method.name: each.command for each in made
    }
    assert [len(row["explained"]) for row in rows.values()] == [1, 1]
    assert "one" in rows["one"]["explained"][0][1] and "two" in rows["two"]["explained"][0][1]
    [depths] = content["depths"]
    cells = {row["name"]: depths[str(number)] for number, row in enumerate(content["rows"])}
    assert cells == {"one": {"20": LETTERS[0] * 2}, "two": {"20": LETTERS[-1] * 2}}


@pytest.mark.slow
def test_a_row_leads_to_its_paper_code_and_configuration() -> None:
    made = [
        changed(record("rope"), {"config.encoding": ROPE}),
        changed(record("mine"), {"config.encoding": {"_target_": "mine.rope.RoPE"}}),
    ]
    measured = MeasuredRuns.of(made)
    standings = standings_without_board(measured)
    told = content(measured, standings, definition.load("main"), root="../")
    rope = ROPE["_target_"]
    assert told["papers"] == {rope: ["2104.09864"]}
    assert told["code"] == {rope: "posbench/encodings/rope.py"}
    assert {row["name"]: row["yaml"] for row in told["rows"]} == {
        "rope": ["encoding/rope"],
        "mine": [],
    }
    for name in [*told["code"].values(), "conf/encoding/rope.yaml"]:
        assert (TOP / name).is_file()


def test_code_is_linked_from_below_it_alone(tmp_path: Path) -> None:
    assert root_above(TOP / "results/main") == "../../"
    assert root_above(tmp_path) == ""


def test_no_name_ends_the_data() -> None:
    held = {"name": "</script><script>alert(1)</script>\u2028"}
    assert "<" not in as_script(held) and "\u2028" not in as_script(held)
    assert json.loads(as_script(held)) == held


@pytest.mark.slow
def test_the_page_of_a_smoke_run_says_first_that_its_numbers_mean_nothing(tmp_path: Path) -> None:
    for protocol in ("smoke", "cpu"):
        path = write(tmp_path / protocol, record("rope", protocol=protocol))
        page = path.read_text(encoding="utf-8")
        above = page[: page.index("</header>")]
        assert ("its accuracies mean nothing" in above) == (protocol == "smoke")


@pytest.mark.slow
def test_a_folder_without_a_score_at_8x_is_ranked_to_its_longest_length(tmp_path: Path) -> None:
    measured = MeasuredRuns.of(a_records())
    [standing] = standings_without_board(measured)
    assert standing.longest == 2.0
    # From 1 to .5 over the logarithm of the length; chance is .001.
    assert standing.summary.loc["rope", "reaches"] == pytest.approx(0.75, abs=1e-3)
    assert "Areas end at 2x." in write(tmp_path, *a_records()).read_text(encoding="utf-8")


def test_areas_to_a_common_length_are_over_true_multiples() -> None:
    """What the protocol calls 2x and 4x may be others of the positions."""
    true = {"rows.1.true_multiple": 1.5, "rows.2.true_multiple": 3.9}
    made = [changed(each, true) for each in seeds("rope", [{1: 1.0, 2: 1.0, 4: 0.0}] * 2)]
    [standing] = standings_without_board(MeasuredRuns.of(made))
    whole, half = math.log(1.5), math.log(3.9 / 1.5) / 2
    assert standing.longest == 4.0
    assert standing.summary.loc["rope", "reaches"] == pytest.approx(
        (whole + half) / math.log(3.9), abs=1e-3
    )


def test_areas_to_a_common_length_end_at_the_longest_that_stands_for_it() -> None:
    """Of two runs of a task, whose 4x is 3.7x and 3.9x of the positions; the former holds its last
    score up to there only within 5 %, and has no area.
    """
    short, long = seeds("rope", [{1: 1.0, 2: 1.0, 4: 0.0}] * 2)
    made = [
        changed(short, {"rows.2.true_multiple": 3.7}),
        changed(long, {"rows.2.true_multiple": 3.9}),
    ]
    [standing] = standings_without_board(MeasuredRuns.of(made))
    areas = standing.part.runs.set_index("seed")["area"]
    assert np.isnan(areas[0])
    whole, half = math.log(2), math.log(3.9 / 2) / 2
    assert areas[1] == pytest.approx((whole + half) / math.log(3.9), abs=1e-3)


def a_records() -> list[Record]:
    return seeds("rope", [{1: 1.0, 2: 0.5}, {1: 1.0, 2: 0.5}])


@pytest.mark.slow
def test_the_whole_main_board_fits_into_one_page(tmp_path: Path) -> None:
    """Of three seeds; another two add about 12 % to the size."""
    assert full_size.write(tmp_path / "main") > 8_000
    assert write(tmp_path / "main").stat().st_size < 2.2e6


# -- the map, and tables for papers ----------------------------------------------------------------


def map_of(standing: RankedRows, own: str = "", file: str = "") -> str:
    found = opening.picture(standing, own, file)
    assert found is not None
    return found.svg


@pytest.mark.slow
def test_the_map_shows_what_was_learned_what_was_not_and_what_was_not_run() -> None:
    made = [each for each in some_records() if (each.method.name, each.task.name) != ("t5", "copy")]
    lost = {"rows.0.proficiency": 0.1}
    made = [
        changed(each, lost) if (each.method.name, each.task.name) == ("rope", "copy") else each
        for each in made
    ]
    zero_shot, tuned = standings_without_board(MeasuredRuns.of(made))
    assert (zero_shot.placed, zero_shot.known) == (["nope", "alibi"], ["nope", "alibi", "rope"])
    drawn = map_of(zero_shot)
    assert drawn.count('class="heat"') == 5 and drawn.count("url(#hatch)") == 1
    assert "<style>" in map_of(zero_shot, file="map.svg") and "<style>" not in drawn
    assert map_of(tuned).count('class="heat"') == 1
    assert 'class="own"' in map_of(zero_shot, "rope")


@pytest.mark.slow
def test_a_page_opens_with_the_first_section_that_compares_rows(tmp_path: Path) -> None:
    """One row, and beside it, in another class, two; the areas end at 4x."""
    made = [
        changed(record(name, {1: 1.0, 2: low, 4: low}), {"method_class": kind})
        for name, low, kind in (
            ("nope", 0.9, "zero-shot"),
            ("rope", 0.5, "tuned"),
            ("t5", 0.4, "tuned"),
        )
    ]
    page = write(tmp_path, *made)
    above, _, _ = page.read_text(encoding="utf-8").partition('id="tables"')
    assert "“Tuned, protocol cpu” has 2 rows" in above and ">rope</text>" in above
    assert [each["longest"] for each in held_by(page)["sections"]] == [4.0, 4.0]


@pytest.mark.slow
def test_the_map_is_as_wide_as_its_last_name() -> None:
    long = [changed(each, {"task.name": "z" * 30}) for each in some_records()]
    for made, more in ((some_records(), 0), (long, 30)):
        [standing, _] = standings_without_board(MeasuredRuns.of(made))
        drawn = map_of(standing)
        width = int(re.findall(r'viewBox="0 0 (\d+) ', drawn)[0])
        last = float(re.findall(r"translate\((\d+)", drawn)[-1])
        assert width >= last + max(25, more * 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("longest", "said"),
    [
        (8, "test 8 times as many."),
        (32, "test 32 times as many, of which areas count those up to 8"),
    ],
)
def test_a_page_says_how_long_the_longest_test_is(tmp_path: Path, longest: int, said: str) -> None:
    scores = {1: 1.0, 2: 0.9, 4: 0.8, 8: 0.7, longest: 0.6}
    page = write(tmp_path, record("rope", scores)).read_text(encoding="utf-8")
    assert said in page[: page.index("</header>")]


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        (["rope", "rope+pi", "rope (encoding.base=5)"], ["rope", "+pi", "(base=5)"]),
        (
            ["a+b (extension.window=${positions:0.25})", "a+c (extension.near=1, extension.k=2)"],
            ["+b (window=0.25)", "+c (near=1, k=2)"],
        ),
        (["pi@model", "direct@model"], ["pi", "direct"]),
        (["rope+pi", "rope_short_base+pi"], ["rope+pi", "rope_short_base+pi"]),
        (["rope+pi"], ["rope+pi"]),
        (["fox (model.width=9)", "rope (model.width=9)"], ["fox", "rope"]),
        (
            ["rope (model.width=8)", "nope (model.width=9)"],
            ["rope (model.width=8)", "nope (model.width=9)"],
        ),
        (["rope+yarn (encoding.base=9)"], ["rope+yarn (base=9)"]),
    ],
)
def test_the_map_leaves_out_what_all_names_share(rows: list[str], drawn: list[str]) -> None:
    assert opening.drawn_names(rows) == drawn


@pytest.mark.slow
def test_curves_are_called_as_in_the_map(page: Page) -> None:
    page.run("D.sections[0].names = D.sections[0].names.map(name => `short ${name}`); picture()")
    ends = page.run("all('#picture text[class^=c]').map(each => each.textContent)")
    assert ends and {*ends} <= {*page.run("D.sections[0].names")}


def test_no_line_ends_between_a_number_and_percent(text: str) -> None:
    said = re.sub(r"<(script|style|title|table).*?</\1>|<[^>]*>", "", text, flags=re.S)
    assert "95\N{NO-BREAK SPACE}%" in said and not re.search(r"\d %", said)


def uneven_records() -> list[Record]:
    """Two tasks with two seeds, of which copy falls below chance; and a third seed of copy."""
    made = []
    for task, seeds_of_task in (("copy", 3), ("passkey", 2)):
        for seed in range(seeds_of_task):
            low = {"copy": 0.1, "passkey": 0.8}[task] + 0.02 * seed
            each = record("rope", {1: 1.0, 2: 0.9, 4: low, 8: low}, seed, task=task)
            made.append(plain(changed(each, {f"rows.{k}.chance": 0.5 for k in (2, 3)})))
    return made


@pytest.mark.slow
def test_tables_for_papers_are_the_same_twice(tmp_path: Path) -> None:
    save(tmp_path, *some_records())
    made = []
    for name in ("one.tex", "two.tex"):
        words = [str(tmp_path), "--latex", str(tmp_path / name)]
        assert leaderboard.main(words, emit=lambda line: None) == 0
        made.append((tmp_path / name).read_text())
    assert made[0] == made[1] and made[0].startswith("% Wri")
    assert "rope & " in made[0] and "\\begin{tabular}{lrrrr}" in made[0] and "reaches" in made[0]


def test_latex_shows_names_as_they_are() -> None:
    assert latex.escaped("a_b {c} 5 %") == r"a\_\allowbreak{}b \{c\} 5 \%"
    signs = (r"\textasciitilde{}", r"\textasciicircum{}", r"\textbackslash{}", r"\textless{}")
    assert latex.escaped("~^\\<") == "".join(signs)


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if found() is None:
        pytest.skip("there is no chromium on this machine")
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, folder: Path) -> Page:
    browser.errors.clear()
    browser.requests.clear()
    browser.open(folder / "leaderboard.html")
    return browser


def shown(page: Page) -> list[list[str]]:
    """The names in each ranked table that is shown, from above."""
    return page.run(
        "all('.ranked').filter(section => !section.hidden).map(section => "
        "all('tbody tr[data-r]', section).filter(line => !line.hidden)"
        ".map(line => one('button', line).textContent))"
    )


@pytest.mark.slow
def test_the_page_opens_without_an_error_and_asks_for_nothing(page: Page) -> None:
    assert page.run("all('#picture path.curve').length") == 3
    page.run("controls.section.value = 1; picture()")
    assert page.run("all('#picture path.curve title').map(each => each.textContent)") == ["t5"]
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("file:")] == []


@pytest.mark.slow
def test_a_heading_sorts_its_section_and_no_other(page: Page) -> None:
    assert shown(page) == [["nope", "alibi", "rope"], ["t5"]]
    page.click(".ranked thead th:first-child button")
    assert shown(page) == [["alibi", "nope", "rope"], ["t5"]]
    assert page.run("one('.ranked thead th').ariaSort") == "ascending"
    page.press("Enter")  # the button has the focus
    assert shown(page) == [["rope", "nope", "alibi"], ["t5"]]
    page.run("all('.ranked thead th button').find(b => b.textContent === 'reaches').focus()")
    page.press(" ")
    assert shown(page) == [["nope", "alibi", "rope"], ["t5"]]


@pytest.mark.slow
def test_filters_hide_rows_and_their_reset_shows_them(page: Page) -> None:
    page.press("/")
    page.press(*"op")
    assert shown(page) == [["nope", "rope"]]
    assert page.run("one('#count').textContent") == "2 of 4 rows"
    page.press("Escape")
    assert len(shown(page)[0]) == 3
    page.run("controls.class.value = 'tuned'; controls.class.dispatchEvent(new Event('change'))")
    assert shown(page) == [["t5"]]
    page.click("#reset")
    assert len(shown(page)) == 2


@pytest.mark.slow
def test_a_task_and_a_length_give_a_column_of_their_own(page: Page) -> None:
    task = page.run("D.tasks.findIndex(task => task.name === 'copy')")
    page.run(f"controls.task.value = {task}; controls.length.value = 4; filter()")
    column = "all('.ranked')[0].querySelectorAll('tbody tr[data-r] td:nth-of-type(1)')"
    assert page.run(f"[...{column}].map(cell => cell.textContent)") == [".94", ".54", ".34"]
    assert page.run("all('.ranked thead th')[1].textContent") == "copy at 4x"
    page.run("reset()")
    assert page.run("all('.ranked thead th')[1].hidden") is True


@pytest.mark.slow
def test_columns_are_chosen_in_all_ranked_tables(page: Page) -> None:
    visible = (
        "all('.ranked table').map(table => [...new Set([...table.rows].map(row => [...row.cells]"
        ".filter(cell => !cell.hidden).length))])"
    )
    headings = "all('.ranked thead')[0].innerText.split(/\\s*\\t/).filter(Boolean)"
    before, [first] = page.run(visible), page.run(f"[{headings}]")
    page.click("#columns summary")
    page.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    ends = page.run(
        "['#columns > div', '#controls'].map(name => one(name).getBoundingClientRect().bottom)"
    )
    assert ends[0] <= ends[1], "the list covers no heading"
    page.click("#columns input[value=learned]")
    assert page.run(visible) == [[count - 1 for count in counts] for counts in before]
    assert page.run(headings) == [name for name in first if name != "learned"]
    assert "learned" not in page.run("contents(one('.ranked table')).split('\\n')[0]")
    assert page.run("location.hash") == "#?without=learned"
    page.press("Escape")
    assert page.run("controls.columns.open") is False
    page.click("#reset")
    assert page.run(visible) == before and page.run("location.hash") == ""


@pytest.mark.slow
def test_the_script_draws_the_means_that_it_is_given(browser: Page, tmp_path: Path) -> None:
    browser.open(write(tmp_path, *uneven_records()))
    found = browser.run("meanCurve(0, D.sections[0]).map(point => [point.x, point.y])")
    measured = MeasuredRuns.of(uneven_records())
    [standing] = standings_without_board(measured)
    means = {each: standing.at(each).loc["rope", "number"] for each in standing.lengths}
    assert dict(found) == pytest.approx(means, abs=1e-3)
    browser.run("controls.length.value = 8; filter()")
    assert browser.run("one('.ranked tbody td').textContent") == ".31"


@pytest.mark.slow
def test_a_row_opens_with_the_keyboard_and_closes(page: Page) -> None:
    page.run("one('.ranked tbody tr button').focus()")
    page.press("Enter")
    assert page.run("one('.ranked tbody tr button').getAttribute('aria-expanded')") == "true"
    said = page.run("one('tr.detail').textContent")
    assert page.run("all('tr.detail .formula h3').map(each => each.textContent)") == ["RoPE"]
    assert "python -m posbench protocol=cpu" in said and "seeds 0, 1" in said
    assert "posbench explain protocol=cpu" in said
    assert page.run("all('circle', one('tr.detail .small-multiples')).length") == 6
    page.click(".ranked thead th:first-child button")
    assert page.run("one('tr.detail').previousElementSibling.textContent").startswith("nope")
    page.run("one('tr.open button').focus()")
    page.press("Enter")
    assert page.run("one('tr.detail')") is None


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True])
def test_a_formula_that_is_too_wide_is_reached_by_the_keyboard(page: Page, long: bool) -> None:
    words = "x" * (2000 if long else 1)
    page.run(f"for (const name in D.texts) D.texts[name] = '<p><math><mi>{words}</mi></math></p>'")
    page.run("toggle(lines[0].line, true)")
    assert page.run("one('tr.detail .formula').tabIndex") == (0 if long else -1)


@pytest.mark.slow
def test_two_rows_are_laid_over_each_other(page: Page, folder: Path) -> None:
    assert page.run("controls.compare.disabled") is True
    for place in (0, 1):
        page.run(f"all('.ranked tbody tr input')[{place}].focus()")
        page.press(" ")
    page.click("#compare")
    assert page.run("one('#comparison').open") is True
    said = page.run("one('#comparison').textContent")
    assert 'posbench.difference(table, "nope", "alibi")' in said
    runs = page.run("all('#comparison tbody tr').map(r => [...r.cells].map(c => c.textContent))")
    areas = {row[0]: row[1:] for row in runs}
    csv = pd.read_csv(folder / "leaderboard.csv").drop_duplicates(["task", "method"])
    for task, lines in csv.groupby("task"):
        of = lines.set_index("method")["reaches"]
        told = [of["nope"], of["alibi"], of["nope"] - of["alibi"]]
        assert [float(each) for each in areas[task]] == pytest.approx(told, abs=0.006)
    assert page.run("all('#comparison path.curve').length") == 2 * 2 + 2  # and two in the legend
    page.press("Escape")
    assert page.run("one('#comparison').open") is False


@pytest.mark.slow
def test_up_to_six_rows_are_compared(browser: Page, tmp_path: Path) -> None:
    names = [f"row_{place}" for place in range(7)]
    browser.open(
        write(tmp_path, *(record(name, {1: 1.0, 2: 0.1 * k}) for k, name in enumerate(names)))
    )
    for row in range(7):
        browser.run(f"choose({row}, true)")
        assert browser.run("controls.compare.disabled") is not (1 <= row <= 5)
    browser.run("choose(0, false)")
    browser.run("compare()")
    [areas] = browser.run(
        "all('#comparison tbody tr').map(r => [...r.cells].slice(1).map(c => +c.textContent))"
    )
    assert len(areas) == 6 and areas == sorted(areas) and areas[0] < areas[-1]
    assert browser.run("all('#comparison figure path.curve').length") == 6


@pytest.mark.slow
def test_a_page_that_is_loaded_again_is_as_it_was(browser: Page, folder: Path) -> None:
    path = folder / "leaderboard.html"
    browser.open(path)
    assert browser.run("location.hash") == ""
    task = browser.run("D.tasks.findIndex(task => task.name === 'copy')")
    browser.run("controls.text.value = 'op'; controls.length.value = 4")
    browser.run(f"controls.task.value = {task}; filter()")
    browser.run("choose(placeOf.get('nope'), true)")
    browser.run("toggle(lines.find(each => D.rows[each.row].name === 'rope').line, true)")
    browser.run("one('#columns input[value=bounds]').click()")
    address = browser.run("location.hash")
    browser.open_at("about:blank")
    browser.open_at(f"{path.resolve().as_uri()}{address}")
    assert shown(browser) == [["nope", "rope"]]
    assert browser.run("FIELDS.map(name => controls[name].value)") == (
        ["op", "", "", "", str(task), "4"]
    )
    assert browser.run("[...chosen].map(row => D.rows[row].name)") == ["nope"]
    assert browser.run("all('tr.open button').map(each => each.textContent)") == ["rope"]
    assert browser.run("[...without]") == ["bounds"]
    assert browser.run("location.hash") == address
    browser.run("toggle(one('tr.open'), false); reset()")
    assert browser.run("location.hash") == ""
    browser.run("location.hash = '#?task=no_such&open=9.none&host=unknown&text=t5'")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert shown(browser) == [["t5"]] and browser.run("controls.task.value") == ""


@pytest.mark.slow
def test_an_address_opens_the_fold_that_it_names(page: Page) -> None:
    page.run("location.hash = '#table-passkey'")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run("all('details.task').map(each => each.open)") == [False, True]


@pytest.mark.slow
def test_a_table_is_copied_and_saved_as_it_is_shown(page: Page) -> None:
    page.run("controls.text.value = 'op'; controls.length.value = 4; filter()")
    page.run("toggle(lines.find(each => D.rows[each.row].name === 'rope').line, true)")
    page.run(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => {"
        "window.copied = t}}})"
    )
    page.run(
        "HTMLAnchorElement.prototype.click = function () {"
        "window.saved = [this.download, this.href.slice(0, 5)]}"
    )
    page.run("all('.ranked .tools button')[0].click()")
    page.run("new Promise(done => setTimeout(done, 50))")
    lines = [line.split("\t") for line in page.run("window.copied").splitlines()]
    assert [line[:2] for line in lines] == [
        ["method", "all tasks at 4x"],
        ["nope", ".89"],
        ["rope", ".29"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert page.run("all('.ranked .tools [role=status]')[0].textContent") == "Copied."
    page.run("all('.ranked .tools button')[1].click()")
    assert page.run("window.saved") == ["Zero-shot, protocol cpu.csv", "blob:"]
    page.run("one('.ranked tbody tr').cells[1].textContent = 'a, \"b\"'")
    assert 'nope,"a, ""b"""' in page.run("contents(one('.ranked table'), true)")
    tables = page.run("[all('main table:not(.depth)').length, all('main .tools').length]")
    assert tables[0] == tables[1] >= 4


@pytest.mark.slow
def test_a_search_that_finds_nothing_says_so(page: Page) -> None:
    page.run("controls.text.value = 'zzz'; filter()")
    assert page.run("one('#none').hidden") is False
    assert "No row is called “zzz”" in page.run("one('#none').textContent")
    page.run("reset()")
    assert page.run("one('#none').hidden") is True


@pytest.mark.slow
def test_a_row_is_one_stop_of_the_tab_key(page: Page) -> None:
    row = "one('.ranked tbody tr[data-r]')"
    stops = f"all('input, button, a', {row}).filter(each => each.tabIndex >= 0).length"
    assert page.run(stops) == 1
    page.run(f"one('button', {row}).focus()")
    for key, what in (("ArrowLeft", "INPUT alibi"), ("ArrowRight", "BUTTON alibi")):
        page.press("ArrowDown" if key == "ArrowLeft" else key)
        page.press(key)
        at = "document.activeElement.tagName + ' ' + one('button', document.activeElement"
        assert page.run(f"{at}.closest('tr')).textContent") == what


@pytest.mark.slow
def test_the_keyboard_reaches_all_that_scrolls(browser: Page, folder: Path) -> None:
    """By itself, or by the buttons in it; not both."""
    browser.open(folder / "leaderboard.html", 390, 900)
    found = browser.run(
        "all('.scroll').map(box => [box.tabIndex === 0, !!box.querySelector('button, a, input')])"
    )
    assert [True, False] in found
    assert [False, True] in found
    assert all(itself != inside for itself, inside in found)


AXE = TOP / "node_modules/axe-core/axe.min.js"
"""Of `npm install --no-save axe-core`."""


@pytest.mark.slow
@pytest.mark.skipif(not AXE.is_file(), reason="npm install --no-save axe-core, then it is asked")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_no_fault(browser: Page, folder: Path, width: int, dark: bool) -> None:
    browser.dark(dark)
    browser.open(folder / "leaderboard.html", width, 900)
    browser.run(
        "all('details').forEach(each => { each.open = true; }); toggle(lines[0].line, true)"
    )
    browser.run(f"{AXE.read_text(encoding='utf-8')};1")
    faults = browser.run("axe.run().then(found => found.violations.map(each => each.id))")
    browser.dark(False)
    assert faults == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
def test_targets_headings_captions_and_colours_are_those_of_wcag(
    browser: Page, folder: Path, width: int
) -> None:
    browser.open(folder / "leaderboard.html", width, 900)
    browser.run(
        "all('details').forEach(each => { each.open = true; }); toggle(lines[0].line, true)"
    )
    small = browser.run(
        "all('button, input, select, summary, .tools a, nav a').map(each => [each.outerHTML,"
        " each.getBoundingClientRect()]).filter(([, box]) => box.width && (box.width < 23.9 ||"
        " box.height < 23.9)).map(([text, box]) => `${box.width} ${box.height} ${text}`)"
    )
    assert small == []
    levels = browser.run("all('h1, h2, h3, h4').map(each => +each.tagName[1])")
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    assert browser.run("all('main table:not(.depth)').every(each => each.caption)") is True
    for dark in (False, True):
        browser.dark(dark)
        ratios = browser.run(
            "(() => { const canvas = document.createElement('canvas').getContext('2d');"
            "const light = name => { canvas.fillStyle = getComputedStyle(document.documentElement)"
            ".getPropertyValue(name); const part = k => { const v = parseInt(canvas.fillStyle"
            ".slice(1 + 2 * k, 3 + 2 * k), 16) / 255; return v <= .04045 ? v / 12.92 :"
            " ((v + .055) / 1.055) ** 2.4; }; return .2126 * part(0) + .7152 * part(1)"
            " + .0722 * part(2); };"
            "const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);"
            " return (x + .05) / (y + .05); };"
            "return ['--ink', '--soft', '--link', ...[0,1,2,3,4,5,6,7].map(k => `--c${k}`)].map("
            "name => ratio(name, '--page')).concat(ratio('--ink', '--heat'),"
            " ratio('--soft', '--panel'), ratio('--warm', '--warmth')); })()"
        )
        assert min(ratios) >= 4.5
    browser.dark(False)


@pytest.mark.slow
def test_a_telephone_shows_numbers_and_nothing_is_wider_than_it(
    browser: Page, folder: Path
) -> None:
    browser.open(folder / "leaderboard.html", 380, 800)
    assert browser.run("document.documentElement.scrollWidth") <= 380
    right = browser.run("one('.ranked tbody td:not([hidden])').getBoundingClientRect().right")
    assert right < 380, "the overall number is seen without scrolling to the side"


@pytest.mark.slow
def test_only_tables_that_are_wider_than_the_page_scroll_to_the_side(
    browser: Page, folder: Path
) -> None:
    browser.open(folder / "leaderboard.html", 1250, 800)
    browser.run("one('.ranked table').style.minWidth = '1300px'")
    settled = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    browser.run(settled)
    assert browser.run("all('.ranked .scroll').map(box => box.classList.contains('whole'))") == [
        False,
        True,
    ]
    assert browser.run("document.documentElement.scrollWidth") <= 1250
    browser.run("one('.ranked table').style.minWidth = ''")
    browser.run(settled)
    browser.run("one('.ranked tbody').rows[0].scrollIntoView()")
    browser.run("scrollBy(0, -one('#controls').offsetHeight)")
    top, filters = browser.run(
        "[one('.ranked thead th').getBoundingClientRect().top, one('#controls').offsetHeight]"
    )
    assert abs(top - filters) < 2, "the headings stay in view, below the filters"


@pytest.mark.slow
def test_tables_are_there_where_scripts_are_not(browser: Page, folder: Path) -> None:
    browser.open(folder / "leaderboard.html", script=False)
    browser.shoot(folder / "bare.png")
    assert (folder / "bare.png").stat().st_size > 20_000
