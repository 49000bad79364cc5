"""Tiny random models of transformers in float64, in the place of pretrained ones."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from posbench.pretrained.text_tasks import PEOPLE, THINGS

TRAINED = 24
"""Positions that each model counts as trained, L."""
WINDOW = 6
SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,  # scores of the order of 1, so that positions matter
}


ALPHABET = "\n .:?=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,"


def characters() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are characters."""
    vocabulary = {"<s>": 0, "?!": 1} | {each: 2 + i for i, each in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?!"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="?!")


SAID = "What Which The is the of secret number name value word comes most often that N X VAR"
WORDS = (*SAID.split(), *PEOPLE, *THINGS)
"""Words that are a token each, with a space before and without; everything else is spelt out."""
FORMS: dict[str, dict[str, Any]] = {
    "Mistral": {  # the tokenizer.json of Mistral 7B v0.1
        "normalizer": normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        ),
        "decoder": decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        ),
    },
    "Llama": {
        "pre_tokenizer": pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        "decoder": decoders.Metaspace(prepend_scheme="first"),
    },
    "always a space": {
        "pre_tokenizer": pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
        "decoder": decoders.Metaspace(prepend_scheme="always"),
    },
    "bytes": {
        "pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "decoder": decoders.ByteLevel(),
    },
}
"""What tokenizers do around their tokens: whether they put a space before each text, and where."""


@functools.cache
def of_words(form: str, *, space_after: bool = False, **parts: Any) -> PreTrainedTokenizerFast:
    """A tokenizer trained on `WORDS`, which puts <s> before a text unless it is told not to."""
    space = "Ġ" if form == "bytes" else "▁"
    tokenizer = Tokenizer(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if form != "bytes":
        alphabet = [*map(chr, range(33, 127)), "\n", space]
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    spaced = [word + space if space_after else space + word for word in WORDS]
    tokenizer.train_from_iterator([*WORDS, *spaced], trainer)
    for name, part in (FORMS[form] | parts).items():
        setattr(tokenizer, name, part)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def model(kind: type[PreTrainedModel], config: Any) -> Any:
    torch.manual_seed(0)
    return kind(config).double().eval()


def family(name: str, **settings: Any) -> Any:
    """A model of any family that transformers has."""
    sizes = SIZES | {
        "num_key_value_heads": 2,
        "max_position_embeddings": TRAINED,
        "pad_token_id": 0,
    }
    config = getattr(transformers, f"{name}Config")(**sizes | settings)
    return model(getattr(transformers, f"{name}ForCausalLM"), config)


def saved(net: Any, folder: Path, tokenizer: Any = None) -> Path:
    """A folder with the model and its tokenizer, of characters where none is given."""
    tokenizer = tokenizer or characters()
    net.resize_token_embeddings(len(tokenizer))
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def llama(rope: dict[str, Any] | None = None, positions: int = TRAINED, **settings: Any) -> Any:
    config = LlamaConfig(
        **SIZES,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0} | (rope or {}),
        **settings,
    )
    return model(LlamaForCausalLM, config)


def qwen3(rope: dict[str, Any] | None = None, positions: int = TRAINED) -> Any:
    config = Qwen3Config(
        **SIZES,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=positions,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6} | (rope or {}),
    )
    return model(Qwen3ForCausalLM, config)


def gemma3(
    rope: dict[str, Any] | None = None, positions: int = TRAINED, window: int = WINDOW
) -> Any:
    """Layers of two kinds: a window with a rotation of its own, and all keys."""
    config = Gemma3TextConfig(
        **SIZES,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=16,
        sliding_window=window,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=positions,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1e6} | (rope or {}),
        },
    )
    return model(Gemma3ForCausalLM, config)


def gpt_neox(rope: dict[str, Any] | None = None, positions: int = TRAINED) -> Any:
    """Half of each head turns."""
    config = GPTNeoXConfig(
        **SIZES,
        max_position_embeddings=positions,
        hidden_dropout=0.0,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": PARTS["gpt_neox"],
        }
        | (rope or {}),
    )
    return model(GPTNeoXForCausalLM, config)


MODELS = {"llama": llama, "qwen3": qwen3, "gemma3": gemma3, "gpt_neox": gpt_neox}
PARTS = {"llama": 1.0, "qwen3": 1.0, "gemma3": 1.0, "gpt_neox": 0.5}
"""The part of each head of 8 channels that turns."""


def rope_types(pairs: int) -> dict[str, dict[str, Any]]:
    """Every `rope_type` of transformers for ordinary models, extending from 12 positions to 24.

    The first word of each name is its type.
    """
    original = {"original_max_position_embeddings": 12}
    return {
        "default": {},
        "linear": {"factor": 2.0},
        "dynamic": {"factor": 2.0},
        "yarn": {"factor": 2.0, "beta_fast": 2.0, "beta_slow": 0.5, **original},
        "yarn of DeepSeek": {
            "factor": 2.0,
            "mscale": 0.707,
            "mscale_all_dim": 0.3,
            **original,
        },
        "yarn with a factor": {"factor": 2.0, "attention_factor": 1.4, **original},
        "longrope": {
            "factor": 2.0,
            "short_factor": [1.0 + 0.1 * pair for pair in range(pairs)],
            "long_factor": [1.0 + 0.5 * pair for pair in range(pairs)],
            **original,
        },
        "llama3": {
            "factor": 4.0,
            "low_freq_factor": 0.2,
            "high_freq_factor": 1.0,
            **original,
        },
    }
