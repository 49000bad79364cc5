"""What `verify` says of settings as models are published with them, and of mistakes in them.

The models are tiny, with the rotation of the published ones: their rope settings, their lengths and
the part of a head that turns. Each is loaded from a config.json as it is written on the Hub.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from small_models import saved

from posbench.base.errors import ConfigError
from posbench.pretrained import rope_settings, verify
from posbench.pretrained.loading import Files
from posbench.pretrained.rope_settings import refuse_early
from posbench.pretrained.verify import Verification, VerifySettings

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}
EXPERTS = {"moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2}
LATENT = {
    **{"num_key_value_heads": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
    **{"q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16},
    **{"v_head_dim": 16},
}
WRITTEN = ("rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings")
"""What config.json has of the published model; `save_pretrained` would write it in today's form."""


@dataclass(frozen=True)
class Published:
    """A model of a family, and what its config.json says of positions."""

    family: str
    says: dict[str, Any]
    rule: str  # what its layers that see all keys are found to have
    sizes: dict[str, Any] = field(default_factory=dict)

    def folder(self, at: Path, **changed: Any) -> Path:
        """As it is published, or with something else in its config.json; None leaves it out."""
        config = getattr(transformers, f"{self.family}Config")(**SIZES | self.sizes | self.says)
        torch.manual_seed(0)
        folder = saved(transformers.AutoModelForCausalLM.from_config(config), at)
        file = folder / "config.json"
        said = json.loads(file.read_text())
        for name in WRITTEN:
            said.pop(name, None)
        said |= {**self.says, **changed}
        file.write_text(json.dumps({k: v for k, v in said.items() if v is not None}))
        return folder


SHORT = [1.0, 1.02, 1.03, 1.05, 1.08, 1.1, 1.2, 1.3]
LONG = [1.05, 1.1, 1.3, 2.0, 8.0, 20.0, 35.0, 64.0]
LLAMA = {
    **{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    **{"original_max_position_embeddings": 8192, "rope_type": "llama3"},
}
QWEN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
PHI = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}
OSS = {
    **{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0},
    **{"original_max_position_embeddings": 4096, "truncate": False},
}
DEEPSEEK = {
    **{"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1},
    **{"mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
}
MINISTRAL = {
    **{"type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0},
    **{"original_max_position_embeddings": 16384, "max_position_embeddings": 16384},
    **{"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
}


def of_length(positions: int, base: float | None, rope: dict[str, Any] | None) -> dict[str, Any]:
    said = {"max_position_embeddings": positions, "rope_theta": base, "rope_scaling": rope}
    return {name: each for name, each in said.items() if each is not None}


MODELS = {
    "Llama 3.1": Published(
        "Llama", of_length(131072, 5e5, LLAMA), "llama3: trained length 8192, factor 8,"
    ),
    "Llama 3.2": Published(
        "Llama", of_length(131072, 5e5, LLAMA | {"factor": 32.0}), "length 8192, factor 32,"
    ),
    "Qwen 2.5": Published("Qwen2", of_length(32768, 1e6, None), "none"),
    "Qwen 2.5 with the block of its README": Published(
        "Qwen2", of_length(32768, 1e6, QWEN), "yarn: trained length 32768, factor 4, beta_fast 32,"
    ),
    "Qwen 3 with the block of its README": Published(
        "Qwen3",
        of_length(40960, 1e6, {**QWEN, "type": None, "rope_type": "yarn"}),
        "yarn: trained length 32768, factor 4,",
        {"head_dim": 16},
    ),
    "Phi 3": Published(
        "Phi3",
        of_length(131072, 1e4, PHI) | {"original_max_position_embeddings": 4096},
        # The root of 1 + ln 32 / ln 4096.
        "longrope: trained length 4096, factor 32, cosine and sine times 1.19024",
    ),
    "gpt-oss": Published(
        "GptOss",
        of_length(131072, 15e4, OSS),
        # .1 ln 32 + 1
        "factor 32, beta_fast 32, beta_slow 1, truncate 0, cosine and sine times 1.34657",
        {"head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 128},
    ),
    "DeepSeek V3": Published(
        "DeepseekV3",
        of_length(163840, 1e4, DEEPSEEK),
        "yarn: trained length 4096, factor 40, beta_fast 32, beta_slow 1, truncate 1, cosine and "
        "sine times 1",
        EXPERTS | LATENT,
    ),
    "Gemma 3": Published(
        "Gemma3Text",
        of_length(131072, 1e6, {"rope_type": "linear", "factor": 8.0})
        | {"rope_local_base_freq": 10000.0},
        "pi: trained length 131072, factor 8,",
        {"head_dim": 16, "sliding_window": 1024, "sliding_window_pattern": 2},
    ),
    "Ministral 3": Published(
        "Ministral3",
        {"max_position_embeddings": 262144, "rope_parameters": MINISTRAL},
        "yarn: trained length 16384, factor 16, beta_fast 32, beta_slow 1, truncate 1, cosine and "
        "sine times 1",
        {"head_dim": 16},
    ),
    "GLM 4": Published(
        "Glm4", of_length(32768, 1e4, None) | {"partial_rotary_factor": 0.5}, "none"
    ),
    "GLM 4.5": Published(
        "Glm4Moe",
        of_length(131072, 1e6, None) | {"partial_rotary_factor": 0.5},
        "none",
        {**EXPERTS, "head_dim": 16, "first_k_dense_replace": 1},
    ),
}


def verified(folder: Path, given: dict[str, Any] | None = None, **settings: Any) -> Verification:
    words = {"model": folder, **settings} | ({"rope_parameters": given} if given else {})
    asked = VerifySettings(**words)
    refuse_early(Files(folder), asked.rope_parameters)
    return Verification.of(Files(folder).load("float32")[0], asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_published_configuration_is_what_it_is_and_no_problem(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    found = verified(model.folder(tmp_path))
    assert found.problems == []
    kind, layers = found.kinds()[-1]
    assert model.rule in kind.rule and layers[-1] == 1
    assert "partial" in kind.form.name or "GLM" not in name
    assert kind.changes is (model.rule != "none")
    if model.family == "Gemma3Text":  # 131,072 positions are served, and 32,768 were trained
        assert found.length == 131072
        assert "does not say the length before its linear factor" in next(found.lines())
        assert verified(tmp_path, length=131072).problems == []
        assert verified(tmp_path, train_positions=16384, length=131072).problems == []
        [problem] = verified(tmp_path, train_positions=8192, length=131072).problems
        assert problem.startswith("the factor 8 of pi makes 65536 of 8192 positions")


def without(rope: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in rope.items() if name not in names}


BLOCK = "Qwen 2.5 with the block of its README"
ORIGINAL = "original_max_position_embeddings"
MISTAKES: list[tuple[str, dict[str, Any], list[str]]] = [
    # names
    (
        "gpt-oss",
        {"rope_scaling": without(OSS, "beta_fast") | {"betafast": 32.0}},
        ["betafast is not read with rope_type yarn: did you mean beta_fast?"],
    ),
    (
        "DeepSeek V3",
        {"rope_scaling": without(DEEPSEEK, "mscale_all_dim") | {"mscale_all": 1.0}},
        ["mscale_all is not read with rope_type yarn: did you mean mscale_all_dim?"],
    ),
    (
        BLOCK,
        {"rope_scaling": without(QWEN, ORIGINAL) | {"original_max_position_embedding": 32768}},
        [
            "original_max_position_embedding is not read with rope_type yarn: did you mean "
            f"{ORIGINAL}?",
            f"{ORIGINAL} is not given",
        ],
    ),
    (
        "GLM 4",
        {
            "partial_rotary_factor": None,
            "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factr": 0.25},
        },
        [
            "partial_rotary_factr is not read with rope_type default: did you mean "
            "partial_rotary_factor?"
        ],
    ),
    (
        "Qwen 2.5",
        {"rope_scaling": {"factor": 4.0}},
        ["factor is not read with rope_type default"],
    ),
    (
        BLOCK,
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        ["config.json has both rope_scaling and rope_parameters"],
    ),
    # lengths
    (
        BLOCK,
        {"rope_scaling": without(QWEN, ORIGINAL)},
        [f"{ORIGINAL} is not given, so yarn begins"],
    ),
    (
        BLOCK,
        {"rope_scaling": without(QWEN, ORIGINAL), "max_position_embeddings": 131072},
        ["so yarn begins at the 131072 positions of max_position_embeddings"],
    ),
    (BLOCK, {"max_position_embeddings": 131072}, []),
    (
        BLOCK,
        {"max_position_embeddings": 65536},
        ["the factor 4 of yarn makes 131072 of 32768 positions, and 65536 are served"],
    ),
    (
        BLOCK,
        {"rope_scaling": QWEN | {"factor": 2.0}, "max_position_embeddings": 131072},
        ["the factor 2 of yarn makes 65536 of 32768 positions, and 131072 are served"],
    ),
    (
        "gpt-oss",
        {"rope_scaling": without(OSS, ORIGINAL)},
        ["so yarn begins at the 131072 positions"],
    ),
    (
        "gpt-oss",
        {"rope_scaling": OSS | {"factor": 2.0}},
        ["the factor 2 of yarn makes 8192 of 4096 positions, and 131072 are served"],
    ),
    (
        "Llama 3.1",
        {"rope_scaling": LLAMA | {"factor": 2.0}},
        ["the factor 2 of llama3 makes 16384 of 8192 positions, and 131072 are served"],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changed", "problems"), MISTAKES)
def test_a_mistake_in_a_configuration_is_named(
    name: str, changed: dict[str, Any], problems: list[str], tmp_path: Path
) -> None:
    found = verified(MODELS[name].folder(tmp_path, **changed)).problems
    assert len(found) == len(problems), found
    assert all(said in each for said, each in zip(problems, found, strict=True)), found


@pytest.mark.parametrize(
    ("name", "rope", "said"),
    [
        (
            "Llama 3.1",
            without(LLAMA, "low_freq_factor") | {"low_freq": 1.0},
            "did you mean low_freq_factor where you wrote low_freq?",
        ),
        ("Llama 3.1", without(LLAMA, ORIGINAL), f'write "{ORIGINAL}": ... beside the others'),
        (BLOCK, without(QWEN, "factor") | {"factr": 4.0}, "mean factor where you wrote factr?"),
        ("Phi 3", without(PHI, "long_factor"), "have no long_factor, which rope_type longrope"),
        ("Phi 3", PHI | {"long_factor": LONG[:-1]}, "long_factor field must have length 8, got 7"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(
    name: str, rope: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = MODELS[name].folder(tmp_path, rope_scaling=rope)
    assert verify.main([f"model={folder}"]) == 1
    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        (
            "Qwen 2.5",
            QWEN | {"rope_theta": 1e6},
            'type=yarn and no rope_type, which transformers needs beside a model: write "rope_type',
        ),
        (
            "GLM 4",
            {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4},
            "no partial_rotary_factor, and replace those of the model, which would be lost: write "
            '"partial_rotary_factor": 0.5 beside',
        ),
        (
            "Ministral 3",
            without(MINISTRAL, "llama_4_scaling_beta", "type") | {"rope_type": "yarn"},
            'write "llama_4_scaling_beta": 0.1 beside the others',
        ),
        (
            "Phi 3",
            {**PHI, "rope_type": "longrope", "rope_theta": 1e4, "long_factor": LONG[:-1]},
            "long_factor in rope_parameters has 7 numbers, and 8 pairs of channels turn",
        ),
    ],
)
def test_settings_beside_a_model_that_would_break_it_are_refused(
    name: str, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        verified(MODELS[name].folder(tmp_path), given)
    assert said in str(refused.value)


@pytest.mark.slow
def test_the_settings_of_a_model_given_once_more_are_no_problem(tmp_path: Path) -> None:
    """Ministral has a length among its rope_parameters that nothing reads."""
    folder = MODELS["Ministral 3"].folder(tmp_path)
    given = without(MINISTRAL, "type") | {"rope_type": "yarn"}
    assert verified(folder, given).problems == []
    [problem] = verified(folder, {**given, "atention_factor": 1.0}).problems
    assert (
        problem == "atention_factor is not read with rope_type yarn: did you mean attention_factor?"
    )


def test_a_name_that_is_twice_in_a_configuration_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text, said in (
        ('{"rope_parameters": {"factor": 2, "factor": 8}}', "factor is in it twice"),
        ('{"rope_parameters": {"factor": 2}, "factor": 8}', ""),
        ("{", ""),
    ):
        file.write_text(text)
        assert rope_settings.repeated(file) == said
    assert rope_settings.repeated(tmp_path / "none.json") == ""
