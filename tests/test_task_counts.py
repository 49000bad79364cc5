"""Tasks with more than one question or more than one count to a test, and those whose prompt says
what is asked for.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from task_oracles import ORACLES, answered, made, split

from posbench.base.errors import ConfigError
from posbench.core.task import EOS, FIRST_SYMBOL, MARK, SEP, Task
from posbench.statistics.measures import area
from posbench.tasks.addition_hints import AdditionHints
from posbench.tasks.flip_flop import FlipFlop
from posbench.tasks.in_context_language import InContextLanguage
from posbench.tasks.key_value_retrieval import KeyValueRetrieval
from posbench.tasks.kth_from_end_drawn import KthFromEndDrawn
from posbench.tasks.missing_duplicate import MissingDuplicate
from posbench.tasks.mqar import MQAR
from posbench.tasks.mqar_load import MQARLoad
from posbench.tasks.multi_hop import MultiHop
from posbench.tasks.passkey_distractors import PasskeyDistractors
from posbench.tasks.repeat_token import RepeatToken


@pytest.mark.parametrize("name", ["key_value_retrieval", "repeat_token", "in_context_language"])
def test_the_worked_examples_follow_the_rule(name: str) -> None:
    """Letters are symbols; an example has the length of its n, and the answer of its oracle."""
    text = type(made(name)[0]).__doc__ or ""
    lengths = re.findall(r"n = (\d+)", text[text.index("Examples") :])[:2]
    for n, (prompt, answer) in zip(
        lengths, re.findall(r"BOS (.*?) ?SEP (.*) EOS", text), strict=True
    ):
        tokens = [
            [
                MARK if word == "MARK" else FIRST_SYMBOL + ord(word) - ord("a")
                for word in part.split()
            ]
            for part in (prompt, answer)
        ]
        examples: dict[str, Task] = {
            "key_value_retrieval": KeyValueRetrieval(16, answer.count("MARK") or 1),
            "repeat_token": RepeatToken(),
            "in_context_language": InContextLanguage(),
        }
        task = examples[name]
        assert len(tokens[0]) + len(tokens[1]) + 3 == task.total_length(int(n))
        asked = ORACLES[name](*tokens, task)
        assert len(asked) == task.answer_length(int(n))
        assert all(tokens[1][place] == token for place, token, _ in asked)


LETTERS, CAPITALS, DIGITS = "abcdefgh", "ABCDEFGH", "0123456789"
SPELT: dict[str, tuple[str, tuple[Task, Task]]] = {
    "addition_hints": (DIGITS + LETTERS, (AdditionHints(8), AdditionHints(8))),
    "flip_flop": ("wir" + LETTERS, (FlipFlop(8), FlipFlop(8))),
    "kth_from_end_drawn": (LETTERS + DIGITS[1:], (KthFromEndDrawn(2, 8), KthFromEndDrawn(3, 8))),
    "mqar_load": (CAPITALS + DIGITS[:8] + LETTERS, (MQARLoad(8), MQARLoad(8))),
    "passkey_distractors": (
        DIGITS + LETTERS + CAPITALS,
        (PasskeyDistractors(2, 2, 10, 8, 8), PasskeyDistractors(3, 1, 10, 8, 8)),
    ),
}
"""The alphabet of a docstring's examples in the order of the task's symbols, and their settings."""


@pytest.mark.parametrize("name", SPELT)
def test_worked_examples_of_several_alphabets_follow_the_rule(name: str) -> None:
    alphabet, tasks = SPELT[name]
    text = type(tasks[0]).__doc__ or ""
    lengths = re.findall(r"n = (\d+)", text[text.index("Examples") :])[:2]
    examples = re.findall(r"BOS (.*?) ?SEP (.*) EOS", text)
    for task, n, parts in zip(tasks, lengths, examples, strict=True):
        prompt, answer = (
            [
                MARK if word == "MARK" else FIRST_SYMBOL + alphabet.index(word)
                for word in part.split()
            ]
            for part in parts
        )
        assert len(prompt) + len(answer) + 3 == task.total_length(int(n))
        asked = ORACLES[name](prompt, answer, task)
        assert len(asked) == task.answer_length(int(n))
        assert all(answer[place] == token for place, token, _ in asked)


# -- key-value retrieval ---------------------------------------------------------------------------


def keys_of(prompt: list[int]) -> list[tuple[int, int]]:
    marks = [place for place, token in enumerate(prompt) if token == MARK]
    return [(prompt[place + 1], prompt[place + 2]) for place in marks]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 30, 225])
def test_keys_are_different_cells_of_a_grid_with_near_misses(n: int) -> None:
    task = KeyValueRetrieval()
    size = 60 if n > 30 else 600
    batch = task.batch(n, size, "grid")
    side = math.ceil(math.sqrt(n)) + 1
    shared, near = [], 0
    for index in range(size):
        keys = keys_of(split(batch, index)[0])
        assert len(keys) == len(set(keys)) == n
        firsts, seconds = ([key[part] for key in keys] for part in (0, 1))
        assert max(len(set(firsts)), len(set(seconds))) <= side
        shared.append(sum(firsts.count(first) - 1 for first in firsts) / n)
        near += len(set(firsts)) < n or len(set(seconds)) < n
    # Of the side^2 - 1 other cells, each as likely as any, side - 1 are in the row of a key.
    assert np.mean(shared) == pytest.approx((n - 1) / (side + 1), abs=0.1)
    if n >= 3:
        assert near == size if n >= 4 else near > 0.85 * size


def test_every_symbol_may_be_part_of_a_key_a_value_or_filler() -> None:
    task = KeyValueRetrieval()
    batch = task.batch(8, 4000, "symbols")
    found: dict[str, list[int]] = {"first": [], "second": [], "value": [], "filler": []}
    for index in range(4000):
        prompt = split(batch, index)[0]
        place = 0
        while place < len(prompt):
            pair = prompt[place] == MARK
            for kind, token in zip(
                ("first", "second", "value") if pair else ("filler",),
                prompt[place + 1 : place + 4] if pair else prompt[place : place + 1],
                strict=True,
            ):
                found[kind].append(token)
            place += 4 if pair else 1
    for tokens in found.values():
        counts = np.bincount(np.array(tokens) - FIRST_SYMBOL, minlength=16)
        assert len(counts) == 16 and counts.min() > 0.85 * counts.mean()


def test_questions_are_drawn_with_replacement() -> None:
    task = KeyValueRetrieval()
    for n in (1, 2, 8):
        batch = task.batch(n, 3000, "questions")
        different = [len(set(keys_of(split(batch, index)[1]))) for index in range(3000)]
        assert np.mean(different) == pytest.approx(n * (1 - (1 - 1 / n) ** 6), abs=0.1)


def test_filler_stands_in_any_gap() -> None:
    """Three pairs have two filler symbols in four gaps: each of the ten ways is as likely."""
    batch = KeyValueRetrieval().batch(3, 20_000, "gaps")
    marks = batch.tokens[:, 1:15] == MARK
    ways, counts = np.unique(marks, axis=0, return_counts=True)
    assert len(ways) == 10 and counts.min() > 1800 and counts.max() < 2200


def test_the_score_is_the_share_of_questions_and_no_end_counts() -> None:
    task = KeyValueRetrieval()
    batch = task.batch(4, 2, "score")
    right = batch.answer.copy()
    assert task.score(batch, answered(batch, right, np.zeros((2, right.shape[1] - 1)))) == 1
    right[:, -1] = False
    right[0, np.flatnonzero(batch.answer[0])[:3]] = False
    found = answered(batch, right, np.zeros((2, right.shape[1] - 1)))
    assert task.score(batch, found) == task.proficiency(batch, found) == 9 / 12
    assert not found.sequences.any()


@pytest.mark.parametrize(("num_symbols", "most"), [(16, 225), (8, 49), (2, 1)])
def test_more_pairs_than_the_grid_has_keys_for_are_refused(num_symbols: int, most: int) -> None:
    task = KeyValueRetrieval(num_symbols)
    assert task.batch(most, 2, "most").tokens.shape[1] == task.num_positions(most) + 1
    sentence = f"task.num_symbols={num_symbols} gives keys for at most {most} pairs, not for n="
    for asked in (task.total_length, task.num_positions, lambda n: task.batch(n, 2, "more")):
        with pytest.raises(ConfigError, match=sentence):
            asked(most + 1)
        with pytest.raises(ConfigError, match="n must be at least 1; got 0"):
            asked(0)


# -- repeat_token ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trained", [1, 2, 8, 19, 76])
def test_counts_near_the_length_are_tested_and_none_beyond_the_trained(trained: int) -> None:
    task = RepeatToken()
    assert list(task.tested(trained, trained)) == list(
        range(math.ceil(Fraction(88, 100) * trained), trained + 1)
    )
    for n in {*range(1, 163)} - {trained}:
        low, high = (math.floor(Fraction(share, 100) * n + Fraction(1, 2)) for share in (88, 112))
        assert list(task.tested(n, trained)) == list(range(low, high + 1))


def test_of_many_counts_forty_are_tested_at_even_steps() -> None:
    for n in range(163, 2000, 7):
        counts = RepeatToken().tested(n, 19)
        assert len(counts) == 40
        assert counts[0] == round(0.88 * n) and counts[-1] == round(1.12 * n)
        steps = np.diff(counts)
        assert steps.min() >= 1 and steps.max() - steps.min() <= 1


@pytest.mark.parametrize("n", [19, 24])
def test_each_count_is_asked_for_with_every_symbol(n: int) -> None:
    task = RepeatToken(5)
    batches = task.tests(n, 19, 2, 0, "test")
    found = []
    for batch in batches:
        for index in range(len(batch.tokens)):
            prompt, answer, _ = split(batch, index)
            assert prompt == answer and len(set(prompt)) == 1
            found.append((len(prompt), prompt[0]))
    symbols = range(FIRST_SYMBOL, FIRST_SYMBOL + 5)
    assert found == [(count, symbol) for count in task.tested(n, 19) for symbol in symbols]
    for one, other in zip(batches, task.tests(n, 19, 999, 1, "validation"), strict=True):
        assert np.array_equal(one.tokens, other.tokens) and np.array_equal(one.source, other.source)


# -- the k-th from the end, of many k --------------------------------------------------------------


def test_every_k_is_asked_for_as_often_at_every_length() -> None:
    task = KthFromEndDrawn(largest_k=5, num_symbols=3)
    for n in (1, 40):
        batch = task.batch(n, 50_000, "k")
        distance = batch.tokens.shape[1] - 3 - batch.source[:, -2]  # of a token from SEP, the query
        assert (distance == 1 + batch.tokens[:, -4] - (FIRST_SYMBOL + 2)).all()
        counts = np.bincount(distance)
        assert counts[:2].sum() == 0 and len(counts) == 7
        assert (np.abs(counts[2:] - 10_000) < 500).all()


# -- passkeys by name ------------------------------------------------------------------------------


def test_each_of_the_keys_is_asked_for_and_any_of_them_would_be_a_guess() -> None:
    """Who answers with the first key is right as often as there are keys, and a bit more."""
    task = PasskeyDistractors(num_keys=3, key_length=1, num_symbols=5)
    batch = task.batch(6, 30_000, "keys")
    first, right, order = [], [], []
    for index in range(30_000):
        prompt, answer, _ = split(batch, index)
        names = [token for token in prompt if token >= FIRST_SYMBOL + 5 + 16]
        first.append(prompt.index(names[0]))
        order.append(names.index(answer[0]))
        right.append(prompt[first[-1] + 1] == answer[1])
    assert np.bincount(order) == pytest.approx([10_000] * 3, abs=400)
    assert np.mean(right) == pytest.approx(1 / 3 + 2 / 3 / 5, abs=0.015)
    # Filler stands in any gap: before the first of three keys, a quarter of six symbols.
    assert np.mean(first) == pytest.approx(6 / 4, abs=0.05)


# -- recall at load --------------------------------------------------------------------------------


def test_the_score_of_recall_is_the_share_of_queries() -> None:
    task = MQARLoad(16)
    batch = task.batch(4, 2, "score")
    right = batch.answer.copy()
    right[:, -1] = False
    right[0, np.flatnonzero(batch.answer[0])[:3]] = False
    found = answered(batch, right, np.zeros((2, right.shape[1] - 1)))
    assert task.score(batch, found) == task.proficiency(batch, found) == 5 / 8


def test_more_pairs_than_there_are_keys_are_refused() -> None:
    task = MQARLoad(9)
    assert task.batch(9, 2, "most").tokens.shape[1] == task.num_positions(9) + 1
    for asked in (task.total_length, task.max_distance, lambda n: task.batch(n, 2, "more")):
        with pytest.raises(ConfigError, match=r"task.num_symbols=9 gives keys .* not for n=10:"):
            asked(10)
        with pytest.raises(ConfigError, match="n must be at least 1; got 0"):
            asked(0)


# -- flip-flop -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "reads"), [(1, 1), (9, 1), (10, 2), (18, 2), (150, 16)])
def test_one_instruction_in_ten_reads_and_of_the_others_one_in_ten_writes(
    n: int, reads: int
) -> None:
    size = 4000
    text = FlipFlop().batch(n, size, "kinds").tokens[:, 2:-1] - FIRST_SYMBOL
    kinds, symbols = text[:, 0::2], text[:, 1::2] - 3
    assert kinds.shape == (size, n + 1) and (symbols >= 0).all() and symbols.max() == 15
    assert (kinds[:, 0] == 0).all() and (kinds[:, -1] == 2).all()
    assert ((kinds == 2).sum(1) == reads).all()
    between = kinds[:, 1:-1][kinds[:, 1:-1] != 2]
    if len(between):
        error = (0.09 / len(between)) ** 0.5
        assert np.mean(between == 0) == pytest.approx(0.1, abs=5 * error)


def test_reads_in_the_middle_stand_anywhere() -> None:
    text = FlipFlop().batch(18, 20_000, "reads").tokens[:, 2:-1] - FIRST_SYMBOL
    counts = (text[:, 0::2] == 2).sum(0)
    assert counts[0] == 0 and counts[-1] == 20_000
    assert counts[1:-1] == pytest.approx([20_000 / 17] * 17, abs=170)


@pytest.mark.parametrize(("share", "source"), [(0.0, 3), (1.0, 2 * 9 + 1)])
def test_the_register_holds_the_last_write(share: float, source: int) -> None:
    """If nothing else writes, the first symbol; if all do, that of the last but one."""
    batch = FlipFlop(write_share=share).batch(9, 50, "register")
    assert (batch.source[:, -2] == source).all()


def test_the_score_of_reading_is_the_share_of_reads() -> None:
    task = FlipFlop()
    batch = task.batch(18, 5, "score")
    right = batch.answer.copy()
    assert right.sum() == 10 and not right[:, -1].any()
    right[0, np.flatnonzero(right[0])[0]] = False
    found = answered(batch, right, np.zeros((5, right.shape[1] - 1)))
    assert task.score(batch, found) == task.proficiency(batch, found) == 0.9


# -- addition with hints ---------------------------------------------------------------------------


MEASURES = Path(__file__).parent.parent / "docs/measures.md"


@pytest.mark.slow
def test_what_any_symbol_of_the_right_kind_scores_is_what_the_docstrings_and_measures_say() -> None:
    rng, task = np.random.default_rng(0), FlipFlop()
    found = []
    for n in (18, 38, 78, 158):
        right = []
        for row in task.batch(n, 2_000, 0, "any write", n).tokens:
            kind, symbol = row[2:-1:2] - FIRST_SYMBOL, row[3:-1:2]
            reads = np.flatnonzero(kind == 2)
            given = [rng.choice(symbol[:place][kind[:place] == 0]) for place in reads]
            right.append(np.mean(given == symbol[reads]))
        found.append(float(np.mean(right)))
    said = [float(each) for each in re.findall(r" (\.\d\d) ", FlipFlop.__doc__ or "")]
    assert said == pytest.approx([found[0], found[-1]], abs=0.02)
    multiples = [1, 2, 4, 8]
    recall = [sum(1 / k for k in range(1, n + 1)) / n for n in (8, 16, 33, 67)]
    (line,) = re.findall(r"- On some tasks.*", MEASURES.read_text())
    of_writes, of_values = area(multiples, found, 1 / 16), area(multiples, recall, 1 / 128)
    expected = [found[0], found[-1], of_writes, recall[0], recall[-1], of_values]
    said = [float(each) for each in re.findall(r" (\.\d\d)\b", line)]
    assert said == pytest.approx(expected, abs=0.02)


def test_values_that_are_left_are_right_as_often_as_the_docstring_says() -> None:
    rng, n = np.random.default_rng(0), 8
    right = []
    batch = MQARLoad().batch(n, 1_000, 0, "left")
    for row, asked in zip(batch.tokens, batch.answer, strict=True):
        values = row[asked & (row != EOS)]
        left = [*values]
        for value in values:
            right.append(left[rng.integers(len(left))] == value)
            left.remove(value)
    assert np.mean(right) == pytest.approx(sum(1 / k for k in range(1, n + 1)) / n, abs=0.03)


@pytest.mark.parametrize(
    ("task", "n", "expected"),
    [(MQAR(), 22, 1 / 24), (MultiHop(), 14, 1 / 2), (KeyValueRetrieval(), 8, 1 / 8 + 7 / 8 / 16)],
)
def test_any_value_is_right_as_often_as_the_docstring_says(
    task: Task, n: int, expected: float
) -> None:
    rng = np.random.default_rng(0)
    right, whole = [], []
    batch = task.batch(n, 2_000, 0, "any value")
    for row, asked in zip(batch.tokens, batch.answer, strict=True):
        values = row[asked & (row != EOS)]
        if isinstance(task, KeyValueRetrieval):
            pairs = row[: int((row == SEP).argmax())]
            given = rng.choice(pairs[np.flatnonzero(pairs == MARK) + 3], len(values))
        else:
            given = rng.permutation(values)
        right.append(np.mean(given == values))
        whole.append(np.all(given == values))
    if isinstance(task, KeyValueRetrieval):
        assert np.mean(right) == pytest.approx(expected, abs=0.02)
    else:  # two values may be the same
        assert expected - 0.02 < np.mean(whole) < expected + 0.06
    assert max(np.mean(right), np.mean(whole)) > 2 * task.chance(n)


def test_only_the_missing_symbol_is_there_an_odd_number_of_times() -> None:
    for row in MissingDuplicate().batch(17, 200, 0, "odd").tokens:
        prompt, (answer, _) = row[1:-3], row[-2:]
        counts = np.bincount(prompt[prompt >= FIRST_SYMBOL])
        assert np.flatnonzero(counts % 2).tolist() == [answer]


def test_hints_begin_anywhere_on_their_ring() -> None:
    task = AdditionHints(7)
    batch = task.batch(6, 21_000, "ring")
    hints = batch.tokens[:, 1:13:2] - FIRST_SYMBOL - 10
    assert (np.diff(hints, axis=1) % 7 == 1).all()
    assert np.bincount(hints[:, 0]) == pytest.approx([3000] * 7, abs=300)


@pytest.mark.parametrize("n", [0, 7])
def test_more_digits_than_hints_are_refused(n: int) -> None:
    task = AdditionHints(7)
    for asked in (task.total_length, lambda n: task.batch(n, 2, "more")):
        with pytest.raises(ConfigError, match=f"numbers of 1 to 6 digits, not for n={n}: raise it"):
            asked(n)
