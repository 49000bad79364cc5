"""A row of one's own among published ones: what is asked of it, where it stands, what is said."""

from __future__ import annotations

import functools
import html
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import browsing
from browser import found as browser
from making import DIRECT, changed, record
from test_boards import SMALL

from posbench.base.errors import PosbenchError
from posbench.boards.compare import command, of_task, report
from posbench.boards.compare.of_row import RowStanding, differences, standing
from posbench.boards.compare.of_task import TaskStanding, TaskSubject
from posbench.boards.compare.rivals import Rivals, RowKind, on_tasks_as_here, resolved
from posbench.boards.compare.subject import RowSubject, host, subject
from posbench.config import board as definition
from posbench.config import provenance
from posbench.config.board import Board
from posbench.config.compose import compose, composing
from posbench.records import files, tables
from posbench.records.published import publish, write
from posbench.records.record import Record
from posbench.running.run_spec import RunSpec
from posbench.showing.table import NOTHING, number
from posbench.statistics import standings

ROOT = Path(__file__).parents[1]
LENGTHS = (1, 1.25, 1.5, 2, 3, 4, 6, 8)


def board() -> Board:
    """Two groups; the rows rope, nope and rope_pi, with seeds 10 to 12."""
    return definition.read(SMALL, "small")


def made(method: str, level: float, task: str, seed: int, **more: str) -> Record:
    """A run that holds its level beyond 1x, as trained unless an extension is named."""
    scores = {multiple: 1.0 if multiple == 1 else level for multiple in LENGTHS}
    extension = more.pop("extension", "direct")
    found = record(method, scores, seed, task=task, extension=extension, **more)
    plain = {"config.extension": DIRECT} if extension == "direct" else {}
    return changed(found, plain)


def published(levels: Mapping[str, float] = {"rope": 0.4, "nope": 0.9}) -> list[Record]:
    return [
        made(method, level, task, seed)
        for method, level in levels.items()
        for task in board().all_tasks
        for seed in (10, 11, 12)
    ]


def own(level: float, tasks: tuple[str, ...] = (), **more: str) -> list[Record]:
    return [
        made("decay", level, task, seed, **more)
        for task in tasks or board().all_tasks
        for seed in (10, 11, 12)
    ]


@functools.cache
def stands(level: float, tasks: tuple[str, ...] = (), **more: str) -> RowStanding:
    return among(own(level, tasks, **more), published())


def among(own: list[Record], published: list[Record], *seeds: int) -> RowStanding:
    """Where runs stand among published ones, with the seeds of the board unless they are told."""
    return standing(own, rivals(own, published, *seeds), draws=200)


def rivals(own: list[Record], published: list[Record], *seeds: int) -> Rivals:
    return Rivals.of(published, RowKind.of(own[0]), board(), seeds or (10, 11, 12))


@pytest.mark.slow
def test_the_place_is_that_of_the_standings_of_all_rows_together() -> None:
    found = stands(0.6)
    assert list(found.summary.index) == ["nope", "decay", "rope"]
    whole = standings.summarise(
        tables.table([*published(), *own(0.6)]),
        board().all_tasks,
        draws=200,
        seed=board().judged.seed,
    ).droplevel("class")
    assert found.summary.loc["decay", "reaches"] == pytest.approx(whole.loc["decay", "reaches"])
    # The same distance from both, on all tasks alike.
    less = found.summary.loc["decay", "reaches"] - found.summary["reaches"]
    for row in ("nope", "rope"):
        assert found.rivals.loc[row, "difference"] == pytest.approx(less[row])
    assert (found.rivals["low"] <= found.rivals["difference"]).all()
    assert (found.rivals["difference"] <= found.rivals["high"]).all()
    assert found.kind == "zero-shot"


@pytest.mark.slow
def test_a_part_of_the_tasks_is_compared_on_that_part_alone() -> None:
    found = stands(0.6, tasks=("copy",))
    assert found.tasks == ("copy",)
    said = " ".join(report.sentences(found, board()))
    assert said.startswith("decay has learned 1 of 1 task of board small, with 3 of 3 trainings.")
    assert "95 %" not in said, "there is one task"
    lost = [changed(each, {"rows.0.proficiency": 0.1}) for each in own(0.6)]
    none = among(lost, published())
    assert none.places is None and none.rivals.empty
    said = report.text(none, board(), [])
    assert "has learned 0 of 4 tasks" in said and "how far it reaches is not known" in said


def test_rows_of_other_protocols_classes_tasks_and_hosts_are_no_rivals() -> None:
    own = [made("decay", 0.6, "copy", 10)]
    for other in (
        made("rope", 0.4, "copy", 10, protocol="cpu_wide"),
        made("rope", 0.4, "copy (task.num_symbols=4)", 10),
        changed(made("rope", 0.4, "copy", 10), {"method_class": "tuned"}),
        made("rope_pi", 0.4, "copy", 10, extension="pi", encoding="rope"),
        made("unlisted", 0.4, "copy", 10),
        made("rope", 0.4, "copy", 13),
    ):
        assert not rivals(own, [other]).offered
        with pytest.raises(PosbenchError, match="decay: none of board small is zero-shot"):
            among(own, [other])


@pytest.mark.slow
def test_an_extension_is_held_against_those_of_its_host() -> None:
    own = [made("rope_mine", 0.6, "copy", 10, extension="mine", encoding="rope")]
    theirs = [
        made("rope_pi", 0.4, "copy", 10, extension="pi", encoding="rope"),
        made("rope", 0.9, "copy", 10),
        made("nope", 0.9, "copy", 10),
    ]
    found = among(own, theirs)
    assert set(found.summary.index) == {"rope_mine", "rope_pi", "rope"}
    assert set(found.rivals.index) == {"rope_pi", "rope"}


@pytest.mark.slow
def test_a_row_that_is_published_already_is_told_apart_from_ones_own() -> None:
    own = [made("rope", 0.5, task, 10) for task in board().all_tasks]
    found = among(own, published())
    assert found.row == "rope (yours)" and "rope" in found.summary.index


def test_other_machines_and_versions_are_named() -> None:
    own = [changed(made("decay", 0.5, "copy", 10), {"training.versions.torch": "9.9"})]
    assert differences(own, published()) == [
        "Yours were trained with torch 9.9, the others with 2.9.0+cpu."
    ]
    moved = [changed(made("decay", 0.5, "copy", 10), {"training.device": "cuda"})]
    assert differences(moved, published()) == ["Yours were trained on cuda, the others on cpu."]
    assert differences(published(), published()) == []
    newer = [changed(made("decay", 0.5, "copy", 10), {"training.versions.posbench": "9.9"})]
    assert differences(newer, published()) == []  # the hashes of its code tell


def test_published_rows_of_the_same_training_may_have_other_weights() -> None:
    one = published()[0]
    rounded, other = (
        changed(one, {"training.curve.loss": [factor * x for x in one.training.curve.loss]})
        for factor in (1.0004, 1.01)
    )
    assert differences([one], [one, rounded]) == []
    assert differences([one], [changed(other, {"training.settings_hash": "another"})]) == []
    [said] = differences([one], [one, other])
    assert said.startswith(f"Some published rows of {one.task.label} (seed {one.seed}) come from")


@pytest.mark.slow
def test_the_report_says_the_place_and_the_table_has_our_row_in_bold() -> None:
    found = stands(0.6)
    said = report.text(found, board(), ["a note"])
    assert "It has the 2nd place of 3 zero-shot rows." in said and said.endswith("Note: a note")
    table = report.numbers(found)
    (ours,) = [row for row in table.rows if row.name == "decay"]
    assert table.headings[:4] == ["row", "learned", "tasks", "reaches"]
    assert ours.cells[:2] == ["100 %", "4/4"]
    reaches = found.summary.loc["decay", "reaches"]
    assert float(ours.cells[2]) == pytest.approx(reaches, abs=0.005)
    text = report.numbers(found).latex()
    assert r"\textbf{decay} & \textbf{100 \%}" in text and text.count(r"\\") == 1 + 3
    assert "| decay | 100 % | 4/4 |" in report.in_text(found, board(), []).markdown()


@pytest.mark.slow
def test_the_page_is_that_of_a_board_with_our_row_marked_and_open(tmp_path: Path) -> None:
    found = stands(0.6)
    said = list(report.sentences(found, board()))
    paths = report.write(found, board(), ["a note"], own(0.6), tmp_path)
    assert [path.name for path in paths] == ["decay.html", "decay.md", "decay.tex"]
    page = paths[0].read_text(encoding="utf-8")
    assert "<title>posbench: decay on board small</title>" in page and "<li>a note</li>" in page
    above = page[: page.index("</header>")]
    shown = [html.escape(each).replace(" %", "\N{NO-BREAK SPACE}%") for each in said]
    assert all(f'<p class="answer">{each}</p>' in above for each in shown)
    above_tasks = page[: page.index('id="task-by-task"')]
    rows = re.findall(r'<tr( id="own")?><th scope="row">(\w+)', above_tasks)
    assert rows == [("", "nope"), (' id="own"', "decay"), ("", "rope")]
    assert page.count('decay <span class="mark">yours</span>') == 1 + len(board().all_tasks)
    assert '<text class="own"' in page and ">decay</text>" in page, "it is in the first picture"
    assert "posbench compare</code>" in page and "leaderboard.csv" not in page
    sketch = {"path": "dense", "keys": "no keys", "quantity": "bias", "distances": [0]}
    sketch |= {"curves": [[0.0]], "map": "", "trained": 16}
    drawn = report.of_all(found.sketched(sketch), board(), []).html()
    (ours,) = re.findall(r'<tr id="own">.*', drawn)
    assert ours.endswith("<td>dense<td>no keys")


@pytest.mark.slow
def test_the_page_of_a_published_row_shows_both_and_their_runs_apart() -> None:
    levels = {"rope": 0.4, "nope": 0.9}
    mine = [made("rope", 0.5, "copy", seed) for seed in (10, 11)]
    page = report.of_all(among(mine, published(levels)), board(), []).html()
    held = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert held is not None
    data = json.loads(held[1])
    names = [row["name"] for row in data["rows"]]
    assert names == ["nope", "rope", "rope (yours)"]
    runs = {names[int(row)]: each[1][1] for row, each in data["curves"][0].items()}
    assert runs == {"nope": 900, "rope": 400, "rope (yours)": 500}


@pytest.mark.slow
def test_the_page_opens_with_our_row_chosen_and_what_it_is_behind_it(tmp_path: Path) -> None:
    if browser() is None:
        pytest.skip("there is no chromium on this machine")
    (path, *_) = report.write(stands(0.6), board(), [], own(0.6), tmp_path)
    with browsing(tmp_path / "profile") as page:
        page.open(path)
        assert page.errors == []
        assert page.run("[...chosen].map(row => D.rows[row].name)") == ["decay"]
        assert page.run("one('tr.detail').previousElementSibling.id") == "own"
        assert "posbench explain" in page.run("one('tr.detail').textContent")
        assert page.run("one('#picture text.c0').textContent") == "decay"


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_places_are_ordinals(number: int, said: str) -> None:
    assert report.ordinal(number) == said


# -- what the words choose -------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for group in ("encoding", "extension"):
        (tmp_path / group).mkdir()
        (tmp_path / group / "decay.yaml").write_text("_target_: decay.Decay\n")
    return tmp_path


def test_a_file_is_a_row_by_its_folder(mine: Path) -> None:
    main = definition.load("main")
    found = subject([str(mine / "encoding/decay.yaml"), "seed=10,11", "results_dir=x"], main)
    assert found.row == ("encoding=decay", "extension=direct") and found.folder == mine
    assert found.command(main, ["copy"], [10, 11]) == [
        *("--config-dir", str(mine), "-m", "protocol=cpu", "seed=10,11", "task=copy"),
        *("encoding=decay", "extension=direct", "results_dir=x", f"definition={main.hash}"),
    ]
    found = subject([str(mine / "extension/decay.yaml")], main)
    assert host(main) == "rope_short_base"
    assert found.row == ("encoding=rope_short_base", "extension=decay")


def test_a_file_may_be_named_from_beside_its_folder(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine / "extension")
    found = subject(["../encoding/decay.yaml"], definition.load("main"))
    assert found.row[0] == "encoding=decay" and found.folder == mine
    monkeypatch.chdir(mine / "encoding")
    assert subject(["decay.yaml"], definition.load("main")).folder == mine


def test_settings_belong_to_the_row_and_launchers_to_the_sweep() -> None:
    main = definition.load("main")
    found = subject(["method=rope", "encoding.base=500", "hydra/launcher=cores"], main)
    assert found.row == ("method=rope", "encoding.base=500")
    assert found.others == ("hydra/launcher=cores",) and found.settings == ()
    first = found.runs(main, ["copy", "sort"], [10, 11]).runs
    assert [words[1] for words in first] == ["task=copy", "task=sort"] * 2
    assert first[0][-1] == f"definition={main.hash}"


def test_tests_are_listed_as_a_sweep_lists_them() -> None:
    main = definition.load("main")
    found = subject(["method=rope", "seed=range(10,13)", "task=choice(copy,sort)"], main)
    assert found.tests == {"seed": ["10", "11", "12"], "task": ["copy", "sort"]}
    assert found.chosen_seeds(main, quick=True) == [10, 11, 12]
    again = subject(["+method=rope", "++seed=10", "+encoding.base=500"], main)
    assert again.tests == {"seed": ["10"]}
    assert again.row == ("+method=rope", "+encoding.base=500"), "for Hydra to refuse"


@pytest.mark.slow
def test_tasks_are_those_that_resolve_the_most_pairs_in_an_hour() -> None:
    """Five tasks cost alike: sort resolves all three pairs, copy one, and the others none."""
    main = definition.load("main")
    found = subject(["method=rope"], main)
    apart = {"sort": (0.2, 0.5, 0.8), "copy": (0.2, 0.8, 0.8)}
    tasks = ["copy", "reverse", "sort", "passkey", "induction"]
    rows = ("rope", "nope", "alibi")
    published = [
        made(row, apart.get(task, (0.5, 0.51, 0.5))[place], task, seed)
        for place, row in enumerate(rows)
        for task in tasks
        for seed in (10, 11, 12)
    ]
    known = Rivals.of(published, RowKind.of(published[0]), main, (10, 11, 12))
    worth = known.separating
    assert list(worth["resolved"]) == [3, 2, 0, 0, 0]
    assert list(worth.index[:2]) == ["sort", "copy"] and set(worth["pairs"]) == {3}
    [*_, first] = (each for each in published if each.task.label == "sort")
    seconds = first.training.cpu_seconds + first.evaluated.evaluation_cpu_seconds
    assert worth.loc["sort", "hours"] == pytest.approx(3 * seconds / 3600)
    assert worth.loc["sort", "rate"] == pytest.approx(3 / worth.loc["sort", "hours"])
    usual = found.chosen_tasks(known)
    assert usual[:2] == ["sort", "copy"] and len(usual) == 3, "an interval takes three"
    assert found.chosen_tasks(known, quick=True) == usual
    assert found.chosen_tasks(known, whole=True) == [t for t in main.all_tasks if t in tasks]
    assert found.chosen_seeds(main, quick=True) == [10]
    assert found.chosen_seeds(main, quick=False) == [10, 11, 12]
    here = ["passkey", "reverse", "copy", "induction"]
    assert set(found.chosen_tasks(known, trained=here)) == {*here}, "these need no training"
    assert found.chosen_tasks(known, trained=here[:2]) == usual, "two are too few"
    assert len(found.chosen_tasks(known, trained=here, quick=True)) == 3


def test_an_extension_goes_to_the_board_whose_weights_are_there(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = ["passkey_distractors", "language", "mqar_load"]
    monkeypatch.setattr(command, "_trained", lambda *_: kept)
    monkeypatch.setattr(command, "_extension", lambda row: row.row[1].partition("=")[2])

    def board_of(*words: str) -> str | None:
        row = subject(words, definition.load("main"))
        with composing():
            found = command._of_zoo(row, words, [])
        return found and found[1].name

    file = str(mine / "extension/decay.yaml")
    assert board_of(file) is None, "there is no zoo"
    zoo = tmp_path / "results/zoo/served.safetensors"
    zoo.parent.mkdir(parents=True)
    zoo.write_bytes(b"")
    assert board_of(file) is None, "and no records of that board"
    (tmp_path / "results/served/records").mkdir(parents=True)
    assert board_of(file) == "served"
    (tmp_path / "elsewhere").mkdir()
    assert board_of(file, f"zoo={tmp_path}/elsewhere") is None
    assert board_of(file, "seed=10") is None, "which is a seed of another board"
    assert board_of(str(mine / "encoding/decay.yaml")) is None, "it is trained anew"
    kept.pop()
    assert board_of(file) is None, "two tasks have no interval"


def test_pairs_are_resolved_by_their_differences_seed_by_seed() -> None:
    areas = np.array(
        [
            [0.10, 0.30, 0.50],  # seeds differ, rows do not
            [0.20, 0.40, 0.60],  # .1 above the first with every seed
            [0.21, 0.41, 0.61],  # .01 above that, which is too little
            [0.90, np.nan, np.nan],  # one seed says nothing
            [0.90, 0.10, np.nan],  # two that disagree
        ]
    )
    assert resolved(areas[:2], 0.02) == 1 and resolved(areas[1:3], 0.02) == 0
    assert resolved(areas[1:3], 0.005) == 1
    assert resolved(areas[[0, 3]], 0.02) == resolved(areas[[0, 4]], 0.02) == 0
    assert resolved(areas, 0.02) == 2 and resolved(areas[:0], 0.02) == 0


@pytest.mark.slow
def test_a_place_is_as_wide_as_what_is_not_shown_to_differ() -> None:
    """Rows at .1 and .9 on every task; ours is between, above or level with one."""
    others = published({"rope": 0.1, "nope": 0.9})

    def said(level: float) -> str:
        return report.place(among(own(level), others))

    assert said(0.6) == "It has the 2nd place of 3 zero-shot rows."
    assert said(0.95) == "It has the 1st place of 3 zero-shot rows."
    between = (
        "Its place is between the {} of 3 zero-shot rows: it is not shown to differ from 1 other."
    )
    assert said(0.9) == between.format("1st and the 2nd")
    assert said(0.1) == f"{between.format('2nd and the 3rd')} nope reaches further."
    assert report.place(among(own(0.9), published({"rope": 0.9}))) == (
        "Its place is open: it is not shown to differ from any other of 2 zero-shot rows."
    )
    few = own(0.9, tasks=board().all_tasks[:3])
    assert report.place(among(few, published({"rope": 0.9}))).endswith(
        " rows. On 3 tasks that is usual: compare on more."
    )
    two = among(own(0.6, tasks=board().all_tasks[:2]), others)
    assert two.places is None
    assert (
        report.place(two)
        == "It has no place yet: an interval takes three tasks that it has learned."
    )


@pytest.mark.slow
def test_one_comparison_that_was_planned_is_not_corrected() -> None:
    others, ours = published(), own(0.6)

    def said(than: str) -> str:
        found = standing(ours, rivals(ours, others), draws=200, than=than)
        assert than in found.rivals.index, "it is in the table, near or not"
        [line] = [each for each in report.sentences(found, board()) if each.startswith("It minus")]
        return line

    line = stands(0.6).others.loc["rope"]
    assert said("rope").startswith(f"It minus rope is {number(line['difference'])} (95 % ")
    assert "4 tasks): it reaches further. This is one comparison" in said("rope")
    assert "it reaches less far." in said("nope")
    assert report.one_comparison(among(ours, published({"rope": 0.6})), "rope").startswith(
        "It minus rope is .00 (95 % .00 to .00, 4 tasks): it is not shown to differ."
    )
    few = own(0.6, tasks=board().all_tasks[:2])
    assert report.one_comparison(among(few, others), "nope").endswith(
        "on 2 tasks. An interval takes three tasks that both have learned."
    )
    # One p of many is corrected for them, and this one is not.
    one_of_many = stands(0.6).others.assign(p=0.03, p_holm=0.15)
    found = replace(stands(0.6), others=one_of_many)
    assert "it reaches further." in report.one_comparison(found, "rope")
    assert not found.shown(1)
    assert not [line for line in report.sentences(stands(0.6), board()) if "It minus" in line]


def test_the_frame_has_the_numbers_of_the_report() -> None:
    found = stands(0.6)
    frame = found.frame()
    assert list(frame.index) == list(found.summary.index) and frame.index.name == "row"
    assert list(frame.index[frame["yours"]]) == ["decay"]
    assert frame.loc["decay", ["best_place", "worst_place"]].tolist() == [2, 2]
    assert frame.loc["rope", ["best_place"]].isna().all()
    assert frame.loc["decay", "reaches"] == found.summary.loc["decay", "reaches"]
    shown = {line.name: line.cells for line in report.numbers(found).rows}
    for row, cells in shown.items():
        line = frame.loc[row]
        assert cells[1] == f"{line['tasks']}/{line['of']}"
        assert cells[2] == number(line["reaches"])
        if row != "decay":
            assert cells[4].startswith(number(line["difference"]))


def of_main(tasks: Iterable[str], **others: Iterable[str]) -> Rivals:
    """The main board with a run of RoPE, and of other rows, on each of their tasks."""
    rows = {"rope": tasks, **others}
    found = [made(row, 0.5, task, 10) for row, tasks in rows.items() for task in tasks]
    return Rivals.of(found, RowKind.of(found[0]), definition.load("main"), (10,))


@pytest.mark.slow
def test_a_row_is_compared_on_the_tasks_that_most_rivals_have() -> None:
    """Two rows have them all: on these nobody else would be left. One in ten may wait."""
    main = definition.load("main")
    found = subject(["method=rope", "encoding.base=500"], main)
    few = ["copy", "passkey"]
    published = of_main(main.all_tasks, nope=main.all_tasks, alibi=few, t5=few, fox=few)
    assert set(found.chosen_tasks(published, quick=False)) == set(few)
    assert set(found.chosen_tasks(published, quick=True)) == set(few)
    said = list(published.remarks(few))
    assert len(said) == 1 and said[0].startswith("Board main is under way: fewer than 90 % of its")
    assert "reverse, key_value_retrieval" in said[0] and "task=reverse compares" in said[0]
    names = ["nope", "t5", "fox", "cable", "path", "fire", "wall", "cope", "shaw"]
    nine = of_main(main.all_tasks, alibi=few, **dict.fromkeys(names[1:], main.all_tasks))
    assert found.chosen_tasks(nine, whole=True) == list(main.all_tasks), "nine in ten are enough"


def test_rows_that_stand_aside_are_named_with_what_they_lack() -> None:
    few = ["copy", "passkey"]
    published = of_main([*few, "sort", "reverse"], alibi=few, t5=few, nope=["copy"], fox=["sort"])
    named = subject(["method=rope", "encoding.base=500", "task=passkey,reverse"], published.board)
    assert named.chosen_tasks(published, quick=False) == ["passkey", "reverse"]
    _, *aside = published.remarks(["passkey", "reverse"])
    assert aside == [
        "2 rows are left out, which have no run on reverse with these seeds: alibi, t5.",
        "2 rows are left out, which have no run on any of these tasks with these seeds: fox, nope.",
    ]


@pytest.mark.slow
def test_all_rows_are_held_against_each_other_on_the_same_seeds() -> None:
    rope = lucky_rope()
    nope = [made("nope", 0.5, task, 10) for task in board().all_tasks]
    again = [changed(each, {"method.name": "decay"}) for each in rope if each.seed == 10]
    one = among(again, [*rope, *nope], 10)
    assert one.summary.loc["decay", "reaches"] == one.summary.loc["rope", "reaches"]
    assert list(one.summary.index)[-1] == "nope"
    assert not list(rivals(again, [*rope, *nope], 10).remarks(board().all_tasks))
    three = [changed(each, {"method.name": "decay"}) for each in rope]
    found = among(three, [*rope, *nope])
    assert found.summary.loc["decay", "reaches"] == found.summary.loc["rope", "reaches"]
    assert found.summary.index[0] == "nope"
    assert list(rivals(three, [*rope, *nope]).remarks(board().all_tasks)) == [
        "1 of 2 published rows lacks some of the seeds 10, 11, 12, and counts with the others: "
        "nope."
    ]
    with pytest.raises(PosbenchError, match="with decay for seed 13: choose among 10, 11, 12 with"):
        among(three, [*rope, *nope], 13)


def lucky_rope() -> list[Record]:
    """RoPE with three seeds, of which the first was lucky: a mean of .4."""
    levels = {10: 0.9, 11: 0.2, 12: 0.1}
    return [made("rope", levels[seed], task, seed) for seed in levels for task in board().all_tasks]


@pytest.mark.slow
def test_a_row_that_was_stopped_is_held_against_the_seeds_that_it_has() -> None:
    """It has another seed of its first task alone, and no run of the last."""
    first, *others, last = board().all_tasks
    own = [made("decay", 0.5, task, 10) for task in (first, *others)]
    own.append(made("decay", 0.5, first, 11))
    held = rivals(own, published()).beside(own)
    tests = {(each.task.label, each.seed) for each in held.records}
    assert tests == {(first, 10), (first, 11), *((task, 10) for task in others)} | {
        (last, seed) for seed in (10, 11, 12)
    }
    assert not list(held.remarks((first, *others))), "no row lacks a seed of these"
    rope = lucky_rope()
    one = [made("decay", 0.5, task, 10) for task in board().all_tasks]
    assert standing(one, rivals(one, rope), draws=200).rows[0] == "decay", "a mean of .4"
    assert standing(one, rivals(one, rope).beside(one), draws=200).rows[1] == "decay"


def test_tasks_that_no_row_has_together_are_refused() -> None:
    published = of_main(["copy"], nope=["sort"])
    published.refuse_lack(["copy"])
    with pytest.raises(PosbenchError, match="with rope on copy, sort: no row has all of them"):
        published.refuse_lack(["copy", "sort"])
    published.refuse_unknown("nope", ["sort"])
    with pytest.raises(PosbenchError, match="--than nope has no run on copy: choose among sort"):
        published.refuse_unknown("nope", ["copy"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["decay"], "decay is neither a YAML file nor key=value"),
        (["nowhere/encoding/decay.yaml"], "nowhere/encoding/decay.yaml is no file"),
        (["nowhere/encoding/decay.yml"], "reads *.yaml alone: rename it to decay.yaml"),
        (["task=copy"], "there is nothing to compare"),
        (["method=ropee"], "method=ropee is unknown: did you mean rope?"),
        (["method=rope", "protocol=cpu,gpu"], "protocol=cpu,gpu: a board has one protocol"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(PosbenchError) as raised:
        subject(words, definition.load("main"))
    assert said in str(raised.value)


@pytest.mark.slow
def test_a_file_in_a_folder_that_says_nothing_is_refused(mine: Path) -> None:
    (mine / "decay.yaml").write_text("_target_: decay.Decay\n")
    with pytest.raises(PosbenchError, match="put it into one of encoding/"):
        subject([str(mine / "decay.yaml")], definition.load("main"))
    (mine / "encoding/de,cay.yaml").write_text("_target_: decay.Decay\n")
    with pytest.raises(PosbenchError, match="cannot be chosen, because encoding=de,cay is not"):
        subject([str(mine / "encoding/de,cay.yaml")], definition.load("main"))
    found = subject([str(mine / "encoding/decay.yaml")], definition.load("main"))
    with pytest.raises(PosbenchError, match="task=nothing is unknown"):
        chosen(found, task="nothing")
    with pytest.raises(PosbenchError, match="seed=3 is unknown"):
        chosen(found, seed="3")
    with pytest.raises(PosbenchError, match="task=sort: there is no published run to compare with"):
        chosen(found, task="sort")


def chosen(found: RowSubject, **tests: str) -> None:
    subject = RowSubject(
        found.row, {key: [value] for key, value in tests.items()}, (), found.folder
    )
    subject.chosen_tasks(of_main(["copy"]), quick=False)
    subject.chosen_seeds(definition.load("main"), quick=False)


# -- a task of one's own ---------------------------------------------------------------------------


def on_count(levels: Mapping[str, float], seeds: tuple[int, ...] = (10, 11, 12)) -> list[Record]:
    return [made(row, level, "count", seed) for row, level in levels.items() for seed in seeds]


def placed(levels: Mapping[str, float], known: Mapping[str, float] = {}) -> TaskStanding:
    return TaskStanding.of(on_count(levels), published(known), board())


@pytest.mark.slow
def test_a_task_ranks_its_rows_and_agrees_with_the_board_or_not() -> None:
    levels = {"rope": 0.2, "nope": 0.5, "alibi": 0.8}
    alike = placed(levels, levels)
    assert list(alike.summary.index) == ["alibi", "nope", "rope"]
    assert alike.agreement == 1.0
    against = placed(levels, {"rope": 0.8, "nope": 0.5, "alibi": 0.2})
    assert against.agreement == -1.0
    first, apart, last = of_task.sentences(against, board())
    assert apart == "It separates rows: the interval of alibi is above those of nope, rope."
    assert first.startswith("count: 3 of 3 rows learn it") and first.endswith("(alibi).")
    assert "over 3 rows: -1.00." in last
    cells = {row.name: row.cells for row in of_task.table(alike).rows}
    assert cells["rope"][2] == cells["rope"][-1], "the same levels here and on the board"


def test_one_seed_of_a_task_has_no_interval_and_shows_no_difference() -> None:
    alone = TaskStanding.of(on_count({"rope": 0.2, "alibi": 0.8}, seeds=(10,)), [], board())
    assert alone.summary[["low", "high"]].isna().all(axis=None)
    assert [row.cells[3] for row in of_task.table(alone).rows] == [NOTHING, NOTHING]
    assert list(of_task.sentences(alone, board()))[-1] == (
        "Without intervals it does not show these rows to differ: run more seeds."
    )


@pytest.mark.slow
def test_rows_that_have_not_learned_a_task_agree_with_nothing() -> None:
    levels = {"rope": 0.2, "nope": 0.5, "alibi": 0.8, "fox": 0.9}
    learned = [each for each in on_count(levels) if each.method.label in ("rope", "alibi")]
    others = [
        record(row, dict.fromkeys(LENGTHS, 0.5), seed, task="count")
        for row in ("nope", "fox")
        for seed in (10, 11, 12)
    ]
    found = TaskStanding.of([*learned, *others], published(levels), board())
    assert sorted(found.known.index) == ["alibi", "rope"]
    assert not [each for each in of_task.sentences(found, board()) if "Rank correlation" in each]


def test_a_first_row_without_an_interval_is_not_said_to_vary_much() -> None:
    found = [*on_count({"alibi": 0.9}, (10,)), *on_count({"rope": 0.3, "nope": 0.2})]
    said = list(of_task.sentences(TaskStanding.of(found, [], board()), board()))
    assert said[-1] == "Without intervals it does not show these rows to differ: run more seeds."


@pytest.mark.slow
def test_of_a_task_is_said_what_is_wrong_with_it() -> None:
    assert "It does not show these rows to differ." in of_task.text(
        placed({"rope": 0.95, "nope": 0.96}), board(), []
    )
    unlearned = [
        record(row, dict.fromkeys(LENGTHS, level), seed, task="count")
        for row, level in {"rope": 0.5, "nope": 0.9}.items()
        for seed in (10, 11, 12)
    ]
    found = TaskStanding.of(unlearned, [], board())
    assert "No row learns it at the length of training" in of_task.text(found, board(), [])
    with pytest.raises(PosbenchError, match="count has areas of 1 row, and two are the least"):
        placed({"rope": 0.5})
    panel = definition.load("until_solved")  # it has tasks, and no groups
    found = TaskStanding.of(on_count({"rope": 0.5, "nope": 0.4}), published(), panel)
    assert found.known.empty and "Rank correlation" not in of_task.text(found, panel, [])


def test_files_of_a_task_and_of_rows_stand_in_one_folder(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "task").mkdir(exist_ok=True)
    (mine / "task/count.yaml").write_text("task: {_target_: nowhere.Count}\n")
    words = [str(mine / "task/count.yaml"), "--config-dir", str(tmp_path / "other")]
    (tmp_path / "other").mkdir()
    assert command.main(words) == 1
    assert "task count is not in" in capsys.readouterr().err


def test_one_folder_is_taken(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--config-dir", str(tmp_path / "other"), "--config-dir", str(mine)]
    assert command.main(["encoding=decay", "--no-training", *folders]) == 1
    assert f"{tmp_path / 'other'} and {mine}: what is compared lies" in capsys.readouterr().err


def test_the_file_of_a_task_trains_the_rows_that_the_board_refers_to(mine: Path) -> None:
    main = definition.load("main")
    (mine / "task").mkdir()
    path = mine / "task/count.yaml"
    path.write_text("task: {_target_: count.Count}\n")
    assert TaskSubject.of([str(mine / "encoding/decay.yaml")], main, quick=False) is None
    found = TaskSubject.of(
        [str(path), "training.steps=9", "hydra/launcher=cores"], main, quick=True
    )
    assert found is not None and (found.rows, found.seeds) == (main.references, (10,))
    assert found.command == [
        *("--config-dir", str(mine), "-m", "protocol=cpu", "seed=10"),
        *(f"method={','.join(main.references)}", "task=count"),
        *("training.steps=9", "hydra/launcher=cores"),
    ]
    assert found.runs.runs[1] == (
        *("protocol=cpu", "task=count", "method=rope_qk_norm", "seed=10", "training.steps=9"),
    )
    other = TaskSubject.of([str(path), "method=fox,rope", "seed=12"], main, quick=False)
    assert other is not None and (other.rows, other.seeds) == (("fox", "rope"), (12,))
    with pytest.raises(PosbenchError, match="method=foxx is unknown: did you mean fox"):
        TaskSubject.of([str(path), "method=foxx"], main, quick=False)
    with pytest.raises(PosbenchError, match=r"fox alone is to be trained on count, and two are"):
        TaskSubject.of([str(path), "method=fox"], main, quick=False)
    windows = definition.load("windows")
    with pytest.raises(PosbenchError, match=r"no row is to be trained on count, and two are"):
        TaskSubject.of([str(path)], windows, quick=False)
    with pytest.raises(PosbenchError, match=r"encoding=alibi: all rows would have it"):
        TaskSubject.of([str(path), "encoding=alibi"], main, quick=False)
    with pytest.raises(PosbenchError, match="a task is compared by itself"):
        TaskSubject.of([str(path), str(mine / "encoding/decay.yaml")], main, quick=False)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sweeps that were called for: they make nothing, because that is tested elsewhere."""
    monkeypatch.chdir(tmp_path)  # where no records tell costs
    ran: list[list[str]] = []

    def failed(words: list[str]) -> int:
        ran.append(words)
        return 1

    monkeypatch.setattr(command, "_swept", failed)
    return ran


def as_here(*found: Record) -> list[Record]:
    """Records of the protocol and the tasks that we have."""
    wanted = {}
    with composing():
        for task in {each.task.name for each in found}:
            wanted[task] = RunSpec.of(compose("protocol=cpu", f"task={task}")).fingerprint
    return [
        changed(
            each,
            {
                "protocol.hash": wanted[each.task.name].protocol,
                "task.hash": wanted[each.task.name].task,
                "task_version": wanted[each.task.name].task_version,
            },
        )
        for each in found
    ]


def complete(*words: str) -> None:
    """Make the record of a run with seed 10, as if it were complete."""
    with composing():
        spec = RunSpec.of(compose("protocol=cpu", *words))
    now = spec.fingerprint
    found = changed(
        made("rope", 0.6, spec.identity.task.name, 10),
        {
            **{f"{part}.hash": getattr(now, part) for part in ("protocol", "task")},
            "method": spec.identity.method.model_dump(),
            "task_version": now.task_version,
            "training.source_hash": now.training,
            "evaluated.source_hash": now.evaluation,
            "training.versions": provenance.versions(),
            "evaluated.versions": provenance.versions(),
        },
    )
    files.write(found, spec.path)


@pytest.fixture
def against(tmp_path: Path) -> list[str]:
    """Published records of the cpu protocol and of tasks as they are."""
    publish(as_here(*published()), [], tmp_path / "published")
    return ["--against", str(tmp_path / "published")]


@pytest.mark.slow
def test_what_is_missing_is_made(
    tmp_path: Path,
    swept: list[list[str]],
    against: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["method=rope", "encoding.base=500", "task=copy", f"results_dir={tmp_path}/a b"]
    assert command.main([*words, "--against", str(tmp_path)]) == 1
    assert not swept and "holds no records to compare with" in capsys.readouterr().err
    assert command.main([*words, *against]) == 1
    said = capsys.readouterr()
    assert "none of its runs is complete" in said.err and "same command makes" not in said.err
    *python, quiet = swept[0]
    words_of_sweep = python[python.index("posbench") + 1 :]
    seen = {"", str(Path.cwd())} & {*sys.path}
    assert ("-P" in python) == (not seen), "modules of this folder only as here"
    assert f"python -m posbench {shlex.join(words_of_sweep)}\n" in said.out, "it can be copied"
    assert quiet == command.QUIET and "CPU time" not in said.out, "the sweep says its cost"
    assert (
        words_of_sweep[0] == "-m"
        and "seed=10,11,12" in swept[0]
        and "encoding.base=500" in swept[0]
    )
    assert command.main([*words, "--no-training", *against]) == 1
    assert len(swept) == 1
    assert "the same command without --no-training makes them" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_that_was_stopped_ends_with_the_report_of_what_is_there(
    tmp_path: Path,
    swept: list[list[str]],
    against: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "_swept", lambda words: 130)
    words = ["method=rope", "encoding.base=500", "task=copy", f"results_dir={tmp_path}"]
    stopped = (
        "posbench: stopped by SIGINT; the same command goes on from here, and with --no-training "
        "reports what there is.\n"
    )
    assert command.main([*words, *against]) == 130
    assert capsys.readouterr().err == stopped
    complete(*words, "seed=10")
    assert command.main([*words, *against]) == 130
    said = capsys.readouterr()
    assert said.err == stopped and "It has no place yet: an interval takes three tasks" in said.out
    assert "Note: 2 runs missing: the same command makes them." in said.out
    assert "Note: This covers 1 task and 1 seed of the board." in said.out
    assert "lack some of the seeds" not in said.out and "lacks some" not in said.out
    assert command.main([*words, "--no-training", *against]) == 1
    missing = "2 runs missing: the same command without --no-training makes them."
    assert missing in capsys.readouterr().out


def test_ctrl_c_waits_for_the_sweep_which_gets_it_as_well() -> None:
    parent = "time.sleep(1); os.kill(os.getppid(), signal.SIGINT); time.sleep(1)"
    script = f"import os, signal, time; {parent}; exit(130)"
    assert command._swept([sys.executable, "-c", script]) == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["method=rope_yarn_tuned"], "none of board main is tuned on rope, under protocol cpu"),
        (["method=rope", "protocol=cpu_wide"], "is zero-shot as trained, under protocol cpu_wide"),
        (["method=alibi", "extension=log_n"], "none of board main is zero-shot on alibi"),
        (["method=rope", "seed=14"], "for seed 14: choose among 10, 11, 12 with seed="),
        (["method=rope", "task=sort"], "task=sort: there is no published run to compare with"),
        (
            ["method=rope", "task=copy", "task.num_symbols=8"],
            "with task.num_symbols=8 copy is another",
        ),
        (["method=rope", "training.steps=500"], "copy is another task than that of board main"),
        (["method=rope", "--board", "replications"], "board replications runs experiments"),
        (["method=rope", "--than", "noppe"], "row of this kind has that name: did you mean nope?"),
    ],
)
def test_what_nothing_can_be_held_against_is_refused_before_it_is_trained(
    words: list[str],
    said: str,
    tmp_path: Path,
    swept: list[list[str]],
    against: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main([*words, *against, f"results_dir={tmp_path}"]) == 1
    assert not swept and said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["method=rope", "encoding.base=500,1000"], "encoding.base=500,1000 lists several values"),
        (["method=rope,alibi"], "method=rope,alibi lists several values, and one row is compared"),
        (["method=rope", "model.qk_norm=true,false"], "and one row is compared at a time: choose"),
    ],
)
def test_several_values_are_answered_without_a_word_of_sweeps(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 1
    answer = capsys.readouterr().err
    assert said in answer and "-m" not in answer.split()


@pytest.mark.slow
def test_runs_that_are_forced_are_found_once_they_are_made(
    tmp_path: Path,
    swept: list[list[str]],
    against: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """force=true repeats them, and stands in the way of nothing that comes after."""
    words = ["method=rope", "encoding.base=500", "task=copy", "seed=10", f"results_dir={tmp_path}"]
    complete(*words)
    for word in ("force=true", "++force=true"):
        assert command.main([*words, word, *against]) == 0
        assert "It has no place yet: an interval takes three tasks" in capsys.readouterr().out
        assert word in swept.pop()
    assert command.main([*words, "force=true", "--no-training", *against]) == 0
    assert not swept


@pytest.mark.slow
def test_records_of_earlier_code_are_named_where_runs_are_missing(
    tmp_path: Path,
    swept: list[list[str]],
    against: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["method=rope", "encoding.base=500", "task=copy", f"results_dir={tmp_path}"]
    complete(*words, "seed=10")
    [path] = files.loose(tmp_path)
    earlier = changed(files.read(path), {"training.source_hash": "0" * 16})
    files.write(earlier, path)
    assert command.main([*words, "seed=10", "--no-training", *against]) == 1
    said = "though 1 run has a record of earlier code or settings: the same command without --no-tr"
    assert said in capsys.readouterr().err
    complete(*words, "seed=10")
    files.write(earlier, path.with_name("seed=11.json"))
    assert command.main([*words, "--no-training", *against]) == 1  # as two are missing
    out = capsys.readouterr().out
    assert "2 runs missing, though 1 run has a record of earlier code or settings: " in out


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"task_version": 99}, {"task.hash": "f" * 16}])
def test_runs_of_another_version_of_a_task_are_not_compared_and_that_is_said(
    other: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On copying only nope has runs of the task that we have."""
    words = ["method=rope", "encoding.base=500", "seed=10", f"results_dir={tmp_path}"]
    found = [
        changed(each, other) if (each.method.name, each.task.name) == ("rope", "copy") else each
        for each in as_here(*published())
    ]
    publish(found, [], tmp_path / "published")
    for task in ("copy", "reverse"):
        complete(*words, f"task={task}")
    words += ["--no-training", "--against", str(tmp_path / "published")]
    assert command.main([*words, "task=copy"]) == 0
    said = capsys.readouterr().out
    assert "It has no place yet: an interval takes three tasks" in said
    assert "with other defaults, are not compared: they are of copy." in said
    assert command.main([*words, "task=reverse"]) == 0
    assert "It has no place yet: an interval takes three tasks" in capsys.readouterr().out
    write([changed(each, other) for each in found], [], tmp_path / "published")
    assert command.main([*words, "task=copy"]) == 1
    assert "holds no records on the tasks of board main as they are" in capsys.readouterr().err


def test_a_mistake_ends_the_command_with_one_sentence(
    against: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["method=rope", "encoding.bass=500", "--no-training", *against]) == 1
    said = capsys.readouterr().err
    assert said.startswith("posbench: ") and said.count("\n") == 1 and "bass" in said


# -- what the documentation says of it -------------------------------------------------------------


@pytest.mark.slow
def test_the_documentation_says_how_many_tasks_are_trained() -> None:
    main = definition.load("main")
    found = subject(["method=rope", "encoding.base=500"], main)
    with composing():
        kind = RowKind.of_words(found.runs(main, main.all_tasks[:1], [10]).runs[0])
        here, _ = on_tasks_as_here(files.records(ROOT / "results/main"), main, "cpu")
        rivals = Rivals.of(here, kind, main, found.chosen_seeds(main, quick=False))
        quick, usual = (len(found.chosen_tasks(rivals, quick=each)) for each in (True, False))
    text = (ROOT / "docs/extending.md").read_text("utf-8")
    assert (quick, usual) == (3, 6)
    assert "trains three tasks with one seed, and the second six tasks with three" in text


def test_with_too_few_tasks_for_an_interval_the_report_asks_for_tasks_before_seeds() -> None:
    offered = [record("rope", {1: 1.0}, seed) for seed in (10, 11)]
    rivals: Any = SimpleNamespace(
        offered=offered, common=[*"abcd"], tried=[], separating=pd.DataFrame(index=[*"dbca"])
    )
    mine: Any = SimpleNamespace(tests={"task": "a"}, folder=None)
    few, enough = (
        [*command._next(mine, rivals, tasks, [10], offered[0])] for tasks in ("a", "abd")
    )
    assert few == ["Next, on enough tasks for an interval: the same command with task=a,d,b"]
    assert enough == ["Next, with 1 further seed: the same command with seed=10,11"]
