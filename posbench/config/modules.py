"""Modules as they are written: what they define and import, and where they are.

Nothing but posbench is imported for that.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import sys
import sysconfig
import tokenize
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Self

from posbench.base.errors import ConfigError

Place = tuple[str, str]
"""A module and a name in it, "" for the module itself."""


@dataclass(frozen=True)
class Source:
    """One module: what it defines at its top level, what it imports, and the statements between."""

    definitions: dict[str, tuple[ast.stmt, ...]]
    imported: dict[str, Place]  # by local name
    loose: tuple[ast.stmt, ...]
    inside: tuple[tuple[str, Place], ...]  # imported by loose statements, as in `try:`
    stars: tuple[str, ...]  # modules of which all names are imported
    bound: frozenset[str]  # names that loose statements define

    def places(self, local: str) -> list[Place]:
        """From where a name may be imported: several places where that depends on something."""
        above = [self.imported[local]] if local in self.imported else []
        return above + [place for name, place in self.inside if name == local]


@dataclass(frozen=True)
class ReadModules:
    """Modules as they were read first, and what has been worked out of them since."""

    sources: dict[str, Source | None] = field(default_factory=dict)
    derived: dict[Any, Any] = field(default_factory=dict)


_reading: ReadModules | None = None


@contextmanager
def reading_once() -> Iterator[ReadModules]:
    """Within the block, each module is read once, however many hashes depend on it."""
    global _reading
    before, now = _reading, _reading or ReadModules()
    _reading = now
    try:
        yield now
    finally:
        _reading = before


def source_of(module: str) -> Source | None:
    """The module as it is written now; None where its source does not count."""
    if _reading is not None and module in _reading.sources:
        return _reading.sources[module]
    found = _written(module) if _counts(module) else None
    if _reading is not None:
        _reading.sources[module] = found
    return found


def _written(module: str) -> Source | None:
    """A module as it is written; a folder without __init__.py defines nothing, and holds others."""
    there = _standing(module)
    text = "" if there.file is None else python_of(there.file.read_bytes(), there.file)
    try:
        return _parsed(text, module) if there.file or there.folders else None
    except SyntaxError as error:
        raise ConfigError(
            f"{there.file} is not Python: {error.msg} in line {error.lineno}"
        ) from None


def python_of(content: bytes, path: Path) -> str:
    """Python as it would be run; ConfigError if it declares another encoding than UTF-8.

    Another encoding could read what is a comment here as code, so that nobody sees what is run.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        if encoding in ("utf-8", "utf-8-sig"):
            return content.decode(encoding)
        reason = f"it declares the encoding {encoding}"
    except (SyntaxError, UnicodeDecodeError) as error:
        reason = str(error)
    raise ConfigError(
        f"{path} is not Python in UTF-8 ({reason}): save it so, and declare no other encoding"
    )


# -- one module ------------------------------------------------------------------------------------


@functools.cache  # of the text, not of the file: a sweep asks for the same modules with every run
def _parsed(text: str, module: str) -> Source:
    definitions: dict[str, tuple[ast.stmt, ...]] = {}
    imports: list[ast.stmt] = []
    loose: list[ast.stmt] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif names := _defined(node):
            for name in names:
                definitions[name] = (*definitions.get(name, ()), node)
        elif not is_text(node) and not _is_for_types(node):
            loose.append(node)
    imported, inside = ([*imports_in(nodes, module)] for nodes in (imports, loose))
    return Source(
        definitions,
        dict(imported),
        tuple(loose),
        tuple(inside),
        tuple(there for local, (there, _) in [*imported, *inside] if local == "*"),
        frozenset(name for node in loose for name in _bound(node)),
    )


def _absolute(node: ast.ImportFrom, module: str) -> str:
    up = node.level - _is_package(module)  # a package is its own parent
    parents = module.split(".")[: -up or None] if node.level else []
    return ".".join([*parents, *([node.module] if node.module else [])])


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that are defined inside a statement that does something else."""
    for part in ast.walk(statement):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield part.name


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines, none where it does something else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
        leaves = [leaf for target in assigned for leaf in getattr(target, "elts", [target])]
        if all(isinstance(leaf, ast.Name) for leaf in leaves):
            return [leaf.id for leaf in leaves]
    return []


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def is_text(node: ast.AST) -> bool:
    """A docstring, or a text below an attribute that says what it is for."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@functools.cache
def _imports(statement: ast.stmt) -> tuple[ast.Import | ast.ImportFrom, ...]:
    parts = ast.walk(statement)
    return tuple(part for part in parts if isinstance(part, ast.Import | ast.ImportFrom))


def imports_in(statements: Iterable[ast.stmt], module: str) -> Iterator[tuple[str, Place]]:
    """Every name that statements of a module import, also inside of them, and from where."""
    for node in (node for statement in statements for node in _imports(statement)):
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield alias.asname or alias.name, _place(_absolute(node, module), alias.name)
            else:
                top = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or top, (top, "")


def _place(module: str, name: str) -> Place:
    """`from package import module` imports a module, not a name in one."""
    below = f"{module}.{name}"
    return (below, "") if _counts(module) and module_file(below) is not None else (module, name)


# -- files -----------------------------------------------------------------------------------------


def _counts(module: str) -> bool:
    """Whether a module is posbench's or the user's, not of an installed package or of Python."""
    top = module.split(".")[0]
    if top == "posbench":
        return True
    there = _standing(top)  # of the whole package: to ask for a part of it would import it
    paths = there.folders or tuple(filter(None, [there.file]))
    return bool(paths) and not any(map(_is_installed, paths))


SITES = {"site-packages", "dist-packages"}
"""Folders of installed packages; an environment may see those of another one."""


def _is_installed(path: Path) -> bool:
    return bool(SITES & set(path.parts)) or any(map(path.is_relative_to, _installed()))


@functools.cache
def _installed() -> tuple[str, ...]:
    return tuple(
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )


@dataclass(frozen=True)
class ModulePlace:
    """Where a module is: its file, and the folders of the modules below it, if it has them."""

    file: Path | None = None
    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, spec: ModuleSpec | None) -> Self:
        """Where the import system has found a module."""
        if spec is None:
            return cls()
        file = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
        return cls(file, tuple(map(Path, spec.submodule_search_locations or ())))


def module_file(module: str) -> Path | None:
    """The source file of a module, None where there is none; nothing but posbench is imported."""
    return _standing(module).file


def _standing(module: str) -> ModulePlace:
    top, *inside = module.split(".")
    if top == "posbench":  # its folders may be anywhere: the import system knows where
        parents = module.rpartition(".")[0]
        return _found(module) if not parents or _is_package(parents) else ModulePlace()
    there = _found(top)
    for name in inside:  # one by one: asked for the whole name, the import system would import them
        there = ModulePlace.of(PathFinder.find_spec(name, [*map(str, there.folders)]))
    return there


def _found(module: str) -> ModulePlace:
    try:
        return ModulePlace.of(importlib.util.find_spec(module))
    except (ImportError, ValueError):  # a name that was imported from a module is no module itself
        return ModulePlace()


# -- modules that are loaded -----------------------------------------------------------------------


@contextmanager
def imported_anew(modules: Iterable[str]) -> Iterator[None]:
    """Within the block, these modules of the user and those that they import are what their files
    say now, as their hashes are; after it, those of before are back. A notebook edits files of
    modules that it has loaded, and Python would go on with the earlier code.
    """
    tops = _imported_by(modules)
    before = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] in tops}
    for name in before:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.modules.update(before)


def _imported_by(modules: Iterable[str]) -> set[str]:
    """The packages and modules of the user that these lead to, themselves included."""
    waiting, found = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        top = module.split(".")[0]
        if module in found or top in ("posbench", "__main__") or not _counts(module):
            continue
        found.add(module)
        if (source := source_of(module)) is not None:
            places = [*source.imported.values(), *(place for _, place in source.inside)]
            waiting += [place for place, _ in places] + list(source.stars)
    return {module.split(".")[0] for module in found}


def _is_package(module: str) -> bool:
    origin = module_file(module)
    return origin is not None and origin.name == "__init__.py"
