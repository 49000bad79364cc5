"""The table of methods and what each is compared with, collected from the marks of the tests.

python tests/oracles.py            print it
python tests/oracles.py --write    write tests/ORACLES.md, which a test holds against the marks
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = HERE / "ORACLES.md"
HEAD = """# What each encoding and extension is compared with

Written by `python tests/oracles.py --write` from the marks `oracle(method, kind)` of the tests;
the number counts test cases.
The conformance suite runs on every encoding besides, and on every pair of encoding and extension.
"""


class Marks:
    """A pytest plugin that only looks."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str]] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("oracle"):
                self.found[mark.args] += 1


def collected() -> Counter[tuple[str, str]]:
    marks = Marks()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", str(HERE)], plugins=[marks])
    return marks.found


def table(found: Counter[tuple[str, str]]) -> str:
    parts = [HEAD]
    for group in ("encoding", "extension"):
        methods: dict[str, list[str]] = {
            path.stem: [] for path in sorted((HERE.parent / "conf" / group).glob("*.yaml"))
        }
        for (method, kind), count in sorted(found.items()):
            if method in methods:
                methods[method].append(f"{kind} ({count})")
        rows = "".join(f"| {method} | {'; '.join(kinds)} |\n" for method, kinds in methods.items())
        parts.append(f"\n| {group} | oracle |\n| --- | --- |\n{rows}")
    return "".join(parts)


if __name__ == "__main__":
    text = table(collected())
    if "--write" in sys.argv:
        TABLE.write_text(text, encoding="utf-8")
    print(text)
