"""A model's configuration describes its rotation; here it becomes encodings and extensions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.core.frequencies import Frequencies
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rope import RoPE
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.pretrained.refusal import CannotMount


class Configured(Extension):
    """The extension that a model was trained with, from its own training length.

    `positions` is the length of the training before it, whatever length the model now counts as
    trained. `magnitude`, where it is given, is the factor on cosine and sine that the configuration
    sets in place of the extension's own.
    """

    needs = "frequencies"

    def __init__(
        self, extension: Extension, positions: int, magnitude: float | None = None
    ) -> None:
        self.extension = extension
        self.positions = positions
        self.magnitude = magnitude

    @property
    def follows_length(self) -> bool:
        """Whether the extension turns positions otherwise at another length."""
        return isinstance(self.extension, DynamicNTK | LongRoPE)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        new = self.extension.apply(encoding, self.positions, test_positions)
        if self.magnitude is None:
            return new
        frequencies: Frequencies = new.frequencies  # type: ignore[assignment]  # promised by the handle
        return new.variant(frequencies=replace(frequencies, magnitude=self.magnitude))


@dataclass(frozen=True)
class Form:
    """How a layer may turn queries and keys: an encoding, and the extension that it came with."""

    encoding: PositionEncoding
    own: Configured
    name: str

    def at(self, length: int) -> PositionEncoding:
        """The encoding that the model itself has at a length."""
        return self.own.apply(self.encoding, self.own.positions, length)


def forms(config: Any, head_width: int) -> Iterator[Form]:
    """The forms that a layer of the model may have, the likeliest first; the last does not turn."""
    for parameters in rotations(config):
        own = own_extension(parameters, config.max_position_embeddings)
        base = float(parameters["rope_theta"])
        share = float(parameters.get("partial_rotary_factor", 1.0))
        if parameters.get("rope_type") == "proportional":
            yield Form(PRoPE(head_width, share, base), own, "p-RoPE")
        else:
            if share < 1:
                yield Form(PartialRoPE(head_width, share, base), own, "partial RoPE")
            # A share is in some configurations of models that turn the whole head.
            yield Form(RoPE(head_width, base), own, "RoPE")
            yield Form(RoPE(head_width, base, "interleaved"), own, "interleaved RoPE")
    none = Configured(Direct(), config.max_position_embeddings)
    yield Form(PositionEncoding(), none, "no position")


def rotations(config: Any) -> list[Mapping[str, Any]]:
    """`rope_parameters`: one for all layers, or one for each kind of layer."""
    found = getattr(config, "rope_parameters", None)
    if not found:
        raise CannotMount(
            f"{type(config).__name__} has no rope_parameters: the model must have rotary "
            "positions, for only those can be replaced"
        )
    # A configuration that was given one for all may have kept its class's own beside it.
    kinds = [each for each in found.values() if isinstance(each, Mapping) and each]
    return ([found] if "rope_theta" in found else []) + kinds


def reached(layers: Iterable[Form]) -> int:
    """The positions up to which the YaRN of a configuration extends any of the layers, or 0."""
    owns = (form.own for form in layers)
    scaled = [(own.positions, own.extension) for own in owns]
    return max(
        (round(n * (yarn.scale or 1)) for n, yarn in scaled if isinstance(yarn, YaRN)), default=0
    )


def own_extension(parameters: Mapping[str, Any], max_positions: int) -> Configured:
    """The `rope_type` of transformers as an extension of the suite."""
    kind = parameters.get("rope_type", "default")
    positions = int(parameters.get("original_max_position_embeddings") or max_positions)
    factor = parameters.get("factor") or max_positions / positions
    magnitude = parameters.get("attention_factor")
    if kind == "default":
        return Configured(Direct(), max_positions)
    if kind == "linear":
        return Configured(PI(float(factor)), positions)
    if kind == "proportional":
        stretch = float(parameters.get("factor", 1.0))
        return Configured(PI(stretch) if stretch > 1 else Direct(), positions)
    if kind == "dynamic":
        return Configured(DynamicNTK(float(factor)), max_positions)
    if kind == "yarn":
        yarn = YaRN(
            float(parameters.get("beta_fast") or 32),
            float(parameters.get("beta_slow") or 1),
            scale=float(factor),
            truncate=bool(parameters.get("truncate", True)),
        )
        return Configured(yarn, positions, magnitude or _yarn_magnitude(parameters, float(factor)))
    if kind == "longrope":
        longrope = LongRoPE(
            parameters["long_factor"], parameters["short_factor"], max(1.0, float(factor))
        )
        return Configured(longrope, positions, magnitude)
    if kind == "llama3":
        low, high = float(parameters["low_freq_factor"]), float(parameters["high_freq_factor"])
        return Configured(Llama3(low, high, float(factor)), positions)
    raise CannotMount(
        f"rope_type is {kind!r}, which the suite does not have: it knows default, linear, dynamic, "
        "yarn, longrope, llama3 and proportional"
    )


def _yarn_magnitude(parameters: Mapping[str, Any], factor: float) -> float:
    """Transformers computes it so: both settings of DeepSeek count, or neither does."""
    each, everywhere = parameters.get("mscale"), parameters.get("mscale_all_dim")

    def growth(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    return growth(each) / growth(everywhere) if each and everywhere else growth(1)
