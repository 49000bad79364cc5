"""Extensions on a model of transformers from Python.

with posbench.extended(model, "yarn", length=8192):
    model.generate(...)

frame = posbench.evaluate(model, tokenizer, extensions=["direct", "yarn"], lengths=[1, 2])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from posbench import standalone
from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names
from posbench.config.own_class import plain
from posbench.position import count
from posbench.pretrained.command import FARTHEST
from posbench.pretrained.continuing import pieces
from posbench.pretrained.measuring import Answering
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.proof import mounted_and_proved, prove_effect_at
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.tabulating import interval_of
from posbench.pretrained.text_tasks import TASKS
from posbench.standalone import UnboundExtension

HELP = "posbench pretrained --help"


@contextmanager
def extended(
    model: Any, extension: str | UnboundExtension, length: int, train_positions: int | None = None
) -> Iterator[Mounted]:
    """The model under an extension for sequences of up to `length` positions, then as it was.

    Every call inside is part of one, prompt and answer together, so that `model.generate` may use
    its cache. The mounted model is shown to equal the model itself first. `length` counts tokens,
    and `train_positions` is the trained length, by default that of the configuration. The model is
    in evaluation inside, and after it as it was before. Outside the block nothing is extended.

    Raises:
        CannotMount: if the suite's attention cannot take the place of the model's, or if the
            extension changes nothing in it
        ConfigError: if there is no such extension, or an argument is of another kind
        IllegalExtension: if the model lacks what it changes
    """
    length, given = count("length", length), unbound(extension)
    if given.trains:
        raise CannotMount(
            f"{given.name} trains a model further, and this one stays as it is: choose an "
            "extension without training"
        )
    with _mounted(model, train_positions) as mounted:
        mounted.extension = given  # type: ignore[assignment]  # extends as one does
        mounted.encodings(length)  # refused here, not in the first call
        prove_effect_at(mounted, mounted.extension, [length])
        with mounted.at(length):
            yield mounted


@contextmanager
def _mounted(model: Any, train_positions: int | None) -> Iterator[Mounted]:
    """The mounted model, and after the block the model with every mode as it was."""
    refuse_other("model", model, PreTrainedModel, "AutoModelForCausalLM")
    if train_positions is not None:
        train_positions = count("train_positions", train_positions)
    modes = {module: module.training for module in model.modules()}
    try:
        with mounted_and_proved(model, train_positions) as mounted:
            yield mounted
    finally:
        for module, training in modes.items():
            module.training = training


def refuse_other(name: str, given: Any, kind: type, maker: str) -> None:
    """ConfigError for what is not of transformers, such as a path."""
    if not isinstance(given, kind):
        shown = repr(str(given)) if isinstance(given, str) else f"a {type(given).__name__}"
        raise ConfigError(
            f"{name} is {shown}, and here one of transformers is asked for, which is loaded: give "
            f"{maker}.from_pretrained(FOLDER)"
        )


def unbound(extension: str | UnboundExtension) -> UnboundExtension:
    if isinstance(extension, str):
        return standalone.extension(extension)()
    if not isinstance(extension, UnboundExtension):
        what = getattr(extension, "__name__", type(extension).__name__)
        raise ConfigError(
            f'extension is {what}: give a name, as "yarn", or what a call gives, as posbench.yarn()'
        )
    return extension


def _items(name: str, value: Any, *kinds: type) -> list[Any]:
    """The items of a list of these kinds, or the one that is given alone."""
    value = plain(value)
    found = [value] if isinstance(value, kinds) else value
    if not isinstance(found, list | tuple | set | range) or not found:
        raise ConfigError(f"{name} is a list of at least one, got {value!r}")
    return list(found)


def _multiple(value: Any) -> float:
    value = plain(value)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 < number <= FARTHEST:
        raise ConfigError(
            f"lengths are multiples of the trained length, above 0 and up to {FARTHEST:,}, got "
            f"{value!r}: write 2 for twice as long"
        )
    return float(number)


def evaluate(
    model: Any,
    tokenizer: Any,
    extensions: str | Sequence[str | UnboundExtension] = ("direct", "yarn"),
    lengths: Sequence[float] = (1, 1.5, 2),
    tasks: str | Sequence[str] = ("passkey",),
    texts: int = 1,
    questions: int = 10,
    train_positions: int | None = None,
) -> pd.DataFrame:
    """A line for each task, extension and length, over `texts` times `questions` samples.

    Columns: task, extension (with its settings where a name is given twice), multiple, tokens,
    samples, score (share of answers that greedy decoding gives), low and high (its 95 percent
    interval over samples) and log_likelihood (nats per token of the answer). Lengths are multiples
    of the trained one. Nothing is written.
    CannotMount names an extension that changes nothing in this model.
    """
    chosen = [unbound(each) for each in _items("extensions", extensions, str, UnboundExtension)]
    names = [each.name for each in chosen]
    labels = [name if names.count(name) == 1 else repr(chosen[i]) for i, name in enumerate(names)]
    named = _items("tasks", tasks, str)
    multiples = sorted({_multiple(each) for each in _items("lengths", lengths, int, float)})
    texts, questions = count("texts", texts), count("questions", questions)
    refuse_other("tokenizer", tokenizer, PreTrainedTokenizerBase, "AutoTokenizer")
    for task in named:
        if task not in TASKS:
            meant = closest(str(task), TASKS)
            raise ConfigError(f"task {task}: {known_names(TASKS, HELP, meant)}")
    rows = []
    given = pieces(tokenizer)
    with _mounted(model, train_positions) as mounted:
        tokens_at = {each: round(each * mounted.train_positions) for each in multiples}
        for each in chosen:
            prove_effect_at(mounted, each, [*tokens_at.values()])  # type: ignore[arg-type]
        for task in named:
            asking = Answering(task, TASKS[task], given, questions)
            for multiple, tokens in tokens_at.items():
                for each, label in zip(chosen, labels, strict=True):
                    found: list[Any] = [
                        one
                        for text in range(texts)
                        for one in asking.found(mounted, each, tokens, text)  # type: ignore[arg-type]
                    ]
                    right = [float(one.answer.exact) for one in found]
                    low, high = interval_of(right)
                    rows.append(
                        {
                            "task": task,
                            "extension": label,
                            "multiple": multiple,
                            "tokens": tokens,
                            "samples": len(found),
                            "score": float(np.mean(right)),
                            "low": low,
                            "high": high,
                            "log_likelihood": float(np.mean([one.log_likelihood for one in found])),
                        }
                    )
    return pd.DataFrame(rows)
