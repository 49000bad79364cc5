"""How to serve a model with an extension: settings that transformers and vLLM take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posbench.extension import Extension
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.frequencies import Frequencies
from posbench.pretrained.configured import rotations
from posbench.pretrained.mounting import Mounted


def overrides(mounted: Mounted, extension: Extension, length: int) -> dict[str, Any] | str:
    """Settings of the model's configuration that make of it, at `length`, what the extension does;
    or a sentence why there are none.

    They go into `from_pretrained(path, **overrides)` or vLLM's `--hf-overrides`. Both libraries
    have one factor for all lengths, so an extension with a scale for each length is, below
    `length`, another one than was measured. Dynamic NTK is written as the base that it
    comes to, because transformers would keep keys that were turned at another scale, and vLLM has
    one scale for its factor.
    """
    found = rotations(mounted.model.config)
    if len(found) > 1 or found[0].get("rope_type", "default") != "default":
        return "the model has a rotation of its own already, and rope_parameters would replace it"
    name = type(extension).__name__
    recipe = RECIPES.get(type(extension))
    parameters = recipe and recipe(mounted, extension, length)
    if parameters is None:
        return f"neither transformers nor vLLM has {name}: only the mounted model can be served"
    longest = max(length, mounted.train_positions)
    return {
        "max_position_embeddings": longest,
        "rope_parameters": dict(found[0]) | parameters,
    }


def _scaled(mounted: Mounted, kind: str, factor: float) -> dict[str, Any]:
    """The parameters that every extension has which starts from the training length."""
    trained = mounted.train_positions
    return {
        "rope_type": kind,
        "factor": factor,
        "original_max_position_embeddings": trained,
    }


def _frequencies(mounted: Mounted) -> Frequencies:
    """The frequencies that the extension changes."""
    encodings = (layer.form.encoding for layer in mounted.layers)
    first: Any = next(each for each in encodings if "frequencies" in each.handles)
    return first.frequencies


def _pi(mounted: Mounted, extension: PI, length: int) -> dict[str, Any]:
    return {"rope_type": "linear", "factor": extension.scale_at(mounted.train_positions, length)}


def _ntk(mounted: Mounted, extension: NTK, length: int) -> dict[str, Any]:
    """The base of which the stretch of the slowest pair is the last power."""
    frequencies, trained = _frequencies(mounted), mounted.train_positions
    slowest = extension.stretch(frequencies, trained, extension.scale_at(trained, length))[-1]
    power = frequencies.count / max(frequencies.count - 1, 1)
    return {"rope_theta": frequencies.base * slowest**power}


def _yarn(mounted: Mounted, extension: YaRN, length: int) -> dict[str, Any] | None:
    if (extension.mscale, extension.mscale_all_dim) != (1, 0):
        return None  # vLLM has no such factors outside DeepSeek's models
    scale = extension.scale_at(mounted.train_positions, length)
    return _scaled(mounted, "yarn", scale) | {
        "beta_fast": extension.beta_fast,
        "beta_slow": extension.beta_slow,
        "truncate": extension.truncate,
    }


def _llama3(mounted: Mounted, extension: Llama3, length: int) -> dict[str, Any]:
    scale = extension.scale_at(mounted.train_positions, length)
    return _scaled(mounted, "llama3", scale) | {
        "low_freq_factor": extension.parts.beta_slow,
        "high_freq_factor": extension.parts.beta_fast,
    }


def _longrope(mounted: Mounted, extension: LongRoPE, length: int) -> dict[str, Any]:
    frequencies, trained = _frequencies(mounted), mounted.train_positions
    scale = extension.scale_at(trained, length)
    long = extension.long_factors or extension.stretch(frequencies, trained, scale)
    return _scaled(mounted, "longrope", scale) | {
        "long_factor": list(long),
        "short_factor": list(extension.short_factors or (1.0,) * len(long)),
    }


RECIPES: dict[type[Extension], Callable[..., dict[str, Any] | None]] = {
    Direct: lambda mounted, extension, length: {},
    PI: _pi,
    NTK: _ntk,
    DynamicNTK: _ntk,
    YaRN: _yarn,
    Llama3: _llama3,
    LongRoPE: _longrope,
}
