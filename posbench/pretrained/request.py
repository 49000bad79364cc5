"""What a command line of `posbench.pretrained` asks for: its words, and those of its recipe."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from posbench.content_hash import content_hash
from posbench.errors import ConfigError
from posbench.pretrained.loading import Files
from posbench.records.record import Name, as_file_name
from posbench.wording import closest, known_names

SETTINGS: dict[str, Any] = {
    "model": None,
    "extension": "direct,pi,ntk,yarn",
    "task": "passkey,key_value_retrieval",
    "text": "",
    "lengths": "[1,1.5,2]",
    "tokens": "",
    "texts": "1",
    "questions": "10",
    "seed": "0",
    "chat": "false",
    "train_positions": "0",
    "dtype": "auto",
    "device": "cpu",
    "recipe": "",
    "results_dir": "results/local/pretrained",
}
HELP = "python -m posbench.pretrained --help"
DEVICES = ("cpu", "cuda", "mps")
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")
CHOICES = {"dtype": DTYPES, "device": DEVICES, "chat": ("true", "false")}
NAME = "pretrained"
"""The name of the protocol where there is no recipe."""


@dataclass(frozen=True)
class Request:
    """What is to be measured, of which model, at which lengths."""

    files: Files
    extensions: list[str]
    tasks: list[str]
    text: str
    lengths: list[float]
    tokens: list[int]
    texts: list[int]
    questions: int
    chat: bool
    train_positions: int
    dtype: str
    device: str
    settings: list[str]  # extension.NAME=VALUE
    results_dir: Path
    protocol: Name
    command: str

    @classmethod
    def of(cls, words: Sequence[str]) -> Request:
        """Read the words; ConfigError names the first one that cannot be."""
        said, settings = _told_apart(words)
        recipe = _recipe(Path(said["recipe"])) if "recipe" in said else {}
        base = _over(SETTINGS, recipe)
        given = _over(base, said)
        _check(given)
        first, texts = (_whole(given, name, low) for name, low in (("seed", 0), ("texts", 1)))
        return cls(
            files=Files(Path(given["model"])),
            extensions=_several(given, "extension"),
            tasks=_several(given, "task"),
            text=given["text"],
            lengths=_multiples(given),
            tokens=_counts(given),
            texts=[first + each for each in range(texts)],
            questions=_whole(given, "questions", 1),
            chat=given["chat"] == "true",
            train_positions=_whole(given, "train_positions", 0),
            dtype=given["dtype"],
            device=given["device"],
            settings=settings,
            results_dir=Path(given["results_dir"]),
            protocol=_protocol(said, base, given),
            command=" ".join(["python -m posbench.pretrained", *_repeatable(words)]),
        )


def _told_apart(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The settings that the words name, and the words about settings of extensions."""
    said, settings = {}, []
    for word in words:
        name, _, value = word.partition("=")
        if name.startswith("extension."):
            settings.append(word)
        elif not value or name not in SETTINGS:
            meant = closest(name, SETTINGS)
            raise ConfigError(f"{word}: {known_names(SETTINGS, HELP, meant)}, as NAME=VALUE")
        else:
            said[name] = value
    return said, settings


def _over(base: dict[str, Any], said: dict[str, str]) -> dict[str, Any]:
    """The settings with what is said in the place of theirs: of lengths and tokens, one is said."""
    given = base | said
    for name, other in (("lengths", "tokens"), ("tokens", "lengths")):
        if said.get(name) and other not in said:
            given[other] = ""
    return given


def _check(given: dict[str, Any]) -> None:
    """ConfigError for a setting that is missing, or none of those there are."""
    if given["model"] is None:
        raise ConfigError(
            "model= is missing: give the folder of a model of transformers, or a .gguf file"
        )
    for name, known in CHOICES.items():
        if given[name] not in known:
            raise ConfigError(f"{name}={given[name]}: choose one of {', '.join(known)}")
    if bool(given["tokens"]) == bool(given["lengths"]):
        raise ConfigError(
            f"lengths={given['lengths']} tokens={given['tokens']}: give one of the two"
        )


def _several(given: dict[str, Any], name: str) -> list[str]:
    found = [each.strip() for each in given[name].strip("[]").split(",") if each.strip()]
    if not found:
        raise ConfigError(f"{name}={given[name]} names nothing: give at least one")
    return found


def _multiples(given: dict[str, Any]) -> list[float]:
    if not given["lengths"]:
        return []
    found = [_number("lengths", each, float) for each in _several(given, "lengths")]
    if not all(0 < each < math.inf for each in found):
        raise ConfigError(
            f"lengths={given['lengths']} must be finite and above 0: give multiples as 1.5"
        )
    return found


def _counts(given: dict[str, Any]) -> list[int]:
    if not given["tokens"]:
        return []
    found = [_number("tokens", each, int) for each in _several(given, "tokens")]
    if min(found) <= 0:
        raise ConfigError(f"tokens={given['tokens']} must be above 0: raise them")
    return found


def _whole(given: dict[str, Any], name: str, low: int) -> int:
    found: int = _number(name, given[name], int)
    if found < low:
        raise ConfigError(f"{name}={found} must be at least {low}: raise it")
    return found


def _number(name: str, value: str, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{name}={value}: give a number") from None


def _recipe(path: Path) -> dict[str, str]:
    """The settings in a file, as the words of a command line."""
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(
            f"recipe={path} cannot be read ({' '.join(str(error).split())}): name a YAML file"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"recipe={path} is no mapping of settings: write NAME: VALUE")
    for name in found:
        if name not in SETTINGS or name == "recipe":
            meant = closest(str(name), SETTINGS)
            raise ConfigError(f"recipe={path}: {name}: {known_names(SETTINGS, HELP, meant)}")
    return {name: _word(value) for name, value in found.items()}


def _word(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _protocol(said: dict[str, str], base: dict[str, Any], given: dict[str, Any]) -> Name:
    usual, content = _canonical(base), _canonical(given)
    changed = [name for name in content if name in said and content[name] != usual[name]]
    name = Path(said["recipe"]).stem if "recipe" in said else NAME
    return Name(
        name=as_file_name(name),
        changed=tuple(f"{each}={content[each]}" for each in changed),
        hash=content_hash(content),
    )


def _canonical(given: dict[str, Any]) -> dict[str, str]:
    """What decides whether two runs may share a table, each in one way of writing.

    More texts are more samples of the same.
    """
    return {
        "lengths": _listed(_multiples(given)),
        "tokens": _listed(_counts(given)),
        "questions": str(_whole(given, "questions", 1)),
        "chat": given["chat"],
        "train_positions": str(_whole(given, "train_positions", 0)),
        "dtype": given["dtype"],
    }


def _listed(numbers: Sequence[float]) -> str:
    """Numbers as runs measure them, in order and each once, [1,1.5]; "" for none.

    They keep all their digits: of a multiple, the last may decide about a token.
    """
    shown = (str(each).removesuffix(".0") for each in sorted(set(numbers)))
    return f"[{','.join(shown)}]" if numbers else ""


def _repeatable(words: Sequence[str]) -> list[str]:
    """The words for a shell, but for where records go."""
    return [shlex.quote(word) for word in words if not word.startswith("results_dir=")]
