"""What a board is said to have found, on records whose order is known."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from making import changed, record

from posbench.boards import findings, opening, tables
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.page import generate
from posbench.boards.ranking import RankedRows, standings_of, standings_without_board
from posbench.config import board as definition
from posbench.config.board import Board
from posbench.records.record import Record

MULTIPLES = (1, 2, 4, 8)
TASKS = ("copy", "reverse", "passkey", "induction")
BOARD = """
protocol: cpu
multiples: [1, 2, 4, 8]
tasks: [copy, reverse, passkey, induction]
judged: {draws: 400}
parts:
  encodings: {encodings: [rope, nope, alibi, t5], seeds: [10, 11, 12, 13]}
  extensions: {encodings: [rope], extensions: [direct, pi, ntk, yarn], seeds: [10, 11, 12, 13]}
  wider:
    encodings: [rope, nope, alibi, t5]
    tasks: [copy, passkey, induction]
    protocol: cpu_wide
    seeds: [10, 11, 12]
"""
LEVELS = {"rope": 0.2, "nope": 0.9, "alibi": 0.88, "t5": 0.5}
LOST = {"rows.0.sequence_accuracy": 0.1, "rows.0.score": 0.1, "rows.0.proficiency": 0.1}
"""What a run is without its task at the training length."""
BEYOND = {"pi": 0.3, "ntk": 0.6, "yarn": 0.8}


def board() -> Board:
    return definition.read(BOARD, "small")


def runs(
    levels: Mapping[str, float],
    seeds: Sequence[int] = (10, 11, 12, 13),
    protocol: str = "cpu",
    tasks: Sequence[str] = TASKS,
    extension: str = "direct",
) -> list[Record]:
    """Records at one level of score beyond 1x, a little different from task to task and seed to
    seed, and to each row in another way.
    """
    found = []
    for (row, level), task, seed in itertools.product(levels.items(), tasks, seeds):
        shift = (seed - 11.5) / 1000 + ((TASKS.index(task) * (3 + len(row))) % 5 - 2) / 100
        scores = {m: 1.0 if m == 1 else level + shift for m in MULTIPLES}
        name = row if extension == "direct" else f"{row}_{extension}"
        made = record(name, scores, seed, protocol, task, encoding=row, extension=extension)
        training = {"training.settings_hash": f"{row} {task} {seed} {protocol}"}
        plain = {"config.extension": {"_target_": "posbench.extensions.direct.Direct"}}
        more = plain if extension == "direct" else {}
        found.append(changed(made, {"definition": board().hash, **training, **more}))
    return found


def standings(found: Sequence[Record], of: Board | None = None) -> list[RankedRows]:
    return standings_of(of or board(), MeasuredRuns.of(found))


def said(found: Sequence[Record], of: Board | None = None) -> list[str]:
    return said_of(standings(found, of))


def said_of(ranked: list[RankedRows]) -> list[str]:
    return [sentence for each in ranked for sentence in findings.answer(each)]


def without(
    found: Sequence[Record], row: str, *tasks: str, seeds: Sequence[int] = ()
) -> list[Record]:
    """The records, of which those of a row have not learned these tasks (with these seeds)."""
    return [
        changed(each, LOST)
        if each.method.encoding == row
        and each.task.name in tasks
        and (not seeds or each.seed in seeds)
        else each
        for each in found
    ]


@pytest.fixture(scope="module")
def everything() -> list[Record]:
    found = runs(LEVELS)
    for name, level in BEYOND.items():
        found += runs({"rope": level}, extension=name)
    return found


@pytest.fixture(scope="module")
def ranked(everything: list[Record]) -> list[RankedRows]:
    """The standings of everything."""
    return standings(everything)


@pytest.fixture(scope="module")
def lines(ranked: list[RankedRows]) -> list[str]:
    """What is said of everything."""
    return said_of(ranked)


@pytest.mark.slow
def test_a_training_that_several_extensions_share_counts_once(
    tmp_path: Path, everything: list[Record]
) -> None:
    text = BOARD.replace(
        "  encodings: {encodings: [rope, nope, alibi, t5], seeds: [10, 11, 12, 13]}\n", ""
    )
    alone = definition.read(text.replace("[rope]", "[rope, t5]"), "alone")
    found = [each for each in everything if each.method.encoding == "rope"]
    found += runs({"t5": 0.5})
    pages = generate(tmp_path, found, (), alone).pages
    # Four extensions of rope and one of t5 on four tasks with four seeds.
    assert "32 of 32 trainings learned their task at 1x" in pages["leaderboard.md"]
    assert "5 rows, 4 tasks and 32 trainings." in pages["leaderboard.html"]


@pytest.mark.slow
def test_the_first_row_is_named_with_its_tasks_trainings_and_those_that_differ(
    lines: list[str],
) -> None:
    [line] = [each for each in lines if each.startswith("On the tasks that each")]
    assert "nope reaches furthest of 4 rows: .91 (95 % " in line
    assert "on 4 of 4 tasks, learned by 16 of 16 trainings. That is less than .02 above" in line
    assert "above alibi, which the board counts as equal. 1 row is not shown to differ" in line
    assert "alibi minus nope is -.01 (" in line
    assert "2 rows differ from it: the highest is t5 (.57), -.35 (-." in line


@pytest.mark.slow
def test_the_only_row_with_a_place_is_not_said_to_be_first_among_others() -> None:
    found = without(runs(LEVELS), "rope", *TASKS[:3])
    for row in ("alibi", "t5"):
        found = without(found, row, *TASKS[1:])
    [mine, *_] = standings(found)
    assert mine.placed == ["nope"]
    lines = list(findings.answer(mine))
    assert lines[0].startswith("nope alone has learned two thirds of the tasks, and reaches .91 (")
    assert "on 4 of 4 tasks, learned by 16 of 16 trainings." in lines[0]


@pytest.mark.slow
def test_where_few_rows_have_a_place_none_is_said_to_be_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of four. The others have learned one task, of which no number is told."""
    found = runs({"rope": 0.95, "nope": 0.9, "alibi": 0.88, "t5": 0.95})
    for row in ("rope", "t5"):
        found = without(found, row, *TASKS[1:])
    [mine, *_] = standings(found)
    assert mine.placed == ["nope", "alibi"]
    assert [mine.is_measured(row) for row in ("nope", "rope")] == [True, False]
    assert not any("Below the table" in each for each in findings.answer(mine))
    assert next(findings.answer(mine)).startswith("On the tasks that each row learned, nope")
    monkeypatch.setattr(findings, "LEAST_PLACED", 1.5)
    lines = list(findings.answer(mine))
    assert lines[0] == (
        "2 of 4 rows have been run on two thirds of the tasks and learned them. Those are too few "
        "for a first place."
    )
    assert not any("stays first" in each for each in lines)


@pytest.mark.slow
def test_what_counts_as_equal_is_counted_where_it_is_not_named() -> None:
    rows = ["rope", "nope", "alibi", "t5", "fox", "cope", "fire", "path"]
    asked = BOARD.replace("encodings: [rope, nope, alibi, t5], seeds", f"encodings: {rows}, seeds")
    found = [
        record(row, {1: 1.0, 2: far, 4: far, 8: far}, 10, task=task, extension="direct")
        for row, far in zip(rows, (0.9, 0.899, 0.898, 0.897, 0.896, 0.895, 0.894, 0.5), strict=True)
        for task in TASKS
    ]
    lines = said(found, definition.read(asked, "small"))
    [line] = [each for each in lines if each.startswith("On the tasks that each")]
    assert "above nope, alibi, t5, fox and 2 others, which the board counts as" in line


@pytest.mark.slow
def test_a_sample_that_extensions_of_a_pretrained_model_share_counts_once() -> None:
    found = []
    for each in runs({"rope": 0.2, "nope": 0.9, "alibi": 0.5}, (10, 11, 12)):
        shared = {"training.settings_hash": f"model {each.task.label} {each.seed}"}
        lost = LOST if each.seed == 12 else {}
        found.append(changed(each, {"method_class": "pretrained", **shared, **lost}))
    [ranked] = standings_without_board(MeasuredRuns.of(found))
    lines = list(findings.answer(ranked))
    assert any("8 of 12 samples are answered at 1x without an extension." in each for each in lines)


@pytest.mark.slow
def test_what_a_first_place_is_without_each_task_and_seed_is_said() -> None:
    """ALiBi is ahead of NoPE on each task but copy, where it falls far behind."""
    ahead = runs({"nope": 0.8, "alibi": 0.9, "rope": 0.2})
    behind = [each for each in runs({"alibi": 0.1}) if each.task.name == "copy"]
    others = [each for each in ahead if (each.method.encoding, each.task.name) != ("alibi", "copy")]
    [mine, *_] = standings([*others, *behind])
    tasks, seeds = list(mine.tasks), sorted({each.seed for each in ahead})
    assert mine.placed[0] == "nope" and len(tasks) == 4 and len(seeds) > 1
    assert mine.first_without == {
        **{task: "alibi" if task == "copy" else "nope" for task in tasks},
        **{f"seed {seed}": "nope" for seed in seeds},
    }
    sentence = "Another row is first if one task or seed is left out: alibi without copy."
    assert sentence in list(findings.answer(mine))
    [mine, *_] = standings(ahead)
    assert "alibi stays first whichever task or seed is left out." in list(findings.answer(mine))


@pytest.mark.slow
def test_without_a_seed_a_task_that_has_this_seed_alone_stays() -> None:
    """ALiBi is ahead by one task, which was run with seed 10 alone."""
    ahead = runs({"nope": 0.8, "alibi": 0.7, "rope": 0.2}, tasks=TASKS[:3])
    once = runs({"nope": 0.1, "alibi": 0.9, "rope": 0.1}, (10,), tasks=TASKS[3:])
    [mine, *_] = standings([*ahead, *once])
    assert mine.placed[0] == "alibi"
    assert {mine.first_without[f"seed {seed}"] for seed in (10, 11, 12, 13)} == {"alibi"}
    [table] = tables.ranked(board(), mine, MeasuredRuns.of([*ahead, *once])).tables
    seeds = [column.name for column in table.columns[1:]].index("seeds")
    assert {line.cells[seeds] for line in table.rows} == {"1 to 4"}


@pytest.mark.slow
def test_a_seed_without_which_most_rows_lack_tasks_is_not_left_out() -> None:
    """Seed 10 is of all rows and tasks, and seed 11 of one row, as from another board."""
    found = [*runs({"nope": 0.8, "alibi": 0.7}, (10,)), *runs({"rope": 0.2}, (10, 11))]
    [mine, *_] = standings(found)
    assert {*mine.first_without} == {*TASKS, "seed 11"}
    said = "nope stays first whichever task is left out and without seed 11."
    assert said in list(findings.answer(mine))
    assert set(mine.first_without.values()) == {"nope"}


@pytest.mark.slow
def test_equal_rows_do_not_take_the_first_place_from_each_other() -> None:
    found = [
        changed(each, {"method.name": row, "method.encoding": row})
        for row in ("nope", "alibi")
        for each in runs({"nope": 0.8}, (10,))
    ]
    [mine, *_] = standings([*found, *runs({"t5": 0.3}, (10,))])
    assert set(mine.first_without.values()) == {mine.placed[0]} and len(mine.placed) == 3
    lines = list(findings.answer(mine))
    assert f"{mine.placed[0]} stays first whichever task is left out." in lines


@pytest.mark.slow
def test_rows_without_a_test_are_not_among_those_that_are_not_shown_to_differ() -> None:
    """Two common tasks allow no test."""
    asked = BOARD.replace("[copy, reverse, passkey, induction]", "[copy, passkey]")
    of = definition.read(asked.replace("[copy, passkey, induction]", "[copy, passkey]"), "two")
    ahead = runs({"nope": 0.9, "rope": 0.2}, tasks=("copy", "passkey"))
    [line] = [each for each in said(ahead, of) if each.startswith("On the tasks that each")]
    assert "not shown to differ" not in line
    assert "1 row has learned too few tasks in common with it for a test." in line
    extended = [
        each
        for name, level in BEYOND.items()
        for each in runs({"rope": level}, tasks=("copy", "passkey"), extension=name)
    ]
    lines = said([*ahead, *extended], of)
    [four] = [line for line in lines if line.startswith("At 4x, on rope")]
    assert "None of 3 others is shown to differ from it; 3 rows cannot be tested." in four


@pytest.mark.slow
def test_extensions_that_are_equally_high_are_named_together(everything: list[Record]) -> None:
    same = [
        changed(each, {"method.extension": "ntk", "method.name": "rope_ntk"})
        for each in everything
        if each.method.extension == "yarn"
    ]
    others = [each for each in everything if each.method.extension != "ntk"]
    [four] = [line for line in said([*others, *same]) if line.startswith("At 4x, on rope")]
    assert "rope_ntk and rope_yarn are highest: .80" in four


@pytest.mark.slow
def test_a_map_says_how_many_rows_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    [mine, *_] = standings(without(runs(LEVELS), "rope", *TASKS[:3]))
    assert "Under the gap" in opening.caption(mine) and "Drawn are" not in opening.caption(mine)
    monkeypatch.setattr(opening, "MOST", 3)
    drawn = opening.caption(mine)
    assert drawn.endswith("Drawn are the first 3 of 4 rows.") and "Under the gap" not in drawn


@pytest.mark.slow
def test_what_all_rows_extend_is_said_to_those_who_have_a_trained_model() -> None:
    """Two hosts with extensions: neither is an encoding that somebody would train."""
    text = BOARD.replace(
        "wider:",
        "both:\n    encodings: [rope, nope]\n    extensions: [pi]\n    seeds: [10, 11]\n  wider:",
    )
    of = definition.read(text, "small")
    found = runs({"rope": 0.3, "nope": 0.8}, extension="pi")
    [mine, *_] = [each for each in standings(found, of) if each.part.title == "Both"]
    assert mine.part.is_extended and not mine.part.is_of_a_host
    doors = findings.doors([mine])
    assert list(doors) == ["I have a trained model", "I have a method of my own"]
    assert doors["I have a trained model"][0].startswith("Both: nope_pi reaches furthest of 2")


@pytest.mark.slow
def test_a_row_that_did_not_learn_a_task_is_not_punished_for_it(everything: list[Record]) -> None:
    [first, *_] = found = standings(without(everything, "nope", "copy"))
    assert first.placed[0] == "nope" and first.summary.loc["nope", "learned"] == 0.75
    assert first.summary.loc["nope", "reaches"] == pytest.approx(0.92, abs=0.02)
    assert first.summary.loc["alibi", "common"] == 3
    [line] = [each for each in said_of(found) if each.startswith("On the tasks that each")]
    assert "on 3 of 4 tasks, learned by 12 of 16 trainings" in line


@pytest.mark.slow
def test_a_row_that_learned_fewer_than_two_thirds_is_below_the_table(
    everything: list[Record], lines: list[str]
) -> None:
    [first, *_] = found = standings(without(everything, "nope", "copy", "reverse"))
    assert first.placed == ["alibi", "t5", "rope"] and first.known[-1] == "nope"
    [below] = [each for each in said_of(found) if each.startswith("Below the table")]
    assert "have higher numbers there: nope .92, on 2 of 4 tasks, learned by 8 of 16" in below
    assert not any(each.startswith("Below") for each in lines)
    assert findings._beginning(["a", "b", "c"]) == "a; b; c"
    assert findings._beginning([*"abcde"]) == "a; b; c; and 2 more"


@pytest.mark.slow
def test_one_training_that_learned_is_enough(everything: list[Record]) -> None:
    [first, *_] = standings(without(everything, "nope", *TASKS, seeds=(10, 11, 12)))
    line = first.summary.loc["nope"]
    assert line["placed"] and line["tasks"] == 4 and line["learned"] == 0.25


@pytest.mark.slow
def test_extensions_are_told_at_each_length_on_what_their_host_learned(
    everything: list[Record], lines: list[str]
) -> None:
    """Of an extension the score at 1x does not count: its training has learned or not."""
    [four] = [line for line in lines if line.startswith("At 4x, on rope")]
    assert "rope_yarn is highest: .80 (95 % " in four and "learned by 16 of 16 trainings" in four
    assert "rope without an extension is at .20, and its difference to the first is -.60" in four
    assert "3 of 3 others are shown to differ from it." in four
    lost = [changed(each, LOST) if each.method.extension == "yarn" else each for each in everything]
    [_, hosted] = standings(lost)
    assert hosted.summary.loc["rope_yarn", "learned"] == 1
    [_, hosted] = found = standings(without(everything, "rope", "copy"))
    assert set(hosted.summary["tasks"]) == {3} and set(hosted.summary["learned"]) == {0.75}
    unknown = "No training of rope learned copy, so nothing is known of extensions there."
    assert unknown in said_of(found)


@pytest.mark.slow
def test_the_number_is_of_the_length_alone(everything: list[Record]) -> None:
    """At 2x one extension is better, at 8x another."""
    near = runs({"rope": 0.9}, extension="ntk")
    fading = [
        changed(each, {"rows.3.sequence_accuracy": 0.1, "rows.3.score": 0.1}) for each in near
    ]
    others = [each for each in everything if each.method.name != "rope_ntk"]
    lines = said([*others, *fading])
    [two], [eight] = (
        [line for line in lines if line.startswith(f"At {m}x, on rope")] for m in (2, 8)
    )
    assert "rope_ntk is highest: .90" in two and "rope_yarn is highest: .80" in eight


@pytest.mark.slow
def test_a_row_has_the_same_number_in_every_section_with_the_same_tasks(
    everything: list[Record],
) -> None:
    """How hard tasks are is fitted to all their rows; here two sections have rows of the first, and
    one of them asks for a task of which the others are no part of the number.
    """
    both = BOARD + "  again: {encodings: [rope, nope], seeds: [10, 11, 12, 13]}\n"
    both += "  one task: {encodings: [rope, nope], seeds: [10, 11, 12, 13], tasks: [copy]}\n"
    found = without(everything, "nope", "passkey")
    first, *_, again, of_one = standings(found, definition.read(both, "small"))
    assert list(again.summary.index) == ["nope", "rope"]
    numbers = first.summary["reaches"]
    assert again.summary["reaches"].to_dict() == pytest.approx(numbers[["nope", "rope"]].to_dict())
    alone = first.cells()["copy"]
    assert alone["rope"] != pytest.approx(numbers["rope"], abs=0.01)
    assert of_one.summary["reaches"].to_dict() == pytest.approx(alone[["nope", "rope"]].to_dict())
    assert of_one.summary["low"].isna().all()


@pytest.mark.slow
def test_what_was_not_learned_or_not_run_is_told(
    everything: list[Record], lines: list[str]
) -> None:
    found = everything
    for row in LEVELS:
        found = without(found, row, "induction")
    nobody = "No row has learned induction, so how far it reaches there is not known."
    assert nobody in said(found)
    some = everything
    for row in ("rope", "nope", "alibi"):
        some = without(some, row, "induction")
    few = "Fewer than half of the trainings learned induction (25 %)."
    assert few in said(some) and few not in lines and nobody not in lines
    unrun = "No row has been run of these parts of the board: “wider”."
    assert tables.about_board(board(), standings(everything))[-1] == unrun


@pytest.mark.slow
def test_the_first_reference_gives_the_others_its_multiplications(
    everything: list[Record],
) -> None:
    """A step of alibi costs twice as many. A training that never learned counts none until then,
    and its record counts them all the same.
    """
    steps = {"rope": (100, 10), "nope": (100, 10), "alibi": (60, 20), "t5": (None, 10)}
    found = []
    for each in everything:
        step, products = steps[each.method.base]
        lost = LOST if step is None and each.task.label == "copy" else {}
        found.append(
            changed(each, {"solved_step": step, "training.multiplications": products, **lost})
        )
    asked = definition.read(f"references: [rope]\n{BOARD}", "small")
    ranked = standings_of(asked, MeasuredRuns.of(found))
    [chapter] = tables.budget_parts(asked, ranked)
    [table] = chapter.tables
    assert chapter.title == "What was learned with the multiplications of rope"
    assert [(line.name, *line.cells) for line in table.rows] == [
        ("nope", "100 %", "4/4"),
        ("rope", "100 %", "4/4"),
        ("alibi", "0 %", "0/4"),
        ("t5", "0 %", "0/4"),
    ]
    products = ranked[0].summary["multiplications"]
    assert products.drop("t5").to_dict() == {"rope": 1000, "nope": 1000, "alibi": 1200}
    older = [changed(found[0], {"training.multiplications": None}), *found[1:]]
    ranked = standings_of(asked, MeasuredRuns.of(older))
    # One training does not count them, so its row has no median beside those of the others.
    known = ranked[0].summary["multiplications"].notna()
    assert [*known.index[~known].difference(["t5"])] == [found[0].method.base]
    assert not list(tables.budget_parts(asked, ranked))


@pytest.mark.slow
def test_the_headline_is_the_first_section_and_the_longest_length(
    ranked: list[RankedRows],
) -> None:
    told = list(findings.headline(ranked))
    assert [each.split(",")[0] for each in told] == [
        "On the tasks that each row learned",
        "nope stays first whichever task or seed is left out.",
        "At 8x",
    ]
    assert "`" not in "".join(told)
    assert list(findings.headline(standings(runs({"rope": 0.5})))) == [
        "No two rows can be compared yet."
    ]


@pytest.mark.slow
def test_zero_shot_rows_come_first_whichever_rows_were_run_first(
    everything: list[Record],
) -> None:
    """The first row of a part by its name may be of another class."""
    found = [
        changed(each, {"method_class": "trained beyond"}) if each.method.name == "alibi" else each
        for each in everything
    ]
    assert [each.kind for each in standings(found)] == ["zero-shot", "trained beyond", "zero-shot"]
