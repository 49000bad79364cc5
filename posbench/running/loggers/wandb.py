"""Weights & Biases, imported only where it is chosen."""

from __future__ import annotations

import logging
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import wandb
from lightning.pytorch.loggers import WandbLogger

from posbench.records import files
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers.metrics import About
from posbench.showing.figures import depth_map_pixels, score_by_length
from posbench.showing.pages import Chapter, Page, Picture
from posbench.showing.table import NOTHING, Line, Markdown, Table, code, number

STEP = metrics.STEP
MULTIPLE = metrics.tested("multiple")
HIDING: dict[str, Any] = {
    "x_disable_meta": True,  # the command line, interpreter, user, working directory, hardware
    "x_disable_machine_info": True,
    "x_disable_stats": True,  # curves of the system
    "x_save_requirements": False,
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "save_code": False,
    "host": "posbench",
}
"""Settings under which W&B is told nothing of the machine, its user or what is installed there."""


class Wandb(WandbLogger):
    """Offline unless told otherwise, and silent: no banner, no question for an account.

    Tests have an axis of their own, multiples of the trained length, which runs of all tasks
    share. Every metric is defined by its name and nothing by a pattern: Lightning defines `*` on
    its step, and a pattern that comes later loses against it. A run that is handed to Lightning,
    as here, is not touched by that.

    Where there is no key, a wrong one, no network, or a server that does not answer, the run is
    kept offline, and a message says so once a process. `patience` is how many seconds it waits for
    the server at the beginning and at the end.

    A run has the id of what it finds, so one that is stopped and goes on is one W&B run, in as many
    files as it was begun. W&B sends these in their order.

    What is sent are names, settings, curves and scores, the record with its page as files, and the
    versions of W&B and Python. The record names the kind of CPU or GPU and the version of torch.
    With `machine` W&B also adds what it gathers by itself: the name of the host, the path of the
    interpreter, the command line, the user, the packages, the console and curves of the system.
    A run that is kept offline has the paths at which W&B keeps copies of its table and files;
    `wandb sync` reads them there and sends what they hold.
    """

    unreachable: ClassVar[bool] = False
    """In this process the server was not reached; asking again would cost the patience again."""

    def __init__(
        self,
        offline: bool = True,
        patience: float = 30.0,
        machine: bool = False,
        tags: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        # Before `wandb.init`, whose own settings come too late to silence what it says about its
        # arguments; and without this mode it would ask the server who we are.
        wandb.setup(wandb.Settings(silent=True, mode="offline" if offline else "online"))
        super().__init__(offline=offline, **settings)
        self.hiding = {} if machine else _known(HIDING)
        if not machine:
            logging.getLogger("wandb").setLevel(logging.WARNING)  # its log names folders
        self.patience, self.tags = patience, tuple(tags)
        self.say: Callable[[str], None] = print
        self.complete = True  # whether all that was told has arrived where it was sent

    @property
    def kept(self) -> str:
        run: Any = self._experiment
        if run is None or not run.offline:
            return ""
        last = Path(run.settings.sync_dir)
        folders = sorted({last, *last.parent.glob(f"offline-run-*-{run.id}")})
        parts = " ".join(shlex.quote(str(each)) for each in folders)
        return f"W&B run, kept offline; it is sent by: wandb sync {parts}"

    def begin(self, about: About, say: Callable[[str], None]) -> None:
        """Open the run, at the server or in a file."""
        self.say = say
        own = {name: value for name, value in self._wandb_init.items() if value is not None}
        arguments: dict[str, Any] = {
            "name": about.title,
            "group": about.group,
            "job_type": about.job_type,
        }
        arguments |= ({"id": about.id, "resume": "allow"} if about.id else {}) | own
        arguments["tags"] = [*about.tags, *self.tags]
        self._experiment = run = self._opened(arguments)
        run.define_metric(metrics.STEP, hidden=True, summary="none")
        for name in (*metrics.CURVE, *metrics.OF_STEPS):
            run.define_metric(name, step_metric=metrics.STEP, summary="none")
        run.define_metric(metrics.LENGTH, hidden=True, summary="none")
        run.define_metric(MULTIPLE, hidden=True, summary="none")
        for name in map(metrics.tested, metrics.TESTED):
            if name != MULTIPLE:
                run.define_metric(name, step_metric=MULTIPLE, summary="none")

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """A point of the training's curve, under W&B's own step as well: where a training goes on
        from its checkpoint, W&B then knows the steps that it has been told of.
        """
        if step is None:
            self.experiment.log(dict(metrics))
        else:
            self.experiment.log({**metrics, STEP: step}, step=step)

    def log_record(self, record: Record) -> None:
        """The tests on their axis, all cells as a table, the depth map, the summary, the files."""
        try:
            self._log_record(record)
        except Exception as error:  # whatever W&B meets, the record is written
            self._remark(error, "`posbench records upload` sends the record later")

    def _log_record(self, record: Record) -> None:
        run: Any = self.experiment
        # After the last step, also where the training has been logged by a process before.
        step = max(run.step, record.training.steps or 0) + 1
        for length, values in metrics.tests(record):
            run.log({metrics.LENGTH: length} | values, step=step)
            step += 1
        columns, data = metrics.cells(record)
        last: dict[str, Any] = {metrics.CELLS: wandb.Table(columns=[*columns], data=data)}
        if (picture := depth_map_pixels(record.rows, record.views)) is not None:
            last[metrics.DEPTH_MAP] = wandb.Image(picture, caption=record.method.label)
        run.log(last, step=step, commit=True)
        run.log_artifact(artifact(record, f"record-{run.id}"))
        run.summary.update(metrics.summary(record))
        run.tags = (*run.tags, *({record.method_class} - set(run.tags)))

    def close(self) -> None:
        """End the W&B run; otherwise the next run of a sweep would go on in this one."""
        run: Any = self._experiment
        if run is None:
            return
        folder = run.settings.sync_dir
        try:
            run.finish()
        except Exception as error:  # whatever W&B meets, the record is written
            self._remark(error, f"what it lacks is in {folder}: `wandb sync {folder}`")

    def _opened(self, arguments: dict[str, Any]) -> Any:
        if not self._offline:
            try:
                if not Wandb.unreachable:
                    return self._online(arguments)
            except Exception as error:  # whatever W&B meets, the run goes on
                self._remark(error, "runs are kept offline, for `wandb sync`")
            self.complete = False
        alone = wandb.Settings(silent=True, **self.hiding)
        return wandb.init(**arguments, mode="offline", settings=alone)

    def _online(self, arguments: dict[str, Any]) -> Any:
        if not wandb.api.api_key:  # W&B would ask the terminal for one, and wait
            raise wandb.errors.UsageError("no API key: `wandb login`, or set WANDB_API_KEY")
        limits = wandb.Settings(
            silent=True,
            init_timeout=self.patience,
            login_timeout=self.patience,
            finish_timeout=self.patience,
            finish_timeout_raises=True,
            **self.hiding,
        )
        return wandb.init(**arguments, mode="online", settings=limits)

    def _remark(self, error: Exception, consequence: str) -> None:
        self.complete = False
        if not Wandb.unreachable:
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            self.say(f"W&B was not reached ({reason}); {consequence}.")
        Wandb.unreachable = True


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Those that this version of W&B has."""
    return {name: value for name, value in settings.items() if name in wandb.Settings.model_fields}


# -- the record as a file, and a page of it --------------------------------------------------------


def artifact(record: Record, name: str) -> wandb.Artifact:
    """The record as the results folder has it, and its page."""
    found = wandb.Artifact(name, type="record", description=About.of(record, record.seed).title)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        files.write(record, path)
        found.add_file(str(path))  # W&B keeps a copy
        path = Path(folder) / "page.html"
        path.write_text(page(record), encoding="utf-8")
        found.add_file(str(path))
    return found


def page(record: Record) -> str:
    """One file that needs no network: the scores by length, the summary and the command."""
    tested = [row for row in record.rows if row.multiple >= 1]
    picture = score_by_length({record.method.label: tested}, record.measure)
    lengths = [
        Line(
            f"{row.multiple:g}x",
            [
                str(row.test_length),
                number(row.score),
                NOTHING if row.loss is None else f"{row.loss:.4g}",  # without a model, or too large
            ],
        )
        for row in record.rows
    ]
    summary = [
        Line(name, [f"{value:.4g}" if isinstance(value, float) else str(value)])
        for name, value in metrics.summary(record).items()
    ]
    chapters = [
        Chapter("By length", [Table.of(["length", "n", record.measure, "loss"], lengths)]),
        Chapter("Summary", [Table.of(["name", "value"], summary)]),
        Chapter("Made by", [Markdown(code(record.command))]),
    ]
    title, foot = About.of(record, record.seed).title, [Markdown("Made by posbench of one record.")]
    return Page(title, chapters, foot, picture=Picture(picture)).html()
