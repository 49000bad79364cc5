"""Fixtures, and how tests run: on one torch thread, with what Hydra has composed kept."""

from __future__ import annotations

import copy
import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "offline")

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import torch
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.global_hydra import GlobalHydra

from posbench import cli
from posbench.config.compose import composing, register
from posbench.records import files
from posbench.running.devices import present_devices_seeded
from posbench.sweeping import plan

if TYPE_CHECKING:
    from posbench.core.training import Training

torch.set_num_threads(1)
# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", help="of tests/test_on_device.py; the default is a GPU, if any")


def pytest_collection_finish() -> None:
    """What has been imported and collected by now stays: to look through it again and again for
    garbage takes one of fourteen seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """Every training that takes place, in order."""
    from posbench.core.training import fit  # and with it lightning
    from posbench.running import checkpoints

    seen: list[Training] = []

    def noted(training: Training, *arguments: Any) -> Any:
        seen.append(training)
        return fit(training, *arguments)

    monkeypatch.setattr(checkpoints, "fit", noted)
    return seen


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
        # Hydra would compose once more, to ask for a mode that no test chooses.
        monkeypatch.setattr(Hydra, "get_mode", lambda *_, **__: None)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capfd.readouterr()  # type: ignore[return-value]

    return answer


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each record that is checked was read; checking takes most of the time of reading."""
    found: list[str] = []
    checking, reading = files.validated, files.record_in

    def counting(kind: type, content: Any, where: str) -> Any:
        found.append(where)
        return checking(kind, content, where)

    def counting_lines(line: bytes, where: str) -> Any:
        found.append(where)
        return reading(line, where)

    monkeypatch.setattr(files, "validated", counting)
    monkeypatch.setattr(files, "record_in", counting_lines)
    return found


@pytest.fixture(scope="session", autouse=True)
def _devices_seeded() -> Iterator[None]:
    with present_devices_seeded():
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """To read what the main board has published, for the cost of a plan, takes seconds."""
    nowhere = tmp_path_factory.getbasetemp() / "unpublished"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "shipped", lambda: nowhere)
        yield


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """Hydra reads the files of conf/ anew for every command line, twice: here each only once."""
    register()
    # Not as it is imported: Hydra loads the modules of its sources once more.
    kind: Any = SourcesRegistry.instance().resolve("pkg")
    reading, known = kind._read_config, dict[tuple[str, ...], Any]()

    def read(source: Any, place: Any) -> Any:
        key = (source.provider, source.path, str(place))
        if key not in known:
            known[key] = reading(source, place)
        return copy.deepcopy(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "_read_config", read)
        yield


@pytest.fixture(scope="session")
def _one_hydra() -> Any:
    """What it has composed is composed once for all tests."""
    with composing():
        found = GlobalHydra.instance().hydra
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _hydra(_one_hydra: Any) -> None:
    """For each test the same, unless the test before has put another in its place."""
    if GlobalHydra.instance().hydra is not _one_hydra:
        register()
        GlobalHydra.instance().clear()
        GlobalHydra.instance().initialize(_one_hydra)
