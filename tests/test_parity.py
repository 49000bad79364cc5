"""Encodings agree with the models they were published in, as transformers implements them.

Configurations and tensors are built here; nothing is downloaded. transformers keeps frequencies and
angles in float32, so tolerances against its tables are those of float32; wherever it takes our
tables as an argument, the comparison is exact.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("transformers")

from transformers import BloomConfig, GPTJConfig, LlamaConfig, T5Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor
from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from posbench.core.attention import Attention, attend
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import FrequencyExtension
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.t5 import T5, t5_bucket
from posbench.extensions.direct import Direct
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN

BATCH, HEADS, N = 2, 4, 24
FLOAT32 = 1e-5  # their tables are float32, at positions of a few dozen
ROTARY_TYPES = ("default", "linear", "dynamic", "yarn")


def call(
    width: int, n: int = N, heads: int = HEADS, dtype: torch.dtype = torch.float64
) -> Attention:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(BATCH, heads, n, width, generator=generator, dtype=dtype) for _ in range(3)
    )
    x = torch.randn(BATCH, n, heads * width, generator=generator, dtype=dtype)
    pos = torch.arange(n)[None]
    return Attention(q, k, v, x, pos, pos, scale=width**-0.5)


def scores(encoding: PositionEncoding, a: Attention) -> Tensor:
    return encoding.encode(a).logits(slice(0, a.num_queries))


def same(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(actual.to(expected.dtype), expected, rtol=0, atol=tolerance)


def llama_config(d: int, **settings: Any) -> LlamaConfig:
    """One head of width d, unless told otherwise."""
    return LlamaConfig(**{"hidden_size": d, "num_attention_heads": 1, "head_dim": d} | settings)


# -- RoPE ------------------------------------------------------------------------------------------


@pytest.mark.oracle("rope", "library: transformers Llama")
@pytest.mark.parametrize("d", [2, 16, 64])
def test_half_layout_scores_are_llamas_on_the_same_tables(d: int) -> None:
    a = call(d)
    rows = [[p * 10000.0 ** (-2 * m / d) for m in range(d // 2)] * 2 for p in range(N)]
    angles = torch.tensor([rows], dtype=torch.float64)
    q, k = llama.apply_rotary_pos_emb(a.q, a.k, angles.cos(), angles.sin())
    same(scores(RoPE(d), a), a.scale * q @ k.mT, 1e-12)


@pytest.mark.oracle("rope", "library: transformers Llama")
@pytest.mark.parametrize(("d", "base"), [(16, 10000.0), (64, 10000.0), (128, 500_000.0)])
def test_half_layout_scores_are_those_of_llamas_own_tables(d: int, base: float) -> None:
    a = call(d)
    config = llama_config(d, rope_parameters={"rope_type": "default", "rope_theta": base})
    cos, sin = llama.LlamaRotaryEmbedding(config)(a.q, a.q_pos)
    q, k = llama.apply_rotary_pos_emb(a.q, a.k, cos, sin)
    same(scores(RoPE(d, base), a), a.scale * q @ k.mT, 10 * FLOAT32)
    ours = RoPE(d, base).frequencies.tables(a.q_pos, torch.float64)
    for table, theirs in zip(ours, (cos, sin), strict=True):
        same(torch.cat((table, table), -1), theirs, FLOAT32)


@pytest.mark.oracle("rope", "library: transformers GPT-J")
@pytest.mark.parametrize("d", [16, 64])
def test_interleaved_layout_scores_are_gptjs(d: int) -> None:
    a = call(d)
    sin, cos = gptj.create_sinusoidal_positions(N, d)[None].double().chunk(2, -1)
    q, k = (
        gptj.apply_rotary_pos_emb(t.transpose(1, 2), sin, cos).transpose(1, 2) for t in (a.q, a.k)
    )
    same(scores(RoPE(d, layout="interleaved"), a), a.scale * q @ k.mT, 10 * FLOAT32)
    assert not torch.allclose(scores(RoPE(d, layout="half"), a), a.scale * q @ k.mT, atol=0.1)


@pytest.mark.oracle("rope", "library: transformers GPT-J")
def test_a_gptj_attention_layer_gives_the_same_output() -> None:
    d, width = 16, 64
    config = GPTJConfig(
        n_embd=width, n_head=HEADS, rotary_dim=d, n_positions=N, attn_pdrop=0.0, resid_pdrop=0.0
    )
    layer = gptj.GPTJAttention(config, layer_idx=0).eval()
    x = torch.randn(BATCH, N, width, generator=torch.Generator().manual_seed(1))
    hidden = torch.full((N, N), -torch.inf).triu(1)[None, None]
    theirs = layer(x, attention_mask=hidden, position_ids=torch.arange(N)[None].expand(BATCH, N))[0]
    out = attend(RoPE(d, layout="interleaved").encode(projected(layer, x)))
    same(layer.out_proj(out.transpose(1, 2).flatten(-2)), theirs, FLOAT32)


def projected(layer: Any, x: Tensor) -> Attention:
    """The call that a layer's own projections of x make."""
    q, k, v = (
        projection(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    pos = torch.arange(x.shape[1])[None]
    return Attention(q, k, v, x, pos, pos, scale=q.shape[-1] ** -0.5)


# -- frequency extensions --------------------------------------------------------------------------


def theirs_extended(
    kind: str,
    d: int,
    base: float,
    train: int,
    factor: float,
    test: int | None = None,
    **more: float,
) -> tuple[Tensor, float]:
    """The inverse frequencies and the factor on cos and sin."""
    parameters = {"rope_type": kind, "rope_theta": base, "factor": factor, **more}
    if kind == "yarn":
        parameters["original_max_position_embeddings"] = train
    longest = round(train * factor) if kind == "yarn" else train
    config = llama_config(d, max_position_embeddings=longest, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=test)


def ours_extended(
    extension: FrequencyExtension, d: int, base: float, train: int, test: int
) -> tuple[Tensor, float]:
    frequencies = extension.apply(RoPE(d, base), train, test).frequencies
    return frequencies.theta(), frequencies.magnitude


def agree(ours: tuple[Tensor, float], theirs: tuple[Tensor, float]) -> None:
    torch.testing.assert_close(ours[0].float(), theirs[0], rtol=3e-6, atol=0)
    assert ours[1] == pytest.approx(theirs[1], rel=1e-12)


SIZES = [(16, 10000.0), (32, 10000.0), (64, 10000.0), (128, 10000.0), (128, 500_000.0)]


@pytest.mark.oracle("pi", "library: transformers linear")
@pytest.mark.parametrize("factor", [1.0, 2.0, 3.5, 8.0, 32.0])
@pytest.mark.parametrize(("d", "base"), SIZES)
def test_pi_is_linear_scaling(d: int, base: float, factor: float) -> None:
    agree(
        ours_extended(PI(factor), d, base, 42, 42), theirs_extended("linear", d, base, 42, factor)
    )


@pytest.mark.oracle("ntk", "library: transformers dynamic")
@pytest.mark.parametrize("ratio", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("train", [42, 2048])
@pytest.mark.parametrize(("d", "base"), SIZES)
def test_ntk_at_one_length_is_dynamic_scaling_with_factor_one(
    d: int, base: float, train: int, ratio: int
) -> None:
    """Factor 1 leaves s = L'/L, which is what no fixed scale means here; a shorter test is the
    identity.
    """
    test = ratio * train
    theirs = theirs_extended("dynamic", d, base, train, 1.0, test)
    agree(ours_extended(NTK(), d, base, train, test), theirs)
    agree(ours_extended(NTK(float(ratio)), d, base, train, 1), theirs)


@pytest.mark.oracle("ntk", "library: transformers dynamic")
def test_ntk_below_the_training_length_is_dynamic_scaling_too() -> None:
    agree(
        ours_extended(NTK(), 64, 10000.0, 2048, 100),
        theirs_extended("dynamic", 64, 10000.0, 2048, 1.0, 100),
    )


@pytest.mark.oracle("yarn", "library: transformers yarn")
@pytest.mark.parametrize("factor", [1.0, 2.0, 5.5, 8.0, 32.0])
@pytest.mark.parametrize(
    ("fast", "slow"), [(32.0, 1.0), (2.0, 1.0), (8.0, 0.5), (4.0, 3.9), (8.0, 1e-6)]
)
@pytest.mark.parametrize("train", [42, 128, 2048, 4096])
def test_yarn_is_yarn_with_its_attention_factor(
    train: int, fast: float, slow: float, factor: float
) -> None:
    for d, base in SIZES:
        ours = ours_extended(YaRN(fast, slow, factor), d, base, train, train)
        agree(ours, theirs_extended("yarn", d, base, train, factor, beta_fast=fast, beta_slow=slow))


@pytest.mark.oracle("yarn", "library: transformers yarn")
def test_yarn_defaults_are_theirs() -> None:
    agree(
        ours_extended(YaRN(), 64, 10000.0, 2048, 16384),
        theirs_extended("yarn", 64, 10000.0, 2048, 8.0),
    )


MSCALES = [(0.707, 0.707), (1.0, 1.0), (1.0, 0.25), (0.3, 2.0)]


@pytest.mark.oracle("yarn", "library: transformers yarn")
@pytest.mark.parametrize("factor", [1.0, 5.5, 40.0])
@pytest.mark.parametrize(("mscale", "all_dim"), MSCALES)
def test_a_split_temperature_is_that_of_deepseek(
    mscale: float, all_dim: float, factor: float
) -> None:
    """Of cosine and sine as of any model, and of all scores as of DeepSeek's own."""
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale

    more = {"mscale": mscale, "mscale_all_dim": all_dim}
    extension = YaRN(scale=factor, **more)
    other = theirs_extended("yarn", 64, 10000.0, 2048, factor, **more)
    agree(ours_extended(extension, 64, 10000.0, 2048, 2048), other)
    pos = torch.arange(5)[None]
    a = Attention(*torch.randn(3, 1, 2, 5, 64).double(), torch.zeros(1, 5, 128), pos, pos, 0.125)
    plan = extension.apply(RoPE(64), 2048, 2048).encode(a)
    assert isinstance(plan, Attention)
    tau = 1.0 if plan.temperature is None else plan.temperature.item()
    scaling = yarn_apply_mscale({"rope_type": "yarn", "factor": factor, **more}, 0.125)
    assert tau * plan.scale == pytest.approx(scaling, rel=1e-12)


@pytest.mark.oracle("yarn", "library: transformers yarn")
@pytest.mark.parametrize("factor", [1.0, 5.5, 32.0])
@pytest.mark.parametrize(("fast", "slow"), [(32.0, 1.0), (2.0, 1.0), (8.0, 0.5), (8.0, 1e-6)])
@pytest.mark.parametrize("train", [42, 128, 2048, 4096])
def test_a_ramp_that_is_not_truncated_is_theirs(
    train: int, fast: float, slow: float, factor: float
) -> None:
    for d, base in SIZES:
        ours = ours_extended(YaRN(fast, slow, factor, truncate=False), d, base, train, train)
        more = {"beta_fast": fast, "beta_slow": slow, "truncate": False}
        other = theirs_extended("yarn", d, base, train, factor, **more)
        # Their ramp is in float32, and loses digits where it comes near its end.
        torch.testing.assert_close(ours[0].float(), other[0], rtol=3e-5, atol=0)
        assert ours[1] == other[1]


@pytest.mark.oracle("rope", "library: transformers Llama")
@pytest.mark.parametrize("kind", ROTARY_TYPES)
def test_a_llama_attention_layer_gives_the_same_output(kind: str) -> None:
    """Weights copied, four times the training length, causal mask and output projection
    included.
    """
    d, train, test = 16, 6, 24
    yarn = {"original_max_position_embeddings": train, "beta_fast": 2.0, "beta_slow": 0.05}
    parameters = {
        "default": {},
        "linear": {"factor": 4.0},
        "dynamic": {"factor": 1.0},
        "yarn": {"factor": 4.0, **yarn},
    }[kind]
    config = llama_config(
        HEADS * d,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=d,
        max_position_embeddings=test if kind == "yarn" else train,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **parameters},
        attn_implementation="eager",
    )
    layer = llama.LlamaAttention(config, layer_idx=0).double().eval()
    x = torch.randn(
        BATCH, test, HEADS * d, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((test, test), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    tables = llama.LlamaRotaryEmbedding(config)(x, torch.arange(test)[None])
    theirs = layer(x, position_embeddings=tables, attention_mask=hidden)[0]
    extension = {"default": Direct(), "linear": PI(), "dynamic": NTK(), "yarn": YaRN(2.0, 0.05)}[
        kind
    ]
    out = attend(extension.apply(RoPE(d), train, test).encode(projected(layer, x)))
    same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, FLOAT32)
    if kind != "default":
        unchanged = attend(RoPE(d).encode(projected(layer, x)))
        assert not torch.allclose(
            layer.o_proj(unchanged.transpose(1, 2).flatten(-2)), theirs, atol=1e-3
        )


# -- T5 --------------------------------------------------------------------------------------------


@pytest.mark.oracle("t5", "library: transformers T5")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"),
    [
        (32, 128),
        (16, 128),
        (16, 42),
        (21, 42),
        (4, 9),
        (8, 21),
        (32, 336),
        (64, 1024),
        (30, 77),
        (7, 50),
        (17, 27),
        (30, 480),
    ],
)
def test_t5_buckets_are_t5s(num_buckets: int, max_distance: int, bidirectional: bool) -> None:
    """Theirs is a function of memory - query, ours of query - memory."""
    memory_minus_query = torch.arange(-2 * max_distance - 3, 2 * max_distance + 4)
    theirs = T5Attention._relative_position_bucket(
        memory_minus_query, bidirectional, num_buckets, max_distance
    )
    assert torch.equal(
        t5_bucket(-memory_minus_query, num_buckets, max_distance, bidirectional), theirs
    )


@pytest.mark.oracle("t5", "published numbers")
@pytest.mark.parametrize("direction", ["causal", "bidirectional"])
def test_t5_buckets_are_those_of_the_printed_tables(direction: str) -> None:
    """Rows are queries, columns keys: 16 x 16 with 16 buckets up to 128."""
    printed = json.loads((Path(__file__).parent / "data" / "t5_buckets.json").read_text())
    i = torch.arange(16)
    distance = i[:, None] - i[None, :]
    found = t5_bucket(
        distance, printed["num_buckets"], printed["max_distance"], direction == "bidirectional"
    )
    assert found.tolist() == printed[direction]


@pytest.mark.oracle("t5", "library: transformers T5")
def test_t5_adds_the_bias_that_a_t5_decoder_adds() -> None:
    config = T5Config(
        d_model=32,
        d_kv=8,
        num_heads=HEADS,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=20,
    )
    config.is_decoder = True
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5(HEADS, 32, 16, 20)
    with torch.no_grad():
        ours.table.copy_(
            theirs.relative_attention_bias.weight.normal_(
                generator=torch.Generator().manual_seed(1)
            )
        )
        a = call(8, dtype=torch.float32)
        bias = scores(ours, a) - a.scale * a.q @ a.k.mT
        same(bias, theirs.compute_bias(N, N).expand_as(bias), FLOAT32)


# -- ALiBi -----------------------------------------------------------------------------------------


def bias_of(heads: int, steepness: float = 8.0) -> Tensor:
    """[heads, n, n]: what ALiBi adds where the scaled product is 0."""
    zero = torch.zeros(1, heads, N, 2, dtype=torch.float64)
    pos = torch.arange(N)[None]
    return scores(
        ALiBi(heads, steepness), Attention(zero, zero, zero, torch.zeros(1, N, 2), pos, pos, 1.0)
    )[0]


@pytest.mark.oracle("alibi", "library: transformers BLOOM")
@pytest.mark.parametrize("heads", range(1, 65))
def test_alibi_is_blooms(heads: int) -> None:
    """Theirs is m j, the same for all queries: it differs from -m (i - j) by a constant in each
    row, which the softmax removes. Ours, less its first column, must be theirs in every row.
    """
    theirs = build_alibi_tensor(torch.ones(1, N), heads, torch.float32).double()  # [heads, 1, n]
    ours = bias_of(heads)
    torch.testing.assert_close(
        ours - ours[..., :1], theirs.expand(heads, N, N), rtol=1e-5, atol=1e-9
    )
    torch.testing.assert_close(
        torch.tensor(alibi_slopes(heads)), theirs[:, 0, 1].float(), rtol=1e-5, atol=0
    )


@pytest.mark.oracle("alibi", "library: transformers MPT")
@pytest.mark.parametrize("steepness", [8, 4, 16])
def test_alibi_is_mpts(steepness: int) -> None:
    """Theirs is the bias of the last query, for any number of heads; `alibi_bias_max` is our
    steepness.
    """
    for heads in range(1, 65):
        theirs = (
            build_mpt_alibi_tensor(heads, N, alibi_bias_max=steepness).reshape(heads, N).double()
        )
        torch.testing.assert_close(bias_of(heads, steepness)[:, -1], theirs, rtol=1e-5, atol=1e-9)


@pytest.mark.oracle("alibi", "library: transformers BLOOM")
@pytest.mark.parametrize("heads", [4, 6])
def test_a_bloom_attention_layer_gives_the_same_output(heads: int) -> None:
    width = 8 * heads
    config = BloomConfig(hidden_size=width, n_head=heads, hidden_dropout=0.0, attention_dropout=0.0)
    layer = BloomAttention(config, layer_idx=0).eval()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(BATCH, N, width, generator=generator)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=width**-0.5, generator=generator)
    hidden = torch.full((N, N), -torch.inf).triu(1)[None, None].expand(BATCH, 1, N, N)
    alibi = build_alibi_tensor(torch.ones(BATCH, N), heads, torch.float32)
    theirs = layer(x, torch.zeros_like(x), alibi, hidden)[0]
    # [batch, n, heads, (q, k, v), head width]
    q, k, v = layer.query_key_value(x).unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4)
    pos = torch.arange(N)[None]
    a = Attention(q, k, v, x, pos, pos, scale=1 / math.sqrt(8))
    same(layer.dense(attend(ALiBi(heads).encode(a)).transpose(1, 2).flatten(-2)), theirs, FLOAT32)


# -- sinusoids -------------------------------------------------------------------------------------


@pytest.mark.oracle("sinusoidal", "library: transformers DistilBERT")
@pytest.mark.parametrize("width", [2, 24, 64, 512])
def test_sinusoidal_rows_are_distilberts(width: int) -> None:
    theirs = nn.Parameter(torch.empty(200, width), requires_grad=False)
    create_sinusoidal_embeddings(200, width, theirs)
    ours = Sinusoidal(width).embed(
        torch.zeros(1, 200, width, dtype=torch.float64), torch.arange(200)[None]
    )[0]
    same(ours, theirs.detach().clone(), 1e-6)
