"""Loggers: CSV by default, W&B on request and offline; neither is needed for a record, neither says
a word, and what they write lies in the results folder.
"""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import succeeded

TEST = {
    f"test/{key}"
    for key in ("score", "sequence_accuracy", "token_accuracy_teacher_forced", "loss", "multiple")
}
TRAINING = {"train/loss", "validation/loss", "validation/score"}
MULTIPLES = [1, 1.25, 1.5, 2, 3, 4, 6, 8]  # tested lengths, of a method that climbs no ladder


def logs(folder: Path, method: str) -> Path:
    return folder / f"results/local/logs/smoke/passkey/{method}/seed=0"


# -- CSV -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """The rows of metrics.csv, without their empty cells."""
    folder = tmp_path_factory.mktemp("csv")
    succeeded(folder, "protocol=smoke", "method=rope", "logger=csv")
    (path,) = logs(folder, "rope").rglob("metrics.csv")
    with open(path, newline="") as file:
        return [
            {key: float(value) for key, value in row.items() if value}
            for row in csv.DictReader(file)
        ]


def test_csv_has_a_row_for_each_point_of_the_curve(metrics: list[dict[str, float]]) -> None:
    rows = [row for row in metrics if "train/loss" in row]
    assert [row["step"] for row in rows] == [10, 20]
    assert all(row.keys() == {"step"} | TRAINING for row in rows)


def test_csv_has_a_row_for_each_test_length(metrics: list[dict[str, float]]) -> None:
    rows = [row for row in metrics if "test/loss" in row]
    assert [row["test/multiple"] for row in rows] == MULTIPLES
    assert [row["step"] for row in rows] == [16, 22, 28, 41, 66, 91, 141, 191], (
        "the step of a test row is its length"
    )
    assert all(row.keys() == {"step"} | TEST for row in rows)


# -- W&B -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nobody() -> Iterator[socket.socket]:
    """A server that wants to know whether anybody calls."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def wandb_sweep(
    tmp_path_factory: pytest.TempPathFactory, nobody: socket.socket
) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """Two runs in one process, in an environment without key, mode, or a home that knows W&B."""
    pytest.importorskip("wandb")
    folder, home = tmp_path_factory.mktemp("wandb"), tmp_path_factory.mktemp("home")
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "XDG_")) and k != "NETRC"
    }
    url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), url)
    environment = {k: v for k, v in environment.items() if k.lower() != "no_proxy"} | proxies
    environment |= {"HOME": str(home), "WANDB_BASE_URL": url}
    words = [
        sys.executable,
        "-m",
        "posbench",
        "-m",
        "protocol=smoke",
        "method=rope,rope_pi",
        "logger=wandb",
    ]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return folder, home, done


Sweep = tuple[Path, Path, "subprocess.CompletedProcess[str]"]


@pytest.mark.slow
def test_wandb_works_without_key_and_network(wandb_sweep: Sweep, nobody: socket.socket) -> None:
    folder, _, done = wandb_sweep
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "results/local/records").rglob("seed=0.json"))) == 2
    with pytest.raises(BlockingIOError):
        nobody.accept()


@pytest.mark.slow
def test_wandb_says_nothing(wandb_sweep: Sweep) -> None:
    done = wandb_sweep[2]
    assert done.stderr == ""
    assert "wandb" not in done.stdout


@pytest.mark.slow
def test_wandb_writes_into_the_results_and_nowhere_else(wandb_sweep: Sweep) -> None:
    folder, home, _ = wandb_sweep
    assert [path.name for path in folder.iterdir()] == ["results"]
    for method in ("rope", "rope_pi"):
        assert len(list((logs(folder, method) / "wandb").glob("offline-run-*"))) == 1
    assert not list(home.rglob("offline-run-*"))
    assert not (home / "wandb").exists() and not (home / ".netrc").exists()


def recorded(run: Path) -> list[dict]:
    """The records of an offline run, as W&B itself reads them."""
    words = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(run)]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        pytest.skip("this version of wandb cannot print a run")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "expected"), [("rope", TRAINING | TEST), ("rope_pi", TEST)])
def test_wandb_has_the_metrics_of_each_run_in_a_run_of_its_own(
    wandb_sweep: Sweep, method: str, expected: set[str]
) -> None:
    (run,) = (logs(wandb_sweep[0], method) / "wandb").glob("offline-run-*")
    found = recorded(run)
    (named,) = (entry["run"]["display_name"] for entry in found if entry["type"] == "run")
    assert named == f"{method} on passkey, smoke, seed 0"
    text = [json.dumps(entry) for entry in found if entry["type"] == "history"]
    assert {
        name for name in TRAINING | TEST if any(f'"{name}"' in entry for entry in text)
    } == expected
    assert sum('"test/multiple"' in entry for entry in text) == len(MULTIPLES)
