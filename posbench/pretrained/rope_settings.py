"""What `rope_parameters` need and what transformers reads of them; what is wrong is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names, listed
from posbench.pretrained.loading import AS_DATA, UNLOADABLE, Files

READ = {
    "default": (),
    "linear": ("factor",),
    "proportional": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": (
        *("factor", "original_max_position_embeddings", "attention_factor", "beta_fast"),
        *("beta_slow", "mscale", "mscale_all_dim", "truncate"),
    ),
    "longrope": (
        *("factor", "original_max_position_embeddings", "attention_factor", "short_factor"),
        "long_factor",
    ),
    "llama3": (
        *("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    ),
}
"""What transformers reads for each `rope_type`, beside the base and the share that turns."""
NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": (
        *("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    ),
}
"""Those of them that have no default in transformers."""
ALWAYS_READ = ("rope_type", "type", "rope_theta", "partial_rotary_factor")


EXAMPLE = '{"rope_type": "yarn", "factor": 4, "rope_theta": 1000000}'


def mapping(value: Any) -> Any:
    """JSON of a command line as rope_parameters."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(
            f"rope_parameters={value} is no JSON ({error}): write it in quotes, as "
            f"'rope_parameters={EXAMPLE}'"
        ) from None
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"rope_parameters={value} is no JSON object: write {EXAMPLE}")
    return found


def refuse_early(files: Files, given: Mapping[str, Any]) -> None:
    """What can be refused before a model is loaded, which takes its time."""
    from transformers import AutoConfig

    if not given:
        return
    refuse_lacking(given)
    if files.path.is_dir():
        try:
            config = AutoConfig.from_pretrained(files.path, **AS_DATA)
        except UNLOADABLE:
            return  # loading says it
        refuse_incomplete(config.get_text_config(), given)


def each_rule(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rope_parameters of each kind of layer, or those of all."""
    return [each for each in given.values() if isinstance(each, Mapping)] or [given]


def names_unread(each: Mapping[str, Any]) -> list[str]:
    """The settings of a rule that transformers does not look at."""
    read = READ.get(str(each.get("rope_type", each.get("type", "default"))), ())
    return [name for name in each if name not in (*ALWAYS_READ, *read)]


def refuse_lacking(given: Mapping[str, Any]) -> None:
    """ConfigError for a `rope_type` that is none, or one without a setting that it needs."""
    for each in each_rule(given):
        kind = str(each.get("rope_type", each.get("type", "")))
        if kind not in READ:
            raise ConfigError(
                f"rope_type={kind} in rope_parameters: "
                f"{known_names(READ, 'posbench pretrained verify --help', closest(kind, READ))}"
            )
        lacking = [name for name in NEEDED.get(kind, ()) if name not in each]
        unread = names_unread(each)
        for name in lacking:
            written = closest(name, unread)
            meant = (
                f"did you mean {name} where you wrote {written}?"
                if written
                else f'write "{name}": ... beside the others'
            )
            raise ConfigError(
                f"rope_parameters have no {name}, which rope_type {kind} needs: {meant}"
            )


def refuse_incomplete(config: Any, given: Mapping[str, Any]) -> None:
    """ConfigError for what lacks a setting or a base, or is one for all where kinds differ."""
    from posbench.pretrained.configured import rotations

    refuse_lacking(given)
    found = getattr(config, "rope_parameters", None) or {}
    kinds = [name for name, each in found.items() if isinstance(each, Mapping)]
    nested = any(isinstance(each, Mapping) for each in given.values())
    for each in each_rule(given):
        if found and "rope_theta" not in each:
            known = [one.get("rope_theta") for one in rotations(config)]
            raise ConfigError(
                "rope_parameters have no rope_theta, and replace those of the model, whose base "
                f'would be lost: write "rope_theta": {known[0]:g} beside the others'
            )
    if kinds and not nested:
        raise ConfigError(
            f"the model has rope_parameters for each of {listed(kinds)}, and one is given for all: "
            f'write {{"{kinds[-1]}": {json.dumps(given)}, ...}}'
        )
