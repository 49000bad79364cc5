"""Which decoders of transformers can be mounted, tried on tiny models of all of them.

python tests/mounts.py            write tests/MOUNTS.md
python tests/mounts.py --check    write nothing; fail if it is an older one

Each configuration of transformers that makes a causal language model is made small, with random
weights. The page says what mounting found, what was measured, and which extensions had an effect.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from posbench.base.errors import PosbenchError
from posbench.config import command_lines
from posbench.core.extension import Extension
from posbench.extensions.log_n import LogN
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.yarn import YaRN
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.proof import disagreement, growing, mounted_and_proved, prove_effect
from posbench.pretrained.richer import RereadingMounted

COMMAND = "python tests/mounts.py"
PAGE = Path(__file__).parent / "MOUNTS.md"
TRAINED = 64
EXTENSIONS: dict[str, Extension] = {
    "yarn": YaRN(2.0, 0.5),
    "self_extend": SelfExtend(16),
    "log_n": LogN(),
}
LARGEST = 30_000_000
"""Parameters: whatever a configuration makes of the sizes here that is larger is not tried."""
SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": TRAINED,
    "initializer_range": 0.1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # windows and chunks
    "sliding_window": 16,
    "attention_window_size": 16,
    "attention_chunk_size": 16,
    # experts
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "intermediate_size_mlp": 64,
    "expert_ffn_hidden_size": 32,
    "ffn_hidden_size": 64,
    # latent attention
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    # layers with a state
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_num_heads": 8,
    "mamba_d_head": 16,
    "mamba_head_dim": 16,
    "mamba_d_ssm": 128,
    "mamba_d_state": 8,
    "ssm_state_size": 8,
    "mamba_n_groups": 1,
    "n_groups": 1,
    "mamba_chunk_size": 16,
    "chunk_size": 16,
    "lru_width": 64,
    "query_pre_attn_scalar": 16,
    "vocab_size_per_layer_input": 96,
    "hidden_size_per_layer_input": 16,
    # other words for the same
    "n_embd": 64,
    "n_layer": 4,
    "n_layers": 4,
    "n_head": 4,
    "n_heads": 4,
    "d_model": 64,
    "n_positions": TRAINED,
    "n_ctx": TRAINED,
    "max_seq_len": TRAINED,
    "rotary_dim": 8,
}
LISTS = ("layer_types", "mlp_layer_types", "no_rope_layers", "rope_parameters", "layers_block_type")
"""Settings that are a list, with an item a layer; a default is cut to the layers that there are."""


@dataclass(frozen=True)
class Family:
    """What became of one kind of model."""

    name: str
    outcome: str  # "mounts", "refused" or "not built"
    words: str  # forms, or the reason
    cached: float | None = None  # the difference of reading token by token from one pass
    reread: bool = False
    extensions: tuple[str, ...] = ()


def small(name: str) -> Any:
    """The tiny model of a `model_type`."""
    kind: type[Any] = transformers.AutoConfig.for_model(name).__class__
    default = kind()
    given = {key: value for key, value in SIZES.items() if settable(default, key)}
    layers = SIZES["num_hidden_layers"]
    for key in LISTS:
        value = getattr(default, key, None)
        if isinstance(value, list) and len(value) > layers and settable(default, key):
            # The last ones: a pattern of layers has its full ones there.
            given[key] = [value[round(i * (len(value) - 1) / (layers - 1))] for i in range(layers)]
    torch.manual_seed(0)
    last: Exception | None = None
    heads = {"num_key_value_heads": SIZES["num_attention_heads"]}
    for without, change in itertools.product(((), ("head_dim",)), ({}, heads)):
        try:
            asked = given | {k: v for k, v in change.items() if k in given}
            config = kind(**{k: v for k, v in asked.items() if k not in without})
            with torch.device("meta"):
                shape = transformers.AutoModelForCausalLM.from_config(config)
            count = sum(each.numel() for each in shape.parameters())
            if count > LARGEST:
                raise ValueError(f"{count:,} parameters, however small it is asked to be")
            model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
            with torch.no_grad():
                tokens = torch.arange(3, 35).reshape(2, 16)
                present = torch.ones_like(tokens)
                present[0, :4] = 0
                logits = model(input_ids=tokens, attention_mask=present, use_cache=False).logits
            if not bool(logits[1].isfinite().all()):
                raise ValueError("its logits are no numbers")
            return model
        except Exception as error:  # whatever a configuration of sizes that are not its own raises
            last = error
    assert last is not None
    raise last


def settable(config: Any, key: str) -> bool:
    """Whether a configuration has the setting, and not only a way to read it."""
    read = getattr(type(config), key, None)
    only_read = isinstance(read, property) and read.fset is None
    try:
        return hasattr(config, key) and not only_read
    except Exception:  # some are of a layer and not of all
        return False


def tried(name: str) -> Family:
    try:
        model = small(name)
    except Exception as error:
        return Family(name, "not built", f"{type(error).__name__}: {first_line(error)}")
    try:
        positions = None if getattr(model.config, "max_position_embeddings", None) else TRAINED
        with mounted_and_proved(model, positions) as mounted:
            disagreement(mounted)
            found = sorted({described(layer) for layer in mounted.layers})
            return Family(
                name,
                "mounts",
                ", ".join(found),
                growing(mounted),
                isinstance(mounted, RereadingMounted),
                tuple(each for each in EXTENSIONS if acts(mounted, EXTENSIONS[each])),
            )
    except PosbenchError as error:
        return Family(name, "refused", first_line(error))


def described(layer: Any) -> str:
    words = layer.form.name
    if getattr(layer, "chunk", None):
        words += f" in chunks of {layer.chunk}"
    elif layer.window:
        words += f" in windows of {layer.window}"
    scores = getattr(layer, "scores", None)
    if scores and scores.sink is not None:
        words += " with a sink"
    if scores and scores.cap is not None:
        words += " with a soft cap"
    return words


def acts(mounted: Mounted, extension: Extension) -> bool:
    try:
        extension.extend(
            mounted.trained(mounted.train_positions), mounted.train_positions, 2 * TRAINED
        )
        prove_effect(mounted, extension, 2 * mounted.train_positions)
    except PosbenchError:
        return False
    return True


def first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:240]


def page(families: list[Family]) -> str:
    counts = Counter(each.outcome for each in families)
    mounts = [each for each in families if each.outcome == "mounts"]
    lines = [
        "# Which models of transformers can be mounted",
        "",
        f"Written by `{COMMAND}` with transformers {transformers.__version__}: tiny random models "
        f"of all {len(families)} decoders, with {TRAINED} trained positions.",
        "",
        f"{counts['mounts']} mount, {counts['refused']} are refused with a reason, and "
        f"{counts['not built']} were not built at this size.",
        "",
        "A model that mounts has the logits of the model itself, also on a padded batch, and two "
        "questions after one text have the answers of whole passes. The column cached says whether "
        "reading token by token, with the cache that the model makes, gives what one pass gives. "
        "Where a text is read again for each question, a state cannot be cut back. Extensions are "
        f"those of {', '.join(EXTENSIONS)} that change a logit at twice the trained length.",
        "",
        "| family | layers | cached | questions | extensions that act |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {each.name} | {each.words} | {'equal' if (each.cached or 0) < 1e-4 else 'differs'} "
            f"| {'text read again' if each.reread else 'text read once'} "
            f"| {', '.join(each.extensions) or 'none'} |"
            for each in mounts
        ),
        "",
        "## Refused",
        "",
        "| family | reason |",
        "| --- | --- |",
        *(
            f"| {each.name} | {each.words.replace('|', '/')} |"
            for each in families
            if each.outcome == "refused"
        ),
        "",
        "## Not built at this size",
        "",
        "| family | what transformers said |",
        "| --- | --- |",
        *(
            f"| {each.name} | {each.words.replace('|', '/')} |"
            for each in families
            if each.outcome == "not built"
        ),
    ]
    return "\n".join(lines) + "\n"


def all_families() -> list[Family]:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    found = []
    for name in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        if f"{name}_text" in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            continue  # the same decoder within a model of pictures
        with contextlib.redirect_stdout(io.StringIO()):
            found.append(tried(name))
        print(found[-1], file=sys.stderr, flush=True)
    return found


def main() -> int:
    parser = command_lines.parser(COMMAND, "Which decoders can be mounted.", check=True)
    check = parser.parse_args().check
    return command_lines.write_page(PAGE, lambda: page(all_families()), COMMAND, check)


if __name__ == "__main__":
    sys.exit(main())
