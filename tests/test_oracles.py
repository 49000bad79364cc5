"""Every encoding is compared with something that does not share its code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from offered import CONF
from oracles import HERE, TABLE, borne_out

from posbench.config.folders import own_names
from tests.mutants.__main__ import mutants, results

INDEPENDENT = ("double loop", "library", "distribution", "enumeration", "published numbers")


def is_own(name: str) -> bool:
    """Whether an encoding is more than another one with other settings, as t5_published is."""
    target = (yaml.safe_load((CONF / f"encoding/{name}.yaml").read_text("utf-8")) or {}).get(
        "_target_", ""
    )
    module = target.split(".")[-2] if target else name
    return module == name or module not in own_names("encoding")


OWN = [name for name in own_names("encoding") if is_own(name)]


def rows() -> dict[str, str]:
    return dict(re.findall(r"^\| (\w+) \| (.*) \|$", TABLE.read_text("utf-8"), re.M))


@pytest.mark.parametrize("name", OWN)
def test_every_encoding_has_an_independent_oracle(name: str) -> None:
    assert any(kind in rows()[name] for kind in INDEPENDENT), f"{name}: {rows()[name] or 'nothing'}"


@pytest.mark.slow
def test_the_table_is_that_of_the_marks_and_they_are_borne_out_by_the_code() -> None:
    command = [sys.executable, HERE / "oracles.py", "--check"]
    # A file of tests that cannot be collected is passed over without -x.
    first = {**os.environ, "PYTEST_ADDOPTS": "-x"}
    done = subprocess.run(command, capture_output=True, text=True, env=first)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", OWN)
def test_every_encoding_has_three_mutants(name: str) -> None:
    mine = [mutant for mutant in mutants() if mutant["method"] == name]
    assert len(mine) >= 3, f"{name} has {len(mine)} mutants: write more in tests/mutants/"


def pairs(n: int) -> list[int]:
    return [i - j for i in range(n) for j in range(i + 1)]


def by_pairs() -> None:
    assert len(pairs(3)) == 6


def by_rows() -> None:
    assert [row * 2 for row in range(3)] == [0, 2, 4]


def with_a_library() -> None:
    from transformers import PretrainedConfig

    assert PretrainedConfig


@pytest.mark.parametrize(
    ("test", "method", "kind", "said"),
    [
        (by_pairs, "rope", "double loop", True),
        (by_rows, "rope", "double loop", False),
        (by_rows, "ntk", "double loop", True),  # over frequencies
        (with_a_library, "rope", "library: transformers Llama", True),
        (with_a_library, "rope", "library: x-transformers", False),
        (by_pairs, "rope", "library: transformers Llama", False),
        (by_rows, "rope", "published numbers", True),
        (with_a_library, "rope", "published numbers", False),
    ],
)
def test_a_word_that_the_code_does_not_bear_out_is_noticed(
    test: Callable[[], None], method: str, kind: str, said: bool
) -> None:
    item: Any = SimpleNamespace(function=test)
    assert borne_out(item, method, kind) == said


def test_no_mutant_is_known_to_survive() -> None:
    """As `python -m tests.mutants --write` has found; those of this change are tried by .ci/run."""
    verdicts = [verdict for *_, verdict in results()]
    assert len(verdicts) > 500
    assert all(verdict == "caught" or verdict.startswith("equivalent: ") for verdict in verdicts)
