"""What `verify` finds wrong with settings: lengths, bases, names that are not read, no effect."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posbench.base.wording import agreeing, listed
from posbench.pretrained.rope_settings import (
    ORIGINAL,
    VerifySettings,
    each_rule,
    is_of_another,
    kind_of,
    meant,
    names_unread,
    repeated,
    written_in,
    written_twice,
)

if TYPE_CHECKING:
    from posbench.pretrained.layer_kinds import LayerKind

SAME = 1e-5
"""A share of a base up to which two are the same."""
BEGINS = ("yarn", "llama3", "longrope")
"""Rules that begin at an original length, for which transformers takes the served one if none is
given."""
LENGTHENED = 1.5
"""A configured length of this many times that of training is one that a rule was set for.
Qwen 3 has 1.25 times its 32,768 for what is generated, with or without YaRN."""


@dataclass(frozen=True)
class Problems:
    """Those of the settings of one model."""

    settings: VerifySettings
    config: Any  # as it is served
    kinds: Sequence[LayerKind]
    trained: int
    unsaid: bool  # whether these may be those after a factor already
    file: Path | None  # the config.json of the folder
    own: Mapping[str, Any]  # rope_parameters of the folder's own configuration
    base: float | None  # of that configuration
    length: int  # the longest that is served

    def all(self) -> Iterator[str]:
        yield from self.unread()
        if self._file and written_twice(self._file):
            yield (
                "config.json has both rope_scaling and rope_parameters, and transformers reads "
                "rope_scaling alone"
            )
        if self._file and (said := repeated(self._file)):
            yield f"config.json is ambiguous: {said}, and transformers reads the last one"
        yield from self.unsaid_length()
        yield from self.contradictions()
        yield from self.unextended()

    def remarks(self) -> Iterator[str]:
        """Settings that are not read or were lost."""
        yield from (each if each.endswith("?") else f"{each}." for each in self.unread())
        if now := self.other_base:
            base = self.base
            yield f"The base is {now}, where the model was trained with {base:,.0f}. {self.ntk}"

    @property
    def _file(self) -> Path | None:
        """The config.json whose settings count; None where others were given beside it."""
        return None if self.settings.rope_parameters else self.file

    @property
    def _written(self) -> Mapping[str, Any]:
        """The settings that count as they were written: transformers adds others."""
        given = self.settings.rope_parameters or self.own
        return written_in(self._file) if self._file else given

    # -- names -------------------------------------------------------------------------------------

    def unread(self) -> Iterator[str]:
        """Settings that transformers does not look at: any that was given beside the model, and in
        its own configuration those of another rule or near to one that is lacking.
        """
        given = self.settings.rope_parameters
        known = {name for each in each_rule(self.own) for name in each}
        for each in each_rule(self._written):
            names = names_unread(each)
            wrong = [
                name
                for name in names
                if (given and name not in known) or meant(name, each) or is_of_another(name)
            ]
            if wrong:
                verb, near = agreeing(len(wrong), "is", "are"), [meant(one, each) for one in wrong]
                read = list(filter(None, near))
                hint = f": did you mean {listed(read)}?" if read else ""
                yield f"{listed(wrong)} {verb} not read with rope_type {kind_of(each)}{hint}"

    # -- lengths -----------------------------------------------------------------------------------

    def unsaid_length(self) -> Iterator[str]:
        """A rule that begins at the served length for lack of another."""
        settings = self.settings
        if settings.rope_parameters or settings.train_positions:
            return
        beside = getattr(self.config, ORIGINAL, None)
        for each in each_rule(self._written):
            if kind_of(each) in BEGINS and not each.get(ORIGINAL) and not beside:
                yield (
                    f"{ORIGINAL} is not given, so {kind_of(each)} begins at the "
                    f"{self.trained} positions of max_position_embeddings: write the length "
                    "of training"
                )

    @property
    def says_the_trained_length(self) -> bool:
        """Whether a setting says it; else `max_position_embeddings` of the folder is taken."""
        given = self.settings.train_positions or getattr(self.config, ORIGINAL, None)
        return bool(given or any(each.get(ORIGINAL) for each in each_rule(self.own)))

    def unextended(self) -> Iterator[str]:
        """More positions than those of training, and layers that turn as if there were not."""
        served = self.asked or self.configured
        turning = [
            kind
            for kind in self.kinds
            if kind.frequencies and not (kind.window and kind.window <= self.trained)
        ]
        changed = self.other_base or any(kind.changes for kind in turning)
        beyond = served >= LENGTHENED * self.trained
        if turning and not changed and not self.unsaid and beyond:
            yield (
                f"{served} positions are served, {served / self.trained:.3g} times those of "
                "training, and no extension takes effect"
            )

    def contradictions(self) -> Iterator[str]:
        """A base or lengths that are not those of the model, or of the factor."""
        trained = self.trained
        if (now := self.other_base) and not self.is_ntk:
            yield f"the base is {now}, not the {self.base:,.0f} of the model"
        for kind in self.kinds:
            begins = kind.form.own.positions
            if kind.name not in (None, "pi") and begins != trained:
                given = any(each.get(ORIGINAL) for each in each_rule(self._written))
                why = "" if given else " is not given, so max_position_embeddings takes its place"
                yield (
                    f"{kind.name} begins at {begins} positions, and the model was trained for "
                    f"{trained} ({ORIGINAL}{why})"
                )
        for kind in self.kinds:
            scale = getattr(kind.form.own.extension, "scale", None)
            if kind.name not in ("pi", "yarn", "llama3") or not scale or self.unsaid:
                continue
            reached = round(scale * trained)
            least, most = self.served(str(kind.name))
            if reached < 0.99 * least or (most and reached > 1.01 * most):
                yield (
                    f"the factor {scale:g} of {kind.name} makes {reached} of {trained} "
                    f"positions, and {self.asked or self.configured} are served"
                )

    def served(self, rule: str) -> tuple[float, int]:
        """The positions that a factor has to make at least, and at most; 0 for no limit."""
        if rule == "llama3":  # Llama 3.1 has a factor of 8 for 16 times its length
            return (self.asked or self.configured) / 2, 0
        if self.asked:  # a model may be served at less than what its own factor is for
            return self.asked, self.asked if self.settings.rope_parameters else 0
        lengthened = self.configured > LENGTHENED * self.trained
        return self.configured, self.configured if lengthened and rule == "yarn" else 0

    @property
    def asked(self) -> int:
        """The positions that are to be served, as the command says."""
        return self.settings.length or self.settings.max_position_embeddings

    @property
    def configured(self) -> int:
        """The positions that the configuration, as it is served, is for."""
        return int(getattr(self.config, "max_position_embeddings", 0) or 0)

    # -- the base ----------------------------------------------------------------------------------

    @functools.cached_property
    def _bases(self) -> set[float]:
        return {kind.frequencies.base for kind in self.kinds if kind.frequencies}

    @property
    def other_base(self) -> str:
        """The base, if it is not that of the folder's own configuration; "" if it is."""
        given, base = self.settings.rope_parameters, self.base
        nested = any(isinstance(each, Mapping) for each in given.values())
        if not given or not base or nested:
            return ""
        if any(abs(each / base - 1) < SAME for each in self._bases):
            return ""
        return listed([f"{each:,.0f}" for each in sorted(self._bases)])

    @property
    def ntk(self) -> str:
        """What NTK-aware scaling would set."""
        return f"NTK sets {self.ntk_base:,.0f} for {self.length} positions."

    @property
    def ntk_base(self) -> float:
        """The base of NTK-aware scaling for this length."""
        frequencies: Any = next(k.frequencies for k in self.kinds if k.frequencies)
        count, factor = frequencies.count, max(1.0, self.length / self.trained)
        return (self.base or 1) * float(factor ** (count / max(count - 1, 1)))

    @property
    def is_ntk(self) -> bool:
        """Whether the base is another one because NTK-aware scaling sets it so."""
        return all(abs(each / self.ntk_base - 1) < 1e-3 for each in self._bases)

    # -- no effect ---------------------------------------------------------------------------------

    def without_effect(self, named: Sequence[str]) -> Iterator[str]:
        """Of the rules that the configuration names."""
        # `proportional` is the share of channels of some models, with or without a factor.
        asked = [each for each in named if each != "proportional"]
        if asked and not any(kind.changes for kind in self.kinds):
            yield f"{listed(asked)} takes no effect"
        elif asked and not any(kind.name for kind in self.kinds if kind.changes):
            yield f"the layers turn by a table that {listed(asked)} does not explain"
