"""`python -m posbench.pretrained`: extensions on a pretrained model, on tasks as text.

    python -m posbench.pretrained model=PATH extension=direct,pi,yarn 'lengths=[1,1.5,2]'

Lengths are multiples of the positions that the model was trained for. Before anything is measured,
the mounted model is shown to equal the model itself, and each extension to change what it says.

    model            a folder with a model and its tokenizer, as transformers saves them
    extension        direct,pi,ntk,yarn by default; any that needs no training and no search, and
                     extension.NAME=VALUE for their settings
    task             passkey,key_value_retrieval by default
    lengths          [1,1.5,2] by default
    samples, seed    10 of each length, from seed 0
    train_positions  those of the model's configuration by default
    dtype            auto by default: as the model was saved
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from posbench.composing import mistakes
from posbench.composing.building import build
from posbench.composing.compose import compose, composing
from posbench.errors import ConfigError, IllegalExtension, closest, known_names
from posbench.extension import Extension, Searched
from posbench.pretrained.refusal import need_transformers

SETTINGS: dict[str, Any] = {
    "model": None,
    "extension": "direct,pi,ntk,yarn",
    "task": "passkey,key_value_retrieval",
    "lengths": "[1,1.5,2]",
    "samples": "10",
    "seed": "0",
    "train_positions": "0",
    "dtype": "auto",
}
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Asked:
    """The command line."""

    model: Path
    extensions: list[str]
    tasks: list[str]
    lengths: list[float]
    samples: int
    seed: int
    train_positions: int
    dtype: str
    settings: list[str]  # extension.NAME=VALUE

    @classmethod
    def of(cls, words: list[str]) -> Asked:
        given, settings = dict(SETTINGS), []
        for word in words:
            name, _, value = word.partition("=")
            if name.startswith("extension."):
                settings.append(word)
            elif not value or name not in SETTINGS:
                meant = closest(name, SETTINGS)
                raise ConfigError(f"{word}: {known_names(SETTINGS, '', meant)}, as NAME=VALUE")
            else:
                given[name] = value
        if given["model"] is None:
            raise ConfigError("model= is missing: give the folder of a model of transformers")
        model = Path(given["model"])
        if not (model / "config.json").is_file():
            raise ConfigError(f"model={model} is no folder with a config.json: name one that is")
        if given["dtype"] not in DTYPES:
            raise ConfigError(f"dtype={given['dtype']}: choose one of {', '.join(DTYPES)}")
        lengths = [_number("lengths", each, float) for each in _several(given["lengths"])]
        samples = _number("samples", given["samples"], int)
        if min(lengths) <= 0 or samples < 1:
            raise ConfigError(
                f"lengths={given['lengths']} and samples={samples} must be above 0: raise them"
            )
        return cls(
            model,
            _several(given["extension"]),
            _several(given["task"]),
            lengths,
            samples,
            _number("seed", given["seed"], int),
            _number("train_positions", given["train_positions"], int),
            given["dtype"],
            settings,
        )


def _several(value: str) -> list[str]:
    return [each.strip() for each in value.strip("[]").split(",") if each.strip()]


def _number(name: str, value: str, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{name}={value}: give a number") from None


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    try:
        for line in measured(Asked.of(words)):
            print(line, flush=True)
    except mistakes.EXPECTED as error:
        print(f"posbench: {mistakes.sentence(error, words)}", file=sys.stderr)
        return 1
    return 0


def measured(asked: Asked) -> Iterator[str]:
    """The lines of the table, as they are found."""
    need_transformers()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from posbench.pretrained.measuring import samples, score
    from posbench.pretrained.proof import mounted_and_proved, prove_effect
    from posbench.pretrained.serving import overrides
    from posbench.pretrained.text_tasks import TASKS

    for name in asked.tasks:
        if name not in TASKS:
            raise ConfigError(f"task={name}: {known_names(TASKS, '', closest(name, TASKS))}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(asked.model)
        model = AutoModelForCausalLM.from_pretrained(asked.model, dtype=asked.dtype)
    except (OSError, ValueError, KeyError) as error:  # as transformers says what is not there
        raise ConfigError(
            f"model={asked.model} cannot be loaded with its tokenizer, which tasks as text need: "
            f"{' '.join(str(error).split())}"
        ) from None
    with mounted_and_proved(model, asked.train_positions or None) as mounted:
        trained = mounted.train_positions
        lengths = [round(multiple * trained) for multiple in asked.lengths]
        extensions = built(asked, trained, max(lengths))
        yield f"{asked.model}, trained for {trained} positions, equals itself when mounted."
        beyond = min((length for length in lengths if length > trained), default=None)
        for name, extension in list(extensions.items()):
            try:
                if beyond is not None:
                    prove_effect(mounted, extension, beyond)
            except IllegalExtension as error:
                yield f"{name} is left out: {error}"
                del extensions[name]
        yield (
            f"{'task':20}{'tokens':>8}  {'extension':18}{'exact':>7}  {'95 percent':15}"
            "log-likelihood"
        )
        for task in asked.tasks:
            for length in lengths:
                batch = samples(TASKS[task], task, tokenizer, length, asked.samples, asked.seed)
                for name, extension in extensions.items():
                    mounted.extension = extension
                    found = score(mounted, batch)
                    low, high = found.interval
                    yield (
                        f"{task:20}{length:8}  {name:18}{found.accuracy:7.2f}  "
                        f"{f'[{low:.2f}, {high:.2f}]':15}{found.log_likelihood:.3f}"
                    )
        longest = max(lengths)
        yield (
            f"To serve up to {longest} positions, for from_pretrained of transformers or "
            "--hf-overrides of vLLM:"
        )
        for name, extension in extensions.items():
            recipe = overrides(mounted, extension, longest)
            yield f"{name}: {recipe if isinstance(recipe, str) else json.dumps(recipe)}"


def built(asked: Asked, train_positions: int, test_positions: int) -> dict[str, Extension]:
    """The suite's extensions with its settings, scaled to the positions of the model."""
    found: dict[str, Extension] = {}
    with composing():
        for name in asked.extensions:
            words = [f"extension={name}", *asked.settings]
            mistakes.check(words)
            cfg = compose(*words).cfg()
            cfg.train_positions, cfg.test_positions = train_positions, test_positions
            node: Any = OmegaConf.to_container(cfg.extension, resolve=True)
            extension = build(node, "extension")
            if extension.trains or isinstance(extension, Searched):
                raise ConfigError(
                    f"extension={name} trains or searches, and a pretrained model is measured as "
                    "it is: choose an extension with settings of its own"
                )
            found[name] = extension
    return found
