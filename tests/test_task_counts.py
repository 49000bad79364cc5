"""Tasks with more than one question or more than one count to a test: key-value retrieval and
repeat_token.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from task_oracles import ORACLES, answered, made, split

from posbench.base.errors import ConfigError
from posbench.core.task import FIRST_SYMBOL, MARK, Task
from posbench.tasks.in_context_language import InContextLanguage
from posbench.tasks.key_value_retrieval import KeyValueRetrieval
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
