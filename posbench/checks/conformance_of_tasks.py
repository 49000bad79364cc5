"""Does a task keep its promises? Each check takes a `Task` with its training lengths and raises
`Broken` with a sentence for the task's author.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from omegaconf import OmegaConf

from posbench.base.errors import ConfigError
from posbench.checks.suite import NotAsked, Suite
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.core.settings import checked
from posbench.core.task import BOS, EOS, MARK, NOISE, PAD, SEP, Answers, Batch, Task
from posbench.running.subject import require

WORDS = {"BOS": BOS, "SEP": SEP, "EOS": EOS, "MARK": MARK, "NOISE": NOISE, "PAD": PAD, ".": NOISE}
SAMPLES = 2_000
FEW = 64
"""Sequences of the longest test."""
IDS = ("coupled", "within")


@dataclass(frozen=True)
class ChosenTask:
    """A task as the command line chooses it, with its lengths n in training."""

    task: Task
    low: int
    high: int

    @classmethod
    def of(cls, *words: str) -> ChosenTask:
        cfg = compose(*words).cfg()
        task: Task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
        low, high = checked(cfg).training.lengths
        return cls(task, low, high)

    @property
    def classes(self) -> list[type]:
        return [type(self.task)]

    @functools.cached_property
    def lengths(self) -> Sequence[int]:
        """Shortest and longest in training, and beyond."""
        return sorted({self.low, self.high, 2 * self.high})

    @functools.cached_property
    def batches(self) -> dict[int, Batch]:
        return {n: self.task.batch(n, SAMPLES, 0, "check", n) for n in self.lengths}

    @functools.cached_property
    def longest(self) -> tuple[int, Batch]:
        """The length of the tests at 8x, or twice the longest, and some of its sequences."""
        try:
            n = self.task.nearest(8 * self.task.num_positions(self.high), self.high)
        except ConfigError:
            n = 2 * self.high
        return n, self.task.batch(n, FEW, 0, "check", n)


def sample_returns_a_batch(asked: ChosenTask) -> None:
    for n, batch in asked.batches.items():
        require(
            isinstance(batch, Batch),
            f"sample returns {type(batch).__name__}: return what posbench.task.assemble makes of "
            "prompt and answer",
        )
        shape = (SAMPLES, asked.task.total_length(n))
        for name, kind in (("tokens", "iu"), ("answer", "b"), ("source", "iu"), ("segments", "iu")):
            array = getattr(batch, name)
            require(
                array.shape == shape and array.dtype.kind in kind,
                f"{name} of n={n} is {array.dtype} {list(array.shape)}, expected "
                f"{'booleans' if kind == 'b' else 'integers'} {list(shape)}: [batch, "
                "total_length(n)], with BOS, SEP and EOS",
            )
        require(
            batch.tokens.dtype in (np.int32, np.int64),
            f"tokens of n={n} are {batch.tokens.dtype}, and a model looks up int32 and int64: "
            "convert them with .astype(np.int64)",
        )
        require(
            bool(batch.answer[:, 1:].any(1).all()),
            f"a sequence of n={n} asks for nothing: mark one token at least as an answer",
        )
    size = asked.task.vocab_size
    require(
        isinstance(size, int | np.integer),
        f"vocab_size is {size!r}: it is a number of tokens, so make it an integer",
    )


def a_batch_is_a_function_of_its_stream(asked: ChosenTask) -> None:
    n = asked.high
    one, same = (asked.task.batch(n, 64, 1, "check").tokens for _ in range(2))
    require(
        bool((one == same).all()),
        "two batches of one stream differ: draw from `rng` alone, and keep nothing between calls",
    )
    other = asked.task.batch(n, 64, 2, "check").tokens
    require(
        not bool((one == other).all()),
        "batches of two seeds are equal: draw from `rng`, which differs between them",
    )


def tokens_are_in_the_vocabulary_and_in_order(asked: ChosenTask) -> None:
    size = asked.task.vocab_size
    for n, batch in (*asked.batches.items(), asked.longest):
        low, high = int(batch.tokens.min()), int(batch.tokens.max())
        require(
            low >= 0 and high < size,
            f"tokens of n={n} run from {low} to {high}, and vocab_size is {size}: symbols begin at "
            "FIRST_SYMBOL, so vocab_size is FIRST_SYMBOL + the number of symbols",
        )
        require(
            bool((batch.tokens[:, 0] == BOS).all() and (batch.tokens[:, -1] == EOS).all())
            and bool(((batch.tokens == SEP).sum(1) == 1).all()),
            f"sequences of n={n} do not read BOS prompt SEP answer EOS: assemble(prompt, answer, "
            "...) puts the three around what it is given, so leave them out of both",
        )


def lengths_are_as_declared(asked: ChosenTask) -> None:
    ends = asked.batches[asked.high].answer[:, -1].all()
    for n, batch in asked.batches.items():
        found = batch.answer.sum(1) - int(ends)
        declared = asked.task.answer_length(n)
        require(
            declared >= 1,
            f"answer_length({n}) is {declared}, and a test asks for one token at least: raise "
            "training.min_length, or give every answer a token",
        )
        require(
            bool((found == declared).all()),
            f"answer_length({n}) is {declared}, and {found.min()} to {found.max()} tokens are "
            "asked for, EOS left out",
        )


def sources_hold_what_they_are_the_source_of(asked: ChosenTask) -> None:
    """A source, if there is one, holds the answer, and the farthest lies at `max_distance`."""
    if all((batch.source < 0).all() for batch in asked.batches.values()):
        raise NotAsked("no token of an answer names a source")
    for n, batch in asked.batches.items():
        rows, places = np.nonzero(batch.source >= 0)
        if not len(rows):
            continue
        found, source = batch.tokens[rows, places], batch.source[rows, places]
        require(
            bool((source < places).all()),
            f"a source of n={n} is at or after the token that it is the source of",
        )
        require(
            bool((batch.tokens[rows, source] == found).all()),
            f"a source of n={n} holds another token than the answer repeats: `source` counts from "
            "the first token of the prompt, and is -1 for what is nowhere",
        )
        farthest = int((places - 1 - source).max())
        declared = asked.task.max_distance(n)
        require(
            farthest <= declared,
            f"max_distance({n}) is {declared}, and a source lies {farthest} tokens before its "
            "query (BOS and SEP count, and the query is the token before the answer)",
        )
        require(
            farthest >= 0.8 * declared - 1,
            f"max_distance({n}) is {declared}, and in {SAMPLES:,} samples no source lies farther "
            f"than {farthest} tokens before its query",
        )


def a_prompt_has_one_answer(asked: ChosenTask) -> None:
    """The answer has to follow from the prompt, or there is nothing to be learned."""
    if _has_no_one_answer(asked.task):
        raise NotAsked("the task has a score of its own")
    batch = asked.batches[asked.low]
    cut = int((batch.tokens[0] == SEP).argmax()) + 1
    answers: dict[bytes, bytes] = {}
    for row, wanted in zip(batch.tokens, batch.answer, strict=True):
        seen = np.where(wanted, -1, row)
        prompt, answer = (row[:cut].tobytes() + seen.tobytes()), row[wanted].tobytes()
        first = answers.setdefault(prompt, answer)
        require(
            first == answer,
            f"one prompt of n={asked.low} has two answers: the answer must follow from what the "
            "model has seen",
        )


def scores_are_shares(asked: ChosenTask) -> None:
    """Scores run from -1 to 1, whatever was answered, and chance leaves room above it."""
    for n, batch in (*asked.batches.items(), asked.longest):
        chance = asked.task.chance(n)
        require(
            0 <= chance < 1,
            f"chance({n}) is {chance}: it is the score of guessing, from 0 to less than 1",
        )
        answer = batch.answer[:, 1:]
        ends = answer & (batch.tokens[:, 1:] == EOS)
        for right, loss in ((answer, 0.0), (np.zeros_like(answer), 10.0)):
            answers = Answers(answer, right, np.where(answer, np.float32(loss), 0), ends)
            for name in ("score", "proficiency"):
                found = getattr(asked.task, name)(batch, answers)
                require(
                    -1 <= found <= 1,  # and NaN is neither
                    f"{name} is {found} where {'all' if loss == 0 else 'no'} answers of n={n} are "
                    "right: return a share, from -1 to 1",
                )


def ids_are_supplied(asked: ChosenTask) -> None:
    """The ids that a task declares are there for each token."""
    declared = asked.task.ids
    require(
        isinstance(declared, Set) and not isinstance(declared, str),
        f"ids is {declared!r}: declare a set, as frozenset({{'coupled'}})",
    )
    if not declared:
        raise NotAsked("the task declares no ids")
    for kind in sorted(declared):
        require(kind in IDS, f"ids has {kind!r}, which no encoding asks for: the kinds are {IDS}")
        for n, batch in (*asked.batches.items(), asked.longest):
            require(
                kind in batch.ids,
                f"ids declares {kind!r}, and a batch of n={n} has none: give Batch(..., "
                f"ids={{{kind!r}: array}})",
            )
            found = np.asarray(batch.ids[kind])
            require(
                found.shape == batch.tokens.shape and found.dtype.kind in "iu",
                f"ids of kind {kind!r} of n={n} are {found.dtype} {list(found.shape)}: give an "
                f"integer for each token, {list(batch.tokens.shape)}",
            )


def chance_is_as_declared(asked: ChosenTask) -> None:
    """Chance is what the answer of another sample scores, which knows the format and no more."""
    if _has_no_one_answer(asked.task):
        raise NotAsked("the task has a score of its own")
    for n, batch in asked.batches.items():
        chance = asked.task.chance(n)
        comparable = (batch.answer[:-1] == batch.answer[1:]).all(1)
        if comparable.sum() < SAMPLES / 2:
            continue  # what is asked for is elsewhere in each sample
        right = ((batch.tokens[:-1] == batch.tokens[1:]) | ~batch.answer[1:]).all(1)[comparable]
        found, error = right.mean(), 4 * np.sqrt(max(chance, 1 / SAMPLES) / len(right))
        require(
            found <= min(2 * chance, (1 + chance) / 2) + error and found >= chance / 2 - error,
            f"chance({n}) is {chance:.3g}, and the answer of another sample is right in "
            f"{found:.3g} of the cases: declare what guessing gets right",
        )


def worked_examples_are_what_it_generates(asked: ChosenTask) -> None:
    """The docstring shows two sequences, each with its n: of that length, and of a prompt with the
    same pattern of symbols the same pattern of answers.
    """
    text = " ".join((type(asked.task).__doc__ or "").split())
    shown = re.findall(r"BOS .*? ?EOS", text)
    require(
        len(shown) >= 2,
        "the docstring of a task states its rule with two worked examples, as in `Examples, n = 2 "
        "and n = 3:` and below `BOS c a SEP a c EOS`",
    )
    lengths = [int(n) for n in re.findall(r"\bn = (\d+)", text.partition("Example")[2])]
    compared = 0
    for n, example in zip(lengths, shown, strict=False):
        words = example.split()
        try:
            batch = asked.task.batch(n, 4 * SAMPLES, 0, "examples", n)
        except ConfigError:  # an example of other settings
            continue
        if batch.tokens.shape[1] != len(words):
            require(
                not re.search("Examples?,? n = ", text),  # else they say which settings they have
                f"the worked example {example!r} has {len(words)} tokens, and n={n} makes "
                f"{batch.tokens.shape[1]}",
            )
            continue
        cut = words.index("SEP") + 1
        alike = [
            row for row in batch.tokens if _pattern(row[:cut].tolist()) == _pattern(words[:cut])
        ]
        compared += bool(alike)
        require(
            not alike
            or _has_no_one_answer(asked.task)
            or any(_pattern(row.tolist()) == _pattern(words) for row in alike),
            f"the worked example {example!r} is not what is generated: a prompt of n={n} with this "
            f"pattern is answered otherwise in {len(alike)} of {len(batch.tokens):,} samples",
        )
    if not compared:
        raise NotAsked("no sample has a prompt of the pattern of a worked example")


def _pattern(sequence: Sequence[str | int]) -> list[str | int]:
    """Symbols by their order among those that occur, and special tokens by themselves."""
    tokens = [WORDS.get(each, each) if isinstance(each, str) else each for each in sequence]
    special = set(WORDS.values())
    symbols = sorted(
        {each for each in tokens if each not in special}, key=lambda each: (str(type(each)), each)
    )
    return [each if each in special else f"#{symbols.index(each)}" for each in tokens]


def _has_no_one_answer(task: Task) -> bool:
    """Whether it has a score of its own, as for a text, or for questions that count one by one."""
    return type(task).score is not Task.score


SUITE = Suite(
    ChosenTask.of,
    first=(sample_returns_a_batch,),
    others=(
        a_batch_is_a_function_of_its_stream,
        tokens_are_in_the_vocabulary_and_in_order,
        lengths_are_as_declared,
        sources_hold_what_they_are_the_source_of,
        a_prompt_has_one_answer,
        scores_are_shares,
        chance_is_as_declared,
        ids_are_supplied,
        worked_examples_are_what_it_generates,
    ),
    rests_on={
        chance_is_as_declared: (scores_are_shares,),
        worked_examples_are_what_it_generates: (a_batch_is_a_function_of_its_stream,),
    },
)
