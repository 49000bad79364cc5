"""`posbench pretrained verify`: which extension a configuration is, and whether it takes effect.

    posbench pretrained verify model=FOLDER
    posbench pretrained verify model=FOLDER \\
        'rope_parameters={"rope_type": "yarn", "factor": 4, "rope_theta": 1000000}'

The model is made by transformers with these `rope_parameters`, or as its folder says. What each
layer then does to queries and keys is measured. A table says which extension that is, with which
numbers, and what it changes in which layers. Below it are the differences from what the paper and
posbench set for the same length, in numbers and in logits. The last line names the problems that
were found; with any, the exit status is 1.

    model                    a folder with a model in safetensors and its tokenizer, or a .gguf file
    rope_parameters          JSON, also as rope_scaling; by default those of the folder
    max_position_embeddings  as a server would set it beside them
    train_positions          the length of training; by default the configuration says it
    length                   the longest length that is served; the factor says it by default
    dtype                    float32 by default, in which logits can agree to 1e-5
    device                   cpu by default, or cuda or mps
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posbench.base.errors import ConfigError
from posbench.base.wording import counted, listed
from posbench.config import command_lines
from posbench.pretrained.loading import Files
from posbench.pretrained.problems import Problems
from posbench.pretrained.refusal import as_one_line, need_transformers
from posbench.pretrained.request import extension_at, settings_of
from posbench.pretrained.rope_settings import VerifySettings, refuse_early, refuse_incomplete
from posbench.showing.table import Column, Line, Table

if TYPE_CHECKING:
    from torch import Tensor

    from posbench.pretrained.configured import Configured
    from posbench.pretrained.layer_kinds import LayerKind
    from posbench.pretrained.mounting import Mounted

SAME = 1e-5
"""A share of the largest logit up to which logits are the same."""
EXACT_UP_TO = 2**20
"""Positions beyond which angles in float32 are no longer those that were meant."""
RAISED = ", unless its max_position_embeddings was raised: then give train_positions=N"


def main(arguments: list[str] | None = None) -> int:
    return command_lines.of_words("posbench pretrained verify", __doc__, arguments, _verified)


def _verified(words: list[str]) -> int:
    # The name that most files still have.
    words = [re.sub("^rope_scaling=", "rope_parameters=", word) for word in words]
    settings = settings_of(VerifySettings, words, "posbench pretrained verify --help")
    files = Files(settings.model)
    need_transformers()
    refuse_early(files, settings.rope_parameters)
    found = Verification.of(files.model(settings.dtype, settings.device), settings)
    print("\n".join(found.lines()), flush=True)
    return int(bool(found.problems))


# -- the model as it is served ---------------------------------------------------------------------


def served(model: Any, settings: VerifySettings) -> Any:
    """The model as transformers makes it with the settings, with the same weights."""
    from posbench.pretrained.serving import as_configured, left_empty

    changed: dict[str, Any] = {}
    if settings.rope_parameters:
        refuse_incomplete(model.config.get_text_config(), settings.rope_parameters)
        changed["rope_parameters"] = dict(settings.rope_parameters)
        changed |= left_empty(model.config.get_text_config())
    if settings.max_position_embeddings:
        changed["max_position_embeddings"] = settings.max_position_embeddings
    if not changed:
        return model
    try:
        return as_configured(model, changed)
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"transformers cannot load the model with {json.dumps(changed)}: {as_one_line(error)}"
        ) from None


def trained_for(config: Any, settings: VerifySettings) -> int:
    """The positions of training before any extension, by the folder's own configuration."""
    if settings.train_positions:
        return settings.train_positions
    text = config.get_text_config()
    found = getattr(text, "rope_parameters", None) or {}
    kinds = [found, *(each for each in found.values() if isinstance(each, Mapping))]
    before = (each.get("original_max_position_embeddings") for each in kinds)
    positions = next(filter(None, before), getattr(text, "max_position_embeddings", 0))
    if not positions:
        raise ConfigError("the model does not say its trained length: give train_positions=N")
    return int(positions)


def factor_of(extension: Any) -> float:
    """By how much a configured extension says that it lengthens; dynamic NTK calls it otherwise."""
    found = (getattr(extension, name, None) for name in ("scale", "factor"))
    return next(filter(None, found), 1.0)


def length_unsaid(config: Any, settings: VerifySettings) -> bool:
    """Whether the folder has a linear factor of its own, for which no setting says the length of
    training: of Gemma 3 `max_position_embeddings` is what is served.
    """
    from posbench.pretrained.turned_parts import known_rotations

    if settings.train_positions or settings.rope_parameters:
        return False
    kinds = [each.get("rope_type") for each in known_rotations(config.get_text_config())]
    return "linear" in kinds


def file_of(config: Any) -> Path | None:
    """The config.json that a model was loaded from, if it was."""
    file = Path(config.name_or_path or "") / "config.json"
    return file if config.name_or_path and file.is_file() else None


@dataclass(frozen=True)
class Verification:
    """A model as it is served, measured layer by layer."""

    mounted: Mounted
    settings: VerifySettings
    trained: int  # positions of training, by the folder's own configuration
    unsaid: bool  # whether these may be those after a factor already
    file: Path | None  # the config.json of the folder
    own: dict[str, Any]  # rope_parameters of the folder's own configuration
    base: float | None  # of the folder's own configuration
    length: int  # the longest that is served
    off: tuple[float, float]  # from transformers, near the start and over the whole length

    @classmethod
    def of(cls, model: Any, settings: VerifySettings) -> Verification:
        """Mount and measure; CannotMount where the suite has no form for a layer."""
        import torch

        from posbench.pretrained.configured import rotations
        from posbench.pretrained.forms import refuse_own_attention, rotaries_of
        from posbench.pretrained.proof import TOKENS, mounted_and_proved, spread

        refuse_own_attention(model)  # before what such a model's configuration may not have
        rotaries_of(model)
        trained, unsaid = trained_for(model.config, settings), length_unsaid(model.config, settings)
        own = dict(getattr(model.config.get_text_config(), "rope_parameters", None) or {})
        bases = [each.get("rope_theta") for each in rotations(model.config.get_text_config())]
        base = float(bases[0]) if bases and bases[0] else None
        made = served(model, settings)
        longest = getattr(made.config.get_text_config(), "max_position_embeddings", trained)
        with mounted_and_proved(made) as mounted:
            reach = (
                min(layer.form.own.positions, trained) * factor_of(layer.form.own.extension)
                for layer in mounted.layers
                if not unsaid
            )
            length = settings.length or round(max([longest, *reach]))
            near = torch.arange(min(TOKENS, length))
            far = spread(min(length, EXACT_UP_TO))
            # Transformers has the rule of a short text for the first of them.
            ours = [_logits(mounted, near, len(near)), _logits(mounted, far, length)]
            mounted.unmount()
            theirs = [_native(made, pos, length) for pos in (near, far)]
            mounted.mount()
        off = [_share(one, other) for one, other in zip(ours, theirs, strict=True)]
        file, near_far = file_of(model.config), (off[0], off[1])
        return cls(mounted, settings, trained, unsaid, file, own, base, length, near_far)

    def lines(self) -> Iterator[str]:
        """All that there is to say; the last line is the answer."""
        kinds = self.kinds()
        if self.unsaid:
            yield (
                f"Served up to {self.length} positions. The configuration does not say the length "
                "before its linear factor, so it is not judged: train_positions=N says it."
            )
        else:
            by = "" if self.judged.says_the_trained_length else ", by its max_position_embeddings"
            yield f"Trained for {self.trained} positions{by}, served up to {self.length}."
        yield ""
        columns = ("layers", "positions", "base", "extension, as measured", "changed")
        rows = [Line(_spans(numbers), kind.cells()) for kind, numbers in kinds]
        yield from Table([Column(each, text=True) for each in columns], rows).aligned()
        yield ""
        yield from self.against_transformers()
        yield from self.judged.remarks()
        for kind, _ in kinds:
            yield from self.against_others(kind)
        yield self.answer(kinds)
        found = self.problems
        yield f"Problems: {'; '.join(found)}." if found else "No problem was found."

    @property
    def problems(self) -> list[str]:
        """What is not as whoever wrote the settings must have meant it."""
        found = [*self.judged.all(), *self.judged.without_effect(self.asked_for)]
        if not self.agrees and self.settings.dtype in ("float32", "float64"):
            found.insert(0, "the logits of transformers differ from those of these extensions")
        return list(dict.fromkeys(found))

    @functools.cached_property
    def judged(self) -> Problems:
        return Problems(
            self.settings,
            self.mounted.model.config.get_text_config(),
            [kind for kind, _ in self.kinds()],
            self.trained,
            self.unsaid,
            self.file,
            self.own,
            self.base,
            self.length,
        )

    @property
    def asked_for(self) -> list[str]:
        """The extensions that the configuration, as it is served, names."""
        from posbench.pretrained.turned_parts import known_rotations

        config = self.mounted.model.config.get_text_config()
        kinds = (each.get("rope_type", "default") for each in known_rotations(config))
        return sorted(set(kinds) - {"default"})

    # -- which extension, in which layers ----------------------------------------------------------

    def kinds(self) -> list[tuple[LayerKind, list[int]]]:
        """The layers by what they do, each kind with the numbers of its layers."""
        from posbench.pretrained.layer_kinds import LayerKind

        found: dict[LayerKind, list[int]] = {}
        for place, layer in enumerate(self.mounted.layers):
            found.setdefault(LayerKind(layer.form, layer.window, self.length), []).append(place)
        return list(found.items())

    @property
    def compared(self) -> int:
        """The positions over which logits are compared with those of transformers."""
        return min(self.length, EXACT_UP_TO)

    def against_transformers(self) -> Iterator[str]:
        from posbench.pretrained.serving import rounding

        near, far = self.off
        exact = self.settings.dtype in ("float32", "float64")
        allowed, agree = max(SAME, rounding(self.compared)), self.agrees
        yield (
            f"Logits of transformers and of these extensions differ by {near:.1g} of the largest "
            f"over the first positions, and by {far:.1g} over all {self.compared}, where its "
            f"angles in float32 explain {allowed:.1g}: "
            + ("they are the same." if agree else "they differ." if exact else "see dtype.")
        )

    @property
    def agrees(self) -> bool:
        """Whether transformers computes the same logits, but for the rounding of its angles."""
        from posbench.pretrained.proof import TOKENS
        from posbench.pretrained.serving import rounding

        near, far = self.off
        # The first positions are as many as `TOKENS`, and their angles are in float32 as well.
        first = rounding(min(TOKENS, self.length))
        return near <= max(SAME, first) and far <= max(SAME, rounding(self.compared))

    # -- what others would set ---------------------------------------------------------------------

    def against_others(self, kind: LayerKind) -> Iterator[str]:
        """Where the numbers differ from those of the paper and of the suite, and the logits."""
        from posbench.pretrained.configured import Configured
        from posbench.pretrained.layer_kinds import numbers_of

        own, name = kind.form.own, kind.name
        if name is None or self.unsaid:
            return
        if name == "longrope":
            yield "The lists of longrope come from a search: neither paper nor posbench has them."
            return
        ours = extension_at(name, self.trained, self.length)
        for who, extension in (("the paper", type(own.extension)()), ("posbench", ours)):
            other = Configured(extension, self.trained)
            mine, theirs = (
                numbers_of(replace(kind.form, own=each), self.length) for each in (own, other)
            )
            unlike = [
                f"{each} {mine[each]:.6g}, not {theirs[each]:.6g}"
                for each in mine
                if abs(mine[each] - theirs[each]) > SAME * abs(theirs[each])
            ]
            off, turned = self.difference(own, other), kind.turned_unlike(other)
            yield f"{name}, beside what {who} sets for {self.length} positions: " + (
                f"{'; '.join(unlike) or 'the same numbers'}. "
                f"Frequencies differ by up to {turned:.1%}, logits by {off:.2g} of the largest."
            )

    def difference(self, own: Configured, other: Configured | None) -> float:
        """What logits over the whole length differ by if layers have another extension."""
        from posbench.extensions.direct import Direct
        from posbench.pretrained.configured import Configured
        from posbench.pretrained.proof import spread

        other = other or Configured(Direct(), own.positions)
        mounted, layers = self.mounted, self.mounted.layers
        pos = spread(self.length)
        mounted.mount()
        try:
            found = [_logits(mounted, pos, self.length)]
            mounted.layers = [
                replace(each, form=replace(each.form, own=other)) if each.form.own is own else each
                for each in layers
            ]
            mounted.extension = mounted.extension  # forgets its encodings
            found.append(_logits(mounted, pos, self.length))
        finally:
            mounted.layers = layers
            mounted.extension = mounted.extension
            mounted.unmount()
        return _share(*found)

    def answer(self, kinds: Sequence[tuple[LayerKind, list[int]]]) -> str:
        rotary = [(kind, len(each)) for kind, each in kinds if kind.frequencies]
        count = sum(each for _, each in rotary)
        changed = [(kind, each) for kind, each in rotary if kind.changes]
        asked = self.asked_for
        if not changed:
            if asked:
                return f"{listed(asked)} takes no effect: every layer turns as it was trained."
            if now := self.judged.other_base:
                return f"No extension is set, and the base is {now} in place of {self.base:,.0f}."
            if self.length > self.trained and not self.unsaid:
                return (
                    "No extension is set, and the model is served beyond what it was trained for."
                )
            raised = "" if self.judged.says_the_trained_length else RAISED
            return f"No extension is set: the model is served as it was trained{raised}."
        rules = listed(sorted({kind.name or "another table" for kind, _ in changed}))
        where = sum(each for _, each in changed)
        if not any(kind.name for kind, _ in changed) and asked:
            return (
                f"{listed(asked)} takes no effect as it is written: the layers turn by a table "
                "that rope_parameters do not explain."
            )
        owns = {id(kind.form.own): kind.form.own for kind, _ in changed}
        off = max(self.difference(each, None) for each in owns.values())
        verb = "takes effect" if off > SAME else "takes no effect"
        within = [kind for kind, _ in changed if kind.window and kind.window <= self.trained]
        near = (
            ", of which those with windows within the trained length had no need of it"
            if within
            else ""
        )
        return (
            f"{rules} {verb} in {where} of {counted(count, 'rotary layer')}{near}: logits change "
            f"by {off:.2g} of the largest."
        )


def _spans(numbers: Sequence[int]) -> str:
    """Such as 0-4, 6."""
    spans = []
    for _, each in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in each]
        spans.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(spans)


def _logits(mounted: Mounted, pos: Tensor, length: int) -> Tensor:
    with mounted.at(length):
        return _native(mounted.model, pos, length)


def _native(model: Any, pos: Tensor, length: int) -> Tensor:
    """The logits of random tokens at some positions of a sequence of `length`."""
    import torch

    from posbench.pretrained.proof import logits_of, random_tokens
    from posbench.pretrained.richer import itself

    model = itself(model)
    tokens = random_tokens(model, 1, len(pos))
    with torch.no_grad():
        return logits_of(model, tokens, torch.ones_like(tokens), pos[None].to(tokens.device))


def _share(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())
