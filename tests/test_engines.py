"""Sweeps on more than one core: launchers that really start workers, which fail, die, run out of
time and are cancelled. Whatever made them, the records are those of a sweep in one process.

What was tried on which engine, and what came of it, is in ENGINES.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import slurm
from hydra.core.config_store import ConfigStore

from posbench.sweeping import journal

pytestmark = pytest.mark.slow

BOARD = """
protocol: smoke
tasks: [copy]
parts:
  whole: {methods: [rope, rope_pi, alibi], seeds: [0, 1]}
  raising: {encodings: [raising], seeds: [0]}
  dying: {encodings: [dying], seeds: [0]}
"""
ENCODINGS = """
import os
import time
from pathlib import Path

from posbench.core.encoding import PositionEncoding


class Raising(PositionEncoding):
    "Nothing; it cannot be run."

    def encode(self, a):
        raise ZeroDivisionError("by nothing")


class Dying(PositionEncoding):
    "Nothing; its process ends as often as the file says."

    def encode(self, a):
        path = Path(os.environ["POSBENCH_DEATHS"])
        deaths = int(path.read_text())
        if deaths:
            path.write_text(str(deaths - 1))
            os._exit(1)
        return a


class Slow(PositionEncoding):
    "Nothing, which takes its time."

    def encode(self, a):
        time.sleep(float(os.environ["POSBENCH_PAUSE"]))
        return a
"""
RAISED = r"raising on copy, smoke, seed 0: ZeroDivisionError in \S+\.py, line \d+: by nothing"
PATIENCE = 1500.0  # seconds; only a hanging sweep takes as long


class Place:
    """A folder to sweep in."""

    python = sys.executable

    def __init__(self, folder: Path, deaths: int = 0, **environment: str) -> None:
        self.folder, self.deaths = folder, folder / "deaths"
        for name in ("board", "encoding"):
            (folder / "mine" / name).mkdir(parents=True)
        self.deaths.write_text(str(deaths))
        (folder / "mine/board/engines.yaml").write_text(BOARD)
        (folder / "mine/misbehaving.py").write_text(ENCODINGS)
        for name in ("Raising", "Dying", "Slow"):
            path = folder / f"mine/encoding/{name.lower()}.yaml"
            path.write_text(f"_target_: misbehaving.{name}\n")
        self.environment = (
            os.environ
            | {"POSBENCH_DEATHS": str(self.deaths), "POSBENCH_PAUSE": "0", "OMP_NUM_THREADS": "1"}
            | environment
        )

    @property
    def results(self) -> Path:
        return self.folder / "results/local"

    def started(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-m", "posbench", "-m", "--config-dir", "mine", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def swept(self, *words: str) -> tuple[int, str]:
        """The exit status, and all that is said."""
        process = self.started(*words)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"hangs:\n{out}{err}")
        return process.returncode, out + err

    def records(self) -> dict[str, bytes]:
        """By path, the bytes of every record, less seconds, which alone may differ."""
        found = {}
        for path in sorted((self.results / "records").rglob("*.json")):
            content = json.loads(path.read_text())
            for part in ("training", "evaluated"):
                content[part] = {
                    key: value
                    for key, value in content[part].items()
                    if not key.endswith("_seconds")
                }
            name = str(path.relative_to(self.results))
            found[name] = json.dumps(content).encode()
        return found

    def told(self) -> Counter[tuple[str, str]]:
        """How often the journal says what of which run."""
        events = (event for each in journal.workers(self.results) for event in each.events)
        return Counter((event.kind, event.run) for event in events)

    def until(self, reached: Callable[[], object], process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"ends too early, or hangs:\n{process.communicate()}")
            time.sleep(0.1)


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The board swept in one process, in which nothing dies."""
    place = Place(tmp_path_factory.mktemp("serial"))
    status, said = place.swept("board=engines")
    assert status == 1 and "7 done in" in said and "1 of 8 runs failed" in said, said
    assert len(place.records()) == 7
    return place


def same_records(place: Place, serial: Place) -> None:
    found, expected = place.records(), serial.records()
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


# -- engines that are not there --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launcher", "needs", "extra"),
    [
        ("cores", "hydra-joblib-launcher", "joblib"),
        ("joblib", "hydra-joblib-launcher", "joblib"),
        ("slurm", "hydra-submitit-launcher", "slurm"),
    ],
)
def test_an_engine_that_is_not_installed_names_its_extra(
    launcher: str,
    needs: str,
    extra: str,
    answered: Callable[..., tuple[int | None, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hydra.core.plugins import Plugins

    Plugins.instance()  # has what is installed store its configurations
    stored = ConfigStore.instance().repo["hydra"].get("launcher", {})
    for name in ("joblib.yaml", "submitit_slurm.yaml"):
        monkeypatch.delitem(stored, name, raising=False)
    status, out, err = answered("-m", "seed=0,1", f"hydra/launcher={launcher}")
    assert (status, out) == (1, "")
    assert err == (
        f"posbench: hydra/launcher={launcher} needs {needs}, which is not installed: "
        f"pip install 'posbench[{extra}]'\n"
    )


# -- cores: joblib ---------------------------------------------------------------------------------

needs_joblib = pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None,
    reason="needs hydra-joblib-launcher: pip install 'posbench[joblib]'",
)
CORES = ("hydra/launcher=cores", "hydra.launcher.n_jobs=2")


@pytest.mark.fault("joblib: a run that raises an error, and a worker that dies", times=2)
@needs_joblib
def test_cores_go_on_after_a_failure_and_a_dead_worker(serial: Place, tmp_path: Path) -> None:
    place = Place(tmp_path, deaths=1)
    status, said = place.swept("board=engines", *CORES)
    assert status == 1 and re.search(r"^7 done in .*, 1 failed\.$", said, re.M), said
    assert re.search(RAISED, said), said
    assert "launching again" in said and place.deaths.read_text() == "0"
    same_records(place, serial)


@pytest.mark.fault("joblib: a run that always kills its worker")
@needs_joblib
def test_cores_blame_no_run_for_the_death_of_its_neighbour(serial: Place, tmp_path: Path) -> None:
    place = Place(tmp_path, deaths=99)
    status, said = place.swept("board=engines", *CORES)
    assert status == 1 and re.search(r"^6 done in .*, 2 failed\.$", said, re.M), said
    assert re.search(r"dying on copy, smoke, seed 0: its worker died \d times", said), said
    place.deaths.write_text("0")
    status, said = place.swept("board=engines", *CORES)
    assert re.search(r"^1 done in .*, 6 were complete, .*, 1 failed\.$", said, re.M), said
    same_records(place, serial)


@pytest.mark.fault("joblib: SIGTERM of the sweep")
@needs_joblib
def test_no_worker_outlives_a_sweep_that_is_stopped(tmp_path: Path) -> None:
    place = Place(tmp_path)
    process = place.started(*LONG, "training.steps=100000", *CORES)
    place.until(lambda: list(place.results.glob("checkpoints/*/last.ckpt")), process)
    process.terminate()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM and "the same command goes on" in err, out
    workers = journal.workers(place.results)
    assert workers and not any(worker.alive for worker in workers)


@pytest.mark.fault("two sweeps on one folder over two launchers")
@needs_joblib
def test_two_sweeps_of_one_folder_lose_and_double_nothing(serial: Place, tmp_path: Path) -> None:
    place = Place(tmp_path)
    several = [place.started("board=engines", *more) for more in (CORES, ())]
    said = [process.communicate(timeout=PATIENCE)[0] for process in several]
    assert [process.returncode for process in several] == [1, 1], said  # of the one that raises
    same_records(place, serial)
    told = place.told()
    assert {run: told["done", run] for run in serial.records()} == dict.fromkeys(
        serial.records(), 1
    ), said


# -- slurm: submitit -------------------------------------------------------------------------------

absent = slurm.missing()
needs_slurm = pytest.mark.skipif(
    bool(absent) or importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is None,
    reason=absent or "needs hydra-submitit-launcher: pip install 'posbench[slurm]'",
)
QUEUE = ("hydra/launcher=slurm", "hydra.launcher.mem_gb=2")
LONG = ("protocol=smoke", "task=copy", "method=rope", "trainer.checkpoint_every=20")


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a Slurm with two cores."""
    with slurm.running(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


@pytest.mark.fault("Slurm: a run that raises an error, and a job that dies", times=2)
@needs_slurm
def test_slurm_goes_on_after_a_failure_and_a_dead_job(
    queue: dict[str, str], serial: Place, tmp_path: Path
) -> None:
    place = Place(tmp_path, deaths=1, **queue)
    status, said = place.swept("board=engines", *QUEUE)
    assert status == 1 and re.search(r"^7 done in .*, 1 failed\.$", said, re.M), said
    assert re.search(RAISED, said), said
    assert "run is left, 1 of them of workers that have died; launching again." in said
    same_records(place, serial)


@pytest.mark.fault("Slurm: a time limit")
@needs_slurm
@pytest.mark.skipif(
    "POSBENCH_PATIENT" not in os.environ,
    reason="Slurm holds what it queues again for minutes: set POSBENCH_PATIENT=1 for 20 of them",
)
def test_a_job_that_runs_out_of_time_is_queued_again_and_goes_on(
    queue: dict[str, str], tmp_path: Path
) -> None:
    # Two layers at least, and so at least 120 s; Slurm may send the signal up to 60 s too early.
    words = ("protocol=smoke", "task=copy", "encoding=slow", "training.steps=1500")
    words += ("trainer.checkpoint_every=20",)
    limit = ("hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=5")
    place = Place(tmp_path / "queue", POSBENCH_PAUSE="0.04", **queue)
    status, said = place.swept(*words, *QUEUE, *limit)
    assert status == 0 and re.search(r"^1 done in .*, 0 failed\.$", said, re.M), said
    ((_, run),) = ((kind, run) for kind, run in place.told() if kind == "done")
    assert place.told()["stopped", run] >= 1, place.told()
    (log,) = (place.results / "logs").rglob("said.txt")
    assert "Going on from the last checkpoint of an interrupted training." in log.read_text()
    undisturbed = Place(tmp_path / "serial")
    assert undisturbed.swept(*words)[0] == 0
    same_records(place, undisturbed)


@pytest.mark.fault("Slurm: scancel")
@needs_slurm
def test_what_scancel_stops_is_told_and_not_launched_again(
    queue: dict[str, str], tmp_path: Path
) -> None:
    place = Place(tmp_path, **queue)
    process = place.started(*LONG, "training.steps=100000", *QUEUE)
    place.until(lambda: list(place.results.glob("checkpoints/*/last.ckpt")), process)
    subprocess.run(["scancel", "--name=posbench"], env=queue, check=True)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, out + err
    assert "its job was stopped by a signal" in out and "launching again" not in out


@pytest.mark.fault("Slurm: Ctrl-C of the sweep")
@needs_slurm
def test_ctrl_c_takes_the_jobs_of_a_sweep_out_of_the_queue(
    queue: dict[str, str], tmp_path: Path
) -> None:
    place = Place(tmp_path, **queue)
    process = place.started(*LONG, "seed=range(4)", "training.steps=100000", *QUEUE)
    place.until(lambda: list(place.results.glob("checkpoints/*/last.ckpt")), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGINT and "the same command goes on" in err, out
    deadline = time.monotonic() + 60
    while queued := _queued(queue):
        assert time.monotonic() < deadline, queued
        time.sleep(0.5)


def _queued(environment: dict[str, str]) -> str:
    return subprocess.run(
        ["squeue", "--noheader"], env=environment, capture_output=True, text=True, check=True
    ).stdout
