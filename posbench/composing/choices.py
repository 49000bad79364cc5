"""What `--help` says can be chosen: conf/config.yaml calls it as `${choices:}`."""

from __future__ import annotations

import textwrap

from posbench.composing.folders import GROUPS
from posbench.composing.legality import options
from posbench.composing.methods import methods

WIDTH = 100


def choices() -> str:
    """Every group with its options, the methods by encoding. Needs an initialised Hydra."""
    return "\n".join(
        f"{group}: {meaning}\n" + "".join(_lines(names) for names in _parts(group))
        for group, meaning in GROUPS.items()
    )


def _parts(group: str) -> list[list[str]]:
    names = options(group)
    if group != "method":
        return [names]
    extended: dict[str, list[str]] = {}
    for name, (encoding, _, _) in methods().items():
        if name != encoding:
            extended.setdefault(encoding, []).append(name)
    listed = {name for row in extended.values() for name in row}
    return [[name for name in names if name not in listed], *map(sorted, extended.values())]


def _lines(names: list[str]) -> str:
    text = ", ".join(names)
    lines = textwrap.wrap(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"
