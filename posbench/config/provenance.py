"""Where a number comes from: hashes of content and of source, the commit, the versions."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Published records hash the code of posbench.pretrained.measuring, which takes this from here.
from posbench.base.content_hash import content_hash as content_hash
from posbench.config.source_hash import located, source_hash

PACKAGES = ("posbench", "torch", "lightning", "hydra-core", "numpy", "pandas")


def without_places(node: Any) -> Any:
    """A node of the configuration with each class by its name alone, wherever its module is."""
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


def trained_by(training: Mapping[str, Any]) -> str:
    """The module whose class makes a training with these settings: the root of its source."""
    until = training.get("until")
    return "posbench.core.training" if until is None else "posbench.core.until_learned"


def trained_classes(config: Mapping[str, Any]) -> frozenset[str]:
    """The classes that the settings of a training choose. Training itself leads to the plain
    transformer, and to no other.
    """
    loops = config.get("model", {}).get("loops", 1)
    transformer = {"posbench.core.looped.Looped"} if loops > 1 else set()
    return frozenset(targets(config["task"]) | targets(config["encoding"]) | transformer)


def training_hash(config: Mapping[str, Any]) -> str:
    """The hash of the source that trained weights depend on."""
    return known_hash(trained_by(config.get("training", {})), trained_classes(config))


def evaluation_hash(extension: dict[str, Any]) -> str:
    """The hash of the source that turns trained weights into accuracies."""
    return known_hash("posbench.core.evaluation", frozenset(targets(extension)))


@functools.cache  # asked thousands of times by boards and sweeps: code does not change meanwhile
def known_hash(root: str, classes: frozenset[str]) -> str:
    """The hash of a module with classes that it is given, each wherever it is today."""
    return source_hash(root, *(located(target) or target for target in classes))


# -- the commit, the versions and the CPU ----------------------------------------------------------


def commit() -> str | None:
    """The commit of the source tree, with `+` where files differ from it; None without git."""
    root = Path(__file__).parents[2]
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


INSTRUCTION_SETS = ("amx_tile", "avx512f", "avx2", "sve")
"""Libraries choose their code by these. The kind of a CPU names the first that it has."""


CAPABILITY = "ATEN_CPU_CAPABILITY"
"""The variable that makes torch choose its code for other instructions than the newest."""


@functools.cache
def cpu() -> str:
    """The kind of this machine's CPU: its maker and its newest instruction set.

    "AuthenticAMD avx512f" on Linux; elsewhere what the platform calls the processor, such as "arm".
    Torch and its libraries choose their code by it, and other code sums in another order and rounds
    otherwise. CPUs of one kind may still differ, in the sizes of their caches for example. Where
    torch is told to leave some instructions alone, the kind says so.
    """
    kind, asked = kind_of_cpu(Path("/proc/cpuinfo")), os.environ.get(CAPABILITY)
    return f"{kind}, {CAPABILITY}={asked}" if asked else kind


def kind_of_cpu(cpuinfo: Path) -> str:
    """The same for the CPU that a file of Linux describes, whether or not there is one."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    first = text.partition("\n\n")[0]  # of several processors
    said = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in first.splitlines())
    }
    maker = said.get("vendor_id") or said.get("CPU implementer")
    if not maker:
        return platform.processor() or platform.machine()
    has = {*said.get("flags", "").split(), *said.get("Features", "").split()}
    newest = (name for name in INSTRUCTION_SETS if name in has)
    return f"{maker} {next(newest, platform.machine())}"
