"""Every task found in conf/, by glob: its generator against an oracle in plain Python, and the
rules all tasks obey.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import composed, names, setup
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from posbench.composing.building import build
from posbench.config import checked
from posbench.errors import ConfigError
from posbench.task import BOS, EOS, FIRST_SYMBOL, MARK, NOISE, PAD, SEP, Batch, Task

TASKS = names("task")
WITHOUT_SOURCES = {"addition", "language", "majority", "parity"}
LARGEST_DISTANCES: dict[str, Callable[[int], int]] = {
    "addition": lambda n: 2 * n + 1,  # from SEP, or a digit of the sum, to that of the first number
    "majority": lambda n: 2 * n + 1,  # from SEP to the first symbol
    "parity": lambda n: n + 1,
}
"""Of tasks whose tokens have no one source, by their rules: to the furthest token that counts."""
WITHOUT_END = {"language"}
SOURCES_BY_RULE = {"first", "kth_from_start", "kth_from_end", "multi_hop", "mqar"}
_made: dict[str, tuple[Task, tuple[int, int]]] = {}
_numbers: dict[str, dict[str, int]] = {}


def made(name: str) -> tuple[Task, tuple[int, int]]:
    """The task of a YAML and its shortest and longest training length."""
    if name not in _made:
        cfg = composed(f"task={name}")
        _made[name] = build(OmegaConf.to_container(cfg.task), "task"), checked(cfg).training.lengths  # type: ignore[arg-type]
    return _made[name]


# -- oracles: from the tokens of a sequence, one by one, what must be answered, and from where -----

Asked = list[tuple[int, int, int]]
"""Place in the answer part, the token that belongs there, its source in the prompt or -1."""


def in_a_row(pairs: list[tuple[int, int]]) -> Asked:
    """Every token of the answer part is asked for."""
    return [(place, token, source) for place, (token, source) in enumerate(pairs)]


def copy_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return in_a_row([(token, place) for place, token in enumerate(prompt)])


def copy_unique_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    assert len(set(prompt)) == len(prompt)
    return copy_oracle(prompt, answer, task)


def repeat_token_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    assert len(set(prompt)) == 1
    return copy_oracle(prompt, answer, task)


def reverse_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return in_a_row([(prompt[place], place) for place in range(len(prompt) - 1, -1, -1)])


def duplicate_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return in_a_row(2 * [(token, place) for place, token in enumerate(prompt)])


def sort_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    left, found = list(enumerate(prompt)), []
    while left:
        best = left[0]
        for each in left:
            if each[1] < best[1]:
                best = each
        left.remove(best)
        found.append((best[1], best[0]))
    return in_a_row(found)


def selective_copy_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return in_a_row([(token, place) for place, token in enumerate(prompt) if token != NOISE])


def passkey_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    assert prompt.count(MARK) == 1
    start = prompt.index(MARK) + 1
    return in_a_row([(prompt[place], place) for place in range(start, start + task.key_length)])


def prefix_lookup_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    mark = prompt.index(MARK)
    return lookup(prompt[:mark], prompt[mark + 1 :], mark + 1, task)


def suffix_lookup_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    mark = prompt.index(MARK)
    return lookup(prompt[mark + 1 :], prompt[:mark], 0, task)


def lookup(key: list[int], string: list[int], start: int, task: Any) -> Asked:
    g = task.key_length
    assert len(key) == g
    places = [place for place in range(len(string) - g + 1) if string[place : place + g] == key]
    assert len(places) == 1, "the key occurs once"
    after = range(places[0] + g, places[0] + g + task.num_answers)
    return in_a_row([(string[place], start + place) for place in after])


def induction_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    assert prompt.count(MARK) == 1 and answer[0] == MARK
    place = prompt.index(MARK) + 1
    return [(1, prompt[place], place)]


def key_value_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """Keys are the first of three sets of symbols; after each stands its value, and after each
    query too.
    """
    keys = range(FIRST_SYMBOL, FIRST_SYMBOL + task.num_symbols)
    found: dict[int, tuple[int, int]] = {}
    for place, token in enumerate(prompt):
        if token in keys:
            assert token not in found, "a key occurs twice"
            found[token] = (prompt[place + 1], place + 1)
    queries = [place for place, token in enumerate(answer) if token in keys]
    assert sorted(answer[place] for place in queries) == sorted(found), (
        "every key is asked for once"
    )
    return [(place + 1, *found[answer[place]]) for place in queries]


def multi_hop_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    first_name = FIRST_SYMBOL + 2 * task.num_symbols
    known: dict[int, tuple[int, int]] = {}
    hops: dict[int, int] = {}
    place = 0
    while place < len(prompt):
        if (name := prompt[place]) < first_name:
            place += 1
            continue
        assert name not in known, "a name is given twice"
        referent = prompt[place + 1]
        known[name] = known[referent] if referent >= first_name else (referent, place + 1)
        hops[name] = hops[referent] + 1 if referent >= first_name else 0
        place += 2
    assert all(hops[answer[place]] == task.hops for place in range(0, len(answer), 2))
    assert len(set(answer[0::2])) == task.num_chains
    return [(place + 1, *known[answer[place]]) for place in range(0, len(answer), 2)]


def kth_from_start_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return [(0, prompt[task.k - 1], task.k - 1)]


def kth_from_end_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return [(0, prompt[-task.k], len(prompt) - task.k)]


def first_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    return [(0, prompt[0], 0)]


def majority_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    low, high = prompt.count(FIRST_SYMBOL), prompt.count(FIRST_SYMBOL + 1)
    assert low + high == len(prompt) and low != high
    return [(0, FIRST_SYMBOL + (high > low), -1)]


def parity_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    odd = False
    for token in prompt:
        odd ^= token == FIRST_SYMBOL + 1
    return [(0, FIRST_SYMBOL + odd, -1)]


def missing_duplicate_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    place, half = prompt.index(MARK), len(prompt) // 2
    other = place - half if place >= half else place + half
    whole = [prompt[other] if token == MARK else token for token in prompt]
    assert whole[:half] == whole[half:]
    return [(0, prompt[other], other)]


def language_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """Every symbol of the text; that it is drawn from the source is measured below."""
    assert not prompt
    return in_a_row([(token, -1) for token in answer])


def addition_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    plus = prompt.index(MARK)
    one, two = (
        int("".join(str(t - FIRST_SYMBOL) for t in part[::-1]))
        for part in (prompt[:plus], prompt[plus + 1 :])
    )
    digits = str(one + two).zfill(plus + 1)[::-1]
    return in_a_row([(FIRST_SYMBOL + int(digit), -1) for digit in digits])


ORACLES: dict[str, Callable[[list[int], list[int], Any], Asked]] = {
    "addition": addition_oracle,
    "copy": copy_oracle,
    "copy_small": copy_oracle,
    "copy_unique": copy_unique_oracle,
    "duplicate": duplicate_oracle,
    "first": first_oracle,
    "induction": induction_oracle,
    "key_value_retrieval": key_value_oracle,
    "language": language_oracle,
    "kth_from_end": kth_from_end_oracle,
    "kth_from_start": kth_from_start_oracle,
    "majority": majority_oracle,
    "missing_duplicate": missing_duplicate_oracle,
    "mqar": key_value_oracle,
    "multi_hop": multi_hop_oracle,
    "noisy_recall": key_value_oracle,
    "parity": parity_oracle,
    "passkey": passkey_oracle,
    "prefix_lookup": prefix_lookup_oracle,
    "repeat_token": repeat_token_oracle,
    "reverse": reverse_oracle,
    "selective_copy": selective_copy_oracle,
    "sort": sort_oracle,
    "suffix_lookup": suffix_lookup_oracle,
}


def split(batch: Batch, index: int) -> tuple[list[int], list[int], int]:
    """Prompt, answer part, and where the answer part starts."""
    tokens = batch.tokens[index].tolist()
    assert tokens[0] == BOS and tokens[-1] == EOS and tokens.count(SEP) == 1 and PAD not in tokens
    middle = tokens.index(SEP)
    return tokens[1:middle], tokens[middle + 1 : -1], middle + 1


def check_against_oracle(name: str, task: Task, batch: Batch, n: int) -> None:
    for index in range(len(batch.tokens)):
        prompt, answer, start = split(batch, index)
        assert batch.segments[index].tolist() == [0] * start + [1] * (len(answer) + 1), (
            "0 up to SEP, then 1"
        )
        places = np.flatnonzero(batch.answer[index]).tolist()
        if name not in WITHOUT_END:
            assert places.pop() == len(batch.tokens[index]) - 1, (
                "EOS is part of what must be predicted"
            )
        expected = ORACLES[name](prompt, answer, task)
        assert places == [start + place for place, _, _ in expected]
        assert [answer[place] for place, _, _ in expected] == [token for _, token, _ in expected]
        # `source` counts from the start of the sequence: the prompt begins after BOS
        sources = [source + 1 if source >= 0 else -1 for _, _, source in expected]
        assert batch.source[index, places].tolist() == sources
        assert len(expected) == task.answer_length(n)


@pytest.mark.parametrize("name", TASKS)
def test_a_thousand_samples_of_each_length_agree_with_the_oracle(name: str) -> None:
    task, (low, high) = made(name)
    for n in sorted({low, high, 4 * high}):
        check_against_oracle(name, task, task.batch(n, 1000, "oracle", n), n)


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_legal_setting_and_length_agrees_with_the_oracle(
    name: str, data: st.DataObject
) -> None:
    cls = type(made(name)[0])
    numbers = OmegaConf.to_container(composed(f"task={name}").task)
    del numbers["_target_"]
    kinds = {
        int: lambda value: st.integers(1, 2 * value),
        float: lambda value: st.floats(value / 2, 2 * value),
    }
    drawn = {key: data.draw(kinds[type(value)](value), label=key) for key, value in numbers.items()}
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
    trained on, and the streams do not meet each other. Where there are too few sequences of that
    length, at twice the length.
    """
    task, (_, high) = made(name)
    if name == "repeat_token":
        pytest.skip(
            "there are as few sequences of a length as there are symbols: they cannot be kept apart"
        )
    if name in ("majority", "parity", "copy_small"):
        high *= 2 if name == "copy_small" else 4
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


@pytest.mark.parametrize("name", [name for name in TASKS if name != "language"])
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


@pytest.mark.parametrize("name", TASKS)
def test_chance_is_the_accuracy_of_guessing(name: str) -> None:
    """With the smallest alphabet, guessed answers are right as often as the task says."""
    cls = type(made(name)[0])
    small = {"copy": {"num_symbols": 2}, "selective_copy": {"num_data": 2, "num_symbols": 2}}
    small |= {
        "passkey": {"key_length": 2, "num_symbols": 2},
        "key_value_retrieval": {"num_pairs": 2, "num_symbols": 2},
    }
    small |= {
        name: {"num_symbols": 2}
        for name in ("copy_small", "reverse", "duplicate", "repeat_token", "induction")
    }
    small |= {name: {"num_symbols": 2} for name in ("sort", "missing_duplicate", "first")}
    small |= {name: {"num_pairs": 2, "num_symbols": 2} for name in ("mqar", "noisy_recall")}
    small |= {name: {"k": 2, "num_symbols": 2} for name in ("kth_from_start", "kth_from_end")}
    small |= {
        name: {"num_answers": 1, "num_symbols": 4} for name in ("prefix_lookup", "suffix_lookup")
    }
    small |= {
        "language": {"num_symbols": 2, "order": 1, "concentration": 1e6},
        "copy_unique": {"num_symbols": 3},
        "multi_hop": {"num_symbols": 2},
        "majority": {},
        "parity": {},
        "addition": {},
    }
    if name not in small:
        pytest.skip("no small setting is known for this task; its chance is not measured")
    task = cls(**small[name])
    for n in (1, 2):
        truth, guess = (
            each.tokens[:, :-1][each.answer[:, :-1]].reshape(len(each.tokens), -1)
            for each in (task.batch(n, 100_000, word) for word in ("truth", "guess"))
        )
        found, chance = (truth == guess).all(1).mean(), task.chance(n)
        error = (chance * (1 - chance) / len(truth)) ** 0.5
        assert abs(found - chance) < 4 * error
        assert 4 * error < chance / 4, "too few guesses to tell half the chance from all of it"


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
    assert counts.min() > 0.8 * counts.mean() and counts.max() < 1.2 * counts.mean()


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
            "mqar",
            "language",
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
            ("task=key_value_retrieval", "task.num_pairs=20"),
            "too few different keys for 20 pairs: raise it to 20",
        ),
        (("task=mqar", "task.num_pairs=20"), "too few different keys for 20 pairs: raise it to 20"),
        (("task=noisy_recall", "task.num_pairs=0"), "task.num_pairs must be at least 1; got 0"),
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
        build(OmegaConf.to_container(composed(*overrides).task), "task")  # type: ignore[arg-type]


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
        ConfigError, match=r"16 symbols without a repeat .* task\.num_symbols=12: raise it"
    ):
        setup("protocol=cpu", "task=copy_unique", "task.num_symbols=12")


# -- language: a source whose every probability is known -------------------------------------------


def test_a_text_follows_the_table_of_its_source() -> None:
    """Frequencies after each context, counted symbol by symbol, are the probabilities of the
    table.
    """
    task: Any = build(
        OmegaConf.to_container(composed("task=language", "task.num_symbols=3").task), "task"
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
    assert task.score(n, 0.0, task.least_loss(n)) == 1.0  # type: ignore[attr-defined]
    assert task.score(n, 0.0, float(np.log(16))) == 0.0 == task.score(n, 0.0, 99.0)
    halfway = (float(np.log(16)) + task.least_loss(n)) / 2  # type: ignore[attr-defined]
    assert task.score(n, 0.0, halfway) == pytest.approx(0.5)


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
