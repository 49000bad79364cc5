"""Settings chosen on a validation length."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension, Searched


class Tuned(Searched):
    """An extension gets the settings that lose least on a validation length.

    An extension with the settings that lose least on the validation length: random search over a
    grid.

    `make` builds the extension from its settings, `knobs` lists what each setting may be. Of all
    combinations as many as the budget allows are tried, in random order, the defaults first.
    """

    def __init__(
        self,
        make: Callable[..., Extension],
        knobs: Mapping[str, Sequence[Any]],
        budget: int = 24,
        multiple: float = 2.5,
    ) -> None:
        super().__init__(make(), budget, multiple)
        if self.extension.trains or isinstance(self.extension, Searched):
            raise ConfigError(
                f"{type(self.extension).__name__} trains or searches by itself: choose the "
                "settings of the extension inside it"
            )
        if not knobs or not all(knobs.values()):
            raise ConfigError(
                "knobs lists at least one setting, and for each at least one value, got "
                f"{dict(knobs)}"
            )
        self.make = make
        self.knobs = knobs

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], Extension]]:
        grid = list(itertools.product(*self.knobs.values()))
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(self.make).parameters.items()
        }
        for index in rng.permutation(len(grid)):
            settings = dict(zip(self.knobs, grid[index], strict=True))
            if settings.items() <= defaults.items():
                continue
            try:
                extension = self.make(**settings)
                extension.extend(stack, train_positions, train_positions)
            except ConfigError:  # settings that exclude each other, or that these lengths exclude
                continue
            yield settings, extension
