"""Encodings and extensions for attention of your own: `from posbench import rope, yarn`.

    position = rope(num_heads=4, head_width=16, trained=64)
    out = position(q, k, v)                                 # [batch, heads, n, head width]
    longer = yarn().extend(position, tested=256)            # shares its weights

Every name of conf/encoding and conf/extension is a function that takes the settings of its YAML;
`help(posbench.rope)` lists them. The sizes of a model and the trained positions, from which some
settings follow, are given with them. Where an encoding and an extension share a name, the name
gives the encoding; `extension("sliding_window")` gives the extension. What a call takes and
returns, also with a cache, is in `posbench.position.Position`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter
from typing import Any, overload

import numpy as np
from omegaconf import OmegaConf
from torch import nn

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, known_names
from posbench.config.building import build, class_of_run
from posbench.config.compose import hydra_of_its_own
from posbench.config.folders import own_names
from posbench.config.numbers import refuse_unbounded
from posbench.config.options import content
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension, Searched
from posbench.core.settings import OF_METHODS
from posbench.position import Position, Sizes, count

OF_SIZES = ("${model.num_heads}", "${model.head_width}", "${model.width}")
"""What a function has parameters for, whatever its YAML calls it."""


SOME_LENGTHS = 1024, 2048
"""What an extension declares is the same at any trained and tested length."""


class UnboundExtension:
    """An extension that has yet to be applied to a trained position encoding."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, settings

    def __repr__(self) -> str:
        return (
            f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.settings.items())})"
        )

    @property
    def trains(self) -> bool:
        return self._made(*SOME_LENGTHS).trains

    @property
    def changes(self) -> bool:
        return self._made(*SOME_LENGTHS).changes

    @property
    def is_identity(self) -> bool:
        return self._made(*SOME_LENGTHS).is_identity

    def _made(self, train_positions: int, test_positions: int) -> Extension:
        sizes = {"train_positions": train_positions, "test_positions": test_positions}
        made: Extension = _built("extension", self.name, self.settings, sizes)
        if isinstance(made, Searched):
            raise ConfigError(
                f"{self.name} searches for its settings with the tests of a task, which are not "
                f"here: take {self.name.removesuffix('_tuned').removesuffix('_search')} with "
                "settings of yours"
            )
        return made

    @overload
    def extend(self, position: Position, tested: int) -> Position: ...

    @overload
    def extend(self, position: EncodingStack, tested: int, longest: int) -> EncodingStack: ...

    def extend(
        self, position: Position | EncodingStack, tested: int, longest: int | None = None
    ) -> Position | EncodingStack:
        """The same weights for sequences of `tested` positions.

        What an extension trains besides is left to the caller: `yarn_fine_tuned` gives the
        encoding that the further training has.

        The layers of a mounted model are extended as by any extension of the suite: from their
        `tested` trained positions to `longest`.

        Raises:
            IllegalExtension: if the encoding lacks what the extension changes
            ConfigError: if it is no encoding of this module, `tested` is no count, or the extension
                is made by searching or training, and not by a change
        """
        if isinstance(position, EncodingStack):
            length = tested if longest is None else longest
            return self._made(tested, length).extend(position, tested, length)
        if not isinstance(position, Position):
            raise ConfigError(_no_position(self.name, position))
        tested = count("tested", tested)
        if position.trained < 2:
            raise ConfigError(
                f"{self.name} extends what was trained on 2 positions or more, and this was on "
                f"{position.trained}: make it with a larger trained"
            )
        try:
            return position.with_extension(self._made(position.trained, tested), tested, self.name)
        except PosbenchError:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ConfigError(f"{self} does not fit: {error}: correct its settings") from error


def _no_position(name: str, given: object) -> str:
    inside = given.named_modules() if isinstance(given, nn.Module) else ()
    held = next((f"MODULE.{path}" for path, each in inside if isinstance(each, Position)), None)
    hint = f": give each of those it holds, as {held}" if held else ""
    return (
        f"{name}().extend takes what a call such as posbench.rope(...) gives, and got a "
        f"{type(given).__name__}{hint}"
    )


@functools.cache
def encoding(name: str) -> Callable[..., Position]:
    """The function behind `from posbench import NAME`, of an encoding."""
    content = _content("encoding", name)

    def position(*args: Any, **given: Any) -> Position:
        settings = _bound(position, args, given)
        sizes = Sizes(**{each.name: settings.pop(each.name, None) for each in fields(Sizes)})
        if "layers" in content:
            layers = ", ".join(each["_target_"].split(".")[-2] for each in content["layers"])
            raise ConfigError(
                f"{name} is a pattern of unlike layers ({layers}), and a position is one layer: "
                f"make one of posbench for each, with the settings of conf/encoding/{name}.yaml"
            )
        model = {
            "num_heads": sizes.num_heads,
            "head_width": sizes.head_width,
            "width": sizes.model_width,
            "embedding_std": 1.0,
            "num_layers": 1,
            **OF_METHODS,
        }
        known = {"train_positions": sizes.trained, "test_positions": sizes.longest}
        return Position(_built("encoding", name, settings, {"model": model, **known}), sizes)

    parameters = [
        Parameter(each.name, Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for each in fields(Sizes)
        for default in [Parameter.empty if each.default is not None else None]
    ]
    return _described(position, name, parameters, content, Position)


@functools.cache
def extension(name: str) -> Callable[..., UnboundExtension]:
    """The function behind `from posbench import NAME`, of an extension."""

    def unbound(*args: Any, **given: Any) -> UnboundExtension:
        return UnboundExtension(name, _bound(unbound, args, given))

    return _described(unbound, name, [], _content("extension", name), UnboundExtension)


def named(name: str) -> Callable[..., Any]:
    """What `posbench.NAME` is, for a name that one of the groups has."""
    return (encoding if name in own_names("encoding") else extension)(name)


ARGUMENTS = """

Args:
    num_heads: heads of queries
    head_width: channels of a head
    trained: positions of the longest training sequence
    longest: of the longest test; 8 times `trained`, if it is left out
    num_kv_heads: heads of keys and values; any that divides num_heads, if it is left out
    model_width: channels of x; num_heads * head_width, if it is left out

All others are settings of the encoding."""
"""What `help` says of the arguments that all encodings have, see `posbench.position.Sizes`."""


class Written(str):
    """A default as the YAML has it, where it follows from sizes or is a whole encoding."""

    __repr__ = str.__str__


def _described(
    function: Callable[..., Any],
    name: str,
    parameters: list[Parameter],
    content: Mapping[str, Any],
    returned: type,
) -> Callable[..., Any]:
    """The function with the name, signature and documentation that its YAML gives it."""
    pattern = parameters and "layers" in content
    settings = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=_default(value))
        for key, value in content.items()
        if not key.startswith("_") and value not in OF_SIZES and not pattern
    ]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "posbench"
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*parameters, *settings], return_annotation=returned
    )
    target = content.get("_target_")
    said = inspect.getdoc(class_of_run(target)) if target else _of_pattern(name)
    function.__doc__ = f"{said}{ARGUMENTS if parameters else ''}"
    return function


def _of_pattern(name: str) -> str:
    return (
        f"The pattern {name} of unlike layers, see conf/encoding/{name}.yaml. A call refuses it, "
        "for a position is one layer."
    )


def _default(value: Any) -> Any:
    if isinstance(value, dict):
        return Written(f"<{str(value.get('_target_', '...')).rpartition('.')[2]}>")
    return Written(value) if isinstance(value, str) and "${" in value else value


def _bound(function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name; ConfigError for what the function does not take, or lacks."""
    name, signature = function.__name__, inspect.signature(function)
    for unknown in sorted(given.keys() - signature.parameters):
        keywords = list(signature.parameters)
        if not keywords:
            raise ConfigError(f"{name} has no setting {unknown}: it takes none")
        meant = known_names(keywords, f"help(posbench.{name})", closest(unknown, keywords))
        raise ConfigError(f"{name} has no setting {unknown}: {meant}")
    try:
        return dict(signature.bind(*args, **given).arguments)
    except TypeError as error:
        required = [
            each.name for each in signature.parameters.values() if each.default is Parameter.empty
        ]
        call = f"{name}({', '.join([*required, 'SETTING=...'])})"
        raise ConfigError(f"{name}: {error}: write {call}") from None


def _built(group: str, name: str, settings: Mapping[str, Any], sizes: dict[str, Any]) -> Any:
    content = OmegaConf.create({**sizes, group: _content(group, name)})
    for key, value in settings.items():
        content[group][key] = _setting(group, key, value, content[group].get(key))
    refuse_unbounded(settings)
    plain: Any = OmegaConf.to_container(content, resolve=True)
    return build(plain[group], group)


def _setting(group: str, key: str, value: Any, written: Any) -> Any:
    """A setting as a YAML could have it; the name of a whole encoding or extension is its YAML."""
    if isinstance(value, np.generic):
        value = value.item()
    if OmegaConf.is_dict(written) and "_target_" in written:
        found = _content(group, value) if isinstance(value, str) else value
        if not isinstance(found, dict) or "_target_" not in found:
            raise ConfigError(
                f"{key} is the name of an {group} that is one layer, as {key}="
                f"{'yarn' if group == 'extension' else 'rope'!r}, got "
                + (repr(value) if isinstance(value, str | dict | None) else type(value).__name__)
            )
        return found
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key} must be a finite number, got {value}")
    if isinstance(value, str) and "${" in value:
        raise ConfigError(f"{key} must be a value, got {value!r}")
    if not isinstance(value, int | float | str | bool | list | tuple | dict | None):
        raise ConfigError(f"{key} must be a number, a text or a list, got a {type(value).__name__}")
    return list(value) if isinstance(value, tuple) else value


@functools.cache
def _content(group: str, name: str) -> dict[str, Any]:
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"{group} must be a name, such as those in conf/{group}, got {name!r}")
    with hydra_of_its_own():
        return content(group, name)
