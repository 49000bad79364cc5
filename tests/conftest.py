"""Shared fixtures: composed configurations and small experiments, on one torch thread."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "offline")

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra

from posbench import cli
from posbench.boards import definition
from posbench.check.subject import composed, setup
from posbench.composing.compose import composing, register
from posbench.composing.folders import own_names
from posbench.composing.methods import methods

__all__ = ["composed", "names", "setup", "thinned"]

torch.set_num_threads(1)
CONF = Path(__file__).parent.parent / "conf"


def names(group: str) -> list[str]:
    """Everything posbench offers of a config group: its files, or the rows of conf/methods.yaml."""
    return own_names(group)


EXEMPLARY = {
    "encoding": {
        *(
            "nope",
            "learned",
            "sinusoidal",
            "alibi",
            "t5",
            "fire",
            "shaw",
            "deberta",
            "rope",
            "xpos",
        ),
        *("rope_short_base", "cope", "fox", "path", "ssmax", "random_positions", "rope_nope"),
        "stick_breaking",
    },
    "extension": {
        *("direct", "pi", "yarn", "self_extend", "dca", "log_n", "sliding_window", "both"),
        *("yarn_tuned", "drope", "ceiling"),
    },
}
"""One of each way in which positions enter attention, and in which they are extended."""


def thinned(group: str) -> list[object]:
    """names(group) as parameters, slow but for those that stand for others.

    What the main board does not list, as it is new, is fast too.
    """
    rows = [*definition.load("main").parts.values()]
    chosen = [methods()[name] for part in rows for name in part.methods]
    listed = {
        "encoding": {each for part in rows for each in part.encodings}
        | {each.encoding for each in chosen},
        "extension": {each for part in rows for each in part.extensions}
        | {each.extension for each in chosen},
    }

    def is_fast(name: str) -> bool:
        if group != "method":
            return name in EXEMPLARY[group] or name not in listed[group]
        row = methods()[name]
        pair = {"encoding": row.encoding, "extension": row.extension}
        if any(each not in listed[kind] for kind, each in pair.items()):
            return True
        return all(each in EXEMPLARY[kind] for kind, each in pair.items())

    return [
        name if is_fast(name) else pytest.param(name, marks=pytest.mark.slow)
        for name in names(group)
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", help="of tests/test_on_device.py; the default is a GPU, if any")


@pytest.fixture
def answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int | None, str, str]]:
    """The answer to a command line that ends before anything is trained: exit status, stdout,
    stderr.
    """

    def answer(*words: str) -> tuple[int | None, str, str]:
        GlobalHydra.instance().clear()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["posbench", *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # which the command changes
        capfd.readouterr()
        status: int | None = 0
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code  # type: ignore[assignment]
        return status, *capfd.readouterr()

    return answer


@pytest.fixture(scope="session")
def _one_hydra() -> Hydra:
    """What it has composed is composed once for all tests."""
    with composing():
        found = GlobalHydra.instance().hydra
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _hydra(_one_hydra: Hydra) -> Iterator[None]:
    register()
    GlobalHydra.instance().initialize(_one_hydra)
    yield
    GlobalHydra.instance().clear()
