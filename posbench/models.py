"""Extensions on a model of transformers from Python.

with posbench.extended(model, "yarn", length=8192):
    model.generate(...)

frame = posbench.evaluate(model, tokenizer, extensions=["direct", "yarn"], lengths=[1, 2])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from posbench import standalone
from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names
from posbench.pretrained.continuing import pieces
from posbench.pretrained.measuring import Answering
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.proof import mounted_and_proved, prove_effect_at
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.tabulating import Score
from posbench.pretrained.text_tasks import TASKS
from posbench.standalone import UnboundExtension

HELP = "posbench pretrained --help"


@contextmanager
def extended(
    model: Any,
    extension: str | UnboundExtension,
    length: int,
    train_positions: int | None = None,
) -> Iterator[Mounted]:
    """The model under an extension for sequences of up to `length` positions, then as it was.

    Every call inside is part of one, prompt and answer together, so that `model.generate` may use
    its cache. The mounted model is shown to equal the model itself first. `train_positions` is the
    trained length, by default that of the configuration.

    Raises:
        CannotMount: if the suite's attention cannot take the place of the model's, or if the
            extension changes nothing in it
        ConfigError: if there is no such extension
        IllegalExtension: if the model lacks what it changes
    """
    refuse_path(model)
    given = unbound(extension)
    if given.trains:
        raise CannotMount(
            f"{given.name} trains a model further, and this one stays as it is: choose an "
            "extension without training"
        )
    with mounted_and_proved(model, train_positions) as mounted:
        mounted.extension = given  # type: ignore[assignment]  # extends as one does
        mounted.encodings(length)  # refused here, not in the first call
        prove_effect_at(mounted, mounted.extension, [length])
        with mounted.at(length):
            yield mounted


def refuse_path(model: Any) -> None:
    """ConfigError for a path in the place of a model."""
    if isinstance(model, str | Path):
        raise ConfigError(
            f"model={str(model)!r} is a path, and here a model that is loaded is extended: give "
            "AutoModelForCausalLM.from_pretrained of it"
        )


def unbound(extension: str | UnboundExtension) -> UnboundExtension:
    return standalone.extension(extension)() if isinstance(extension, str) else extension


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

    Columns: task, extension, multiple, tokens, samples, score (share of answers that greedy
    decoding gives), low and high (its 95 percent interval over samples) and log_likelihood (nats
    per token of the answer). Lengths are multiples of the trained one. Nothing is written.
    CannotMount names an extension that changes nothing in this model.
    """
    extensions = [extensions] if isinstance(extensions, str) else extensions
    tasks = [tasks] if isinstance(tasks, str) else tasks
    refuse_path(model)
    if not callable(tokenizer):
        raise ConfigError(
            f"tokenizer is {tokenizer!r}, and tasks are texts: give "
            "AutoTokenizer.from_pretrained(FOLDER)"
        )
    if not extensions or not lengths or not tasks:
        raise ConfigError("extensions, lengths and tasks are lists of at least one each")
    for task in tasks:
        if task not in TASKS:
            raise ConfigError(f"task {task}: {known_names(TASKS, HELP, closest(task, TASKS))}")
    rows = []
    given = pieces(tokenizer)
    with mounted_and_proved(model, train_positions) as mounted:
        tokens_at = {each: round(each * mounted.train_positions) for each in sorted(set(lengths))}
        for each in map(unbound, extensions):
            prove_effect_at(mounted, each, [*tokens_at.values()])  # type: ignore[arg-type]
        for task in tasks:
            asking = Answering(task, TASKS[task], given, questions)
            for multiple, tokens in tokens_at.items():
                for each in map(unbound, extensions):
                    found: list[Any] = [
                        one
                        for text in range(texts)
                        for one in asking.found(mounted, each, tokens, text)  # type: ignore[arg-type]
                    ]
                    right = [float(one.answer.exact) for one in found]
                    low, high = Score.interval_of(right)
                    rows.append(
                        {
                            "task": task,
                            "extension": each.name,
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
