"""What a run leaves behind when it is complete: the one place that knows the fields of a record."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from posbench.base.content_hash import content_hash
from posbench.config.names import LONGEST_TEXT, MOST_TEXTS, FileName, MethodName, Name, Text
from posbench.config.provenance import (
    known_hash,
    targets,
    trained_by,
    trained_classes,
    without_places,
)
from posbench.config.record_command import Command
from posbench.core.row import COUNTED, Loss, Part, Row, Score, View
from posbench.core.settings import LARGEST_SEED

SCHEMA = 4
MEANINGLESS = {
    "smoke": "The smoke protocol only proves that the code runs; its accuracies mean nothing."
}
"""The sentence shown beside numbers of a protocol whose numbers are no results."""
CONFIGURED = ("task", "encoding", "extension", "evaluation")
"""Sections of the settings that a record cannot be read without."""
READ = ("model", "training", "sources")
"""Sections that are read where they are there."""
DEEPEST = 64
"""Levels of settings; of those that posbench writes, the deepest has about eight."""


MOST_LENGTHS = 4096
"""Rows of a record: tests at so many lengths are no test of this suite."""
MOST_VALUES = 20_000
"""Of settings: what has more is made to fill the memory."""


def _refuse_strange(node: Any) -> None:
    """ValueError for more levels or values than settings have, and for a number that JSON has not;
    without recursion, which has a limit.
    """
    level, values_left = [node], MOST_VALUES
    for _ in range(DEEPEST):
        lists = [each.values() if isinstance(each, dict) else each for each in level]
        inside = [each for values in lists for each in values]
        values_left -= len(inside)
        if values_left < 0:
            raise ValueError(f"has more than {MOST_VALUES:,} values")
        if any(isinstance(each, float) and not math.isfinite(each) for each in inside):
            raise ValueError("has a number that is not finite")
        level = [each for each in inside if isinstance(each, dict | list)]
        if not level:
            return
    raise ValueError(f"is nested more than {DEEPEST} deep")


Seconds = Annotated[float, Field(ge=0)]


class RecordedCurve(Part):
    """Validations in the course of a training; a list holds one entry a validation."""

    step: list[Annotated[int, COUNTED]]
    loss: list[float]  # of training, nats, mean since the validation before
    validation_loss: list[float]  # nats, on held-out sequences of the training length
    score: list[Score]  # the proficiency, on the same

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not len(self.step) == len(self.loss) == len(self.validation_loss) == len(self.score):
            raise ValueError("lists of a curve are of unlike length")
        return self


class Rate(Part):
    """A learning rate that was tried."""

    learning_rate: float
    loss: Loss  # in distribution, at the end; none: it diverged


def weights_hash(settings_hash: str, source_hash: str) -> str:
    """The hash of all that trained weights depend on, from that of the settings and of the code."""
    return content_hash([settings_hash, source_hash])


class Origin(Part):
    """Where the weights of a training, or the numbers of a test, come from."""

    source_hash: Text  # of the code that they depend on
    device: Text
    cpu: Text | None = None  # its kind; none: the record is older, or of several machines
    threads: int | None = Field(default=None, ge=1)  # of torch; none: one, or not known
    commit: Text | None
    versions: Annotated[dict[Text, Text], Field(max_length=MOST_TEXTS)]

    @property
    def hardware(self) -> str:
        """The device, and of a CPU its kind, where it is known, and its threads, where there were
        several: "cpu (AuthenticAMD avx512f, 4 threads)".
        """
        if self.device != "cpu":
            return self.device
        several = self.threads is not None and self.threads > 1
        known = [self.cpu] * bool(self.cpu) + [f"{self.threads} threads"] * several
        return f"{self.device} ({', '.join(map(str, known))})" if known else self.device


class RecordedTraining(Origin):
    """One training: what all runs share whose weights are these."""

    settings_hash: Text  # of the settings, task and seed that the weights depend on
    train_length: int = COUNTED  # the longest n
    train_positions: int = COUNTED
    learning_rate: float
    learning_rates: list[Rate] | None = None  # where there were several to choose from
    steps: Annotated[int, COUNTED] | None  # that were made; none: it diverged
    parameters: int = COUNTED
    # Multiplications of one step, see `running.train.multiplications`; none: the record is older.
    multiplications: Annotated[int, COUNTED] | None = None
    curve: RecordedCurve
    cpu_seconds: Seconds  # of several in step its share, as with `wall_seconds`
    wall_seconds: Seconds
    replicas: int = Field(default=1, ge=1)  # trainings that were made in step, this one among them

    @property
    def hash(self) -> str:
        """The hash of all that the weights depend on: runs that share it share them."""
        return weights_hash(self.settings_hash, self.source_hash)

    def made_weights_of(self, other: RecordedTraining) -> bool:
        """Whether two trainings of one hash ended in the same weights, by their losses, which are
        rounded where a record is published: another kind of processor makes other weights.
        """
        pairs = zip(self.curve.loss, other.curve.loss, strict=False)
        same = len(self.curve.loss) == len(other.curve.loss)
        return same and all(math.isclose(*pair, rel_tol=1e-3) for pair in pairs)

    @property
    def gpu_seconds(self) -> float:
        """What the training held a GPU for; 0 on a CPU."""
        return 0.0 if self.device == "cpu" else self.wall_seconds


class RecordedTrial(Part):
    """Settings that a search tried; empty: the defaults."""

    settings: dict[str, Any]
    loss: Loss  # nats, on the validation length


class Search(Part):
    """Settings chosen by their loss on a length that is no test length; the first trial is best."""

    length: int  # n
    num_samples: int
    trials: list[RecordedTrial] = Field(min_length=1)

    @property
    def chosen(self) -> dict[str, Any]:
        return self.trials[0].settings


class RecordedFineTuning(Part):
    """The training that went on with the extension before the test."""

    hash: Text
    steps: int = COUNTED
    lengths: tuple[int, int]  # n, shortest and longest
    curve: RecordedCurve
    device: Text


class CeilingTraining(Part):
    """The training of a ceiling at one test length."""

    test_length: int = COUNTED
    hash: Text
    learning_rate: float
    steps: int = COUNTED
    cpu_seconds: Seconds


class TextSums(Part):
    """The tokens of one test length, summed by text; a list holds one entry a text."""

    test_length: int = COUNTED  # n
    tokens: list[Annotated[int, COUNTED]]  # that were asked for; 0: the text is not in this test
    nats: list[Loss]  # their losses in all; none: they overflowed
    right: list[Annotated[int, COUNTED]]  # how many were right, under teacher forcing


class ByText(Part):
    """Tests that ask for the same tokens at every length, by the texts that these are from."""

    names: list[Text] = Field(min_length=1, max_length=MOST_LENGTHS)
    tests: list[TextSums] = Field(max_length=MOST_LENGTHS)

    @model_validator(mode="after")
    def _by_text(self) -> Self:
        """Every list has an entry a text."""
        lists = [each for test in self.tests for each in (test.tokens, test.nats, test.right)]
        if any(len(each) != len(self.names) for each in lists):
            raise ValueError("lists of texts are of unlike length")
        return self


class RecordedEvaluation(Origin):
    """How the trained weights were tested."""

    preparation_cpu_seconds: Seconds  # of a search
    further_training_cpu_seconds: (
        Seconds  # of fine-tuning or a ceiling, whichever run it took place in
    )
    evaluation_cpu_seconds: Seconds


class CarriedOver(Part):
    """The record was made by other source, and a sample of its stratum came out the same today."""

    source_hash: Text  # of the training, as it was
    evaluation_hash: Text
    verified: int = COUNTED  # records that were repeated
    of: int = COUNTED  # in the stratum


class Acceptance(Part):
    """The record was sent by others, and a sample of what they sent came out the same here."""

    repeated: bool  # whether it was in that sample
    verified: int = COUNTED  # records that were repeated
    of: int = COUNTED  # that were sent


class Record(Part):
    """One run: protocol, task, method and seed, what came out, and all that it depends on."""

    schema_version: Literal[4] = 4
    protocol: Name
    task: Name
    task_version: int = COUNTED
    measure: Text  # what the score is
    gate: float  # the proficiency at 1x that counts as solved
    method: MethodName
    method_class: Text  # rows are ranked within their class
    scale_policy: Text
    seed: int = Field(ge=0, le=LARGEST_SEED)
    training: RecordedTraining
    # The first validation with a proficiency of the gate.
    solved_step: Annotated[int, COUNTED] | None
    search: Search | None = None
    finetuning: RecordedFineTuning | None = None
    ceiling: Annotated[list[CeilingTraining], Field(max_length=MOST_LENGTHS)] | None = None
    rows: list[Row] = Field(min_length=1, max_length=MOST_LENGTHS)
    views: tuple[View, ...] = Field(default=(), max_length=3 * MOST_LENGTHS)
    by_text: ByText | None = None  # of a task that asks for the same tokens at every length
    config: dict[str, Any]  # the resolved settings
    evaluated: RecordedEvaluation
    command: str  # repeats the run
    definition: str = Field(default="", max_length=64, pattern=r"^[0-9a-f]*$")  # of its board
    carried_over: CarriedOver | None = None
    accepted: Acceptance | None = None
    diverged: Text | None = None  # why there is no model

    @field_validator("config")
    @classmethod
    def _complete(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Refuse settings that lack a section which records and boards read."""
        lacking = [name for name in CONFIGURED if not isinstance(config.get(name), dict)]
        if lacking:
            raise ValueError(f"lacks {', '.join(lacking)}")
        for name in READ:
            if not isinstance(config.get(name, {}), dict):
                raise ValueError(f"{name} is no section of settings")
        loops = config.get("model", {}).get("loops", 1)
        if type(loops) is not int:
            raise ValueError("model.loops is no whole number")
        for each in config.get("sources", {}).values():
            if not isinstance(each, str) or len(each) > LONGEST_TEXT:
                raise ValueError("sources names no modules")
        _refuse_strange(config)
        return config

    @field_validator("command")
    @classmethod
    def _readable(cls, command: str) -> str:
        """Refuse what no shell can read as a command of posbench."""
        Command.parse(command).refuse_hidden()
        return command

    @field_validator("rows")
    @classmethod
    def _once(cls, rows: list[Row]) -> list[Row]:
        """Refuse a length that is there twice."""
        if len({row.test_length for row in rows}) < len(rows):
            raise ValueError("a test length is there twice")
        if len({row.multiple for row in rows}) < len(rows):
            raise ValueError("a multiple is there twice")
        return rows

    @model_validator(mode="after")
    def _tested(self) -> Self:
        """Refuse sums by text of a length that was not tested."""
        tested = {row.test_length for row in self.rows}
        if self.by_text and not {test.test_length for test in self.by_text.tests} <= tested:
            raise ValueError("by_text has a length that was not tested")
        return self

    @property
    def run(self) -> tuple[str | int, ...]:
        """What distinguishes runs, names and contents: a later record of a run takes its place."""
        names = (self.protocol, self.task, self.method)
        parts = [part for name in names for part in (name.label, name.hash)]
        return (*parts, self.task_version, self.seed)

    @property
    def solved(self) -> bool:
        """Whether the test at the training length reached the gate of the task."""
        return next((row.proficiency for row in self.rows if row.multiple == 1), 0.0) >= self.gate

    @property
    def plain(self) -> bool:
        """Whether the encoding was tested as it was trained, without an extension."""
        return without_places(self.config["extension"]) == {"_target_": "Direct"}

    @property
    def sources(self) -> tuple[str, str]:
        """The modules whose code, with the run's own classes, made the weights and the scores.

        Those of the suite, unless its settings name others: of a model that came as it is, the code
        of the samples is in the first place.
        """
        named = self.config.get("sources", {})
        names = {
            "training": trained_by(self.config.get("training", {})),
            "evaluation": "posbench.core.evaluation",
        } | named
        return names["training"], names["evaluation"]

    @property
    def source_hashes_today(self) -> tuple[str, str]:
        """The hashes that this code has now."""
        trained, tested = self.sources
        # How a pretrained model is mounted, where it needs a class of its own for that.
        answered = [self.config["extension"], self.config["encoding"].get("mounted")]
        classes = frozenset(targets(answered))
        return known_hash(trained, trained_classes(self.config)), known_hash(tested, classes)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds before the test: the shared training, and what this row did after it."""
        search = self.evaluated.preparation_cpu_seconds if self.search else 0.0
        return self.training.cpu_seconds + self.evaluated.further_training_cpu_seconds + search

    def as_json(self) -> dict[str, Any]:
        """Its content, without what it does not have: sums by text, which most tasks have not, and
        multiplications, which older records have not. So an older record keeps its bytes.
        """
        left_out: dict[str, Any] = {}
        if self.by_text is None:
            left_out["by_text"] = True
        if self.training.multiplications is None:
            left_out["training"] = {"multiplications"}
        return self.model_dump(mode="json", by_alias=True, exclude=left_out)


class AuditRow(Part):
    """Greedy decoding beside teacher forcing, at one test length."""

    test_length: int = COUNTED
    num_samples: int = COUNTED
    disagreements: int = COUNTED  # sequences that one calls right and the other wrong
    prefix_disagreements: int = COUNTED  # sequences whose correct prefix differs


class Audit(Part):
    """A run whose test was also decoded token by token; the names are slugs."""

    protocol: FileName
    task: FileName
    method: FileName
    seed: int
    source_hash: Text
    evaluation_hash: Text
    asked: int = 0
    """How many sequences of each length were asked for; a task may draw a few less."""
    rows: list[AuditRow]

    @property
    def agrees(self) -> bool:
        """Whether greedy decoding and teacher forcing found the same everywhere."""
        return not any(row.disagreements or row.prefix_disagreements for row in self.rows)

    @property
    def key(self) -> tuple[str | int, ...]:
        """The run as it was: an audit counts for that record alone."""
        names = (self.protocol, self.task, self.method, self.seed)
        return (*names, self.source_hash, self.evaluation_hash)

    @staticmethod
    def key_of(record: Record) -> tuple[str | int, ...]:
        names = (record.protocol.slug, record.task.slug, record.method.slug, record.seed)
        return (*names, record.training.source_hash, record.evaluated.source_hash)
