"""Settings of four servers for an extension: transformers, vLLM, SGLang, llama.cpp.

`serving` derives those of a mounted model and tries them; here nothing is loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from posbench.extensions.distances import smallest


@dataclass(frozen=True)
class ServedModel:
    """What is known of a model, and the longest length that it is to be served for."""

    trained: int
    base: float
    pairs: int  # of channels that turn, in a head
    target: int

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

    def parameters(self, kind: str, **more: float) -> dict[str, Any]:
        """`rope_parameters` of transformers that start from the trained length."""
        return {
            **{"rope_type": kind, "rope_theta": self.base, "factor": self.factor},
            **{"original_max_position_embeddings": self.trained, **more},
        }


@dataclass(frozen=True)
class Recipe:
    """How a model is served with an extension at one factor, in settings of servers."""

    parameters: dict[str, Any] | None = None  # None: transformers has none
    llama_cpp: str = ""
    sglang: str = ""  # beside or in place of the parameters

    def lines(self, target: int) -> Iterator[str]:
        """What to write for each of four servers."""
        if self.parameters is None:
            yield "transformers, vLLM: no setting; posbench's mounted model has it"
        else:
            given = {"max_position_embeddings": target, "rope_parameters": self.parameters}
            shown = json.dumps(given)
            yield f"transformers: from_pretrained(MODEL, **{shown})"
            yield f"vLLM: vllm serve MODEL --max-model-len {target} --hf-overrides '{shown}'"
            yield (
                f"SGLang: sglang.launch_server --model-path MODEL --context-length {target} "
                f"--json-model-override-args '{shown}'"
            )
        if self.sglang:
            yield f"SGLang: {self.sglang}"
        flags = f"llama-server -m MODEL.gguf -c {target} {self.llama_cpp}"
        yield f"llama.cpp: {flags if self.llama_cpp else 'no flag'}"


def _yarn(model: ServedModel, extension: Any) -> Recipe:
    flags = f"--rope-scaling yarn --rope-scale {model.factor:g} --yarn-orig-ctx {model.trained}"
    return Recipe(model.parameters("yarn"), flags)


def _pi(model: ServedModel, extension: Any) -> Recipe:
    given = {"rope_type": "linear", "rope_theta": model.base, "factor": model.factor}
    return Recipe(given, f"--rope-scaling linear --rope-scale {model.factor:g}")


def _llama3(model: ServedModel, extension: Any) -> Recipe:
    return Recipe(model.parameters("llama3", low_freq_factor=1.0, high_freq_factor=4.0))


def _ntk(model: ServedModel, extension: Any) -> Recipe:
    """As a base, which every server takes; dynamic NTK has that one at the longest length."""
    base = model.base * model.factor ** (model.pairs / max(model.pairs - 1, 1))
    given = {"rope_type": "default", "rope_theta": base}
    return Recipe(given, f"--rope-freq-base {base:.10g}")


def _self_extend(model: ServedModel, extension: Any) -> Recipe:
    """llama.cpp has the window and the group by which far positions are divided,
    the smallest with which no distance is new.
    """
    window: int = extension.window
    group = smallest(lambda g: (model.target - 1) // g + window - window // g, model.trained)
    return Recipe(llama_cpp=f"--grp-attn-n {group} --grp-attn-w {window}")


def _dca(model: ServedModel, extension: Any) -> Recipe:
    return Recipe(
        sglang="--attention-backend dual_chunk_flash_attn, and dual_chunk_attention_config in the "
        "model's config.json"
    )


RECIPES: dict[str, Callable[[ServedModel, Any], Recipe]] = {
    "yarn": _yarn,
    "pi": _pi,
    "llama3": _llama3,
    "ntk": _ntk,
    "dynamic_ntk": _ntk,
    "self_extend": _self_extend,
    "dca": _dca,
}
