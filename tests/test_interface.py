"""What the interface of encodings promises of any of them: every way through attention gives what
the dense one does, wrappers and stacks compose, and extensions act on whatever offers the handle.

Formulas are compared with loops in the tests of each family; here encodings are put together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from loops import given, shaken
from torch import Tensor, nn

from posbench.base.errors import IllegalExtension
from posbench.core.attention import Attention, Heads, Plan, Regions, attend, dense
from posbench.core.encoding import Draw, EncodingStack, PositionEncoding, Wrapper
from posbench.core.transformer import Transformer
from posbench.encodings.alibi import ALiBi
from posbench.encodings.cope import CoPE
from posbench.encodings.fox import FoX
from posbench.encodings.learned import Learned
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.shaw import Shaw
from posbench.encodings.ssmax import SSMax
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.t5 import T5
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.vo_rope import VORoPE
from posbench.encodings.xpos import XPos
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.yarn import YaRN
from posbench.running.subject import setup

B, H, N, W, D = 2, 2, 11, 8, 16
SCALE = W**-0.5


@pytest.fixture
def a() -> Attention:
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, N, W, generator=g, dtype=torch.float64) for _ in range(3))
    x = torch.randn(B, N, D, generator=g, dtype=torch.float64)
    pos = torch.arange(N)[None]
    return Attention(q, k, v, x, pos, pos, SCALE)


def full(plan: Plan) -> Tensor:
    return plan.logits(slice(0, N))


def pairs() -> list[tuple[int, int, int, int]]:
    return [
        (b, h, i, j) for b in range(B) for h in range(H) for i in range(N) for j in range(i + 1)
    ]


def rerope(host: PositionEncoding, window: int) -> PositionEncoding:
    return ReRoPE(window).apply(host, N, N)


def ssmax(host: PositionEncoding) -> SSMax:
    return SSMax(host, H, 8)


TRIALS: dict[str, Callable[[], PositionEncoding]] = {
    "xpos": lambda: XPos(W, 32.0),
    "pope": lambda: PoPE(H, W),
    "txl": lambda: TransformerXL(H, W, D),
    "shaw": lambda: Shaw(W, 4),
    "rerope(rope)": lambda: rerope(RoPE(W), 4),
    "rerope(shaw)": lambda: rerope(Shaw(W, 4), 3),
    "rerope(alibi)": lambda: rerope(ALiBi(H), 4),
    "rerope(t5)": lambda: rerope(T5(H, D, 4, 8), 4),
    "rerope(nape)": lambda: rerope(NAPE(H), 4),
    "stick": StickBreaking,
    "cope": lambda: CoPE(W, 5),
    "fox": lambda: FoX(D, H),
    "nape": lambda: NAPE(H),
    "rotated values": lambda: VORoPE(W),
    "ssmax(alibi)": lambda: ssmax(ALiBi(H)),
    "ssmax(stick)": lambda: ssmax(StickBreaking()),
    "ssmax(nape)": lambda: ssmax(NAPE(H)),
    "ssmax(rerope(rope))": lambda: ssmax(rerope(RoPE(W), 4)),
}


def trial(name: str) -> PositionEncoding:
    """With parameters away from their start, so that no term is zero."""
    return shaken(TRIALS[name]())


@pytest.mark.parametrize("name", TRIALS)
def test_every_path_and_block_equals_the_dense_reference(name: str, a: Attention) -> None:
    plan = trial(name).encode(a)
    reference = dense(plan, N)
    for block in (1, 4, N):
        torch.testing.assert_close(attend(plan, block), reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("xpos", "fused"),
        ("pope", "fused"),
        ("txl", "fused"),
        ("fox", "fused"),
        ("nape", "fused"),
        ("rotated values", "fused"),
        ("ssmax(alibi)", "fused"),
        ("cope", "fused by rows"),
        ("shaw", "dense"),
        ("stick", "dense"),
        ("rerope(rope)", "dense"),
    ],
)
def test_the_path_is_read_off_the_plan(name: str, path: str, a: Attention) -> None:
    assert trial(name).encode(a).path == path  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TRIALS)
def test_no_method_sees_the_future(name: str, a: Attention) -> None:
    encoding = trial(name)
    later = {key: getattr(a, key).clone() for key in ("q", "k", "v", "x")}
    for t in later.values():
        t[..., 7:, :] += 1.0
    before, after = attend(encoding.encode(a)), attend(encoding.encode(replace(a, **later)))
    torch.testing.assert_close(before[..., :7, :], after[..., :7, :], rtol=0, atol=1e-12)


@pytest.mark.parametrize("host", [RoPE(W), ALiBi(H), Shaw(W, 4)], ids=["rope", "alibi", "shaw"])
def test_rerope_equals_the_matrix_of_rectified_distances(
    host: PositionEncoding, a: Attention
) -> None:
    host, window = shaken(copy.deepcopy(host)), 4
    plan = rerope(host, window).encode(a)
    z, out = full(plan), attend(plan)
    for i in range(N):
        # One query at a time: give key j the position i - min(i - j, window).
        rectified = torch.tensor([[i - min(i - j, window) if j <= i else j for j in range(N)]])
        moved = host.encode(a.at(a.q_pos, rectified))
        torch.testing.assert_close(
            z[..., i, : i + 1], moved.logits(slice(i, i + 1))[..., 0, : i + 1], rtol=0, atol=1e-10
        )
        torch.testing.assert_close(out[..., i, :], dense(moved)[..., i, :], rtol=0, atol=1e-10)


def test_temperature_reaches_content_but_not_the_bias(a: Attention) -> None:
    plain, hot = full(NoPE().encode(a)), full(given(ssmax(ALiBi(H)), s=[0.5, 0.5]).encode(a))
    bias = full(ALiBi(H).encode(a)) - plain
    tau = 0.5 * torch.arange(1, N + 1).double().log()[:, None]
    torch.testing.assert_close(hot, tau * plain + bias, rtol=0, atol=1e-12)


# -- frequency laws on whatever has frequencies ----------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: XPos(W, 32.0), lambda: PoPE(H, W), lambda: TransformerXL(H, W, D), lambda: RoPE(W)],
)
def test_every_frequency_law_acts_on_every_frequency_method(make, a: Attention) -> None:
    torch.manual_seed(0)
    base = make().double()
    for law in (PI(), NTK(), YaRN(beta_fast=2.0)):
        same, changed = law.apply(base, N, N), law.apply(base, N, 4 * N)
        assert torch.equal(full(same.encode(a)), full(base.encode(a)))
        assert not torch.allclose(full(changed.encode(a)), full(base.encode(a)))


# -- stacks, wrappers, positions -------------------------------------------------------------------


def test_a_wrapper_offers_its_hosts_handles_less_what_it_consumes() -> None:
    wrapped = rerope(RoPE(W), 4)
    assert "frequencies" in wrapped.handles and "distance" not in wrapped.handles
    changed = NTK(scale=4.0).apply(wrapped, N, N)
    assert type(changed) is type(wrapped) and changed.regions == wrapped.regions
    assert changed.host.frequencies != wrapped.host.frequencies == RoPE(W).frequencies


def test_a_wrapper_may_have_a_parameter_of_the_name_of_its_hosts() -> None:
    class Twice(Wrapper):
        shared = ("table",)

        def __init__(self, host: PositionEncoding) -> None:
            super().__init__(host)
            self.table = nn.Parameter(torch.zeros(3))

    twice = Twice(Learned(D, 20))
    assert sorted(name for name, _ in twice.named_parameters()) == ["host.table", "table"]
    stack = EncodingStack([Twice(Learned(D, 20)) for _ in range(2)])
    assert stack.layers[1].table is stack.layers[0].table is not stack.layers[0].host.table
    assert stack.layers[1].host.table is stack.layers[0].host.table


def test_a_change_reaches_every_call_of_a_plan_with_its_own_heads(a: Attention) -> None:
    seen = []

    def noted(part: Attention, heads: slice) -> Attention:
        seen.append((part.num_heads, heads.start, heads.stop))
        return part.heated(torch.full((1, 1, 1, 1), 2.0).double())

    quarters = [slice(0, 1), slice(1, 2)]
    plan = Heads(
        [
            Heads([a.heads(quarters[0])]),
            Regions(lambda rows: a.offset(rows)[None, None] // 3 % 2, [a.heads(quarters[1])] * 2),
        ]
    )
    hot = plan.each(noted)
    assert seen == [(1, 0, 1), (1, 1, 2), (1, 1, 2)]
    torch.testing.assert_close(
        hot.logits(slice(0, N)), 2 * plan.logits(slice(0, N)), rtol=0, atol=1e-12
    )


def test_an_extension_of_layer_lists_applies_where_it_can_and_refuses_where_nowhere() -> None:
    hybrid = EncodingStack([RoPE(W), NoPE(), RoPE(W), NoPE()], num_specifications=2)
    extended = NTK(scale=4.0).extend(hybrid, N, N)
    assert [type(layer).__name__ for layer in extended] == ["RoPE", "NoPE", "RoPE", "NoPE"]
    assert extended.layers[0].frequencies.stretch and extended.layers[1] is hybrid.layers[1]
    with pytest.raises(IllegalExtension):
        NTK().extend(EncodingStack([NoPE(), ALiBi(H)], num_specifications=2), N, N)


def test_layers_of_one_specification_share_what_they_name_also_inside_wrappers() -> None:
    stack = EncodingStack([ssmax(T5(H, D, 4, 8)) for _ in range(3)])
    assert stack.layers[2].host.table is stack.layers[0].host.table
    assert stack.layers[2].s is not stack.layers[0].s
    assert len(list(stack.parameters())) == 1 + 3
    txl = EncodingStack([TransformerXL(H, W, D) for _ in range(2)])
    assert txl.layers[1].u is txl.layers[0].u and txl.layers[1].w is not txl.layers[0].w


def test_a_hybrid_of_layers_is_built_from_configuration_alone() -> None:
    rope = "{_target_: posbench.encodings.rope.RoPE, head_width: 32}"
    run = setup(
        "protocol=smoke", "~encoding", f"+encoding={{layers: [{rope}, {{_target_: "
                                       f"posbench.encodings.nope.NoPE}}]}}",
        "model.num_layers=3",
    )  # fmt: skip
    assert [type(layer).__name__ for layer in run.model().encodings] == ["RoPE", "NoPE", "RoPE"]


def test_a_wrapper_keeps_what_its_class_declares_and_takes_the_rest_from_its_host() -> None:
    class Shifted(Wrapper):
        relative = False
        method_class = "trained beyond"

    class Further(Shifted):
        float_positions = False

    for cls in (Shifted, Further):
        wrapper = cls(RoPE(W))
        assert (wrapper.relative, wrapper.method_class) == (False, "trained beyond")
        assert wrapper.handles == RoPE.handles
    assert Shifted(RoPE(W)).float_positions and not Further(RoPE(W)).float_positions
    assert Shifted(Learned(D, 20)).max_positions == 20
    assert Further(Further(RoPE(W))).relative is False


def test_learned_rows_are_added_once_however_many_layers() -> None:
    stack = EncodingStack([Learned(D, 20) for _ in range(3)])
    x = torch.zeros(1, 5, D)
    assert torch.equal(stack.embed(x, torch.arange(5)[None])[0], stack.layers[0].table[:5])


@pytest.mark.slow
def test_random_positions_reach_the_model_and_scale_what_extensions_see() -> None:
    """One draw serves all layers, and an extension is told of all positions that may be drawn."""
    layers, ids = [RandomPositions(RoPE(W), 100) for _ in range(2)], torch.arange(9)[None]
    wrapped = EncodingStack(layers)

    def drawn(of: EncodingStack | RandomPositions) -> torch.Tensor:
        return of.positions(ids, Draw(1, torch.Generator().manual_seed(0)))

    assert torch.equal(drawn(wrapped), drawn(layers[0])) and not torch.equal(drawn(wrapped), ids)
    assert wrapped.span(9) == 100
    model = setup("encoding=random_positions", "encoding.largest=999", "task=copy").model()
    assert model.encodings.span(9) == 999


def test_task_supplied_ids_reach_embed_and_scores() -> None:
    """Coupled ids: the answer token shares the id of its source (arXiv 2405.20671)."""
    from posbench.core.scoring import inputs

    run = setup("encoding=learned", "task=copy")
    model, n = run.model().eval(), run.train_length
    plain = run.task.batch(n, 4, 0, "train", 0)
    for encoding in model.encodings:
        encoding.ids = "coupled"
    data = inputs(plain, model.encodings, 0)
    assert data.pos.shape == (4, 2 * n + 2)
    table = model.encodings.layers[0].table
    embedded = model.encodings.embed(torch.zeros(4, 2 * n + 2, table.shape[1]), data.pos)
    assert torch.equal(embedded[0, 1], embedded[0, n + 2])
    assert not torch.equal(
        model(data.tokens, data.pos), model(data.tokens, torch.arange(2 * n + 2)[None])
    )


def test_replicas_run_under_vmap_with_tied_parameters() -> None:
    """Several seeds of a model in one call: nothing in the forward pass holds state."""
    from torch.func import functional_call, stack_module_state, vmap

    def make(seed: int) -> Transformer:
        torch.manual_seed(seed)
        stack = EncodingStack([TransformerXL(H, W, D) for _ in range(2)])
        return Transformer(20, D, 2, H, W, stack, seed=seed).double()

    models = [make(seed) for seed in range(3)]
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    tokens, pos = torch.randint(0, 20, (3, 2, N)), torch.arange(N)[None]

    def forward(p: dict[str, Tensor], b: dict[str, Tensor], t: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return functional_call(models[0], (p, b), (t, pos), tie_weights=True)

    together = vmap(forward)(parameters, buffers, tokens)
    for index, model in enumerate(models):
        torch.testing.assert_close(together[index], model(tokens[index], pos), rtol=0, atol=1e-10)
