"""The hash of source: of definitions, not of files.

It begins at classes and modules that compute something, follows every name that they use to the
class, function or constant it means, and takes each of these as a syntax tree. So it changes
with what is computed, and stays the same when a class moves to another file, a file to another
folder, or a line is broken elsewhere. A name is followed wherever it is imported: at the top of a
module, in a function, inside `try:`. A module that is named by a text alone, as in
`importlib.import_module("helpers")`, is not.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from posbench.base.content_hash import content_hash
from posbench.config.modules import Place, imports_in, is_text, module_file, reading_once, source_of

NOT_COMPUTING = ("posbench.core.settings", "posbench.base.errors")
"""Left out of the hash of source: settings count by their values, and sentences change no weight.
"""

Way = tuple[str, ...]
"""A chain of attributes: `a.b.c` asks ("b", "c") of a."""


@dataclass(frozen=True)
class Definition:
    """A name at the top level of a module; "" means what its loose statements do."""

    module: str
    name: str


def source_hash(*roots: str) -> str:
    """The hash of all that the roots, modules or classes as "module.Class", can reach by name.

    Names lead into posbench and into modules of the user, not into installed packages or the
    standard library, of which the name alone counts.
    """
    with reading_once() as reading:
        begun = {root: list(_roots(root)) for root in set(roots)}
        unknown = sorted(root for root, found in begun.items() if not found)
        waiting = [definition for found in begun.values() for definition in found]
        told, reached = reading.derived, set[Definition]()
        while waiting:
            here = waiting.pop()
            if here in reached or here.module in NOT_COMPUTING:
                continue
            if here not in told:
                told[here] = _told(here)
            reached.add(here)
            waiting += told[here][1]
        return content_hash([unknown, sorted({told[here][0] for here in reached})])


def located(target: str) -> str | None:
    """A class where it is today: in its module, or in another of the same package.

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


def _told(definition: Definition) -> tuple[tuple[Any, ...], list[Definition]]:
    """What a definition adds to a hash, and the definitions that it leads to."""
    uses = _uses(definition)
    bound = {(local, there if isinstance(there, str) else _digest(there)) for local, there in uses}
    further = [there for _, there in uses if isinstance(there, Definition)]
    if (source := source_of(definition.module)) is not None and source.loose:
        further.append(Definition(definition.module, ""))
    return (definition.name, _digest(definition), *sorted(bound)), further


def _roots(root: str) -> Iterator[Definition]:
    """A module means all that it defines."""
    if (source := source_of(root)) is not None:
        yield from (Definition(root, name) for name in source.definitions)
        yield from (Definition(root, "") for _ in source.loose[:1])
        return
    module, _, name = root.rpartition(".")
    yield from (found for _, found in _named(module, (name,)))


# -- what names lead to ----------------------------------------------------------------------------


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
    """What the names in a definition mean: definitions, or texts for what is not followed."""
    source = source_of(definition.module)
    assert source is not None  # it was found there
    statements = _statements(definition)
    inside = list(imports_in(statements, definition.module))
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


# -- definitions as text ---------------------------------------------------------------------------


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
    """Every name, with the attributes that are asked of it, none where it is alone."""
    return frozenset[tuple[str, Way]]().union(*map(_names_in, statements))


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
            value = [each for each in value if not is_text(each)]
        if value is not None and value != []:
            shown.append(f"{field}={_shown(value)}")
    return f"{type(node).__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, ast.AST):
        return canonical(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
