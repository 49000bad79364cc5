"""What posbench offers of a config group, as parameters of tests."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from posbench.config import board as definition
from posbench.config.folders import own_names
from posbench.config.methods import methods

CONF = Path(__file__).parents[2] / "conf"

EXEMPLARY = {
    "encoding": {
        *(
            "nope",
            "learned",
            "sinusoidal",
            "alibi",
            "t5",
            "fire",
            "shaw",
            "deberta",
            "rope",
            "xpos",
        ),
        *("rope_short_base", "cope", "fox", "path", "ssmax", "random_positions", "rope_nope"),
        "stick_breaking",
    },
    "extension": {
        *("direct", "pi", "yarn", "self_extend", "dca", "log_n", "sliding_window", "both"),
        *("yarn_tuned", "drope", "ceiling"),
    },
}
"""One of each way in which positions enter attention, and in which they are extended."""


@functools.cache
def listed() -> dict[str, set[str]]:
    """What some board lists, by its group."""
    rows = [part for name in definition.names() for part in definition.load(name).parts.values()]
    chosen = [methods()[name] for part in rows for name in part.methods]
    return {
        "encoding": {each for part in rows for each in part.encodings}
        | {each.encoding for each in chosen},
        "extension": {each for part in rows for each in part.extensions}
        | {each.extension for each in chosen},
    }


def thinned(group: str) -> list[object]:
    """own_names(group) as parameters, slow but for those that stand for others.

    What no board lists yet, as it is new, is fast too.
    """

    def is_fast(name: str) -> bool:
        if group != "method":
            return name in EXEMPLARY[group] or name not in listed()[group]
        row = methods()[name]
        pair = {"encoding": row.encoding, "extension": row.extension}
        if any(each not in listed()[kind] for kind, each in pair.items()):
            return True
        return all(each in EXEMPLARY[kind] for kind, each in pair.items())

    return [
        name if is_fast(name) else pytest.param(name, marks=pytest.mark.slow)
        for name in own_names(group)
    ]
