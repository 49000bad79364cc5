"""Boards as data: what they ask to be run, what they refuse, and how their rows are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from making import changed, record, save
from offered import CONF

from posbench.base.errors import PosbenchError
from posbench.boards import answers, page
from posbench.boards import command as leaderboard
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.predictions import contrast_parts
from posbench.boards.ranking import BoardPart, standings_beside, standings_of, unrun_parts
from posbench.boards.ranking import parts as measured_parts
from posbench.boards.tables import board_part, ranked, with_tasks
from posbench.config import board as definition
from posbench.config import board_rows as naming
from posbench.config.board import Board, Rows
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.config.identity import identify
from posbench.config.methods import methods
from posbench.core.frequencies import Frequencies
from posbench.records.record import Record
from posbench.running.subject import setup
from posbench.showing.pages import Chapter
from posbench.showing.table import Table
from posbench.statistics import measures
from posbench.sweeping.requests import request

MULTIPLES = (1, 2, 4, 8)
SMALL = """
protocol: cpu
multiples: [1, 2, 4, 8]
groups:
  copy: {asks: step through, tasks: [copy, reverse]}
  retrieve: {asks: find, tasks: [passkey, key_value_retrieval]}
judged: {draws: 200}
parts:
  all: {methods: [rope, nope, rope_pi], seeds: [10, 11, 12]}
"""


def small(text: str = SMALL) -> Board:
    return definition.read(text, "small")


def of(board: Board, **levels: float) -> list[Record]:
    """Records of the methods on all tasks of the board, at one level of score at all lengths."""
    found = []
    for method, level in levels.items():
        for task, seed in ((task, seed) for task in board.all_tasks for seed in (10, 11, 12)):
            scores = {multiple: level if multiple > 1 else 1.0 for multiple in MULTIPLES}
            encoding, _, extension = method.partition("_")
            made = record(
                method, scores, seed, task=task, encoding=encoding, extension=extension or "direct"
            )
            found.append(changed(made, {"definition": board.hash}))
    return found


# -- definitions -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_board_of_the_repository_names_what_there_is() -> None:
    for name in definition.names():
        board = definition.load(name)
        assert set(board.all_tasks) <= set(own_names("task"))
        for part in board.parts.values():
            assert set(part.methods) <= set(own_names("method"))
            assert set(part.encodings) <= set(own_names("encoding"))
            assert set(part.extensions) <= set(own_names("extension"))
            assert {part.protocol or board.protocol} <= set(own_names("protocol"))
            assert set(part.experiments) <= set(own_names("experiment"))


@pytest.mark.slow
def test_the_main_board_has_what_its_protocol_has() -> None:
    """The lengths stand in both; the board is what a reader sees, the protocol what is run."""
    main = definition.load("main")
    protocol = yaml.safe_load((CONF / "protocol/cpu.yaml").read_text("utf-8"))["evaluation"]
    assert list(main.multiples) == protocol["multiples"]
    assert main.judged.longest == protocol["longest"] == max(main.multiples) == measures.LONGEST
    assert main.judged.reach == measures.HALF
    assert [len(group.tasks) for group in main.groups.values()] == [2] * 6
    for task in main.all_tasks:
        run = setup("protocol=cpu", f"task={task}", "method=nope")
        expected = {"key_value_retrieval": 62, "in_context_language": 50}.get(task, 40)
        assert run.train_positions == expected, task
        gate = 0.90 if task == "in_context_language" else main.judged.gate
        assert run.task.gate == gate


@pytest.mark.slow
def test_some_board_has_every_encoding_and_every_extension_of_rope() -> None:
    """The main board is fixed; what is newer than it is on a panel."""
    parts = [part for name in definition.names() for part in definition.load(name).parts.values()]
    pairs = [pair for part in parts for pair in naming.pairs(part)]
    rows = [methods()[name] for part in parts for name in part.methods]
    encodings = {name for part in parts for name in part.encodings}
    missing = set(own_names("encoding")) - encodings - {row.encoding for row in rows}
    assert not missing, missing
    extensions = {name for part in parts for name in part.extensions}
    missing = set(own_names("extension")) - extensions - {extension for _, extension, _ in pairs}
    assert not missing, missing


def test_the_references_of_the_main_board_are_rows_of_its_first_part() -> None:
    main = definition.load("main")
    first = next(iter(main.parts.values()))
    assert set(main.references) <= {*first.methods, *first.encodings}


@pytest.mark.parametrize(
    "name", ["rope_qk_norm", "fox_pro", "rope_windows_qk_norm_yarn_last", "nope_short_conv"]
)
def test_a_row_with_settings_of_the_model_is_asked_for_as_its_record_names_it(name: str) -> None:
    found = identify(compose("protocol=smoke", f"method={name}")).method
    changed = ", ".join(found.changed)
    assert naming.pairs(Rows(methods=(name,), seeds=(0,))) == [
        (found.base, found.extension, changed)
    ]


@pytest.mark.parametrize(
    "extension", ["direct", "both", "resonance_yarn", "yarn_tuned", "jet_long"]
)
def test_an_extension_is_asked_for_as_its_record_names_it(extension: str) -> None:
    """A sequence is named by its parts."""
    words = ("encoding=rope_short_base", f"extension={extension}")
    found = identify(compose("protocol=smoke", *words)).method
    rows = Rows(encodings=("rope_short_base",), extensions=(extension,), seeds=(0,))
    assert naming.pairs(rows) == [(found.base, found.extension, "")]


@pytest.mark.parametrize(
    ("encoding", "settings"),
    [
        ("rope", ("encoding.base=1e3",)),
        ("rope", ("encoding.base=10000",)),  # its own
        ("rope", ("model.qk_norm=true", "encoding.base=500")),
        ("ssmax", ("encoding@encoding.host=alibi",)),
        ("rope", ("extension=yarn", "extension.scale=4.0")),
    ],
)
def test_a_row_with_settings_is_asked_for_as_its_record_names_it(
    encoding: str, settings: tuple[str, ...]
) -> None:
    found = identify(compose("protocol=smoke", f"encoding={encoding}", *settings)).method
    named = (found.base, found.extension, ", ".join(found.changed))
    rows = Rows(encodings=(encoding,), settings=settings, seeds=(0,))
    assert naming.pairs(rows) == [named]
    GlobalHydra.instance().clear()  # as where no run is composed, but a board is shown
    assert naming.pairs(rows) == [named]
    assert not GlobalHydra.instance().is_initialized()


def test_a_setting_that_lists_values_makes_a_row_of_each() -> None:
    settings = ("extension.steps=0.1,0.3", "extension.multiple=2,4")
    rows = Rows(encodings=("rope",), extensions=("pi_fine_tuned",), settings=settings, seeds=(0,))
    row = ("encoding=rope", "extension=pi_fine_tuned")
    assert rows.words == [
        (*row, f"extension.steps={steps}", f"extension.multiple={multiple}")
        for steps in (0.1, 0.3)
        for multiple in (2, 4)
    ]
    # Values that are the method's already are not part of the name of a row.
    changed = [changed for _, _, changed in naming.pairs(rows)]
    assert changed == [
        "",
        "extension.multiple=4",
        "extension.steps=0.3",
        "extension.multiple=4, extension.steps=0.3",
    ]
    of_lengths = Rows(encodings=("nope",), settings=("training.length_scale=1,4",), seeds=(0,))
    assert naming.pairs(of_lengths) == [
        ("nope", "direct", "training.length_scale=1"),
        ("nope", "direct", "training.length_scale=4"),
    ]
    lists = Rows(encodings=("rope",), settings=("training.learning_rate=[1e-3,3e-3]",), seeds=(0,))
    assert len(lists.words) == 1


def test_settings_that_make_no_row_and_rows_of_ones_own_are_kept_as_they_are_written() -> None:
    rows = Rows(encodings=("rope",), settings=("model.num_heads=2",), seeds=(0,))
    assert naming.pairs(rows) == [("rope", "direct", "model.num_heads=2")]
    rows = Rows(encodings=("nowhere",), settings=("encoding.base=5",), seeds=(0,))
    assert naming.pairs(rows) == [("nowhere", "direct", "encoding.base=5")]


def test_a_row_that_is_not_at_hand_leaves_the_others_as_records_name_them() -> None:
    rows = Rows(encodings=("nowhere", "rope"), settings=("encoding.base=1e3",), seeds=(0,))
    pairs = [("nowhere", "direct", "encoding.base=1e3"), ("rope", "direct", "encoding.base=1000")]
    assert naming.pairs(rows) == pairs


@pytest.mark.slow
def test_a_row_of_ones_own_with_settings_is_on_its_board_however_they_are_written(
    tmp_path: Path,
) -> None:
    for group in ("encoding", "board"):
        (tmp_path / group).mkdir()
    (tmp_path / "encoding/decay.yaml").write_text("_target_: decay.Decay\nrate: 0.1\n")
    part = "all: {encodings: [decay], settings: [encoding.rate=1e-2], seeds: [10, 11, 12]}"
    text = SMALL.replace("all: {methods: [rope, nope, rope_pi], seeds: [10, 11, 12]}", part)
    (tmp_path / "board/mine.yaml").write_text(text)
    found = [
        changed(each, {"definition": small(text).hash, "method.changed": ["encoding.rate=0.01"]})
        for each in of(small(), decay=0.4)
    ]
    save(tmp_path / "mine", *found)
    words = [str(tmp_path / "mine"), "--config-dir", str(tmp_path)]
    assert leaderboard.main(words, emit=lambda _: None) == 0
    page = (tmp_path / "mine/leaderboard.md").read_text(encoding="utf-8")
    assert "Board mine" in page and "| decay (encoding.rate=0.01) |" in page
    assert "## All" in page


@pytest.mark.slow
def test_every_row_of_the_main_board_is_asked_for_as_its_record_names_it() -> None:
    for name, part in definition.load("main").parts.items():
        for words, pair in zip(part.words, naming.pairs(part), strict=True):
            found = identify(compose("protocol=smoke", *words)).method
            assert (found.base, found.extension, ", ".join(found.changed)) == pair, (name, words)


def test_the_hash_is_of_what_is_run_and_judged_and_not_of_words() -> None:
    board = small()
    assert small(SMALL + "about: other words\nquestion: Which?\n").hash == board.hash
    assert small(SMALL + "changes: [{date: d, of: abc, why: w}]\n").hashes == {board.hash, "abc"}
    for old, new in (
        ("[10, 11, 12]", "[10, 12]"),
        ("draws: 200", "draws: 300"),
        ("[copy, reverse]", "[copy, sort]"),
        ("rope_pi", "rope_ntk"),
        ("multiples: [1, 2, 4, 8]", "multiples: [1, 2, 8]"),
    ):
        assert old in SMALL and small(SMALL.replace(old, new)).hash != board.hash, new


@pytest.mark.parametrize(
    ("comment", "question"),
    [
        ("# Is it the method,\n# or its window?\n", "Is it the method, or its window?"),
        ("# Which base? And how many channels?\n#\n# Why?\n", "Which base?"),
        ("# It is small. Is it?\n", ""),
        ("# It is small.\n#\n# Is it?\n", ""),
        ("", ""),
    ],
)
def test_a_board_is_called_after_the_question_that_its_file_begins_with(
    comment: str, question: str
) -> None:
    board = small(comment + SMALL)
    assert board.question == question and board.hash == small().hash


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("methods: [rope, nope, rope_pi], ", "", "names no methods and no encodings"),
        ("seeds: [10, 11, 12]", "seeds: []", "parts.all.seeds"),
        ("passkey, key", "copy, key", "has the task copy twice"),
        ("asks: find, ", "", "groups.retrieve.asks"),
        (
            "seeds: [10, 11, 12]",
            "seeds: [10], tasks: [sort]",
            "names sort, which is none of the board's",
        ),
        ("draws: 200", "draws: many", "judged.draws"),
        ("draws: 200", "longest: 4", "4 is not offered: every board has 8, leave it out"),
        ("draws: 200", "equivalent: 0.05", "every board has 0.02"),
        ("protocol: cpu", "protocol: cpu\nsides: 3", "sides"),
        ("groups:", "tasks: [copy]\ngroups:", "either groups of tasks or a list of tasks"),
        ("groups:", "groups: [", "is not YAML"),
        ("groups:", "groups: {}\ngroups:", "groups is in line"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(old: str, new: str, said: str) -> None:
    assert old in SMALL
    with pytest.raises(PosbenchError, match=r"^board small") as raised:
        small(SMALL.replace(old, new))
    assert said in str(raised.value) and "\n" not in str(raised.value)


ONCE = """
protocol: learned
tasks: [copy, language]
parts:
  all: {methods: [rope, nope], seeds: [20, 21], once: [language]}
"""


def test_a_task_that_takes_long_is_run_with_the_first_seed_alone(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board/once.yaml").write_text(ONCE)
    asked = request(["board=once"], [tmp_path]).runs
    found = [
        [word.split("=")[1] for word in run if word[:5] in ("task=", "seed=")] for run in asked
    ]
    assert found == [["copy", "20"]] * 2 + [["language", "20"]] * 2 + [["copy", "21"]] * 2


def test_a_run_with_another_seed_is_not_ranked_where_one_is_enough() -> None:
    board = definition.read(ONCE, "once")
    found = [
        record("rope", {1: 1.0, 8: 0.5}, seed, "learned", task=task, extension="direct")
        for task in ("copy", "language")
        for seed in (20, 21)
    ]
    (part,) = measured_parts(board, MeasuredRuns.of(found))
    assert sorted(zip(part.runs["task"], part.runs["seed"], strict=True)) == [
        ("copy", 20),
        ("copy", 21),
        ("language", 20),
    ]
    everywhere = definition.read(ONCE.replace(", once: [language]", ""), "once")
    assert everywhere.hash != board.hash
    with pytest.raises(PosbenchError, match="part all names sort"):
        definition.read(ONCE.replace("once: [language]", "once: [sort]"), "once")


AGAIN = """
protocol: learned
tasks: [copy, language]
parts:
  all: {methods: [rope, nope], seeds: [20]}
  all, again: {methods: [rope], tasks: [copy], seeds: [21]}
  other tasks of one: {methods: [rope], tasks: [language], seeds: [20]}
"""


@pytest.mark.slow
def test_other_seeds_of_the_same_rows_and_tasks_are_ranked_in_one_section() -> None:
    board = definition.read(AGAIN, "again")
    found = [
        record(row, {1: 1.0, 8: 0.5}, seed, "learned", task=task, extension="direct")
        for row in ("rope", "nope")
        for task in ("copy", "language")
        for seed in (20, 21)
    ]
    first, second = measured_parts(board, MeasuredRuns.of(found))
    shown = first.runs[["row", "task", "seed"]].itertuples(index=False, name=None)
    assert set(shown) == {
        ("rope", "copy", 20),
        ("rope", "copy", 21),
        ("rope", "language", 20),
        ("nope", "copy", 20),
        ("nope", "language", 20),
    }
    assert (first.title, second.title) == ("all", "other tasks of one")  # the same seed again
    assert unrun_parts(board, [first, second]) == []
    assert unrun_parts(board, [first]) == ["other tasks of one"]
    once = MeasuredRuns.of([each for each in found if each.seed == 20])
    assert unrun_parts(board, measured_parts(board, once)) == ["all, again"]
    other = definition.read(AGAIN.replace("tasks: [copy], seeds", "protocol: cpu, seeds"), "other")
    first, *_ = measured_parts(other, MeasuredRuns.of(found))
    assert set(first.runs["seed"]) == {20}  # under another protocol it is no second seed


PREDICTED = """
protocol: learned
tasks: [copy, induction, passkey]
parts:
  all:
    encodings: [rope, nope]
    seeds: [20]
  other rates:
    encodings: [rope]
    settings: ["training.learning_rate=1.5e-3,6e-3"]
    seeds: [20]
contrasts:
  NoPE reaches as far:
    pairs: [[nope, rope], [nope, alibi]]
    by: -0.1
    share: 0.66
  NoPE reaches further:
    pairs: [[nope, rope]]
  A higher rate reaches further:
    pairs: [[rope (training.learning_rate=0.006), rope]]
    by: 0.21
"""


@pytest.mark.slow
def test_what_a_part_changes_of_the_protocol_is_part_of_the_name_and_pairs_are_compared() -> None:
    board = definition.read(PREDICTED, "predicted")
    rate = "learned (training.learning_rate=0.006)"
    # At 8x, where the area of a straight line from 1 is half of what was lost above 1.
    at = {
        ("rope", "learned"): {"copy": 0.4, "induction": 0.2, "passkey": 0.8},
        ("nope", "learned"): {"copy": 0.3, "induction": 0.4, "passkey": 0.4},
        ("rope", rate): {"copy": 0.9, "induction": 0.7, "passkey": 1.0},
    }
    found = [
        record(row, {1: 1.0, 8: score}, 20, protocol, task, extension="direct")
        for (row, protocol), tasks in at.items()
        for task, score in tasks.items()
    ]
    measured = MeasuredRuns.of(found, board)
    ranked = standings_of(board, measured)
    assert [each.part.title for each in ranked] == ["All", "Other rates"]
    assert ranked[1].known == ["rope (training.learning_rate=0.006)"]
    chapters = list(contrast_parts(board, ranked))
    rules = [str(each.blocks[0]).partition(" if ")[2] for each in chapters]
    assert rules[0].startswith("the first falls short of the second by less than .10, on at")
    assert rules[0].endswith("It holds for 1 pair and is open for 1 pair.")
    assert rules[1].startswith("the first reaches further by more than .00, on average over")
    as_far, further, rates = (table for each in chapters for table in each.tables)
    assert [line.cells[1] for line in as_far.rows] == ["2 of 3", "\N{EN DASH}"]
    assert [line.cells[-1] for line in as_far.rows] == ["yes", "\N{EN DASH}"]
    # The means: (-.1 + .2 - .4) / 6 is below 0, and (.5 + .5 + .2) / 6 is no more than .21.
    assert [line.cells[-1] for line in further.rows] == ["no"]
    assert further.rows[0].cells[1] == "1 of 3"
    assert further.rows[0].cells[2].startswith("-.05")
    assert [line.cells[0] for line in rates.rows] == ["3"]
    assert [line.cells[-1] for line in rates.rows] == ["no"]
    assert board.hash != definition.read(PREDICTED.replace("by: 0.21", "by: 0.1"), "predicted").hash


@pytest.mark.parametrize(
    "name", [each for each in definition.names() if definition.load(each).contrasts]
)
def test_a_prediction_names_rows_that_the_board_runs(name: str) -> None:
    board = definition.load(name)
    named = {
        (row.encoding, naming.recorded(row.extension)): each
        for each, row in methods().items()
        if not row.model
    }
    run = {
        named.get((encoding, extension), f"{encoding}+{extension}".removesuffix("+direct"))
        for rows in board.parts.values()
        for encoding, extension, _ in naming.pairs(rows)
    }
    told = {row for each in board.contrasts.values() for pair in each.pairs for row in pair}
    assert {row.partition(" (")[0] for row in told} <= run.union(
        *(rows.methods for rows in board.parts.values())
    )


@pytest.mark.slow
def test_a_prediction_is_of_the_protocol_of_the_board_alone() -> None:
    text = """
protocol: learned
tasks: [copy]
parts:
  all: {encodings: [rope, nope], seeds: [20]}
  wider: {encodings: [t5], protocol: cpu_wide, seeds: [20]}
contrasts:
  NoPE reaches further: {pairs: [[nope, rope], [t5, rope]]}
"""
    found = [
        record(row, {1: 1.0, 8: score}, 20, protocol, extension="direct")
        for row, protocol, score in (
            ("rope", "learned", 0.4),
            ("nope", "learned", 0.7),
            ("t5", "cpu_wide", 0.9),
        )
    ]
    board = definition.read(text, "two sizes")
    [chapter] = contrast_parts(board, standings_of(board, MeasuredRuns.of(found, board)))
    [table] = chapter.tables
    assert [line.cells[-1] for line in table.rows] == ["yes", "\N{EN DASH}"]


@pytest.mark.slow
def test_a_prediction_may_be_about_what_tuning_adds() -> None:
    text = """
protocol: learned
tasks: [copy]
parts:
  all:
    encodings: [rope]
    extensions: [yarn, yarn_tuned]
    seeds: [20]
contrasts:
  Tuning helps:
    pairs: [[rope_yarn_tuned, rope_yarn]]
"""
    at = {"yarn": ("zero-shot", 0.4), "yarn_tuned": ("tuned", 0.7)}
    found = [
        changed(
            record(
                f"rope_{name}", {1: 1.0, 8: score}, 20, "learned", extension=name, encoding="rope"
            ),
            {"method_class": kind},
        )
        for name, (kind, score) in at.items()
    ]
    board = definition.read(text, "tuning")
    ranked = standings_of(board, MeasuredRuns.of(found, board))
    assert len(ranked) == 2  # a class has a table of its own
    [chapter] = contrast_parts(board, ranked)
    [table] = chapter.tables
    assert table.rows[0].cells[2].startswith(".15")  # half of .3
    assert table.rows[0].cells[-1] == "yes"


def test_every_rate_is_tried_for_the_same_rows() -> None:
    board = definition.load("rates_learned")
    tried: dict[str, list[tuple[str, ...]]] = {}
    for rows in board.parts.values():
        for words in rows.words:
            rate = next((word for word in words if "learning_rate" in word), "3e-3")
            rest = tuple(word for word in words if word != rate)
            tried.setdefault(rate.rpartition("=")[2], []).append(rest)
        assert rows.seeds == (100,) and not rows.tasks
    assert {*tried} == {"1.5e-3", "3e-3", "6e-3"}
    assert len({tuple(each) for each in tried.values()}) == 1
    assert all("evaluation.multiples=[1]" in each for each in tried["3e-3"])


def test_a_board_of_ones_own_stands_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board/mine.yaml").write_text(SMALL)
    assert definition.load("mine", [tmp_path]).hash == small().hash
    with pytest.raises(PosbenchError, match=r"board=mine is unknown.*did you mean main"):
        definition.load("mine")


@pytest.mark.slow
def test_the_bounds_on_a_base_are_those_of_their_papers() -> None:
    assert answers.decay(1024, 128) == pytest.approx(4.3e3, rel=0.01)  # table 2 of 2405.14591
    base = answers.decay(40, 32)
    at, below = (
        min(sum(math.cos(m * b ** (-i / 16)) for i in range(16)) for m in range(40))
        for b in (base, base / 1.001)
    )
    assert at >= 0 > below
    assert answers.turn(8, 32) == pytest.approx(2 * math.pi * 8 / 8 ** (2 / 32))
    slowest = Frequencies(64, 10_000.0).theta()[-1].item()
    assert slowest * answers.turn(10_000, 128) == pytest.approx(2 * math.pi)
    assert answers.aliasing(4096) == pytest.approx(651.9, abs=0.1)
    assert answers.drift(4096) == pytest.approx(4096 / math.acos(0))


# -- pages -----------------------------------------------------------------------------------------


def parts(board: Board, found: Sequence[Record]) -> list[BoardPart]:
    return measured_parts(board, MeasuredRuns.of(found))


def first_part(board: Board, found: Sequence[Record]) -> Chapter:
    measured = MeasuredRuns.of(found)
    first, *_ = standings_of(board, measured)
    return with_tasks(ranked(board, first, measured), first)


def tables_in(part: Chapter) -> tuple[Table, ...]:
    """The rows with a place, where there are some those below them, and rows by tasks."""
    [table], [by_task] = part.tables, [each for each in part.blocks if isinstance(each, Chapter)]
    return (*(group for _, group in table.groups), *by_task.tables)


TWO = SMALL.replace("rope, nope, rope_pi", "rope, nope")


def cells_of(table: Table) -> dict[str, dict[str, str]]:
    """Row -> heading -> cell."""
    headings = table.headings[1:]
    return {row.name: dict(zip(headings, row.cells, strict=True)) for row in table.rows}


@pytest.mark.slow
def test_rows_stand_in_the_order_of_what_they_reach() -> None:
    board = small()
    table = of(board, rope=0.4, nope=0.9, rope_pi=0.0)
    first = board_part(board, standings_of(board, MeasuredRuns.of(table)))
    placed, by_task = tables_in(first_part(board, table))
    [of_board] = first.tables
    assert first.title == "Board small"
    assert [row.name for row in of_board.rows] == list(board.all_tasks)
    assert of_board.rows[0].cells == ["3 of 3", "100 %", "nope (.92)"]
    assert list(cells_of(placed)) == ["nope", "rope", "rope_pi"]
    cells = cells_of(placed)["nope"]
    # From 1 at 1x to .9 at 2x, then level: (.95 + 2 x .9) / 3, chance being .001.
    assert (cells["reaches"], cells["learned"], cells["tasks"]) == (".92", "100 %", "4/4")
    short = ["method", "learned", "tasks", "reaches", "95 %", "minus the first"]
    assert [each.name for each in placed.columns if each.terminal] == short
    assert by_task.headings == ["method", *board.all_tasks]
    assert by_task.rows[0].cells == [".92"] * 4


@pytest.mark.slow
def test_a_row_that_learned_little_stands_below_the_table() -> None:
    lost = {"rows.0.proficiency": 0.1}
    found = [
        changed(each, lost)
        if each.method.name == "nope" and each.task.name in ("copy", "reverse")
        else each
        for each in of(small(TWO), rope=0.4, nope=0.9)
    ]
    placed, below, by_task = tables_in(first_part(small(TWO), found))
    assert [row.name for row in placed.rows] == ["rope"]
    assert [row.name for row in below.rows] == ["nope"]
    assert below.rows[0].cells[:2] == ["50 %", "2/4"]
    nope = next(row for row in by_task.rows if row.name == "nope")
    assert nope.cells == ["\N{EN DASH}", "\N{EN DASH}", ".92", ".92"]


@pytest.mark.slow
def test_a_row_that_was_not_run_on_a_task_is_ranked_on_the_others_and_that_is_told() -> None:
    """Of three rows one has not been run on passkey; nobody has been run on reverse."""
    board = small()
    found = [
        each
        for each in of(board, rope=0.4, nope=0.9)
        if each.task.name != "reverse" and (each.method.name, each.task.name) != ("nope", "passkey")
    ]
    part = first_part(board, found)
    assert part.blocks[:2] == [
        "Too few rows have been run on 2 of 4 tasks: reverse, passkey.",
        "1 row that the board asks for has not been run.",
    ]
    cells = cells_of(tables_in(part)[0])
    assert list(cells) == ["nope", "rope"] and cells["nope"]["tasks"] == "2/2"
    assert cells["nope"]["reaches"] == ".92"


@pytest.mark.slow
def test_an_extension_counts_by_its_training_and_is_marked_where_it_lost_1x() -> None:
    board = small(SMALL.replace("methods: [rope, nope, rope_pi]", OF_A_HOST))
    trained = {"config.extension": {"_target_": "posbench.extensions.direct.Direct"}}
    found = []
    for each in of(board, rope=0.4, rope_pi=0.5):
        weights = {"training.settings_hash": f"{each.task.name} {each.seed}"}
        lost = {"rows.0.proficiency": 0.1} if each.method.extension == "pi" else trained
        found.append(changed(each, weights | lost))
    placed, *_ = tables_in(first_part(board, found))
    assert [(row.name, row.marks) for row in placed.rows] == [
        ("rope_pi", ["fails at 1x"]),
        ("rope", []),
    ]
    assert {cells["learned"] for cells in cells_of(placed).values()} == {"100 %"}
    assert {"1x", "2x", "4x", "8x"} < set(placed.headings)


OF_A_HOST = "encodings: [rope], extensions: [direct, pi, ntk, yarn]"


@pytest.mark.slow
def test_a_part_has_its_own_tasks_alone() -> None:
    board = small(
        SMALL.replace("seeds: [10, 11, 12]}", "seeds: [10, 11, 12], tasks: [copy, passkey]}")
    )
    placed, *_ = tables_in(first_part(board, of(small(), rope=0.4, nope=0.9)))
    assert {cells["tasks"] for cells in cells_of(placed).values()} == {"2/2"}
    [standing] = standings_of(board, MeasuredRuns.of(of(small(), rope=0.4, nope=0.9)))
    assert set(standing.summary["num_tasks"]) == {2}


@pytest.mark.slow
def test_changed_settings_and_other_seeds_are_not_of_the_board() -> None:
    board = small()
    other = changed(record("rope (encoding.base=7)", seed=10, encoding="rope"), {})
    strange = record("rope", {1: 1.0, 2: 0.0, 4: 0.0, 8: 0.0}, seed=3, extension="direct")
    whole = of(board, rope=0.4)
    mixed = [*of(board, rope=0.4), other, strange]
    [part], [same] = parts(board, whole), parts(board, mixed)
    assert part.runs.equals(same.runs)


@pytest.mark.slow
def test_what_has_one_label_and_unlike_contents_is_not_mixed() -> None:
    board = small()
    found = of(board, rope=0.4, nope=0.9)
    old = changed(found[0], {"task_version": 0, "task.hash": "0" * 64})
    before = changed(found[0], {"method.hash": "1" * 64})
    [plain], [part] = (parts(board, each) for each in (found, [*found, old, before]))
    assert set(part.runs["task"]) == set(plain.runs["task"])
    assert len(part.runs) == len(plain.runs) + 1
    assert {row.partition(" [")[0] for row in part.runs["row"]} == {"rope", "nope"}
    assert part.runs.duplicated(["row", "task", "seed"]).sum() == 0


def test_records_that_are_not_of_the_board_make_no_section_of_it() -> None:
    found = [record("rope", seed=3, protocol="smoke")]
    assert standings_of(small(), MeasuredRuns.of(found)) == []


@pytest.mark.slow
def test_a_dry_run_is_shown_under_its_own_protocol() -> None:
    board = small()
    found = [changed(each, {"protocol.name": "smoke"}) for each in of(board, rope=0.4, nope=0.9)]
    assert len(parts(board, found)) == 1
    mixed = [*found, *of(board, rope=0.2)]
    [part] = parts(board, mixed)
    assert set(part.runs["row"]) == {"rope"}, (
        "beside runs of the board's protocol they are left out"
    )


@pytest.mark.slow
def test_a_part_of_another_protocol_waits_for_its_own_runs() -> None:
    text = SMALL.replace(
        "parts:\n", "parts:\n  wide: {methods: [rope], seeds: [10, 11], protocol: gpu}\n"
    )
    board = small(text)
    assert next(iter(board.parts)) == "wide"
    assert "wide" not in {part.title for part in parts(board, of(small(), rope=0.4))}


@pytest.mark.slow
def test_a_folder_called_after_a_board_refuses_records_of_another_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board/small.yaml").write_text(SMALL)
    board, folder = small(), tmp_path / "small"
    found = of(board, rope=0.4, nope=0.9)
    save(folder, *found)
    words = [str(folder), "--config-dir", str(tmp_path)]
    assert leaderboard.main(words, emit=lambda _: None) == 0
    assert "Board small" in (folder / "leaderboard.md").read_text("utf-8")
    assert leaderboard.main([*words, "--check"], emit=lambda _: None) == 0
    save(folder, changed(found[0], {"definition": "0" * 64}))
    assert leaderboard.main([*words, "--check"], emit=lambda _: None) == 1
    said = capsys.readouterr().err
    assert "1 of 24 records" in said and "another definition" in said


@pytest.mark.slow
def test_rows_of_the_user_are_shown_beside_those_of_the_board() -> None:
    """As after `records unpack`: on their tasks, among all rows of their protocol and class."""
    board = small()
    published = of(board, rope=0.4, nope=0.9)
    scores = dict.fromkeys(MULTIPLES, 1.0)
    own = [record("decay", scores, seed, task="copy", encoding="decay") for seed in (10, 11, 12)]
    measured = MeasuredRuns.of([*published, *own], board)
    asked = standings_of(board, measured)
    assert all("decay" not in each.summary.index for each in asked)
    [beside] = standings_beside(asked, measured)
    assert list(beside.summary.index) == ["decay", "nope", "rope"]
    assert {*beside.part.runs["task"]} == {"copy"} and beside.summary.loc["decay", "placed"]
    assert standings_beside(asked, MeasuredRuns.of(published, board)) == []
    further = [record("rope", scores, seed, task="sort", encoding="rope") for seed in (10, 11, 12)]
    [other] = standings_beside(asked, MeasuredRuns.of([*published, *further], board))
    assert list(other.summary.index) == ["rope"] and {*other.part.runs["task"]} == {"sort"}
    assert (
        beside.part.title
        in page.generate(Path("mine"), [*published, *own], (), board).pages[page.PAGE]
    )
