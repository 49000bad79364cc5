"""What each task must answer, in plain Python: oracles that read a sequence token by token."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.core.settings import checked
from posbench.core.task import BOS, EOS, FIRST_SYMBOL, MARK, NOISE, PAD, SEP, Answers, Batch, Task

READ = {"source_code"}
"""Tasks whose sequences are read, not drawn: tests/test_source_code.py is about these."""
TASKS = [name for name in own_names("task") if name not in READ]
WITHOUT_SOURCES = {
    "addition",
    "addition_hints",
    "in_context_language",
    "language",
    "majority",
    "parity",
}
LARGEST_DISTANCES: dict[str, Callable[[int], int]] = {
    "addition": lambda n: 2 * n + 1,  # from SEP, or a digit of the sum, to that of the first number
    "addition_hints": lambda n: 4 * n + 1,  # as in addition, with a hint before every digit
    "in_context_language": lambda n: n - 2,  # from the last symbol but one to the first
    "language": lambda n: 1,  # a symbol depends on two, and the query stands at the second
    "majority": lambda n: 2 * n + 1,  # from SEP to the first symbol
    "parity": lambda n: n + 1,
}
"""Of tasks whose tokens have no one source, by their rules: to the furthest token that counts."""
TEXTS = {"in_context_language", "language"}
WITHOUT_END = {"flip_flop", *TEXTS}
SOURCES_BY_RULE = {
    "first",
    "flip_flop",
    "kth_from_end",
    "kth_from_end_drawn",
    "kth_from_start",
    "mqar",
    "mqar_load",
    "multi_hop",
}
_made: dict[str, tuple[Task, tuple[int, int]]] = {}


def made(name: str) -> tuple[Task, tuple[int, int]]:
    """The task of a YAML and its shortest and longest training length."""
    if name not in _made:
        cfg = compose(f"task={name}").cfg()
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


def passkey_distractors_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """Names are the last of three sets of symbols, keys the first."""
    first_name = FIRST_SYMBOL + task.num_symbols + task.num_filler
    starts = {token: place + 1 for place, token in enumerate(prompt) if token >= first_name}
    assert len(starts) == task.num_keys == sum(token >= first_name for token in prompt)
    digits = [
        place for place, token in enumerate(prompt) if token < FIRST_SYMBOL + task.num_symbols
    ]
    assert len(digits) == task.num_keys * task.key_length, "a key is whole, and no filler is one"
    start = starts[answer[0]]
    return [(1 + each, prompt[start + each], start + each) for each in range(task.key_length)]


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


def mqar_load_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    asked = key_value_oracle(prompt, answer, task)
    pairs, rest = len(prompt) // 2, len(answer) - 2 * (len(prompt) // 2)
    assert len(asked) == pairs and rest == -(-pairs // 2), "half as many filler symbols as pairs"
    return asked


def two_symbol_key_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """After every mark stand a key of two symbols and its value; the answer part has the same."""
    pairs = prompt.count(MARK)
    assert len(prompt) - 4 * pairs == -(-pairs // 2), "half as many filler symbols"
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for place, token in enumerate(prompt):
        if token == MARK:
            one, two, value = prompt[place + 1 : place + 4]
            assert (one, two) not in found, "a key occurs twice"
            found[one, two] = (value, place + 3)
    questions = range(0, len(answer), 4)
    assert [answer[place] for place in questions] == [MARK] * task.num_questions
    return [(place + 3, *found[answer[place + 1], answer[place + 2]]) for place in questions]


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


def kth_from_end_drawn_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """The last token of the prompt says how many tokens to step back from itself."""
    one = FIRST_SYMBOL + task.num_symbols  # the symbol of k = 1
    place = len(prompt) - 1
    assert place >= task.largest_k and one <= prompt[-1] < one + task.largest_k
    for _ in range(one, prompt[-1] + 1):
        place -= 1
    return [(0, prompt[place], place)]


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


def addition_hints_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """Digits are below hints; each is announced by the hint after that of the digit before it."""
    first_hint, plus = FIRST_SYMBOL + 10, prompt.index(MARK)
    numbers, n = [], plus // 2
    for part in (prompt[:plus], prompt[plus + 1 :], answer):
        hints, digits = part[0::2], [token - FIRST_SYMBOL for token in part[1::2]]
        assert len(hints) == len(digits) and hints[0] == prompt[0]
        for one, following in pairwise(hints):
            assert following == (one + 1 if one + 1 < task.vocab_size else first_hint)
        numbers.append((hints, sum(digit * 10**power for power, digit in enumerate(digits))))
    hints, total = numbers[2][0], numbers[0][1] + numbers[1][1]
    assert len(hints) == n + 1 and min(hints) >= first_hint
    found = []
    for power, hint in enumerate(hints):
        found += [(hint, -1), (FIRST_SYMBOL + total // 10**power % 10, -1)]
    return in_a_row(found)


def flip_flop_oracle(prompt: list[int], answer: list[int], task: Any) -> Asked:
    """A machine with one register; places of the answer part are counted from SEP as sources are,
    which count from the token after BOS.
    """
    write, ignore, read = range(FIRST_SYMBOL, FIRST_SYMBOL + 3)
    assert not prompt and answer[0] == write and answer[-2] == read
    register, asked = (-1, -1), []
    for place in range(0, len(answer), 2):
        if answer[place] == write:
            register = (answer[place + 1], place + 2)
        elif answer[place] == read:
            asked.append((place + 1, *register))
        else:
            assert answer[place] == ignore
    return asked


ORACLES: dict[str, Callable[[list[int], list[int], Any], Asked]] = {
    "addition": addition_oracle,
    "addition_hints": addition_hints_oracle,
    "copy": copy_oracle,
    "copy_small": copy_oracle,
    "copy_unique": copy_unique_oracle,
    "duplicate": duplicate_oracle,
    "first": first_oracle,
    "flip_flop": flip_flop_oracle,
    "in_context_language": language_oracle,
    "induction": induction_oracle,
    "induction_64": induction_oracle,
    "key_value_retrieval": two_symbol_key_oracle,
    "language": language_oracle,
    "kth_from_end": kth_from_end_oracle,
    "kth_from_end_drawn": kth_from_end_drawn_oracle,
    "kth_from_start": kth_from_start_oracle,
    "majority": majority_oracle,
    "missing_duplicate": missing_duplicate_oracle,
    "mqar": key_value_oracle,
    "mqar_load": mqar_load_oracle,
    "multi_hop": multi_hop_oracle,
    "noisy_recall": key_value_oracle,
    "parity": parity_oracle,
    "passkey": passkey_oracle,
    "passkey_distractors": passkey_distractors_oracle,
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


def answered(batch: Batch, right: np.ndarray, losses: np.ndarray) -> Answers:
    """Answers with these tokens right, [batch, length], and these losses, [batch, length - 1]."""
    asked = batch.answer[:, 1:]
    ends = asked & (batch.tokens[:, 1:] == EOS)
    return Answers(asked, right[:, 1:] & asked, np.where(asked, losses, 0), ends)


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
