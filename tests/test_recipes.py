"""The page of model families: every row is one that runs, and every source can be followed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import tiny, trained

from posbench.base.errors import ConfigError
from posbench.conf import reference as page
from posbench.conf.reference import Recipe, recipes
from posbench.config.methods import methods
from posbench.running.subject import setup

ROWS = sorted({row for recipe in recipes() for row in recipe.rows})
ASKED = {
    *("Llama 2", "Llama 3", "Llama 4", "Qwen 2", "Qwen 3", "Gemma 2", "Gemma 3", "Gemma 4"),
    *("gpt-oss", "DeepSeek V3", "Kimi K2", "Command A", "SmolLM 3", "OLMo 3", "Phi 3 and 4"),
    *("Mistral 7B", "Inkling"),
}


def test_no_family_is_missing_and_none_stands_twice() -> None:
    families = [recipe.family for recipe in recipes()]
    assert not ASKED - set(families) and len(set(families)) == len(families)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_builds_and_is_extended_to_its_longest_test(row: str) -> None:
    run = setup(f"method={row}")
    model = run.model().eval()  # it refuses what it could not extend
    stack = model.encodings
    extended = run.extension.extend(stack, run.train_positions, run.test_positions)
    tokens, pos = torch.zeros(1, 20, dtype=torch.long), torch.arange(20)[None]
    assert model.with_encodings(extended)(tokens, pos).isfinite().all()
    asked = dict(methods()[row].model)
    config = run.config.model
    for name in ("qk_norm", "output_gate", "short_conv"):
        assert getattr(config, name) == asked.get(name, 0)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_trains(row: str, tmp_path: Path) -> None:
    """Two steps in the settings of the protocol smoke, with what the row turns on."""
    run = tiny(tmp_path, f"method={row}", "training.steps=2", "training.warmup_steps=1")
    before = dict(run.model().named_parameters())
    after = trained(run)
    moved = {
        name: not torch.equal(weight, before[name])
        for name, weight in after.model.named_parameters()
    }
    assert after.log.curve.step[-1] == 2
    assert all(moved[name] for name in moved if "encodings" not in name), moved


def test_a_row_that_is_none_is_found() -> None:
    wrong = Recipe("Mine", ("rope_yarm",), "RoPE", ("arXiv 2307.09288",))
    with pytest.raises(ConfigError, match="no method: did you mean rope_yarn"):
        _ = wrong.methods


@pytest.mark.parametrize("source", ["2307.09288", "arXiv 23.1", "a blog"])
def test_a_source_that_cannot_be_followed_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="is no source"):
        page.link(source)


def test_what_was_read_in_transformers_is_there() -> None:
    transformers = pytest.importorskip("transformers")
    models = {
        source.split()[1]
        for recipe in recipes()
        for source in recipe.sources
        if source.startswith("transformers ")
    }
    absent = [name for name in sorted(models) if not hasattr(transformers.models, name)]
    assert not absent


SWA, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
BUILT: dict[str, dict[str, object]] = {
    "afmoe": {"sliding_window": 1024, "rope_theta": 10000, "layer_types": [SWA] * 3 + [FULL]},
    "exaone4": {"sliding_window": 4096, "layer_types": [SWA] * 3 + [FULL]},
    "exaone_moe": {"sliding_window": 4096, "layer_types": [SWA] * 3 + [FULL]},
    "kolibri1": {"sliding_window": 513, "rope_theta": 10000, "layer_types": [SWA] * 4 + [FULL]},
    "flint": {"sliding_window": 513, "rope_theta": 10000},
    "muse_spark_text": {"sliding_window": 2048, "rope_theta": 500000},
    "muse_glimmer_text": {"sliding_window": 2048, "layer_types": [SWA] * 3 + [FULL]},
    "granite_swa": {"sliding_window": 128, "rope_theta": 10000, "layer_types": [FULL] + [SWA] * 3},
    "beam": {
        "sliding_window": 512,
        f"{SWA}.rope_theta": 10000,
        "layer_types": [SWA] * 5 + [FULL],
        FULL: None,
    },
    "glm4_moe": {"rope_theta": 10000, "partial_rotary_factor": 0.5},
    "minimax_m2": {"rope_theta": 5000000},
    "mimo_v2_flash": {
        "sliding_window": 129,
        f"{SWA}.rope_theta": 10000,
        f"{FULL}.rope_theta": 5000000,
        f"{FULL}.partial_rotary_factor": 0.334,
    },
    "laguna": {
        "sliding_window": 512,
        f"{SWA}.rope_theta": 10000,
        f"{FULL}.rope_theta": 500000,
        f"{FULL}.partial_rotary_factor": 0.5,
    },
    "mellum": {
        "sliding_window": 1024,
        f"{SWA}.rope_theta": 10000,
        f"{FULL}.rope_theta": 500000,
    },
    "lfm3": {
        "sliding_window": 256,
        f"{SWA}.rope_theta": 10000,
        f"{FULL}.rope_theta": 1000000,
        f"{FULL}.rope_type": "proportional",
        f"{FULL}.partial_rotary_factor": 0.5,
    },
    "apertus": {"rope_theta": 12000000, "rope_type": "llama3", "factor": 8},
    "hy_v3": {"rope_theta": 11158840},
    "mistral4": {
        "rope_theta": 10000,
        "rope_type": "yarn",
        "partial_rotary_factor": 0.5,
        "original_max_position_embeddings": 8192,
    },
    "deepseek_v4": {
        "sliding_window": 128,
        "main.rope_theta": 10000,
        "main.partial_rotary_factor": 0.125,
        "compress.rope_theta": 160000,
    },
    "glm_moe_dsa": {"rope_theta": 10000, "index_topk": 2048, "qk_rope_head_dim": 64},
    "seed_oss": {"rope_theta": 10000},
    "arcee": {"rope_theta": 10000},
    "ernie4_5": {"rope_theta": 500000},
    "solar_open": {"rope_theta": 1000000},
    "dots3_note_text": {
        "sliding_window": 512,
        f"{SWA}.rope_theta": 50000,
        "indexed_attention.rope_theta": 80000000,
        f"{SWA}.partial_rotary_factor": 0.25,
        "index_topk": 2048,
    },
    "minimax_m3_vl_text": {"rope_theta": 5000000, "rotary_dim": 64, "index_block_size": 128},
    "lfm2": {"rope_theta": 1000000},
    "qwen3_next": {
        "rope_theta": 10000,
        "partial_rotary_factor": 0.25,
        "linear_conv_kernel_dim": 4,
        "layer_types": [LINEAR] * 3 + [FULL],
    },
    "qwen3_5_text": {
        "rope_theta": 10000,
        "partial_rotary_factor": 0.25,
        "linear_conv_kernel_dim": 4,
        "layer_types": [LINEAR] * 3 + [FULL],
    },
    "kimi_linear": {"linear_conv_kernel_dim": 4},
    "olmo_hybrid": {
        "rope_theta": 10000,
        "linear_conv_kernel_dim": 4,
        "linear_allow_neg_eigval": True,  # betas up to 2
        "layer_types": [LINEAR] * 3 + [FULL],
    },
    "nemotron_h": {"conv_kernel": 4, "ssm_state_size": 128},
    "granitemoehybrid": {
        "mamba_d_conv": 4,
        "mamba_d_state": 256,
        "position_embedding_type": None,
    },
}
"""What a configuration of transformers is by default; parts of `rope_parameters` by their way."""


@pytest.mark.parametrize("model", BUILT)
def test_what_a_row_says_is_what_transformers_builds(model: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[model]()
    text = next(
        recipe.has
        for recipe in recipes()
        if f"transformers {model.removesuffix('_text')}" in recipe.sources
    )
    for way, expected in BUILT[model].items():
        found = getattr(config, way, None)
        if found is None and not (expected is None and hasattr(config, way)):
            found = config.rope_parameters
            for step in way.split("."):
                found = found[step]
        if isinstance(expected, list):
            found = list(found)[: len(expected)]
        assert found == expected, way
        if isinstance(expected, int) and not isinstance(expected, bool) and way != "factor":
            assert f"{expected:,}" in text, (way, text)


WORDS = {
    "normalised": ("q_norm", "q_layernorm"),
    "gate": ("gate_proj", "g_proj"),
    "sink": ("sinks",),
}
"""What a row says where a layer of attention has weights of such a name."""
OTHERWISE = {
    *(
        "muse_spark_text",
        "muse_glimmer_text",
        "minimax_m3_vl_text",
        "mistral4",
    ),  # of images too
    *("deepseek_v4", "glm_moe_dsa", "dots3_note_text"),  # have norms of compressed keys
    "glm4_moe",  # has norms in some sizes alone
    *("qwen3_next", "qwen3_5_text"),  # have the gate inside `q_proj`
    *("nemotron_h", "granitemoehybrid"),  # have no layer of attention under that name
}


@pytest.mark.parametrize("model", sorted(BUILT.keys() - OTHERWISE))
def test_norms_gates_and_sinks_are_those_of_the_layers_that_transformers_builds(model: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[model](num_hidden_layers=6)
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config)
    parts = {
        part for name, _ in net.named_parameters() if "attn" in name for part in name.split(".")
    }
    [recipe] = [each for each in recipes() if f"transformers {model}" in each.sources]
    said = f"{recipe.has}; {recipe.differs}"
    for word, names in WORDS.items():
        assert (word in said) == any(name in parts for name in names), word


def test_every_row_of_the_page_has_the_cells_of_its_table() -> None:
    table = [line for line in page.models().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {6} and len(table) == len(recipes()) + 2
