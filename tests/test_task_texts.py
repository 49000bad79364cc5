"""Tasks that are texts: what is drawn follows its source, and scores lie between references that
are computed here in another form.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from task_oracles import answered, made, split

from posbench.config.building import build
from posbench.config.compose import compose
from posbench.core.task import FIRST_SYMBOL, Answers, Batch
from posbench.tasks.in_context_language import InContextLanguage
from posbench.tasks.language import Language


def losing(batch: Batch, losses: np.ndarray) -> Answers:
    """Answers that lose so much at each symbol, [batch, n]."""
    between = np.pad(losses, ((0, 0), (1, 1)))  # SEP and EOS are not asked for
    return answered(batch, np.zeros_like(batch.answer), between)


def constant(batch: Batch, loss: float) -> Answers:
    return losing(batch, np.full((len(batch.tokens), batch.tokens.shape[1] - 3), loss))


# -- language: a source whose every probability is known -------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_symbol_depends_on_as_many_as_the_order_says(order: int) -> None:
    """The query stands at the last of them."""
    assert Language(4, order).max_distance(9) == order - 1


@pytest.mark.slow
def test_a_text_follows_the_table_of_its_source() -> None:
    """Frequencies after each context, counted symbol by symbol, are the probabilities of the
    table.
    """
    task: Any = build(
        OmegaConf.to_container(compose("task=language", "task.num_symbols=3").cfg().task), "task"
    )  # type: ignore[arg-type]
    batch = task.batch(200, 1000, "frequencies")
    counts: dict[tuple[int, ...], list[int]] = {}
    for index in range(len(batch.tokens)):
        _, text, _ = split(batch, index)
        for place in range(2, len(text)):
            context = tuple(token - FIRST_SYMBOL for token in text[place - 2 : place])
            counts.setdefault(context, [0, 0, 0])[text[place] - FIRST_SYMBOL] += 1
    assert len(counts) == 9
    for (before, last), found in counts.items():
        expected = task.source.table[3 * before + last]
        error = np.sqrt(expected * (1 - expected) / sum(found))
        assert (np.abs(np.array(found) / sum(found) - expected) < 5 * error + 1e-9).all()


@pytest.mark.parametrize("n", [1, 8, 64])
def test_who_knows_the_source_loses_its_entropy_and_no_less(n: int) -> None:
    """The surprise of texts under the table, each first pair under its stationary probability, is
    the least loss.
    """
    task, _ = made("language")
    source: Any = task.source  # type: ignore[attr-defined]
    batch = task.batch(n, 4000, "surprise")
    texts = batch.tokens[:, 2:-1] - FIRST_SYMBOL
    lost = -np.log(source.stationary[texts[:, 0] * 16 + texts[:, 1]])
    for place in range(2, texts.shape[1]):
        lost = lost - np.log(
            source.table[texts[:, place - 2] * 16 + texts[:, place - 1], texts[:, place]]
        )
    mean, error = lost.mean() / texts.shape[1], lost.std() / texts.shape[1] / len(texts) ** 0.5
    assert abs(mean - task.least_loss(n)) < 4 * error  # type: ignore[attr-defined]
    least, guess = task.least_loss(n), float(np.log(16))  # type: ignore[attr-defined]
    for loss, score in {least: 1, guess: 0, (least + guess) / 2: 0.5, 99: -1, 0: 1}.items():
        assert task.score(batch, constant(batch, loss)) == pytest.approx(score, abs=1e-6)
    assert -0.5 < task.score(batch, constant(batch, guess + 0.1)) < 0 == task.chance(n)


def test_a_text_starts_anywhere_in_the_stationary_chain() -> None:
    task, _ = made("language")
    source: Any = task.source  # type: ignore[attr-defined]
    after = np.zeros_like(source.stationary)
    for context in range(256):
        for symbol in range(16):
            after[context * 16 % 256 + symbol] += (
                source.stationary[context] * source.table[context, symbol]
            )
    assert np.allclose(after, source.stationary) and source.stationary.sum() == pytest.approx(1)


# -- in-context language: every text has a table of its own ----------------------------------------


def counted(text: list[int], task: InContextLanguage, window: int) -> list[float]:
    """The surprise of Bayes at each symbol, by a list of the pairs that may be counted."""
    lost = [math.log(task.num_symbols)]
    for place in range(1, len(text)):
        seen = text[max(0, place - 1 - window) : place]
        pairs = list(itertools.pairwise(seen))
        asked = (text[place - 1], text[place])
        of_row = sum(before == asked[0] for before, _ in pairs)
        probability = (pairs.count(asked) + task.concentration) / (
            of_row + task.num_symbols * task.concentration
        )
        lost.append(-math.log(probability))
    return lost


def probability(text: tuple[int, ...], task: InContextLanguage) -> float:
    """The probability of a text, over all tables: a Dirichlet integral for each row."""
    symbols, a = range(task.num_symbols), task.concentration
    pairs = list(itertools.pairwise(text))
    found = 1 / task.num_symbols
    for row in symbols:
        counts = [pairs.count((row, symbol)) for symbol in symbols]
        log = math.lgamma(len(counts) * a) - math.lgamma(len(counts) * a + sum(counts))
        log += sum(math.lgamma(a + count) - math.lgamma(a) for count in counts)
        found *= math.exp(log)
    return found


@pytest.mark.parametrize("window", [1, 2, 5, 12, 999])
def test_bayes_counts_the_pairs_in_its_window(window: int) -> None:
    task = InContextLanguage(num_symbols=4, concentration=0.3)
    batch = task.batch(20, 30, "bayes")
    found = task.surprise(batch, window)
    for index in range(30):
        text = split(batch, index)[1]
        assert found[index] == pytest.approx(counted(text, task, window))
    if window == 999:
        assert np.array_equal(found, task.surprise(batch))
    assert task.reference(batch, window) == pytest.approx(found.mean())


@pytest.mark.slow
def test_texts_have_the_distribution_of_those_that_follow_tables() -> None:
    """Every text of five symbols out of three: as often as the integral over tables says, as often
    as texts that follow tables drawn one by one, and Bayes is surprised by its probability.
    """
    task = InContextLanguage(num_symbols=3, concentration=0.4)
    texts = list(itertools.product(range(3), repeat=5))
    expected = np.array([probability(text, task) for text in texts])
    assert expected.sum() == pytest.approx(1)

    batch = task.batch(5, 200_000, "texts")
    drawn = batch.tokens[:, 2:-1] - FIRST_SYMBOL
    rng = np.random.default_rng(0)
    tables = rng.dirichlet([0.4] * 3, (200_000, 3))
    followed = np.empty_like(drawn)
    followed[:, 0] = rng.integers(0, 3, len(drawn))
    for place in range(1, 5):
        rows = tables[np.arange(len(drawn)), followed[:, place - 1]]
        followed[:, place] = (rng.random((len(drawn), 1)) > rows.cumsum(1)[:, :2]).sum(1)
    for found in (drawn, followed):
        shares = np.bincount(found @ 3 ** np.arange(4, -1, -1), minlength=243) / len(found)
        error = np.sqrt(expected * (1 - expected) / len(found))
        assert (np.abs(shares - expected) < 5 * error).all()

    lost = task.surprise(batch).sum(1)
    assert np.exp(-lost[:50]) == pytest.approx(
        [probability(tuple(row), task) for row in drawn[:50]]
    )


@pytest.mark.parametrize(("n", "loss"), [(64, 2.04), (512, 1.45)])
@pytest.mark.slow
def test_the_far_past_is_of_use(n: int, loss: float) -> None:
    task, _ = made("in_context_language")
    batch: Any = task.batch(n, 3000, "figures")
    bayes, longer, near = (task.reference(batch, window) for window in (None, 48, 12))  # type: ignore[attr-defined]
    assert bayes == pytest.approx(loss, abs=0.02)
    assert bayes < longer < near - 0.1 < near < np.log(16) - 0.4


@pytest.mark.slow
@pytest.mark.parametrize("n", [48, 300])
def test_the_score_lies_between_the_near_past_and_all_of_it(n: int) -> None:
    task: Any = made("in_context_language")[0]
    batch = task.batch(n, 64, "score")
    bayes, near = task.surprise(batch), task.surprise(batch, 12)
    for losses, score in ((near, 0), (bayes, 1), ((near + bayes) / 2, 0.5), (bayes - 1, 1)):
        assert task.score(batch, losing(batch, losses)) == pytest.approx(score, abs=1e-6)
    slightly = task.score(batch, losing(batch, near + 0.1 * (near - bayes)))
    assert slightly == pytest.approx(-0.1, abs=1e-6), "less than chance is shown as such"
    assert task.score(batch, constant(batch, 9.0)) == -1
    assert task.chance(n) == 0

    guess, mean = math.log(16), task.reference(batch)
    for loss, share in ((guess, 0), (mean, 1), (0.1 * guess + 0.9 * mean, 0.9), (guess + 9, -1)):
        assert task.proficiency(batch, constant(batch, loss)) == pytest.approx(share, abs=1e-6)
    assert task.gate == 0.9


def test_a_text_that_the_window_holds_scores_chance() -> None:
    task: Any = made("in_context_language")[0]
    for n, score in ((14, 0), (15, 1)):
        batch = task.batch(n, 400, "short")
        assert task.score(batch, losing(batch, task.surprise(batch))) == score


def test_the_most_peaked_tables_have_probabilities_as_well() -> None:
    """With rows of a Dirichlet distribution every entry might be 0 in floating point."""
    task = InContextLanguage(concentration=1e-12)
    batch = task.batch(100, 200, "peaked")
    assert np.isfinite(task.surprise(batch)).all()
    text = batch.tokens[0, 2:-1].tolist()
    pairs = set(itertools.pairwise(text))
    assert len(pairs) == len({before for before, _ in pairs}), "one symbol after each"
