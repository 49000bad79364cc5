"""How to serve a model with an extension: settings that transformers and vLLM take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.extensions.direct import Direct
from posbench.pretrained.configured import rotations
from posbench.pretrained.forms import tolerance
from posbench.pretrained.loading import AS_DATA, quietly
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.proof import logits_of, narrow, random_tokens, spread, windows
from posbench.pretrained.refusal import as_one_line
from posbench.pretrained.richer import itself
from posbench.pretrained.rope_settings import kind_of
from posbench.pretrained.servers import FULL, parameters


def overrides(
    mounted: Mounted, extension: Extension, length: int, fixed: bool = False
) -> dict[str, Any] | str:
    """Settings of the model's configuration that make of it, at `length`, what the extension does;
    or a sentence why there are none.

    They go into `from_pretrained(path, **overrides)` or vLLM's `--hf-overrides`. They have been
    tried: a model that transformers makes with them has the logits of the mounted one. Both
    libraries have one factor for all lengths, so an extension with a scale for each length is,
    below `length`, another one than was measured. Dynamic NTK is written as the base that it comes
    to, because transformers would keep keys that were turned at another scale, and vLLM has one
    scale for its factor.

    Any other extension that divides frequencies is written as LongRoPE's lists of divisors, which
    have been tried in transformers. vLLM has lists as well, and reads `short_mscale` and
    `long_mscale` in place of `attention_factor`. Where the factor is `fixed`, for all lengths, so
    are the divisors: the list for short texts is that for long ones.
    """
    config = itself(mounted.model).config.get_text_config()
    longest = {"max_position_embeddings": length}
    if isinstance(extension, Direct):
        if length > config.max_position_embeddings:
            return longest
        return "nothing has to be set: the model is served as it is"
    given = parameters(extension, _turning(mounted), mounted.train_positions, length)
    if given is None:
        return (
            f"neither transformers nor vLLM has {type(extension).__name__}: only the mounted model "
            "can be served"
        )
    if any(kind_of(each) != "default" for each in rotations(config)):
        return "the model has a rotation of its own already, and rope_parameters would replace it"
    if fixed and "long_factor" in given:
        given |= {"short_factor": given["long_factor"]}
    kinds = {
        name: dict(each)
        for name, each in config.rope_parameters.items()
        if isinstance(each, Mapping)
    }
    if (still := narrow(mounted)) and FULL not in kinds:
        return (
            f"layers with windows of {windows(still)} stay as they are in the mounted model, and "
            "rope_parameters would change them as well: only the mounted model can be served"
        )
    settings = {
        "max_position_embeddings": max(length, mounted.train_positions),
        "rope_parameters": {**kinds, FULL: kinds[FULL] | given}
        if kinds
        else config.rope_parameters | given,
    }
    settings |= left_empty(config)
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


def left_empty(config: PreTrainedConfig) -> dict[str, Any]:
    """What transformers reads beside new rope_parameters where a configuration has null: of
    Mixtral the width of a head.
    """
    if getattr(config, "head_dim", 0) is not None:
        return {}
    return {"head_dim": config.hidden_size // config.num_attention_heads}


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
    pos = spread(length)[None].to(model.device)
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
    with quietly():
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


def _turning(mounted: Mounted) -> PositionEncoding:
    """The encoding whose frequencies the extension changes."""
    still = narrow(mounted)
    encodings = (layer.form.encoding for layer in mounted.layers if layer not in still)
    return next((each for each in encodings if "frequencies" in each.handles), PositionEncoding())
