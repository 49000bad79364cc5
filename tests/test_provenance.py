"""Hashes change when what they stand for does, and only then."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posbench import provenance
from posbench.provenance import content_hash, normalised, source_hash

SOURCE = '''"""Docstring of the module."""
# a comment

import math  # and another


class A:
    """Docstring
    over # two lines."""

    width: int = 3
    """What an attribute is for."""

    def f(self, x):
        """Docstring."""
        text = "# not a comment"  # a comment with "quotes"
        return f"""{x} # nor this""" if x else (lambda y: '#')(x)
'''

PLAIN = '''import math
class A:
    width: int = 3
    def f(self, x):
        text = "# not a comment"
        return f"""{x} # nor this""" if x else (lambda y: '#')(x)'''


def test_comments_docstrings_and_blank_lines_are_dropped_and_code_is_kept() -> None:
    assert normalised(SOURCE) == PLAIN
    assert normalised(PLAIN) == PLAIN


def test_a_comment_in_a_bracket_is_dropped_and_a_hash_in_a_string_of_several_lines_kept() -> None:
    source = 'x = [\n    1,  # one\n    # two\n    2,\n]\ny = """\n# kept\n"""\n'
    assert normalised(source) == 'x = [\n    1,\n    2,\n]\ny = """\n# kept\n"""'


def test_what_is_left_of_every_module_of_the_package_computes_the_same() -> None:
    """Dropping docstrings may leave a class or function without a body; nothing else may be
    lost.
    """

    def bare(source: str) -> str:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(body := getattr(node, "body", None), list):
                kept = [
                    c
                    for c in body
                    if not (isinstance(c, ast.Expr) and isinstance(c.value, ast.Constant))
                ]
                node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
        return ast.dump(tree)

    for path in Path(provenance.__file__).parent.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        try:
            ast.parse(normalised(source))
        except SyntaxError:  # a body was its docstring
            continue
        assert bare(normalised(source)) == bare(source), path.name


Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes modules of one's own, which the hash can find."""
    monkeypatch.syspath_prepend(tmp_path)

    def into(**modules: str) -> None:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        sys.path_importer_cache.clear()

    return into


def test_the_hash_of_source_changes_with_code_and_not_with_comments(write: Write) -> None:
    write(own_encoding="x = 1\n")
    first = source_hash("own_encoding")
    write(own_encoding='"""Now documented."""\n\nx = 1  # one\n')
    assert source_hash("own_encoding") == first
    write(own_encoding="x = 2\n")
    assert source_hash("own_encoding") != first


def test_the_hash_of_source_follows_imports_of_the_package_but_not_to_settings_and_sentences() -> (
    None
):
    found = _modules_hashed("posbench.training")
    assert {"posbench.training", "posbench.transformer", "posbench.attention"} <= found
    assert not found & {*provenance.NOT_COMPUTING, "posbench.leaderboard", "posbench.console"}


def test_the_hash_of_source_depends_on_each_module_it_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = source_hash("posbench.training")
    assert source_hash("posbench.training", "posbench.training") == first

    def changed(source: str) -> str:
        return normalised(source) + ("\nchanged = 1" if "def stream_seed" in source else "")

    monkeypatch.setattr(provenance, "normalised", changed)
    assert source_hash("posbench.training") != first


def _modules_hashed(module: str) -> set[str]:
    seen: set[str] = set()
    original = provenance.content_hash
    try:
        provenance.content_hash = lambda content: seen.update(content) or ""  # type: ignore[assignment, func-returns-value]
        source_hash(module)
    finally:
        provenance.content_hash = original
    return seen


def test_the_hash_of_content_does_not_depend_on_the_order_of_keys() -> None:
    assert content_hash({"a": 1, "b": {"c": [1, 2], "d": None}}) == content_hash(
        {"b": {"d": None, "c": [1, 2]}, "a": 1}
    )


@pytest.mark.parametrize(
    "other", [{"a": 2}, {"b": 1}, {"a": 1.5}, {"a": "1"}, {"a": [1]}, {"a": None}, {}]
)
def test_the_hash_of_content_changes_with_the_content(other: dict[str, object]) -> None:
    assert content_hash(other) != content_hash({"a": 1})


def test_the_hash_of_content_is_16_hexadecimal_digits_and_never_changes() -> None:
    assert content_hash({"b": [1, 2.5, None], "a": "é"}) == "fc10ba9755cfc69c"


def test_versions_name_python_and_every_package() -> None:
    assert set(provenance.versions()) == {"python", *provenance.PACKAGES}
