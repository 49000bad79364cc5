"""Real text: windows are slices of files, and what more context gives is paired by target."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from making import changed, record
from omegaconf import OmegaConf
from small_runs import made
from task_oracles import answered

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError
from posbench.boards.measured_runs import MeasuredRuns, more_context
from posbench.boards.predictions import contrast_parts, predictions
from posbench.boards.ranking import standings_without_board
from posbench.boards.tables import context_parts
from posbench.config.board import read as load_text
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.identity import identify
from posbench.core.evaluation import nearest
from posbench.core.scoring import answers, inputs
from posbench.core.task import BOS, EOS, FIRST_SYMBOL, SEP, Batch
from posbench.records import tables
from posbench.records.record import Record
from posbench.running.subject import setup
from posbench.showing.pages import Chapter
from posbench.showing.table import NOTHING
from posbench.statistics.context import beside_the_first, difference, of_rows, sums
from posbench.tasks import source_code
from posbench.tasks.source_code import Corpus, SourceCode, installed

ROOT = Path(__file__).parents[1]


def chosen(*words: str) -> SourceCode:
    """The task as its YAML has it."""
    node: Any = OmegaConf.to_container(compose("task=source_code", *words).cfg().task)
    task: SourceCode = build(node, "task")
    return task


def windows(batch: Batch) -> list[bytes]:
    """The bytes of each sequence, once the rest of it is what every sequence has."""
    first, second, *_ = batch.tokens.T
    assert (first == BOS).all() and (second == SEP).all() and (batch.tokens[:, -1] == EOS).all()
    return [(row - FIRST_SYMBOL).astype(np.uint8).tobytes() for row in batch.tokens[:, 2:-1]]


FOLDER = Path(str(find_spec("sympy").origin)).parent  # type: ignore[union-attr]


def read(path: str) -> bytes:
    return (FOLDER / path).read_bytes()


def paths(held_out: bool) -> list[str]:
    files = installed()
    return [files.paths[file] for file in (files.held_out if held_out else files.training)]


# -- windows ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_window_is_a_slice_of_a_training_file_and_all_of_it_is_asked_for() -> None:
    task = chosen()
    batch = task.batch(100, 64, 0, "train", 0)
    whole = [read(path) for path in paths(held_out=False)]
    assert all(any(window in text for text in whole) for window in windows(batch))
    assert (batch.answer == (np.arange(103) > 1) & (np.arange(103) < 102)).all()


def test_each_place_of_the_training_files_is_drawn_with_the_same_probability() -> None:
    """Also the first and the last window of a file, and none across two files."""
    files = Corpus(
        ("a.py", "b.py", "c.py"),
        np.arange(12, dtype=np.uint8),
        np.array([5, 2, 5]),
        "",
    )
    files.__dict__["_is_held_out"] = np.zeros(3, bool)
    drawn = files.anywhere(np.random.default_rng(0), 3, 6000)
    first, counts = np.unique(drawn[:, 0], return_counts=True)
    assert first.tolist() == [0, 1, 2, 7, 8, 9]
    assert (drawn == drawn[:, :1] + np.arange(3)).all()
    assert np.abs(counts - 1000).max() < 150


@pytest.mark.slow
def test_tests_ask_for_the_same_bytes_at_every_length_and_context_grows_to_the_front() -> None:
    task = chosen()
    names = task.texts(200, 7, "test")
    before = [b""] * 200
    for n in (64, 254, 318, 510, 2046, 4096):
        [batch] = task.tests(n, 254, 200, 7, "test")
        asked = np.zeros(n + 3, bool)
        asked[-65:-1] = True
        assert (batch.answer == asked).all()
        found = windows(batch)
        for window, shorter, name in zip(found, before, names, strict=True):
            assert len(window) == n and window.endswith(shorter) and window in read(name)
        before = found
    [few] = task.tests(254, 254, 32, 7, "test")
    assert windows(few) == [each[-254:] for each in before[:32]], "whatever their number"


def test_each_file_that_is_held_out_gives_one_window_before_any_gives_a_second() -> None:
    names = chosen().texts(304, 20, "test")
    long = {path for path in paths(held_out=True) if len(read(path)) >= 4096}
    assert len(long) == 152 and set(names[:152]) == set(names[152:]) == long
    assert names[:152] != names[152:] != chosen().texts(304, 21, "test")[152:]


def test_no_file_is_trained_on_and_tested_and_none_is_left_out() -> None:
    trained, tested = paths(held_out=False), paths(held_out=True)
    every = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py")}
    assert not {*trained} & {*tested} and {*trained, *tested} == every
    assert (len(trained), len(tested)) == (1292, 240)
    assert paths(held_out=True) == sorted(tested)


def test_the_first_samples_are_the_same_on_every_machine() -> None:
    task = chosen()
    trained, [tested] = task.batch(254, 16, 20, "train", 0), task.tests(254, 254, 16, 20, "test")
    assert content_hash(trained.tokens.tolist()) == "ad8ff59a493cfde6"
    assert content_hash(tested.tokens.tolist()) == "729f02c0b2db949d"


def test_the_score_is_the_share_of_eight_bits_that_is_saved() -> None:
    task = chosen()
    [batch] = task.tests(254, 254, 4, 0, "test")
    right = np.ones_like(batch.answer)
    for loss, score in ((0.0, 1.0), (np.log(2), 7 / 8), (np.log(256), 0.0), (99.0, -1.0)):
        lost = answered(batch, right, np.full(batch.tokens[:, 1:].shape, loss))
        assert task.score(batch, lost) == task.proficiency(batch, lost) == pytest.approx(score)


def test_a_model_that_knows_nothing_loses_what_a_guess_does() -> None:
    """Its logits have a variance of 1, which costs half a nat where all bytes are as frequent."""
    run = setup("protocol=text", "task=source_code", "method=rope", "training.validation_samples=8")
    [batch] = run.task.tests(254, 254, 8, 0, "test")
    model = run.model()
    found = answers(model, inputs(batch, model.encodings, 0), batch)
    assert found.mean_loss == pytest.approx(np.log(256) + 0.25, abs=0.4)


def test_the_worked_examples_are_as_long_as_they_say() -> None:
    shown = re.findall(r"BOS SEP (.*) EOS", SourceCode.__doc__ or "")
    assert [len(each.split()) for each in shown] == [9, 6]


# -- the corpus ------------------------------------------------------------------------------------


def test_the_version_of_the_corpus_is_the_one_that_is_pinned() -> None:
    pin = f"{source_code.PACKAGE}=={source_code.VERSION}"
    for name in ("constraints.txt", "requirements.lock"):
        assert pin in (ROOT / name).read_text().replace(" \\", "").splitlines(), name


def corpus(folder: Path, **texts: str) -> Corpus:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return Corpus.of(folder)


def test_the_hash_is_that_of_paths_and_contents(tmp_path: Path) -> None:
    first = corpus(tmp_path / "one", a="x = 1", b__c="y = 2")
    (tmp_path / "one/b/c.pyc").write_text("compiled")
    assert Corpus.of(tmp_path / "one").hash == first.hash
    assert corpus(tmp_path / "two", b__c="y = 2", a="x = 1").hash == first.hash
    others = [
        corpus(tmp_path / "three", a="x = 1", b__c="y = 3"),
        corpus(tmp_path / "four", a="x = 1", b__d="y = 2"),
        corpus(tmp_path / "five", a="x = 1y", b__c=" = 2"),
        corpus(tmp_path / "six", a="x = 1"),
    ]
    assert len({first.hash, *(each.hash for each in others)}) == 5


def test_another_corpus_is_refused_and_named_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = corpus(tmp_path, **{f"m{number}": "x = 1\n" * 2000 for number in range(40)})
    monkeypatch.setattr(source_code, "installed", lambda: other)
    remedy = "pip install sympy==1.14.0 -c constraints.txt, or give task.corpus="
    with pytest.raises(ConfigError, match=f"have the hash {other.hash}, .* {remedy}{other.hash}"):
        chosen().batch(10, 2, 0, "train", 0)
    with pytest.raises(ConfigError, match="another task"):
        chosen().tests(10, 10, 2, 0, "test")
    assert (
        windows(chosen(f"task.corpus='{other.hash}'").batch(6, 1, 0, "train", 0))[0][0] in b"x =1\n"
    )


def test_a_package_that_is_not_there_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_code, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match="no_such_package, which is not installed: pip install"):
        installed.__wrapped__()


def test_runs_on_another_corpus_are_of_another_task() -> None:
    usual, other = (
        identify(compose("protocol=text", "task=source_code", "method=rope", *words)).task
        for words in ((), ("task.corpus='0123456789abcdef'",))
    )
    assert usual.label == "source_code" and other.hash != usual.hash
    assert other.label == "source_code (task.corpus=0123456789abcdef)"


def test_no_file_is_read_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """So planning a sweep does not wait for it."""

    def refuse() -> Corpus:
        raise AssertionError("read")

    monkeypatch.setattr(source_code, "installed", refuse)
    run = setup("protocol=text", "task=source_code", "method=rope")
    assert [*run.lengths.multiples.values()] == [1, 1.25, 1.5, 2, 3, 4, 6, 8]
    assert (run.train_positions, run.test_positions) == (256, 2048)
    with pytest.raises(AssertionError, match="read"):
        run.task.batch(8, 1, 0, "train", 0)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("task.targets=0", r"task.targets .* at least 1 and at most task.longest=4096; got 0"),
        ("task.longest=63", r"at most task.longest=63; got 64"),
        ("task.longest=999999", r"task.longest=999999 is more than the bytes of any file .* lower"),
    ],
)
def test_a_setting_that_cannot_work_gets_its_sentence(word: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        chosen(word).batch(8, 1, 0, "train", 0)


def test_there_is_no_window_beyond_the_longest() -> None:
    task = chosen()
    assert nearest(task, 254, 16.0) == 4094
    with pytest.raises(ConfigError, match=r"n=\d+ is more than task.longest=4096"):
        nearest(task, 254, 32.0)


# -- sums by text, in a record ---------------------------------------------------------------------

SMALL = (
    "protocol=smoke",
    "task=source_code",
    "training.min_length=30",
    "training.max_length=30",
    "task.targets=8",
    "evaluation.multiples=[1,2,3]",
    "evaluation.num_samples=200",
)


@pytest.mark.slow
def test_the_sums_of_a_record_are_its_losses_and_its_shares(tmp_path: Path) -> None:
    run, _, found = made(tmp_path, *SMALL, "method=rope")
    tested = found.evaluate()
    by_text = tested.by_text
    assert by_text is not None and len(by_text.names) == 152
    assert [test.test_length for test in by_text.tests] == [row.test_length for row in tested.rows]
    for row, test in zip(tested.rows, by_text.tests, strict=True):
        assert row.num_tokens == sum(test.tokens) == 200 * 8
        assert {*test.tokens} == {8, 16}
        assert row.loss == pytest.approx(sum(each or 0 for each in test.nats) / 1600, rel=1e-6)
        assert row.token_accuracy_teacher_forced == sum(test.right) / 1600
    first = run.task.texts(200, run.config.seed, "test")[0]
    [batch] = run.task.tests(30, 30, 1, run.config.seed, "test")
    assert windows(batch)[0] in read(first)


@pytest.mark.slow
def test_a_ceiling_has_the_sums_of_each_length(tmp_path: Path) -> None:
    words = (*SMALL, "method=rope_ceiling", "extension.multiples=[2]")
    tested = made(tmp_path, *words)[2].evaluate()
    assert tested.by_text is not None
    assert [test.test_length for test in tested.by_text.tests] == [15, 32]  # 17 and 34 positions


@pytest.mark.slow
def test_tasks_that_are_drawn_have_no_sums_and_their_records_no_such_field(tmp_path: Path) -> None:
    assert made(tmp_path, "method=rope", "task=copy")[2].evaluate().by_text is None
    assert "by_text" not in record().as_json()


SUMS = {
    "names": ["a.py", "b.py", "c.py"],
    "tests": [
        {"test_length": 10, "tokens": [4, 2, 2], "nats": [4.0, 2.0, 2.0], "right": [2, 1, 1]},
        {"test_length": 20, "tokens": [4, 2, 2], "nats": [6.0, 1.0, 2.0], "right": [1, 1, 1]},
    ],
}


def with_sums(sums: dict[str, Any], **more: Any) -> Record:
    return changed(record(**more), {"by_text": sums})


def test_a_record_with_sums_is_read_as_it_was_written() -> None:
    made = with_sums(SUMS)
    assert Record.model_validate(made.as_json()) == made
    assert tables.by_text([made])[
        ["multiple", "text", "tokens", "nats", "right"]
    ].values.tolist() == [
        [1.0, "a.py", 4, 4.0, 2],
        [1.0, "b.py", 2, 2.0, 1],
        [1.0, "c.py", 2, 2.0, 1],
        [2.0, "a.py", 4, 6.0, 1],
        [2.0, "b.py", 2, 1.0, 1],
        [2.0, "c.py", 2, 2.0, 1],
    ]
    with pytest.raises(ValueError, match="lists of texts are of unlike length"):
        with_sums(SUMS | {"names": ["a.py"]})


# -- differences -----------------------------------------------------------------------------------


def lines(
    multiple: float, seed: int = 0, row: str = "rope", **texts: tuple[int, float, int]
) -> Any:
    return [
        {"row": row, "seed": seed, "multiple": multiple, "text": text}
        | dict(zip(("tokens", "nats", "right"), values, strict=True))
        for text, values in texts.items()
    ]


def test_a_difference_is_a_token_of_the_same_texts_and_seeds() -> None:
    table = pd.DataFrame(
        lines(1, a=(4, 4.0, 2), b=(2, 2.0, 1), c=(2, 9.0, 0), e=(2, 1.0, 1))
        + lines(1, 1, a=(4, 0.0, 4), d=(2, 2.0, 0))
        + lines(8, a=(4, 6.0, 1), b=(2, 1.0, 1), c=(4, 9.0, 0), e=(2, 1.0, 1))  # c: other tokens
        + lines(8, 1, a=(4, 2.0, 2), b=(2, 2.0, 0))
    )
    long, short = (sums(table, "rope", multiple) for multiple in (8, 1))
    found = difference(long, short)
    assert found.mean == pytest.approx((2 - 1 + 2) / 12)
    assert found.low < -1 / 2 and found.high > 4 / 8, "further out than the texts themselves"
    assert difference(long, short, "right").mean == pytest.approx((-1 + 0 - 2) / 12)
    assert difference(long, short) == found, "the same draws"
    none = difference(long.drop("a", level="text"), short.drop(["b", "d", "e"], level="text"))
    assert np.isnan([none.mean, none.low, none.high, none.p]).all() and str(none) == "not known"


def test_a_few_texts_that_agree_are_no_proof() -> None:
    for count in range(1, 5):
        texts = {f"t{number}": (2, 1.0, 1) for number in range(count)}
        worse = dict.fromkeys(texts, (2, 2.0, 1))
        table = pd.DataFrame(lines(1, **texts) + lines(8, **worse))
        found = difference(sums(table, "rope", 8), sums(table, "rope", 1))
        assert found.mean == 0.5
        if count < 3:
            assert np.isnan([found.low, found.high, found.p]).all() and str(found) == "+0.500"
        else:
            assert found.p == 2 / 2**count and str(found) == "+0.500 [+0.500, +0.500]"


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 12))])
def test_intervals_of_few_texts_are_as_wide_as_they_are_uncertain(count: int) -> None:
    """A bootstrap that draws as many texts covers .74 with three, and .85 with five."""
    index = pd.MultiIndex.from_product([[0], range(count)], names=["seed", "text"])
    zero = pd.DataFrame({"tokens": 8, "nats": 0.0, "right": 0}, index)
    rng, trials = np.random.default_rng(0), 200
    found = [
        difference(zero.assign(nats=rng.normal(size=count)), zero, draws=400) for _ in range(trials)
    ]
    assert np.mean([each.low <= 0 <= each.high for each in found]) > 0.91
    assert np.mean([each.p < 0.05 for each in found]) < 0.09


def test_a_row_whose_loss_overflowed_comes_last() -> None:
    table = pd.DataFrame(
        [
            line
            for row, nats in (("a", 3.0), ("b", np.nan), ("c", 1.0))
            for at in (1, 8)
            for line in lines(at, row=row, t=(2, nats, 1), u=(2, nats, 1), v=(2, nats, 1))
        ]
    )
    assert list(of_rows(table, (8.0,)).index) == ["c", "a", "b"]


def test_a_loss_that_overflowed_leaves_no_difference() -> None:
    table = pd.DataFrame(lines(1, a=(4, 4.0, 2)) + lines(8, a=(4, np.nan, 2)))
    assert np.isnan(difference(sums(table, "rope", 8), sums(table, "rope", 1)).mean)


@pytest.mark.slow
def test_pairs_of_rows_are_compared_at_one_length_and_adjusted_for_their_number() -> None:
    texts = [f"t{number}" for number in range(40)]
    table = pd.DataFrame(
        [
            line
            for number, text in enumerate(texts)
            for row, nats in (("a", 1.0 + number % 2), ("b", 2.0 + number % 2), ("c", 1.5))
            for line in lines(8, row=row, **{text: (2, nats, 1)})
        ]
    )
    b, c = beside_the_first(table, ["a", "b", "c"], 8).values()
    assert (b.mean, b.low, b.high) == (0.5, 0.5, 0.5) and c.mean == pytest.approx(0)
    assert b.p == pytest.approx(3 * 2 / 10_001) and c.p > 0.5
    again = beside_the_first(table, ["b", "c", "a"], 8)
    assert again["a"] == replace(b, mean=-0.5, low=-0.5, high=-0.5)


@pytest.mark.slow
def test_intervals_hold_the_truth_where_tokens_of_a_text_depend_on_each_other() -> None:
    rng, held, trials = np.random.default_rng(0), 0, 300
    index = pd.MultiIndex.from_product([[0], range(60)], names=["seed", "text"])
    for _ in range(trials):
        tokens = rng.integers(1, 4, 60) * 64
        of_text = rng.normal(0.3, 0.5, 60)  # all tokens of a text share it
        zero = pd.DataFrame({"tokens": tokens, "nats": 0.0, "right": 0}, index)
        one = zero.assign(nats=tokens * of_text + rng.normal(0, 1, 60) * tokens**0.5)
        found = difference(one, zero, draws=500)
        held += found.low <= 0.3 <= found.high
    assert held / trials > 0.91


THREE = SUMS | {
    "tests": [
        *SUMS["tests"],
        {"test_length": 80, "tokens": [4, 2, 2], "nats": [8.0, 4.0, 4.0], "right": [0, 0, 0]},
    ]
}


def two_rows() -> list[Record]:
    """With more context rope loses one nat a token at 8x, and nope nothing."""
    worse, same = (
        record(row, {1: 1.0, 2: 0.5, 8: 0.5}, task="source_code") for row in ("rope", "nope")
    )
    flat = SUMS | {"tests": [THREE["tests"][0] | {"test_length": n} for n in (10, 20, 80)]}
    return [changed(worse, {"by_text": THREE}), changed(same, {"by_text": flat})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "holds"),
    [(0, ["yes", "no"]), (0.99, ["yes", "no"]), (1, ["no", "no"]), (-1, ["yes", "no"])],
)
def test_a_prediction_is_judged_by_what_more_context_does(by: float, holds: list[str]) -> None:
    measured = MeasuredRuns.of(two_rows())
    board = load_text(
        f"""
        tasks: [source_code]
        parts: {{all: {{methods: [rope, nope], seeds: [0]}}}}
        contrasts: {{Less: {{pairs: [[nope, rope], [rope, nope], [nope, alibi]], by: {by}}}}}
        """,
        "text",
    )
    found = standings_without_board(measured), more_context(measured)
    pairs = predictions(board, *found)["Less"]
    assert [each.shown for each in pairs] == ["1.000 (1.000)", "-1.000 (-1.000)", NOTHING]
    assert [each.verdict for each in pairs] == [*holds, NOTHING]
    [part] = contrast_parts(board, *found)
    assert str(part.blocks[0]).startswith("It holds for a pair if the difference is above ")
    other_seed = MeasuredRuns.of([two_rows()[0], changed(two_rows()[1], {"seed": 1})])
    pairs = predictions(board, standings_without_board(other_seed), more_context(other_seed))
    assert [each.verdict for each in pairs["Less"]] == [NOTHING] * 3, "they have no seed in common"


@pytest.mark.slow
def test_a_board_shows_what_more_context_gives_or_takes() -> None:
    worse, same = found = two_rows()
    lost = {"by_text": THREE, "rows.0.proficiency": 0.1, "seed": 1, "training.settings_hash": "b"}
    older = {"by_text": THREE, "task_version": 0}
    found += [changed(each, lost) for each in (worse, same)]  # which have not learned
    assert set(MeasuredRuns.of(found).by_text["seed"]) == {0}
    assert set(MeasuredRuns.of([*found, changed(same, older)]).by_text["task_name"]) == {
        f"source_code, version {version}" for version in (0, found[0].task_version)
    }
    [part] = context_parts(more_context(MeasuredRuns.of(found)))
    [table], beside = part.tables, part.blocks[-1]
    assert isinstance(beside, Chapter)
    assert [line.name for line in table.rows] == ["nope", "rope"]
    assert table.rows[0].cells == [
        "1",
        "1.000",
        *["+0.000 [+0.000, +0.000]"] * 2,
        ".500",
        "+0.000 [+0.000, +0.000]",
    ]
    assert table.rows[1].cells[3] == "+1.000 [+1.000, +1.000]"
    [table] = beside.tables
    assert table.headings == ["method", "less nope", "p"]
    assert [(line.name, *line.cells) for line in table.rows] == [
        ("rope", "+1.000 [+1.000, +1.000]", ".2500")  # three texts can say no more
    ]
    assert not [*context_parts(more_context(MeasuredRuns.of([record()])))]
