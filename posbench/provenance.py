"""Where a number comes from: hashes of content and of source, the commit, the versions.

The hash of source is one of definitions, not of files. It begins at classes and modules that
compute something, follows every name that they use to the class, function or constant it stands
for, and takes each of these as a syntax tree. So it changes with what is computed, and stays the
same when a class moves to another file, a file to another folder, or a line is broken elsewhere.
A name is followed wherever it is imported: at the top of a module, in a function, inside `try:`. A
module that is named by a text alone, as in `importlib.import_module("helpers")`, is not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_COMPUTING = ("posbench.config", "posbench.errors")
"""Left out of the hash of source: settings count by their values, and sentences change no weight.
"""

PACKAGES = ("posbench", "torch", "lightning", "hydra-core", "numpy", "pandas")


def content_hash(content: Any) -> str:
    """16 hexadecimal digits that change with the content; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def without_places(node: Any) -> Any:
    """A node of the configuration with each class by its name alone, wherever its module stands."""
    if isinstance(node, list):
        return [without_places(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: str(value).rpartition(".")[2] if key == "_target_" else without_places(value)
        for key, value in node.items()
    }


def targets(node: Any) -> set[str]:
    """Every class that a node of the configuration names, hosts inside wrappers included."""
    if isinstance(node, list):
        return set().union(*map(targets, node))
    if not isinstance(node, dict):
        return set()
    own = {str(node["_target_"])} if "_target_" in node else set()
    return own.union(*map(targets, node.values()))


def training_hash(task: dict[str, Any], encoding: dict[str, Any]) -> str:
    """The hash of the source that trained weights depend on."""
    return hash_of("posbench.training", targets(task) | targets(encoding))


def evaluation_hash(extension: dict[str, Any]) -> str:
    """The hash of the source that turns trained weights into accuracies."""
    return hash_of("posbench.evaluation", targets(extension))


def hash_of(root: str, classes: Iterable[str]) -> str:
    """The hash of a module with classes that it is given, each wherever it stands today."""
    return source_hash(root, *(located(target) or target for target in classes))


@functools.cache
def known_hash(root: str, classes: frozenset[str]) -> str:
    """`hash_of`, asked thousands of times by boards and sweeps: code does not change meanwhile."""
    return hash_of(root, classes)


def located(target: str) -> str | None:
    """A class where it stands today: in its module, or in another of the same package.

    None where it is in neither. An older record names the file that a class stood in then.
    """
    module, _, name = target.rpartition(".")
    if any(_named(module, (name,))):
        return target
    package = module.rpartition(".")[0]
    folder = module_file(package)
    for path in sorted(folder.parent.glob("*.py")) if folder is not None else ():
        source = source_of(f"{package}.{path.stem}")
        if source is not None and name in source.definitions:
            return f"{package}.{path.stem}.{name}"
    return None


# -- definitions -----------------------------------------------------------------------------------


Place = tuple[str, str]
"""A module and a name in it, "" for the module itself."""
Way = tuple[str, ...]
"""Attributes, one of the other: `a.b.c` asks ("b", "c") of a."""


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
class Definition:
    """A name at the top level of a module; "" stands for what its loose statements do."""

    module: str
    name: str


def source_hash(*roots: str) -> str:
    """The hash of all that the roots, modules or classes as "module.Class", can reach by name.

    Names lead into posbench and into modules of one's own, not into installed packages or the
    standard library, of which the name alone counts.
    """
    with reading_once():
        return _hash_of_reached(set(roots))


def _hash_of_reached(roots: set[str]) -> str:
    begun = {root: list(_roots(root)) for root in roots}
    unknown = sorted(root for root, found in begun.items() if not found)
    waiting = [definition for found in begun.values() for definition in found]
    reached: dict[Definition, tuple[Any, ...]] = {}
    while waiting:
        here = waiting.pop()
        if here in reached or here.module in NOT_COMPUTING:
            continue
        if here not in _used:
            _used[here] = _told(here)
        reached[here], further = _used[here]
        waiting += further
    return content_hash([unknown, sorted(set(reached.values()))])


def _told(definition: Definition) -> tuple[tuple[Any, ...], list[Definition]]:
    """What a definition adds to a hash, and the definitions that it leads to."""
    uses = _uses(definition)
    bound = {(local, there if isinstance(there, str) else _digest(there)) for local, there in uses}
    further = [there for _, there in uses if isinstance(there, Definition)]
    if (source := source_of(definition.module)) is not None and source.loose:
        further.append(Definition(definition.module, ""))
    return (definition.name, _digest(definition), *sorted(bound)), further


def _roots(root: str) -> Iterator[Definition]:
    """A module stands for all that it defines."""
    if (source := source_of(root)) is not None:
        yield from (Definition(root, name) for name in source.definitions)
        yield from (Definition(root, "") for _ in source.loose[:1])
        return
    module, _, name = root.rpartition(".")
    yield from (found for _, found in _named(module, (name,)))


Led = tuple[Way, Definition]
"""A definition, and the part of a way that leads to it."""
Seen = frozenset[tuple[str, Way]]


def _named(module: str, way: Way, before: Seen = frozenset()) -> Iterator[Led]:
    """Where a name of a module is defined, imports followed; nothing if it does not count."""
    source, here = source_of(module), (module, way)
    if source is None or here in before:
        return
    name, before = way[0], before | {here}
    if name in source.definitions:
        yield (name,), Definition(module, name)
    if name in source.bound:
        yield (name,), Definition(module, "")
    places = source.places(name)
    if not places and name not in source.definitions and name not in source.bound:
        places = [(f"{module}.{name}", "")]  # a module of this package
    for place in places:
        for asked, found in _at(place, way[1:], before):
            yield (name, *asked), found
    for star in source.stars:
        yield from _named(star, way, before)


def _at(place: Place, way: Way, before: Seen = frozenset()) -> Iterator[Led]:
    """What attributes of something imported lead to; of a module as a value, all of it."""
    module, name = place
    if name:
        for asked, found in _named(module, (name, *way), before):
            yield asked[1:], found
        return
    led = list(_named(module, way, before)) if way else []
    if source_of(module) is not None:
        yield from led or (((each.name,), each) for each in _roots(module))


def _uses(definition: Definition) -> set[tuple[str, Definition | str]]:
    """What the names in a definition stand for: definitions, or texts for what is not followed."""
    source = source_of(definition.module)
    assert source is not None  # it was found there
    statements = _statements(definition)
    inside = list(_imports_in(statements, definition.module))
    found: set[tuple[str, Definition | str]] = {
        ("*", star) for star in source.stars if source_of(star) is None
    }
    for local, way in names_in(statements):
        if local in source.definitions and local != definition.name:
            found.add((local, Definition(definition.module, local)))
        for place in [*source.places(local), *(place for name, place in inside if name == local)]:
            if source_of(place[0]) is None:
                found.add((local, ".".join(place)))
            found |= {(".".join([local, *asked]), there) for asked, there in _at(place, way)}
        for star in source.stars:
            found |= {(".".join(asked), there) for asked, there in _named(star, (local, *way))}
    return {
        (local, there)
        for local, there in found
        if isinstance(there, str) or there.module not in NOT_COMPUTING
    }


@functools.cache
def _digest_of(statements: tuple[str, ...]) -> str:
    return content_hash(statements)


def _digest(definition: Definition) -> str:
    return _digest_of(tuple(canonical(node) for node in _statements(definition)))


def _statements(definition: Definition) -> tuple[ast.stmt, ...]:
    source = source_of(definition.module)
    assert source is not None
    return source.definitions[definition.name] if definition.name else source.loose


@functools.cache
def _names_in(statement: ast.stmt) -> frozenset[tuple[str, Way]]:
    return frozenset(_asked(statement))


def _asked(node: ast.AST) -> Iterator[tuple[str, Way]]:
    way: Way = ()
    while isinstance(node, ast.Attribute):
        way = (node.attr, *way)
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id, way
    for part in ast.iter_child_nodes(node):
        yield from _asked(part)


def names_in(statements: tuple[ast.stmt, ...]) -> frozenset[tuple[str, Way]]:
    """Every name, with the attributes that are asked of it, none where it stands alone."""
    return frozenset[tuple[str, Way]]().union(*map(_names_in, statements))


@functools.cache
def _imports(statement: ast.stmt) -> tuple[ast.Import | ast.ImportFrom, ...]:
    parts = ast.walk(statement)
    return tuple(part for part in parts if isinstance(part, ast.Import | ast.ImportFrom))


def _imports_in(statements: Iterable[ast.stmt], module: str) -> Iterator[tuple[str, Place]]:
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


@functools.cache
def canonical(node: ast.AST) -> str:
    """A syntax tree as text: the same for every version of Python and however lines are broken.

    Docstrings, annotations of functions and the sentences of errors are left out.
    """
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return f"Raise({_shown(node.exc.func)})"
    shown = []
    for field, value in ast.iter_fields(node):
        if field in ("ctx", "kind", "type_comment", "type_ignores", "returns"):
            continue
        if isinstance(node, ast.arg) and field == "annotation":
            continue
        if field == "body" and isinstance(value, list):
            value = [each for each in value if not _is_text(each)]
        if value is not None and value != []:
            shown.append(f"{field}={_shown(value)}")
    return f"{type(node).__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, ast.AST):
        return canonical(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def _is_text(node: ast.AST) -> bool:
    """A docstring, or a text below an attribute that says what it is for."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


# -- files -----------------------------------------------------------------------------------------


_read: dict[str, Source | None] | None = None
"""Modules as they were read first, while `reading_once`."""
_used: dict[Definition, tuple[tuple[Any, ...], list[Definition]]] = {}
"""What their definitions add to a hash and lead to, meanwhile."""


@contextmanager
def reading_once() -> Iterator[None]:
    """Meanwhile each module is read once, however many hashes depend on it."""
    global _read
    before, _read = _read, {} if _read is None else _read
    try:
        yield
    finally:
        _read = before
        if _read is None:
            _used.clear()


def source_of(module: str) -> Source | None:
    """The module as it is written now; None where its source does not count."""
    if _read is not None and module in _read:
        return _read[module]
    found = _written(module) if _counts(module) else None
    if _read is not None:
        _read[module] = found
    return found


def _written(module: str) -> Source | None:
    """A module as it is written; a folder without __init__.py defines nothing, and holds others."""
    there = _standing(module)
    text = "" if there.file is None else there.file.read_text(encoding="utf-8")
    return _parsed(text, module) if there.file or there.folders else None


def _counts(module: str) -> bool:
    """Whether a module is posbench's or one's own, not of an installed package or of Python."""
    top = module.split(".")[0]
    if top == "posbench":
        return True
    there = _standing(top)  # of the whole package: to ask for a part of it would import it
    paths = there.folders or tuple(filter(None, [there.file]))
    installed = any(path.is_relative_to(folder) for path in paths for folder in _installed())
    return bool(paths) and not installed


@functools.cache
def _installed() -> tuple[str, ...]:
    return tuple(
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )


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
        elif not _is_text(node) and not _is_for_types(node):
            loose.append(node)
    imported, inside = ([*_imports_in(nodes, module)] for nodes in (imports, loose))
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


@dataclass(frozen=True)
class Standing:
    """Where a module stands: its file, and the folders of the modules below it, if it has them."""

    file: Path | None = None
    folders: tuple[Path, ...] = ()

    def below(self, name: str) -> Standing:
        for folder in self.folders:
            if (package := folder / name / "__init__.py").is_file():
                return Standing(package, (package.parent,))
            if (file := folder / f"{name}.py").is_file():
                return Standing(file)
        within = (folder / name for folder in self.folders)
        return Standing(None, tuple(folder for folder in within if folder.is_dir()))


def module_file(module: str) -> Path | None:
    """The source file of a module, None where there is none; nothing but posbench is imported."""
    return _standing(module).file


def _standing(module: str) -> Standing:
    top, *inside = module.split(".")
    if top == "posbench":  # its folders may stand anywhere: the import system knows where
        parents = module.rpartition(".")[0]
        return _found(module) if not parents or _is_package(parents) else Standing()
    there = _found(top)
    for name in inside:  # to ask the import system for a part of a package would import the package
        there = there.below(name)
    return there


def _found(module: str) -> Standing:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a name that was imported from a module is no module itself
        return Standing()
    if spec is None:
        return Standing()
    file = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    return Standing(file, tuple(map(Path, spec.submodule_search_locations or ())))


def _is_package(module: str) -> bool:
    origin = module_file(module)
    return origin is not None and origin.name == "__init__.py"


# -- the state of the house ------------------------------------------------------------------------


def commit() -> str | None:
    """The commit of the source tree, with `+` where files differ from it; None without git."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        tracked = ("posbench", "conf", "tasks")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *tracked)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


COMPARED = ("torch",)
"""The packages whose minor version must agree for two records to be called the same."""


def same_versions(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether what computes has the same minor version in both."""
    return all(minor(one.get(name)) == minor(other.get(name)) for name in COMPARED)


def minor(version: str | None) -> str | None:
    """A version without its patch: "2.13" for "2.13.0+cpu"."""
    return None if version is None else ".".join(version.split("+")[0].split(".")[:2])


def versions() -> dict[str, str]:
    """The versions of Python and of what computes and records."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
