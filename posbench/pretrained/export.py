"""`posbench pretrained export`: a trained model of the suite as a checkpoint of transformers.

    posbench pretrained export method=rope task=passkey seed=0 to=exported

Words are those of `python -m posbench`; the training is looked up, or made if it is not there. What
is written is a GPT-NeoX model, whose architecture is that of the suite: layer norms, GELU, rotary
positions. There is no tokenizer, for tokens are numbers of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.config import command_lines, mistakes
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.core.looped import Looped
from posbench.core.transformer import Block, Transformer
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.rotation import neighbours
from posbench.pretrained.refusal import need_transformers
from posbench.running.console import Console
from posbench.running.prepare import ReadyRun
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup

USAGE = "posbench pretrained export method=rope task=passkey seed=0 to=FOLDER"


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser_of_words("posbench pretrained export", f"{USAGE}\n\n{__doc__}")
    words = parser.parse_intermixed_args(arguments).words
    settings = [word for word in words if not word.startswith("to=")]
    folders = [Path(word[3:]) for word in words if word.startswith("to=") and word != "to="]
    return exit_status(lambda: _exported(settings, folders), settings)


def _exported(settings: Sequence[str], folders: Sequence[Path]) -> int:
    if len(folders) != 1:
        raise ConfigError(f"one word says where to write the model, to=FOLDER: {USAGE}")
    (folder,) = folders
    refuse_used(folder)
    need_transformers()
    console = Console()
    with composing():
        mistakes.check(settings)
        ready = ReadyRun.of(RunSpec.of(compose(*settings)), console)
        setup = ready.setup
        checked_model(setup.model(), setup)
        model = ready.train().model
    export(model, setup.train_positions, folder)
    console.say(f"Written: {folder}, a GPT-NeoX model for {setup.train_positions} positions.")
    return 0


def refuse_used(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"to={folder} is there and not empty: name a new folder")


def checked_model(model: Transformer, setup: Setup) -> None:
    """ConfigError, before any training, for what a GPT-NeoX model is not."""
    if setup.extension.changes:
        raise ConfigError(
            f"{type(setup.extension).__name__} belongs to the test of a model, and a checkpoint "
            "holds the model alone: choose extension=direct, and extend it with "
            "posbench pretrained"
        )
    if setup.config.training.random_offset:
        raise ConfigError(
            "training.random_offset has shown the model more positions than a checkpoint can say: "
            "choose 0"
        )
    neox_config(model, setup.train_positions)


def export(model: Transformer, train_positions: int, folder: Path) -> None:
    """Write the model for transformers; ConfigError if it is not of GPT-NeoX's architecture."""
    from transformers import GPTNeoXForCausalLM

    exported = GPTNeoXForCausalLM(neox_config(model, train_positions)).eval()
    exported.base_model.load_state_dict(neox_weights(model))
    # Apart, because versions of transformers give it different names.
    exported.get_output_embeddings().load_state_dict(model.head.state_dict())
    exported.save_pretrained(folder)


def neox_config(model: Transformer, train_positions: int) -> Any:
    from transformers import GPTNeoXConfig

    blocks: list[Block] = list(model.blocks)  # type: ignore[arg-type]
    first, extra = blocks[0], []
    for name, there in (
        ("short_conv", first.short_conv is not None),
        ("qk_norm", first.qk_norm is not None),
        ("output_gate", first.output_gate is not None),
        ("mlp_ratio=0", not first.mlp_ratio),
        (f"loops={getattr(model.encodings, 'loops', 1)}", isinstance(model, Looped)),
        (f"head_width={model.head_width}", model.num_heads * model.head_width != model.width),
    ):
        if there:
            extra.append(name)
    if extra:
        raise ConfigError(
            f"GPT-NeoX has no model.{', model.'.join(extra)}: it has an MLP, heads that together "
            "have the width of the model, each block once, and nothing else"
        )
    return GPTNeoXConfig(
        vocab_size=model.embedding.num_embeddings,
        hidden_size=model.width,
        intermediate_size=first.mlp_ratio * model.width,
        num_hidden_layers=len(blocks),
        num_attention_heads=model.num_heads,
        hidden_act="gelu",
        layer_norm_eps=model.norm.eps,
        use_parallel_residual=False,
        attention_bias=False,
        tie_word_embeddings=False,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        max_position_embeddings=train_positions,
        rope_parameters=rope_parameters(list(model.encodings), model.head_width),
        bos_token_id=None,
        eos_token_id=None,
        dtype=torch.float32,
    )


def rope_parameters(encodings: list[PositionEncoding], head_width: int) -> dict[str, Any]:
    """The rotation of all layers, as transformers writes it."""
    found = []
    for encoding in encodings:
        if type(encoding) not in (RoPE, PartialRoPE):
            raise ConfigError(
                f"GPT-NeoX has rotary positions and no {type(encoding).__name__}: choose "
                "method=rope or another with encoding rope or partial_rope"
            )
        if encoding.__dict__.get("pairs") is neighbours:
            raise ConfigError(
                "GPT-NeoX turns the halves of a head: choose encoding.layout=half, or another "
                "method"
            )
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]
        share = 2 * frequencies.count / head_width
        found.append((frequencies.base, share))
    if len(set(found)) > 1:
        raise ConfigError(
            "GPT-NeoX has one rotation for all layers, and this encoding has several: choose "
            "another method"
        )
    base, share = found[0]
    return {"rope_type": "default", "rope_theta": float(base), "partial_rotary_factor": share}


def neox_weights(model: Transformer) -> dict[str, Tensor]:
    """The suite's weights, but for the head, under GPT-NeoX's names."""
    weights = {
        "embed_in.weight": model.embedding.weight,
        "final_layer_norm.weight": model.norm.weight,
        "final_layer_norm.bias": model.norm.bias,
    }
    for index, block in enumerate(model.blocks):
        prefix = f"layers.{index}"
        for ours, theirs in LAYERS.items():
            for name, value in block.get_submodule(ours).named_parameters():
                if ours == "qkv":
                    # Ours is queries, keys and values, each of all heads; theirs is head by head.
                    heads = value.unflatten(0, (3, model.num_heads, -1))
                    value = heads.transpose(0, 1).flatten(0, 2)
                weights[f"{prefix}.{theirs}.{name}"] = value
    return {name: value.detach().clone().contiguous() for name, value in weights.items()}


LAYERS = {
    "attention_norm": "input_layernorm",
    "qkv": "attention.query_key_value",
    "out": "attention.dense",
    "mlp_norm": "post_attention_layernorm",
    "mlp_in": "mlp.dense_h_to_4h",
    "mlp_out": "mlp.dense_4h_to_h",
}
"""Our names of a block's parts, and GPT-NeoX's."""
