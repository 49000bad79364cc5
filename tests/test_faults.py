"""Whatever stops a training, the same command goes on from there, and the record is the one of a
run that was never stopped. A mistake is one sentence, and a file is either complete or not there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from processes import (
    checkpoint_folder,
    finished,
    left_over,
    record,
    record_path,
    started,
    succeeded,
    without_seconds,
)
from small_runs import trained

from posbench.base.disk import make_writable, write_json, writing_to
from posbench.base.errors import Unwritable
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup
from posbench.sweeping import journal

SMOKE = ("protocol=smoke", "method=rope")
LONG = (*SMOKE, "training.steps=200", "trainer.checkpoint_every=15")  # validated every 20 steps

# -- interrupted and resumed -----------------------------------------------------------------------


@dataclass
class Interruption:
    status: int | None
    out: str
    err: str
    files: list[str]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("reference")
    succeeded(folder, *LONG)
    return folder


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Interruption]]:
    """The same run stopped by SIGTERM, kill -9 and Ctrl-C, each time started again, at last to the
    end.
    """
    folder = tmp_path_factory.mktemp("interrupted")
    stages = {}
    for signum, step in ((signal.SIGTERM, 40), (signal.SIGKILL, 80), (signal.SIGINT, 120)):
        command = started(folder, *LONG)
        command.until(lambda step=step, command=command: f"step {step}/200" in command.out)  # type: ignore[misc]
        assert (checkpoint_folder(folder) / "last.ckpt").exists()
        command.signalled(signum)
        files = [path.name for path in (folder / "results").rglob("*") if path.is_file()]
        stages[signum.name] = Interruption(command.status, command.out, command.err, files)
    command = finished(folder, *LONG)
    stages["end"] = Interruption(command.status, command.out, command.err, [])
    return folder, stages


Stages = tuple[Path, dict[str, Interruption]]


@pytest.mark.slow
@pytest.mark.fault("a training stopped by SIGTERM, kill -9 and Ctrl-C in turn", times=3)
def test_a_run_stopped_in_three_ways_has_the_record_of_an_undisturbed_one(
    reference: Path, interrupted: Stages
) -> None:
    folder, stages = interrupted
    assert (stages["end"].status, stages["end"].err) == (0, "")
    assert without_seconds(folder) == without_seconds(reference)
    weights, expected = (
        torch.load(checkpoint_folder(f) / "weights.pt", weights_only=True)
        for f in (folder, reference)
    )
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)


@pytest.mark.slow
def test_a_restarted_run_goes_on_and_does_not_begin_again(interrupted: Stages) -> None:
    _, stages = interrupted
    assert "step 20/200" in stages["SIGTERM"].out
    assert "step 20/200" not in stages["SIGKILL"].out and "step 80/200" in stages["SIGKILL"].out
    assert "step 60/200" not in stages["SIGINT"].out and "step 120/200" in stages["SIGINT"].out
    assert "step 100/200" not in stages["end"].out and "step 200/200" in stages["end"].out


@pytest.mark.parametrize("stage", ["SIGTERM", "SIGKILL", "SIGINT"])
def test_there_is_no_record_of_an_incomplete_run(interrupted: Stages, stage: str) -> None:
    files = interrupted[1][stage].files
    assert "last.ckpt" in files
    assert not {"seed=0.json", "training.json", "weights.pt"} & set(files)


@pytest.mark.parametrize(("stage", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_stops_with_its_exit_status_and_a_sentence(
    interrupted: Stages, stage: str, status: int
) -> None:
    stopped = interrupted[1][stage]
    assert stopped.status == status
    assert stopped.err.count("\n") == 1 and stopped.err.startswith("posbench: stopped by "), (
        stopped.err
    )
    assert "goes on from here" in stopped.err
    assert "Traceback" not in stopped.out


def test_nothing_temporary_is_left_behind(reference: Path, interrupted: Stages) -> None:
    assert left_over(reference) == []
    assert left_over(interrupted[0]) == []


# -- damaged files, the same training at the same time, no number ----------------------------------


@pytest.fixture(scope="module")
def _short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    succeeded(folder, *SMOKE)
    return folder


@pytest.fixture
def short(_short: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of a finished small run, to be damaged."""
    shutil.copytree(_short / "results", tmp_path / "results")
    yield tmp_path


def untimed(folder: Path, method: str) -> dict[str, object]:
    """What the record says of the training, without its cost."""
    training = record(folder, method)["training"]
    return {key: value for key, value in training.items() if not key.endswith("_seconds")}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.fault("weights or their log cut in half")
@pytest.mark.parametrize(
    "name", ["weights.pt", pytest.param("training.json", marks=pytest.mark.slow)]
)
def test_a_damaged_result_of_training_is_named_and_made_again_once_it_is_deleted(
    short: Path, name: str
) -> None:
    path = checkpoint_folder(short) / name
    truncate(path)
    stopped = finished(short, "protocol=smoke", "method=rope_pi")
    assert stopped.status == 1 and stopped.err.count("\n") == 1
    assert f"checkpoints/{path.parent.name}/{name} is damaged" in stopped.err
    path.unlink()
    assert "step 20/20" in succeeded(short, "protocol=smoke", "method=rope_pi").out
    # Another method with the same weights: what is said of the training is that of the first run.
    assert untimed(short, "rope_pi") == untimed(short, "rope")
    assert record(short, "rope_pi")["rows"][0]["loss"] == record(short)["rows"][0]["loss"]


@pytest.mark.fault("weights of another version of torch")
@pytest.mark.slow
def test_weights_of_another_version_of_torch_are_trained_again(short: Path) -> None:
    """A record of them would not count as complete, however often it was made."""
    for path in (checkpoint_folder(short) / "training.json", record_path(short)):
        content = json.loads(path.read_text())
        part = content if path.name == "training.json" else content["training"]
        part["versions"]["torch"] = "1.13.1"
        path.write_text(json.dumps(content))
    command = succeeded(short, *SMOKE)
    assert "were made with torch 1.13.1; training again" in command.out
    assert record(short)["training"]["versions"]["torch"] != "1.13.1"
    assert "Complete already" in succeeded(short, *SMOKE).out


@pytest.mark.slow
@pytest.mark.fault("a training killed between its last step and its end")
def test_a_training_killed_after_its_last_step_is_kept_without_another(tmp_path: Path) -> None:
    from posbench.core.training import Training, fit

    run = setup("protocol=smoke", f"results_dir={tmp_path}")
    folder = tmp_path / "checkpoints" / SharedTraining(run, run.config.training).hash
    folder.mkdir(parents=True)
    training = Training(run.model(), run.task, run.config.training, 0)
    curve = fit(training, folder / "last.ckpt", "cpu", 10, [], [], lambda point: None)
    assert (folder / "last.ckpt").exists()
    found = trained(run)
    assert list(found.log.points()) == curve.points
    for name, value in training.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name
    assert sorted(path.name for path in folder.iterdir()) == [
        "content.json",
        "lock",
        "training.json",
        "weights.pt",
    ]


def test_a_record_of_changed_code_is_kept_beside_and_the_run_repeated(short: Path) -> None:
    path = record_path(short)
    before, content = path.read_bytes(), json.loads(path.read_text())
    content["evaluated"]["source_hash"] = "of an older version"
    path.write_text(json.dumps(content))
    command = succeeded(short, *SMOKE)
    assert "kept as seed=0." in command.out and "weights are shared" in command.out
    (kept,) = path.parent.glob("seed=0.*.json")
    assert json.loads(kept.read_text()) == content
    assert json.loads(path.read_text())["rows"] == json.loads(before)["rows"]
    # To repeat a run takes away its own record alone.
    kept.unlink()
    for there, beside in ((content, 1), (json.loads(path.read_text()), 0), ("half of", 1)):
        path.write_text(json.dumps(there))
        succeeded(short, *SMOKE, "force=true")
        assert json.loads(path.read_text())["rows"] == json.loads(before)["rows"]
        others = list(path.parent.glob("seed=0.*.json"))
        assert [json.loads(each.read_text()) for each in others] == [there] * beside
        for each in others:
            each.unlink()


@pytest.mark.fault("files that a killed process was writing", times=4)
@pytest.mark.slow
def test_what_a_killed_process_was_writing_is_cleared_away(short: Path) -> None:
    folder = checkpoint_folder(short)
    for name in ("last.99999.tmp", "weights.99999.tmp", "training.99999.tmp"):
        (folder / name).write_bytes(b"half of a file")
    (folder / "training.json").unlink()
    path = record_path(short)
    path.unlink()
    path.with_suffix(f".{'0' * 32}.tmp").write_bytes(b"half of a file")
    succeeded(short, *SMOKE)
    assert left_over(short) == []


@pytest.mark.fault("two processes that want the same training")
@pytest.mark.slow
def test_two_processes_that_want_the_same_weights_train_them_once(tmp_path: Path) -> None:
    settings = ("protocol=smoke", "training.steps=60")
    pair = [
        started(tmp_path, f"method={name}", *settings, name=name) for name in ("rope", "rope_pi")
    ]
    for command in pair:
        assert (command.ended().status, command.err) == (0, ""), command.out + command.err
    trained = ["step 60/60" in command.out for command in pair]
    shared = ["the weights are shared" in command.out for command in pair]
    assert sorted(trained) == [False, True]
    assert shared == [not here for here in trained]
    assert record(tmp_path, "rope")["training"] == record(tmp_path, "rope_pi")["training"]
    assert checkpoint_folder(tmp_path).is_dir()


@pytest.mark.fault("a loss that is no number")
def test_a_loss_that_is_no_number_stops_the_run_with_a_sentence_and_is_recorded(
    tmp_path: Path,
) -> None:
    command = finished(tmp_path, *SMOKE, "training.learning_rate=1e30")
    assert command.status == 1
    assert command.err.count("\n") == 1 and command.err.startswith(
        "posbench: the loss became nan"
    ), command.err
    assert "training.learning_rate=1e+30" in command.err
    (path,) = (tmp_path / "results").rglob("seed=0.json")
    assert json.loads(path.read_text())["diverged"] in command.err
    assert not list((tmp_path / "results").rglob("weights.pt"))


@pytest.mark.fault("a record cut in half")
@pytest.mark.slow
def test_a_record_that_cannot_be_read_is_named_and_left_alone(short: Path) -> None:
    path = record_path(short)
    truncate(path)
    before = path.read_bytes()
    command = finished(short, *SMOKE)
    assert command.status == 1
    assert command.err.count("\n") == 1 and command.err.startswith("posbench: "), command.err
    assert str(path.relative_to(short)) in command.err
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_signal_after_the_end_finds_nothing_to_stop(short: Path) -> None:
    command = started(short, *SMOKE)
    while command.process.is_alive():  # the next moment may be too late for a signal
        time.sleep(0.005)
    assert command.signalled(signal.SIGKILL).status == 0
    assert "Complete already" in command.out


@pytest.mark.fault("kill -9 of a training at one moment after another, until it comes through")
@pytest.mark.slow
def test_kill_minus_nine_at_any_moment_leaves_something_to_go_on_from(
    reference: Path, tmp_path: Path
) -> None:
    # Not at the end of a step: after a time, wherever the process is then, until one of them comes
    # through.
    for attempt in range(40):
        command = started(tmp_path, *LONG, name=f"attempt{attempt}")
        with contextlib.suppress(AssertionError):
            deadline = time.monotonic() + 0.4 + 0.05 * attempt
            command.until(lambda deadline=deadline: time.monotonic() > deadline)  # type: ignore[misc]
            command.signalled(signal.SIGKILL)
        if command.ended().status == 0:
            break
        assert command.err == ""
        # A process that dies between its record and its exit leaves that record whole, and no part
        # of a record is ever seen.
        if list((tmp_path / "results").rglob("seed=0.json")):
            assert without_seconds(tmp_path) == without_seconds(reference)
    succeeded(tmp_path, *LONG)
    assert without_seconds(tmp_path) == without_seconds(reference)
    assert left_over(tmp_path) == []


# -- disks -----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a hundred kilobytes: a checkpoint of the smoke protocol has more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mounting, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"needs a disk of its own: {error}")
    if done.returncode:
        pytest.skip(f"needs a disk of its own: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.fault("a full disk under a run")
@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on_once_there_is_room(
    disk: Path, tmp_path: Path
) -> None:
    words = ("protocol=smoke", "method=rope", f"results_dir={disk}")
    full = finished(tmp_path, *words)
    assert full.status == 1 and full.err.startswith(f"posbench: {disk} cannot be wr")
    assert full.err.count("\n") == 1 and "the same command goes on from here" in full.err
    left = [path.name for path in disk.rglob("*") if path.is_file()]
    assert not [name for name in left if name.endswith((".tmp", ".pt"))], left
    assert not list(disk.glob("records/**/*.json"))
    subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
    succeeded(tmp_path, *words)
    assert len(list(disk.glob("records/**/seed=0.json"))) == 1


@pytest.mark.fault("a full disk under a sweep")
@pytest.mark.slow
def test_a_sweep_on_a_full_disk_stops_with_one_sentence(disk: Path, tmp_path: Path) -> None:
    words = ("-m", "protocol=smoke", "method=rope,alibi", f"results_dir={disk}")
    full = finished(tmp_path, *words)
    assert full.status == 1 and "Traceback" not in full.err + full.out
    assert f"{disk} cannot be written to" in full.err + full.out
    subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
    succeeded(tmp_path, *words)
    assert len(list(disk.glob("records/**/seed=0.json"))) == 2


@pytest.mark.fault("a disk that refuses: full, read-only, of somebody else")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_whatever_a_disk_refuses_is_one_sentence_and_leaves_no_half_of_a_file(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    said = re.escape(f"{tmp_path} cannot be written to ({os.strerror(number)}): make")
    with pytest.raises(Unwritable, match=said), writing_to(tmp_path):
        write_json({"a": 1}, tmp_path / "record.json")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_looked_into_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for name in ("stat", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(Unwritable, match=r"closed/in cannot be written to \(Permission denied\)"):
        make_writable(tmp_path / "closed/in")


def test_other_errors_are_not_mistaken_for_those_of_a_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), writing_to(tmp_path):
        (tmp_path / "nothing").read_text()
    with pytest.raises(RuntimeError, match="a matter of torch"), writing_to(tmp_path):
        raise RuntimeError("a matter of torch")


# -- a sweep that is killed again and again --------------------------------------------------------

KILLS = 20


@pytest.mark.fault("kill -9 of a sweep at random moments", times=KILLS)
@pytest.mark.slow
def test_twenty_kills_of_a_sweep_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """At moments drawn over the whole of it, each time begun again by the same command."""
    words = ("-m", "protocol=smoke", "method=rope,rope_pi,alibi", "task=copy,passkey")
    quick = ("trainer.checkpoint_every=3",)
    reference, killed = tmp_path / "reference", tmp_path / "killed"
    start = time.monotonic()
    succeeded(reference, *words, *quick)
    seconds = time.monotonic() - start
    draw = random.Random(0)
    for _ in range(KILLS):
        command = started(killed, *words, *quick)
        command.process.join(draw.uniform(0, 0.6 * seconds))
        command.process.kill()
        command.ended()
    succeeded(killed, *words, *quick)
    records = {
        path.relative_to(reference): path
        for path in reference.glob("results/local/records/**/*.json")
    }
    assert len(records) == 6
    again = set(killed.glob("results/local/records/**/*.json"))
    assert {path.relative_to(killed) for path in again} == records.keys()
    for name, path in records.items():
        assert lasting(path) == lasting(killed / name), name
    told = [
        event.run
        for worker in journal.workers(killed / "results/local")
        for event in worker.events
        if event.kind == "done"
    ]
    assert len(told) == len(set(told)), "no run is made twice"


def lasting(path: Path) -> dict[str, object]:
    """A record without seconds, which alone may differ."""
    content = json.loads(path.read_text())
    for part in ("training", "evaluated"):
        content[part] = {k: v for k, v in content[part].items() if not k.endswith("_seconds")}
    return content
