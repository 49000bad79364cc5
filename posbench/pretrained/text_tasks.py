"""Tasks of the suite as text, in the lengths of a model's own tokenizer.

One text holds several facts, and a question about each comes after it: what a model has computed of
the text then serves all of its questions. Filler is made of sentences of ours, so that no text has
to be had. A text is built from pieces that are tokenized apart and joined as tokens, so that its
length is exact. Where a tokenizer puts something in front of every piece, `posbench.pretrained.
continuing` cuts it off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError

FILLER = (
    "The road goes past the mill.",
    "Rain fell on the roof all night.",
    "A boat lies at the pier.",
    "Someone has left the gate open.",
    "The bread is still warm.",
    "Two birds sit on the fence.",
    "The train was late again.",
    "Snow covers the far hills.",
)
PEOPLE = (
    "Anna",
    "Boris",
    "Clara",
    "David",
    "Elena",
    "Felix",
    "Greta",
    "Henry",
    "Irene",
    "Jonas",
    "Karla",
    "Lucas",
    "Maria",
    "Nils",
    "Olga",
    "Peter",
    "Rosa",
    "Simon",
    "Tessa",
    "Victor",
)
THINGS = (
    "lamp",
    "river",
    "stone",
    "wheel",
    "basket",
    "ladder",
    "window",
    "bottle",
    "candle",
    "hammer",
    "saddle",
    "pillow",
    "carpet",
    "mirror",
    "button",
    "kettle",
)


@dataclass(frozen=True)
class Question:
    """A question after a text, and its answer, in tokens.

    `depth` is where in the text the source of the answer is, from 0 at the start to 1 at the
    end, and `distance` how many tokens before the answer; None where there is no one source.
    """

    asked: list[int]
    answer: list[int]
    depth: float | None
    distance: int | None


@dataclass(frozen=True)
class Text:
    """Tokens that all `questions` share: each is asked as if it were the only one."""

    shared: list[int]
    questions: list[Question]

    def tokens(self, question: Question) -> list[int]:
        """The whole sequence of one question, its answer included."""
        return self.shared + question.asked + question.answer


@dataclass(frozen=True)
class Asked:
    """One question in words: `lead` is how its answer begins, and `fact` which line has it."""

    question: str
    lead: str
    answer: str
    fact: int | None = None


@dataclass(frozen=True)
class Story:
    """A text says these facts, in words."""

    head: str
    facts: Sequence[str]  # in the order in which they are in the text
    asked: Sequence[Asked]


class Pieces:
    """Text to tokens, piece by piece, and what surrounds a prompt.

    With `chat` the text and its question are one message in the template of the tokenizer, and what
    is asked for goes on from the beginning of the model's reply.
    """

    def __init__(self, tokenizer: Any, chat: bool = False) -> None:
        self.tokenizer = tokenizer
        start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        self.before: list[int] = start
        self.reply: list[int] | None = None  # what is between a question and its answer
        if chat:
            if not getattr(tokenizer, "chat_template", None):
                raise ConfigError(
                    "chat=true needs a tokenizer with a chat template, and this one has none: "
                    "leave chat out"
                )
            message = [{"role": "user", "content": MARK}]
            around = tokenizer.apply_chat_template(
                message, tokenize=False, add_generation_prompt=True
            )
            before, _, after = around.partition(MARK)
            self.before, self.reply = self(before), self(after)

    def __call__(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def question(self, asked: Asked) -> list[int]:
        if self.reply is None:
            return self(f"{asked.question} {asked.lead}".strip())
        return self(asked.question) + self.reply + self(asked.lead)


MARK = "\N{WHITE SQUARE}"
"""Stands for the message while a template is cut in two."""


class TextTask(ABC):
    """Texts of any number of tokens, with questions.

    `version` counts changes that alter a token.
    """

    version = 1
    measure = "share of answers that greedy decoding gives"

    @abstractmethod
    def story(self, count: int, rng: np.random.Generator) -> Story:
        """Facts with `count` questions about them."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """The share of answers that guessing gets right, knowing their form."""

    def text(self, pieces: Pieces, length: int, questions: int, rng: np.random.Generator) -> Text:
        """A text whose longest question ends at just `length` tokens, the answer included.

        The facts are spread evenly from the start of the text to its end.
        """
        story = self.story(questions, rng)
        head = pieces.before + pieces(story.head)
        facts = [pieces(fact) for fact in story.facts]
        asked = [(pieces.question(each), pieces(each.answer)) for each in story.asked]
        ends = max(len(question) + len(answer) for question, answer in asked)
        fixed = len(head) + sum(map(len, facts)) + ends
        if length < fixed:
            raise ConfigError(
                f"a text with {questions} questions needs {fixed} tokens and has {length}: choose "
                "longer lengths, or fewer questions"
            )
        shared, starts = self._laid(head, facts, length - fixed, pieces, story, rng)
        found = []
        for each, (question, answer) in zip(story.asked, asked, strict=True):
            place = None if each.fact is None else starts[each.fact]
            found.append(
                Question(
                    question,
                    answer,
                    None if place is None else place / max(len(shared) - 1, 1),
                    None if place is None else len(shared) + len(question) - place,
                )
            )
        return Text(shared, found)

    def _laid(
        self,
        head: list[int],
        facts: Sequence[list[int]],
        free: int,
        pieces: Pieces,
        story: Story,
        rng: np.random.Generator,
    ) -> tuple[list[int], list[int]]:
        """The tokens of head, facts and filler, and where each fact begins."""
        gaps = len(facts) - 1
        # A single fact is anywhere, for depths are to vary over texts.
        before = [float(rng.random())] if not gaps else [place / gaps for place in range(gaps + 1)]
        shared, starts, used = list(head), [], 0
        for share, fact in zip(before, facts, strict=True):
            upto = round(share * free)
            shared += self.filler(pieces, upto - used, story, rng)
            used = upto
            starts.append(len(shared))
            shared += fact
        return shared + self.filler(pieces, free - used, story, rng), starts

    def filler(
        self, pieces: Pieces, count: int, story: Story, rng: np.random.Generator
    ) -> list[int]:
        """`count` tokens of sentences in random order; the first may have lost its beginning."""
        found: list[int] = []
        while len(found) < count:
            found = pieces(f"{FILLER[rng.integers(len(FILLER))]}\n") + found
        return found[len(found) - count :]


def _at_most(count: int, of: Sequence[str], what: str) -> None:
    if count > len(of):
        raise ConfigError(f"questions={count}: there are {len(of)} {what}, so ask fewer")


def _numbers(low: int, high: int, count: int, rng: np.random.Generator) -> list[str]:
    """Unlike ones, with the digits of `low`."""
    return [str(low + each) for each in rng.permutation(high - low)[:count]]


@dataclass(frozen=True)
class Passkey(TextTask):
    """Each person's number of five digits appears once, in filler, and asked for at the end (arXiv
    2305.16300, in words and filler of ours, with a person for each question).
    """

    @property
    def chance(self) -> float:
        return 1 / 90_000

    def story(self, count: int, rng: np.random.Generator) -> Story:
        _at_most(count, PEOPLE, "people")
        people = [PEOPLE[each] for each in rng.permutation(len(PEOPLE))[:count]]
        keys = _numbers(10_000, 100_000, count, rng)
        return Story(
            "Somewhere in this text are secret numbers. Keep them in mind.\n",
            [f"The secret number of {a} is {key}.\n" for a, key in zip(people, keys, strict=True)],
            [
                Asked(
                    f"What is the secret number of {a}?",
                    f"The secret number of {a} is",
                    f" {key}",
                    i,
                )
                for i, (a, key) in enumerate(zip(people, keys, strict=True))
            ],
        )


@dataclass(frozen=True)
class KeyValueRetrieval(TextTask):
    """Lines of a name and a number, as many as there is room for; some are asked for (arXiv
    2307.03172, with short names so that short prompts hold many).
    """

    @property
    def chance(self) -> float:
        return 1 / 9_000

    def story(self, count: int, rng: np.random.Generator) -> Story:
        keys, values = _numbers(1_000, 10_000, count, rng), _numbers(1_000, 10_000, count, rng)
        return Story(
            "Each line has a name and its number.\n",
            [f"N{key}: {value}\n" for key, value in zip(keys, values, strict=True)],
            [
                Asked(f"What is the number of N{key}?", f"The number of N{key} is", f" {value}", i)
                for i, (key, value) in enumerate(zip(keys, values, strict=True))
            ],
        )

    def filler(
        self, pieces: Pieces, count: int, story: Story, rng: np.random.Generator
    ) -> list[int]:
        """Other lines, and sentences where a whole line no longer fits."""
        names, lines = {fact.partition(":")[0] for fact in story.facts}, []
        while True:
            key, value = rng.integers(1_000, 10_000, 2)
            if f"N{key}" in names:
                continue
            line = pieces(f"N{key}: {value}\n")
            if len(line) > count:
                break
            count -= len(line)
            lines.append(line)
        return super().filler(pieces, count, story, rng) + [t for line in lines for t in line]


@dataclass(frozen=True)
class NoisyRecall(TextTask):
    """People and things have a number each, in lines of one form; only people are asked for (after
    MAD, arXiv 2403.17844).

    A number alone does not tell whether it counts. Things come again, with other numbers.
    """

    @property
    def chance(self) -> float:
        return 1 / 9_000

    def story(self, count: int, rng: np.random.Generator) -> Story:
        _at_most(count, PEOPLE, "people")
        people = [PEOPLE[each] for each in rng.permutation(len(PEOPLE))[:count]]
        values = _numbers(1_000, 10_000, count, rng)
        pairs = list(zip(people, values, strict=True))
        return Story(
            "People and things have numbers. Those of people count.\n",
            [f"{name}: {value}\n" for name, value in pairs],
            [
                Asked(f"What is the number of {name}?", f"The number of {name} is", f" {value}", i)
                for i, (name, value) in enumerate(pairs)
            ],
        )

    def filler(
        self, pieces: Pieces, count: int, story: Story, rng: np.random.Generator
    ) -> list[int]:
        """Things with numbers; the first may have lost its beginning."""
        found: list[int] = []
        while len(found) < count:
            thing, value = THINGS[rng.integers(len(THINGS))], rng.integers(1_000, 10_000)
            found = pieces(f"{thing}: {value}\n") + found
        return found[len(found) - count :]


@dataclass(frozen=True)
class MultiHop(TextTask):
    """Chains of variables: the first is a number, each later one the variable before it, and the
    number behind the last is asked for (variable tracking of RULER, arXiv 2404.06654, which asks
    for all variables of a number).

    Lines of a chain keep their order and mix with those of others. A question's source is the line
    with the number.
    """

    hops: int = 1

    @property
    def chance(self) -> float:
        return 1 / 90_000

    def story(self, count: int, rng: np.random.Generator) -> Story:
        links = self.hops + 1
        names = [f"X{name}" for name in _numbers(100, 1_000, count * links, rng)]
        chains = [names[i * links : (i + 1) * links] for i in range(count)]
        values = _numbers(10_000, 100_000, count, rng)
        turns = rng.permutation(np.repeat(np.arange(count), links))
        facts, done, starts = [], [0] * count, [0] * count
        for place, chain in enumerate(turns):
            step, mine = done[chain], chains[chain]
            if not step:
                starts[chain] = place
            facts.append(f"VAR {mine[step]} = {mine[step - 1] if step else values[chain]}\n")
            done[chain] += 1
        asked = [
            Asked(
                f"What is the value of {mine[-1]}?", f"The value of {mine[-1]} is", f" {value}", at
            )
            for mine, value, at in zip(chains, values, starts, strict=True)
        ]
        return Story("Keep track of the variables in this text.\n", facts, asked)


@dataclass(frozen=True)
class InContextLanguage(TextTask):
    """Words of which each mostly has the same one after it, by a table that is drawn anew for every
    text; asked is which word follows (after arXiv 2402.11004).

    The rest of the time, in a share `noise`, any word follows. There is no one source: the table is
    learned from the whole text.
    """

    words: int = 12
    noise: float = 0.2

    @property
    def chance(self) -> float:
        return 1 / self.words

    def story(self, count: int, rng: np.random.Generator) -> Story:
        _at_most(count, THINGS[: self.words], "words")
        words = [THINGS[each] for each in rng.permutation(len(THINGS))[: self.words]]
        after = self._table(rng)
        asked = [Asked("", words[i], f" {words[after[i]]}") for i in range(count)]
        # What the table says, one pair a fact: all of it is told at least once.
        facts = [f"{words[i]} {words[after[i]]}\n" for i in rng.permutation(self.words)]
        return Story("", facts, asked)

    def _table(self, rng: np.random.Generator) -> list[int]:
        """Each word's own successor, no word its own: a round through all in random order."""
        order = rng.permutation(self.words)
        after = np.empty(self.words, int)
        after[order] = np.roll(order, -1)
        return [int(each) for each in after]

    def filler(
        self, pieces: Pieces, count: int, story: Story, rng: np.random.Generator
    ) -> list[int]:
        """Lines of a word and what follows it; the first may have lost its beginning."""
        pairs = [fact.split() for fact in story.facts]
        words = [pair[0] for pair in pairs]
        found: list[int] = []
        while len(found) < count:
            one, other = pairs[rng.integers(len(pairs))]
            if rng.random() < self.noise:
                other = words[rng.integers(len(words))]
            found = pieces(f"{one} {other}\n") + found
        return found[len(found) - count :]


@dataclass(frozen=True)
class CommonWords(TextTask):
    """A list of words in which one comes `times` as often as any other, and is asked for (common
    words of RULER, arXiv 2404.06654, which asks for ten).

    One question a text, whatever is asked for, and no one source.
    """

    times: int = 4

    @property
    def chance(self) -> float:
        return 1 / len(THINGS)

    def story(self, count: int, rng: np.random.Generator) -> Story:
        common = THINGS[rng.integers(len(THINGS))]
        asked = Asked(
            "Which word comes most often?", "The word that comes most often is", f" {common}"
        )
        return Story("Read this list of words.\n", [f"{common}\n"], [asked])

    def filler(
        self, pieces: Pieces, count: int, story: Story, rng: np.random.Generator
    ) -> list[int]:
        """All words in random order, round after round, the common one `times` in each."""
        common = story.facts[0].strip()
        round_of = [*THINGS, *[common] * (self.times - 1)]
        found: list[int] = []
        while len(found) < count:
            for each in rng.permutation(len(round_of)):
                found = pieces(f"{round_of[each]}\n") + found
        return found[len(found) - count :]


TASKS: dict[str, TextTask] = {
    "passkey": Passkey(),
    "key_value_retrieval": KeyValueRetrieval(),
    "noisy_recall": NoisyRecall(),
    "multi_hop": MultiHop(),
    "in_context_language": InContextLanguage(),
    "common_words": CommonWords(),
}
SETS: dict[str, tuple[str, ...]] = {
    "ruler": ("passkey", "key_value_retrieval", "multi_hop", "common_words"),
}
"""Names for several tasks. RULER's kinds that need no outside text, from 256 tokens on: retrieval
of one among none and among many like it, tracing, and counting (arXiv 2404.06654)."""
