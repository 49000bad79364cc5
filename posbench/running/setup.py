"""From a configuration and a task to a model: all that a run computes with, without its name."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, TypeVar

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from posbench.base.errors import ConfigError
from posbench.config import provenance
from posbench.config.building import build
from posbench.config.legality import supplying_tasks
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.evaluation import Evaluation, Lengths, nearest
from posbench.core.extension import Extension
from posbench.core.looped import Looped, LoopedStack, stacked
from posbench.core.settings import FILLED_IN, Config, TrainingConfig, checked
from posbench.core.streams import stream_seed
from posbench.core.task import Answers, Batch, Task
from posbench.core.transformer import Transformer
from posbench.running.devices import device

Tests = TypeVar("Tests", bound=Evaluation)


def refuse_other_scores(task: Task) -> None:
    """Have a task of the user raise ConfigError for a score that is no share. A record would hold
    the least score for it, as it does where a loss overflows.
    """
    for name in ("score", "proficiency"):
        setattr(task, name, functools.partial(_share, f"{type(task).__name__}.{name}", task, name))


def _share(said: str, task: Task, name: str, batch: Batch, answers: Answers) -> float:
    found: float = getattr(type(task), name)(task, batch, answers)
    if not -1 <= found <= 1 and np.isfinite(answers.losses).all():
        raise ConfigError(
            f"{said} gave {found}, and a score is a share, from -1 to 1: correct it, and run "
            "posbench check before the next training"
        )
    return found


SETTINGS = ("encoding", "extension", "task", "model", "training", "evaluation")


class Setup:
    """A resolved configuration with its task.

    `cfg` is the composed configuration, which belongs to this from now on. The task is made first,
    because only it knows how many positions a training length comes to, and encodings scale by
    positions. `test_positions` are what encodings are told of the longest test: by
    `evaluation.longest`, whatever is measured.
    """

    def __init__(self, cfg: DictConfig, task: Task, test_positions: int | None = None) -> None:
        self.composed = cfg
        self.config: Config = checked(cfg)
        self.task = task
        self.train_length = self.config.training.lengths[1]
        evaluation = self.config.evaluation
        task.total_length(self.config.training.lengths[0])  # refuses now what it could not draw
        self.lengths = Lengths.of(task, evaluation, self.train_length)
        self.train_positions = self.positions(self.config.training)
        self.test_positions = test_positions or task.longest(
            nearest(task, self.train_length, evaluation.longest), self.train_length
        )
        self.nodes: dict[str, Any] = self._resolved()
        self.extension: Extension = build(self.nodes["extension"], "extension")

    def _resolved(self) -> dict[str, Any]:
        """All settings. The positions are filled in for as long as that takes: they are no
        settings, and to copy everything for them would take longer than all else.
        """
        positions = {name: getattr(self, name) for name in FILLED_IN}
        self.composed.update(positions)
        try:
            return OmegaConf.to_container(self.composed, resolve=True)  # type: ignore[return-value]
        finally:
            self.composed.update(dict.fromkeys(positions, 0))

    @classmethod
    def of(cls, cfg: DictConfig) -> Setup:
        """Set up a composed configuration, and build its task."""
        node: Any = OmegaConf.to_container(cfg.task, resolve=True)
        task: Task = build(node, "task")
        if not type(task).__module__.startswith("posbench."):
            refuse_other_scores(task)
        return cls(cfg, task)

    def at(self, n: int) -> Setup:
        """The same, trained for the test of length n and tested there alone.

        What the encoding makes of the longest test, such as the rows of a table, it makes of the
        longest of all.
        """
        cfg, training = copy.deepcopy(self.composed), self.config.training
        longest = max(self.task.tested(n, self.train_length))
        cfg.training.min_length, cfg.training.max_length = min(training.lengths[0], n), longest
        cfg.training.length_scale = 1.0
        if training.packing:  # as many sequences in a context as before
            alone = self.task.num_positions(self.train_length)
            share = self.task.num_positions(longest) / alone
            cfg.training.packing = math.ceil(training.packing * share)
        cfg.evaluation.multiples, cfg.evaluation.ladder = [1.0], []
        there = Setup(cfg, self.task, self.test_positions)
        there.lengths = Lengths(self.train_length, {n: self.lengths.multiples[n]})
        return there

    def at_constant_rate(self, steps: int, learning_rate: float) -> Setup:
        """The same, trained for the first steps alone: the weights that a longer training has
        there, as long as its rate has not begun to fall.
        """
        cfg = copy.deepcopy(self.composed)
        shorter: dict[str, Any] = {
            "steps": steps,
            "steps_scale": 1.0,
            "decay_fraction": 0.0,
            "stop_at": None,
        }
        shorter |= {"learning_rate": learning_rate} | dict.fromkeys({"until"} & {*cfg.training})
        for key, value in shorter.items():
            cfg.training[key] = value
        return Setup(cfg, self.task, self.test_positions)

    def with_setting(self, key: str, value: object) -> Setup:
        """The same with another value of a setting: to compose it anew takes ten times as long."""
        cfg = copy.deepcopy(self.composed)
        OmegaConf.update(cfg, key, value)
        return Setup(cfg, self.task)

    # -- lengths -----------------------------------------------------------------------------------

    def positions(self, training: TrainingConfig) -> int:
        """Positions in one training sequence: the longest sequence, or the packed context."""
        alone = self.task.num_positions(training.lengths[1])
        if 0 < training.packing < alone:
            raise ConfigError(
                f"training.packing={training.packing} does not hold one sequence of "
                f"n={training.lengths[1]}, which has {alone} tokens: raise it to that, or lower "
                "training.max_length"
            )
        return max(alone, training.packing)

    @functools.cached_property
    def shift(self) -> int:
        """How far `random_offset` raises the largest trained position.

        It is 0 for relative encodings, to which an offset shows no new distance.
        """
        offset = self.config.training.random_offset
        return offset if offset and not all(layer.relative for layer in self.encodings()) else 0

    # -- what it computes with ---------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where it computes; ConfigError if the machine has no such device."""
        return device(self.config.trainer.accelerator)

    @property
    def specifications(self) -> list[dict[str, Any]]:
        """The encoding of each layer, to be repeated: the encoding's `layers`, or itself."""
        encoding = self.nodes["encoding"]
        layers = encoding.get("layers", [encoding])
        if len(encoding) > 1 and "layers" in encoding:
            ignored = ", ".join(sorted(encoding.keys() - {"layers"}))
            raise ConfigError(
                "encoding.layers lists an encoding for each layer; beside it "
                f"{ignored} would be ignored"
            )
        if not layers:
            raise ConfigError(
                "encoding.layers is empty: list the encoding of each layer, to be repeated"
            )
        return layers

    def encodings(self) -> list[PositionEncoding]:
        """One encoding a layer, initialised, not yet tied."""
        layers = []
        for index in range(self.config.model.num_layers):
            specification = self.specifications[index % len(self.specifications)]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stream_seed(self.config.seed, "init", "encoding", index))
                layers.append(build(specification, "encoding"))
        return layers

    def stack(self) -> EncodingStack:
        """The encodings of all layers, tied, with how often a model applies them if not once."""
        return stacked(self.encodings(), len(self.specifications), self.config.model.loops)

    def model(self, longest: int = 0) -> Transformer:
        """The untrained model.

        `longest` are the positions of the longest sequence between training and the tests, if it
        is longer than those. ConfigError or IllegalExtension says what cannot be built or extended.
        """
        model, stack = self.config.model, self.stack()
        self._refuse_ids(stack)
        trained = stack.span(self.train_positions + self.shift, training=True)
        spans = {stack.span(length) for length in (self.test_positions, longest) if length}
        needed = max(trained, *spans)
        if stack.max_positions is not None and stack.max_positions < needed:
            raise ConfigError(
                f"the encoding has {stack.max_positions} positions, but training, what follows it "
                f"and the longest test need {needed}: raise its setting, or shorten "
                "training.packing, training.random_offset, extension.multiple or "
                "evaluation.longest"
            )
        for positions in spans:
            self.extension.extend(stack, trained, positions)  # refuse now, not after training
        made = Looped if isinstance(stack, LoopedStack) else Transformer
        return made(
            self.task.vocab_size,
            model.width,
            model.num_layers,
            model.num_heads,
            model.head_width,
            stack,
            model.embedding_std,
            self.config.seed,
            model.mlp_ratio,
            model.dropout,
            model.qk_norm,
            model.output_gate,
            model.short_conv,
        )

    def _refuse_ids(self, stack: EncodingStack) -> None:
        if stack.ids not in ("index", *self.task.ids):
            raise ConfigError(
                f"the encoding asks the task for {stack.ids!r} position ids, which "
                f"{type(self.task).__name__} does not supply: choose another encoding, or a task "
                f"among {', '.join(supplying_tasks(stack.ids))}"
            )
        if self.config.training.random_offset and stack.ids != "index":
            raise ConfigError(
                f"training.random_offset={self.config.training.random_offset} shifts the index of "
                f"a token, and the encoding asks for {stack.ids!r} ids instead: choose 0, or "
                "another encoding"
            )

    @property
    def evaluation(self) -> Evaluation:
        """The tests, the same for every encoding and extension."""
        return self.tests(Evaluation)

    def tests(self, kind: type[Tests]) -> Tests:
        """The tests as an evaluation of this kind."""
        config = self.config
        positions = self.train_positions + self.shift
        return kind(
            self.task, config.evaluation, self.lengths, config.training, positions, config.seed
        )

    # -- what it depends on ------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """All resolved settings that a result depends on."""
        return {name: self.nodes[name] for name in SETTINGS}

    @functools.cached_property
    def source_hash(self) -> str:
        """The hash of the code that trains."""
        return provenance.training_hash(self.nodes)

    @functools.cached_property
    def evaluation_hash(self) -> str:
        """The hash of the code that tests."""
        return provenance.evaluation_hash(self.nodes["extension"])
