"""The model by hand: heads of a width of their own, token by token, and what a layer may have."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from loops import HEADS, WIDTH, N, call, everywhere, loop, oracle, outputs, same, shaken
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import EncodingStack
from posbench.core.layers import QKNorm, ShortConv
from posbench.core.transformer import Transformer
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.short_conv import PARTS, Convolved
from posbench.extensions.pi import PI
from posbench.position import Position, Sizes
from posbench.running.subject import setup


@pytest.mark.parametrize(("heads", "head_width", "width"), [(3, 5, 8), (1, 8, 8), (4, 8, 16)])
def test_a_layer_is_what_it_is_by_hand(heads: int, head_width: int, width: int) -> None:
    """Each query, head and channel in a loop: rows of the projections come as queries, keys and
    values, each head by head.
    """
    stack = EncodingStack([NoPE()])
    model = Transformer(7, width, 1, heads, head_width, stack, mlp_ratio=0).double().eval()
    tokens = torch.randint(0, 7, (2, 6), generator=torch.Generator().manual_seed(0))
    [block] = model.blocks
    assert block.qkv.weight.shape == (3 * heads * head_width, width)
    assert block.out.weight.shape == (width, heads * head_width)
    rows = block.qkv.weight.view(3, heads, head_width, width)
    for sequence, found in zip(tokens, model(tokens, torch.arange(6)[None]), strict=True):
        x = model.embedding.weight[sequence]
        normed = [block.attention_norm(each) for each in x]
        for place in range(6):
            outputs = []
            for head in range(heads):
                query = rows[0, head] @ normed[place]
                scores = [
                    (query @ (rows[1, head] @ normed[j])).item() / math.sqrt(head_width)
                    for j in range(place + 1)
                ]
                largest = max(scores)
                weights = [math.exp(score - largest) for score in scores]
                values = [rows[2, head] @ normed[j] for j in range(place + 1)]
                total = sum(weights)
                outputs.append(
                    sum(w / total * value for w, value in zip(weights, values, strict=True))
                )
            after = x[place] + block.out.weight @ torch.cat(outputs)  # type: ignore[arg-type]
            expected = model.head.weight @ model.norm(after)
            torch.testing.assert_close(found[place], expected, rtol=1e-9, atol=1e-10)


def test_heads_are_as_wide_as_they_are_told_whatever_the_width_of_the_model() -> None:
    sizes = {
        width: setup(f"model.width={width}", "model.num_heads=3", "model.head_width=10").model()
        for width in (16, 50)
    }
    for width, model in sizes.items():
        assert (model.width, model.num_heads, model.head_width) == (width, 3, 10)
        for block in model.blocks:
            assert block.qkv.weight.shape == (90, width) and block.out.weight.shape == (width, 30)
    # An encoding is made for the heads: five pairs of channels.
    assert len(sizes[16].encodings.layers[0].frequencies.theta()) == 5


def test_heads_without_a_channel_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.head_width"):
        setup("model.head_width=0")


# -- what a layer may have beside its encoding -----------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "qk_norm": {"qk_norm": True},
    "output_gate": {"output_gate": True},
    "short_conv": {"short_conv": 3},
    "all": {"qk_norm": True, "output_gate": True, "short_conv": 4},
}


def made(layers: int = 1, mlp_ratio: int = 0, **options: Any) -> Transformer:
    """A model whose scales are not 1, so that a forgotten one shows."""
    stack = EncodingStack([RoPE(6) for _ in range(layers)])
    model = Transformer(7, 8, layers, 2, 6, stack, mlp_ratio=mlp_ratio, **options).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "qk_norm" in name:
                parameter.copy_(0.5 + torch.rand(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("name", OPTIONS)
def test_a_layer_with_options_is_what_it_is_by_hand(name: str) -> None:
    """Number by number: the convolution as a sum over tokens, the norms and gates head by head."""
    options, heads, width = OPTIONS[name], 2, 6
    model = made(**options)
    [block] = model.blocks
    tokens = torch.randint(0, 7, (6,), generator=torch.Generator().manual_seed(0))
    x = model.embedding.weight[tokens]
    normed = [block.attention_norm(each) for each in x]
    projected = [block.qkv.weight @ each for each in normed]
    kernel = options.get("short_conv", 0)
    if kernel:
        weight = block.short_conv.weight
        assert weight.shape == (3 * heads * width, kernel)
        projected = [
            now + sum(weight[:, s] * projected[t - s] for s in range(kernel) if t >= s)
            for t, now in enumerate(projected)
        ]
    parts = [each.view(3, heads, width) for each in projected]

    def length_one(vector: Tensor, scale: Tensor) -> Tensor:
        mean = sum(number.item() ** 2 for number in vector) / width
        return vector / math.sqrt(mean + 1e-6) * scale

    def turned(vector: Tensor, place: int) -> Tensor:
        found = vector.clone()
        for pair in range(width // 2):
            angle = place * 10000 ** (-2 * pair / width)
            a, b = vector[pair], vector[pair + width // 2]
            found[pair] = a * math.cos(angle) - b * math.sin(angle)
            found[pair + width // 2] = a * math.sin(angle) + b * math.cos(angle)
        return found

    def side(place: int, which: int, head: int) -> Tensor:
        vector = parts[place][which, head]
        if options.get("qk_norm"):
            vector = length_one(vector, (block.qk_norm.q, block.qk_norm.k)[which].weight)
        return turned(vector, place)

    for place in range(6):
        outputs = []
        for head in range(heads):
            query = side(place, 0, head)
            scores = [(query @ side(j, 1, head)) / math.sqrt(width) for j in range(place + 1)]
            weights = torch.stack(scores).softmax(0)
            seen = sum(w * parts[j][2, head] for j, w in enumerate(weights))
            if options.get("output_gate"):
                rows = block.output_gate.gate.weight[head * width : (head + 1) * width]
                gate = [1 / (1 + math.exp(-(row @ normed[place]).item())) for row in rows]
                seen = seen * torch.tensor(gate, dtype=torch.float64)
            outputs.append(seen)
        after = x[place] + block.out.weight @ torch.cat(outputs)
        expected = model.head.weight @ model.norm(after)
        found = model(tokens[None], torch.arange(6)[None])[0, place]
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_qk_norm_is_that_of_qwen_3() -> None:
    qwen = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    norm, reference = QKNorm(8), qwen.Qwen3RMSNorm(8, eps=1e-6)
    q, k = torch.randn(2, 2, 3, 5, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        norm.q.weight.copy_(torch.linspace(0.5, 2, 8))
        reference.weight.copy_(norm.q.weight)
    torch.testing.assert_close(norm(q, k)[0], reference(q))


def test_a_short_convolution_is_a_depthwise_one_with_what_it_began_with() -> None:
    conv = ShortConv(10, 4).double()
    with torch.no_grad():
        conv.weight.normal_(generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 9, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(x.mT, (3, 0))
    expected = torch.nn.functional.conv1d(padded, conv.weight.flip(1)[:, None], groups=10).mT + x
    torch.testing.assert_close(conv(x), expected)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_see_no_later_token(name: str) -> None:
    model, pos = made(layers=2, mlp_ratio=2, **OPTIONS[name]), torch.arange(9)[None]
    tokens = torch.randint(0, 7, (2, 9), generator=torch.Generator().manual_seed(0))
    later = tokens.clone()
    later[:, 6:] = (later[:, 6:] + 1) % 7
    before, after = model(tokens, pos), model(later, pos)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("first", [3, 7])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_last_layer_may_begin_late_with_options_too(name: str, first: int) -> None:
    """Explicit weights of the last queries alone, or the kernel over all of them."""
    model, pos = made(layers=2, mlp_ratio=2, **OPTIONS[name]), torch.arange(9)[None]
    tokens = torch.randint(0, 7, (2, 9), generator=torch.Generator().manual_seed(0))
    where = torch.zeros(2, 9, dtype=torch.bool)
    where[0, first], where[1, first + 1] = True, True
    whole = model(tokens, pos)
    torch.testing.assert_close(model(tokens, pos, None, where, first), whole[where])
    shorter = model(tokens[:, : first + 1], pos[:, : first + 1])[:, -1]  # as greedy decoding asks
    torch.testing.assert_close(shorter, whole[:, first])


def test_options_change_no_initial_weight_of_the_rest() -> None:
    plain, every = made(2, 2).state_dict(), made(2, 2, **OPTIONS["all"]).state_dict()
    assert plain.keys() < every.keys()
    assert all(torch.equal(plain[name], every[name]) for name in plain)
    one = made(2, 2, short_conv=4).state_dict()
    assert torch.equal(one["blocks.1.short_conv.weight"], every["blocks.1.short_conv.weight"])
    assert not torch.equal(one["blocks.1.short_conv.weight"], one["blocks.0.short_conv.weight"])
    assert every["blocks.0.short_conv.weight"].std().item() == pytest.approx(0.5, rel=0.15)


def test_options_run_in_half_precision() -> None:
    model = made(2, 2, **OPTIONS["all"]).float()
    tokens = torch.randint(0, 7, (2, 9), generator=torch.Generator().manual_seed(0))
    exact = model(tokens, torch.arange(9)[None])
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(tokens, torch.arange(9)[None]).float()
    assert 0 < (rough - exact).abs().max() < 0.2


@pytest.mark.parametrize("value", ["-1", "1.5", "true"])
def test_a_convolution_over_no_number_of_tokens_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.short_conv"):
        setup(f"model.short_conv={value}")


# -- a convolution of some of q, k and v, before an encoding sees them -----------------------------


def by_tokens(conv: ShortConv, x: Tensor) -> Tensor:
    """What a convolution makes of [batch, heads, n, width], token by token."""
    rows, found = conv.weight.view(x.shape[1], x.shape[3], -1), x.clone()
    for head in range(x.shape[1]):
        for t in range(x.shape[2]):
            for back in range(min(t + 1, rows.shape[-1])):
                found[:, head, t] += rows[head, :, back] * x[:, head, t - back]
    return found


@pytest.mark.slow
@oracle("short_conv", "double loop")
@everywhere
def test_the_host_sees_what_is_convolved_and_the_rest_as_it_was(positions: list[float]) -> None:
    a, slopes = call(positions), alibi_slopes(HEADS)
    for kernel in (1, 3, N + 2):
        for of in PARTS:
            encoding = shaken(Convolved(ALiBi(HEADS), HEADS, WIDTH, kernel, of))
            assert list(encoding.convolutions) == list(of)
            given = {
                part: by_tokens(conv, getattr(a, part))
                for part, conv in encoding.convolutions.items()
            }
            seen = Attention(**vars(a) | given)
            z = loop(seen, lambda h, i, j: -slopes[h] * (i - j))
            expected = outputs(seen, z)
            same(dense(encoding.encode(a)), expected)
            same(attend(encoding.encode(a), 3), expected)


@oracle("short_conv", "identity: short_conv of the model, where it is of q, k and v")
@pytest.mark.parametrize("kernel", [1, 2, 4])
def test_a_convolution_of_all_three_is_that_of_the_model(kernel: int) -> None:
    model = made(layers=2, mlp_ratio=2, short_conv=kernel)
    stack = EncodingStack([Convolved(RoPE(6), 2, 6, kernel).double() for _ in range(2)])
    plain = made(layers=2, mlp_ratio=2).with_encodings(stack)
    weights = model.state_dict()
    with torch.no_grad():
        for index, layer in enumerate(stack):
            three = weights[f"blocks.{index}.short_conv.weight"].split(2 * 6)
            for part, weight in zip("qkv", three, strict=True):
                layer.convolutions[part].weight.copy_(weight)
    plain.load_state_dict(weights, strict=False)
    tokens = torch.randint(0, 7, (2, 9), generator=torch.Generator().manual_seed(0))
    pos = torch.arange(9)[None]
    assert torch.equal(plain(tokens, pos), model(tokens, pos))


def test_convolutions_start_as_those_of_the_model() -> None:
    words = ("encoding=short_conv", "model.head_width=64", "model.num_heads=4")
    layer, other = setup(*words, "encoding.kernel=4").model().encodings
    weights = [conv.weight for each in (layer, other) for conv in each.convolutions.values()]
    assert len(weights) == 6
    for weight in weights:
        assert weight.shape == (256, 4)
        assert weight.std().item() == pytest.approx(0.5, rel=0.1)
    assert len({weight[0, 0].item() for weight in weights}) == 6


def test_an_extension_reaches_the_host_of_a_convolution() -> None:
    a, encoding = call(range(12)), shaken(Convolved(RoPE(WIDTH), HEADS, WIDTH, 3, "kv"))
    extended = PI().apply(encoding, 4, 12)
    assert extended.host.frequencies == PI().apply(encoding.host, 4, 12).frequencies  # type: ignore[attr-defined]
    inside = Convolved(PI().apply(RoPE(WIDTH), 4, 12), HEADS, WIDTH, 3, "kv").double()
    inside.load_state_dict(encoding.state_dict())
    assert torch.equal(attend(extended.encode(a)), attend(inside.encode(a)))


def test_a_cache_serves_a_convolution_of_keys_and_values_but_not_one_of_queries() -> None:
    a, sizes = call(range(9)), Sizes(HEADS, WIDTH, trained=9)
    for of in PARTS:
        layer = Position(shaken(Convolved(NoPE(), HEADS, WIDTH, 4, of)), sizes).eval()
        if "q" in of:
            with pytest.raises(ConfigError, match="computes a row from the queries before it"):
                layer(a.q[:, :, 6:], a.k, a.v)
        else:
            whole = layer(a.q, a.k, a.v)
            torch.testing.assert_close(layer(a.q[:, :, 6:], a.k, a.v), whole[:, :, 6:])


@pytest.mark.parametrize(
    ("kernel", "of", "said"),
    [(0, "k", "at least 1, got 0"), (4, "vk", "got vk"), (4, "", "one of qkv, qk")],
)
def test_a_convolution_of_nothing_is_refused(kernel: int, of: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Convolved(NoPE(), HEADS, WIDTH, kernel, of)
