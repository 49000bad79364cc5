"""Settings of four servers for an extension: transformers, vLLM, SGLang, llama.cpp.

`serving` tries those of transformers on a mounted model; here nothing is loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension, FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.encodings.rope import RoPE
from posbench.extensions.dca import DCA
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.pretrained.rope_settings import KEPT

FULL = "full_attention"
"""Transformers' name for layers that see all keys."""
LONG = 600
"""Characters of settings that are written once for all servers: those with lists are longer."""


# -- rope_parameters -------------------------------------------------------------------------------


def parameters(
    extension: Extension, encoding: PositionEncoding, trained: int, length: int
) -> dict[str, Any] | None:
    """`rope_parameters` of transformers and vLLM with which a model's rotation is, at a length,
    what the extension makes of it; None where neither has it. The base is the model's own where
    none is given.

    Both have one factor for all lengths. An extension that divides frequencies otherwise than any
    rule of theirs has LongRoPE's lists of divisors.
    """
    if "frequencies" not in encoding.handles:
        return None
    return RULES.get(type(extension), _listed)(extension, encoding, trained, length)


def _frequencies(encoding: PositionEncoding) -> Frequencies:
    held: Any = encoding.frequencies
    return held


def _scaled(kind: str, factor: float, trained: int) -> dict[str, Any]:
    """The parameters that every extension has which starts from the training length."""
    return {"rope_type": kind, "factor": factor, "original_max_position_embeddings": trained}


def _pi(extension: PI, encoding: PositionEncoding, trained: int, length: int) -> dict[str, Any]:
    return {"rope_type": "linear", "factor": extension.scale_at(trained, length)}


def _ntk(extension: NTK, encoding: PositionEncoding, trained: int, length: int) -> dict[str, Any]:
    """The base of which the stretch of the slowest pair is the last power."""
    frequencies = _frequencies(encoding)
    slowest = extension.stretch(frequencies, trained, extension.scale_at(trained, length))[-1]
    power = frequencies.count / max(frequencies.count - 1, 1)
    return {"rope_type": "default", "rope_theta": frequencies.base * slowest**power}


def _yarn(
    extension: YaRN, encoding: PositionEncoding, trained: int, length: int
) -> dict[str, Any] | None:
    if (extension.mscale, extension.mscale_all_dim) != (1, 0):
        # vLLM has these in DeepSeek's models alone
        return _listed(extension, encoding, trained, length)
    return _scaled("yarn", extension.scale_at(trained, length), trained) | {
        "beta_fast": extension.beta_fast,
        "beta_slow": extension.beta_slow,
        "truncate": extension.truncate,
    }


def _llama3(
    extension: Llama3, encoding: PositionEncoding, trained: int, length: int
) -> dict[str, Any]:
    return _scaled("llama3", extension.scale_at(trained, length), trained) | {
        "low_freq_factor": extension.parts.beta_slow,
        "high_freq_factor": extension.parts.beta_fast,
    }


def _longrope(
    extension: LongRoPE, encoding: PositionEncoding, trained: int, length: int
) -> dict[str, Any]:
    scale = extension.scale_at(trained, length)
    long = extension.long_factors or extension.stretch(_frequencies(encoding), trained, scale)
    return _scaled("longrope", scale, trained) | {
        "long_factor": list(long),
        "short_factor": list(extension.short_factors or (1.0,) * len(long)),
    }


def _listed(
    extension: Extension, encoding: PositionEncoding, trained: int, length: int
) -> dict[str, Any] | None:
    """Its divisors as lists, for the trained length and beyond; None if it has more than those."""
    if not isinstance(extension, FrequencyExtension):
        return None
    short, long = (extension.apply(encoding, trained, each) for each in (trained, length))
    if type(long) is not type(encoding):
        return None  # it also heats
    lists: list[Any] = [each.frequencies for each in (short, long)]
    divisors = [list(each.stretch or (1.0,) * each.count) for each in lists]
    if not all(map(math.isfinite, divisors[1])):
        return None  # frequencies of 0
    return _scaled("longrope", max(1.0, length / trained), trained) | {
        "short_factor": divisors[0],
        "long_factor": divisors[1],
        "attention_factor": lists[1].magnitude,
    }


RULES: dict[type[Extension], Callable[..., dict[str, Any] | None]] = {
    PI: _pi,
    NTK: _ntk,
    DynamicNTK: _ntk,
    YaRN: _yarn,
    Llama3: _llama3,
    LongRoPE: _longrope,
}
"""Extensions that `rope_parameters` have a rule for."""


# -- what each server is told ----------------------------------------------------------------------


@dataclass(frozen=True)
class ServedModel:
    """What is known of a model, and the longest length that it is to be served for."""

    trained: int
    base: float
    pairs: int  # of channels that turn, in a head
    target: int
    own: Mapping[str, Any] = field(default_factory=dict)  # rope_parameters of its configuration
    inside: str = ""  # the block of config.json that has them
    shared_window: int = 0  # of layers whose rotation is that of the layers that see all keys
    empty: Mapping[str, Any] = field(default_factory=dict)  # what transformers reads and is null

    @property
    def factor(self) -> float:
        return self.target / self.trained

    @property
    def share(self) -> float:
        r"""The share of its pairs that complete a turn within the trained length.

        Pair m of K turns by $b^{-m/K}$ a position, so that those do with
        $m / K < \ln(L / 2\pi) / \ln b$; within 0 and 1.
        """
        return min(max(math.log(self.trained / (2 * math.pi)) / math.log(self.base), 0.0), 1.0)

    def rule(self, extension: Extension) -> dict[str, Any] | None:
        """The parameters of one rotation."""
        encoding = RoPE(2 * self.pairs, self.base)
        found = parameters(extension, encoding, self.trained, self.target)
        own = self.own.get(self.kinds[-1], {}) if self.kinds else self.own
        turned = {name: own[name] for name in KEPT if name in own}
        return None if found is None else {"rope_theta": self.base} | turned | found

    def parameters(self, extension: Extension) -> dict[str, Any] | None:
        """The same among those of the other kinds of layers, which keep their own."""
        found = self.rule(extension)
        return {**self.own, self.kinds[-1]: found} if found and self.kinds else found

    @property
    def kinds(self) -> list[str]:
        """The kinds of layers that have parameters of their own; those that see all keys last."""
        found = (name for name, each in self.own.items() if isinstance(each, Mapping))
        return sorted(found, key=lambda name: name == FULL)


@dataclass(frozen=True)
class Recipe:
    """How a model is served with an extension at one factor, in settings of servers."""

    parameters: dict[str, Any] | None = None  # None: transformers has none
    llama_cpp: str = ""
    sglang: str = ""  # beside or in place of the parameters
    inside: str = ""  # the block of config.json that they belong to
    beside: Mapping[str, Any] = field(default_factory=dict)  # what else the block needs

    @classmethod
    def of(cls, model: ServedModel, extension: Extension) -> Recipe:
        flags = FLAGS.get(type(extension))
        return cls(
            model.parameters(extension),
            flags(model, extension) if flags else "",
            CHUNKED if isinstance(extension, DCA) else "",
            model.inside,
            model.empty,
        )

    @property
    def of_any_server(self) -> bool:
        """Whether a server has it at all."""
        return self.by_configuration or bool(self.sglang)

    @property
    def by_configuration(self) -> bool:
        """Whether a server has it as a setting that any model can be given."""
        return self.parameters is not None or bool(self.llama_cpp)

    def lines(self, target: int) -> Iterator[str]:
        """What to write for each of four servers."""
        if self.parameters is None:
            yield "transformers, vLLM: no setting; posbench's mounted model has it"
        else:
            given = {"max_position_embeddings": target, "rope_parameters": self.parameters}
            given |= self.beside
            given = {self.inside: given} if self.inside else given
            shown = json.dumps(given)
            yield f"transformers: from_pretrained(MODEL, **{given!r})"  # Python, and no JSON
            # Lists of divisors would be three pages.
            again = f"'{shown}'" if len(shown) < LONG else "'{...}', as for transformers"
            again += in_place_of_the_factor(self.parameters)
            yield f"vLLM: vllm serve MODEL --max-model-len {target} --hf-overrides {again}"
            yield (
                f"SGLang: python -m sglang.launch_server --model-path MODEL "
                f"--context-length {target} --json-model-override-args {again}"
            )
        if self.sglang:
            yield f"SGLang: {self.sglang}"
        flags = f"llama-server -m MODEL.gguf -c {target} {self.llama_cpp}"
        yield f"llama.cpp: {flags if self.llama_cpp else 'no flag'}"


def in_place_of_the_factor(parameters: Mapping[str, Any]) -> str:
    """What vLLM and SGLang read of LongRoPE's lists where transformers reads `attention_factor`."""
    full = parameters.get(FULL)
    factor = (full if isinstance(full, Mapping) else parameters).get("attention_factor")
    if factor is None:
        return ""
    return (
        f', with "short_mscale": {factor:.6g} and "long_mscale": {factor:.6g} beside '
        "attention_factor, which transformers alone reads"
    )


CHUNKED = (
    "--attention-backend dual_chunk_flash_attn, and dual_chunk_attention_config in the model's "
    "config.json"
)
"""SGLang's name for DCA."""


def _yarn_flags(model: ServedModel, extension: YaRN) -> str:
    given = model.rule(extension) or {}
    if given.get("rope_type") != "yarn" or not extension.truncate:
        return ""  # llama.cpp has no other temperature, and whole indices
    return (
        f"--rope-scaling yarn --rope-scale {given['factor']:g} --yarn-orig-ctx {model.trained} "
        f"--yarn-beta-fast {extension.beta_fast:g} --yarn-beta-slow {extension.beta_slow:g}"
    )


def _pi_flags(model: ServedModel, extension: PI) -> str:
    given = model.rule(extension) or {}
    return f"--rope-scaling linear --rope-scale {given['factor']:g}"


def _ntk_flags(model: ServedModel, extension: NTK) -> str:
    """As a base, which every server takes; dynamic NTK has that one at the longest length."""
    given = model.rule(extension) or {}
    return f"--rope-freq-base {given['rope_theta']:.10g}"


FLAGS: dict[type[Extension], Callable[..., str]] = {
    YaRN: _yarn_flags,
    PI: _pi_flags,
    NTK: _ntk_flags,
    DynamicNTK: _ntk_flags,
}
"""Extensions that llama-server has flags for. Those of Self-Extend left it in 2024."""
