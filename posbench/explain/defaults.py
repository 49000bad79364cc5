"""`python -m posbench.catalogue.defaults`: conf/DEFAULTS.md, what is made of published settings.

    python -m posbench.catalogue.defaults            writes the page
    python -m posbench.catalogue.defaults --check    fails if the page is an older one

The rule, and the published values, stand in conf/defaults.yaml.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf

from posbench.config import commands
from posbench.config.resolvers import register
from posbench.showing.table import pipes

BOARD_POSITIONS = 40
"""The positions of the longest training sequence on the main board."""
NEAR = 0.01
"""How far apart two meanings may be that are the same: resolvers round."""
SIZES = ("model.", "extension.")
"""Interpolations of what is no setting of the file itself."""


@dataclass(frozen=True)
class Default:
    """One setting of one or more files, as conf/defaults.yaml has it."""

    of: tuple[str, ...]
    setting: str
    published: tuple[float, ...]
    at: tuple[int, ...]
    means: str
    source: str
    keeps: str | None = None
    unset: str | None = None
    exception: str | None = None

    def meaning(self, value: float, positions: float) -> float:
        """The meaning of the value in a training of so many positions."""
        assert self.keeps is not None, f"{self.setting} of {self.of} has nothing to keep"
        return calculated(self.keeps, value=value, L=positions)

    def published_meanings(self) -> tuple[float, ...]:
        """The meanings of all published values; none without a published value and its length."""
        if self.keeps is None or not self.at:
            return ()
        return tuple(map(self.meaning, self.published, self.at))

    def holds(self, file: str, positions: int) -> bool:
        """Whether the value of a file means at that length what was published, within rounding."""
        low, high = sorted(self._rounded(file, positions))
        between = sorted(self.meaning(value, positions) for value in (low, high))
        meant = self.published_meanings()
        wide = NEAR * max(map(abs, (*meant, *between)))
        return between[0] - wide <= max(meant) and min(meant) <= between[1] + wide

    def here(self, file: str, positions: int) -> float:
        """The value of a file, or what stands for it where it is left out."""
        value = settings(file, positions)[self.setting]
        if value is not None:
            return value
        assert self.unset is not None, f"{self.setting} of {file} is null: say for what in `unset`"
        return calculated(self.unset, L=positions)

    def _rounded(self, file: str, positions: int) -> tuple[float, float]:
        """Between what values the one of the file was, before it was rounded or kept within 1."""
        value, text = self.here(file, positions), str(written_settings(file)[self.setting])
        if text.startswith("${positions:"):
            return (1e-9 if value == 1 else value - 0.5), value + 0.5
        if text.startswith("${rate:") and value == 1:
            return value, 1e9
        if self.unset is not None and value == round(value):
            return value - 1, value + 1
        return value, value


# -- the files -------------------------------------------------------------------------------------


@functools.cache
def table() -> dict[str, Any]:
    return yaml.safe_load(_text("defaults.yaml"))


def defaults() -> list[Default]:
    found = []
    for entry in table()["scaled"]:
        published = listed(entry["published"])
        at = listed(entry["at"])
        at = at * len(published) if len(at) == 1 else at
        published = published * len(at) if len(published) == 1 and at else published
        rest = {name: value for name, value in entry.items() if name not in ("published", "at")}
        rest["of"] = tuple(entry["of"])
        found.append(Default(**rest, published=published, at=at))
    return found


def listed(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def is_other(file: str, setting: str) -> bool:
    """Whether a setting is listed as a number that no training length changes."""
    return any(
        setting in entry["settings"] and file in entry.get("of", [file])
        for entry in table()["others"]
    )


@functools.cache
def _text(path: str) -> str:
    return files("posbench.conf").joinpath(path).read_text(encoding="utf-8")


@functools.cache
def written_settings(file: str) -> dict[str, Any]:
    """The numeric settings of a YAML as it writes them, by name; those of `knobs` stand apart.

    A number, null, a list of numbers, or an interpolation of anything but a size of the model.
    """
    return dict(_numbers(yaml.safe_load(_text(f"{file}.yaml"))))


@functools.cache
def knobs(file: str) -> dict[str, Any]:
    return dict(_numbers(yaml.safe_load(_text(f"{file}.yaml")).get("knobs", {})))


def _numbers(content: Any) -> Iterator[tuple[str, Any]]:
    items = content.items() if isinstance(content, Mapping) else enumerate(content)
    for name, value in items:
        inside = value if isinstance(value, list) else []
        if name in ("defaults", "knobs"):
            continue
        if isinstance(value, Mapping) or any(isinstance(each, Mapping) for each in inside):
            yield from _numbers(value)
        elif _is_number(value) or (inside and all(map(_is_number, inside))):
            yield str(name), value


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith("${") and not value[2:].startswith(SIZES)
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def settings(file: str, positions: int) -> dict[str, Any]:
    """`written_settings` for a training of so many positions."""
    return resolved(written_settings(file), positions)


def resolved(written: Mapping[str, Any], positions: int) -> dict[str, Any]:
    """Interpolations worked out; tests are eight times as long as the training."""
    register()
    root = {"train_positions": positions, "test_positions": 8 * positions, "here": dict(written)}
    found: dict[str, Any] = OmegaConf.to_container(OmegaConf.create(root), resolve=True)["here"]  # type: ignore
    return found


def calculated(expression: str, **names: float) -> float:
    """The value of an arithmetic expression of conf/defaults.yaml."""
    known = {"log": math.log, "pi": math.pi, "ceil": math.ceil}
    return float(eval(expression, {"__builtins__": {}}, {**known, **names}))


# -- the page --------------------------------------------------------------------------------------


def page() -> str:
    lines = [
        "# What is made of published settings",
        "",
        "The rule: what a published setting means at its own training length, it means at ours. "
        "What that is, such as a share of the training length, is in the third column, with its "
        f"number as published and here, at the {BOARD_POSITIONS} positions that most tasks train "
        "with under `protocol=cpu`; other lengths have other values of the same meaning. Positions "
        "are whole: a length is rounded, none is scaled below 1 position, and no rate above 1 a "
        "position. Where ours means something else, the last column says why. The data stand in "
        "[defaults.yaml](defaults.yaml), and tests hold the settings to them.",
    ]
    for group in ("encoding", "extension"):
        lines += ["", f"## Settings of {group}s", ""]
        headings = ["setting", "published", "meaning", "here", "source", "exception"]
        cells = [_cells(each, mine) for each in defaults() for mine in _alike(each, group)]
        lines += pipes(headings, cells, "llllll")
    lines += ["", "## Fixed in the classes", ""]
    fixed = [
        [f"`{entry['of'].partition('/')[2]}`", entry["what"], entry["because"]]
        for entry in table()["fixed"]
    ]
    lines += pipes(["of", "published", "why it is not scaled"], fixed, "lll")
    lines += ["", "## Numbers that no training length changes", ""]
    others = [[_settings_of(entry), entry["because"]] for entry in table()["others"]]
    lines += pipes(["settings", "what they are"], others, "ll")
    lines += ["", "Generated by `python -m posbench.catalogue.defaults`; do not edit.", ""]
    return "\n".join(lines)


def _alike(each: Default, group: str) -> list[list[str]]:
    """The files of a group that have one value, together."""
    by_value: dict[float, list[str]] = {}
    for file in each.of:
        if file.startswith(f"{group}/"):
            by_value.setdefault(each.here(file, BOARD_POSITIONS), []).append(file)
    return list(by_value.values())


def _settings_of(entry: Mapping[str, Any]) -> str:
    names = ", ".join(f"`{name}`" for name in entry["settings"])
    where = ", ".join(f"`{each.partition('/')[2]}`" for each in entry.get("of", []))
    return f"{names} of {where}" if where else names


def _cells(each: Default, mine: Sequence[str]) -> list[str]:
    value = each.here(mine[0], BOARD_POSITIONS)
    published = " to ".join(_shown(x) for x in dict.fromkeys(each.published)) or "none"
    lengths = " to ".join(_shown(x) for x in dict.fromkeys(each.at))
    at = f" at {lengths}" if lengths else ""
    meant = " to ".join(dict.fromkeys(map(_shown, sorted(each.published_meanings()))))
    if each.keeps is not None:
        meant = f": {meant or '?'}, here {_shown(each.meaning(value, BOARD_POSITIONS))}"
    names = ", ".join(f"`{file.partition('/')[2]}`" for file in mine)
    source = re.sub(r"(?:arXiv )?(\d{4}\.\d{5})", r"[\1](https://arxiv.org/abs/\1)", each.source)
    return [
        f"`{each.setting}` of {names}",
        f"{published}{at}",
        f"{each.means}{meant}",
        _shown(value),
        source,
        each.exception or "",
    ]


def _shown(number: float) -> str:
    """Three digits, and whole numbers as they are."""
    return f"{number:,.0f}" if number == round(number) else f"{number:.3g}"


def main(arguments: list[str] | None = None) -> int:
    command = "python -m posbench.catalogue.defaults"
    chosen = commands.parser(
        command, "What is made of published settings, on a page.", check=True
    ).parse_args(arguments)
    path = Path(str(files("posbench.conf"))) / "DEFAULTS.md"
    return commands.write_page(path, page, command, chosen.check, shown="conf/DEFAULTS.md")


if __name__ == "__main__":
    sys.exit(main())
