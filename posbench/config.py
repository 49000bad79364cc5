"""The schema of a resolved configuration: types, ranges, and one sentence for every mistake.

Groups that instantiate a class (encoding, extension, task, logger) stay free mappings: the class's
own constructor is their schema.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from posbench.errors import ConfigError


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
    mlp_ratio: int = 4  # the MLP's width in units of the model's; 0: no MLP
    dropout: float = 0.0  # on the embeddings and on what each layer adds
    rotary_share: float = 0.25  # share of a head's channels, for encodings that rotate only a part
    embedding_std: float = 1.0
    head_width: int = 0  # filled in: width / num_heads

    def __post_init__(self) -> None:
        for name in ("width", "num_layers", "num_heads"):
            _at_least(f"model.{name}", getattr(self, name), 1)
        _at_least("model.mlp_ratio", self.mlp_ratio, 0)
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"model.dropout must be at least 0 and below 1, got {self.dropout}")
        if self.embedding_std <= 0:
            raise ConfigError(f"model.embedding_std must be positive, got {self.embedding_std}")
        if self.width % self.num_heads:
            fits = [
                h
                for h in range(1, self.width + 1)
                if self.width % h == 0 and h <= 4 * self.num_heads
            ]
            raise ConfigError(
                f"model.num_heads={self.num_heads} does not divide model.width={self.width}: "
                f"choose one of {', '.join(map(str, fits))}"
            )
        if self.head_width not in (0, self.width // self.num_heads):
            raise ConfigError(
                f"model.head_width={self.head_width} is not a setting: it follows from model.width "
                "and model.num_heads"
            )
        self.head_width = self.width // self.num_heads


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
        """The shortest and longest task length n in training."""
        low, high = (round(n * self.length_scale) for n in (self.min_length, self.max_length))
        return low, max(high, 1)

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
    multiples: list[float] = field(default_factory=lambda: [1.0])
    further: list[float] = field(default_factory=list)  # measured and shown, but in no mean
    num_samples: int = 512
    decoding: str = "teacher_forced"  # or "greedy": slower, with the same sequence accuracy
    solved: float = 0.95

    def __post_init__(self) -> None:
        _at_least("evaluation.num_samples", self.num_samples, 1)
        _share("evaluation.solved", self.solved)
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
        for multiple in (*self.multiples, *self.further):
            if multiple <= 0:
                raise ConfigError(
                    f"evaluation.multiples are factors of the training length, got {multiple}"
                )


@dataclass
class TrainerConfig:
    accelerator: str = "auto"
    threads: int = 1
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        _at_least("trainer.threads", self.threads, 1)
        _at_least("trainer.checkpoint_every", self.checkpoint_every, 1)
        known = ("auto", "cpu", "gpu", "cuda", "mps")
        if self.accelerator not in known:
            raise ConfigError(
                f"trainer.accelerator={self.accelerator} is unknown: use one of {', '.join(known)}"
            )


@dataclass
class Config:
    task: dict[str, Any] = field(default_factory=dict)
    encoding: dict[str, Any] = field(default_factory=dict)
    extension: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: int = 0
    force: bool = False
    audit: int = 0
    results_dir: str = "results/local"
    train_positions: int = 0  # filled in from the task: number of positions in training
    test_positions: int = 0  # filled in from the task: number of positions in the longest test

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}")
        _at_least("audit", self.audit, 0)


def checked(cfg: DictConfig) -> Config:
    """The typed sections of a composed config; ConfigError if a setting cannot work.

    Encoding, extension and task stay out, because they may still refer to lengths that
    only the task knows.
    """
    free = ("task", "encoding", "extension", "logger")
    try:
        for name in ("train_positions", "test_positions"):
            if cfg.get(name):
                raise ConfigError(
                    f"{name}={cfg[name]} is not a setting: it follows from the task and its lengths"
                )
        plain = OmegaConf.to_container(
            OmegaConf.masked_copy(cfg, [str(k) for k in cfg if k not in free]), resolve=True
        )
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), plain))  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        raise ConfigError(_sentence(error)) from None


def _sentence(error: OmegaConfBaseException) -> str:
    reason = str(error.msg or error).strip().splitlines()[0].rstrip(".")
    key = error.full_key or ""
    if reason.startswith("Key ") and isinstance(error.parent_node, DictConfig):
        section = key.rpartition(".")[0] or "the configuration"
        return f"{key} is not a setting: {section} has {', '.join(map(str, error.parent_node))}"
    return f"{key}: {reason[0].lower()}{reason[1:]}" if key else reason
