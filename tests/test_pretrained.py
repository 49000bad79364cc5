"""Models of transformers under the suite's encodings and attention equal the models themselves.

The models are tiny, random and in float64. transformers computes angles in float32 whatever the
model has, so a native model is off by some 1e-7; the suite's are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from small_models import (
    MODELS,
    PARTS,
    SIZES,
    TRAINED,
    WINDOW,
    family,
    gemma3,
    llama,
    model,
    rope_types,
)
from torch import Tensor

from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.extension import Extension
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.lm_infinite import LMInfinite
from posbench.extensions.log_n import LogN
from posbench.extensions.pi import PI
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.widen import Widen
from posbench.extensions.yarn import YaRN
from posbench.pretrained import reading
from posbench.pretrained.forms import Call, mount, seen
from posbench.pretrained.mounting import Mask, Mounted
from posbench.pretrained.proof import (
    disagreement,
    growing,
    mounted_and_proved,
    prove_effect,
    prove_effect_at,
)
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.richer import RereadingMounted

pytestmark = pytest.mark.filterwarnings("ignore")

LONG = 36
"""Positions of a test, 1.5 L."""
EXTENSIONS: dict[str, Extension] = {
    "direct": Direct(),
    "pi": PI(),
    "dynamic_ntk": DynamicNTK(),
    "yarn": YaRN(2.0, 0.5),
    "self_extend": SelfExtend(8),
    "log_n": LogN(),
    "lm_infinite": LMInfinite(2, 12),
}


def some_tokens(rows: int = 1, n: int = LONG) -> Tensor:
    return torch.randint(SIZES["vocab_size"], (rows, n), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def logits(net: Any, tokens: Tensor, **inputs: Any) -> Tensor:
    return net(input_ids=tokens, use_cache=False, **inputs).logits


@pytest.fixture(scope="module", params=MODELS)
def mounted(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    with mounted_and_proved(MODELS[request.param]()) as found:
        yield found


# -- the model itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("rope_type", rope_types(1))
@pytest.mark.parametrize("kind", MODELS)
def test_every_rope_type_is_what_transformers_makes_of_it(kind: str, rope_type: str) -> None:
    settings = rope_types(round(4 * PARTS[kind]))[rope_type]
    net = MODELS[kind]({"rope_type": rope_type.split()[0], **settings})
    for n in (TRAINED // 2, LONG):  # up to the training length, and beyond
        tokens = some_tokens(2, n)
        native = logits(net, tokens)
        with mount(net):
            ours = logits(net, tokens)
        assert not torch.equal(ours, native)  # it is another computation
        torch.testing.assert_close(ours, native, rtol=0, atol=1e-6 * float(native.abs().max()))
    torch.testing.assert_close(logits(net, tokens), native, rtol=0, atol=0)  # nothing stays behind


def test_rope_types_differ_by_far_more_than_the_tolerance() -> None:
    tokens = some_tokens()
    found = [
        logits(llama({"rope_type": name.split()[0], **settings}), tokens)
        for name, settings in rope_types(4).items()
    ]
    for index, one in enumerate(found):
        for other in found[:index]:
            assert (one - other).abs().max() > 1e-3 * one.abs().max()


def test_layers_have_their_forms_and_windows() -> None:
    found = {}
    for kind, make in MODELS.items():
        with mount(make()) as mounted:
            found[kind] = [(layer.form.name, layer.window) for layer in mounted.layers]
    assert found == {
        "llama": [("RoPE", None)] * 2,
        "qwen3": [("RoPE", None)] * 2,
        "gemma3": [("RoPE", WINDOW), ("RoPE", None)],
        "gpt_neox": [("partial RoPE", None)] * 2,
    }


FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, int | None]]]] = {
    "Qwen2": ({}, [("RoPE", None)] * 2),
    "Olmo2": ({}, [("RoPE", None)] * 2),
    "Phi": ({"partial_rotary_factor": 0.5}, [("partial RoPE", None)] * 2),
    "Mistral": ({"sliding_window": WINDOW}, [("RoPE", WINDOW)] * 2),
    "Cohere": ({}, [("interleaved RoPE", None)] * 2),
    "SmolLM3": ({"no_rope_layers": [1, 0]}, [("RoPE", None), ("no position", None)]),
}
"""Settings of a family of models, and what its layers are found to be."""


@pytest.mark.parametrize("name", FAMILIES)
def test_other_families_are_themselves(name: str) -> None:
    settings, expected = FAMILIES[name]
    with mounted_and_proved(family(name, **settings)) as found:
        assert [(layer.form.name, layer.window) for layer in found.layers] == expected
        assert disagreement(found) < 1e-6


def test_a_model_in_bfloat16_equals_itself_within_its_precision() -> None:
    with mounted_and_proved(llama().bfloat16()) as mounted:
        assert 0 < disagreement(mounted) < 0.05


# -- extensions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rope", "extension"),
    (
        ({"rope_type": "linear", "factor": 2.0}, PI()),
        ({"rope_type": "dynamic", "factor": 2.0}, DynamicNTK()),
        ({"rope_type": "yarn", "factor": 2.0, "beta_fast": 2.0, "beta_slow": 0.5}, YaRN(2.0, 0.5)),
        (
            {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 0.2, "high_freq_factor": 1.0},
            Llama3(0.2, 1.0),
        ),
    ),
    ids=lambda value: value["rope_type"] if isinstance(value, dict) else "",
)
def test_an_extension_is_the_rope_type_of_a_model_loaded_with_it(
    rope: dict[str, Any], extension: Extension
) -> None:
    tokens = some_tokens(n=2 * TRAINED)
    if rope["rope_type"] in ("yarn", "llama3"):
        rope = rope | {"original_max_position_embeddings": TRAINED}
    native = logits(llama(rope), tokens)
    with mount(llama()) as mounted:
        mounted.extension = extension
        ours = logits(mounted.model, tokens)
    torch.testing.assert_close(ours, native, rtol=0, atol=1e-6 * float(native.abs().max()))


@pytest.mark.parametrize("name", EXTENSIONS)
def test_decoding_with_a_cache_gives_what_the_whole_sequence_gives(
    mounted: Mounted, name: str
) -> None:
    mounted.extension, tokens = EXTENSIONS[name], some_tokens()
    with torch.no_grad(), mounted.at(LONG):
        whole = logits(mounted.model, tokens)
        parts, cache = [], None
        for start, stop in ((0, 20), (20, 21), (21, 30), (30, 31), (31, LONG)):
            out = mounted.model(
                input_ids=tokens[:, start:stop], past_key_values=cache, use_cache=True
            )
            cache = out.past_key_values
            parts.append(out.logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_what_is_read_once_serves_every_question(
    mounted: Mounted, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a pass over the whole sequence of each question, without a cache."""
    monkeypatch.setattr(reading, "CHUNK", 11)
    mounted.extension, tokens = EXTENSIONS[name], some_tokens()[0].tolist()
    shared, asked = tokens[:25], [(tokens[25:30], tokens[30:]), (tokens[9:13], tokens[2:5])]
    given = reading.answers(mounted, shared, asked, LONG)
    for (question, answer), found in zip(asked, given, strict=True):
        whole = torch.tensor([[*shared, *question, *answer]])
        with mounted.at(LONG):
            scores = logits(mounted.model, whole)[0, -len(answer) - 1 : -1].log_softmax(-1)
        assert found.right == [
            int(row.argmax()) == t for row, t in zip(scores, answer, strict=True)
        ]
        wanted = [float(row[token]) for row, token in zip(scores, answer, strict=True)]
        assert found.log_likelihood == pytest.approx(wanted, rel=1e-6)  # judged in float32
    going_on = reading.continuations(mounted, tokens, LONG)
    with mounted.at(LONG):
        scores = logits(mounted.model, torch.tensor([tokens]))[0, :-1].log_softmax(-1)
    wanted = scores[torch.arange(LONG - 1), torch.tensor(tokens[1:])].tolist()
    assert going_on.log_likelihood == pytest.approx(wanted, rel=1e-6)


def test_extensions_that_say_so_change_nothing_up_to_the_training_length(mounted: Mounted) -> None:
    """So that a run need not measure them there."""
    tokens = some_tokens(n=TRAINED)
    for n in (TRAINED, TRAINED // 2):
        mounted.extension = Direct()
        before = logits(mounted.model, tokens[:, :n])
        for name, extension in EXTENSIONS.items():
            if extension.is_identity:
                mounted.extension = extension
                after = logits(mounted.model, tokens[:, :n])
                torch.testing.assert_close(after, before, rtol=0, atol=1e-9, msg=name)
    assert [name for name, each in EXTENSIONS.items() if not each.is_identity] == ["lm_infinite"]


def test_scores_are_held_by_chunks_only_where_they_must_be() -> None:
    tokens = some_tokens()[0].tolist()
    with mount(llama()) as mounted, mounted.at(LONG):
        for name, held in (("direct", False), ("yarn", False), ("self_extend", True)):
            mounted.extension = EXTENSIONS[name]
            assert reading._holds_scores(mounted, tokens) == held


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("name", EXTENSIONS)
def test_padding_changes_nothing(mounted: Mounted, name: str, side: str) -> None:
    mounted.extension, tokens, few = EXTENSIONS[name], some_tokens(2), 29
    present = torch.ones_like(tokens)
    present[1, : LONG - few] = 0
    alone = tokens[1:, LONG - few :]
    if side == "right":
        tokens, present = tokens.flip(1), present.flip(1)
        alone = tokens[1:, :few]
    pos = (present.cumsum(1) - 1).clamp(min=0)
    with mounted.at(LONG):
        both = logits(mounted.model, tokens, attention_mask=present, position_ids=pos)
        first, second = logits(mounted.model, tokens[:1]), logits(mounted.model, alone)
    torch.testing.assert_close(both[:1], first, rtol=0, atol=1e-9)
    torch.testing.assert_close(both[1][present[1].bool()][None], second, rtol=0, atol=1e-9)


def test_answers_are_the_same_in_a_padded_batch_and_alone(mounted: Mounted) -> None:
    mounted.extension, tokens = EXTENSIONS["dynamic_ntk"], some_tokens(2, 30)
    present = torch.ones_like(tokens)
    present[1, :9] = 0
    settings = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.no_grad():
        both = mounted.generate(tokens, 6, attention_mask=present, **settings)
        assert both.shape == (2, 36)
        known = tokens
        for _ in range(6):  # greedy, without a cache and without padding
            with mounted.at(36):
                chosen = [
                    logits(mounted.model, row[None])[0, -1].argmax()
                    for row in (known[0], known[1, 9:])
                ]
            known = torch.cat((known, torch.stack(chosen)[:, None]), 1)
    assert torch.equal(both, known)


def test_windows_within_the_training_length_are_left_alone() -> None:
    with mount(MODELS["gemma3"]()) as mounted:
        mounted.extension = PI()
        before, after = mounted.trained(LONG), mounted.encodings(LONG)
        assert after.layers[0].frequencies == before.layers[0].frequencies
        assert after.layers[1].frequencies.stretch == (1.5,) * 4


@pytest.mark.parametrize(
    ("extension", "n"), ((Widen(2.0), TRAINED), (Widen(2.0), LONG), (Widen(), 2 * TRAINED))
)
def test_widened_windows_are_those_of_a_model_made_with_them(extension: Widen, n: int) -> None:
    tokens, wide = some_tokens(2, n), gemma3(window=2 * WINDOW)
    native = logits(wide, tokens)
    with mount(wide):
        wanted = logits(wide, tokens)
    with mounted_and_proved(gemma3()) as mounted:
        narrow = logits(mounted.model, tokens)
        mounted.extension = extension
        ours = logits(mounted.model, tokens)
    assert torch.equal(ours, wanted)
    torch.testing.assert_close(ours, native, rtol=0, atol=1e-6 * float(native.abs().max()))
    assert (ours - narrow).abs().max() > 1e-3 * narrow.abs().max()


@pytest.mark.parametrize(("extension", "n"), ((Widen(1.0), LONG), (Widen(), TRAINED)))
def test_windows_widened_by_one_change_nothing(extension: Widen, n: int) -> None:
    tokens = some_tokens(2, n)
    with mounted_and_proved(gemma3()) as mounted:
        before = logits(mounted.model, tokens)
        mounted.extension = extension
        assert torch.equal(logits(mounted.model, tokens), before)


def test_a_cache_that_has_dropped_keys_of_the_wider_window_is_refused() -> None:
    """The model's own cache keeps the keys of the window that it was made with."""
    tokens = some_tokens()
    with mounted_and_proved(gemma3()) as mounted, mounted.at(LONG), torch.no_grad():
        mounted.extension = Widen(2.0)
        cache = mounted.model(input_ids=tokens[:, :30], use_cache=True).past_key_values
        with pytest.raises(CannotMount, match="window of 6, and the extension widens it"):
            mounted.model(input_ids=tokens[:, 30:31], past_key_values=cache)


def test_keys_that_a_cache_has_dropped_are_missed() -> None:
    """A window that reaches beyond the training length is extended, and its keys are counted."""
    config = transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, max_position_embeddings=12, sliding_window=20
    )
    with mounted_and_proved(model(transformers.MistralForCausalLM, config)) as mounted:
        assert [layer.window for layer in mounted.layers] == [20, 20]
        mounted.extension, tokens = LogN(), some_tokens()
        with mounted.at(LONG), torch.no_grad():
            cache = mounted.model(input_ids=tokens[:, :15], use_cache=True).past_key_values
            mounted.model(input_ids=tokens[:, 15:16], past_key_values=cache)
            cache = mounted.model(input_ids=tokens[:, :30], use_cache=True).past_key_values
            with pytest.raises(CannotMount, match="dropped keys beyond the window of 20"):
                mounted.model(input_ids=tokens[:, 30:31], past_key_values=cache)


# -- proof -----------------------------------------------------------------------------------------


class DoesNothing(Extension):
    """An extension that was mounted wrongly, so that nothing comes of it."""

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding


class OnAnotherPath(Wrapper):
    """The host with explicit weights, which round differently and are the same."""

    def encode(self, a: Attention) -> Plan:
        plan = self.host.encode(a)
        assert isinstance(plan, Attention)
        return replace(plan, normalise=lambda z, seen: z.masked_fill(~seen, -torch.inf).softmax(-1))


class RoundsDifferently(Extension):
    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return OnAnotherPath(encoding)


def test_an_extension_must_change_logits_beyond_the_training_length(mounted: Mounted) -> None:
    for extension in EXTENSIONS.values():
        prove_effect(mounted, extension, LONG)
    for nothing in (DoesNothing(), RoundsDifferently()):
        said = (
            f"{type(nothing).__name__} changed no logit at 36 positions, beyond the 24 trained, by "
            "more than float64 rounds"
        )
        with pytest.raises(CannotMount, match=said):
            prove_effect(mounted, nothing, LONG)


@pytest.mark.slow
def test_what_half_precision_rounds_is_no_effect_and_a_temperature_is_one() -> None:
    """A little beyond L an extension may change less than rounding does, and at 4x it does not."""
    with mounted_and_proved(MODELS["llama"]().to(torch.bfloat16)) as found:
        trained = found.train_positions
        prove_effect_at(found, YaRN(), [trained + 1, 4 * trained])
        for nothing in (DoesNothing(), RoundsDifferently()):
            with pytest.raises(CannotMount, match="by more than bfloat16 rounds"):
                prove_effect_at(found, nothing, [trained + 1, 4 * trained])


def test_a_configuration_edited_after_loading_counts_for_nothing() -> None:
    net = llama()
    net.config.rope_parameters["rope_theta"] = 500.0  # transformers has read it already
    with mounted_and_proved(net) as mounted:
        (frequencies,) = {layer.form.encoding.frequencies for layer in mounted.layers}
        assert frequencies.base == pytest.approx(10_000, rel=1e-4)


def test_a_model_is_mounted_once() -> None:
    net = llama()
    with mounted_and_proved(net), pytest.raises(CannotMount, match="is mounted already"):
        mounted_and_proved(net)
    assert net.config._attn_implementation != "posbench"


def test_a_model_with_something_of_its_own_does_not_pass_for_itself() -> None:
    net = llama()
    inside = net.model.layers[1].self_attn
    forward = inside.forward

    def later(*args: Any, **kwargs: Any) -> Any:
        out, weights = forward(*args, **kwargs)
        return out if net.config._attn_implementation == "posbench" else 1.1 * out, weights

    inside.forward = later
    with pytest.raises(CannotMount, match="the mounted LlamaForCausalLM differs from the model"):
        mounted_and_proved(net)
    assert net.config._attn_implementation != "posbench"


# -- what is refused -------------------------------------------------------------------------------


TINY = {"vocab_size": 40, "n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 8}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "learned": ("GPT2", TINY, "GPT2LMHeadModel has no rotary positions"),
    "ALiBi of BLOOM": ("Bloom", TINY | {"hidden_size": 32}, "attention in code of its own"),
    "ALiBi of MPT": (
        "Mpt",
        {"vocab_size": 40, "d_model": 32, "n_layers": 1, "n_heads": 4},
        "attention in code of its own",
    ),
    "ALiBi of Falcon": ("Falcon", SIZES | {"alibi": True}, "attention in code of its own"),
    "RoPE of Falcon": ("Falcon", SIZES, "attention in code of its own"),
    "RoPE of GPT-J": ("GPTJ", TINY, "attention in code of its own"),
    "RoPE of CodeGen": ("CodeGen", TINY, "attention in code of its own"),
}
"""Positions of a model that is not mounted, its family and settings, and why it is not."""


@pytest.mark.parametrize("positions", REFUSED)
def test_models_that_cannot_be_mounted_are_refused_with_the_reason(positions: str) -> None:
    name, settings, reason = REFUSED[positions]
    config = getattr(transformers, f"{name}Config")(**settings)
    net = transformers.AutoModelForCausalLM.from_config(config)
    before = net.config._attn_implementation
    with pytest.raises(CannotMount, match=reason):
        mount(net)
    assert net.config._attn_implementation == before


MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
HYBRIDS: dict[str, dict[str, Any]] = {
    "Qwen3Next": {
        "num_hidden_layers": 4,
        "head_dim": 16,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    "Bamba": {"attn_layer_indices": [1], **MAMBA},
    "FalconH1": {"head_dim": 8, "mamba_d_ssm": 64, **MAMBA},
    "Lfm2": {"layer_types": ["conv", "full_attention"]},
    "RecurrentGemma": {
        "num_hidden_layers": 3,
        "head_dim": 8,
        "attention_window_size": 12,
        "lru_width": 32,
    },
}
"""Models with layers that keep a state beside keys and values, or in their place."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HYBRIDS)
def test_a_text_is_read_again_where_a_state_cannot_be_cut_back(name: str) -> None:
    """Questions have the answers of whole passes, whatever was asked before."""
    net = family(name, **HYBRIDS[name]).float()
    tokens = some_tokens()[0].tolist()
    shared, asked = tokens[:25], [(tokens[25:30], tokens[30:]), (tokens[9:13], tokens[2:5])]
    with mounted_and_proved(net) as mounted:
        assert isinstance(mounted, RereadingMounted)
        mounted.extension = LogN()
        given = reading.answers(mounted, shared, asked, LONG)
        for (question, answer), found in zip(asked, given, strict=True):
            whole = torch.tensor([[*shared, *question, *answer]])
            with mounted.at(LONG):
                scores = logits(mounted.model, whole)[0, -len(answer) - 1 : -1].log_softmax(-1)
            wanted = [float(row[token]) for row, token in zip(scores, answer, strict=True)]
            assert found.log_likelihood == pytest.approx(wanted, abs=1e-4)
        settings = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        grown = mounted.generate(torch.tensor([shared]), 6, **settings)
        again = mounted.generate(torch.tensor([shared]), 6, use_cache=False, **settings)
        assert torch.equal(grown, again)
    assert net.config._attn_implementation != "posbench-richer"


@pytest.mark.slow
def test_a_cache_of_transformers_that_is_wrong_is_not_used() -> None:
    with mounted_and_proved(family("RecurrentGemma", **HYBRIDS["RecurrentGemma"])) as mounted:
        assert isinstance(mounted, RereadingMounted) and not mounted.caches
    with mounted_and_proved(family("Lfm2", **HYBRIDS["Lfm2"])) as mounted:
        assert isinstance(mounted, RereadingMounted) and mounted.caches


LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
}
EXPERTS = {"num_experts_per_tok": 1, "num_local_experts": 2, "router_aux_loss_coef": 0.0}
RICHER: dict[str, tuple[str, dict[str, Any], list[tuple[str, int | None]]]] = {
    "sinks": (
        "GptOss",
        {"head_dim": 8, "sliding_window": WINDOW, **EXPERTS},
        [("RoPE", WINDOW), ("RoPE", None)],
    ),
    "soft caps": (
        "Gemma2",
        {"head_dim": 8, "sliding_window": WINDOW, "attn_logit_softcapping": 0.5},
        [("RoPE", WINDOW), ("RoPE", None)],
    ),
    "complex tables and chunks": (
        "Llama4Text",
        {"head_dim": 8, "attention_chunk_size": 8, "no_rope_layers": [1, 0], **EXPERTS}
        | {"intermediate_size_mlp": 32, "interleave_moe_layer_step": 3},
        [("interleaved RoPE", 8), ("no position", None)],
    ),
    "latent attention": (
        "DeepseekV3",
        {**LATENT, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1},
        [("partial RoPE of the last channels", None)] * 2,
    ),
    "latent attention, complex": (
        "DeepseekV2",
        {**LATENT, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1},
        [("interleaved partial RoPE of the last channels", None)] * 2,
    ),
    "latent attention, dense": (
        "MiniCPM3",
        LATENT,
        [("partial RoPE of the last channels", None)] * 2,
    ),
    "interleaved partial": ("Glm4", {"head_dim": 8}, [("interleaved partial RoPE", None)] * 2),
    "reversed": ("NanoChat", {}, [("reversed RoPE", None)] * 2),
    "three axes": (
        "Qwen3_5Text",
        {"head_dim": 16, "layer_types": ["full_attention", "full_attention"]}
        | {
            each: 8 if each.endswith("dim") else 2
            for each in (
                "linear_num_key_heads",
                "linear_num_value_heads",
                "linear_key_head_dim",
                "linear_value_head_dim",
            )
        },
        [("partial RoPE", None)] * 2,
    ),
}
"""What a model may have besides a rotation of whole heads: a family, and what its layers are."""


def richer(kind: str) -> Any:
    name, settings, _ = RICHER[kind]
    if kind == "three axes":
        settings = settings | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
                "mrope_section": [2, 1, 1],
            }
        }
    sizes = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": TRAINED}
    config = getattr(transformers, f"{name}Config")(**sizes | {"pad_token_id": 0} | settings)
    torch.manual_seed(0)
    net = transformers.AutoModelForCausalLM.from_config(config).eval()
    # Experts have no kernel in float64. There Gemma 2 itself gives NaN for a text that is padded.
    return net.float() if name == "GptOss" else net.double()


@pytest.mark.slow
@pytest.mark.parametrize("kind", RICHER)
def test_models_with_more_than_a_rotation_are_themselves(kind: str) -> None:
    """Also beyond the training length, and with the cache that they make."""
    net, (_, _, expected) = richer(kind), RICHER[kind]
    tokens, close = some_tokens(2), 1e-6 if kind not in ("sinks",) else 3e-6
    native = logits(net, tokens)
    with mounted_and_proved(net) as mounted:
        assert [(layer.form.name, layer.window) for layer in mounted.layers] == expected
        ours = logits(mounted.model, tokens)
        assert growing(mounted) < close
        assert not torch.equal(ours, native)
        torch.testing.assert_close(ours, native, rtol=0, atol=2 * close * float(native.abs().max()))
        for extension in (YaRN(2.0, 0.5), SelfExtend(8), LogN()):
            if extension.needs and all(
                layer.window is not None
                for layer in mounted.layers
                if layer.form.own and "frequencies" in layer.form.encoding.handles
            ):
                continue  # every distance has been trained
            prove_effect(mounted, extension, LONG)
            mounted.extension = extension
            with torch.no_grad(), mounted.at(LONG):
                whole = logits(mounted.model, tokens)
                first = mounted.model(input_ids=tokens[:, :30], use_cache=True)
                rest = mounted.model(
                    input_ids=tokens[:, 30:], past_key_values=first.past_key_values
                ).logits
            torch.testing.assert_close(
                rest, whole[:, 30:], rtol=0, atol=2 * close * float(whole.abs().max())
            )
    torch.testing.assert_close(logits(net, tokens), native, rtol=0, atol=0)


def test_a_rotation_that_no_configuration_explains_is_measured() -> None:
    """A base of its own in every table, as where a library computes it by a rule of its own."""
    net = llama(positions=64)
    net.model.rotary_emb.inv_freq.copy_(500.0 ** (-torch.arange(4) / 4))
    with mounted_and_proved(net) as mounted:
        (frequencies,) = {layer.form.encoding.frequencies for layer in mounted.layers}
        assert frequencies.base == pytest.approx(500, rel=1e-5) and frequencies.stretch is None


def test_a_question_must_not_know_of_the_one_before_it() -> None:
    """Also in a precision in which the difference would pass for rounding."""
    net = llama().bfloat16()
    layer, calls = net.model.layers[1].mlp, iter(range(1000))
    forward = layer.forward

    def remembering(x: Tensor) -> Tensor:
        return forward(x) * (1 + 0.05 * (x.shape[1] < 9) * next(calls))

    layer.forward = remembering
    with pytest.raises(CannotMount, match=r"in one pass \(.* nats after another question\)"):
        mounted_and_proved(net)


def test_a_model_that_reads_otherwise_from_a_cache_is_not_asked_questions() -> None:
    net = llama()
    layer = net.model.layers[1].mlp
    forward = layer.forward
    layer.forward = lambda x: forward(x) * (1.0 if x.shape[1] > 9 else 1.5)
    with pytest.raises(
        CannotMount, match=r"otherwise than in one pass \(.* nats from a whole pass"
    ):
        mounted_and_proved(net)


def test_nan_of_the_model_itself_is_not_taken_for_one_of_the_mounted() -> None:
    net = llama()
    net.model.norm.weight.data.fill_(float("nan"))
    with pytest.raises(CannotMount, match="LlamaForCausalLM itself gives NaN for random tokens"):
        mounted_and_proved(net)


def test_a_model_that_works_on_the_mask_itself_is_refused() -> None:
    with pytest.raises(CannotMount, match="does something of its own with masks"):
        mount(family("Doge"))


def test_a_share_in_the_configuration_need_not_be_one_that_turns() -> None:
    """MiniMax turns the whole head, whatever its configuration says."""
    net = family(
        "MiniMax",
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        layer_types=["full_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    )
    with mount(net.float()) as mounted:
        assert [layer.form.name for layer in mounted.layers] == ["RoPE"] * 2


def test_a_rotation_for_all_layers_may_stand_beside_those_of_their_kinds() -> None:
    flat = {"rope_type": "default", "rope_theta": 1e4}
    net = family("Olmo3", sliding_window=WINDOW, rope_parameters=flat)
    with mounted_and_proved(net) as mounted:
        assert {layer.form.name for layer in mounted.layers} == {"RoPE"}


def test_windows_are_measured_and_other_masks_refused() -> None:
    def of(visible: Any) -> tuple[int | None, int | None]:
        nothing = torch.zeros(1, 1, 1, 2)
        call = Call(torch.nn.Identity(), nothing, nothing, nothing, Mask(None, True, visible), 1.0)
        return seen(call, TRAINED)

    assert of(lambda batch, head, i, j: j <= i) == (None, None)
    assert of(lambda batch, head, i, j: (j <= i) & (j > i - 9)) == (9, None)
    for chunk in (7, 8, 97):
        assert of(lambda b, h, i, j, c=chunk: (j <= i) & (j // c == i // c)) == (chunk, chunk)
    with pytest.raises(CannotMount, match="neither a window nor chunks"):
        of(lambda batch, head, i, j: (j <= i) & ((j + 3) // 8 == (i + 3) // 8))
    for other in (lambda b, h, i, j: j <= i + 1, lambda b, h, i, j: (j <= i) & (j != i - 1)):
        with pytest.raises(CannotMount, match="keys that are not the last ones"):
            of(other)


def test_calls_that_would_be_wrong_are_refused() -> None:
    with mount(llama()) as mounted:
        tokens = some_tokens()
        mounted.extension = PI()
        cache = mounted.model(input_ids=tokens[:, :20], use_cache=True).past_key_values
        with pytest.raises(CannotMount, match="20 keys are in the cache"):
            mounted.model(input_ids=tokens[:, 20:21], past_key_values=cache)
        with mounted.at(20), pytest.raises(CannotMount, match="position 35 lies beyond"):
            logits(mounted.model, tokens)
        with pytest.raises(CannotMount, match=r"attention_mask must be \[batch, tokens\]"):
            logits(mounted.model, tokens, attention_mask=torch.zeros(1, 1, LONG, LONG))
        with pytest.raises(CannotMount, match="several sequences in a row"):
            logits(mounted.model, tokens, position_ids=torch.arange(LONG)[None] % 20)
        mounted.model.config.attention_dropout = 0.5
        for layer in mounted.model.model.layers:
            layer.self_attn.attention_dropout = 0.5
        with pytest.raises(CannotMount, match=r"dropout is 0\.5"):
            mounted.model.train()
            logits(mounted.model, tokens)
