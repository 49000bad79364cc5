"""What `rope_parameters` need and what transformers reads of them; what is wrong is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, NonNegativeInt

from posbench.base.disk import read_text
from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names, listed
from posbench.pretrained.loading import AS_DATA, UNLOADABLE, Files, refuse_giants

ORIGINAL = "original_max_position_embeddings"
OF_YARN = ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
OF_LLAMA3 = ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor")
READ = {
    "default": (),
    "linear": ("factor",),
    "proportional": ("factor",),
    "dynamic": ("factor", ORIGINAL),
    "yarn": ("factor", ORIGINAL, *OF_YARN),
    "longrope": ("factor", ORIGINAL, "attention_factor", "short_factor", "long_factor"),
    "llama3": OF_LLAMA3,
}
"""What transformers reads for each `rope_type`, beside the base and the share that turns."""
NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": OF_LLAMA3,
}
"""Those of them that have no default in transformers."""
KEPT = ("partial_rotary_factor", "llama_4_scaling_beta", "mrope_section", "mrope_interleaved")
"""What some models read there besides, whatever the rule."""
ALWAYS_READ = ("rope_type", "type", "rope_theta", *KEPT)

POSITIVE = ("factor", "original_max_position_embeddings")
NUMBERS = (
    *("rope_theta", "partial_rotary_factor", "attention_factor", "beta_fast", "beta_slow"),
    *("mscale", "mscale_all_dim", "low_freq_factor", "high_freq_factor"),
)
LISTS = ("short_factor", "long_factor")
"""What kind of value a setting has; without one it may be null."""

HELP = "posbench pretrained verify --help"
LARGEST = 10_000_000
"""Bytes of a config.json."""
FINITE = sys.float_info.max  # a number of JSON may be a larger integer
EXAMPLE = '{"rope_type": "yarn", "factor": 4, "rope_theta": 1000000}'


def mapping(value: Any) -> Any:
    """JSON of a command line as rope_parameters."""
    try:
        found = json.loads(value, object_pairs_hook=_once) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"rope_parameters={value} is no JSON ({error}): write it in quotes, as "
            f"'rope_parameters={EXAMPLE}'"
        ) from None
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"rope_parameters={value} is no JSON object: write {EXAMPLE}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError for a name that is in it twice, of which Python takes the last."""
    names = [name for name, _ in pairs]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise ValueError(f"{name} is in it twice")
    return dict(pairs)


class VerifySettings(BaseModel):
    """The words of the command."""

    model_config = ConfigDict(frozen=True)

    model: Path
    rope_parameters: Annotated[dict[str, Any], BeforeValidator(mapping)] = {}
    max_position_embeddings: NonNegativeInt = 0
    train_positions: NonNegativeInt = 0
    length: NonNegativeInt = 0
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    device: Literal["cpu", "cuda", "mps"] = "cpu"


def refuse_early(files: Files, given: Mapping[str, Any]) -> None:
    """What can be refused before a model is loaded, which takes its time."""
    from transformers import AutoConfig

    file = files.path / "config.json"
    if not given:
        refuse_lacking(written_in(file) if file.is_file() else {})
        return
    for each in each_rule(given):
        kind = str(each.get("rope_type", each.get("type", "")))
        if kind not in READ:
            known = known_names(READ, HELP, closest(kind, READ))
            raise ConfigError(f"rope_type={kind} in rope_parameters: {known}")
    refuse_lacking(given)
    for each in each_rule(given):
        if "rope_type" not in each:
            raise ConfigError(
                f"rope_parameters have type={each['type']} and no rope_type, which transformers "
                f'needs beside a model: write "rope_type": "{each["type"]}"'
            )
    if files.path.is_dir():
        refuse_giants(files.path)
        try:
            config = AutoConfig.from_pretrained(files.path, **AS_DATA)
        except UNLOADABLE:
            return  # loading says it
        refuse_incomplete(config.get_text_config(), given)


def written_in(file: Path) -> dict[str, Any]:
    """The rope_parameters of a config.json."""
    return taken(_blocks(file))


def taken(text: Mapping[str, Any]) -> dict[str, Any]:
    """The rope_parameters of a configuration. Where the earlier name is there as well,
    transformers takes what it says alone.
    """
    return text.get("rope_scaling") or text.get("rope_parameters") or {}


def written_twice(file: Path) -> bool:
    """Whether a config.json has both names, with different settings."""
    found = _blocks(file)
    return len(found) == 2 and found["rope_scaling"] != found["rope_parameters"]


def repeated(file: Path) -> str:
    """What is twice in an object of a config.json, as a phrase; "" where nothing is."""
    try:
        json.loads(read_text(file, LARGEST), object_pairs_hook=_once)
    except (OSError, RecursionError):
        return ""  # loading says it
    except ValueError as error:
        return str(error) if str(error).endswith("twice") else ""
    return ""


def _blocks(file: Path) -> dict[str, dict[str, Any]]:
    """The settings of a rotation by the name under which a config.json has them."""
    try:
        config: Any = json.loads(read_text(file, LARGEST))
        text = config.get("text_config") or config
        found = {name: text.get(name) for name in ("rope_scaling", "rope_parameters")}
    except (AttributeError, OSError, ValueError, RecursionError):
        return {}  # loading says it
    return {name: dict(each) for name, each in found.items() if isinstance(each, Mapping) and each}


def each_rule(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rope_parameters of each kind of layer, or those of all."""
    return [each for each in given.values() if isinstance(each, Mapping)] or [given]


def kind_of(each: Mapping[str, Any]) -> str:
    """The rule that rope_parameters name."""
    return str(each.get("rope_type", each.get("type", "default")))


def names_unread(each: Mapping[str, Any]) -> list[str]:
    """The settings that transformers does not look at; none where it does not know the rule."""
    if kind_of(each) not in READ:
        return []
    read = (*ALWAYS_READ, *READ[kind_of(each)])
    return [name for name in each if name not in read]


def is_of_another(name: str) -> bool:
    """Whether some other rule reads a setting."""
    return any(name in read for read in READ.values())


def meant(name: str, each: Mapping[str, Any]) -> str | None:
    """The setting that a rule lacks and that a name comes near."""
    read = (*KEPT, *READ.get(kind_of(each), ()))
    return closest(name, [one for one in read if one not in each])


def refuse_lacking(given: Mapping[str, Any]) -> None:
    """ConfigError for a rule without a setting that it needs, or with a value that none can be."""
    for each in each_rule(given):
        _refuse_impossible(each)
        kind = kind_of(each)
        lacking = [name for name in NEEDED.get(kind, ()) if name not in each]
        for name in lacking:
            written = closest(name, names_unread(each))
            hint = (
                f"did you mean {name} where you wrote {written}?"
                if written
                else f'write "{name}": ... beside the others'
            )
            raise ConfigError(
                f"rope_parameters have no {name}, which rope_type {kind} needs: {hint}"
            )


def _refuse_impossible(each: Mapping[str, Any]) -> None:
    def is_number(value: Any) -> bool:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= FINITE
        )

    for name, value in each.items():
        if value is None:
            continue
        if name in POSITIVE and not (is_number(value) and value > 0):
            raise ConfigError(f"{name} in rope_parameters is a number above 0, got {value!r:.40}")
        if name in NUMBERS and not is_number(value):
            raise ConfigError(f"{name} in rope_parameters is a number, got {value!r:.40}")
        if name in LISTS and not (isinstance(value, list) and all(map(is_number, value))):
            raise ConfigError(f"{name} in rope_parameters is a list of numbers, got {value!r:.40}")


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
        for name in KEPT:
            if found.get(name) not in (None, 1) and name not in each:
                raise ConfigError(
                    f"rope_parameters have no {name}, and replace those of the model, which would "
                    f'be lost: write "{name}": {json.dumps(found[name])} beside the others'
                )
        for name in ("short_factor", "long_factor"):
            if len(numbers := each.get(name, ())) not in (0, pairs_of(config, each)):
                raise ConfigError(
                    f"{name} in rope_parameters has {len(numbers)} numbers, and "
                    f"{pairs_of(config, each)} pairs of channels turn: give one for each"
                )
    if kinds and not nested:
        raise ConfigError(
            f"the model has rope_parameters for each of {listed(kinds)}, and one is given for all: "
            f'write {{"{kinds[-1]}": {json.dumps(given)}, ...}}'
        )


def pairs_of(config: Any, each: Mapping[str, Any]) -> int:
    """The pairs of channels that turn in a head, as transformers counts them."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(width * float(each.get("partial_rotary_factor") or 1)) // 2
