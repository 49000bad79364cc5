"""The table of methods and what each is compared with, collected from the marks of the tests.

python tests/oracles.py            write tests/ORACLES.md
python tests/oracles.py --check    write nothing; fail if it is an older one

A mark is a word that a test awards itself. Where code can tell, it is held against what the test
does: who claims a library calls it, who claims a double loop has one. Exit status 1 where not.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # some tests import tests.mutants

import pytest
from loops import call

from posbench.config import command_lines

COMMAND = "python tests/oracles.py"
HERE = Path(__file__).parent
TABLE = HERE / "ORACLES.md"
HEAD = """# What each encoding and extension is compared with

Written by `python tests/oracles.py` from the marks `oracle(method, kind)` of the tests;
the number counts test cases.
The conformance suite runs on every encoding besides, and on every pair of an encoding and an
extension.
"""


class Marks:
    """A pytest plugin that only looks."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str]] = Counter()
        self.empty: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("oracle"):
                self.found[mark.args] += 1
                if not borne_out(item, *mark.args):
                    self.empty.add(f"{item.location[0]}: {item.location[2]} is no {mark.args[1]}")


def collected() -> Marks:
    marks = Marks()
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = pytest.main(["--collect-only", str(HERE)], plugins=[marks])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"pytest could not collect every test:\n{told.getvalue()[-2000:]}")
    return marks


MODULES = {
    "transformers": "transformers",
    "x-transformers": "x_transformers",
    "torch": "torch",
    "entmax": "entmax",
}


def borne_out(item: pytest.Item, method: str, kind: str) -> bool:
    """Whether the code of a test, with the helpers it uses, does what its mark says."""
    functions = [
        item.function,
        *getattr(item, "callspec", SimpleNamespace(params={})).params.values(),
    ]  # type: ignore[attr-defined]
    sources = code_of(function for function in functions if inspect.isfunction(function))
    kind, _, what = kind.partition(": ")
    if kind == "library":
        return any(re.search(rf"\b{MODULES[what.split()[0]]}\b", text) for text, _ in sources)
    if kind == "double loop":  # over pairs of tokens; of an extension, over frequencies or rows
        deep = 2 if (HERE.parent / "conf/encoding" / f"{method}.yaml").exists() else 1
        return max(loops(tree) for _, tree in sources) >= deep
    if kind == "published numbers":
        numbers = [node for _, tree in sources for node in ast.walk(tree) if number(node)]
        return len(numbers) >= 4 or any("json" in text for text, _ in sources)
    return True


def code_of(functions: Iterable[Callable[..., Any]]) -> list[tuple[str, ast.AST]]:
    """The text and tree of functions of the tests and of those that they call, and so on. That
    which makes the random inputs of all is not among them: it has a loop of its own.
    """
    left, seen = list(functions), {call: ("", ast.Module([], []))}
    while left:
        function = inspect.unwrap(left.pop())
        if function in seen or not (inspect.getsourcefile(function) or "").startswith(str(HERE)):
            continue
        text = textwrap.dedent(inspect.getsource(function))
        try:
            tree = ast.parse(text)
        except SyntaxError:  # a lambda in the middle of something else
            continue
        seen[function] = text, tree
        known = vars(sys.modules[function.__module__])
        used = (known.get(node.id) for node in ast.walk(tree) if isinstance(node, ast.Name))
        left += [each for each in used if inspect.isfunction(each) or inspect.isclass(each)]
    return list(seen.values())


def loops(node: ast.AST) -> int:
    """How deep loops stand inside one another."""
    own = len(getattr(node, "generators", [])) + isinstance(node, ast.For)
    return own + max(map(loops, ast.iter_child_nodes(node)), default=0)


def number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


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


def main() -> int:
    parser = command_lines.parser(COMMAND, "What each method is compared with.", check=True)
    chosen = parser.parse_args()
    marks = collected()
    if marks.empty:
        raise SystemExit("\n".join(sorted(marks.empty)))
    made = functools.partial(table, marks.found)
    return command_lines.write_page(TABLE, made, COMMAND, chosen.check, shown="tests/ORACLES.md")


if __name__ == "__main__":
    sys.exit(main())
