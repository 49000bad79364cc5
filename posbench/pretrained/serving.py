"""How to serve a model with an extension: settings that transformers and vLLM take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import logging

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension, FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.pretrained.configured import rotations
from posbench.pretrained.forms import tolerance
from posbench.pretrained.loading import AS_DATA
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.proof import TOKENS, logits_of, narrow, random_tokens, windows
from posbench.pretrained.refusal import as_one_line
from posbench.pretrained.richer import itself


def overrides(mounted: Mounted, extension: Extension, length: int) -> dict[str, Any] | str:
    """Settings of the model's configuration that make of it, at `length`, what the extension does;
    or a sentence why there are none.

    They go into `from_pretrained(path, **overrides)` or vLLM's `--hf-overrides`. They have been
    tried: a model that transformers makes with them has the logits of the mounted one. Both
    libraries have one factor for all lengths, so an extension with a scale for each length is,
    below `length`, another one than was measured. Dynamic NTK is written as the base that it comes
    to, because transformers would keep keys that were turned at another scale, and vLLM has one
    scale for its factor.

    Any other extension that divides frequencies is written as LongRoPE's lists of divisors, which
    have been tried in transformers. vLLM has lists as well, and a factor on cosine and sine of its
    own: where `attention_factor` is not 1, look there whether it is read.
    """
    if isinstance(extension, Direct):
        return "nothing has to be set: the model is served as it is"
    found = rotations(mounted.model.config)
    if len(found) > 1 or found[0].get("rope_type", "default") != "default":
        return "the model has a rotation of its own already, and rope_parameters would replace it"
    parameters = RECIPES.get(type(extension), _listed)(mounted, extension, length)
    if parameters is None:
        return (
            f"neither transformers nor vLLM has {type(extension).__name__}: only the mounted model "
            "can be served"
        )
    if still := narrow(mounted):
        return (
            f"layers with windows of {windows(still)} stay as they are in the mounted model, and "
            "rope_parameters would change them as well: only the mounted model can be served"
        )
    settings = {
        "max_position_embeddings": max(length, mounted.train_positions),
        "rope_parameters": dict(found[0]) | parameters,
    }
    try:
        difference = _difference(mounted, extension, settings, length)
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        return (
            f"transformers cannot load the model with rope_parameters ({as_one_line(error)}): only "
            "the mounted model can be served"
        )
    if difference <= max(tolerance(mounted.model.dtype), rounding(length)):
        return settings
    return (
        f"with rope_parameters, transformers makes another model, whose logits differ by "
        f"{difference:.2g} of the largest: only the mounted model can be served"
    )


def rounding(length: int) -> float:
    """The share of the largest logit that rounding may explain.

    Transformers has angles in float32, whose error grows with the position. In SmolLM2-135M the
    share was a quarter of this at most, up to 65,536 positions. A factor that was off by one in a
    hundred made .3 to 1.3.
    """
    return min(8 * torch.finfo(torch.float32).eps * length, 0.1)


@torch.no_grad()
def _difference(
    mounted: Mounted, extension: Extension, settings: dict[str, Any], length: int
) -> float:
    """What a model loaded with the settings is off by, as a share of the largest logit.

    It has the weights of the mounted one, not copies of them. A few tokens are spread over all
    positions; windows count tokens in both.
    """
    model, before = itself(mounted.model), mounted.extension
    spread = torch.linspace(0, length - 1, min(TOKENS, length), device=model.device)
    pos = spread.round().long()[None]
    tokens = random_tokens(model, 1, pos.shape[1])
    present = torch.ones_like(tokens)
    theirs = logits_of(as_configured(model, settings), tokens, present, pos)
    try:
        mounted.extension = extension
        with mounted.at(length):
            ours = logits_of(model, tokens, present, pos)
    finally:
        mounted.extension = before
    return float((ours - theirs).abs().max() / ours.abs().max())


def as_configured(model: Any, settings: dict[str, Any]) -> Any:
    """The model as transformers makes it with other settings of its configuration.

    It has the weights of this one, not copies of them.
    """
    with _quietly():
        served: Any = type(model).from_pretrained(
            None,
            config=_configured(model, settings),
            state_dict=model.state_dict(),
            dtype=model.dtype,
        )
    return served.eval().to(model.device)


def _configured(model: Any, settings: dict[str, Any]) -> PreTrainedConfig:
    """The configuration of the model's folder, if it came from one, with other settings."""
    folder = model.config.name_or_path
    if folder and (Path(folder) / "config.json").is_file():
        config = AutoConfig.from_pretrained(folder, **AS_DATA, **settings)
    else:
        config = type(model.config).from_dict(model.config.to_dict(), **settings)
    return config if isinstance(config, type(model.config)) else config.get_text_config()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without a bar of progress for weights that are there already."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _scaled(mounted: Mounted, kind: str, factor: float) -> dict[str, Any]:
    """The parameters that every extension has which starts from the training length."""
    trained = mounted.train_positions
    return {
        "rope_type": kind,
        "factor": factor,
        "original_max_position_embeddings": trained,
    }


def _turning(mounted: Mounted) -> PositionEncoding:
    """The encoding whose frequencies the extension changes."""
    encodings = (layer.form.encoding for layer in mounted.layers)
    return next(each for each in encodings if "frequencies" in each.handles)


def _frequencies(mounted: Mounted) -> Frequencies:
    held: Any = _turning(mounted).frequencies
    return held


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
        return _listed(mounted, extension, length)  # vLLM has these in DeepSeek's models alone
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


def _listed(mounted: Mounted, extension: Extension, length: int) -> dict[str, Any] | None:
    """Its divisors as lists, for the trained length and beyond; None if it has more than those."""
    encoding, trained = _turning(mounted), mounted.train_positions
    if not isinstance(extension, FrequencyExtension):
        return None
    short, long = (extension.apply(encoding, trained, each) for each in (trained, length))
    if type(long) is not type(encoding):
        return None  # it also heats
    lists: list[Any] = [each.frequencies for each in (short, long)]
    divisors = [list(each.stretch or (1.0,) * each.count) for each in lists]
    if not all(map(math.isfinite, divisors[1])):
        return None  # frequencies of 0
    return _scaled(mounted, "longrope", max(1.0, length / trained)) | {
        "short_factor": divisors[0],
        "long_factor": divisors[1],
        "attention_factor": lists[1].magnitude,
    }


RECIPES: dict[type[Extension], Callable[..., dict[str, Any] | None]] = {
    PI: _pi,
    NTK: _ntk,
    DynamicNTK: _ntk,
    YaRN: _yarn,
    Llama3: _llama3,
    LongRoPE: _longrope,
}
