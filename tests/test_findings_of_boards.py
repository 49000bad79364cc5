"""What a board is said to have found: the first rows, those not told apart from them, and what is
not known, on records whose order is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from making import changed, record, save

from posbench.boards import findings
from posbench.boards.generated import generate
from posbench.boards.measured import Measured
from posbench.boards.ranking import standings_of
from posbench.config import board as definition
from posbench.config.board import Board
from posbench.records import files, tables
from posbench.records.record import Record

MULTIPLES = (1, 2, 4, 8)
BOARD = """
protocol: cpu
multiples: [1, 2, 4, 8]
groups:
  copy: {asks: step through, tasks: [copy, reverse]}
  retrieve: {asks: find one thing, tasks: [passkey, induction]}
judged: {draws: 400}
parts:
  encodings: {encodings: [rope, nope, alibi, t5], seeds: [10, 11, 12, 13]}
  extensions: {encodings: [rope], extensions: [direct, pi, ntk, yarn], seeds: [10, 11, 12, 13]}
  wider:
    encodings: [rope, nope, alibi, t5]
    tasks: [copy, passkey]
    protocol: cpu_wide
    seeds: [10, 11, 12]
"""
LEVELS = {
    "rope": (0.2, 0.9),  # on copying tasks, on retrieving ones
    "nope": (0.9, 0.3),
    "alibi": (0.893, 0.6),  # less than the margin below NoPE
    "t5": (0.5, 0.5),
}
LOST = {"rows.0.sequence_accuracy": 0.1, "rows.0.score": 0.1, "rows.0.proficiency": 0.1}
"""What a run is without its task at the training length."""
BEYOND = {"pi": 0.3, "ntk": 0.6, "yarn": 0.8}


def board() -> Board:
    return definition.read(BOARD, "small")


def runs(
    levels: Mapping[str, tuple[float, float]],
    seeds: Sequence[int] = (10, 11, 12, 13),
    protocol: str = "cpu",
    tasks: Sequence[str] = ("copy", "reverse", "passkey", "induction"),
    extension: str = "direct",
) -> list[Record]:
    """Records at one level of score beyond 1x, a little different from seed to seed."""
    found = []
    for (row, (copying, retrieving)), task, seed in itertools.product(levels.items(), tasks, seeds):
        level = copying if task in ("copy", "reverse") else retrieving
        scores = {m: 1.0 if m == 1 else level + (seed - 11.5) / 1000 for m in MULTIPLES}
        name = row if extension == "direct" else f"{row}_{extension}"
        made = record(name, scores, seed, protocol, task, encoding=row, extension=extension)
        training = {"training.settings_hash": f"{row} {task} {seed} {protocol}"}
        found.append(changed(made, {"definition": board().hash, **training}))
    return found


def said(found: Sequence[Record], of: Board | None = None) -> str:
    measured, asked = Measured.of(tables.table(found)), of or board()
    return findings.markdown(asked, measured, standings_of(asked, measured))


@pytest.fixture(scope="module")
def everything() -> list[Record]:
    found = runs(LEVELS)
    for name, level in BEYOND.items():
        found += runs({"rope": (level, level)}, extension=name)
    return found


def test_the_first_of_each_group_and_those_not_told_apart_from_it(everything: list[Record]) -> None:
    text = said(everything)
    assert "- Copy (step through): `nope` (" in text
    [copying] = [line for line in text.splitlines() if line.startswith("- Copy (step through)")]
    assert "and `alibi` (" in copying and "are not told apart" in copying
    assert copying.split("; ")[1].startswith("the best of the others is `t5`, .33 (95 % ")
    assert "No overall winner is named: alibi has the largest mean, and loses it w" in text
    [finding] = [
        line for line in text.splitlines() if line.startswith("- Retrieve (find one thing)")
    ]
    assert "`rope` (.92) is first, .25 (95 % " in finding and "above `alibi`" in finding
    assert "[Encodings](leaderboard.md#encodings)" in finding


def test_extensions_are_compared_at_each_length_and_with_the_host(everything: list[Record]) -> None:
    lines = said(everything).splitlines()
    [four] = [line for line in lines if line.startswith("- At 4x, on `rope`")]
    assert "`rope_yarn` (.80) is first, .20 (95 %" in four and "above `rope_ntk`" in four
    assert "as it was trained, `rope` is at .55, .25 (95 %" in four
    [far] = [line for line in lines if line.startswith("- The furthest on `rope`")]
    assert "`rope_yarn` scores .50 or more up to more than 8x" in far
    assert "; at 8x it does so on 4 of 4 tasks. [" in far
    assert "that every training of `rope` has learned" not in said(everything), "all of them"
    assert "- No row has been run of these parts of the board: “wider”." in lines


def test_extensions_are_compared_again_on_what_their_host_has_learned(
    everything: list[Record],
) -> None:
    """Copy counts no longer where one training of the host has not learned it."""
    found = [
        changed(each, {"rows.0.proficiency": 0.5})
        if (each.method.name, each.task.name, each.seed) == ("rope", "copy", 10)
        else each
        for each in everything
    ]
    [line] = [line for line in said(found).splitlines() if "on the 3 tasks that every" in line]
    assert line.startswith("- At 8x, on the 3 tasks that every training of `rope` has learned: ")
    assert "`rope_yarn` (.80) is first, .20 (95 %" in line and "above `rope_ntk`" in line


def test_the_number_is_of_the_length_alone(everything: list[Record]) -> None:
    """At 2x one extension is better, at 8x another."""
    near = runs({"rope": (0.9, 0.9)}, extension="ntk")
    fading = [
        changed(each, {"rows.3.sequence_accuracy": 0.1, "rows.3.score": 0.1}) for each in near
    ]
    others = [each for each in everything if each.method.name != "rope_ntk"]
    lines = said([*others, *fading]).splitlines()
    [two], [eight] = (
        [line for line in lines if line.startswith(f"- At {m}x, on `rope`")] for m in (2, 8)
    )
    assert "`rope_ntk` (.90) is first" in two and "`rope_yarn` (.80) is first" in eight


def test_a_wider_model_is_compared_by_the_order_of_rows(everything: list[Record]) -> None:
    where = {"seeds": (10, 11, 12), "protocol": "cpu_wide", "tasks": ("copy", "passkey")}
    same, turned = (
        runs(LEVELS, **where),
        runs(  # type: ignore[arg-type]
            {row: (1 - one, 1 - other) for row, (one, other) in LEVELS.items()},
            **where,  # type: ignore[arg-type]
        ),
    )
    for wide, value in ((same, "1.00 (95 % "), (turned, "-1.00 (95 % ")):
        text = said([*everything, *wide])
        assert f"has a rank correlation of {value}" in text
        assert "Under protocol cpu_wide the order of 4 rows on 2 tasks" in text


def test_one_seed_decides_nothing_and_what_was_not_run_is_said() -> None:
    text = said(runs(LEVELS, seeds=(10,), tasks=("copy", "reverse")))
    assert "`nope` (.92) and `alibi` (.91) are highest so far; too few seeds to tell" in text
    assert "have been run on passkey, induction." in text
    assert "have fewer than 3 seeds, so no interval says how much of their scores is luck" in text
    assert "told apart from" not in text.split("## Which")[1]


def test_with_too_few_seeds_the_rows_within_the_margin_are_named() -> None:
    one = said(runs(LEVELS, seeds=(10,)))
    assert "- Retrieve (find one thing): `rope` (.92) is highest so far; too few seeds" in one
    near = {"rope": 0.9, "nope": 0.899, "alibi": 0.893, "t5": 0.5}
    three = said(runs({row: (level, level) for row, level in near.items()}, seeds=(10,)))
    assert "- Copy (step through): `rope` (.92), `nope` (.91) and `alibi` (.91) are high" in three
    five = definition.read(BOARD.replace("t5], seeds", "t5, fox], seeds"), "five")
    levels = dict.fromkeys(("rope", "nope", "alibi", "t5"), (0.9, 0.9)) | {"fox": (0.89, 0.89)}
    many = said(runs(levels, seeds=(10,)), five)
    assert "- Copy (step through): 5 rows, from `alibi` (.92) to `fox` (.91), are highest" in many


def test_the_tasks_that_have_too_few_seeds_are_named() -> None:
    copying = runs(LEVELS, seeds=(10,), tasks=("copy", "reverse"))
    text = said([*copying, *runs(LEVELS, tasks=("passkey", "induction"))])
    assert "are highest so far" in text and "`rope` (.92) is first, .25 (95 % " in text
    assert (
        "have fewer than 3 seeds on copy, reverse, so no interval says how much of their scores "
        "there is luck." in text
    )


def test_zero_shot_rows_come_first_whichever_rows_were_run_first(
    everything: list[Record],
) -> None:
    """The first row of a part by its name may be of another class."""
    found = [
        changed(each, {"method_class": "trained beyond"}) if each.method.name == "alibi" else each
        for each in everything
    ]
    measured = Measured.of(tables.table(found))
    kinds = [each.kind for each in standings_of(board(), measured)]
    assert kinds == ["zero-shot", "trained beyond", "zero-shot"]
    assert "- Copy (step through): `nope` (.92) is first" in said(found)


def test_every_task_counts_the_same_in_a_reach() -> None:
    """RoPE fails at once on copying, with four seeds, and never on the others, with one."""
    levels = {"rope": (0.1, 0.9), "nope": (0.9, 0.9)}
    many = runs(levels, tasks=("copy",))
    few = runs(levels, seeds=(10,), tasks=("passkey", "induction"))
    measured = Measured.of(tables.table([*many, *few]))
    standing, _ = standings_of(board(), measured)  # and that of extensions, which has RoPE alone
    assert str(standing.reach("rope")) == "> 8"


def test_a_task_that_nobody_learned_is_named() -> None:
    found = [
        changed(each, LOST) if each.task.name == "induction" else each for each in runs(LEVELS)
    ]
    named = "No row of [Encodings](leaderboard.md#encodings) has learned induction at the training"
    assert named in said(found)


def test_a_first_row_that_has_not_learned_a_task_of_the_group_is_not_told_without_it() -> None:
    """NoPE leads copying by one task, and has learned the other with one seed of four."""
    found = [
        changed(each, {"rows.0.proficiency": 0.94})
        if (each.method.name, each.task.name) == ("nope", "reverse") and each.seed != 10
        else each
        for each in runs(LEVELS)
    ]
    [copying] = [line for line in said(found).splitlines() if line.startswith("- Copy")]
    assert "; `nope` learned reverse in 1 of 4 trainings. [" in copying
    assert "learned reverse in" not in said(runs(LEVELS))


def test_what_the_host_of_extensions_has_not_learned_is_named(everything: list[Record]) -> None:
    def half(each: Record) -> bool:
        return each.method.encoding == "rope" and each.task.name == "copy" and each.seed < 12

    found = [changed(each, LOST) if half(each) else each for each in everything]
    assert (
        "- Not every training of `rope` has learned its task: copy (2 of 4). There, every row "
        "of [Extensions](leaderboard.md#extensions) includes trainings that did not learn."
        in said(found)
    )
    assert "Not every training" not in said(everything)


def test_the_page_stands_beside_the_board_and_is_made_again_as_it_is(
    tmp_path: Path, everything: list[Record]
) -> None:
    save(tmp_path, *everything)
    pages = [
        generate(tmp_path, found, (), board()).pages["findings.md"]
        for found in (files.records(tmp_path), files.records(tmp_path)[::-1])
    ]
    assert pages[0] == pages[1] and pages[0].startswith("# Findings")
    nothing = generate(tmp_path, runs({"rope": (0.5, 0.5)}), (), board()).pages
    assert "findings.md" not in nothing
