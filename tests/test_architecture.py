"""The walls of the house: imports point one way, and the core knows no concrete encoding, extension
or task.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    {"errors"},
    {"config", "streams", "provenance", "resolvers", "attention", "devices"},
    {"frequencies", "task", "building", "composing"},
    {"encoding", "batches"},
    {"masks"},
    {"encodings", "extension", "tasks"},
    {"extensions"},
    {"transformer"},
    {"scoring"},
    {"training", "coverage"},
    {"evaluation"},
    {"results", "identity", "legality", "audit"},
    {"summaries", "console"},
    {"figures", "remarks", "comparisons"},
    {"portraits"},
    {"sections", "claims"},
    {"leaderboard", "loggers", "checkpoints"},
    {"experiment"},
    {"conformance"},
    {"cli", "check", "catalogue"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
CONCRETE = ("posbench.encodings.", "posbench.extensions.", "posbench.tasks.")


def modules() -> list[tuple[str, Path]]:
    found = [
        (path.relative_to(ROOT).with_suffix("").as_posix(), path)
        for path in (ROOT / "posbench").rglob("*.py")
    ]
    found += [
        (f"posbench/{path.relative_to(ROOT).with_suffix('').as_posix()}", path)
        for path in (ROOT / "tasks").glob("*.py")
    ]
    return [(name.replace("/", "."), path) for name, path in found if name != "posbench/__init__"]


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found += [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
    return found


def layer(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize(
    ("name", "path"), modules(), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_imports_point_one_way(name: str, path: Path) -> None:
    assert layer(name) in RANK, f"{name} has no place in the house yet: give it one in LAYERS"
    for imported in imports(path):
        if (
            imported.startswith("posbench.")
            and layer(imported) in RANK
            and layer(imported) != layer(name)
        ):
            assert RANK[layer(imported)] < RANK[layer(name)], (
                f"{name} imports {imported}, which stands above it"
            )


@pytest.mark.parametrize(
    ("name", "path"), modules(), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_no_module_names_a_concrete_encoding_extension_or_task(name: str, path: Path) -> None:
    """They arrive by the `_target_` of their YAML."""
    for imported in imports(path):
        assert not (f"{imported}.".startswith(CONCRETE) and layer(imported) != layer(name)), (
            f"{name} imports {imported}"
        )


@pytest.mark.parametrize(
    "name",
    [
        "cli",
        "config",
        "identity",
        "legality",
        "building",
        "results",
        "leaderboard",
        "claims",
        "task",
    ],
)
def test_what_answers_at_once_does_not_import_torch(name: str) -> None:
    waiting, seen = [ROOT / "posbench" / f"{name}.py"], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for node in ast.parse(path.read_text()).body:  # at the top level: what runs on import
            if isinstance(node, ast.Import | ast.ImportFrom):
                for imported in imports_of(node):
                    assert imported.split(".")[0] not in ("torch", "lightning", "wandb"), (
                        f"{path.name} imports {imported}"
                    )
                    near = ROOT / (imported.replace(".", "/") + ".py")
                    if imported.startswith("posbench.") and near.exists() and near not in seen:
                        waiting.append(near)


def imports_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]


def test_every_yaml_names_a_class_that_exists() -> None:
    import hydra
    from conftest import composed, names
    from omegaconf import OmegaConf

    for group in ("encoding", "extension", "task"):
        for option in names(group):
            node = OmegaConf.to_container(composed(f"{group}={option}")[group], resolve=False)
            for target in [part["_target_"] for part in node.get("layers", [node])]:
                assert hydra.utils.get_class(target).__module__.startswith(f"posbench.{group}s.")


def test_every_package_is_shipped() -> None:
    import tomllib

    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    folders = {path.parent for path in (ROOT / "posbench").rglob("*.py")}
    found = {folder.relative_to(ROOT).as_posix().replace("/", ".") for folder in folders}
    assert listed == found | {"posbench.conf", "posbench.tasks"}
