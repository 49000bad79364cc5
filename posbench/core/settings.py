"""The schema of a resolved configuration: types, ranges, and one sentence for every mistake.

Groups that instantiate a class (encoding, extension, task, logger) stay free mappings: the class's
own constructor is their schema. What answers before a configuration is composed does not import
this module, because pydantic takes a fifth of a second.
"""

from __future__ import annotations

import functools
import math
import typing
from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from string import hexdigits
from typing import Annotated, Any, Literal

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

from posbench.base.errors import OF_A_RESOLVER, ConfigError, TaskLacks, place_and_reason
from posbench.base.wording import no_setting, shown

LARGEST_SEED = 2**63 - 1
LARGEST = 2**53  # of what is counted, which is multiplied with other numbers
LONGEST = 2**24
"""Symbols of a test. Beyond it even looking for the lengths that fit takes minutes."""
MOST_THREADS = 1024
"""With tens of thousands a process dies in the library that starts them."""


def _number(value: Any) -> Any:
    """Refuse what pydantic would take for a number: true, and a text such as '1000'."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    if isinstance(value, str) and _reads_as_number(value):
        raise ValueError("must be a number, not a text: write it without quotes")
    return value


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(value: Any) -> Any:
    """Refuse what pydantic would take for 1000: whoever writes 1e3 may have meant a fraction."""
    if isinstance(value, float):
        raise ValueError("must be an integer, written without a point or an exponent")
    return _number(value)


def _rates(value: Any) -> float | list[float]:
    """Check one learning rate, or a list to choose from; ConfigError if it cannot work."""
    rates = value if isinstance(value, list) else [value]
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ConfigError(
                "training.learning_rate must be positive and finite, or a list of such, got "
                f"{value}"
            )
    if not rates or len(set(rates)) < len(rates):
        raise ConfigError(
            "training.learning_rate lists rates to choose from, each once and one at least, got "
            f"{value}"
        )
    return [float(rate) for rate in rates] if isinstance(value, list) else float(value)


Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LARGEST)]
Amount = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST)]
Number = Annotated[float, BeforeValidator(_number)]
Factor = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[Number, Field(ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]  # hashes distinguish true and 1
Text = Annotated[str, Field(coerce_numbers_to_str=True)]  # a folder may be called 2026


@dataclass
class ModelConfig:
    width: Count = 64
    num_layers: Count = 2
    num_heads: Count = 2
    mlp_ratio: Amount = 4  # width of the MLP in widths of the model; 0: no MLP
    dropout: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # of embeddings and what each layer adds
    embedding_std: Factor = 1.0
    head_width: Count = 32
    qk_norm: Flag = False  # queries and keys of one length
    output_gate: Flag = False  # on what attention found, before it is projected
    short_conv: Amount = 0  # tokens that a convolution of q, k and v spans, its own too; 0: none
    loops: Count = 1  # how often all blocks are applied, with the same weights


OF_METHODS: dict[str, bool | int] = {
    name: getattr(ModelConfig(), name) for name in ("qk_norm", "output_gate", "short_conv", "loops")
}
"""The settings of the model that belong to a method, not to the protocol: what its paper's claim
rests on beside the encoding. Each has the value at which it is off, as a protocol leaves it.
"""


def without_off(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model but for those of methods that are off."""
    return {name: value for name, value in model.items() if OF_METHODS.get(name, ...) != value}


@dataclass
class Until:
    """When the decay of a training begins; see `posbench.core.until_learned`."""

    score: Share = 0.99  # the proficiency of the task, in a validation
    validations: Count = 2  # so many in a row
    least_decay: Count = 300  # steps that the decay takes at least


@dataclass
class TrainingConfig:
    min_length: Amount = 1
    max_length: Count = 1
    length_scale: Factor = 1.0  # multiplies the lengths of every task
    steps: Count = 1
    steps_scale: Factor = 1.0  # multiplies the steps of every task
    batch_size: Count = 64
    num_examples: Amount = 0  # size of a training set seen again and again; 0: always new examples
    packing: Amount = 0  # tokens of context, filled with several sequences; 0: one sequence a row
    random_offset: Amount = 0  # largest number added to all positions of a training sequence
    loss_on: Literal["answer", "all"] = "answer"  # all: every token after the first
    stop_at: Share | None = None  # validation score at which training ends early; null: all steps
    learning_rate: Annotated[Any, AfterValidator(_rates)] = 3e-3  # a list: the lowest loss chooses
    warmup_steps: Amount = 100
    decay: Literal["linear", "cosine"] = "linear"
    decay_fraction: Share = 0.3
    weight_decay: Annotated[Number, Field(ge=0)] = 0.01
    beta1: Share = 0.9
    beta2: Share = 0.98
    gradient_clip: Factor = 1.0
    # Weights stay float32 in all of these, so every test runs in float32.
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    validate_every: Count = 50
    validation_samples: Count = 128
    until: Until | None = None  # the decay begins when the task is learned; null: at a known step

    def __post_init__(self) -> None:
        if 0 < self.num_examples < self.batch_size:
            raise ConfigError(
                f"training.num_examples={self.num_examples} does not fill one batch of "
                f"training.batch_size={self.batch_size}: raise it to {self.batch_size} or more, or "
                "give 0 for new examples at every step"
            )
        if self.max_length < self.min_length:
            raise ConfigError(
                f"training.max_length={self.max_length} must be no less than "
                f"training.min_length={self.min_length}"
            )
        if self.until is not None:
            self._refuse_until(self.until)

    def _refuse_until(self, until: Until) -> None:
        if self.stop_at is not None:
            raise ConfigError(
                f"training.stop_at={self.stop_at:g} ends a training that training.until ends "
                "already: give training.stop_at=null, or ~training.until"
            )
        first = self.validate_every
        decay = max(round(self.decay_fraction * first), until.least_decay)
        if first + decay > self.total_steps:
            raise ConfigError(
                f"training.steps={self.steps} leaves no room for a decay of {decay} steps after "
                f"the first validation at step {first}: raise it to {first + decay} or more, or "
                "lower training.until.least_decay"
            )

    @property
    def content(self) -> dict[str, Any]:
        """The settings as they are hashed: as if there were none that is null and came later."""
        found = asdict(self)
        return found if self.until is not None else without_until(found)

    def after(self, steps: int) -> TrainingConfig:
        """The settings of a training that has made so many steps, as if that had been known
        before: what goes on from it has a fixed number of steps.
        """
        if self.until is None:
            return self
        return replace(self, until=None, steps=steps, steps_scale=1.0)

    @property
    def lengths(self) -> tuple[int, int]:
        """The shortest and longest task length n in training.

        Sequences with nothing in them are drawn only where `min_length` is 0.
        """
        low, high = (round(n * self.length_scale) for n in (self.min_length, self.max_length))
        return max(low, min(self.min_length, 1)), max(high, 1)

    @property
    def candidates(self) -> list[TrainingConfig]:
        """One copy of these settings for each learning rate to choose from."""
        rates = self.learning_rate if isinstance(self.learning_rate, list) else [self.learning_rate]
        return [replace(self, learning_rate=rate) for rate in rates]

    @property
    def total_steps(self) -> int:
        return max(round(self.steps * self.steps_scale), 1)

    def constant_steps(self, made: int) -> int:
        """How many of the steps that a training has made came before the decay of its rate."""
        if self.until is not None:  # each further step before the decay ends it later
            decay, least = self.decay_fraction, self.until.least_decay
            before = range(made, 0, -1)
            return next((b for b in before if b + max(round(decay * b), least) <= made), 0)
        return min(made, math.floor((1 - self.decay_fraction) * self.total_steps))


def without_until(training: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training, but for `until` where it is null."""
    return {name: value for name, value in training.items() if (name, value) != ("until", None)}


@dataclass
class EvaluationConfig:
    # Multiples of the positions of the longest training sequence.
    multiples: list[Factor] = field(default_factory=lambda: [1.0])
    longest: Number = 8.0  # what encodings are told of the longest test, whatever is measured
    ladder: list[Number] = field(default_factory=list)  # beyond, while the one before is at .5
    num_samples: Count = 512
    ladder_samples: Count = 64
    # The second is slower, with the same sequence accuracy.
    decoding: Literal["teacher_forced", "greedy"] = "teacher_forced"

    def __post_init__(self) -> None:
        if 1.0 not in self.multiples:
            raise ConfigError(
                f"evaluation.multiples={self.multiples} must contain 1: without the training "
                "length nobody can tell what was learned"
            )
        if len(set(self.multiples)) < len(self.multiples):
            raise ConfigError(
                f"evaluation.multiples={self.multiples} lists a length twice: give each once"
            )
        if self.longest < max(self.multiples):
            raise ConfigError(
                f"evaluation.longest={self.longest:g} is what encodings are told of the longest "
                f"test: raise it to {max(self.multiples):g}, the largest of evaluation.multiples"
            )
        if (
            self.ladder != sorted(set(self.ladder))
            or min(self.ladder, default=math.inf) <= self.longest
        ):
            raise ConfigError(
                f"evaluation.ladder={self.ladder} must rise, and begin above "
                f"evaluation.longest={self.longest:g}"
            )


def _integers(schema: Any) -> frozenset[str]:
    """The settings of a section that take integers alone."""
    hints = typing.get_type_hints(schema, include_extras=True)
    return frozenset(
        name
        for name, hint in hints.items()
        if BeforeValidator(_whole) in getattr(hint, "__metadata__", ())
    )


INTEGERS = {
    "model": _integers(ModelConfig),
    "training": _integers(TrainingConfig),
    "evaluation": _integers(EvaluationConfig),
}
"""By section, the settings that take integers alone."""


@dataclass
class TrainerConfig:
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    threads: Annotated[Count, Field(le=MOST_THREADS)] = 1
    checkpoint_every: Count = 100
    replicas: Count = 1


@dataclass
class JobConfig:
    """The runs that one job of a sweep has to make; filled in by the sweep."""

    sweep: Text = ""
    runs: list[list[str]] = field(default_factory=list)


FREE = ("task", "encoding", "extension", "logger", "board")
OPTIONAL = ("until",)
"""Sections that a protocol may leave out."""
LENGTHS = ("min_length", "max_length", "steps")
"""The settings of the training that come from the task."""
FILLED_IN = ("train_positions", "test_positions")


@dataclass
class Config:
    task: dict[str, Any] = field(default_factory=dict)
    encoding: dict[str, Any] = field(default_factory=dict)
    extension: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    board: dict[str, Any] | None = None  # what a sweep makes runs of
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_SEED)] = 0
    force: Flag = False
    audit: Amount = 0
    results_dir: Text = "results/local"
    zoo: Text = "results/zoo"
    plan_only: Flag = False
    part: Text = ""
    job: JobConfig = field(default_factory=JobConfig)
    definition: Text = ""  # the hash of the board that the run is for
    train_positions: int = 0  # filled in from the task: number of positions in training
    test_positions: int = 0  # filled in from the task: number of positions in the longest test

    def __post_init__(self) -> None:
        if not self.results_dir.strip():
            raise ConfigError("results_dir is empty: give a folder, or leave it out")
        if set(self.definition) - set(hexdigits.lower()):
            raise ConfigError(
                f"definition={shown(self.definition)} is no hash, and a board fills it in: leave "
                "it out"
            )
        training, longest = (
            self.training.lengths[1],
            max([self.evaluation.longest, *self.evaluation.ladder]),
        )
        if training * longest > LONGEST:
            raise ConfigError(
                f"training.max_length={self.training.max_length} with training.length_scale="
                f"{self.training.length_scale:g} is tested at up to {longest:g} times that, and no "
                f"sequence of more than {LONGEST:,} symbols can be made: lower "
                "training.length_scale or evaluation.longest"
            )


def checked(cfg: DictConfig) -> Config:
    """The typed sections of a composed config; ConfigError if a setting cannot work.

    Encoding, extension and task stay out, because they may still refer to lengths that
    only the task knows.
    """
    for name in FILLED_IN:
        if cfg.get(name):
            raise ConfigError(
                f"{name}={cfg[name]} is not a setting: it follows from the task and its lengths"
            )
    try:
        plain = {str(key): _plain(cfg[key]) for key in cfg if key not in FREE}
    except OmegaConfBaseException as error:
        reason = str(error.msg or error).strip().splitlines()[0].rstrip(".")
        reason = reason.removeprefix(OF_A_RESOLVER)
        place = f"{error.full_key}: " if error.full_key else ""
        raise ConfigError(f"{place}{reason[0].lower()}{reason[1:]}") from None
    _complete(plain, Config)
    try:
        return Config(**plain)
    except ValidationError as error:
        raise ConfigError(setting_refused(error)) from None


def _plain(value: Any) -> Any:
    if not isinstance(value, Container):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)


_kinds = functools.cache(typing.get_type_hints)  # of the settings of a section, by name


def _complete(section: dict[str, Any], schema: Any, prefix: str = "") -> None:
    """Refuse what is not in the schema, and what was deleted: a default would replace it."""
    kinds = _kinds(schema)
    for key, value in section.items():
        if key not in kinds:
            raise ConfigError(no_setting(prefix, key, [k for k in kinds if k not in FILLED_IN]))
        section_of = _section(kinds[key])
        if section_of is not None and not (key in OPTIONAL and value is None):
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{prefix}{key}={shown(value)} replaces a whole section: set one setting of "
                    f"it, as in {prefix}{key}.{fields(section_of)[0].name}=VALUE"
                )
            _complete(value, section_of, f"{prefix}{key}.")
    if prefix == "training." and (lacking := [key for key in LENGTHS if key not in section]):
        raise TaskLacks(*lacking)
    for key in kinds:
        if key not in section and key not in (*FREE, *OPTIONAL):
            raise ConfigError(
                f"{prefix}{key} is missing, and every run needs it: leave out ~{prefix}{key} or "
                "give it a value"
            )


def _section(kind: Any) -> Any:
    """The class of a section of settings, null or not; None for a single setting."""
    return next((each for each in (kind, *typing.get_args(kind)) if is_dataclass(each)), None)


def setting_refused(error: ValidationError) -> str:
    """The sentence about the first setting that pydantic, or a check of ours, refuses."""
    first = error.errors(include_url=False)[0]
    if isinstance(own := first.get("ctx", {}).get("error"), ConfigError):
        return str(own)
    place, reason = place_and_reason(error)
    must = reason.partition(", unable to")[0].replace("input should", "must")
    return f"{place} {must}, got {shown(first['input'])}"
