"""What `--help` says can be chosen: conf/config.yaml calls it as `${choices:}`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from posbench.composing.families import headed
from posbench.composing.folders import GROUPS
from posbench.composing.methods import methods
from posbench.composing.options import options

WIDTH = 100


def choices() -> str:
    """Every group with its options, the methods by encoding. Needs an initialised Hydra."""
    return "\n".join(
        f"{group}: {meaning}\n" + "".join(_lines(names) for names in _parts(group))
        for group, meaning in GROUPS.items()
    )


FAMILIES = ("encoding", "extension", "task")
"""Groups that are shown by family, as conf/README.md has them."""


def _parts(group: str) -> list[list[str]]:
    names = options(group)
    if group in FAMILIES:
        return list(_families(group, names))
    if group != "method":
        return [names]
    extended: dict[str, list[str]] = {}
    for name, (encoding, _, _) in methods().items():
        if name != encoding:
            extended.setdefault(encoding, []).append(name)
    listed = {name for row in extended.values() for name in row}
    return [[name for name in names if name not in listed], *map(sorted, extended.values())]


def _families(group: str, names: Sequence[str]) -> Iterator[list[str]]:
    """The names of each family after the family's own, in brackets."""
    found = headed(group)
    own = sorted(set(names).difference(*found.values()))
    for family, known in (found | {"your own": own}).items():
        if known:
            yield [f"[{family}]", *known]


def _lines(names: list[str]) -> str:
    family = f"{names[0]} " if names[0].startswith("[") else ""
    text = family + ", ".join(names[1:] if family else names)
    lines = textwrap.wrap(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"
