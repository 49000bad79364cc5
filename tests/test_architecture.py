"""The walls of the house: imports point one way, and the core knows no concrete encoding, extension
or task.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra.utils import get_class

ROOT = Path(__file__).parent.parent
FLOORS = [
    {"base"},  # errors, words for numbers, atomic files
    {"core"},  # everything under the hash of a record
    {"encodings", "extensions", "tasks", "statistics"},  # what is compared, and by what measures
    {"config"},  # from a command line to names, hashes and objects
    {"records"},  # what a run leaves behind
    {"showing"},  # tables, figures and what pages are made of
    {"running"},  # one run
    # many runs; what a class promises; what a method is, and what a trained one does
    {"sweeping", "checks", "explain"},
    {"boards"},  # rows ranked, one compared with the others, what papers claim
    {"sharing", "pretrained"},  # records for others; models of others
    # the doors
    {"cli", "application", "calls", "standalone", "position", "models", "__main__"},
]
FLOOR = {name: height for height, floor in enumerate(FLOORS) for name in floor}
PUBLIC = ("attention", "encoding", "extension", "task", "errors", "results")
"""Places that code of others imports from: they hand names of the house on."""
CONCRETE = ("posbench.encodings.", "posbench.extensions.", "posbench.tasks.")


@functools.cache
def modules() -> list[tuple[str, Path]]:
    found = [
        (path.relative_to(ROOT).with_suffix("").as_posix(), path)
        for path in (ROOT / "posbench").rglob("*.py")
    ]
    found += [
        (f"posbench/{path.relative_to(ROOT).with_suffix('').as_posix()}", path)
        for path in (ROOT / "tasks").glob("*.py")
    ]
    doors = ("posbench/__init__", "posbench/__main__")  # of the package: they may lead anywhere
    return [
        (name.replace("/", "."), path)
        for name, path in found
        if not name.endswith(doors) and name.removeprefix("posbench/") not in PUBLIC
    ]


@functools.cache
def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found += [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
    return found


def room(module: str) -> str:
    return module.split(".")[1]


def rooms_imported(name: str, path: Path) -> set[str]:
    """The other names at the top of the package that a module imports."""
    found = {room(imported) for imported in imports(path) if imported.startswith("posbench.")}
    return (found & FLOOR.keys()) - {room(name)}


def test_no_import_goes_up() -> None:
    homeless = [name for name, _ in modules() if room(name) not in FLOOR]
    assert not homeless, "they have no place in the house yet: give them one in FLOORS"
    assert not [
        f"{name} imports {other}, which is above it"
        for name, path in modules()
        for other in rooms_imported(name, path)
        if FLOOR[other] > FLOOR[room(name)]
    ]


def test_no_room_imports_from_the_package_itself() -> None:
    """That leads to the doors, above all rooms."""
    assert not [
        f"{name} imports from posbench: name the module"
        for name, path in modules()
        if "posbench" in imports(path) and room(name) not in FLOORS[-1]
    ]


def test_no_imports_go_in_a_circle() -> None:
    """Neither between the rooms of a floor nor between the files of a room."""
    between_rooms: dict[str, set[str]] = {}
    between_files: dict[str, set[str]] = {}
    known = {name for name, _ in modules()}
    for name, path in modules():
        between_rooms.setdefault(room(name), set()).update(rooms_imported(name, path))
        between_files[name] = {imported for imported in imports(path) if imported in known}
    for graph in (between_rooms, between_files):
        tuple(
            graphlib.TopologicalSorter(graph).static_order()
        )  # raises CycleError, which names them


INSIDE = "posbench.config.hydra_inside"
"""The one module that reaches inside Hydra and OmegaConf, and says why."""


def test_one_module_reaches_inside_hydra() -> None:
    for name, path in modules():
        if name == INSIDE:
            continue
        for imported in imports(path):
            library, *parts = imported.split(".")
            private = any(part.startswith("_") for part in parts)
            assert not (library in ("hydra", "omegaconf") and private), f"{name} uses {imported}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("_get_node", "_get_full_key", "_get_root"), name


ONE_METHOD_A_FILE = ("encodings", "extensions", "tasks")


def of_the_house() -> list[tuple[str, Path]]:
    """The modules that hold more than one method or task."""
    return [(name, path) for name, path in modules() if room(name) not in ONE_METHOD_A_FILE]


def test_no_class_name_is_used_twice() -> None:
    places: dict[str, list[str]] = {}
    for name, path in of_the_house():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


SECTION, CEILING = 60, 500
"""Lines: a shorter file that one module imports is a section of it, and none is longer."""


def test_files_are_neither_sections_of_another_nor_too_long() -> None:
    importers: dict[str, set[Path]] = {}
    for path in (ROOT / "posbench").rglob("*.py"):  # those that others import from as well
        for imported in imports(path):
            importers.setdefault(imported, set()).add(path)
    lines = {name: len(path.read_text().splitlines()) for name, path in of_the_house()}
    sections = [
        name
        for name, count in lines.items()
        if count < SECTION and len(importers.get(name, ())) == 1 and not name.endswith("__init__")
    ]
    assert sections == []
    assert [name for name, count in lines.items() if count > CEILING] == []


def test_the_floors_can_be_held_in_the_head() -> None:
    assert len(FLOORS) <= 12


def test_no_module_names_a_concrete_encoding_extension_or_task() -> None:
    """They arrive by the `_target_` of their YAML.

    What deals with models of transformers alone knows some: those that it has, by its own names.
    """
    assert not [
        f"{name} imports {imported}"
        for name, path in modules()
        if room(name) not in ("pretrained", "export")
        for imported in imports(path)
        if f"{imported}.".startswith(CONCRETE) and room(imported) != room(name)
    ]


@pytest.mark.parametrize(
    "name",
    [
        "cli",
        "core.settings",
        "core.task",
        "config.identity",
        "config.legality",
        "config.building",
        "sharing.command",
        "running.make",
        "boards.command",
        "boards.claims.page",
        "sweeping.status",
        "sweeping.sweep",
    ],
)
def test_what_answers_at_once_does_not_import_torch(name: str) -> None:
    waiting, seen = [ROOT / "posbench" / f"{name.replace('.', '/')}.py"], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for node in ast.parse(path.read_text()).body:  # at the top level: what runs on import
            if isinstance(node, ast.Import | ast.ImportFrom):
                for imported in imports_of(node):
                    assert imported.split(".")[0] not in ("torch", "lightning", "wandb"), (
                        f"{path.name} imports {imported}"
                    )
                    waiting += {near for near in run_by(imported) if near.exists()} - seen


def run_by(imported: str) -> list[Path]:
    """The files that importing this name may run: its module, and the packages on the way."""
    parts = imported.split(".")
    folders = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [ROOT / f"{folders[-1]}.py", *(ROOT / folder / "__init__.py" for folder in folders)]


def imports_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]


def targets(content: object) -> Iterator[str]:
    """Every `_target_` in a YAML, however deep."""
    if isinstance(content, dict):
        if "_target_" in content:
            yield content["_target_"]
        for inner in content.values():
            yield from targets(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from targets(inner)


def test_every_yaml_names_classes_that_exist_or_another_yaml() -> None:
    for group in ("encoding", "extension", "task"):
        for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
            content = yaml.safe_load(path.read_text("utf-8"))
            named = list(targets(content))
            assert named or "defaults" in content, path.name
            for target in named:
                assert get_class(target).__module__.startswith(f"posbench.{group}s."), path.name


AROUND_OTHERS = tuple(
    f"posbench.extensions.{name}"
    for name in ("early_fine_tuned", "finetuned", "layer_factors", "served", "tuned")
)
"""They make a YAML of another extension, so that none has their own name."""


@pytest.mark.parametrize("group", ["encoding", "extension"])
def test_a_method_stands_in_a_file_of_its_own_name(group: str) -> None:
    """Other YAMLs of a class are settings of it. Recipes of layers name no class at the top."""
    names: dict[str, set[str]] = {}
    for path in (ROOT / "conf" / group).glob("*.yaml"):
        node = yaml.safe_load(path.read_text())
        if "_target_" in node:
            names.setdefault(node["_target_"], set()).add(path.stem)
    assert names
    for target, stems in names.items():
        module = target.rpartition(".")[0]
        assert module in AROUND_OTHERS or module.rpartition(".")[2] in stems, (
            f"{', '.join(sorted(stems))}: {target} stands in a file of another name"
        )


def test_every_package_is_shipped() -> None:
    import tomllib

    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    folders = {path.parent for path in (ROOT / "posbench").rglob("*.py")}
    found = {folder.relative_to(ROOT).as_posix().replace("/", ".") for folder in folders}
    plugin = {"posbench.sweeping.plugin"}  # installed as hydra_plugins.posbench_sweeper
    assert listed - {"hydra_plugins.posbench_sweeper"} == found - plugin | {
        "posbench.conf",
        "posbench.published",
        "posbench.tasks",
    }
