"""Loggers: CSV by default, W&B on request and offline; neither is needed for a record, neither says
a word, and what they write lies in the results folder.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import making
import numpy as np
import pytest
import yaml
from offered import CONF
from omegaconf import DictConfig, OmegaConf
from processes import started, succeeded, without_seconds

from posbench.base.errors import ConfigError
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.records import files
from posbench.records.record import Record
from posbench.running.loggers import metrics as told
from posbench.running.loggers.metrics import About
from posbench.running.loggers.run_logger import run_logger
from posbench.running.run_spec import Fingerprint
from posbench.sharing import upload as uploading
from posbench.sharing.command import main as results_command
from posbench.showing.figures import depth_map_pixels
from posbench.showing.table import NOTHING

TEST = {
    f"test/{key}"
    for key in ("score", "sequence_accuracy", "token_accuracy_teacher_forced", "loss", "multiple")
}
TRAINING = {"train/loss", "validation/loss", "validation/score"}
STEPS = {f"train/{key}" for key in ("step_loss", "learning_rate", "gradient_norm")}
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
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
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
        words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        pytest.skip("this version of wandb cannot print a run")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Kept:
    """An offline run: what it was begun with, its metrics, rows, summary and files."""

    def __init__(self, folder: Path) -> None:
        found = recorded(folder)
        of = {name: [each[name] for each in found if each["type"] == name] for name in USED}
        self.run = of["run"][0]
        self.tags = of["run"][-1]["tags"]
        self.rows = [each["item"] for each in of["history"]]
        self.tests = [row for row in self.rows if "test/multiple" in row]
        self.metrics = {each["name"]: each for each in of["metric"]}
        self.summary, self.config = ({}, {})
        for each in of["summary"]:
            self.summary |= each["update"]
        for each in of["config"]:
            self.config |= each["update"]
        self.files = [path.name for path in folder.glob("files/media/*/*")]
        self.records = [each for each in of["artifact"] if each["type"] == "record"]


USED = ("run", "history", "metric", "summary", "config", "artifact")


@pytest.fixture(scope="module")
def kept(wandb_sweep: Sweep) -> dict[str, Kept]:
    """The two runs of the sweep, by method."""
    folders = {
        method: (logs(wandb_sweep[0], method) / "wandb").glob("offline-run-*")
        for method in ("rope", "rope_pi")
    }
    return {method: Kept(next(found)) for method, found in folders.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "expected"), [("rope", TRAINING | TEST), ("rope_pi", TEST)])
def test_wandb_has_the_metrics_of_each_run_in_a_run_of_its_own(
    kept: dict[str, Kept], method: str, expected: set[str]
) -> None:
    run = kept[method]
    assert run.run["display_name"] == f"{method} on passkey, smoke, seed 0"
    assert {name for row in run.rows for name in row if name in TRAINING | TEST} == expected
    assert [row["test/multiple"] for row in run.tests] == MULTIPLES


@pytest.mark.slow
def test_wandb_draws_tests_by_length_and_trainings_by_step(kept: dict[str, Kept]) -> None:
    run = kept["rope"]
    axes = {name: each.get("step_metric") for name, each in run.metrics.items()}
    assert {axes[name] for name in TRAINING} == {"trainer/global_step"}
    assert {axes[name] for name in TEST - {"test/multiple"}} == {"test/multiple"}
    assert not [name for name in run.metrics if "*" in name]
    assert run.tests and not [row for row in run.tests if "trainer/global_step" in row]
    assert [row["test/length"] for row in run.tests] == [16, 22, 28, 41, 66, 91, 141, 191]


@pytest.mark.slow
def test_wandb_groups_seeds_and_tells_kinds_of_runs_apart(kept: dict[str, Kept]) -> None:
    assert [run.run["run_group"] for run in kept.values()] == [
        "smoke/passkey/rope",
        "smoke/passkey/rope_pi",
    ]
    assert [run.run["job_type"] for run in kept.values()] == ["encoding", "extension"]
    assert {"smoke", "passkey", "rope", "pi", "zero-shot"} == set(kept["rope_pi"].tags)
    named = {"protocol": "smoke", "task": "passkey", "method": "rope_pi", "seed": 0}
    assert named.items() <= kept["rope_pi"].config.items()
    assert kept["rope_pi"].config["settings"]["encoding"]["base"] == 10000


@pytest.mark.slow
def test_wandb_has_the_summary_the_cells_and_the_depth_map(
    wandb_sweep: Sweep, kept: dict[str, Kept]
) -> None:
    run = kept["rope_pi"]
    path = wandb_sweep[0] / "results/local/records/smoke/passkey/rope_pi/seed=0.json"
    record = files.read(path)
    assert told.summary(record).items() <= run.summary.items()
    assert not TEST & run.summary.keys(), "the last length is no summary"
    table, picture = (next(n for n in run.files if n.startswith(k)) for k in ("cells", "depth_map"))
    assert table.endswith(".json") and picture.endswith(".png")
    assert run.summary["cells.nrows"] == len(MULTIPLES)


@pytest.mark.slow
def test_wandb_has_the_record_and_its_page_as_one_artifact(
    wandb_sweep: Sweep, kept: dict[str, Kept]
) -> None:
    for method, run in kept.items():
        path = wandb_sweep[0] / f"results/local/records/smoke/passkey/{method}/seed=0.json"
        (found,) = run.records
        assert found["name"] == f"record-{run.run['run_id']}" and found["finalize"]
        held = {
            each["path"]: (each["digest"], Path(each["local_path"]))
            for each in found["manifest"]["contents"]
        }
        assert sorted(held) == ["page.html", "record.json"]
        content = path.read_bytes()
        digest = base64.b64encode(hashlib.md5(content).digest()).decode()
        assert held["record.json"][0] == digest, "byte for byte what the results folder has"
        assert held["record.json"][1].read_bytes() == content, "W&B has a copy to send"
        said = held["page.html"][1].read_text()
        assert f"{method} on passkey, smoke, seed 0" in said
        assert html.escape(files.read(path).command) in said and "<svg" in said
        asked = re.findall(r'(?:src|href)="([^"]*)"', said)
        assert asked and all(each.startswith(("#", "data:")) for each in asked), "it loads nothing"


def _one_run(folder: Path, machine: bool) -> None:
    """In a process of its own: a run of a user with a name, in a folder with a name."""
    home = folder.with_name("home")
    os.environ.update(HOME=str(home), USER="alice-secret", LOGNAME="alice-secret")
    os.environ["WANDB_DATA_DIR"] = str(home)
    os.chdir(folder)
    from posbench.running.loggers.wandb import Wandb

    record = making.record()
    logger = Wandb(save_dir=str(folder), project="posbench", machine=machine)
    logger.begin(About.of(record, 0), print)
    print("said to the console")
    logger.log_hyperparams(About.of(record, 0).config(record.config))
    logger.log_metrics({"train/loss": 1.0}, step=1)
    logger.log_record(record)
    logger.close()


@pytest.mark.parametrize("machine", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_wandb_is_told_of_the_machine_only_where_that_is_asked_for(
    tmp_path: Path, machine: bool
) -> None:
    pytest.importorskip("wandb")
    import multiprocessing

    here, home = tmp_path / "of_alice", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    process = multiprocessing.get_context("forkserver").Process(
        target=_one_run, args=(here, machine)
    )
    process.start()
    process.join(300)
    assert process.exitcode == 0
    (folder,) = (here / "wandb").glob("offline-run-*")
    (sent,) = folder.glob("*.wandb")
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert sent.stat().st_size > 1000 and b"rope on copy, cpu, seed 0" in held
    secrets = {
        "user": "alice-secret",
        "interpreter": sys.executable,
        "its folder": str(Path(sys.executable).resolve().parent),
        "working directory": str(here),
        "packages": "lightning==",
        "console": "said to the console",
    }
    if len(socket.gethostname()) > 3:  # others are found in anything
        secrets["host"] = socket.gethostname()
    found = {name for name, secret in secrets.items() if secret.encode() in held}
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    if machine:
        assert {"interpreter", "working directory", "packages"} <= found
    else:
        assert not found
        assert not files & {"wandb-metadata.json", "requirements.txt", "output.log"}


def test_wandb_is_given_a_name_in_the_place_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with a short name cannot be looked for in a file."""
    wandb = pytest.importorskip("wandb")
    from posbench.running.loggers.wandb import Wandb

    given: list[Any] = []
    monkeypatch.setattr(wandb, "init", lambda **named: given.append(named["settings"]))
    for offline, machine in ((True, False), (False, False), (True, True)):
        monkeypatch.setattr(type(wandb.api), "api_key", "0" * 40, raising=False)
        logger = Wandb(offline=offline, save_dir=str(tmp_path), project="p", machine=machine)
        logger._opened({})
    assert [each.host == "posbench" for each in given] == [True, True, False]
    assert [each.x_disable_meta for each in given] == [True, True, False]


@pytest.mark.slow
def test_a_run_that_is_killed_and_goes_on_is_one_wandb_run_with_one_curve(tmp_path: Path) -> None:
    """The files of both processes, read back, are what one process would have written."""
    pytest.importorskip("wandb")
    words = ["protocol=smoke", "method=rope", "logger=wandb", "training.steps=300"]
    words += ["training.validate_every=50", "trainer.checkpoint_every=20"]
    command = started(tmp_path / "killed", *words)
    command.until(lambda: "step 100/300" in command.out).signalled(signal.SIGTERM)
    assert command.status == 128 + signal.SIGTERM, command.err
    succeeded(tmp_path / "killed", *words)
    succeeded(tmp_path / "whole", *words)
    found = {}
    for name in ("killed", "whole"):
        folders = sorted((tmp_path / name).rglob("offline-run-*"))
        assert len(folders) == (2 if name == "killed" else 1)
        found[name] = [Kept(folder) for folder in folders]
    ids = {run.run["run_id"] for runs in found.values() for run in runs}
    assert len(ids) == 1 and "resume" not in ids
    assert [len(run.records) for run in found["killed"]] == [0, 1], "one record, one artifact"

    def curve(runs: list[Kept], names: set[str]) -> list[dict[str, float]]:
        rows = [row for run in runs for row in run.rows]
        return [{k: row[k] for k in sorted(row) if k in {"_step", *names}} for row in rows]

    both, whole = (curve(found[name], TRAINING | STEPS | TEST) for name in ("killed", "whole"))
    assert both == whole
    steps = [row["_step"] for row in both]
    assert steps[:30] == [*range(10, 301, 10)] and len({*steps}) == len(steps)
    assert steps[30:] == [*range(301, 301 + len(MULTIPLES) + 1)]
    assert {name for row in both for name in row} == TRAINING | STEPS | TEST | {"_step"}
    rates = [row["train/learning_rate"] for row in both if "train/learning_rate" in row]
    assert max(rates) > rates[-1] > 0, "it falls at the end"


@pytest.mark.slow
def test_a_logger_changes_nothing_of_a_record(tmp_path: Path) -> None:
    words = ["protocol=smoke", "method=rope"]
    succeeded(tmp_path / "none", *words)
    succeeded(tmp_path / "csv", *words, "logger=csv")
    assert without_seconds(tmp_path / "none") == without_seconds(tmp_path / "csv")


def test_a_record_has_one_id_whoever_tells_of_it() -> None:
    record, other = making.record(), making.record(seed=1)
    assert Fingerprint.of(record).hash == Fingerprint.of(making.record()).hash
    assert Fingerprint.of(record).hash != Fingerprint.of(other).hash


# -- what is told of a record ----------------------------------------------------------------------


def measured(**values: object) -> Record:
    """A record with tests at 1x to 8x, and the depth of its sources."""
    found = making.record(accuracies={1: 1.0, 2: 0.8, 4: 0.5, 8: 0.3})
    halves = [
        making.view("depth", n, (0, 0.5, 8, 0.5, 1), (0.5, 1, 8, n / 80, 1)) for n in (10, 80)
    ]
    return making.changed(found, {"views": halves} | values)


def test_a_summary_has_area_reach_scores_cost_and_class() -> None:
    found = told.summary(measured())
    # The chance of these rows is .001: the area of a trapezoid over three octaves, by hand.
    heights = [(score - 0.001) / 0.999 for score in (1.0, 0.8, 0.5, 0.3)]
    by_hand = (heights[0] / 2 + heights[1] + heights[2] + heights[3] / 2) / 3
    assert found["area"] == pytest.approx(by_hand)
    assert 2 < found["reach"] < 4.01 and found["reach_is"] == f"{found['reach']:.3g}"
    assert [found[f"score_{m}x"] for m in (1, 2, 4, 8)] == [1.0, 0.8, 0.5, 0.3]
    assert (found["solved"], found["solved_step"], found["class"]) == (True, 100, "zero-shot")
    assert (found["train_cpu_seconds"], found["train_gpu_seconds"]) == (60.0, 0.0)


def test_a_summary_leaves_out_what_is_unknown() -> None:
    found = told.summary(making.record(accuracies={1: 0.2, 2: 0.1}))
    assert not {"area", "score_4x", "solved_step"} & found.keys()
    assert found["reach_is"] == "< 1" and found["reach"] == 1.0
    assert not [value for value in found.values() if value != value]


@pytest.mark.slow
def test_wandbs_page_of_a_record_without_a_loss_has_a_dash() -> None:
    pytest.importorskip("wandb")
    from posbench.running.loggers.wandb import page

    found = measured(**{"rows.3.loss": None, "diverged": "the loss became nan"})
    assert page(found).count(NOTHING) == page(measured()).count(NOTHING) + 1


def pixels_of(run: Record) -> np.ndarray | None:
    return depth_map_pixels(run.rows, run.views)


@pytest.mark.slow
def test_a_depth_map_has_dark_and_bright_cells_and_none_where_there_are_no_sources() -> None:
    assert pixels_of(making.record()) is None
    bright, dark = (
        pixels_of(measured()),
        pixels_of(measured(views=[making.view("depth", n, (0, 1, 8, 0.0, 1)) for n in (10, 80)])),
    )
    assert bright is not None and dark is not None
    assert bright.dtype == "uint8" and bright.shape[2] == 3
    yellow = (bright[..., 0] > 240) & (bright[..., 1] > 220) & (bright[..., 2] < 60)
    assert yellow.sum() > 5_000, "a right half is drawn bright"


def test_tags_are_as_short_as_wandb_wants_them() -> None:
    about = About.of(making.record(method="m" * 80), 3)
    assert max(map(len, about.tags)) == 64 and about.names["seed"] == 3


def test_a_loggers_config_has_names_that_a_sweep_may_set() -> None:
    about = About.of(making.record(), 0)
    config = about.config({"task": {"num_symbols": 8}})
    assert config["task"] == "copy" and config["settings"]["task"] == {"num_symbols": 8}


def test_names_in_a_config_are_bare_and_changes_are_beside_them() -> None:
    record = making.record()
    changed = record.task.model_copy(update={"changed": ("task.num_symbols=8",)})
    config = About.of(record.model_copy(update={"task": changed}), 0).config({})
    assert (config["task"], config["task_changes"]) == ("copy", "task.num_symbols=8")
    assert "protocol_changes" not in config


# -- a server that is not there --------------------------------------------------------------------


def _two_runs(folder: Path, environment: dict[str, str]) -> None:
    """In a process of its own: two runs for a server, and what was said of it."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        del os.environ[name]
    os.environ.update(environment, HOME=str(folder), NETRC=str(folder / "netrc"))
    os.chdir(folder)
    from posbench.running.loggers.wandb import Wandb

    for seed in (0, 1):
        record = making.record(seed=seed)
        logger = Wandb(offline=False, patience=4.0, save_dir=str(folder), project="posbench")
        logger.begin(About.of(record, seed), lambda said: _note(folder, said))
        logger.log_metrics({"train/loss": 1.0}, step=1)
        logger.log_record(record)
        logger.close()
    _note(folder, "went on")


def _note(folder: Path, said: str) -> None:
    with open(folder / "said", "a") as file:
        file.write(said + "\n")


class Refusing(http.server.BaseHTTPRequestHandler):
    """It answers that nobody is known here."""

    def do_POST(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"errors":[{"message":"invalid API key"}]}')

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("case", ["no key", "wrong key", "no network", "hangs"])
def test_a_run_goes_on_without_its_server_and_says_so_once(tmp_path: Path, case: str) -> None:
    import multiprocessing

    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes calls and never answers
        refusing = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        port = {"wrong key": refusing.server_port, "no network": 1}.get(
            case, silent.getsockname()[1]
        )
        environment = {"WANDB_BASE_URL": f"http://127.0.0.1:{port}", "NO_PROXY": "*"}
        if case != "no key":
            environment["WANDB_API_KEY"] = "0123456789" * 4
        forked = multiprocessing.get_context("forkserver")
        process = forked.Process(target=_two_runs, args=(tmp_path, environment))
        process.start()
        process.join(300)
        refusing.shutdown()
        hanging = process.is_alive()
        process.kill()
    said = (tmp_path / "said").read_text().splitlines()
    assert not hanging and process.exitcode == 0, said
    assert len(said) == 2 and said[1] == "went on"
    assert said[0].startswith("W&B was not reached (") and "kept offline" in said[0]
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 2


# -- past records ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_past_record_becomes_the_run_that_it_would_have_been(tmp_path: Path) -> None:
    record = measured()
    making.save(tmp_path / "local", record)
    words = ["upload", str(tmp_path / "local"), "--project", "past"]
    assert results_command(words) == 0
    (folder,) = (tmp_path / "local/uploads/wandb").glob("offline-run-*")
    run = Kept(folder)
    assert run.run["display_name"] == "rope on copy, cpu, seed 0" and run.run["project"] == "past"
    curve = [row for row in run.rows if "train/loss" in row]
    assert [(row["trainer/global_step"], row["train/loss"]) for row in curve] == [(50, 2), (100, 1)]
    assert [row["test/score"] for row in run.tests] == [1.0, 0.8, 0.5, 0.3]
    assert told.summary(record).items() <= run.summary.items()
    assert results_command(words) == 0
    assert len(list((tmp_path / "local/uploads/wandb").glob("offline-run-*"))) == 1, "sent twice"


class Server:
    """In the place of the logger: what it is told, and whether it takes it."""

    told: ClassVar[list[tuple[str, bool]]] = []
    reached = True

    def __init__(self, *, id: str, offline: bool, **settings: object) -> None:
        self.id, self.offline = id, offline
        self.complete = self.reached or offline
        self.told.append((id, offline))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: None


def test_what_did_not_arrive_is_sent_again_and_what_did_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "Wandb", Server)
    monkeypatch.setattr(Server, "told", [])
    found = [making.record("rope", seed=0), making.record("rope", seed=1)]

    def uploaded(online: bool) -> tuple[int, int, int]:
        done = uploading.upload(found, tmp_path, "past", online=online)
        return done.now, done.before, done.failed

    assert uploaded(online=False) == (2, 0, 0)
    assert uploaded(online=False) == (0, 2, 0), "they are kept already"
    monkeypatch.setattr(Server, "reached", False)
    assert uploaded(online=True) == (0, 0, 2), "what is kept offline has not been sent"
    monkeypatch.setattr(Server, "reached", True)
    assert uploaded(online=True) == (2, 0, 0) and uploaded(online=True) == (0, 2, 0)
    assert [offline for _, offline in Server.told] == [True] * 2 + [False] * 4


def test_there_must_be_something_to_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert results_command(["upload", str(tmp_path)]) == 1
    said = f"no records in {tmp_path}: name a folder that holds records/"
    assert said in capsys.readouterr().err


# -- a W&B sweep -----------------------------------------------------------------------------------


SWEEPS = sorted(path.name for path in CONF.glob("wandb_*.yaml"))


def an_agents(sweep: dict[str, Any], chosen: dict[str, Any]) -> DictConfig:
    """What posbench understands of the command that an agent makes of values."""
    agent = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    fixed = {
        name: each["value"] if "value" in each else each.get("values", [None])[0]
        for name, each in sweep["parameters"].items()
    }
    args = {name: {"value": value} for name, value in (fixed | chosen).items()}
    words = agent.create_sweep_command_args({"args": args})["args_no_hyphens"]
    own = [word for word in sweep["command"] if "$" not in word and "=" in word]
    return compose(*own, *words).cfg()


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_an_agent_makes_a_command_of_a_sweep_that_posbench_understands(name: str) -> None:
    sweep = yaml.safe_load((CONF / name).read_text())
    assert sweep["metric"]["name"] in told.summary(measured())
    drawn = {key: each for key, each in sweep["parameters"].items() if "distribution" in each}
    for end in ("min", "max"):
        chosen = {key: each[end] + 0.5 for key, each in drawn.items()}
        cfg = an_agents(sweep, chosen)
        assert (cfg.seed, cfg.logger.offline, cfg.force) == (0, False, True)
        assert all(OmegaConf.select(cfg, key) == value for key, value in chosen.items())
    for task in sweep["parameters"]["task"].get("values", []):
        for method in sweep["parameters"]["method"]["values"]:
            assert task in own_names("task") and method in own_names("method")


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_is_as_wandbs_own_schema_wants_it(name: str) -> None:
    """The library `sweeps` has the schema by which W&B's server reads these files, and draws."""
    sweeps = pytest.importorskip("sweeps", reason="pip install --no-deps sweeps jsonref jsonschema")
    sweep = yaml.safe_load((CONF / name).read_text())
    assert sweeps.schema_violations_from_proposed_config(sweep) == []
    assert sweeps.schema_violations_from_proposed_config(sweep | {"method": "guess"}) != []
    (drawn,) = sweeps.next_runs(sweep, [])
    assert an_agents(sweep, {key: each["value"] for key, each in drawn.config.items()}).task


# -- TensorBoard -----------------------------------------------------------------------------------


def test_tensorboard_has_the_curve_and_the_tests_by_length(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    record = measured()
    node = compose("logger=tensorboard").content["logger"]
    logger = run_logger(node, About.of(record, 0), tmp_path)
    logger.begin(record.config, print)
    (curve,) = logger.for_training
    curve.log_metrics({"train/loss": 2.0}, step=50)
    logger.record(record)
    logger.close(print)
    (path,) = tmp_path.rglob("*tfevents*")
    assert path.parent == tmp_path / About.of(record, 0).group / "seed=0"
    events = accumulator.EventAccumulator(str(path)).Reload()
    scalars = {
        name: [(each.step, each.value) for each in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }
    assert scalars.keys() == TEST | {"train/loss"}
    assert scalars["train/loss"] == [(50, 2.0)]
    for name in TEST:
        expected = [(n, values[name]) for n, values in told.tests(record)]
        assert [step for step, _ in scalars[name]] == [n for n, _ in expected] == [10, 20, 40, 80]
        assert [value for _, value in scalars[name]] == pytest.approx([v for _, v in expected])


def test_a_library_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("TENSORBOARD", "TENSORBOARDX"):
        monkeypatch.setattr(f"lightning.fabric.loggers.tensorboard._{library}_AVAILABLE", False)
    node = compose("logger=tensorboard").content["logger"]
    with pytest.raises(ConfigError, match=r"Neither `tensorboard` nor .* Try `pip install`ing"):
        build({"save_dir": str(tmp_path), **node}, "logger")
