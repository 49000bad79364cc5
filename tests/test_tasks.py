"""Every task found in conf/, by glob: its generator against an oracle in plain Python, and the
rules all tasks obey.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from task_oracles import (
    LARGEST_DISTANCES,
    SOURCES_BY_RULE,
    TASKS,
    TEXTS,
    WITHOUT_END,
    WITHOUT_SOURCES,
    answered,
    check_against_oracle,
    made,
)

from posbench.base.errors import ConfigError
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.core.task import MARK, SEP
from posbench.running.subject import setup


@pytest.mark.parametrize("name", TASKS)
def test_a_thousand_samples_of_each_length_agree_with_the_oracle(name: str) -> None:
    task, (low, high) = made(name)
    for n in sorted({low, high, 4 * high}):
        check_against_oracle(name, task, task.batch(n, 1000, "oracle", n), n)


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_legal_setting_and_length_agrees_with_the_oracle(
    name: str, data: st.DataObject
) -> None:
    cls = type(made(name)[0])
    numbers = compose(f"task={name}").content["task"]
    kinds = {
        int: lambda value: st.integers(1, 2 * value),
        float: lambda value: st.floats(value / 2, 2 * value),
    }
    drawn = {
        key: data.draw(kinds[type(value)](value), label=key)
        for key, value in numbers.items()
        if key != "_target_"
    }
    try:
        task = cls(**drawn)
    except ConfigError:
        return
    n = data.draw(st.integers(1, 40), label="n")
    try:
        batch = task.batch(n, 8, data.draw(st.integers(0, 2**31), label="seed"))
    except ConfigError:  # more symbols without a repeat than there are
        return
    try:
        total = task.total_length(n)
    except ConfigError:  # a needle longer than its haystack
        return
    assert batch.tokens.shape[1] == total
    check_against_oracle(name, task, batch, n)


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_is_a_function_of_stream_seed_and_step(name: str) -> None:
    task, (_, high) = made(name)
    one, same = (task.batch(high, 32, 3, "train", 7) for _ in range(2))
    assert all(
        np.array_equal(getattr(one, f), getattr(same, f)) for f in ("tokens", "answer", "source")
    )
    for stream in ((4, "train", 7), (3, "train", 8), (3, "validation", 7), (3, "test", 7)):
        assert not np.array_equal(one.tokens, task.batch(high, 32, *stream).tokens)


@pytest.mark.parametrize("name", TASKS)
def test_training_validation_and_test_streams_never_meet(name: str) -> None:
    """At the training length no held-out sequence of the test or validation stream is one of 20,000
    trained on, and the streams do not meet each other.
    """
    task, (_, high) = made(name)
    if name == "repeat_token":
        pytest.skip(
            "there are as few sequences of a length as there are symbols: they cannot be kept apart"
        )
    train = {
        row.tobytes()
        for step in range(20)
        for row in task.batch(high, 1000, 0, "train", step).tokens
    }
    validation = {row.tobytes() for row in task.batch(high, 512, 0, "validation", high).tokens}
    test = {row.tobytes() for row in task.batch(high, 512, 0, "test", high).tokens}
    assert len(train) > 19_900
    assert not (train & validation or train & test or validation & test)


@pytest.mark.parametrize("name", TASKS)
def test_every_symbol_of_the_longest_test_was_seen_in_training(name: str) -> None:
    task, (low, high) = made(name)
    seen = {
        int(t)
        for n in range(low, high + 1)
        for t in np.unique(task.batch(n, 200, 0, "train", n).tokens)
    }
    tested = set(np.unique(task.batch(8 * high, 200, 0, "test").tokens).tolist())
    assert tested <= seen <= set(range(task.vocab_size))
    assert max(seen) == task.vocab_size - 1, "the vocabulary holds tokens that never occur"


@pytest.mark.parametrize("name", TASKS)
def test_lengths_and_distances_are_what_the_task_says(name: str) -> None:
    task, (low, high) = made(name)
    for n in {low, high, 2 * high}:
        batch = task.batch(n, 4000, "lengths", n)
        assert batch.tokens.shape[1] == task.total_length(n) == task.num_positions(n) + 1
        assert (batch.answer.sum(1) == task.answer_length(n) + (name not in WITHOUT_END)).all()
        place = np.arange(batch.tokens.shape[1])
        distance = np.where(batch.source >= 0, place - 1 - batch.source, -1)
        assert (batch.source[~batch.answer] == -1).all()
        assert distance.max() <= task.max_distance(n)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("n", [3, 4])
def test_the_largest_distance_is_met_and_never_exceeded(name: str, n: int) -> None:
    """In short sequences, where the largest is not rare."""
    task, _ = made(name)
    if name in LARGEST_DISTANCES:
        assert task.max_distance(n) == LARGEST_DISTANCES[name](n)
        return
    batch = task.batch(n, 20_000, "distances", n)
    query = np.arange(batch.tokens.shape[1]) - 1  # a token is predicted where the one before stands
    distance = (query - batch.source)[batch.source >= 0]
    assert distance.max() == task.max_distance(n)


SMALL: dict[str, dict[str, int]] = {
    "copy": {"num_symbols": 2},
    "copy_small": {"num_symbols": 2},
    "copy_unique": {"num_symbols": 3},
    "duplicate": {"num_symbols": 2},
    "first": {"num_symbols": 2},
    "flip_flop": {"num_symbols": 2},
    "induction": {"num_symbols": 2},
    "induction_64": {"num_symbols": 2},
    "key_value_retrieval": {"num_symbols": 3, "num_questions": 2},
    "kth_from_end": {"k": 2, "num_symbols": 2},
    "kth_from_end_drawn": {"largest_k": 2, "num_symbols": 2},
    "kth_from_start": {"k": 2, "num_symbols": 2},
    "missing_duplicate": {"num_symbols": 2},
    "mqar": {"num_pairs": 2, "num_symbols": 2},
    "mqar_load": {"num_symbols": 2},
    "multi_hop": {"num_symbols": 2},
    "noisy_recall": {"num_pairs": 2, "num_symbols": 2},
    "passkey": {"key_length": 2, "num_symbols": 2},
    "passkey_distractors": {"num_keys": 2, "key_length": 2, "num_symbols": 2},
    "prefix_lookup": {"num_answers": 1, "num_symbols": 4},
    "repeat_token": {"num_symbols": 2},
    "reverse": {"num_symbols": 2},
    "selective_copy": {"num_data": 2, "num_symbols": 2},
    "sort": {"num_symbols": 2},
    "suffix_lookup": {"num_answers": 1, "num_symbols": 4},
    "addition": {},
    "addition_hints": {"num_hints": 3},
    "majority": {},
    "parity": {},
}
"""Settings with which a guess is right often enough to be counted."""


@pytest.mark.parametrize("name", [name for name in TASKS if name not in TEXTS])
def test_chance_is_the_score_of_guessing(name: str) -> None:
    """With the smallest alphabet, the answers of other prompts score what the task says."""
    task = type(made(name)[0])(**SMALL[name])
    for n in (1, 2):
        chance = task.chance(n)
        # So many that 4 standard errors are a sixteenth of the chance, as far as memory goes.
        guesses = min(200_000, math.ceil(4096 * (1 - chance) / chance))
        truth, guess = (task.batch(n, guesses, word) for word in ("truth", "guess"))
        right = truth.answer.copy()
        right[truth.answer] = truth.tokens[truth.answer] == guess.tokens[guess.answer]
        found = task.score(truth, answered(truth, right, np.zeros(right[:, 1:].shape)))
        error = (chance * (1 - chance) / len(right)) ** 0.5
        assert abs(found - chance) < 4 * error
        assert 4 * error < chance / 4, "too few guesses to tell half the chance from all of it"


@pytest.mark.parametrize("name", TASKS)
def test_all_answers_right_are_a_perfect_score_and_chance_is_less(name: str) -> None:
    task, (_, high) = made(name)
    batch = task.batch(high, 200, "perfect")
    perfect = answered(batch, np.ones_like(batch.answer), np.zeros(batch.tokens[:, 1:].shape))
    assert task.score(batch, perfect) == task.proficiency(batch, perfect) == 1
    assert all(0 <= task.chance(n) < 1 for n in (high, 8 * high)), "also where powers are tiny"


LONGEST = {"key_value_retrieval": 62, "in_context_language": 50}


@pytest.mark.parametrize("name", TASKS)
def test_the_longest_training_sequence_is_the_longest_that_fits_40_positions(name: str) -> None:
    task, (low, high) = made(name)
    limit = LONGEST.get(name, 40)
    assert low < high and task.num_positions(high) <= limit < task.num_positions(high + 1)
    longest = next(n for n in range(high, 999) if task.num_positions(n) >= 8 * limit)
    task.batch(longest, 2, "a test at eight times the positions")


@pytest.mark.parametrize("name", [name for name in TASKS if name != "repeat_token"])
def test_a_test_is_one_batch_of_its_length(name: str) -> None:
    task, (_, high) = made(name)
    (batch,) = task.tests(2 * high, high, 8, 3, "test")
    assert np.array_equal(batch.tokens, task.batch(2 * high, 8, 3, "test", 2 * high).tokens)


def test_queries_of_mqar_come_early_by_the_published_power_law() -> None:
    task = type(made("mqar")[0])(num_pairs=1, num_symbols=4)
    n = 7
    batch = task.batch(n, 40_000, "places")
    place = batch.answer[:, :-1].argmax(1) - (
        2 + 2 + 1
    )  # after BOS, the pair, SEP, and the query itself
    weights = np.arange(1, n + 2) ** -0.99
    assert np.allclose(
        np.bincount(place, minlength=n + 1) / 40_000, weights / weights.sum(), atol=0.01
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_answer_is_not_in_the_length(name: str) -> None:
    """Each answer symbol is spread evenly over its alphabet: no label can be guessed from the
    format.
    """
    task, (_, high) = made(name)
    if name in ("sort", "language"):
        pytest.skip(
            "a sorted answer begins with a low symbol and a text with a frequent one, by the rule "
            "of the task"
        )
    batch = task.batch(high, 20_000, "labels")
    symbols = batch.answer.copy()
    symbols[:, -1] = False
    first = batch.tokens[symbols].reshape(20_000, -1)[:, 0]
    counts = np.unique(first, return_counts=True)[1]
    assert (np.abs(counts - counts.mean()) < 5 * counts.mean() ** 0.5).all()


@pytest.mark.parametrize("name", TASKS)
def test_sources_are_spread_over_the_whole_prompt(name: str) -> None:
    """A needle is as likely in the first quarter of the prompt, or of the string searched, as in
    any other.
    """
    if name in WITHOUT_SOURCES | SOURCES_BY_RULE:
        pytest.skip(
            "no token of the answer has one source, or the rule of the task says where it stands"
        )
    task, (_, high) = made(name)
    batch = task.batch(24 if name in ("duplicate", "missing_duplicate") else high, 4000, "depth")
    source = batch.source[batch.source >= 0]
    first, last = 1, int(np.argmax(batch.tokens[0] == SEP))
    if name.endswith("_lookup"):
        mark = int(np.argmax(batch.tokens[0] == MARK))
        first, last = (mark + 1, last) if name == "prefix_lookup" else (first, mark)
        first += 2  # the key stands before what is asked for
    quarters = np.histogram(source, bins=4, range=(first, last))[0] / len(source)
    assert quarters.min() > 0.18 and quarters.max() < 0.33


@pytest.mark.parametrize("name", TASKS)
def test_the_docstring_states_the_rule_and_two_worked_examples(name: str) -> None:
    task, _ = made(name)
    text = type(task).__doc__ or ""
    examples = re.findall(r"BOS (.*?) ?SEP (.*) EOS", text)
    assert len(examples) == 2
    for prompt, answer in examples:
        # What is predicted is in the prompt: spell the examples out against the rule.
        shown = prompt.split()
        computed = name in (
            "addition",
            "addition_hints",
            "flip_flop",
            "mqar",
            "mqar_load",
            "language",
            "in_context_language",
        )  # sums, filler in the answer part, a text
        assert computed or [word for word in answer.split() if word not in shown] == []
    assert type(task).version >= 1


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("task=copy", "task.num_symbols=1"), "task.num_symbols must be at least 2; got 1"),
        (("task=passkey", "task.key_length=0"), "task.key_length .* at least 1; got 0"),
        (("task=selective_copy", "task.num_data=0"), "task.num_data .* at least 1; got 0"),
        (
            ("task=key_value_retrieval", "task.num_questions=0"),
            "task.num_questions .* at least 1; got 0",
        ),
        (
            ("task=in_context_language", "task.concentration=0.0"),
            "task.concentration must be positive; got 0",
        ),
        (("task=in_context_language", "task.window=0"), "task.window .* at least 1; got 0"),
        (("task=mqar", "task.num_pairs=20"), "too few different keys for 20 pairs: raise it to 20"),
        (("task=noisy_recall", "task.num_pairs=0"), "task.num_pairs must be at least 1; got 0"),
        (("task=mqar_load", "task.num_symbols=1"), "task.num_symbols must be at least 2; got 1"),
        (("task=passkey_distractors", "task.num_keys=0"), "task.num_keys .* at least 1; got 0"),
        (("task=passkey_distractors", "task.key_length=0"), "task.key_length .* at least 1; got 0"),
        (
            ("task=passkey_distractors", "task.num_names=3"),
            "task.num_names=3 gives too few different names for 4 keys: raise it to 4",
        ),
        (
            ("task=kth_from_end_drawn", "task.largest_k=0"),
            "task.largest_k counts symbols from 1 on; got 0",
        ),
        (("task=flip_flop", "task.write_share=1.5"), "task.write_share .* from 0 to 1; got 1.5"),
        (("task=addition_hints", "task.num_hints=1"), "task.num_hints must be at least 2; got 1"),
        (("task=kth_from_end", "task.k=0"), "task.k counts symbols from 1 on; got 0"),
        (
            ("task=suffix_lookup", "task.num_symbols=2"),
            "task.num_symbols must be at least 4, .* got 2",
        ),
        (("task=multi_hop", "task.hops=0"), "task.hops .* at least 1; got 0"),
        (("task=language", "task.order=0"), "task.order .* at least 1; got 0"),
        (
            ("task=language", "task.order=4"),
            "a table of 1048576 entries, more than 262144: lower either",
        ),
        (("task=language", "task.concentration=0.0"), "task.concentration must be positive; got 0"),
    ],
)
def test_a_wrong_setting_gets_its_sentence(overrides: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build(OmegaConf.to_container(compose(*overrides).cfg().task), "task")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "length", ["training.max_length=2", "training.min_length=2", "task.key_length=9"]
)
def test_a_needle_longer_than_its_haystack_is_refused_before_training(length: str) -> None:
    with pytest.raises(
        ConfigError,
        match=r"task\.key_length=\d is longer than n=\d symbols of filler: lower it, or",
    ):
        setup("protocol=cpu", "task=passkey", "training.min_length=1", length)


def test_ids_that_a_task_does_not_supply_are_refused_before_training() -> None:
    with pytest.raises(
        ConfigError, match="asks the task for 'coupled' position ids, which Passkey does not supply"
    ):
        setup("protocol=cpu", "task=passkey", "method=coupling").model()


def test_a_test_that_needs_more_symbols_than_there_are_is_refused_before_training() -> None:
    with pytest.raises(
        ConfigError, match=r"\d+ symbols without a repeat .* task\.num_symbols=20: raise it"
    ):
        setup("protocol=cpu", "task=copy_unique", "task.num_symbols=20")
