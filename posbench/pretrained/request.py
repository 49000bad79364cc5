"""A command line of `posbench.pretrained` and its recipe, read and checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_text
from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names, reason
from posbench.config import mistakes
from posbench.config.building import build
from posbench.config.compose import compose, composing
from posbench.config.folders import own_names
from posbench.config.names import Name, as_file_name, as_text
from posbench.config.yaml_text import LARGEST, loaded
from posbench.core.extension import Extension
from posbench.core.settings import setting_refused
from posbench.pretrained.loading import Files
from posbench.pretrained.text_tasks import THINGS

HELP = "posbench pretrained --help"
COMMANDS = ("advise", "export", "lm-eval", "reach", "verify")
"""Those that are the second word of the command."""
NAME = "pretrained"
"""The name of the protocol where there is no recipe."""
FILES = ("model", "text", "recipe")
"""Settings whose values are files or folders."""


def _items(value: Any) -> Any:
    """The items of a list as a command line has it, with brackets or without."""
    if not isinstance(value, list):
        text = str(value).strip()
        if text.startswith("[") != text.endswith("]"):
            raise ValueError("has one bracket: write both, as [1,1.5], or none")
        value = [each.strip() for each in str(value).strip("[]").split(",") if each.strip()]
    if not value:
        raise ValueError("names nothing: give at least one")
    return value


Listed = BeforeValidator(_items)
Multiple = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """The settings that a word NAME=VALUE or a recipe may give, and their defaults.

    Only one of `lengths` and `tokens` is given; the other is None.
    """

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    model: Path | None = None
    extension: Annotated[list[str], Listed] = ["direct", "pi", "ntk", "yarn"]
    task: Annotated[list[str], Listed] = ["passkey", "key_value_retrieval"]
    text: str = ""
    lengths: Annotated[list[Multiple], Listed] | None = [1, 1.5, 2]
    tokens: Annotated[list[PositiveInt], Listed] | None = None
    texts: PositiveInt = 1
    questions: PositiveInt = 10
    seed: NonNegativeInt = 0
    chat: bool = False
    scale: Literal["length", "served"] = "length"
    train_positions: NonNegativeInt = 0
    dtype: Literal["auto", "float64", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    recipe: Path | None = None
    results_dir: Path = Path("results/local/pretrained")

    @classmethod
    def of(cls, *layers: dict[str, Any]) -> Settings:
        """Settings from layers, of which the later count more; ConfigError names a wrong one."""
        given: dict[str, Any] = {}
        for layer in layers:
            given |= layer
            for name, other in (("lengths", "tokens"), ("tokens", "lengths")):
                if name in layer and other not in layer:
                    given[other] = None
        try:
            settings = cls(**given)
        except ValidationError as error:
            raise ConfigError(setting_refused(error)) from None
        if settings.scale == "served" and settings.tokens is not None:
            raise ConfigError(
                "scale=served compares with the trained length, and tokens are not counted in it, "
                f"got tokens={settings.tokens}: give lengths, as in lengths=[1,4]"
            )
        if settings.scale == "served" and settings.lengths and 1 not in settings.lengths:
            settings = settings.model_copy(update={"lengths": [1.0, *settings.lengths]})
        if (settings.lengths is None) == (settings.tokens is None):
            raise ConfigError(
                f"lengths={settings.lengths} tokens={settings.tokens}: give one of the two"
            )
        return settings

    def counted(self) -> dict[str, str]:
        """The settings that decide whether two runs may share a table, each written in one way.

        More texts are only more samples.
        """
        return {
            "lengths": _listed(self.lengths or []),
            "tokens": _listed(self.tokens or []),
            "questions": str(self.questions),
            "chat": str(self.chat).lower(),
            "train_positions": str(self.train_positions),
            "dtype": self.dtype,
        }


@dataclass(frozen=True)
class ModelRequest:
    """A model, and the extensions, tasks and lengths that are to be measured."""

    files: Files
    settings: Settings
    of_extensions: list[str]  # extension.NAME=VALUE
    of_tasks: dict[str, int | float]  # task.NAME=VALUE
    protocol: Name
    command: str

    @classmethod
    def of(cls, words: Sequence[str]) -> ModelRequest:
        """Read the words; ConfigError names the first one that cannot be."""
        said, of_extensions, of_tasks = _told_apart(words)
        recipe = _recipe(Path(said["recipe"])) if "recipe" in said else {}
        settings = Settings.of(recipe, said)
        if settings.model is None:
            raise ConfigError(
                "model= is missing: give the folder of a model of transformers, or a .gguf file"
            )
        return cls(
            files=Files(settings.model),
            settings=settings,
            of_extensions=of_extensions,
            of_tasks=of_tasks,
            protocol=_protocol(said, Settings.of(recipe), settings),
            command=" ".join(["python -m posbench.pretrained", *_repeatable(words)]),
        )

    @property
    def texts(self) -> list[int]:
        """The numbers of the texts."""
        first = self.settings.seed
        return list(range(first, first + self.settings.texts))


class TaskSettings(BaseModel):
    """What may be set of the texts of some tasks, each by the name of a field of its class."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hops: Annotated[int, Field(ge=1, le=9)] = 1
    words: Annotated[int, Field(ge=3, le=len(THINGS))] = 12
    noise: Annotated[float, Field(ge=0, le=1)] = 0.2
    times: Annotated[int, Field(ge=2, le=100)] = 4


def _told_apart(words: Sequence[str]) -> tuple[dict[str, str], list[str], dict[str, int | float]]:
    """The settings that the words name, the words about those of extensions, and those of tasks."""
    said: dict[str, str] = {}
    of_extensions, of_tasks = [], []
    for word in words:
        name, _, value = word.partition("=")
        if name.startswith("extension."):
            of_extensions.append(word)
        elif name.startswith("task."):
            of_tasks.append(word.removeprefix("task."))
        elif name not in Settings.model_fields:
            raise ConfigError(f"{name} is not a setting: {_meant(name)}")
        elif not value:
            raise ConfigError(f"{name} has no value: write {name}=VALUE")
        else:
            _refuse_second(word, name, said)
            said[name] = value
    try:
        given = settings_of(TaskSettings, of_tasks, HELP)
    except ConfigError as error:
        raise ConfigError(f"task.{error}") from None
    return said, of_extensions, {name: getattr(given, name) for name in given.model_fields_set}


def _refuse_second(word: str, name: str, given: Mapping[str, str]) -> None:
    if given.get(name, word.partition("=")[2]) != word.partition("=")[2]:
        raise ConfigError(f"{name}={given[name]} and {word} set the same: leave one out")


def _meant(name: str) -> str:
    if command := closest(name, COMMANDS):
        return f"did you mean the command posbench pretrained {command}?"
    return known_names(Settings.model_fields, HELP, closest(name, Settings.model_fields))


def _recipe(path: Path) -> dict[str, Any]:
    """The settings in a file."""
    try:
        found: Any = loaded(read_text(path.resolve(), LARGEST))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(
            f"recipe={path} cannot be read ({reason(error)}): name a YAML file"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"recipe={path} is no mapping of settings: write NAME: VALUE")
    for name in found:
        if name not in Settings.model_fields or name == "recipe":
            raise ConfigError(f"recipe={path}: {name} is not a setting: {_meant(str(name))}")
    return found


def _protocol(said: dict[str, str], base: Settings, given: Settings) -> Name:
    """The name of the recipe, with what was said beside it."""
    usual, content = base.counted(), given.counted()
    changed = [name for name in content if name in said and content[name] != usual[name]]
    return Name(
        name=as_file_name(Path(said["recipe"]).stem if "recipe" in said else NAME),
        changed=tuple(as_text(f"{each}={content[each]}") for each in changed),
        hash=content_hash(content),
    )


def _listed(numbers: Sequence[float]) -> str:
    """Numbers as runs measure them, in order and each once, [1,1.5]; "" for none.

    They keep all their digits: of a multiple, the last may decide about a token.
    """
    shown = (str(each).removesuffix(".0") for each in sorted(set(numbers)))
    return f"[{','.join(shown)}]" if numbers else ""


def _repeatable(words: Sequence[str]) -> list[str]:
    """The words for a shell, but for where records go.

    Records are published, and folders of one machine mean nothing on another: what lies outside
    the working directory is named without its folder.
    """
    words = [word for word in words if not word.startswith("results_dir=")]
    return [shlex.quote(_without_folder(word)) for word in words]


def _without_folder(word: str) -> str:
    name, _, value = word.partition("=")
    path = Path(value).expanduser()
    if name not in FILES or not path.exists() or path.resolve().is_relative_to(Path.cwd()):
        return word
    return f"{name}={path.name}"


Worded = TypeVar("Worded", bound=BaseModel)


def settings_of(kind: type[Worded], words: Sequence[str], helped: str) -> Worded:
    """The words NAME=VALUE of another command as its settings; ConfigError names a wrong one."""
    given: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not value or name not in kind.model_fields:
            near = closest(name, kind.model_fields)
            raise ConfigError(
                f"{word}: {known_names(kind.model_fields, helped, near)}, as NAME=VALUE"
            )
        _refuse_second(word, name, given)
        given[name] = value
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in given:
            raise ConfigError(f"{name}= is missing: `{helped}` says what it is")
    try:
        return kind(**given)
    except ValidationError as error:
        got = str(error.errors(include_url=False)[0]["input"])
        thousands = re.fullmatch(r"(\d+)k", got, re.IGNORECASE)
        hint = f": write {1024 * int(thousands[1])}" if thousands else ""
        raise ConfigError(f"{setting_refused(error)}{hint}") from None


def node_at(name: str, train_positions: int, test_positions: int, *settings: str) -> dict[str, Any]:
    """The configuration of an extension of the suite with its settings at a trained length, and
    with those given as extension.NAME=VALUE.
    """
    mistakes.check_choice("extension", name, own_names("extension"))
    with composing():
        words = [f"extension={name}", *settings]
        mistakes.check(words)
        cfg = compose(*words).cfg()
        cfg.train_positions, cfg.test_positions = train_positions, test_positions
        node: Any = OmegaConf.to_container(cfg.extension, resolve=True)
    return dict(node)


def extension_at(name: str, train_positions: int, test_positions: int, *settings: str) -> Extension:
    """The extension of that configuration; ConfigError for one that trains."""
    return built_from(name, node_at(name, train_positions, test_positions, *settings))


def built_from(name: str, node: dict[str, Any]) -> Extension:
    """The extension of a configuration; ConfigError for one that trains."""
    with composing():
        found: Extension = build(node, "extension")
    if found.trains:
        raise ConfigError(
            f"extension={name} trains further, and a pretrained model is measured as it is: choose "
            "an extension without training"
        )
    return found
