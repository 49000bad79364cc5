"""Learned slopes, Hard-ALiBi with its windows and NAPE, whose heads differ, compute their published
formulas, in scores and outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from loops import (
    BATCH,
    HEADS,
    POSITIONS,
    WIDTH,
    N,
    call,
    every_way,
    everywhere,
    given,
    loop,
    marked,
    oracle,
    outputs,
    same,
    scores,
)
from torch import Tensor

from posbench.core.attention import Attention, attend
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.alibi_learned import LearnedALiBi
from posbench.encodings.hard_alibi import HardALiBi
from posbench.encodings.kerple_power import KerplePower
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sliding_window import SlidingWindow
from posbench.running.subject import setup

# -- ALiBi with learned slopes ---------------------------------------------------------------------


@oracle("alibi_learned", "double loop")
@everywhere
def test_learned_alibi_subtracts_the_exponential_times_the_distance(positions: list[float]) -> None:
    logs = [-0.3, 0.7, -2.0]
    a = call(positions)
    z = scores(given(LearnedALiBi(HEADS), log_slopes=logs), a)
    same(z, loop(a, lambda h, i, j: -math.exp(logs[h]) * (i - j)), 1e-9)


@oracle("alibi_learned", "identity: starts as ALiBi")
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
@pytest.mark.parametrize("steepness", [8.0, 3.0])
def test_learned_alibi_starts_as_alibi(heads: int, steepness: float) -> None:
    a = call(POSITIONS["with gaps"], heads)
    same(
        scores(LearnedALiBi(heads, steepness).double(), a), scores(ALiBi(heads, steepness), a), 1e-4
    )


@pytest.mark.slow
@oracle("alibi_learned", "library: x-transformers AlibiPositionalBias")
def test_learned_alibi_starts_as_that_of_x_transformers() -> None:
    """Theirs has |i - j|; below the diagonal they are the same."""
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    theirs = x_transformers.AlibiPositionalBias(heads=6)(N, N).double()
    a = call(heads=6)
    same(
        scores(LearnedALiBi(6).double(), replace(a, q=0 * a.q)).tril(),
        theirs.tril().expand(BATCH, -1, -1, -1),
        1e-6,
    )


@oracle("alibi_learned", "identity: KERPLE power with exponent 1")
def test_learned_alibi_is_kerple_power_with_exponent_one() -> None:
    a, slopes = call(POSITIONS["with gaps"]), [0.03, 0.5, 1.8]
    ours = given(LearnedALiBi(HEADS), log_slopes=[math.log(slope) for slope in slopes])
    same(
        attend(ours.encode(a)),
        attend(given(KerplePower(HEADS), r1=slopes, r2=[1.0] * HEADS).encode(a)),
    )


def test_learned_alibi_keeps_differences_at_large_positions() -> None:
    """In float32 at position 30 million: i and j counted from 0 would round neighbouring keys
    together.
    """
    encoding, far = LearnedALiBi(HEADS), [30_000_000 + 3 * i for i in range(N)]
    a, near = call(far), call([3 * i for i in range(N)])
    a, near = (replace(t, q=t.q.float(), k=t.k.float(), v=t.v.float()) for t in (a, near))
    assert torch.equal(scores(encoding, a), scores(encoding, near))


def test_learned_alibi_has_slopes_in_every_layer_and_a_gradient() -> None:
    stack = EncodingStack([LearnedALiBi(HEADS) for _ in range(2)])
    assert len(list(stack.parameters())) == 2
    a = call(POSITIONS["with gaps"])
    encoding = given(LearnedALiBi(HEADS), log_slopes=[-0.3, 0.7, -2.0])
    total = float((a.q_pos[:, :, None] - a.k_pos[:, None, :]).tril().sum())
    scores(encoding, a).tril().sum().backward()
    same(encoding.log_slopes.grad, -encoding.log_slopes.detach().exp() * total, 1e-8)


# -- Hard-ALiBi and windows ------------------------------------------------------------------------


@oracle("hard_alibi", "double loop")
@everywhere
@pytest.mark.parametrize(
    ("heads", "masked", "shortest"), [(3, 2, 1), (3, 3, 0), (2, None, 1), (4, 1, 3)]
)
def test_hard_alibi_masks_all_but_the_last_tokens_by_index(
    heads: int, masked: int | None, shortest: int, positions: list[float]
) -> None:
    """Head h < M sees offsets 0..shortest + h, the rest see all; scores are plain products."""
    a = call(positions, heads)
    encoding = HardALiBi(heads, masked, shortest)
    count = masked if masked is not None else 1
    same(scores(encoding, a), loop(a, lambda h, i, j: 0.0))
    every_way(
        encoding,
        a,
        outputs(a, scores(NoPE(), a), lambda h, i, j: h >= count or i - j <= shortest + h),
    )


def test_hard_alibi_masks_two_thirds_of_the_heads() -> None:
    """The published 8 of 12, with reach 0 to 7; here every masked head reaches one token
    further.
    """
    reach = {heads: HardALiBi(heads).reach for heads in (1, 2, 3, 4, 8, 12)}
    assert {heads: len(r) for heads, r in reach.items()} == {1: 1, 2: 1, 3: 2, 4: 2, 8: 5, 12: 8}
    assert HardALiBi(12, shortest=0).reach == tuple(range(8)) and HardALiBi(2).reach == (1,)


@oracle("hard_alibi", "library: transformers sliding_window_causal_mask_function")
@oracle("hard_alibi", "identity: wide reach is NoPE")
def test_hard_alibi_heads_are_windows_of_transformers() -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    a = call(heads=4)
    i = torch.arange(N)
    allowed = HardALiBi(4, 3).encode(a).allowed(slice(0, N))[0]
    for head, window in enumerate((2, 3, 4)):
        mask = masking.sliding_window_causal_mask_function(window)
        assert torch.equal(allowed[head], mask(0, head, i[:, None], i[None, :]))
    assert torch.equal(allowed[3], i[:, None] >= i[None, :])
    same(attend(HardALiBi(4, 4, shortest=N).encode(a)), attend(NoPE().encode(a)))


@oracle("sliding_window", "double loop")
@oracle("rope_window_nope", "double loop")
@everywhere
@pytest.mark.parametrize("window", [1, 2, 4, N, 100])
def test_a_window_of_w_sees_w_keys_its_own_included(window: int, positions: list[float]) -> None:
    a, host = call(positions), RoPE(WIDTH)
    encoding = SlidingWindow(host, window)
    every_way(encoding, a, outputs(a, scores(host, a), lambda h, i, j: i - window < j))
    seen = encoding.encode(a).allowed(slice(0, N)).sum(-1).flatten()
    assert seen.tolist() == [min(i + 1, window) for i in range(N)]


@oracle("sliding_window", "identity: a wide window is the host")
@pytest.mark.parametrize(
    "make", [lambda: RoPE(WIDTH), lambda: ALiBi(HEADS), lambda: NAPE(HEADS), NoPE]
)
def test_a_window_as_wide_as_the_sequence_is_its_host(make: Callable[[], PositionEncoding]) -> None:
    a = call(POSITIONS["with gaps"])
    same(attend(SlidingWindow(make(), N).encode(a)), attend(make().encode(a)))
    assert not torch.allclose(
        attend(SlidingWindow(make(), N - 1).encode(a)), attend(make().encode(a))
    )


def layer_of(module: Any, config: Any, index: int) -> Any:
    return module(config, layer_idx=index).double().eval()


def of_projections(layer: Any, x: Tensor, heads: int) -> Attention:
    """The call that a layer's own projections of x make."""
    q, k, v = (
        projection(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    pos = torch.arange(x.shape[1])[None]
    return Attention(q, k, v, x, pos, pos, scale=q.shape[-1] ** -0.5)


QUARTERS = ("model.width=64", "model.num_heads=4", "model.head_width=16")
"""Heads as wide as theirs are: the width of the model over their number."""


@oracle("rope_nope", "library: transformers SmolLM3Attention")
def test_rope_and_nope_layers_are_those_of_smollm3() -> None:
    smollm3 = pytest.importorskip("transformers.models.smollm3.modeling_smollm3")
    from transformers import SmolLM3Config

    run = setup("encoding=rope_nope", "model.num_layers=4", *QUARTERS)
    encodings = run.model().encodings
    heads, width, n = run.config.model.num_heads, run.config.model.width, 12
    config = SmolLM3Config(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads,
        num_hidden_layers=4,
        no_rope_layers=[1, 0, 1, 0], max_position_embeddings=n, attn_implementation="eager",
        pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    x = torch.randn(
        BATCH, n, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    tables = smollm3.SmolLM3RotaryEmbedding(config)(x, torch.arange(n)[None])
    for index, encoding in enumerate(encodings):
        layer = layer_of(smollm3.SmolLM3Attention, config, index)
        theirs = layer(x, position_embeddings=tables, attention_mask=hidden)[0]
        out = attend(encoding.encode(of_projections(layer, x, heads)))
        same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)


@oracle("rope_window_nope", "library: transformers Cohere2Attention")
def test_window_and_full_layers_are_those_of_cohere2() -> None:
    """RoPE in the sliding layers, none in the full ones. Theirs rotates neighbours: layout is the
    one difference.
    """
    cohere2 = pytest.importorskip("transformers.models.cohere2.modeling_cohere2")
    from transformers import Cohere2Config
    from transformers.masking_utils import sliding_window_causal_mask_function

    words = ("encoding=rope_window_nope", "+encoding.layers.0.host.layout=interleaved")
    run = setup(*words, *QUARTERS)
    encodings = run.model().encodings
    heads, width, n = run.config.model.num_heads, run.config.model.width, 20
    window = round(0.25 * run.train_positions)
    config = Cohere2Config(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"], sliding_window=window,
        attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    x = torch.randn(
        BATCH, n, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    i, zero = torch.arange(n), torch.zeros(n, n, dtype=torch.float64)
    seen = sliding_window_causal_mask_function(window)(0, 0, i[:, None], i[None, :])
    masks = [zero.masked_fill(~seen, -torch.inf), zero.masked_fill(i[:, None] < i, -torch.inf)]
    tables = cohere2.Cohere2RotaryEmbedding(config)(x, i[None])
    for index, (encoding, mask) in enumerate(zip(encodings, masks, strict=True)):
        layer = layer_of(cohere2.Cohere2Attention, config, index)
        theirs = layer(x, position_embeddings=tables, attention_mask=mask[None, None])[0]
        out = attend(encoding.encode(of_projections(layer, x, heads)))
        same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)
    assert window < n and encodings.layers[0].window == window


@pytest.mark.parametrize(
    "name", marked("identity: its layers are RoPE and NoPE", rope_nope=(), rope_window_nope=())
)
def test_hybrids_repeat_their_layers_over_the_depth(name: str) -> None:
    run = setup(f"encoding={name}", "model.num_layers=3", f"model.head_width={WIDTH}")
    a = call(POSITIONS["with gaps"], 2)
    expected = [RoPE(WIDTH), NoPE(), RoPE(WIDTH)]
    for layer, plain in zip(run.model().encodings, expected, strict=True):
        same(scores(layer, a), scores(plain, a))
        windowed = name == "rope_window_nope" and isinstance(plain, RoPE)
        assert bool(layer.encode(a).masks) == windowed


# -- NAPE ------------------------------------------------------------------------------------------


@oracle("nape", "double loop")
@everywhere
@pytest.mark.parametrize("heads", [2, 3, 4, 7])
def test_nape_biases_the_first_half_of_the_heads(heads: int, positions: list[float]) -> None:
    a = call(positions, heads)

    def bias(h: int, i: float, j: float) -> float:
        return -(i - j) / (h + 1) if h < heads // 2 else 0.0

    expected = loop(a, bias)
    same(scores(NAPE(heads), a), expected, 1e-9)
    if positions == POSITIONS["counted"]:
        every_way(NAPE(heads), a, outputs(a, expected))


@pytest.mark.slow
@oracle("nape", "library: x-transformers AlibiPositionalBias")
def test_nape_is_x_transformers_alibi_on_some_heads() -> None:
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    theirs = x_transformers.AlibiPositionalBias(heads=3, total_heads=6, slopes=[1, 1 / 2, 1 / 3])(
        N, N
    ).double()
    a = call(heads=6)
    same(
        scores(NAPE(6), replace(a, q=0 * a.q)).tril(), theirs.tril().expand(BATCH, -1, -1, -1), 1e-6
    )


def test_nape_needs_no_score_matrix() -> None:
    assert NAPE(4).encode(call(heads=4)).path == "fused"
