"""`posbench pretrained reach`: up to which length a model does half of what it can.

    posbench pretrained reach model=FOLDER
    posbench pretrained reach model=FOLDER task=loss text=FILE extension=yarn longest=8

What the model can do is measured at its trained length. Then the length is doubled as long as it
does half of that, and the length at which it no longer does is found by bisection.

    model            a folder with a model in safetensors and its tokenizer, or a .gguf file
    task             passkey,key_value_retrieval by default: an answer among others like it. loss:
                     how much the text before them helps the last 64 tokens of a text of yours
    text             the text file of loss, UTF-8
    hold             0.5 by default: the share of what it does at the trained length
    longest          4 by default: the longest length, as a multiple of the trained one
    extension        direct by default; any that needs no training
    texts, questions 2 texts of each length, with 10 questions each
    train_positions  those of the model's configuration by default
    dtype, device    auto and cpu by default, as of posbench pretrained
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from scipy import stats

from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names
from posbench.config import commands, mistakes
from posbench.config.exit_status import exit_status
from posbench.config.folders import own_names
from posbench.core.extension import Extension
from posbench.pretrained.loading import Files
from posbench.pretrained.refusal import need_transformers
from posbench.pretrained.request import Listed, extension_at, settings_of
from posbench.showing.table import NOTHING, Column, Line, Table, number

if TYPE_CHECKING:
    from posbench.pretrained.measuring import Answering
    from posbench.pretrained.mounting import Mounted

HELP = "posbench pretrained reach --help"
LOSS = "loss"
LAST = 64
"""Tokens of a text whose loss is compared, and as many before them where little is seen."""
NEAR = 1.1
"""Bisection ends where the two lengths differ by less than this factor."""


class ReachSettings(BaseModel):
    """The words of the command."""

    model_config = ConfigDict(frozen=True)

    model: Path
    task: Annotated[list[str], Listed] = ["passkey", "key_value_retrieval"]
    text: Path | None = None
    hold: Annotated[float, Field(gt=0, le=1)] = 0.5
    longest: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 4.0
    extension: str = "direct"
    texts: PositiveInt = 2
    questions: PositiveInt = 10
    train_positions: NonNegativeInt = 0
    dtype: Literal["auto", "float64", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["cpu", "cuda", "mps"] = "cpu"


def main(arguments: list[str] | None = None) -> int:
    parser = commands.parser_of_words("posbench pretrained reach", __doc__)
    words = parser.parse_intermixed_args(arguments).words
    if not words:
        parser.print_help()
        return 1

    def measured() -> int:
        settings = settings_of(ReachSettings, words, HELP)
        mistakes.check_choice("extension", settings.extension, own_names("extension"))
        if LOSS in settings.task and not (settings.text and settings.text.is_file()):
            raise ConfigError(f"task=loss needs text=FILE, got {settings.text}: name a text file")
        files = Files(settings.model)
        need_transformers()
        for line in run(settings, *files.load(settings.dtype, settings.device)):
            print(line, flush=True)
        return 0

    return exit_status(measured, words)


def run(settings: ReachSettings, model: Any, tokenizer: Any) -> Iterator[str]:
    """Measure length after length, and say what is found; the last line is the answer."""
    from posbench.pretrained.proof import mounted_and_proved

    with mounted_and_proved(model, settings.train_positions or None) as mounted:
        trained = mounted.train_positions
        longest = round(settings.longest * trained)
        extension = extension_at(settings.extension, trained, longest)
        abilities = abilities_of(settings, tokenizer, mounted, extension, longest)
        searches = [Bisection(each, trained, longest, settings.hold) for each in abilities]
        for search in searches:
            for point in search.points_as_they_come():
                yield f"{search.ability.name}, {point.length} tokens: {number(point.value, 3)}"
    yield ""
    columns = (*("task", "tokens", "multiple", "samples"), "value", "95 percent", "holds")
    lines = [
        Line(search.ability.name, search.cells(each)) for search in searches for each in search.all
    ]
    yield from Table([Column(each) for each in columns], lines).aligned()
    yield ""
    for search in searches:
        yield search.sentence()


# -- what a model can do ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """What the model does at one length, with its 95 percent interval."""

    length: int
    value: float
    low: float  # NaN of a single sample that is neither right nor wrong
    high: float
    samples: int


class Ability(ABC):
    """Something that a model can do at a length, larger where it does it better."""

    name: str

    @abstractmethod
    def at(self, length: int) -> Point:
        """The mean over samples."""


@dataclass
class ShareAnswered(Ability):
    """The share of answers that greedy decoding gives, with Wilson's interval."""

    asking: Answering
    mounted: Mounted
    extension: Extension
    texts: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.asking.name

    def at(self, length: int) -> Point:
        found = [
            each.answer.exact
            for text in range(self.texts)
            for each in self.asking.found(self.mounted, self.extension, length, text)
        ]
        return share(length, sum(found), len(found))


def share(length: int, right: int, of: int) -> Point:
    """A share with the interval of Wilson 1927, as the boards of pretrained models have it."""
    bounds = stats.binomtest(right, of).proportion_ci(method="wilson")
    return Point(length, right / of, float(bounds.low), float(bounds.high), of)


@dataclass
class LossOfTheLast(Ability):
    """How much the text before helps the last tokens of texts, in nats a token.

        mean over texts of (loss after 64 tokens - loss after all that precede)

    The tokens are the same at every length, so that texts are no source of difference. The interval
    is that of Student's t over texts.
    """

    tokens: Sequence[int]
    before: Sequence[int]
    mounted: Mounted
    extension: Extension
    texts: int
    name: str = LOSS
    _little: dict[int, float] = field(default_factory=dict)

    def at(self, length: int) -> Point:
        helped = [self._loss(text, 2 * LAST) - self._loss(text, length) for text in self._all()]
        mean, count = float(np.mean(helped)), len(helped)
        half = math.nan
        if count > 1:
            half = float(stats.t.ppf(0.975, count - 1) * np.std(helped, ddof=1) / math.sqrt(count))
        return Point(length, mean, mean - half, mean + half, count)

    def _all(self) -> range:
        return range(self.texts)

    def _loss(self, text: int, length: int) -> float:
        """The mean loss of the last tokens of a text of so many, nats."""
        from posbench.pretrained.reading import continuations

        if length == 2 * LAST and text in self._little:
            return self._little[text]
        end = len(self.tokens) - text * LAST
        given = [*self.before, *self.tokens[end - length + len(self.before) : end]]
        self.mounted.extension = self.extension
        found = -float(np.mean(continuations(self.mounted, given, length).log_likelihood[-LAST:]))
        if length == 2 * LAST:
            self._little[text] = found
        return found


def abilities_of(
    settings: ReachSettings, tokenizer: Any, mounted: Mounted, extension: Extension, longest: int
) -> list[Ability]:
    """Those that are asked for; ConfigError where one cannot be measured up to the longest."""
    from posbench.pretrained.command import refuse_tokenizer
    from posbench.pretrained.continuing import pieces
    from posbench.pretrained.measuring import Answering, Perplexity
    from posbench.pretrained.text_tasks import TASKS

    found: list[Ability] = []
    for name in dict.fromkeys(settings.task):
        if name == LOSS:
            assert settings.text is not None
            whole = Perplexity.of(settings.text, tokenizer)
            needed = longest + (settings.texts - 1) * LAST
            if len(whole.tokens) < needed or mounted.train_positions <= 2 * LAST:
                raise ConfigError(
                    f"text={settings.text} has {len(whole.tokens)} tokens, and {needed} are needed "
                    f"for longest={settings.longest:g}, of a model for more than {2 * LAST}: give "
                    "a longer file, or a shorter longest"
                )
            found.append(
                LossOfTheLast(whole.tokens, whole.before, mounted, extension, settings.texts)
            )
        elif name in TASKS:
            asking = Answering(name, TASKS[name], pieces(tokenizer), settings.questions)
            refuse_tokenizer(asking)
            _refuse_many(asking, mounted.train_positions)
            found.append(ShareAnswered(asking, mounted, extension, settings.texts))
        else:
            known = {**TASKS, LOSS: None}
            raise ConfigError(f"task={name}: {known_names(known, HELP, closest(name, known))}")
    return found


def _refuse_many(asking: Answering, trained: int) -> None:
    """ConfigError where the questions do not fit into the trained length, the first measured."""
    try:
        asking.text(trained, 0)
    except ConfigError as error:
        needed, _, _ = str(error).partition(":")
        raise ConfigError(
            f"task={asking.name} begins at the trained length, and {needed}: give fewer, as "
            "questions=2"
        ) from None


# -- the length ------------------------------------------------------------------------------------


@dataclass
class Bisection:
    """Bisection, by lengths on a logarithmic axis, for the last at which an ability holds.

    An ability that falls and rises again may have several such lengths; one of them is found.
    """

    ability: Ability
    trained: int
    longest: int
    hold: float
    found: dict[int, Point] = field(default_factory=dict)

    @property
    def all(self) -> list[Point]:
        """In the order of their lengths."""
        return [self.found[each] for each in sorted(self.found)]

    @property
    def threshold(self) -> float:
        return self.hold * self.found[self.trained].value

    def holds(self, point: Point) -> bool:
        return point.value >= self.threshold

    @property
    def can(self) -> bool:
        """Whether there is anything at the trained length."""
        return self.found[self.trained].value > 0

    def points_as_they_come(self) -> Iterator[Point]:
        """Measure until two lengths are near, of which it holds at one alone."""
        low = self.trained
        yield (last := self._measured(low))
        if not self.can:
            return
        high = low
        while self.holds(last) and high < self.longest:
            low, high = high, min(2 * high, self.longest)
            yield (last := self._measured(high))
        if self.holds(last):
            return
        while high > NEAR * low and high - low > 1:
            middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
            yield (last := self._measured(middle))
            low, high = (middle, high) if self.holds(last) else (low, middle)

    def _measured(self, length: int) -> Point:
        self.found[length] = self.ability.at(length)
        return self.found[length]

    @property
    def reach(self) -> int:
        """The length up to which it holds, among those that were measured."""
        failing = [each.length for each in self.all if not self.holds(each)]
        first = min(failing, default=self.longest + 1)
        return max(each.length for each in self.all if each.length < first)

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The longest length at which even the lower bound holds, before any whose value does not,
        and the shortest at which even the upper bound does not; None where there is none.
        """
        surely = [p.length for p in self.all if p.low >= self.threshold and p.length <= self.reach]
        never = [p.length for p in self.all if p.high < self.threshold]
        return max(surely, default=None), min(never, default=None)

    @property
    def decided(self) -> bool:
        """Whether the intervals say that it holds at the longest length, or where it does not."""
        surely, never = self.bounds
        if self.reach == self.longest:
            return surely == self.longest
        return surely is not None or never is not None

    def cells(self, point: Point) -> list[str]:
        bounds = NOTHING
        if not math.isnan(point.low):
            bounds = f"{number(point.low, 3)} to {number(point.high, 3)}"
        multiple = f"{point.length / self.trained:.3g}x"
        holds = ("yes" if self.holds(point) else "no") if self.can else NOTHING
        return [
            *(str(point.length), multiple, str(point.samples), number(point.value, 3)),
            *(bounds, holds),
        ]

    def sentence(self) -> str:
        name = self.ability.name
        if not self.can:
            return f"{name}: the model can do nothing at {self.trained} tokens, so it has no reach."
        surely, never = self.bounds
        at_least = f"at least {surely}" if surely else "no length is sure"
        said = f"{at_least}, {f'less than {never}' if never else 'no upper bound'}"
        multiple = f"{self.reach / self.trained:.3g}x"
        if not self.decided:
            where = (
                f"still holds at {self.longest}, the longest measured"
                if self.reach == self.longest
                else f"holds anywhere up to {self.longest}"
            )
            return (
                f"{name}: it is not decided whether {self.hold:g} of what it does at "
                f"{self.trained} tokens {where} (95 %: {said}). More texts are needed: raise texts="
            )
        if self.reach == self.longest:
            return (
                f"{name}: {self.hold:g} of what it does at {self.trained} tokens still holds at "
                f"{self.longest}, the longest measured (95 %: {said})."
            )
        return (
            f"{name}: {self.hold:g} of what it does at {self.trained} tokens holds up to "
            f"{self.reach} tokens, {multiple} (95 %: {said})."
        )


if __name__ == "__main__":
    sys.exit(main())
