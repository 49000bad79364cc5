"""Every encoding is compared with something that does not share its code."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml
from conftest import names
from oracles import HERE, TABLE

from tests.mutants.__main__ import occurrences

INDEPENDENT = ("double loop", "library", "distribution", "enumeration", "published numbers")


def rows() -> dict[str, str]:
    return dict(re.findall(r"^\| (\w+) \| (.*) \|$", TABLE.read_text("utf-8"), re.M))


@pytest.mark.parametrize("name", names("encoding"))
def test_every_encoding_has_an_independent_oracle(name: str) -> None:
    assert any(kind in rows()[name] for kind in INDEPENDENT), f"{name}: {rows()[name] or 'nothing'}"


@pytest.mark.slow
def test_the_table_is_that_of_the_marks() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "oracles.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == TABLE.read_text("utf-8").strip(), (
        "python tests/oracles.py --write"
    )


@pytest.mark.parametrize("name", names("encoding"))
def test_every_encoding_has_three_mutants(name: str) -> None:
    found = [
        m
        for path in (HERE / "mutants").glob("*.yaml")
        for m in yaml.safe_load(path.read_text("utf-8"))
    ]
    mine = [m for m in found if m["method"] == name]
    assert len(mine) >= 3, f"{name} has {len(mine)} mutants: write more in tests/mutants/"
    for mutant in mine:
        text = (HERE.parent / mutant["path"]).read_text("utf-8")
        assert len(occurrences(mutant["old"], text)) == 1 and mutant["old"] != mutant["new"], mutant
