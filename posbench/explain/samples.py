"""`posbench tasks`: what a task generates, to look at or for code of your own.

    posbench tasks passkey --n 8                        three samples in words
    posbench tasks passkey --n 64 --count 100 --json    a JSON object a line
    posbench tasks copy task.num_symbols=8 --n 5 --seed 1 --stream test

In words, a number is a symbol, and brackets hold what the model must answer.
The same task, n, count, seed and stream give the same tokens on every machine. In JSON, `tokens`
are integers, `answer` says which of them are asked for, `source` where each comes from (-1: no one
place), `segments` what is prompt (0) and answer (1), and `ids` are further position ids.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from posbench.base.errors import ConfigError
from posbench.config import command_lines, mistakes
from posbench.config.building import build
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.options import options
from posbench.core.settings import LONGEST
from posbench.core.task import BOS, EOS, FIRST_SYMBOL, MARK, NOISE, PAD, SEP, Batch, Task

WORDS = {PAD: "PAD", BOS: "BOS", SEP: "SEP", EOS: "EOS", MARK: "MARK", NOISE: "."}


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser("posbench tasks", __doc__, config_dir=True)
    parser.add_argument("task", help="its name; posbench --help lists all of them")
    parser.add_argument("settings", nargs="*", help="of the task, such as task.num_symbols=8")
    parser.add_argument("--n", type=int, default=8, help="the length, default: %(default)s")
    parser.add_argument("--count", type=int, default=3, help="of samples, default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stream", default="test", help="train, validation or test, or any word")
    parser.add_argument("--json", action="store_true", help="one object a line")
    chosen = parser.parse_intermixed_args(arguments)
    words = [f"task={chosen.task}", *chosen.settings]

    def shown() -> int:
        with composing(*chosen.config_dir):
            mistakes.check_choice("task", chosen.task, options("task"))
            for word in chosen.settings:
                if not word.lstrip("+~").startswith("task."):
                    raise ConfigError(
                        f"{word} is no setting of the task: write task.NAME=VALUE, or choose the "
                        "samples with --n, --count and --seed"
                    )
            _refuse(chosen)
            mistakes.check(words, chosen.config_dir)
            cfg = compose(*words).cfg()
            task: Task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
            try:
                length = task.total_length(chosen.n)  # refuses what it could not draw
            except ConfigError as error:
                raise ConfigError(f"--n {chosen.n} cannot be drawn: {error}") from None
            if length * chosen.count > LONGEST:  # tokens of the longest test
                raise ConfigError(
                    f"{chosen.count:,} samples of {length:,} tokens are more than {LONGEST:,} in "
                    "all: choose a smaller --count or --n"
                )
            batch = task.batch(chosen.n, chosen.count, chosen.seed, chosen.stream, chosen.n)
        if not chosen.json:
            print(" ".join((type(task).__doc__ or "").split("\n\n")[0].split()))
        for line in _json(batch) if chosen.json else _words(batch):
            print(line)
        return 0

    return exit_status(shown, words, chosen.config_dir)


def _refuse(chosen: argparse.Namespace) -> None:
    """ConfigError for numbers that name no samples."""
    for name, low in (("n", 0), ("count", 1), ("seed", 0)):
        if getattr(chosen, name) < low:
            raise ConfigError(f"--{name} must be at least {low}, got {getattr(chosen, name)}")


def _json(batch: Batch) -> Iterator[str]:
    arrays: dict[str, Any] = {
        name: getattr(batch, name).astype(int).tolist()
        for name in ("tokens", "answer", "source", "segments")
    }
    ids = {kind: values.tolist() for kind, values in batch.ids.items()}
    for row in range(len(batch.tokens)):
        content = {name: values[row] for name, values in arrays.items()}
        yield json.dumps(content | {"ids": {kind: values[row] for kind, values in ids.items()}})


def _words(batch: Batch) -> Iterator[str]:
    """Symbols by their numbers, from 0; what is asked for in brackets."""
    for row, asked in zip(batch.tokens.tolist(), batch.answer.tolist(), strict=True):
        words = [WORDS.get(token, str(token - FIRST_SYMBOL)) for token in row]
        yield " ".join(f"[{word}]" if a else word for word, a in zip(words, asked, strict=True))
