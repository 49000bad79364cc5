"""What a machine refuses, for a moment or for good, deletes nothing good and has a sentence."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import making
import pytest
import torch
from processes import finished, left_over
from small_runs import kept, tiny, trained
from test_resuming import Axe, Killed
from test_resuming import train as resumed

from posbench.base import disk
from posbench.base.disk import Lock, noted, read_bytes
from posbench.base.errors import Unreadable, Unwritable
from posbench.config import exit_status
from posbench.config.compose import composing
from posbench.core.training import Training, fit
from posbench.running import resuming
from posbench.running.checkpoints import FINISHED, UNFINISHED, Checkpoints
from posbench.running.console import Console
from posbench.running.scores import WithoutExtension
from posbench.running.setup import Setup
from posbench.sharing.command import main as results_command
from posbench.sweeping import journal, status
from posbench.sweeping import plan as planning
from posbench.sweeping.journal import Event, Writer

QUICK = (
    "method=rope",
    "training.steps=8",
    "training.validate_every=4",
    "trainer.checkpoint_every=2",
)
STATE = {"global_step": 3, "state_dict": {"w": torch.zeros(9)}, "callbacks": {"Curve": {}}}


def told() -> tuple[Console, Callable[[], str]]:
    """A console, and what it was told."""
    file = io.StringIO()
    return Console(file), file.getvalue


# -- what cannot be read for a moment --------------------------------------------------------------


@contextmanager
def no_descriptor() -> Iterator[None]:
    """As in a process that has opened too many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 20, hard))
    try:
        while True:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def raising(name: str, error: Exception) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "load", refuse) if name == "load" else patch.setattr(
            disk, "open", refuse, raising=False
        )
        yield


ALLOCATION = "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"
MOMENTS: dict[str, Callable[[], Any]] = {
    "EMFILE": no_descriptor,
    "ESTALE": lambda: raising("open", OSError(errno.ESTALE, "Stale file handle")),
    "EIO": lambda: raising("open", OSError(errno.EIO, "Input/output error")),
    "EACCES": lambda: raising("open", PermissionError(errno.EACCES, "Permission denied")),
    "EIO within torch": lambda: raising("load", OSError(errno.EIO, "Input/output error")),
    "memory": lambda: raising("load", MemoryError()),
    "memory of torch": lambda: raising("load", RuntimeError(ALLOCATION)),
}


@pytest.mark.fault("a good checkpoint that cannot be read for a moment")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_checkpoint_that_cannot_be_read_now_is_kept_and_the_run_stops(
    tmp_path: Path, moment: str
) -> None:
    path = tmp_path / UNFINISHED
    torch.save(STATE, path)
    before = path.read_bytes()
    with MOMENTS[moment](), pytest.raises(Unreadable) as found:
        resuming.remaining(path)
    assert str(found.value).startswith(f"{path} cannot be read now (")
    assert "is kept" in str(found.value) and "goes on from here" in str(found.value)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    state = resuming.remaining(path)
    assert state is not None and state["global_step"] == 3


@pytest.mark.slow
@pytest.mark.fault("good weights, or their log, that cannot be read for a moment")
@pytest.mark.parametrize("moment", ["EMFILE", "ESTALE", "memory", "memory of torch"])
def test_weights_that_cannot_be_read_now_are_kept_with_their_log(
    tmp_path: Path, moment: str
) -> None:
    run = tiny(tmp_path, *QUICK)
    weights = trained(run).model.state_dict()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (folder,) = {path.parent for path in before}
    console, _ = told()
    with MOMENTS[moment](), pytest.raises(Unreadable, match="is kept"):
        kept(run, console)._load(run.model(), folder)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    again = trained(run).model.state_dict()
    assert all(torch.equal(again[name], each) for name, each in weights.items())


@pytest.mark.fault("a folder, a pipe or a link to nothing in the place of a checkpoint")
@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing"])
def test_what_is_no_file_is_no_checkpoint_and_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / UNFINISHED
    if kind == "link to nothing":
        path.symlink_to(tmp_path / "nowhere")
        assert resuming.remaining(path) is None
    else:
        path.mkdir() if kind == "folder" else os.mkfifo(path)
        with pytest.raises(Unreadable, match=r"cannot be read now \("):
            resuming.remaining(path)
    assert os.path.lexists(path)


# -- damage ----------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def interrupted(run: Setup, step: int) -> tuple[Checkpoints, Path, Training]:
    """A training that was killed, with its checkpoints."""
    from posbench.running.shared_training import SharedTraining

    (shared,) = SharedTraining.of(run)
    checkpoints = kept(run, told()[0])
    last = checkpoints.folder(shared.hash) / UNFINISHED
    last.parent.mkdir(parents=True, exist_ok=True)
    training = shared.begin()
    with pytest.raises(Killed):
        fit(
            training,
            last,
            "cpu",
            2,
            [],
            [resuming.CheckpointKeeper(), Axe(step)],
            lambda point: None,
        )
    return checkpoints, last, training


@pytest.mark.slow
@pytest.mark.fault(
    "a damaged checkpoint, weights of another model, notes that are no JSON", times=3
)
@pytest.mark.parametrize("name", [UNFINISHED, "weights.pt", "diverged.json"])
def test_what_is_damaged_is_named_and_kept(tmp_path: Path, name: str) -> None:
    run = tiny(tmp_path, *QUICK)
    path = interrupted(run, 7)[1].with_name(name)
    if name == "weights.pt":
        weights = trained(run).model.state_dict()
        torch.save({key: value[:1] for key, value in weights.items()}, path)
    elif name == UNFINISHED:
        cut(path)
    else:
        path.write_bytes(b"\xff{")
    before = path.read_bytes()
    with pytest.raises(Unreadable, match=r"is damaged \(.*\): delete it, and the same command"):
        trained(run)
    assert path.read_bytes() == before
    path.unlink()
    assert trained(run).log.curve.step[-1] == run.config.training.total_steps


def test_a_note_is_read_and_none_is_none(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text("[3]")
    assert noted(tmp_path / "note.json") == [3] and noted(tmp_path / "other.json") is None


@pytest.mark.slow
@pytest.mark.fault("force=true that is interrupted: the weights that are there stay")
def test_a_training_that_is_made_again_takes_its_place_once_it_is_whole(tmp_path: Path) -> None:
    run = tiny(tmp_path, *QUICK)
    first = trained(run)
    (folder,) = {path.parent for path in tmp_path.rglob(FINISHED)}
    before = (folder / FINISHED).read_bytes(), (folder / "weights.pt").read_bytes()

    def killed(*_: object) -> None:
        raise Killed

    run.config.force = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posbench.running.checkpoints.fit", killed)
        with pytest.raises(Killed):
            trained(run)
    assert ((folder / FINISHED).read_bytes(), (folder / "weights.pt").read_bytes()) == before
    again = trained(run)
    assert (folder / FINISHED).read_bytes() != before[0], "made again, in other seconds"
    assert again.log.curve == first.log.curve


# -- killed while it writes ------------------------------------------------------------------------


def _killed_at(folder: Path, count: int) -> None:
    """Train, and be killed instead of the renaming with this number."""
    renaming, left = os.replace, iter(range(count))

    def replace(*paths: Any) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        renaming(*paths)

    os.replace = replace  # type: ignore[assignment]
    with composing():
        resumed(folder, resuming.CheckpointKeeper())


@pytest.mark.fault("kill -9 between the writing of a checkpoint and its renaming", times=8)
@pytest.mark.slow
def test_a_training_killed_between_any_two_renamings_goes_on_from_a_whole_checkpoint(
    tmp_path: Path,
) -> None:
    training, curve = resumed(tmp_path / "undisturbed")
    folder, steps = tmp_path / "killed", []
    folder.mkdir()
    for count in range(8):
        status = forked(_killed_at, folder, count)
        state = resuming.remaining(folder / UNFINISHED)  # none is ever half of one
        assert status == -signal.SIGKILL or state is not None
        steps.append(0 if state is None else state["global_step"])
    assert steps == sorted(steps) and steps[-1] > 0
    again, found = resumed(folder, resuming.CheckpointKeeper())
    assert found.points == curve.points
    for name, value in training.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value), name


@pytest.mark.slow
@pytest.mark.fault("a link where a checkpoint is to be written")
def test_no_link_is_followed_when_a_checkpoint_is_written(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "run"
    precious.write_text("precious")
    folder.mkdir()
    last = folder / UNFINISHED
    last.with_suffix(f".{os.getpid()}.tmp").symlink_to(precious)
    resumed(folder, resuming.CheckpointKeeper())
    assert precious.read_text() == "precious"
    assert last.is_file() and not last.is_symlink()


def _with_small_files(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    _writing_to(folder / "out", folder, "trainer.checkpoint_every=5")


def _writing_to(out: Path | None, folder: Path, *words: str) -> None:
    """A run in a process of its own, whose standard output is a file, or has no reader."""
    os.chdir(folder)
    if out is None:
        end, output = os.pipe()
        os.close(end)
    else:
        output = os.open(out, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(os.open(folder / "err", os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["posbench", "protocol=smoke", "method=rope", *words]
    from posbench.cli import main

    main()


def forked(target: Callable[..., None], *arguments: object) -> int | None:
    """The exit status of a process that has torch imported already."""
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    process.start()
    process.join(240)
    return process.exitcode


@pytest.mark.fault("a limit on the size of files")
@pytest.mark.slow
def test_a_limit_on_the_size_of_files_is_one_sentence_and_leaves_no_half(tmp_path: Path) -> None:
    status = forked(_with_small_files, tmp_path)
    said = (tmp_path / "err").read_text()
    assert status == 1 and said.count("\n") == 1, said
    assert said.startswith("posbench: results/local cannot be written to (")
    assert left_over(tmp_path) == []
    assert finished(tmp_path, "protocol=smoke", "method=rope").status == 0


# -- locks -----------------------------------------------------------------------------------------

LOCKLESS = [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EIO, errno.ESTALE]


@pytest.fixture(params=LOCKLESS, ids=lambda number: errno.errorcode[number])
def lockless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A file system without locks."""

    def refuse(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    return int(request.param)


@pytest.mark.fault("a file system without locks, or whose server for them is gone")
def test_a_file_system_without_locks_is_named_with_the_folder_and_a_way_out(
    lockless: int, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    said = f"{tmp_path} cannot be locked ({os.strerror(lockless)})"
    for acquire in (
        lambda: Lock(tmp_path / "lock").acquire(blocking=False),
        lambda: Lock(tmp_path / "lock").acquire(timeout=0),
        lambda: Lock(tmp_path / "lock").__enter__(),
    ):
        with pytest.raises(Unwritable) as found:
            acquire()
        assert str(found.value).startswith(said) and "local disk" in str(found.value)
    assert not [each for each in recwarn if "flock" in str(each.message)]


def test_publishing_where_there_are_no_locks_is_one_sentence(
    lockless: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    making.save(tmp_path / "own", making.record())
    words = ["publish", "--from", str(tmp_path / "own"), "--to", str(tmp_path / "all")]
    assert results_command(words) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(
        f"posbench: {tmp_path / 'all'} cannot be locked"
    )
    assert not [*(tmp_path / "all").rglob("*.jsonl*")]


def test_a_worker_on_a_file_system_without_locks_is_neither_alive_nor_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path)
    writer.write(Event("begun", "now", "a", "a", 1.0))
    (worker,) = journal.workers(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    for look in (
        lambda: worker.alive,
        lambda: disk._is_held_by_others(writer.path.with_suffix(".lock")),
    ):
        with pytest.raises(Unwritable, match="cannot be locked"):
            look()


def test_a_lock_that_another_holds_is_waited_for_as_before(tmp_path: Path) -> None:
    import filelock

    with Lock(tmp_path / "lock"), pytest.raises(filelock.Timeout):
        Lock(tmp_path / "lock").acquire(timeout=0)


# -- the journal -----------------------------------------------------------------------------------

HOSTILE = {
    "not UTF-8": b'\xff\xfe{"kind":"begun"}\n',
    "an infinite time": b'{"kind":"begun","sweep":"s","run":"r","title":"t","at":1e400}\n',
    "other kinds": b'[1]\n"x"\nnull\n\n{"kind":[],"sweep":{},"run":1,"title":2,"at":"x"}\n',
    "a lone surrogate": b'{"kind":"begun","sweep":"s","run":"\\ud800","title":"t","at":1}\n',
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.fault("lines of a journal that are no text, or none of ours")
@pytest.mark.parametrize("what", HOSTILE)
def test_no_line_of_a_journal_raises_or_hides_those_after_it(tmp_path: Path, what: str) -> None:
    writer = Writer(tmp_path)
    writer.path.write_bytes(HOSTILE[what])
    writer.write(Event("done", "now", "a", "a", 1.0))
    (worker,) = journal.workers(tmp_path)
    assert [each.run for each in worker.events] == ["a"]
    writer.lock.release()
    journal.tidy(tmp_path)


@pytest.mark.fault("a folder, a pipe and a link to nothing among the journals")
def test_what_is_no_journal_hides_no_other(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(Event("done", "now", "a", "a", 1.0))
    folder = writer.path.parent
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("nowhere")
    assert [worker.path for worker in journal.workers(tmp_path)] == [writer.path]
    assert [worker.path for worker in journal.workers(tmp_path, {})] == [writer.path]


def test_what_a_journal_says_is_shown_without_control_characters(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(Event("failed", "now", "a\0b", "\x1b[31mred", 1.0, sentence="one\ntwo"))
    (worker,) = journal.workers(tmp_path)
    (event,) = worker.events
    assert (event.run, event.title, event.sentence) == ("a b", " [31mred", "one two")
    writer.lock.release()
    journal.tidy(tmp_path)  # a name with a zero byte cannot be asked for


@pytest.mark.fault("a disk that is full in the middle of a line of the journal")
def test_half_a_line_on_a_full_disk_spoils_no_later_one(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(Event("begun", "now", "a", "a", 1.0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (writer.path.stat().st_size + 10, hard))
    try:
        with pytest.raises(OSError, match=r"No space|too large"):
            writer.write(Event("failed", "now", "a", "a", 2.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handled)
    writer.write(Event("done", "now", "a", "a", 3.0))
    (worker,) = journal.workers(tmp_path)
    assert [each.kind for each in worker.events] == ["begun", "done"]


@pytest.mark.slow
def test_status_survives_a_journal_that_is_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "shipped", lambda: tmp_path / "unpublished")
    folder = tmp_path / journal.FOLDER
    folder.mkdir(parents=True)
    (folder / "x-1-1.jsonl").write_bytes(HOSTILE["not UTF-8"])
    words = [f"results_dir={tmp_path}", "protocol=smoke", "task=passkey", "method=rope"]
    assert status.main(words) == 0
    assert "0  running" in capsys.readouterr().out


# -- standard streams ------------------------------------------------------------------------------


def shell(folder: Path, words: str, redirected: str) -> subprocess.CompletedProcess[str]:
    """A command of posbench, with its streams as a shell leaves them."""
    line = f"exec '{sys.executable}' -m {words} {redirected}"
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=400
    )


@pytest.mark.fault("a standard output that is full")
def test_a_full_standard_output_is_named_and_the_run_is_made(tmp_path: Path) -> None:
    status = forked(_writing_to, Path("/dev/full"), tmp_path, "training.steps=4")
    assert status == 1, "what was to be shown is lost"
    said = (tmp_path / "err").read_text()
    assert said.count("\n") == 1 and "results/local" not in said
    assert "standard output cannot be written to (No space left on device)" in said
    (path,) = tmp_path.rglob("seed=0.json")
    assert json.loads(path.read_text())["rows"]


@pytest.mark.slow
@pytest.mark.fault("standard streams that are closed, full or only to be read")
@pytest.mark.parametrize(
    ("redirected", "rc"),
    [
        ("<&- >&- 2>&-", 0),
        ("1</dev/null", 1),
        *(pytest.param(each, 0, marks=pytest.mark.slow) for each in (">&-", "2>/dev/full", "2>&-")),
    ],
)
def test_no_state_of_the_standard_streams_is_a_traceback(
    tmp_path: Path, redirected: str, rc: int
) -> None:
    making.save(tmp_path / "own", making.record())
    done = shell(tmp_path, "posbench records columns", redirected)
    assert done.returncode == rc and "Traceback" not in done.stderr, done.stderr
    if rc:
        assert "standard output cannot be written to (Bad file descriptor)" in done.stderr


@pytest.mark.fault("a reader of a sweep's output that goes away")
@pytest.mark.slow
def test_a_reader_that_goes_away_is_one_sentence(tmp_path: Path) -> None:
    status = forked(_writing_to, None, tmp_path, "-m", "seed=0,1", "plan_only=true")
    assert status == 128 + signal.SIGPIPE
    said = (tmp_path / "err").read_text()
    assert said.count("\n") == 1 and "nobody reads its output" in said


@pytest.mark.slow
@pytest.mark.fault("a reader of the help that goes away")
@pytest.mark.parametrize("words", ["--help", "--info defaults", "board --help"])
def test_help_without_a_reader_is_quiet(tmp_path: Path, words: str) -> None:
    done = shell(tmp_path, f"posbench {words}", "| true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "memory does not hold what this needs"),
        (OSError(errno.EMFILE, "Too many open files"), "raise the limit (ulimit -n)"),
    ],
)
def test_what_the_system_refuses_has_a_sentence_that_helps(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> int:
        raise error

    assert exit_status.exit_status(act) == 1
    assert said in capsys.readouterr().err


@pytest.mark.fault("too many open files under a run")
def test_too_many_open_files_are_not_blamed_on_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match=r"ulimit -n") as found, disk.writing_to(tmp_path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert str(tmp_path) not in str(found.value)


# -- the number of threads -------------------------------------------------------------------------


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.fault("a training that goes on with another number of threads")
def test_a_training_goes_on_with_the_threads_that_it_began_with(tmp_path: Path) -> None:
    expected = trained(tiny(tmp_path / "undisturbed", *QUICK))
    run = tiny(tmp_path / "resumed", *QUICK)
    interrupted(run, 5)
    console, said = told()
    with threads(2):
        found = trained(run, console)
        assert torch.get_num_threads() == 2, "tests have what is asked for"
    assert "began with 1 thread and goes on so: with trainer.threads=2" in said()
    assert (found.log.threads, found.record().threads) == (1, 1)
    assert found.log.curve == expected.log.curve
    for name, value in expected.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name


@pytest.mark.slow
def test_trainings_in_step_leave_one_of_other_threads_alone(tmp_path: Path) -> None:
    run = tiny(tmp_path, *QUICK)
    checkpoints, last, _ = interrupted(run, 5)
    settings = next(run.config.training.candidates.__iter__())
    assert checkpoints.step(last.parent.name, settings) == 4
    with threads(2):
        assert checkpoints.step(last.parent.name, settings) is None


# -- rows beside the weights -----------------------------------------------------------------------


def test_rows_without_the_extension_are_those_of_these_versions_this_device_and_threads(
    tmp_path: Path,
) -> None:
    record = making.record()
    rows = WithoutExtension(record, tmp_path)
    rows.keep(record.rows)
    assert rows.rows() == record.rows
    versions = record.evaluated.versions | {"torch": "1.0.0"}
    for values in (
        {"evaluated.versions": versions},
        {"evaluated.device": "a GPU"},
        {"evaluated.threads": 2},
    ):
        assert WithoutExtension(making.changed(record, values), tmp_path).rows() is None
    one = making.changed(record, {"evaluated.threads": 1})
    assert WithoutExtension(one, tmp_path).rows() == record.rows
    rows.path.write_bytes(b"\xff")
    assert rows.rows() is None, "measured again"


def test_the_bytes_of_a_file_are_those_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    assert read_bytes(tmp_path / "file") == b"\xff"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe"):
        read_bytes(tmp_path / "pipe")


def test_a_file_with_a_long_name_is_written_whole(tmp_path: Path) -> None:
    """File systems allow 255 bytes; the name of what is written beside it is not longer."""
    path = tmp_path / f"{'é' * 124}.jsonl"
    disk.write_bytes(b"{}", path)
    assert path.read_bytes() == b"{}" and [*tmp_path.iterdir()] == [path]
