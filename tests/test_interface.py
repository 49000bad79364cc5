"""The interface of encodings carries methods that the suite does not ship: each is written here as
its author would write it, in a few lines, and run against plain loops. None needs a branch in
attention.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from conftest import setup
from torch import Tensor, nn

from posbench.attention import Attention, Heads, Plan, Regions, attend, dense
from posbench.encoding import Draw, EncodingStack, PositionEncoding, Wrapper
from posbench.encodings.alibi import ALiBi
from posbench.encodings.learned import Learned
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.rotation import halves, rotate
from posbench.encodings.t5 import T5
from posbench.errors import IllegalExtension
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.frequencies import Frequencies
from posbench.transformer import Transformer

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


class XPos(PositionEncoding):
    """RoPE times zeta_m^((i - j) / scale_base) (arXiv 2212.10554)."""

    handles = PositionEncoding.handles | {"frequencies"}

    def __init__(self, head_width: int, scale_base: float = 32.0, gamma: float = 0.4) -> None:
        super().__init__()
        self.frequencies = Frequencies(head_width // 2)
        m = torch.arange(head_width // 2, dtype=torch.float64)
        self.log_zeta = (
            (2 * m + gamma * head_width) / ((1 + gamma) * head_width)
        ).log() / scale_base

    def encode(self, a: Attention) -> Attention:
        def turned(t: Tensor, pos: Tensor, sign: int) -> Tensor:
            growth = (sign * pos[..., None] * self.log_zeta).exp()
            cos, sin = self.frequencies.tables(pos, t.dtype)
            return rotate(*halves(t), growth * cos, growth * sin)

        return replace(a, q=turned(a.q, a.q_pos, 1), k=turned(a.k, a.k_pos, -1))


class PoPE(PositionEncoding):
    """Magnitudes softplus(q), softplus(k), a frequency for every channel: q and k of twice the
    width.
    """

    handles = PositionEncoding.handles | {"frequencies"}

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.frequencies = Frequencies(head_width)

    def encode(self, a: Attention) -> Attention:
        def polar(t: Tensor, pos: Tensor) -> Tensor:
            cos, sin = (table[:, None] for table in self.frequencies.tables(pos, t.dtype))
            size = nn.functional.softplus(t)
            return torch.cat((size * cos, size * sin), -1)

        return replace(a, q=polar(a.q, a.q_pos), k=polar(a.k, a.k_pos))


class TransformerXL(PositionEncoding):
    """<q + u, k> + <q + v, W R_{i-j}>: by the angle-difference identities an exact product of rank
    D.
    """

    shared = ("u", "v")
    handles = PositionEncoding.handles | {"frequencies"}

    def __init__(self, num_heads: int, head_width: int, model_width: int) -> None:
        super().__init__()
        self.frequencies = Frequencies(model_width // 2)
        self.u, self.v = (nn.Parameter(torch.randn(num_heads, head_width)) for _ in range(2))
        self.w = nn.Parameter(torch.randn(num_heads, head_width, model_width))

    def encode(self, a: Attention) -> Attention:
        by_sin, by_cos = ((a.q + self.v[:, None]) @ self.w).chunk(2, -1)  # [batch, heads, n, D/2]
        (cos_i, sin_i), (cos_j, sin_j) = (
            (t[:, None] for t in self.frequencies.tables(pos, a.q.dtype))
            for pos in (a.q_pos, a.k_pos)
        )
        # sin(i-j) = sin i cos j - cos i sin j and cos(i-j) = cos i cos j + sin i sin j
        bias_q = torch.cat((by_sin * sin_i + by_cos * cos_i, by_cos * sin_i - by_sin * cos_i), -1)
        bias_k = torch.cat((cos_j, sin_j), -1).expand(*a.q.shape[:3], -1)
        return replace(a, q=a.q + self.u[:, None]).factored(a.scale * bias_q, bias_k)


class Shaw(PositionEncoding):
    """Relative keys and values, clipped (arXiv 1803.02155)."""

    handles = PositionEncoding.handles | {"distance"}

    def __init__(self, head_width: int, clip: int = 4) -> None:
        super().__init__()
        self.clip = clip
        self.keys, self.values = (nn.Parameter(torch.randn(clip + 1, head_width)) for _ in range(2))

    def encode(self, a: Attention) -> Attention:
        def row(rows: slice) -> Tensor:
            return (
                a.distance(rows)
                .clamp(0, self.clip)[:, None]
                .expand(a.q.shape[0], a.q.shape[1], -1, -1)
            )

        def term(rows: slice) -> Tensor:
            return a.scale * (a.q[..., rows, :] @ self.keys.mT).gather(-1, row(rows))

        def value(weights: Tensor, rows: slice) -> Tensor:
            binned = weights.new_zeros(*weights.shape[:-1], self.clip + 1).scatter_add(
                -1, row(rows), weights
            )
            return binned @ self.values

        return replace(a.plus(term), values=(*a.values, value))


class ReRoPE(Wrapper):
    """d' = min(d, window), around any host that has a distance."""

    def __init__(self, host: PositionEncoding, window: int) -> None:
        super().__init__(host)
        self.window = window
        self.handles = host.handles - {"distance"}

    def encode(self, a: Attention) -> Plan:
        near, far = (
            self.host.encode(a),
            self.host.encode(a.at(torch.full_like(a.q_pos, self.window), a.k_pos * 0)),
        )
        assert isinstance(near, Attention) and isinstance(far, Attention)
        return Regions(lambda rows: (a.distance(rows) >= self.window)[:, None].long(), (near, far))


class StickBreaking(PositionEncoding):
    """Weights sigmoid(z_ij) prod_{j<s<i} (1 - sigmoid(z_is)); what is left falls on the query
    itself.
    """

    def encode(self, a: Attention) -> Attention:
        def break_stick(logits: Tensor, allowed: Tensor) -> Tensor:
            own = allowed & ~allowed.flip(-1).cumsum(-1).flip(-1).gt(1)  # the last allowed key
            before = allowed & ~own
            stay = torch.where(before, -nn.functional.softplus(logits), 0.0)
            after = stay.flip(-1).cumsum(-1).flip(-1) - stay
            taken = torch.where(before, (nn.functional.logsigmoid(logits) + after).exp(), 0.0)
            return torch.where(own, stay.sum(-1, keepdim=True).exp(), taken)

        return replace(a, normalise=break_stick)


class CoPE(PositionEncoding):
    """Positions counted by gates of the content (arXiv 2405.18719)."""

    def __init__(self, head_width: int, largest: int = 5) -> None:
        super().__init__()
        self.largest = largest
        self.table = nn.Parameter(torch.randn(largest + 1, head_width))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            q = a.q[..., rows, :]
            gates = torch.where(a.allowed(rows), (a.scale * (q @ a.k.mT)).sigmoid(), 0.0)
            count = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.largest)
            each = q @ self.table.mT
            low, part = count.floor().long(), count.frac()
            return (1 - part) * each.gather(-1, low) + part * each.gather(-1, count.ceil().long())

        return a.plus(term)


class FoX(PositionEncoding):
    """A forget gate per head: B_ij = sum of log gates between j and i (arXiv 2503.02130)."""

    def __init__(self, model_width: int, num_heads: int) -> None:
        super().__init__()
        self.gate = nn.Linear(model_width, num_heads)

    def encode(self, a: Attention) -> Attention:
        c = nn.functional.logsigmoid(self.gate(a.x)).cumsum(1).mT  # [batch, heads, n]
        one = torch.ones_like(c)
        return a.factored(torch.stack((c, one), -1), torch.stack((one, -c), -1))


class NAPE(PositionEncoding):
    """ALiBi on the first half of the heads, nothing on the rest."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.first, self.rest = ALiBi(num_heads // 2), NoPE()

    def encode(self, a: Attention) -> Plan:
        half = a.q.shape[1] // 2
        return Heads(
            (
                self.first.encode(a.heads(slice(0, half))),
                self.rest.encode(a.heads(slice(half, None))),
            )
        )


class RotatedValues(RoPE):
    """Values turned by their position, outputs turned back by the query's: o_i sees R((j - i)
    theta) v_j.
    """

    def encode(self, a: Attention) -> Attention:
        encoded = super().encode(a)
        cos, sin = self.frequencies.tables(a.k_pos, a.v.dtype)
        cos_q, sin_q = self.frequencies.tables(a.q_pos, a.v.dtype)

        def back(out: Tensor, rows: slice) -> Tensor:
            return rotate(*halves(out), cos_q[:, rows], -sin_q[:, rows])

        return replace(encoded, v=rotate(*halves(a.v), cos, sin), finish=back)


class SSMax(Wrapper):
    """Logits times s log(i + 1), before any host (arXiv 2501.19399)."""

    def encode(self, a: Attention) -> Plan:
        count = torch.arange(1, a.num_queries + 1, dtype=a.q.dtype, device=a.q.device)
        return self.host.encode(a.heated(0.5 * count.log()[None, None, :, None]))


class RandomPositions(Wrapper):
    """A sorted random subset of `range(largest)` (arXiv 2305.16843)."""

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        drawn = (
            torch.randperm(self.largest, generator=draw.generator)[: ids.shape[1]]
            .sort()
            .values[None]
        )
        return self.host.positions(drawn, draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(self.largest, training)


TRIALS = {
    "xpos": lambda: XPos(W),
    "pope": lambda: PoPE(W),
    "txl": lambda: TransformerXL(H, W, D),
    "shaw": lambda: Shaw(W),
    "rerope(rope)": lambda: ReRoPE(RoPE(W), 4),
    "rerope(shaw)": lambda: ReRoPE(Shaw(W), 3),
    "rerope(alibi)": lambda: ReRoPE(ALiBi(H), 4),
    "rerope(t5)": lambda: ReRoPE(T5(H, D, 4, 8), 4),
    "stick": StickBreaking,
    "cope": lambda: CoPE(W),
    "fox": lambda: FoX(D, H),
    "nape": lambda: NAPE(H),
    "rotated values": lambda: RotatedValues(W),
    "ssmax(alibi)": lambda: SSMax(ALiBi(H)),
    "ssmax(stick)": lambda: SSMax(StickBreaking()),
    "ssmax(nape)": lambda: SSMax(NAPE(H)),
    "ssmax(rerope(rope))": lambda: SSMax(ReRoPE(RoPE(W), 4)),
}


@pytest.mark.parametrize("name", TRIALS)
def test_every_path_and_block_equals_the_dense_reference(name: str, a: Attention) -> None:
    torch.manual_seed(0)
    plan = TRIALS[name]().double().encode(a)
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
    assert TRIALS[name]().double().encode(a).path == path  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TRIALS)
def test_no_method_sees_the_future(name: str, a: Attention) -> None:
    torch.manual_seed(0)
    encoding = TRIALS[name]().double()
    later = {key: getattr(a, key).clone() for key in ("q", "k", "v", "x")}
    for t in later.values():
        t[..., 7:, :] += 1.0
    before, after = attend(encoding.encode(a)), attend(encoding.encode(replace(a, **later)))
    torch.testing.assert_close(before[..., :7, :], after[..., :7, :], rtol=0, atol=1e-12)


def test_xpos_equals_its_closed_form(a: Attention) -> None:
    z = full(XPos(W).encode(a))
    theta = [10000 ** (-2 * m / W) for m in range(W // 2)]
    zeta = [(2 * m + 0.4 * W) / (1.4 * W) for m in range(W // 2)]
    for b, h, i, j in pairs():
        q, k = (
            torch.complex(t[b, h, n, : W // 2], t[b, h, n, W // 2 :])
            for t, n in ((a.q, i), (a.k, j))
        )
        turn = [
            torch.exp(torch.tensor(1j * (i - j) * t)) * s ** ((i - j) / 32)
            for t, s in zip(theta, zeta, strict=True)
        ]
        assert abs(z[b, h, i, j] - SCALE * (q * k.conj() * torch.stack(turn)).sum().real) < 1e-6


def test_transformer_xl_equals_the_direct_gather(a: Attention) -> None:
    torch.manual_seed(0)
    txl = TransformerXL(H, W, D).double()
    z = full(txl.encode(a))
    theta = [10000 ** (-2 * m / D) for m in range(D // 2)]
    for b, h, i, j in pairs():
        angle = torch.tensor([(i - j) * t for t in theta], dtype=torch.float64)
        r = torch.cat((angle.sin(), angle.cos()))
        expected = (a.q[b, h, i] + txl.u[h]) @ a.k[b, h, j] + (a.q[b, h, i] + txl.v[h]) @ (
            txl.w[h] @ r
        )
        assert abs(z[b, h, i, j] - SCALE * expected) < 1e-10


@pytest.mark.parametrize("host", [RoPE(W), ALiBi(H), Shaw(W)])
def test_rerope_equals_the_matrix_of_rectified_distances(
    host: PositionEncoding, a: Attention
) -> None:
    torch.manual_seed(0)
    host, window = host.double(), 4
    z, out = full(ReRoPE(host, window).encode(a)), attend(ReRoPE(host, window).encode(a))
    for i in range(N):
        # One query at a time: give key j the position i - min(i - j, window).
        rectified = torch.tensor([[i - min(i - j, window) if j <= i else j for j in range(N)]])
        moved = host.encode(a.at(a.q_pos, rectified))
        torch.testing.assert_close(
            z[..., i, : i + 1], moved.logits(slice(i, i + 1))[..., 0, : i + 1], rtol=0, atol=1e-10
        )
        torch.testing.assert_close(out[..., i, :], dense(moved)[..., i, :], rtol=0, atol=1e-10)


def test_stick_breaking_equals_the_product_and_sums_to_one(a: Attention) -> None:
    plan = StickBreaking().encode(a)
    w = plan.weights(full(plan), slice(0, N))
    assert torch.allclose(w.sum(-1), torch.ones(()).double())
    for b, h, i, j in pairs():
        z = [SCALE * float(a.q[b, h, i] @ a.k[b, h, s]) for s in range(i)]
        sigma = [1 / (1 + 2.718281828459045**-value) for value in z]
        expected = sigma[j] if j < i else 1.0
        for s in range(j + 1 if j < i else 0, i):
            expected *= 1 - sigma[s]
        assert abs(w[b, h, i, j] - expected) < 1e-9


def test_fox_with_a_constant_gate_is_alibi(a: Attention) -> None:
    fox, alibi = FoX(D, H).double(), ALiBi(H)
    gate = torch.tensor([2.718281828459045**-slope for slope in alibi.slopes], dtype=torch.float64)
    with torch.no_grad():
        fox.gate.weight.zero_()
        fox.gate.bias.copy_((gate / (1 - gate)).log())
    torch.testing.assert_close(full(fox.encode(a)), full(alibi.encode(a)), rtol=0, atol=1e-9)


def test_rotated_values_equal_the_complex_sum(a: Attention) -> None:
    encoding = RotatedValues(W)
    plan, out = encoding.encode(a), attend(encoding.encode(a))
    w, theta = plan.weights(full(plan), slice(0, N)), encoding.frequencies.theta()
    v = torch.complex(*halves(a.v))
    for i in range(N):
        turn = torch.exp(1j * (torch.arange(N)[:, None] - i) * theta)
        expected = (w[:, :, i, :, None] * v * turn).sum(2)
        torch.testing.assert_close(
            torch.complex(*halves(out[:, :, i])), expected, rtol=0, atol=1e-10
        )


def test_temperature_reaches_content_but_not_the_bias(a: Attention) -> None:
    plain, hot = full(NoPE().encode(a)), full(SSMax(ALiBi(H)).encode(a))
    bias = full(ALiBi(H).encode(a)) - plain
    tau = 0.5 * torch.arange(1, N + 1).double().log()[:, None]
    torch.testing.assert_close(hot, tau * plain + bias, rtol=0, atol=1e-12)


# -- frequency laws on whatever has frequencies ----------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: XPos(W), lambda: PoPE(W), lambda: TransformerXL(H, W, D), lambda: RoPE(W)]
)
def test_every_frequency_law_acts_on_every_frequency_method(make, a: Attention) -> None:
    torch.manual_seed(0)
    base = make().double()
    for law in (PI(), NTK(), YaRN(beta_fast=2.0)):
        same, changed = law.apply(base, N, N), law.apply(base, N, 4 * N)
        assert torch.equal(full(same.encode(a)), full(base.encode(a)))
        assert not torch.allclose(full(changed.encode(a)), full(base.encode(a)))


def test_interpolated_transformer_xl_is_transformer_xl_at_interpolated_positions(
    a: Attention,
) -> None:
    torch.manual_seed(0)
    base = TransformerXL(H, W, D).double()
    pi = PI(scale=4.0).apply(base, N, N)
    torch.testing.assert_close(
        full(pi.encode(a)), full(base.encode(a.at(a.q_pos / 4, a.k_pos / 4))), rtol=0, atol=1e-10
    )


def test_pope_under_ntk_stretches_its_own_grid() -> None:
    """PoPE has a frequency for every channel: its slowest, not a pair's, is divided by s."""
    law = NTK(scale=8.0).apply(PoPE(W), N, N)
    ratio = PoPE(W).frequencies.theta() / law.frequencies.theta()
    assert ratio[0] == 1 and abs(ratio[-1] - 8) < 1e-12 and len(ratio) == W


# -- stacks, wrappers, positions -------------------------------------------------------------------


def test_a_wrapper_offers_its_hosts_handles_less_what_it_consumes() -> None:
    rerope = ReRoPE(RoPE(W), 4)
    assert "frequencies" in rerope.handles and "distance" not in rerope.handles
    changed = NTK(scale=4.0).apply(rerope, N, N)
    assert isinstance(changed, ReRoPE) and changed.window == 4
    assert changed.host.frequencies != rerope.host.frequencies == RoPE(W).frequencies


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
    stack = EncodingStack([SSMax(T5(H, D, 4, 8)) for _ in range(3)])
    assert stack.layers[2].host.table is stack.layers[0].host.table
    assert len(list(stack.parameters())) == 1
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


def test_random_positions_reach_the_model_and_scale_what_extensions_see() -> None:
    wrapped = EncodingStack([RandomPositions(RoPE(W), 100) for _ in range(2)])
    pos = wrapped.positions(torch.arange(9)[None], Draw(1, torch.Generator().manual_seed(0)))
    assert pos.shape == (1, 9) and (pos.diff() > 0).all() and pos.max() > 9
    assert wrapped.span(9) == 100


def test_task_supplied_ids_reach_embed_and_scores() -> None:
    """Coupled ids: the answer token shares the id of its source (arXiv 2405.20671)."""
    from posbench.scoring import inputs

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
        return Transformer(20, D, 2, H, stack, seed=seed).double()

    models = [make(seed) for seed in range(3)]
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    tokens, pos = torch.randint(0, 20, (3, 2, N)), torch.arange(N)[None]

    def forward(p: dict[str, Tensor], b: dict[str, Tensor], t: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return functional_call(models[0], (p, b), (t, pos), tie_weights=True)

    together = vmap(forward)(parameters, buffers, tokens)
    for index, model in enumerate(models):
        torch.testing.assert_close(together[index], model(tokens[index], pos), rtol=0, atol=1e-10)
