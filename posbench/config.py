"""The schema of a resolved configuration: types, ranges, and one sentence for every mistake.

Groups that instantiate a class (encoding, extension, task, logger) stay free mappings: the class's
own constructor is their schema.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException, ValidationError

from posbench.errors import ConfigError
from posbench.wording import closest, known_names, shown

LARGEST_SEED = 2**63 - 1
SETTINGS = "python -m posbench --cfg job"
KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
"""Simple types, as a sentence about a wrong value names them."""


def _at_least(name: str, value: float, low: float) -> None:
    if value < low:
        raise ConfigError(f"{name} must be at least {low}, got {value}")


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is a share and must lie between 0 and 1, got {value}")


@dataclass
class ModelConfig:
    width: int = 64
    num_layers: int = 2
    num_heads: int = 2
    mlp_ratio: int = 4  # width of the MLP in widths of the model; 0: no MLP
    dropout: float = 0.0  # of the embeddings and of what each layer adds
    embedding_std: float = 1.0
    head_width: int = 32
    qk_norm: bool = False  # queries and keys of one length
    output_gate: bool = False  # on what attention found, before it is projected
    short_conv: int = 0  # tokens that a convolution of q, k and v spans, its own too; 0: none

    def __post_init__(self) -> None:
        for name in ("width", "num_layers", "num_heads", "head_width"):
            _at_least(f"model.{name}", getattr(self, name), 1)
        _at_least("model.mlp_ratio", self.mlp_ratio, 0)
        _at_least("model.short_conv", self.short_conv, 0)
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"model.dropout must be at least 0 and below 1, got {self.dropout}")
        if self.embedding_std <= 0:
            raise ConfigError(f"model.embedding_std must be positive, got {self.embedding_std}")


OF_METHODS: dict[str, bool | int] = {
    name: getattr(ModelConfig(), name) for name in ("qk_norm", "output_gate", "short_conv")
}
"""The settings of the model that belong to a method, not to the protocol: what its paper's claim
rests on beside the encoding. Each has the value at which it is off, as a protocol leaves it.
"""


def without_off(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model but for those of methods that are off."""
    return {name: value for name, value in model.items() if OF_METHODS.get(name, ...) != value}


CHOICES = {
    "loss_on": ("answer", "all"),
    "decay": ("linear", "cosine"),
    # Weights stay float32 in all of these, so every test runs in float32.
    "precision": ("32-true", "bf16-mixed", "16-mixed"),
}


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


@dataclass
class TrainingConfig:
    min_length: int = 1
    max_length: int = 1
    length_scale: float = 1.0  # multiplies the lengths of every task
    steps: int = 1
    steps_scale: float = 1.0  # multiplies the steps of every task
    batch_size: int = 64
    num_examples: int = 0  # size of the training set, seen again and again; 0: always new examples
    packing: int = 0  # tokens of context, filled with several sequences; 0: one sequence a row
    random_offset: int = 0  # largest number added to all positions of a training sequence
    loss_on: str = "answer"  # or "all": every token after the first
    stop_at: float | None = None  # validation score at which training ends early; null: all steps
    learning_rate: Any = 3e-3  # or a list: the lowest in-distribution loss chooses
    warmup_steps: int = 100
    decay: str = "linear"  # or "cosine"
    decay_fraction: float = 0.3
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    gradient_clip: float = 1.0
    precision: str = "32-true"
    validate_every: int = 50
    validation_samples: int = 128

    def __post_init__(self) -> None:
        self.learning_rate = _rates(self.learning_rate)
        for name in ("length_scale", "steps_scale", "gradient_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(
                    f"training.{name} must be positive and finite, got {getattr(self, name)}"
                )
        for name in ("steps", "batch_size", "validate_every", "validation_samples"):
            _at_least(f"training.{name}", getattr(self, name), 1)
        for name in ("warmup_steps", "num_examples", "packing", "random_offset"):
            _at_least(f"training.{name}", getattr(self, name), 0)
        if 0 < self.num_examples < self.batch_size:
            raise ConfigError(
                f"training.num_examples={self.num_examples} does not fill one batch of "
                f"training.batch_size={self.batch_size}: raise it to {self.batch_size} or more, or "
                "give 0 for new examples at every step"
            )
        _at_least("training.min_length", self.min_length, 0)
        _at_least("training.weight_decay", self.weight_decay, 0)
        for name in ("decay_fraction", "beta1", "beta2"):
            _share(f"training.{name}", getattr(self, name))
        if self.stop_at is not None:
            _share("training.stop_at", self.stop_at)
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"training.{name}={getattr(self, name)} is unknown: use one of "
                    f"{', '.join(known)}"
                )
        if self.max_length < max(self.min_length, 1):
            raise ConfigError(
                f"training.max_length={self.max_length} must be at least 1 and no less than "
                f"training.min_length={self.min_length}"
            )

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


@dataclass
class EvaluationConfig:
    # Multiples of the positions of the longest training sequence.
    multiples: list[float] = field(default_factory=lambda: [1.0])
    longest: float = 8.0  # what encodings are told of the longest test, whatever is measured
    ladder: list[float] = field(default_factory=list)  # beyond, while the one before is at .5
    num_samples: int = 512
    ladder_samples: int = 64
    decoding: str = "teacher_forced"  # or "greedy": slower, with the same sequence accuracy

    def __post_init__(self) -> None:
        for name in ("num_samples", "ladder_samples"):
            _at_least(f"evaluation.{name}", getattr(self, name), 1)
        known = ("teacher_forced", "greedy")
        if self.decoding not in known:
            raise ConfigError(
                f"evaluation.decoding={self.decoding} is unknown: use one of {', '.join(known)}"
            )
        if 1.0 not in self.multiples:
            raise ConfigError(
                f"evaluation.multiples={self.multiples} must contain 1: without the training "
                "length nobody can tell what was learned"
            )
        if len(set(self.multiples)) < len(self.multiples):
            raise ConfigError(
                f"evaluation.multiples={self.multiples} lists a length twice: give each once"
            )
        for multiple in self.multiples:
            if multiple <= 0:
                raise ConfigError(
                    "evaluation.multiples are factors of the positions of training, got "
                    f"{multiple:g}"
                )
        if self.longest < max(self.multiples):
            raise ConfigError(
                f"evaluation.longest={self.longest:g} is what encodings are told of the longest "
                f"test: raise it to {max(self.multiples):g}, the largest of evaluation.multiples"
            )
        if self.ladder != sorted(set(self.ladder)) or min(self.ladder, default=9e9) <= self.longest:
            raise ConfigError(
                f"evaluation.ladder={self.ladder} must rise, and begin above "
                f"evaluation.longest={self.longest:g}"
            )


@dataclass
class TrainerConfig:
    accelerator: str = "auto"
    threads: int = 1
    checkpoint_every: int = 100
    replicas: int = 1

    def __post_init__(self) -> None:
        _at_least("trainer.threads", self.threads, 1)
        _at_least("trainer.checkpoint_every", self.checkpoint_every, 1)
        _at_least("trainer.replicas", self.replicas, 1)
        known = ("auto", "cpu", "gpu", "cuda", "mps")
        if self.accelerator not in known:
            raise ConfigError(
                f"trainer.accelerator={self.accelerator} is unknown: use one of {', '.join(known)}"
            )


@dataclass
class JobConfig:
    """What one job of a sweep has to do; filled in by the sweep."""

    sweep: str = ""
    runs: list[list[str]] = field(default_factory=list)


FREE = ("task", "encoding", "extension", "logger", "board")
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
    seed: int = 0
    force: bool = False
    audit: int = 0
    results_dir: str = "results/local"
    plan_only: bool = False
    part: str = ""
    job: JobConfig = field(default_factory=JobConfig)
    definition: str = ""  # the hash of the board that the run is for
    train_positions: int = 0  # filled in from the task: number of positions in training
    test_positions: int = 0  # filled in from the task: number of positions in the longest test

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}")
        if self.seed > LARGEST_SEED:
            raise ConfigError(f"seed must be at most 2^63 - 1, got {self.seed}")
        if not self.results_dir.strip():
            raise ConfigError("results_dir is empty: give a folder, or leave it out")
        _at_least("audit", self.audit, 0)


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
    typed = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key not in FREE])
    try:
        plain: Any = OmegaConf.to_container(typed, resolve=True)
        _complete(plain, Config)
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), plain))  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        raise ConfigError(_sentence(error, typed)) from None


def _complete(section: dict[str, Any], schema: Any, prefix: str = "") -> None:
    """Refuse what is not in the schema, and what was deleted: a default would stand in for it."""
    kinds = typing.get_type_hints(schema)
    for key, value in section.items():
        if key not in kinds:
            raise ConfigError(no_setting(prefix, key, [k for k in kinds if k not in FILLED_IN]))
        if is_dataclass(kinds[key]):
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{key}={shown(value)} replaces a whole section: set one setting of it, as in "
                    f"{key}.{fields(kinds[key])[0].name}=VALUE"
                )
            _complete(value, kinds[key], f"{key}.")
    for key in kinds:
        if key not in section and key not in FREE:
            raise ConfigError(
                f"{prefix}{key} is missing, and every run needs it: leave out ~{prefix}{key} or "
                "give it a value"
            )


def no_setting(prefix: str, key: str, known: Collection[str]) -> str:
    """The sentence about a key that is none, in a section ("training.") or at the top ("")."""
    near = closest(key, known)
    meant = f"{prefix}{near}" if near else None
    return f"{prefix}{key} is not a setting: {known_names(known, SETTINGS, meant)}"


def _sentence(error: OmegaConfBaseException, cfg: DictConfig) -> str:
    key = (error.full_key or "").partition("[")[0]  # of a list the whole
    if isinstance(error, ValidationError) and (expected := in_words(_annotation(key))):
        value = OmegaConf.select(cfg, key)
        whole = isinstance(value, float) and value.is_integer() and expected == KINDS[int]
        instead = f": write {value:.0f}" if whole else ""
        return f"{key} must be {expected}, got {shown(value)}{instead}"
    reason = str(error.msg or error).strip().splitlines()[0].rstrip(".")
    return f"{key}: {reason[0].lower()}{reason[1:]}" if key else reason


def _annotation(key: str) -> Any:
    """The type of a setting, by its path: "seed" or "training.steps"."""
    kind: Any = Config
    for part in key.split("."):
        kind = typing.get_type_hints(kind).get(part) if is_dataclass(kind) else None
    return kind


def in_words(annotation: Any) -> str:
    """A simple type as it stands in a sentence about a wrong value; of any other nothing."""
    if typing.get_origin(annotation) is list:
        return "a list of numbers such as [1, 2]"
    kinds = set(typing.get_args(annotation) or {annotation})
    if not kinds <= KINDS.keys():
        return ""
    return " or ".join(text for kind, text in KINDS.items() if kind in kinds)
