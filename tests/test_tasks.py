"""Every task found in conf/, by glob: its generator against an oracle in plain Python, and the rules all tasks obey."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from conftest import composed, names
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from posbench.building import build
from posbench.config import checked
from posbench.errors import ConfigError
from posbench.evaluation import DISTANCE_EDGES
from posbench.task import BOS, EOS, FIRST_SYMBOL, MARK, NOISE, PAD, SEP, Batch, Task

TASKS = names("task")
_made: dict[str, tuple[Task, tuple[int, int]]] = {}
_numbers: dict[str, dict[str, int]] = {}


def made(name: str) -> tuple[Task, tuple[int, int]]:
    """The task of a YAML and its shortest and longest training length."""
    if name not in _made:
        cfg = composed(f"task={name}")
        _made[name] = build(OmegaConf.to_container(cfg.task), "task"), checked(cfg).training.lengths  # type: ignore[arg-type]
    return _made[name]


# -- oracles: from the tokens of a prompt, one after the other, what must be answered and from where ------


def copy_oracle(prompt: list[int], task: Task) -> list[tuple[int, int]]:
    return [(token, place) for place, token in enumerate(prompt)]


def selective_copy_oracle(prompt: list[int], task: Task) -> list[tuple[int, int]]:
    return [(token, place) for place, token in enumerate(prompt) if token != NOISE]


def passkey_oracle(prompt: list[int], task: Task) -> list[tuple[int, int]]:
    assert prompt.count(MARK) == 1
    start = prompt.index(MARK) + 1
    return [(prompt[place], place) for place in range(start, start + task.answer_length(1))]


def key_value_oracle(prompt: list[int], task: Task) -> dict[int, tuple[int, int]]:
    size = (task.vocab_size - FIRST_SYMBOL) // 3
    keys = range(FIRST_SYMBOL, FIRST_SYMBOL + size)
    found: dict[int, tuple[int, int]] = {}
    for place, token in enumerate(prompt):
        if token in keys:
            assert token not in found, "a key occurs twice"
            found[token] = (prompt[place + 1], place + 1)
    return found


SEQUENTIAL: dict[str, Callable[[list[int], Task], list[tuple[int, int]]]] = {
    "copy": copy_oracle,
    "selective_copy": selective_copy_oracle,
    "passkey": passkey_oracle,
}


def split(batch: Batch, index: int) -> tuple[list[int], list[int], int]:
    """Prompt, answer part, and where the answer part starts."""
    tokens = batch.tokens[index].tolist()
    assert tokens[0] == BOS and tokens[-1] == EOS and tokens.count(SEP) == 1 and PAD not in tokens
    middle = tokens.index(SEP)
    return tokens[1:middle], tokens[middle + 1 : -1], middle + 1


def check_against_oracle(name: str, task: Task, batch: Batch) -> None:
    for index in range(len(batch.tokens)):
        prompt, answer, start = split(batch, index)
        asked = [
            place for place in np.flatnonzero(batch.answer[index]).tolist() if place != len(batch.tokens[index]) - 1
        ]
        assert batch.answer[index, -1], "EOS is part of what must be predicted"
        if name in SEQUENTIAL:
            expected = SEQUENTIAL[name](prompt, task)
            assert asked == list(range(start, start + len(answer)))
        else:
            pairs = key_value_oracle(prompt, task)
            queries = answer[0::2]
            assert sorted(queries) == sorted(pairs), "every key is asked for once"
            expected = [pairs[query] for query in queries]
            assert asked == [start + 2 * j + 1 for j in range(len(queries))]
        assert [batch.tokens[index, place] for place in asked] == [token for token, _ in expected]
        # `source` counts from the start of the sequence: the prompt begins after BOS
        assert [batch.source[index, place] - 1 for place in asked] == [place for _, place in expected]
        assert len(asked) == task.answer_length(len(prompt))


@pytest.mark.parametrize("name", TASKS)
def test_a_thousand_samples_of_each_length_agree_with_the_oracle(name: str) -> None:
    task, (low, high) = made(name)
    for n in sorted({low, high, 4 * high}):
        check_against_oracle(name, task, task.batch(n, 1000, "oracle", n))


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_legal_setting_and_length_agrees_with_the_oracle(name: str, data: st.DataObject) -> None:
    cls = type(made(name)[0])
    numbers = OmegaConf.to_container(composed(f"task={name}").task)
    drawn = {
        key: data.draw(st.integers(1, 2 * value), label=key) for key, value in numbers.items() if key != "_target_"
    }
    try:
        task = cls(**drawn)
    except ConfigError:
        return
    n = data.draw(st.integers(1, 40), label="n")
    batch = task.batch(n, 8, data.draw(st.integers(0, 2**31), label="seed"))
    assert batch.tokens.shape[1] == task.total_length(n)
    check_against_oracle(name, task, batch)


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_is_a_function_of_stream_seed_and_step(name: str) -> None:
    task, (_, high) = made(name)
    one, same = (task.batch(high, 32, 3, "train", 7) for _ in range(2))
    assert all(np.array_equal(getattr(one, f), getattr(same, f)) for f in ("tokens", "answer", "source"))
    for stream in ((4, "train", 7), (3, "train", 8), (3, "validation", 7), (3, "test", 7)):
        assert not np.array_equal(one.tokens, task.batch(high, 32, *stream).tokens)


@pytest.mark.parametrize("name", TASKS)
def test_training_validation_and_test_streams_never_meet(name: str) -> None:
    """At the training length no held-out sequence of the test or validation stream is one of 20,000 trained on,
    and the streams do not meet each other.
    """
    task, (_, high) = made(name)
    train = {row.tobytes() for step in range(20) for row in task.batch(high, 1000, 0, "train", step).tokens}
    validation = {row.tobytes() for row in task.batch(high, 512, 0, "validation", high).tokens}
    test = {row.tobytes() for row in task.batch(high, 512, 0, "test", high).tokens}
    assert len(train) > 19_900
    assert not (train & validation or train & test or validation & test)


@pytest.mark.parametrize("name", TASKS)
def test_every_symbol_of_the_longest_test_was_seen_in_training(name: str) -> None:
    task, (low, high) = made(name)
    seen = {int(t) for n in range(low, high + 1) for t in np.unique(task.batch(n, 200, 0, "train", n).tokens)}
    tested = set(np.unique(task.batch(8 * high, 200, 0, "test").tokens).tolist())
    assert tested <= seen <= set(range(task.vocab_size))
    assert max(seen) == task.vocab_size - 1, "the vocabulary holds tokens that never occur"


@pytest.mark.parametrize("name", TASKS)
def test_lengths_and_distances_are_what_the_task_says(name: str) -> None:
    task, (low, high) = made(name)
    for n in {low, high, 2 * high}:
        batch = task.batch(n, 4000, "lengths", n)
        assert batch.tokens.shape[1] == task.total_length(n) == task.num_positions(n) + 1
        assert (batch.answer.sum(1) == task.answer_length(n) + 1).all()
        place = np.arange(batch.tokens.shape[1])
        distance = np.where(batch.source >= 0, place - 1 - batch.source, -1)
        assert (batch.source[~batch.answer] == -1).all()
        assert distance.max() <= task.max_distance(n)
        if n <= high:  # further out, the largest distance is too rare to be met
            assert distance.max() >= task.max_distance(n) - 2
    assert DISTANCE_EDGES[0] == 0 and list(DISTANCE_EDGES) == sorted(DISTANCE_EDGES)


@pytest.mark.parametrize("name", TASKS)
def test_chance_is_the_accuracy_of_guessing(name: str) -> None:
    """With the smallest alphabet, guessed answers are right as often as the task says."""
    cls = type(made(name)[0])
    small = {"copy": {"num_symbols": 2}, "selective_copy": {"num_data": 2, "num_symbols": 2}}
    small |= {"passkey": {"key_length": 2, "num_symbols": 2}, "key_value_retrieval": {"num_pairs": 2, "num_symbols": 2}}
    if name not in small:
        pytest.skip("no small setting is known for this task; its chance is not measured")
    task = cls(**small[name])
    batch = task.batch(2, 20_000, "truth")
    other = task.batch(2, 20_000, "guess")
    symbols = batch.answer.copy()
    symbols[:, -1] = False
    width = task.answer_length(2)
    right = batch.tokens[symbols].reshape(-1, width) == other.tokens[symbols].reshape(-1, width)
    assert abs(right.all(1).mean() - task.chance(2)) < 0.015


@pytest.mark.parametrize("name", TASKS)
def test_the_answer_is_not_in_the_length(name: str) -> None:
    """Each answer symbol is spread evenly over its alphabet: no label can be guessed from the format."""
    task, (_, high) = made(name)
    batch = task.batch(high, 20_000, "labels")
    symbols = batch.answer.copy()
    symbols[:, -1] = False
    first = batch.tokens[symbols].reshape(20_000, -1)[:, 0]
    counts = np.unique(first, return_counts=True)[1]
    assert counts.min() > 0.8 * counts.mean() and counts.max() < 1.2 * counts.mean()


@pytest.mark.parametrize("name", TASKS)
def test_sources_are_spread_over_the_whole_prompt(name: str) -> None:
    """A needle is as likely in the first quarter of the prompt as in any other."""
    task, (_, high) = made(name)
    batch = task.batch(high, 4000, "depth")
    source = batch.source[batch.source >= 0]
    prompt = task.total_length(high) - 2 - (batch.answer.shape[1] - 1 - int(np.argmax(batch.tokens[0] == SEP)))
    quarters = np.histogram(source, bins=4, range=(1, prompt + 1))[0] / len(source)
    assert quarters.min() > 0.18 and quarters.max() < 0.33


@pytest.mark.parametrize("name", TASKS)
def test_the_docstring_states_the_rule_and_two_worked_examples(name: str) -> None:
    task, _ = made(name)
    text = type(task).__doc__ or ""
    examples = re.findall(r"BOS (.*) SEP (.*) EOS", text)
    assert len(examples) == 2
    for prompt, answer in examples:
        # What is predicted is in the prompt: spell the examples out against the rule.
        shown = prompt.replace("MARK", "").split()
        assert [word for word in answer.split() if word not in shown] == []
    assert type(task).version >= 1


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("task=copy", "task.num_symbols=1"), "task.num_symbols must be at least 2; got 1"),
        (("task=passkey", "task.key_length=0"), "task.key_length .* at least 1; got 0"),
        (("task=selective_copy", "task.num_data=0"), "task.num_data .* at least 1; got 0"),
        (("task=key_value_retrieval", "task.num_pairs=20"), "too few different keys for 20 pairs: raise it to 20"),
    ],
)
def test_a_wrong_setting_gets_its_sentence(overrides: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build(OmegaConf.to_container(composed(*overrides).task), "task")  # type: ignore[arg-type]
