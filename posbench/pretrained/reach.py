"""`posbench pretrained reach`: up to which length a model does half of what it can.

    posbench pretrained reach model=FOLDER minutes=10
    posbench pretrained reach model=FOLDER task=loss text=FILE extension=yarn longest=8

What the model can do is measured at its trained length. Then the length is doubled as long as it
does half of that, and the length at which it no longer does is found by bisection.
After the first text a line says how long the rest is likely to take. Each text is kept in a file,
so the same command goes on where it was stopped, and more texts add to those that are there.

    model            a folder with a model in safetensors and its tokenizer, or a .gguf file
    task             passkey,key_value_retrieval by default: an answer among others like it. loss:
                     how much the text before them helps the last 64 tokens of a text of yours
    text             the text file of loss, UTF-8
    hold             0.5 by default: the share of what it does at the first length
    start            the first length in tokens, with which the others are compared: by default the
                     trained one. A shorter one takes less time
    longest          4 by default: the longest length, as a multiple of the trained one
    minutes          0 by default: to the end. Otherwise no text is begun that would take longer,
                     and what is known by then is told; a shorter length is tried where a doubled
                     one would take too long
    extension        direct by default; any that needs no training
    texts, questions 2 texts of each length, or 1 with minutes=; 10 questions each
    train_positions  those of the model's configuration by default
    dtype, device    auto and cpu by default, as of posbench pretrained
    results_dir      results/local/reach by default: where measured texts are kept
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from posbench.base.disk import writing_to
from posbench.base.errors import ConfigError
from posbench.base.wording import closest, duration, known_names
from posbench.config import command_lines, mistakes
from posbench.config.folders import own_names
from posbench.core.extension import Extension
from posbench.pretrained.bisection import Clock, LengthSearch
from posbench.pretrained.loading import Files
from posbench.pretrained.refusal import need_transformers
from posbench.pretrained.request import Listed, extension_at, node_at, settings_of
from posbench.showing.table import Column, Line, Table

if TYPE_CHECKING:
    from posbench.pretrained.abilities import Ability, KeptTexts
    from posbench.pretrained.measuring import Answering
    from posbench.pretrained.mounting import Mounted

HELP = "posbench pretrained reach --help"
LOSS = "loss"
TEXTS = 2
"""Of each length, where no time is set."""


class ReachSettings(BaseModel):
    """The words of the command."""

    model_config = ConfigDict(frozen=True)

    model: Path
    task: Annotated[list[str], Listed] = ["passkey", "key_value_retrieval"]
    text: Path | None = None
    hold: Annotated[float, Field(gt=0, le=1)] = 0.5
    start: NonNegativeInt = 0
    longest: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 4.0
    minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    extension: str = "direct"
    texts: NonNegativeInt = 0
    questions: PositiveInt = 10
    train_positions: NonNegativeInt = 0
    dtype: Literal["auto", "float64", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    results_dir: Path = Path("results/local/reach")

    @property
    def of_each_length(self) -> int:
        """Texts of a length: one alone where there is little time."""
        return self.texts or (1 if self.minutes else TEXTS)


def main(arguments: list[str] | None = None) -> int:
    return command_lines.of_words("posbench pretrained reach", __doc__, arguments, _measured)


def _measured(words: list[str]) -> int:
    clock = Clock()
    settings = settings_of(ReachSettings, words, HELP)
    mistakes.check_choice("extension", settings.extension, own_names("extension"))
    refuse_unknown(settings.task)
    if LOSS in settings.task and not (settings.text and settings.text.is_file()):
        raise ConfigError(f"task=loss needs text=FILE, got {settings.text}: name a text file")
    files = Files(settings.model)
    need_transformers()
    with writing_to(settings.results_dir):
        for line in run(settings, files, *files.load(settings.dtype, settings.device), clock):
            print(line, flush=True)
    return 0


def refuse_unknown(tasks: Sequence[str]) -> None:
    """ConfigError for a task that there is not."""
    from posbench.pretrained.text_tasks import TASKS

    known = {**TASKS, LOSS: None}
    for name in tasks:
        if name not in known:
            raise ConfigError(f"task={name}: {known_names(known, HELP, closest(name, known))}")


def run(
    settings: ReachSettings, files: Files, model: Any, tokenizer: Any, clock: Clock
) -> Iterator[str]:
    """Measure length after length, and say what is found; the last line is the answer."""
    from posbench.pretrained.proof import mounted_and_proved, prove_effect_at

    with mounted_and_proved(model, settings.train_positions or None) as mounted:
        trained = mounted.train_positions
        start, longest = settings.start or trained, round(settings.longest * trained)
        if start > longest:
            raise ConfigError(
                f"start={start} is beyond longest={settings.longest:g} times the {trained} trained "
                "positions: choose a shorter start or a larger longest"
            )
        extension = extension_at(settings.extension, trained, longest)
        prove_effect_at(mounted, extension, [start, longest])
        searches = [
            LengthSearch(
                each,
                kept_texts(settings, files, mounted, each, longest),
                settings.of_each_length,
                start,
                longest,
                settings.hold,
            )
            for each in abilities_of(settings, tokenizer, mounted, extension, start, longest)
        ]
        yield (
            f"Texts are kept in {settings.results_dir}: the same command goes on from there. The "
            f"first has {start} tokens, and after it a line says how long the rest takes."
        )
        yield from searched(searches, clock, 60 * settings.minutes or math.inf)
    yield ""
    columns = (*("task", "tokens", "multiple", "samples"), "value", "95 percent", "holds")
    lines = [
        Line(search.ability.name, search.cells(each, trained))
        for search in searches
        for each in search.all
    ]
    yield from Table([Column(each) for each in columns], lines).aligned()
    yield ""
    for search in searches:
        yield search.sentence()


def searched(searches: Sequence[LengthSearch], clock: Clock, until: float) -> Iterator[str]:
    """Measure the shortest length that any search needs, as long as the time suffices.

    Each has an equal share of the time that is left, so that one that tries a long text leaves
    some for the others.
    """
    first, told = searches[0], False
    while going := [each for each in searches if not each.ended]:
        share = (until - clock.seconds) / len(going)
        wanted = [(length, each) for each in going if (length := each.next(share))]
        if not wanted:
            if not any(each.ended for each in going):
                break
            continue  # the others have more time now
        length, search = min(wanted, key=lambda pair: pair[0])
        while search.lacking(length):
            search.measure(length)
            if not told:
                told = True
                yield estimate(searches, first.texts_at(first.start)[0].seconds, until)
        yield f"{search.decision(length)} {duration(clock.seconds)} so far."


def estimate(searches: Sequence[LengthSearch], seconds: float, until: float) -> str:
    """How long the rest takes if time grows with tokens, and if it does with their square.

    Where the model stops reading decides which lengths are measured.
    """
    times = []
    for power in (1, 2):
        for reach in (searches[0].start, searches[0].longest - 1, searches[0].longest):
            times.append(sum(each.time(reach, seconds, power) for each in searches))
    ends = f" It ends after {until / 60:g} minute{'s' * (until != 60)}." if until < math.inf else ""
    return (
        f"The first text of {searches[0].start} tokens took {duration(seconds)}. The whole search "
        f"is likely to take {duration(min(times))} to {duration(max(times))} more, by how far the "
        f"model reads and how its time grows with tokens.{ends or ' minutes= ends it earlier.'}"
    )


# -- what is measured ------------------------------------------------------------------------------


def abilities_of(
    settings: ReachSettings,
    tokenizer: Any,
    mounted: Mounted,
    extension: Extension,
    start: int,
    longest: int,
) -> list[Ability]:
    """Those that are asked for; ConfigError where one cannot be measured up to the longest."""
    from posbench.pretrained.abilities import LAST, LossOfTheLast, ShareAnswered
    from posbench.pretrained.command import refuse_tokenizer
    from posbench.pretrained.continuing import pieces
    from posbench.pretrained.measuring import Answering, Perplexity
    from posbench.pretrained.text_tasks import TASKS

    found: list[Ability] = []
    for name in dict.fromkeys(settings.task):
        if name == LOSS:
            assert settings.text is not None
            whole = Perplexity.of(settings.text, tokenizer)
            needed = longest + (settings.of_each_length - 1) * LAST
            if len(whole.tokens) < needed or start <= 2 * LAST:
                raise ConfigError(
                    f"text={settings.text} has {len(whole.tokens)} tokens, and {needed} are needed "
                    f"for longest={settings.longest:g}, of a first length of more than {2 * LAST}: "
                    "give a longer file, or a shorter longest"
                )
            found.append(LossOfTheLast(whole.tokens, whole.before, mounted, extension))
        else:
            asking = Answering(name, TASKS[name], pieces(tokenizer), settings.questions)
            refuse_tokenizer(asking)
            _refuse_many(asking, start)
            found.append(ShareAnswered(asking, mounted, extension))
    return found


def _refuse_many(asking: Answering, start: int) -> None:
    """ConfigError where the questions do not fit into the first length."""
    try:
        asking.text(start, 0)
    except ConfigError as error:
        needed, _, _ = str(error).partition(":")
        raise ConfigError(
            f"task={asking.name} begins at {start} tokens, and {needed}: give fewer, as questions=2"
        ) from None


def kept_texts(
    settings: ReachSettings, files: Files, mounted: Mounted, ability: Ability, longest: int
) -> KeptTexts:
    """The file of all that the samples of an ability depend on."""
    from posbench.config.provenance import known_hash, targets, without_places
    from posbench.pretrained.abilities import KeptTexts

    node = node_at(settings.extension, mounted.train_positions, longest)
    known_by = {
        "model": files.hash,
        "task": without_places(ability.node),
        "extension": without_places(node),
        "train_positions": mounted.train_positions,
        "dtype": settings.dtype,
        "device": settings.device,
        "code": known_hash(
            "posbench.pretrained.abilities", frozenset(targets(node) | targets(ability.node))
        ),
    }
    return KeptTexts(settings.results_dir, f"{files.name}-{ability.name}", known_by)
