"""The table of faults: what the tests do to runs and sweeps, and what came of it.

python tests/faults.py --write          run the tests marked `fault`, write tests/FAULTS.md
python tests/faults.py --write -k disk  run some of them; the rows of the others stay
python tests/faults.py --check          is every mark in the table, and was nothing lost?

A mark `fault(what, times)` says what is done in one test case, and how often. It was survived if
the test passes, and every such test asks for the same: that records are those of an undisturbed
run, none lost and none twice, or that a sentence says what is wrong and no half of a file stays.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = HERE / "FAULTS.md"
HEAD = """# What was done to runs and sweeps, and what was lost

Written by `python tests/faults.py --write`, which runs the tests marked `fault`. A fault is
survived if the records are those of an undisturbed run, none lost and none twice; or, where there
is to be none, if a sentence says what is wrong and no half of a file stays. On which engines, and
what else was tried on them, is in tests/ENGINES.md.

| fault | tried | survived | lost | remark |
| --- | ---: | ---: | ---: | --- |
"""


@dataclass
class Fault:
    """What is known of one kind of fault."""

    marked: int = 0  # how often tests try it
    ends: Counter[str] = field(default_factory=Counter)  # outcome -> how often
    reasons: set[str] = field(default_factory=set)  # of those not tried here

    def row(self, what: str) -> str:
        survived, lost = self.ends["passed"], self.ends["failed"]
        reason = "; ".join(sorted(self.reasons))
        left = f"not tried here: {reason}" if reason else ""
        return f"| {what} | {survived + lost} | {survived} | {lost} | {left} |"


class Faults:
    """A pytest plugin that takes the marked tests alone, and notes what comes of them."""

    def __init__(self) -> None:
        self.found: dict[str, Fault] = defaultdict(Fault)
        self.of: dict[str, tuple[str, int]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.get_closest_marker("fault")]
        for item in items:
            mark = item.get_closest_marker("fault")
            assert mark is not None
            what, times = str(mark.args[0]), int(mark.kwargs.get("times", 1))
            self.of[item.nodeid] = what, times
            self.found[what].marked += times

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        what, times = self.of[report.nodeid]
        if report.when == "call" or report.outcome != "passed":
            self.found[what].ends[report.outcome] += times
        if report.skipped and isinstance(report.longrepr, tuple):
            self.found[what].reasons.add(report.longrepr[2].removeprefix("Skipped: "))


def files() -> list[str]:
    return [
        str(path) for path in sorted(HERE.glob("test_*.py")) if "mark.fault(" in path.read_text()
    ]


def collected() -> dict[str, Fault]:
    """The faults by their marks; nothing is run."""
    faults = Faults()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", *files()], plugins=[faults])
    return faults.found


def rows(text: str) -> dict[str, tuple[str, str, int, int]]:
    """By fault: the row, what it says is left out, and how often it was tried and lost."""
    found = re.findall(r"^(\| ([^|]+?) \| (\d+) \| \d+ \| (\d+) \| ([^|]*?) ?\|)$", text, re.M)
    return {what: (row, left, int(tried), int(lost)) for row, what, tried, lost, left in found}


def wrong() -> Iterable[str]:
    """What the table says otherwise than the marks, and what it says was lost."""
    marks, listed = collected(), rows(TABLE.read_text("utf-8"))
    for what in marks.keys() ^ listed.keys():
        yield f"{what}: " + ("not in the table" if what in marks else "no test tries it")
    for what in marks.keys() & listed.keys():
        _, left, tried, lost = listed[what]
        if tried != marks[what].marked and not left:
            yield f"{what}: the table says {tried}, and tests try it {marks[what].marked} times"
        if lost:
            yield f"{what}: {lost} lost"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("-k", metavar="EXPRESSION", help="of pytest: some of the tests")
    chosen = parser.parse_args()
    if chosen.check:
        if found := sorted(wrong()):
            raise SystemExit("\n".join([*found, "python tests/faults.py --write"]))
        return
    faults = Faults()
    pytest.main(["-q", *(["-k", chosen.k] if chosen.k else []), *files()], plugins=[faults])
    made = {what: fault.row(what) for what, fault in faults.found.items() if fault.ends}
    if chosen.write:
        marks = collected()
        before = rows(TABLE.read_text("utf-8")) if TABLE.exists() else {}
        kept = {what: row for what, (row, *_) in before.items() if what in marks}
        known = kept | made
        unknown = Fault(reasons={"left out when this was written"})
        made = {what: known.get(what) or unknown.row(what) for what in marks}
        TABLE.write_text(HEAD + "\n".join(made.values()) + "\n", "utf-8")
    print("\n".join(made.values()))


if __name__ == "__main__":
    main()
