"""What a run must hold at once, by its sizes alone. What cannot fit is refused before it begins: a
system that runs out of memory kills without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import torch

from posbench.base.errors import ConfigError
from posbench.running.setup import Setup

GIB = 2**30
INTEGER = 8
"""Bytes of a token, as tasks draw it."""


def refuse_too_large(setup: Setup) -> None:
    """ConfigError names the setting of which one batch, or one test, exceeds all memory."""
    there = _memory(setup.device)
    alone = _bytes_of_a_sequence(setup)
    if there and alone > there:
        raise ConfigError(
            f"one sequence of {setup.train_positions} positions needs at least {alone / GIB:,.1f} "
            f"GiB in a step of the training, and there are {there / GIB:,.1f} GiB: lower the sizes "
            "of the model, or training.max_length"
        )
    for setting, what, needed in _needed(setup):
        if there and needed > there:
            raise ConfigError(
                f"{setting} needs at least {needed / GIB:,.1f} GiB for {what}, and there are "
                f"{there / GIB:,.1f} GiB: lower it"
            )


def _needed(setup: Setup) -> Iterator[tuple[str, str, int]]:
    """Settings with what they make and its bytes, each at the least that it can be."""
    training, evaluation = setup.config.training, setup.config.evaluation
    size, tokens = _bytes_of_a_sequence(setup), setup.train_positions * INTEGER
    for name, what, count, each in (
        ("training.batch_size", "a step of the training", training.batch_size, size),
        ("training.num_examples", "the examples", training.num_examples, tokens),
        ("training.validation_samples", "the validation", training.validation_samples, tokens),
        ("evaluation.num_samples", "a test", evaluation.num_samples, tokens),
    ):
        yield f"{name}={count}", what, count * each


def _bytes_of_a_sequence(setup: Setup) -> int:
    """What a training step keeps of one: of each token and layer, as often as it is applied, two
    normalised inputs, queries, keys, values and what attention returns, and both sides of the
    activation of the MLP.
    """
    model = setup.config.model
    heads = model.num_heads * model.head_width
    layer = 2 * model.width + 4 * heads + 2 * model.mlp_ratio * model.width
    numbers = model.num_layers * model.loops * layer
    full = setup.config.training.precision == "32-true"
    return setup.train_positions * numbers * (4 if full else 2)


def _memory(device: torch.device) -> int:
    """The bytes of a device; 0 where nobody tells."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info()[1])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return 0
