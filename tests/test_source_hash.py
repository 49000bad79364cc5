"""The hash of source changes when what is computed does, and only then."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posbench.config import source_hash as hashing
from posbench.config.modules import source_of
from posbench.config.source_hash import canonical, located, source_hash

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes modules of one's own, which the hash can find; `a__b` is a module b in a folder a."""
    monkeypatch.syspath_prepend(tmp_path)

    def into(**modules: str) -> None:
        for name, source in modules.items():
            path = tmp_path / f"{name.replace('__', '/', 1)}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        sys.path_importer_cache.clear()

    return into


LAID_OUT = '''"""Docstring of the module."""
# a comment

import math  # and another


class Own:
    """Docstring
    over # two lines."""

    width: int = 3
    """What an attribute is for."""

    def f(self, x: float) -> str:
        """Docstring."""
        if x < 0:
            raise ValueError(f"x must not be negative, got {x}")
        return g(
            math.sqrt(x),
            "one text",
        )


def g(x, text):
    return text * int(x)
'''
OTHERWISE = """import math
def g(x: int, text: str) -> object: return (text * int(x))
class Own:
    width: int = 3
    def f(self, x):
        if x < 0: raise ValueError("no")
        return g(math.sqrt(x), "one"
            " text")
"""


def test_layout_docstrings_annotations_and_sentences_of_errors_do_not_count(write: Write) -> None:
    write(own_a=LAID_OUT, own_b=OTHERWISE)
    assert source_hash("own_a.Own") == source_hash("own_b.Own")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width: int = 3", "width: int = 4"),
        ("x < 0", "x <= 0"),
        ("raise ValueError", "raise TypeError"),
        ('"one text"', '"one  text"'),
        ("text * int(x)", "int(x) * text"),
        ("math.sqrt(x)", "math.cbrt(x)"),
        ("import math  # and another", "import cmath as math"),
        ("class Own:", "class Own(dict):"),
    ],
)
def test_all_that_computes_counts(write: Write, old: str, new: str) -> None:
    assert LAID_OUT.count(old) == 1
    write(own_a=LAID_OUT, own_b=LAID_OUT.replace(old, new))
    assert source_hash("own_a.Own") != source_hash("own_b.Own")


def test_a_class_that_moves_to_another_file_keeps_its_hash(write: Write) -> None:
    """Also where what it needs stays behind, is imported under its name, or by its module."""
    helper = "def helper(x):\n    return x + ONE\n\n\nONE = 1\n"
    own = "class Own:\n    def f(self, x):\n        return helper(x)\n"
    write(
        own_together=helper + own + "\n\nclass Other:\n    pass\n",
        own_helper=helper,
        own_alone="from own_helper import helper\n\n\n" + own,
        own_through="from own_alone import helper\n\n\n" + own,
    )
    assert source_hash("own_together.Own") == source_hash("own_alone.Own")
    assert source_hash("own_together.Own") == source_hash("own_through.Own")
    write(own_helper=helper.replace("ONE = 1", "ONE = 2"))
    assert source_hash("own_together.Own") != source_hash("own_alone.Own")
    assert source_hash("own_together.Own") != source_hash("own_through.Own")


@pytest.mark.parametrize(
    "source",
    [
        "import own_helper\n\n\nclass Own:\n    x = own_helper.f(1)\n",
        "import own_helper as h\n\n\nclass Own:\n    x = h.f(1)\n",
        "import own_helper\n\n\nclass Own:\n    x = getattr(own_helper, 'f')(1)\n",
        "from own_helper import f as g\n\n\nclass Own:\n    x = g(1)\n",
        "from own_helper import f\nf(0)\n\n\nclass Own:\n    pass\n",
    ],
)
def test_a_change_of_what_is_imported_is_seen(write: Write, source: str) -> None:
    write(own_helper="def f(x):\n    return x\n", own_encoding=source)
    first = source_hash("own_encoding.Own")
    write(own_helper="def f(x):\n    return 2 * x\n")
    assert source_hash("own_encoding.Own") != first


USES = "\n\nclass Own:\n    x = {}(1)\n"
IN_A_FUNCTION = "class Own:\n    def g(self, x):\n        {}\n        return {}(x)\n"
IMPORTED = {
    "a module of a package": "import own.helper" + USES.format("own.helper.f"),
    "under another name": "import own.helper as h" + USES.format("h.f"),
    "as a value": "import own.helper" + USES.format("getattr(own.helper, 'f')"),
    "used and as a value": "import own.helper as h" + USES.format("h.g, getattr(h, 'f')"),
    "all names": "from own.helper import *" + USES.format("f"),
    "all names of two": "from own.helper import *\nfrom own.other import *" + USES.format("f"),
    "in a function": IN_A_FUNCTION.format("from own.helper import f", "f"),
    "in a function, a module": IN_A_FUNCTION.format("import own.helper", "own.helper.f"),
    "in a class": "class Own:\n    from own.helper import f\n    x = f(1)\n",
    "if it can be": "try:\n    from own.helper import f\nexcept ImportError:\n    f = abs"
    + USES.format("f"),
    "unless it cannot be": "f = abs\ntry:\n    from own.helper import f\nexcept ImportError:\n"
    "    pass" + USES.format("f"),
    "by condition": "import sys\nif sys.argv:\n    import own.helper as h\nelse:\n"
    "    import own.other as h" + USES.format("h.f"),
    "through one that may": "from own_between import f" + USES.format("f"),
}
BETWEEN = "try:\n    from own.helper import f\nexcept ImportError:\n    from own.other import f\n"
HELPER = "def f(x):\n    return {}\n\n\ndef g(x):\n    return x\n"


@pytest.mark.parametrize("source", IMPORTED.values(), ids=IMPORTED)
@pytest.mark.parametrize("package", [{"own____init__": ""}, {}], ids=["package", "folder"])
def test_a_change_of_a_helper_is_seen_however_it_is_imported(
    write: Write, source: str, package: dict[str, str]
) -> None:
    """The folder of the helper has an __init__.py, or none."""
    write(own_encoding=source, own_between=BETWEEN, own__other=HELPER.format("-x"), **package)
    assert_seen(write, "own_encoding.Own")


@pytest.mark.parametrize("package", ["from .helper import f", "from . import helper\nf = helper.f"])
@pytest.mark.parametrize(
    "source", ["import own" + USES.format("own.f"), "from own import f" + USES.format("f")]
)
def test_a_package_hands_on_what_it_imports(write: Write, source: str, package: str) -> None:
    write(own_encoding=source, own____init__=package)
    assert_seen(write, "own_encoding.Own")


def assert_seen(write: Write, root: str) -> None:
    """The hash changes with the helper, and with it only."""
    found = []
    for result in ("x", "2 * x", "x"):
        write(own__helper=HELPER.format(result))
        found.append(source_hash(root))
    assert found[0] == found[2] != found[1]


def test_what_is_defined_inside_a_statement_counts(write: Write) -> None:
    """A class may be found only under a condition, and so may what it needs."""
    source = "try:\n    import nowhere\nexcept ImportError:\n    class Own:\n        x = {}\n"
    write(
        own_encoding=source.format(1), own_user="from own_encoding import Own" + USES.format("Own")
    )
    first = source_hash("own_encoding.Own"), source_hash("own_user.Own")
    write(own_encoding=source.format(2))
    second = source_hash("own_encoding.Own"), source_hash("own_user.Own")
    assert first[0] != second[0] and first[1] != second[1]


def test_from_where_all_names_of_an_installed_module_are_imported_counts(write: Write) -> None:
    write(
        own_a="from math import *" + USES.format("sqrt"),
        own_b="from cmath import *" + USES.format("sqrt"),
    )
    assert source_hash("own_a.Own") != source_hash("own_b.Own")


def test_modules_that_import_each_other_end(write: Write) -> None:
    write(
        own_a="from own_b import *\nfrom own_b import f as g" + USES.format("f, g"),
        own_b="from own_a import *\nfrom own_a import g as f\nimport own_a\n",
    )
    assert source_hash("own_a.Own") != source_hash("own_b")


def test_which_of_two_functions_a_name_stands_for_counts(write: Write) -> None:
    """Both are used in both modules; only what each name means differs."""
    own = "class Own:\n    def f(self, x):\n        return f(x) - g(x)\n"
    write(
        own_one="def h(x):\n    return x\n",
        own_two="def h(x):\n    return 2 * x\n",
        own_a="from own_one import h as f\nfrom own_two import h as g\n\n\n" + own,
        own_b="from own_one import h as g\nfrom own_two import h as f\n\n\n" + own,
    )
    assert source_hash("own_a.Own") != source_hash("own_b.Own")


def test_what_a_class_does_not_use_does_not_count(write: Write) -> None:
    source = "class Own:\n    x = 1\n\n\nclass Other:\n    x = 1\n"
    write(own_encoding=source)
    first, whole = source_hash("own_encoding.Own"), source_hash("own_encoding")
    write(own_encoding=source.replace("Other:\n    x = 1", "Other:\n    x = 2"))
    assert source_hash("own_encoding.Own") == first
    assert source_hash("own_encoding") != whole


def test_circles_of_names_end(write: Write) -> None:
    write(own_encoding="def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x and f(x - 1)\n")
    assert source_hash("own_encoding.f") == source_hash("own_encoding")


def test_a_class_that_is_not_at_hand_counts_by_its_name() -> None:
    assert source_hash("nowhere.A") != source_hash("nowhere.B") != source_hash()


def test_training_is_followed_into_the_model_but_not_to_settings_and_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: set[tuple[str, str]] = set()
    uses = hashing._uses

    def noted(definition: hashing.Definition) -> object:
        seen.add((definition.module, definition.name))
        return uses(definition)

    monkeypatch.setattr(hashing, "_uses", noted)
    source_hash("posbench.core.training", "posbench.tasks.passkey.Passkey")
    assert {
        ("posbench.core.training", "Training"),
        ("posbench.core.transformer", "Block"),
        ("posbench.core.attention", "Attention"),
        ("posbench.core.scoring", "loss"),
        ("posbench.core.streams", "stream_seed"),
        ("posbench.tasks.passkey", "Passkey"),
        ("posbench.core.task", "assemble"),
    } <= seen
    modules = {module for module, _ in seen}
    assert not modules & {*hashing.NOT_COMPUTING, "posbench.core.coverage", "posbench.results"}


@pytest.mark.slow
def test_a_class_is_found_in_another_file_of_its_package() -> None:
    assert located("posbench.encodings.nope.NoPE") == "posbench.encodings.nope.NoPE"
    assert located("posbench.encodings.before.NoPE") == "posbench.encodings.nope.NoPE"
    assert located("posbench.encodings.nope.Nothing") is None
    assert located("nowhere.NoPE") is None


def test_a_tree_as_text_is_the_same_in_every_version_of_python() -> None:
    """Empty fields are left out, of which each version has its own."""
    tree = ast.parse(
        "def f[T](x): return x" if sys.version_info >= (3, 12) else "def f(x): return x"
    )
    shown = canonical(tree.body[0])
    if sys.version_info >= (3, 12):
        shown = shown.replace(", type_params=[TypeVar(name='T')]", "")
    assert shown == (
        "FunctionDef(name='f', args=arguments(args=[arg(arg='x')]), "
        "body=[Return(value=Name(id='x'))])"
    )


def test_packages_of_another_environment_are_not_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment may see the packages of the one that it was made from."""
    there = tmp_path / "lib" / "site-packages" / "installed_elsewhere"
    there.mkdir(parents=True)
    (there / "__init__.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(there.parent)
    assert source_of("installed_elsewhere") is None
    own = tmp_path / "own_helpers"
    own.mkdir()
    (own / "__init__.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert source_of("own_helpers") is not None
