"""What the pages of the board show: tables, curves and pictures."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from boards import contents, seeds, with_views
from making import changed, plain, record, row, save, searched

from posbench.boards import command as leaderboard
from posbench.boards.likely import OfTask
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing import figures
from posbench.showing.table import Column, Line, Table, pipes
from posbench.statistics import likelihoods

# -- tables and curves -----------------------------------------------------------------------------


@pytest.mark.slow
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
    learned = pd.read_csv(tmp_path / "leaderboard.csv").groupby("method")["learned"].max()
    assert learned.to_dict() == {"unlearned": 0, "shortsighted": 1, "lost": 0}
    assert table.startswith("protocol,task,measure,method,")


def test_a_cell_may_hold_bars_and_line_breaks() -> None:
    lines = pipes(["a|b", "n", "why"], [["|x|", "1", "one\nline"]], "lrl")
    assert lines == [r"| a\|b | n | why |", "| --- | ---: | --- |", r"| \|x\| | 1 | one line |"]
    assert pipes(["a", "b", "c"], [])[1] == "| --- | ---: | ---: |"


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


@pytest.mark.slow
def test_a_name_with_markup_in_it_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    name = "rope (a=${x}|b, c=<script>alert(1)</script>)"
    save(tmp_path, record(name))
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    text, page, *_ = (content.decode() for content in contents(tmp_path))
    assert "<script>alert" not in page and html.escape(name) in page
    assert r"rope (a=${x}\|b, c=\<script>alert(1)\</script>)" in text
    assert set(pd.read_csv(tmp_path / "leaderboard.csv")["method"]) == {name}


def test_no_two_of_many_curves_look_the_same() -> None:
    looks = {
        tuple(i % len(cycle) for cycle in (figures.COLOURS, figures.DASHES, figures.MARKERS))
        for i in range(100)
    }
    assert len(looks) == 100


@pytest.mark.slow
def test_the_drawing_is_wellformed_and_holds_every_name() -> None:
    curves = {f"method {i}": [row(n, 1 / n) for n in (1, 2, 3, 4)] for i in range(14)}
    drawing = figures.score_by_length(curves, "score")
    root = ElementTree.fromstring(drawing)
    texts = {
        element.text.strip()
        for element in root.iter("{http://www.w3.org/2000/svg}text")
        if element.text
    }
    assert {*curves} | {"1x", "2x", "4x"} <= texts and "3x" not in texts
    assert figures.score_by_length(curves, "score") == drawing


# -- settings under two names ----------------------------------------------------------------------


def two_names(change: Callable[[int], dict[str, Any]]) -> list[Record]:
    """Runs of the same settings under two names, each with values of its own."""
    return [
        changed(record(name, {1: 1.0, 2: 0.5}, method_hash="f" * 16), change(number))
        for number, name in enumerate(("one", "two"))
    ]


@pytest.mark.slow
def test_two_names_of_the_same_settings_each_have_their_own_likelihood() -> None:
    """Each beside the model that both extend, and none beside its other name."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    found = [
        changed(each, kind | {"seed": seed, "rows.1.loss": 1.0 + number})
        for seed in (0, 1, 2)
        for number, each in enumerate((plain(record("model")), *two_names(lambda _: {})))
    ]
    shown = {
        label: str(each) for (label, *_), each in likelihoods.of_board(tables.table(found)).items()
    }
    assert shown == {
        "model": "-1.00",
        "one": "-2.00, -1.00 [-1.00, -1.00]",
        "two": "-3.00, -2.00 [-2.00, -2.00]",
    }
    [of_task] = OfTask.all_of(tables.table(found))
    [of_lines] = of_task.part.tables
    assert [line.name for line in of_lines.rows] == ["direct", "one", "two"]
    [said] = of_task.answer
    assert said.endswith(
        "one adds -1.000 [-1.000, -1.000] nats a token, which is most, and two -2.000 [-2.000, "
        "-2.000], which is least."
    )
    renamed = [changed(plain(each), kind) for each in two_names(lambda _: {}) for _ in "ab"]
    found = [changed(each, {"seed": seed % 2}) for seed, each in enumerate(renamed)]
    assert {each.more for each in likelihoods.of_board(tables.table(found)).values()} == {None}


@pytest.mark.slow
def test_a_row_of_which_some_losses_overflow_has_no_likelihood_and_says_so() -> None:
    """A mean over the others would flatter it."""
    kind = {"method_class": "pretrained", "method.encoding": "model"}
    rows = (plain(record("model")), *two_names(lambda _: {}))
    found = [
        changed(
            each,
            kind | {"seed": seed, "rows.1.loss": None if (number, seed) == (1, 0) else 2.0},
        )
        for seed in (0, 1, 2)
        for number, each in enumerate(rows)
    ]
    table = tables.table(found)
    shown = {label: str(each) for (label, *_), each in likelihoods.of_board(table).items()}
    assert shown["one"] == "overflows on 1 of 3"
    assert shown["two"].startswith("-2.00, +0.00 [")
    [of_task] = OfTask.all_of(table)
    [of_lines] = of_task.part.tables
    assert of_lines.headings == ["extension", "samples", "10", "20"]
    same = "+0.000 [+0.000, +0.000]"
    assert [[line.name, *line.cells] for line in of_lines.rows] == [
        ["direct", "3", "-1.000", "-2.000"],
        ["two", "3", same, same],
        ["one", "3", same, "overflows on 1 of 3"],
    ]
    assert list(of_task.answer) == [
        "copy at 20 tokens, over 3 samples of model: two adds +0.000 [+0.000, +0.000] nats a token."
    ]


def test_a_difference_over_few_samples_has_the_interval_of_students_t() -> None:
    """Of losses 0, 1, 2 it is 1 ±t(2) / sqrt(3); two have none, and thirty have a bootstrap."""

    def more(count: int) -> likelihoods.More:
        losses = pd.DataFrame({"one": range(count), "host": [0] * count}, dtype=float)
        return likelihoods.More.of(losses)

    assert more(2).to(2) == "-0.50"
    assert more(3).to(3) == "-1.000 [-3.484, +1.484]"
    assert more(29).low == pytest.approx(-14 - 2.0484 * 8.5147 / 29**0.5, abs=1e-3)
    students = -14.5 - 2.0452 * 8.8034 / 30**0.5
    assert more(30).low != pytest.approx(students, abs=1e-3)
    assert more(30).low == pytest.approx(students, abs=0.3)


def test_questions_about_one_text_are_one_sample_of_texts() -> None:
    """Means of texts are 1, 2 and 6, so 3 ±t(2) * 2.6458 / sqrt(3)."""
    rows = [("direct", 0.0)] * 6 + [("yarn", loss) for loss in (0.0, 2.0, 1.0, 3.0, 5.0, 7.0)]
    table = pd.DataFrame(rows, columns=["extension", "loss"]).assign(seed=[*range(6)] * 2)
    found = likelihoods.added(table, "yarn", questions=2)
    assert found is not None and found.mean == 3
    assert found.half_width == pytest.approx(4.3027 * 2.6458 / 3**0.5, abs=1e-3)
    alone = likelihoods.added(table, "yarn")
    assert alone is not None and alone.mean == 3 and alone.half_width < found.half_width


def test_a_terminal_has_seven_columns_at_most_and_a_pipe_has_plain_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [Line("a[b]\x1b", list("12345678"), ["m"], own=True), Line("c" * 200, list("12345678"))]
    wide = Table([Column("row"), *map(Column, "ABCDEFGH")], lines)
    head, first, second = wide.aligned()
    assert head.split() == ["row", *"ABCDEF"] and second.split() == ["c" * 200, *"123456"]
    assert first.split() == ["a[b]\\x1b", "(m)", *"123456"], "no markup, and nothing that acts"
    less = Table([Column("row"), Column("A", terminal=False), Column("B")], [Line("x", ["1", "2"])])
    assert [line.split() for line in less.aligned()] == [["row", "B"], ["x", "2"]]
    assert r"\textbf{1}" in wide.latex() and wide.pipes[2].startswith("| a[b]\x1b *(m)* | 1 |")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert any("\x1b[1m" in line for line in wide.aligned())
    assert len(wide.aligned()) > 3, "a long name is folded"


OF_ONES_OWN = """
from posbench.core.encoding import PositionEncoding


class Decay(PositionEncoding):
    \"\"\"Far keys fade.\"\"\"

    def encode(self, a):
        return a
"""


@pytest.mark.slow
def test_a_page_has_encodings_and_a_board_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, local = tmp_path / "mine", tmp_path / "local"
    for group in ("encoding", "board"):
        (mine / group).mkdir(parents=True)
    (mine / "decay_of_mine.py").write_text(OF_ONES_OWN)
    (mine / "encoding/decay.yaml").write_text("_target_: decay_of_mine.Decay\n")
    (mine / "board/by_hand.yaml").write_text(
        "about: judged by hand\ngroups: {all: {asks: to copy, tasks: [copy, sort]}}\n"
        "parts: {encodings: {methods: [rope], encodings: [decay], seeds: [0, 1]}}\n"
    )
    node = {"_target_": "decay_of_mine.Decay"}
    command = "python -m posbench encoding=decay"
    own = [
        changed(each, {"config.encoding": node, "command": command, "method.name": "decay"})
        for each in with_views()
        if each.method.name == "alibi"
    ]
    save(local, *with_views(), *own)
    chosen = ["--board", "by_hand", "--config-dir", str(mine)]
    assert leaderboard.main([str(local), *chosen], emit=lambda _: None) == 0
    page = (local / "leaderboard.html").read_text()
    assert "Far keys fade." in page and f"posbench --config-dir {mine} encoding=decay" in page
    assert leaderboard.main([str(local), "--board", "by_hand"]) == 1
    assert "board=by_hand is unknown" in capsys.readouterr().err
