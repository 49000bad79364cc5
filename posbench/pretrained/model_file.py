"""What a config.json or the head of a .gguf file says of a model, without its weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from posbench.base.disk import read_text
from posbench.base.errors import ConfigError
from posbench.pretrained.loading import AS_DATA, GGUF, UNLOADABLE, head_of_gguf, refuse_giants
from posbench.pretrained.refusal import as_one_line
from posbench.pretrained.rope_settings import LARGEST, ORIGINAL, kind_of, taken
from posbench.pretrained.servers import FULL

WIDTHS = ("qk_rope_head_dim", "head_dim", "attention_head_dim", "kv_channels")
"""Names of the width of a head, or of its part that turns. Zamba 2 has half of it in the last."""
MOST_CHANNELS = 10_000
TEXT = "text_config"
"""The block of the text in a config.json."""
WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that see a part of the text, and the setting of how much."""
WITHOUT_POSITIONS = (
    "afmoe",
    "beam",
    "cohere2",
    "cohere2_moe",
    "exaone4",
    "exaone_moe",
    "flint",
    "kolibri1",
    "llama4_text",
)
"""Kinds of models whose layers turn where they have a window, and have no positions elsewhere."""


@dataclass(frozen=True)
class ModelFile:
    """What a file says of a model; 0 or nothing where it does not."""

    trained: int  # before any extension
    base: float
    pairs: int  # of channels that turn, in a head
    rope: Mapping[str, Any]  # rope_parameters
    rule: str = ""  # the extension that it has already
    reaches: int = 0  # positions that it is configured for
    windows: tuple[int, ...] = ()  # of its layers that turn; 0 for one that sees all keys
    inside: str = ""  # the block of config.json that has all this
    rotary: bool = True
    empty: Mapping[str, Any] = field(default_factory=dict)  # what transformers reads and is null


def model_file(folder: Path) -> ModelFile:
    """What a config.json or the head of a .gguf file says."""
    if folder.suffix == GGUF and folder.is_file():
        return _of_gguf(folder)
    try:
        config = json.loads(read_text(folder / "config.json", LARGEST))
        read, apart = _as_transformers_reads(folder)
        inside = TEXT if config.get(TEXT) or apart else ""
        found = _of_text(read or config.get(TEXT) or config, inside)
        return replace(found, rotary=not read or bool(found.rope or found.base))
    except ConfigError:
        raise
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ConfigError(
            f"model={folder} has no config.json that can be read ({as_one_line(error)}): give "
            "trained= and base="
        ) from None


def _as_transformers_reads(folder: Path) -> tuple[dict[str, Any], bool]:
    """The settings of the text, with what older names mean, and whether they are a block of their
    own; nothing where transformers is not there, or refuses them.
    """
    if find_spec("transformers") is None:
        return {}, False
    from transformers import AutoConfig
    from transformers.utils import logging

    refuse_giants(folder)
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        config = AutoConfig.from_pretrained(folder, **AS_DATA)
        text = config.get_text_config()
        return dict(text.to_dict()), text is not config
    except UNLOADABLE:
        return {}, False
    finally:
        logging.set_verbosity(before)


def _of_text(text: Mapping[str, Any], inside: str) -> ModelFile:
    own = taken(text)
    kinds = {name: each for name, each in own.items() if isinstance(each, Mapping)}
    rope = kinds.get(FULL) or next(reversed(kinds.values()), own)
    positions = rope.get(ORIGINAL) or text.get("max_position_embeddings")
    across = text.get("hidden_size", 0) // max(text.get("num_attention_heads") or 1, 1)
    width = next(filter(None, map(text.get, WIDTHS)), across)
    share = rope.get("partial_rotary_factor") or text.get("partial_rotary_factor") or 1
    base = rope.get("rope_theta") or text.get("rope_theta") or 0
    rule = kind_of(rope)
    if not math.isfinite(float(base)) or width * share > MOST_CHANNELS:
        raise ValueError(f"a base of {base} and {width} channels in a head are of no model")
    reaches = max(
        int(text.get("max_position_embeddings") or 0),
        round(int(rope.get(ORIGINAL) or 0) * float(rope.get("factor") or 1)),
    )
    return ModelFile(
        int(positions or 0),
        float(base),
        int(width * share) // 2,
        own,
        "" if rule == "default" else rule,
        reaches,
        _windows(text),
        inside,
        empty={"head_dim": across} if text.get("head_dim", 0) is None else {},
    )


def _windows(text: Mapping[str, Any]) -> tuple[int, ...]:
    """The windows of the layers that turn; nothing where a configuration has none."""
    sizes = {kind: int(text.get(name) or 0) for kind, name in WINDOWS.items()}
    if not any(sizes.values()) or text.get("use_sliding_window") is False:
        return ()
    found = tuple(sizes.get(kind, 0) for kind in text.get("layer_types") or WINDOWS)
    if text.get("layer_types") and text.get("model_type") not in WITHOUT_POSITIONS:
        return found
    return tuple(filter(None, found))


def _of_gguf(file: Path) -> ModelFile:
    """The same by the names that llama.cpp gives to settings; no weight is read."""
    try:
        refuse_giants(file)
        settings, tensors = head_of_gguf(file)
        kind = settings["general.architecture"]
        found = {name.removeprefix(f"{kind}."): each for name, each in settings.items()}
        positions = found.get("rope.scaling.original_context_length") or found["context_length"]
        width = found.get("rope.dimension_count") or found.get("attention.key_length")
        if not width:
            width = found.get("embedding_length", 0) // max(
                found.get("attention.head_count") or 1, 1
            )
        rule = str(found.get("rope.scaling.type") or "none")
        # Divisors are no settings there, but tensors.
        if "rope_freqs.weight" in tensors:
            rule = "llama3"
        elif "rope_factors_long.weight" in tensors:
            rule = "longrope"
        window = int(found.get("attention.sliding_window") or 0)
        return ModelFile(
            int(positions),
            float(found.get("rope.freq_base") or 0),
            int(width) // 2,
            {},
            "" if rule == "none" else rule,
            int(found["context_length"]),
            (window, 0) if window else (),  # the head does not say which layers have it
        )
    except ConfigError:
        raise
    except UNLOADABLE as error:
        raise ConfigError(
            f"model={file} is no GGUF file that says its context length ({as_one_line(error)}): "
            "give trained= and base="
        ) from None
