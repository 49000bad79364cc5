"""Boards as data: what they ask to be run, what they refuse, and how their rows are shown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from making import changed, record, save
from offered import CONF

from posbench.base.errors import PosbenchError
from posbench.boards import command as leaderboard
from posbench.boards.generated import generate
from posbench.boards.measured import Measured, under_one_protocol
from posbench.boards.ranking import BoardPart, standings_of
from posbench.boards.ranking import parts as measured_parts
from posbench.boards.sections import Section, board_sections
from posbench.boards.winners import first_of
from posbench.check.subject import setup
from posbench.config import board as definition
from posbench.config import board_rows as naming
from posbench.config.board import Board, Rows
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.config.identity import identify
from posbench.config.methods import methods
from posbench.records import tables
from posbench.records.record import Record
from posbench.statistics import bootstrap, measures

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


def test_the_main_board_has_what_its_protocol_has() -> None:
    """The lengths stand in both; the board is what a reader sees, the protocol what is run."""
    main = definition.load("main")
    protocol = yaml.safe_load((CONF / "protocol/cpu.yaml").read_text("utf-8"))["evaluation"]
    assert list(main.multiples) == protocol["multiples"]
    assert main.judged.longest == protocol["longest"] == max(main.multiples) == measures.LONGEST
    assert (main.judged.reach, main.judged.equivalent) == (measures.HALF, bootstrap.EQUIVALENT)
    assert [len(group.tasks) for group in main.groups.values()] == [2] * 6
    for task in main.all_tasks:
        run = setup("protocol=cpu", f"task={task}", "method=nope")
        expected = {"key_value_retrieval": 62, "in_context_language": 50}.get(task, 40)
        assert run.train_positions == expected, task
        gate = 0.90 if task == "in_context_language" else main.judged.gate
        assert run.task.gate == gate


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
    assert small(SMALL + "about: other words\n").hash == board.hash
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
        ("groups:", "groups: {}\ngroups:", "groups stands in line"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(old: str, new: str, said: str) -> None:
    assert old in SMALL
    with pytest.raises(PosbenchError, match=r"^board small") as raised:
        small(SMALL.replace(old, new))
    assert said in str(raised.value) and "\n" not in str(raised.value)


RATES = """
protocol: learned
tasks: [copy]
parts:
  all:
    methods: [rope, rope_short_conv, fox]
    encodings: [t5]
    rates: {rope: 6e-3, rope_short_conv: 1.5e-3, t5: 3e-3}
    seeds: [20]
"""


def test_a_board_chooses_the_learning_rate_of_an_encoding_or_a_method() -> None:
    rows = definition.read(RATES, "rates").parts["all"]
    assert rows.words == [
        ("method=rope", "training.learning_rate=0.006"),
        ("method=rope_short_conv", "training.learning_rate=0.0015"),
        ("method=fox",),
        ("encoding=t5", "extension=direct", "training.learning_rate=0.003"),
    ]
    with pytest.raises(PosbenchError, match="has a rate of path, which is none of its rows"):
        definition.read(RATES.replace("t5: 3e-3", "path: 3e-3"), "rates")
    with pytest.raises(PosbenchError, match="greater than 0"):
        definition.read(RATES.replace("t5: 3e-3", "t5: 0"), "rates")
    other = definition.read(RATES.replace("t5: 3e-3", "t5: 6e-3"), "rates")
    assert other.hash != definition.read(RATES, "rates").hash
    assert definition.load("main").hash in definition.load("main").hashes


def test_a_row_whose_rate_the_board_chose_is_ranked_beside_the_others() -> None:
    board = definition.read(RATES, "rates")
    chosen = {"rope": "0.006", "fox": "", "t5": ""}
    found = []
    for row, rate in chosen.items():
        protocol = f"learned (training.learning_rate={rate})" if rate else "learned"
        found.append(record(row, {1: 1.0, 8: 0.5}, 20, protocol, extension="direct"))
    # A rate that the board did not choose, and one that it chose for another row.
    found.append(
        record(
            "fox", {1: 1.0, 8: 0.9}, 20, "learned (training.learning_rate=0.006)", encoding="fox"
        )
    )
    table = tables.table(found)
    joined = under_one_protocol(table, board)
    named = {
        (row, protocol) for row, protocol in zip(joined["method"], joined["protocol"], strict=True)
    }
    other = "learned (training.learning_rate=0.006)"
    assert named == {
        ("rope", "learned"),
        ("fox", "learned"),
        ("t5", "learned"),
        ("fox", other),
    }
    assert joined.loc[joined["protocol"] == "learned", "protocol_hash"].nunique() == 1
    (part,) = measured_parts(board, Measured.of(joined))
    assert set(part.runs["row"]) == {"rope", "fox", "t5"}
    assert under_one_protocol(table, definition.load("main")).equals(table)


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


# -- pages -----------------------------------------------------------------------------------------


def parts(board: Board, table: pd.DataFrame) -> list[BoardPart]:
    return measured_parts(board, Measured.of(table))


def sections(board: Board, table: pd.DataFrame) -> list[Section]:
    measured = Measured.of(table)
    return board_sections(board, standings_of(board, measured), measured, asked=True)


def test_rows_stand_in_their_order_with_group_means_and_reach() -> None:
    board = small()
    table = tables.table(of(board, rope=0.4, nope=0.9, rope_pi=0.0))
    first, section, *_ = sections(board, table)
    assert first.title == "Board small" and [row.name for row in first.table.rows] == [
        "copy",
        "retrieve",
    ]
    assert [row.name for row in section.table.rows] == ["nope", "rope", "rope_pi"]
    cells = dict(zip(section.table.headings[1:], section.table.rows[0].cells, strict=True))
    # From 1 at 1x to .9 at 2x, then level: (.95 + 2 x .9) / 3, chance being .001.
    assert cells["area"] == cells["copy"] == ".92"
    assert cells["reach"] == "> 8" and cells["seeds"] == "3" and "tasks" not in cells
    short = ["method", "area", "95 %", "rank", "1x", "learned", "reach"]
    assert section.table.aligned()[0].split("  ")[0] == "method"
    assert [each.name for each in section.table.columns if each.terminal] == short
    assert section.terminal and not first.terminal
    kept = "nope has the largest mean, and keeps it whichever group is left out."
    assert any(note.endswith(kept) for note in section.notes)


TWO = SMALL.replace("rope, nope, rope_pi", "rope, nope")


def test_no_winner_is_named_while_a_row_has_not_been_run() -> None:
    board = small()
    _, section, *_ = sections(board, tables.table(of(board, rope=0.5, nope=0.9)))
    assert section.notes == [
        "1 row that the board asks for has not been run.",
        "First of each group: copy: nope (.92); retrieve: nope (.92).",
        "No overall winner is named: 1 row lacks a task.",
    ]


def test_the_first_of_a_group_may_lack_a_task_of_another(tmp_path: Path) -> None:
    """One row of ten lacks passkey, and is the best at copying."""
    names = [f"rope_{extension}" for extension in OF_TEN]
    board = small(SMALL.replace("rope, nope, rope_pi", ", ".join(names)))
    found = of(board, **dict.fromkeys(names, 0.5) | {names[0]: 0.9})
    found = [each for each in found if (each.task.name, each.method.name) != ("passkey", names[0])]
    _, section, *_ = sections(board, tables.table(found))
    said = [note for note in section.notes if note.startswith("First of each group")]
    assert said == [f"First of each group: copy: {names[0]} (.92); retrieve: 9 rows (.58)."]
    assert "1 row lacks one of the tasks, and so an overall number." in section.notes
    assert section.notes[-1] == "No overall winner is named: 1 row lacks a task."
    made = generate(tmp_path, found, [], board).pages["findings.md"]
    assert f"- Copy (step through): `{names[0]}` (.92) is first" in made


OF_TEN = ["pi", "ntk", "yarn", "abf", "dca", "rerope", "string", "lampe", "mesa", "llama3"]


def test_no_winner_is_named_where_groups_disagree() -> None:
    board = small(TWO)
    found = [
        *[each for each in of(board, rope=0.9, nope=0.1) if each.task.name in ("copy", "reverse")],
        *[each for each in of(board, rope=0.2, nope=0.8) if each.task.name[0] in "pk"],
    ]
    _, section, *_ = sections(board, tables.table(found))
    assert any(note.startswith("First of each group: copy: rope") for note in section.notes)
    said = [note for note in section.notes if note.startswith("No overall winner is named: ")]
    assert said == [
        "No overall winner is named: rope has the largest mean, and loses it without copy."
    ]


def test_a_winner_must_lead_by_more_than_the_margin_and_without_each_group() -> None:
    def answer(**levels: float) -> str:
        board = small(TWO if len(levels) == 2 else SMALL)
        _, section, *_ = sections(board, tables.table(of(board, **levels)))
        return section.notes[-1]

    assert "named: nope and rope are not told apart." in answer(rope=0.5, nope=0.51)
    assert answer(rope=0.5, nope=0.6).startswith("nope has the largest mean, and keeps it")
    many = {"rope": 0.5, "nope": 0.5, "rope_pi": 0.5}
    assert answer(**many).startswith("No overall winner is named: ")


def test_a_lead_that_one_seed_makes_names_no_winner() -> None:
    """The means differ by more than the margin, and not in 95 % of the draws."""
    board = small(TWO)
    lucky = [
        changed(each, {f"rows.{place}.score": 0.9 for place in range(1, len(MULTIPLES))})
        if (each.method.name, each.task.name, each.seed) == ("nope", "copy", 12)
        else each
        for each in of(board, rope=0.5, nope=0.5)
    ]
    _, section, *_ = sections(board, tables.table(lucky))
    overall = section.table.headings.index("area") - 1
    first, second = (float(row.cells[overall]) for row in section.table.rows)
    assert section.table.rows[0].name == "nope" and first - second > board.judged.equivalent
    assert section.notes[-1] == "No overall winner is named: nope and rope are not told apart."


def test_a_row_that_lacks_a_task_has_no_place() -> None:
    names = [f"rope_{extension}" for extension in OF_TEN]
    board = small(SMALL.replace("rope, nope, rope_pi", ", ".join(names)))
    found = of(board, **dict.fromkeys(names, 0.4) | {names[0]: 0.9})
    found = [each for each in found if (each.task.name, each.method.name) != ("copy", names[0])]
    _, section, *_ = sections(board, tables.table(found))
    last = section.table.rows[-1]
    assert last.name == names[0] and last.cells[:3] == ["\N{EN DASH}"] * 3


def test_a_part_has_its_own_tasks_alone() -> None:
    board = small(
        SMALL.replace("seeds: [10, 11, 12]}", "seeds: [10, 11, 12], tasks: [copy, passkey]}")
    )
    _, section, *_ = sections(board, tables.table(of(small(), rope=0.4, nope=0.9)))
    assert "copy" in section.table.headings and len(section.table.rows) == 2
    [standing] = standings_of(board, Measured.of(tables.table(of(small(), rope=0.4, nope=0.9))))
    assert set(standing.summary["num_tasks"]) == {2}


def test_a_board_under_way_is_shown_with_what_it_has_and_says_what_it_lacks() -> None:
    """One row has one task and the other row another: none has a place."""
    board = small(TWO)
    found = [each for each in of(board, rope=0.4) if each.task.name == "copy"]
    found += [each for each in of(board, nope=0.9) if each.task.name == "passkey"]
    _, section, *_ = sections(board, tables.table(found))
    assert section.notes == [
        "Under way, and ranked on 2 of 4 tasks: too few rows have been run on reverse, "
        "key_value_retrieval.",
        "Only one task stands for each of copy, retrieve so far.",
        "2 rows lack one of the tasks, and so an overall number.",
    ]
    cells = {
        row.name: dict(zip(section.table.headings[1:], row.cells, strict=True))
        for row in section.table.rows
    }
    assert cells["rope"]["copy"] != "\N{EN DASH}" == cells["rope"]["retrieve"]
    assert {cells[row]["area"] for row in cells} == {"\N{EN DASH}"}


def test_of_a_board_under_way_the_groups_that_are_whole_have_a_first(tmp_path: Path) -> None:
    board = small(TWO)
    found = [each for each in of(board, rope=0.4, nope=0.9) if each.task.name != "reverse"]
    made = generate(tmp_path, found, [], board)
    assert made.sections[1].notes[1:] == [
        "Only one task stands for copy so far.",
        "First of each group that is whole: retrieve: nope (.92).",
    ]
    said = made.pages["findings.md"]
    assert "- Retrieve" in said and "- Copy" not in said
    assert "All: under way, and ranked on 3 of 4 tasks. First of" in made.pages["leaderboard.html"]
    assert '<p class="small">3 of 4 tasks</p>' in made.pages["leaderboard.html"]


def test_a_task_that_one_row_of_three_has_gives_nobody_a_place_of_his_own() -> None:
    """It waits until nine in ten rows have it; the others are ranked by what all have."""
    board = small()
    found = of(board, rope=0.4, nope=0.9, rope_pi=0.1)
    found = [each for each in found if each.task.name != "passkey" or each.method.name == "rope"]
    _, section, *_ = sections(board, tables.table(found))
    assert section.notes[0].endswith("on 3 of 4 tasks: too few rows have been run on passkey.")
    places = section.table.headings.index("area") - 1
    assert [row.name for row in section.table.rows if row.cells[places] != "\N{EN DASH}"] == [
        "nope",
        "rope",
        "rope_pi",
    ]


def test_a_training_costs_what_it_costs_on_the_tasks_that_rows_are_ranked_on() -> None:
    """Passkey is dear, and only one row of three has it; the seeds of a task are one number."""
    board = small()
    found = [
        changed(each, {"training.cpu_seconds": 900.0 if each.task.name == "passkey" else 60.0})
        for each in of(board, rope=0.4, nope=0.9, rope_pi=0.1)
        if each.task.name != "passkey" or each.method.name == "rope"
    ]
    _, section, *_ = sections(board, tables.table(found))
    assert {row.cells[section.table.headings.index("CPU s") - 1] for row in section.table.rows} == {
        "60"
    }


def test_one_seed_names_no_winner() -> None:
    board = small(TWO)
    found = [each for each in of(board, rope=0.4, nope=0.9) if each.seed == 10]
    _, section, *_ = sections(board, tables.table(found))
    assert section.notes == ["No winner is named: some rows have fewer than 3 seeds."]


def test_rows_are_ranked_on_the_seeds_that_nearly_all_of_them_have() -> None:
    """A seed that two rows of three have waits: it would be held against other luck."""
    board = small()
    usual = of(board, rope=0.4, nope=0.5, rope_pi=0.1)

    def order(found: list[Record]) -> list[str]:
        _, section, *_ = sections(board, tables.table(found))
        return [f"{row.name} {row.cells[2]}" for row in section.table.rows]

    ten = [each for each in usual if each.seed == 10]
    others = [changed(each, {"seed": 11}) for each in of(board, rope=1.0) if each.seed == 10]
    assert order([*ten, *others]) == order(ten), "seed 11 of rope alone"
    two = [changed(each, {"seed": 11}) for each in of(board, rope=1.0, nope=1.0) if each.seed == 10]
    assert order([*ten, *two]) == order(ten), "seed 11 of two rows"
    whole = [changed(each, {"seed": 11}) for each in of(board, rope=1.0, nope=1.0, rope_pi=1.0)]
    assert order([*ten, *(each for each in whole[::3])]) != order(ten), "all rows have it"


def test_a_group_names_all_rows_that_are_not_told_apart_from_its_first() -> None:
    board = small(SMALL.replace("methods: [rope, nope, rope_pi]", OF_A_HOST))
    levels = {"rope": 0.5, "rope_pi": 0.51, "rope_ntk": 0.51, "rope_yarn": 0.5}
    near = sections(board, tables.table(of(board, **levels)))[1].notes[0]
    assert "copy: rope_ntk, rope_pi, rope and rope_yarn (.58 to .59)" in near
    far = sections(board, tables.table(of(board, **levels | {"rope": 0.3})))[1].notes[0]
    assert "copy: rope_ntk, rope_pi and rope_yarn (.58 to .59);" in far


def test_a_lead_of_the_margin_is_a_lead() -> None:
    """In floating point, .57 - .02 is less than .55."""
    assert first_of(pd.Series({"a": 0.57, "b": 0.55}), 0.02) == "a (.57)"
    assert first_of(pd.Series({"a": 0.57, "b": 0.551}), 0.02) == "a and b (.55 to .57)"


OF_A_HOST = "encodings: [rope], extensions: [direct, pi, ntk, yarn]"


def test_pages_of_another_day_do_not_stay_unless_somebody_wrote_them(tmp_path: Path) -> None:
    folder = generated(tmp_path, rope=0.4)
    made, own = folder / "tasks/kth_from_end.md", folder / "tasks/own.md"
    of_another_day = (folder / "leaderboard.md").read_text(encoding="utf-8")
    made.parent.mkdir()
    for path in (folder / "findings.md", made):
        path.write_text(of_another_day)
    own.write_text("by hand")
    words = [str(folder), "--config-dir", str(tmp_path)]
    assert leaderboard.main([*words, "--check"], emit=lambda _: None) == 1
    generated(tmp_path, rope=0.4)
    assert leaderboard.main([*words, "--check"], emit=lambda _: None) == 0
    assert not (folder / "findings.md").exists() and not made.exists()
    assert own.read_text() == "by hand"


def generated(folder: Path, **levels: float) -> Path:
    """The folder of a board `small` with all that is made of its records."""
    (folder / "board").mkdir(exist_ok=True)
    (folder / "board/small.yaml").write_text(SMALL)
    save(folder / "small", *of(small(), **levels))
    words = [str(folder / "small"), "--config-dir", str(folder)]
    assert leaderboard.main(words, emit=lambda _: None) == 0
    return folder / "small"


def test_changed_settings_and_other_seeds_are_not_of_the_board() -> None:
    board = small()
    other = changed(record("rope (encoding.base=7)", seed=10, encoding="rope"), {})
    strange = record("rope", {1: 1.0, 2: 0.0, 4: 0.0, 8: 0.0}, seed=3, extension="direct")
    whole = tables.table(of(board, rope=0.4))
    mixed = tables.table([*of(board, rope=0.4), other, strange])
    [part], [same] = parts(board, whole), parts(board, mixed)
    assert part.runs.equals(same.runs)


def test_what_has_one_label_and_unlike_contents_is_not_mixed() -> None:
    board = small()
    found = of(board, rope=0.4, nope=0.9)
    old = changed(found[0], {"task_version": 0, "task.hash": "0" * 64})
    before = changed(found[0], {"method.hash": "1" * 64})
    [plain], [part] = (parts(board, tables.table(each)) for each in (found, [*found, old, before]))
    assert set(part.runs["task"]) == set(plain.runs["task"])
    assert len(part.runs) == len(plain.runs) + 1
    assert {row.partition(" [")[0] for row in part.runs["row"]} == {"rope", "nope"}
    assert part.runs.duplicated(["row", "task", "seed"]).sum() == 0


def test_records_that_are_not_of_the_board_make_no_section_of_it() -> None:
    found = tables.table([record("rope", seed=3, protocol="smoke")])
    assert sections(small(), found) == []


def test_a_dry_run_is_shown_under_its_own_protocol() -> None:
    board = small()
    found = [changed(each, {"protocol.name": "smoke"}) for each in of(board, rope=0.4, nope=0.9)]
    assert len(parts(board, tables.table(found))) == 1
    mixed = [*found, *of(board, rope=0.2)]
    [part] = parts(board, tables.table(mixed))
    assert set(part.runs["row"]) == {"rope"}, (
        "beside runs of the board's protocol they are left out"
    )


def test_a_part_of_another_protocol_waits_for_its_own_runs() -> None:
    text = SMALL.replace(
        "parts:\n", "parts:\n  wide: {methods: [rope], seeds: [10, 11], protocol: gpu}\n"
    )
    board = small(text)
    assert next(iter(board.parts)) == "wide"
    assert "wide" not in {part.title for part in parts(board, tables.table(of(small(), rope=0.4)))}


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
