"""The functions that YAML files may call."""

from __future__ import annotations

import functools
import inspect
import math
import os
import textwrap
from collections.abc import Callable
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from posbench.base.errors import ConfigError
from posbench.config.folders import GROUPS, names, searched
from posbench.config.hydra_inside import place_of

# -- what --help says can be chosen ----------------------------------------------------------------

WIDTH = 100


def choices() -> str:
    """Every group with its options. Needs an initialised Hydra."""
    return "\n".join(
        f"{group}: {meaning}\n{_wrapped(names(group, searched()))}\n"
        for group, meaning in GROUPS.items()
    )


def _wrapped(names: list[str]) -> str:
    return textwrap.fill(
        ", ".join(names),
        WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


# -- registering them ------------------------------------------------------------------------------


def register() -> None:
    for resolver in _positions, _base_for_turns, _turns, _steepness, _rate:
        name = resolver.__name__.lstrip("_")
        OmegaConf.register_new_resolver(name, _of_numbers(name, resolver), replace=True)
    OmegaConf.register_new_resolver("choices", choices, replace=True)


def _of_numbers(name: str, resolver: Callable[..., Any]) -> Callable[..., Any]:
    """The resolver, which refuses what it cannot compute with in one sentence."""

    @functools.wraps(resolver)  # OmegaConf reads from the parameters what to hand over
    def resolve(*given: Any, **of_omegaconf: Any) -> Any:
        try:
            return resolver(*given, **of_omegaconf)
        except (TypeError, ValueError, ArithmeticError) as error:
            written = ",".join(map(str, given))
            numbers = [key for key in inspect.signature(resolver).parameters if key[0] != "_"]
            raise ConfigError(
                f"${{{name}:{written}}} cannot be computed ({error}): give numbers, as "
                f"${{{name}:{','.join(numbers)}}}"
            ) from None

    return resolve


def guard() -> None:
    """Let the functions of OmegaConf and Hydra that read the environment answer for Hydra's own
    settings alone: all others end in records, which are passed on.
    """
    OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
    OmegaConf.register_new_resolver("hydra", _of_hydra, replace=True)


def _environment(name: str, *default: Any, _parent_: Any) -> Any:
    _refuse(f"oc.env:{name}", _parent_)
    return os.environ.get(name, *default) if default else os.environ[name]


def _of_hydra(path: str, *, _parent_: Any) -> Any:
    _refuse(f"hydra:{path}", _parent_)
    settings: Any = HydraConfig.get()
    return OmegaConf.select(settings, path)


def _refuse(asked: str, parent: Any) -> None:
    """ConfigError unless it is a part of Hydra's section that asks."""
    if not f"{place_of(parent)}.".startswith("hydra."):
        raise ConfigError(
            f"${{{asked}}} is not read, because a record shows its settings to others: write the "
            "value itself"
        )


def _positions(share: float, at_most: int | None = None, *, _root_: Any) -> int:
    """`${positions:0.5,32}`: half of the positions seen in training, but at most 32."""
    count = max(1, round(share * _root_.train_positions))
    return count if at_most is None else min(count, at_most)


def _base_for_turns(share: float, *, _root_: Any) -> float:
    r"""The base b with which this share of the frequencies completes a turn in training.

    `${base_for_turns:0.7}` gives the b for which a share of 0.7 of the frequencies $b^{-m/K}$
    completes a turn within the L positions of training: $L\,b^{-\text{share}} = 2\pi$. For L =
    4,096 and b = 10,000 the share is 0.70.
    """
    return round((_root_.train_positions / (2 * math.pi)) ** (1 / share), 2)


def _turns(share: float, *, _root_: Any) -> float:
    r"""The turns that a pair makes in training that is at this share of the way from one that
    turns once to the fastest.

    `${turns:0.535}` gives $r^{0.535}$, where the fastest pair makes $r = L / 2\pi$ turns: 32 for
    L = 4,096.
    """
    fastest = max(_root_.train_positions / (2 * math.pi), 2)  # shorter trainings turn too little
    return round(fastest**share, 2)


def _steepness(bias: float, *, _root_: Any) -> float:
    r"""The steepness e of ALiBi whose gentlest slope gives this bias at the training length.

    `${steepness:2}` gives the e with $2^{-e} L = 2$, for L positions seen in training.
    """
    return round(math.log2(_root_.train_positions / bias), 4)


def _rate(over_training: float, *, _root_: Any) -> float:
    """The rate a position that comes to this over the training, but at most 1.

    `${rate:204.8}` is 0.1 for 2,048 positions. Positions are whole: faster than 1 a position, a
    rate would distinguish what is not there.
    """
    return round(min(1.0, over_training / max(_root_.train_positions, 1)), 6)  # 0: not known yet
