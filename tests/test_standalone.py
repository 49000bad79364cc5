"""Encodings and extensions from outside: right with every call that is accepted, or refused."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from offered import thinned
from torch import Tensor, nn

import posbench
from posbench import standalone
from posbench.base.errors import ConfigError, IllegalExtension, PosbenchError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding
from posbench.encodings.rope import RoPE
from posbench.extensions.pi import PI
from posbench.position import Position, Sizes

ROOT = Path(__file__).parent.parent
ENCODINGS = sorted(path.stem for path in (ROOT / "conf/encoding").glob("*.yaml"))
PATTERNS = [
    *("gated_deltanet_nope", "gated_deltanet_partial_rope", "gated_deltanet_rope"),
    *("kimi_delta_nope", "kimi_delta_partial_rope", "kimi_delta_rope"),
    "local_global_p_rope",
    "local_global_rope",
    *("mamba2_nope", "mamba2_partial_rope", "mamba2_rope"),
    "repo",
    "rope_chunked_nope",
    "rope_nope",
    "rope_window_nope",
    "rope_windows",
    "sink_windows",
]
"""Refused, whatever is asked: they have unlike layers, and a position is one layer."""
FROM_X = [
    *("accumulated_rotations", "asentmax", "cable", "carope", "fox", "fox_pro", "path"),
    *("path_fox", "per_row_dda", "projected_logits", "selective_rope", "token_sink", "wall"),
    *("path_blocked", "path_fox_blocked", "wall_blocked", "cable_open"),
    *("gated_deltanet", "kimi_delta", "mamba2"),
]
"""Refused without x, or with x of the new tokens alone."""
FROM_QUERIES = ["short_conv", "gated_deltanet", "kimi_delta", "mamba2"]
"""Refused with a cache: a row depends on the queries before it."""
DRAWN = ["random_floats", "random_positions", "random_positions_published"]
"""Refused with a cache unless positions are given: they draw them in evaluation too."""
IN_TRAINING = ["cape", "shape", *DRAWN]
IDS = {"abacus": "within", "bipe": "within", "coupling": "coupled"}
"""Refused without positions: a task supplies their ids."""
HEADS, KEY_HEADS, WIDTH, TRAINED = 4, 2, 16, 16
PARTS = (7, 9, 1, 3, 1, 3, 3, 1, 1)
"""Tokens of each call of a loop with a cache; in the second, more than are cached."""
N = sum(PARTS)


def made(name: str, **settings: Any) -> Position:
    """An encoding in evaluation whose parameters are not at their start, where many do nothing."""
    return copy.deepcopy(_drawn(name, **settings))


@functools.cache
def _drawn(name: str, **settings: Any) -> Position:
    torch.manual_seed(0)
    position = standalone.encoding(name)(HEADS, WIDTH, TRAINED, **settings).double().eval()
    with torch.no_grad():
        for each in position.parameters():
            each.add_(0.2 * torch.randn_like(each))
    return position


def test_classes_of_ones_own_make_a_layer_and_extend_it_as_named_ones_do() -> None:
    own = Position(RoPE(WIDTH), Sizes(HEADS, WIDTH, TRAINED)).eval()
    q, k, v, _ = tensors()
    assert torch.equal(own(q, k, v), made("rope")(q, k, v))
    longer, named = own.with_extension(PI(), 64), posbench.pi().extend(made("rope"), 64)
    assert torch.equal(longer(q, k, v), named(q, k, v))
    assert not torch.equal(longer(q, k, v), own(q, k, v)) and longer.extensions == ("PI",)


def tensors(n: int = N, batch: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k and v with fewer heads of keys, and x."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH))
    q, k, v = (
        torch.randn(batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    x = torch.randn(batch, n, HEADS * WIDTH, generator=generator, dtype=torch.float64)
    return q, k, v, x


def positions(name: str, position: Position) -> Tensor | None:
    """What has to be given, None where nothing has."""
    ids = {"within": torch.arange(N)[None] % 5, "coupled": torch.arange(N)[None] // 2}
    if name in IDS:
        return position.draw(N, ids=ids[IDS[name]])
    return position.draw(N, torch.Generator().manual_seed(3)) if name in DRAWN else None


def cached(position: Position, pos: Tensor | None, *, with_x: bool) -> Tensor:
    """What a loop gives that keeps k, v and x, and passes the queries of new tokens alone."""
    q, k, v, x = tensors()
    found, done = [], 0
    for new in PARTS:
        now = done + new
        found.append(
            position(
                q[:, :, done:now],
                k[:, :, :now],
                v[:, :, :now],
                x[:, :now] if with_x else None,
                None if pos is None else pos[:, :now],
            )
        )
        done = now
    return torch.cat(found, 2)


def whole(position: Position, pos: Tensor | None, *, with_x: bool) -> Tensor:
    """What the whole sequence gives at once, its heads of keys repeated by hand."""
    q, k, v, x = tensors()
    k, v = (t[:, [0, 0, 1, 1]] for t in (k, v))
    return position(q, k, v, x if with_x else None, pos)


@pytest.mark.parametrize("name", thinned("encoding"))
def test_a_loop_with_a_cache_gives_what_the_whole_sequence_gives(name: str) -> None:
    if name in PATTERNS:
        with pytest.raises(ConfigError, match=f"{name} is a pattern of unlike layers"):
            standalone.encoding(name)(HEADS, WIDTH, TRAINED)
        return
    position = made(name)
    pos, with_x = positions(name, position), name in FROM_X
    expected = whole(position, pos, with_x=with_x)
    if name in FROM_QUERIES:
        with pytest.raises(ConfigError, match="from the queries before it, and a cache does not"):
            cached(position, pos, with_x=with_x)
        return
    assert expected.isfinite().all() and expected.shape == (2, HEADS, N, WIDTH)
    found = cached(position, pos, with_x=with_x)
    assert (found - expected).abs().max() < 1e-9


@pytest.mark.parametrize("name", ENCODINGS)
def test_embeddings_of_new_tokens_are_those_of_the_whole_sequence(name: str) -> None:
    if name in PATTERNS:
        return
    position, x = made(name), tensors()[3]
    pos = positions(name, position)
    pos = torch.arange(N)[None] if pos is None else pos
    expected, done, found = position.embed(x, pos), 0, []
    for new in PARTS:
        found.append(position.embed(x[:, done : done + new], pos[:, : done + new]))
        done += new
    assert (torch.cat(found, 1) - expected).abs().max() < 1e-9
    if name not in IDS and name not in DRAWN:
        assert torch.equal(position.embed(x), expected)


def refusing(call: Callable[[str], object], words: str) -> list[str]:
    """The encodings that refuse a call in a sentence with these words; the others take it."""
    found = []
    for name in ENCODINGS:
        try:
            call(name)
        except ConfigError as error:
            if re.search(words, str(error)):
                found.append(name)
    return found


@pytest.mark.slow
def test_which_encodings_refuse_what_and_why() -> None:
    q, k, v, x = tensors()
    last = q[:, :, -3:]

    def from_x(name: str) -> None:
        position = made(name)
        position(last, k, v, pos=positions(name, position))

    def from_short_x(name: str) -> None:
        position = made(name)
        position(last, k, v, x[:, -3:], positions(name, position))

    assert refusing(
        from_x, r"computes from x, the normalised input of the layer: give it"
    ) == sorted(FROM_X)
    assert refusing(from_short_x, r"computes from x, .*, of all 29 tokens, and x has 3") == sorted(
        FROM_X
    )
    assert refusing(lambda name: made(name)(last, k, v, x), "draws positions") == DRAWN
    assert refusing(lambda name: made(name)(q, k, v, x), "draws positions") == []
    trains = refusing(lambda name: made(name).train()(q, k, v, x), "draws positions")
    assert trains == sorted(IN_TRAINING)
    assert refusing(lambda name: made(name)(q, k, v, x), "a task supplies") == sorted(IDS)
    assert refusing(lambda name: made(name), "pattern of unlike layers") == PATTERNS


EXTENSIONS = (
    *("abf", "block_causal", "both", "chunked", "clamp", "dca", "direct", "dynamic_ntk"),
    *("interpolate_distance", "jet_long", "jet_long_freq", "lampe", "leaky_rerope", "llama3"),
    *("lm_infinite", "log_n", "longrope", "mesa", "pi", "pi_last", "rerope", "resonance_yarn"),
    *("self_extend", "streaming_llm", "string", "yarn", "yarn_fine_tuned", "yarn_turns"),
    *("dpe", "dynamic_ntk_stale", "self_extend_logistic"),
)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_a_loop_with_a_cache_gives_what_the_whole_sequence_gives_when_extended(name: str) -> None:
    trained = made("rope", base=30)
    position = standalone.extension(name)().extend(trained, tested=40)
    assert not position.training and position.tested == 40
    expected = whole(position, None, with_x=False)
    assert (cached(position, None, with_x=False) - expected).abs().max() < 1e-9
    assert torch.equal(whole(trained, None, with_x=False), expected) == (name == "direct")


def test_a_loop_with_a_cache_has_wider_windows() -> None:
    trained = made("sliding_window")
    position = standalone.extension("widen")().extend(trained, tested=40)
    expected = whole(position, None, with_x=False)
    assert (cached(position, None, with_x=False) - expected).abs().max() < 1e-9
    assert not torch.equal(whole(trained, None, with_x=False), expected)


def test_one_query_sees_all_keys_and_stands_where_the_last_key_stands() -> None:
    """By hand, with rotations written out: not by any code of the package."""
    q, k, v, _ = tensors()
    angles = torch.arange(N).double()[:, None] * 30.0 ** (-torch.arange(WIDTH / 2).double() / 8)

    def turned(t: Tensor, at: Tensor) -> Tensor:
        both = torch.complex(t[..., : WIDTH // 2], t[..., WIDTH // 2 :]) * torch.polar(
            torch.ones_like(at), at
        )
        return torch.cat((both.real, both.imag), -1)

    keys, values = (t.repeat_interleave(2, 1) for t in (turned(k, angles), v))
    weights = (turned(q[:, :, -1:], angles[-1:]) @ keys.mT / WIDTH**0.5).softmax(-1)
    found = made("rope", base=30)(q[:, :, -1:], k, v)
    assert (found - weights @ values).abs().max() < 1e-12
    assert not torch.allclose(found, v.repeat_interleave(2, 1)[:, :, :1])


def test_fewer_heads_of_keys_are_those_of_scaled_dot_product_attention() -> None:
    q, k, v, _ = tensors()
    found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert torch.allclose(made("nope")(q, k, v), found, atol=1e-12)
    one = made("nope", num_kv_heads=1)
    expected = F.scaled_dot_product_attention(
        q, k[:, :1], v[:, :1], is_causal=True, enable_gqa=True
    )
    assert torch.allclose(one(q, k[:, :1], v[:, :1]), expected, atol=1e-12)
    with pytest.raises(ConfigError, match=r"k of shape \(2, 2, 29, 16\) has 2 heads where 1 was"):
        one(q, k, v)


@pytest.mark.parametrize("name", ["rope", "fox", "carope", "transformer_xl", "learned"])
def test_x_and_parameters_may_be_of_another_precision_than_queries(name: str) -> None:
    position = made(name)
    q, k, v, x = tensors()
    expected = position(q, k, v, x)
    coarse = position.float()(*(t.bfloat16() for t in (q, k, v)), x)
    assert coarse.dtype == torch.bfloat16 and (coarse - expected).abs().max() < 0.05


def test_positions_of_each_sequence_are_kept_with_a_cache() -> None:
    q, k, v, _ = tensors()
    pos = torch.stack((torch.arange(N), 2 * torch.arange(N) + 5))
    position = made("alibi")
    expected = position(q, k, v, pos=pos)
    assert torch.allclose(position(q[:, :, -2:], k, v, pos=pos), expected[:, :, -2:], atol=1e-12)
    alone = position(q[1:], k[1:], v[1:], pos=pos[1:])
    assert torch.allclose(expected[1:], alone, atol=1e-12)


def test_gradients_reach_the_cache_as_they_reach_the_whole_sequence() -> None:
    q, k, v, _ = tensors()
    k.requires_grad_()
    found = []
    for queries in (q, q[:, :, -2:]):
        out = made("rope")(queries, k, v)[:, :, -2:]
        found.append(torch.autograd.grad(out.square().sum(), k)[0])
    assert found[0].abs().max() > 0.01 and torch.allclose(*found, atol=1e-12)


class Remembering(PositionEncoding):
    """A row depends on the queries before it."""

    def encode(self, a: Attention) -> Plan:
        return a.heated(a.q.cumsum(-2).mean(-1, keepdim=True))


def test_an_encoding_that_reads_earlier_queries_is_refused_with_a_cache() -> None:
    q, k, v, _ = tensors()
    position = Position(Remembering(), Sizes(HEADS, WIDTH, TRAINED))
    assert position(q, k, v).isfinite().all()
    for _ in range(2):
        with pytest.raises(ConfigError, match="computes a row from the queries before it"):
            position(q[:, :, -1:], k, v)


def test_what_weights_hide_now_is_asked_again_once_they_have_changed() -> None:
    """A convolution begins as none, so that for a while a row reads no earlier query."""
    q, k, v, x = tensors()
    position = standalone.encoding("short_conv")(HEADS, WIDTH, TRAINED).double().eval()
    learned = {name: each.clone() for name, each in position.state_dict().items()}
    with torch.no_grad():
        for each in position.parameters():
            each.zero_()
    assert position(q[:, :, -1:], k, v, x).isfinite().all()
    position.load_state_dict(learned)
    with pytest.raises(ConfigError, match="computes a row from the queries before it"):
        position(q[:, :, -1:], k, v, x)


@pytest.mark.parametrize(("dtype", "share"), [(torch.bfloat16, 0.1), (torch.float32, 1e-4)])
def test_small_weights_do_not_pass_for_rounding(dtype: torch.dtype, share: float) -> None:
    position = standalone.encoding("short_conv")(2, 32, 64, of="q").to(dtype)
    with torch.no_grad():
        for each in position.parameters():
            each.mul_(share)
    q, k, v = torch.randn(3, 1, 2, 40, 32, generator=torch.Generator().manual_seed(0)).to(dtype)
    with pytest.raises(ConfigError, match="computes a row from the queries before it"):
        position(q[:, :, -8:], k, v, q.transpose(1, 2).flatten(2))


def test_a_key_that_is_no_number_is_seen_in_the_output() -> None:
    q, k, v, _ = tensors()
    k[0, 0, 0, 0] = torch.nan
    assert made("rope")(q[:, :, -1:], k, v)[0, 0].isnan().all()


def test_drawn_positions_are_new_in_training_and_the_same_in_evaluation() -> None:
    position = made("random_positions")
    assert torch.equal(position.draw(9), position.draw(9))
    position.train()
    torch.manual_seed(0)
    first, second = position.draw(9), position.draw(9)
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(position.draw(9), first)
    q, k, v, _ = tensors(9)
    out = [position(q, k, v, pos=pos) for pos in (first, second, first)]
    assert torch.equal(out[0], out[2]) and not torch.equal(out[0], out[1])
    each = made("shape").train().draw(9, torch.Generator().manual_seed(0), batch=3)
    assert each.shape == (3, 9) and len(set(each[:, 0].tolist())) == 3


def test_an_extension_is_told_the_span_of_the_positions() -> None:
    """Training has shown random positions up to the longest test: nothing is to be stretched."""
    position = made("random_positions")
    assert position.encoding.span(TRAINED, training=True) == 8 * TRAINED
    longer = posbench.pi().extend(position, tested=4 * TRAINED)
    q, k, v, _ = tensors()
    pos = position.draw(N)
    assert int(pos.max()) >= 4 * TRAINED
    assert torch.equal(longer(q, k, v, pos=pos), position(q, k, v, pos=pos))


@pytest.mark.parametrize("size", [0, -1, 2.0, float("nan"), float("inf"), True, "4", None, [4]])
@pytest.mark.parametrize("place", range(3))
def test_a_size_that_is_no_count_is_refused(place: int, size: Any) -> None:
    sizes: list[Any] = [HEADS, WIDTH, TRAINED]
    sizes[place] = size
    name = ("num_heads", "head_width", "trained")[place]
    said = f"{name} must be a whole number of at least 1, got {re.escape(repr(size))}$"
    with pytest.raises(ConfigError, match=said):
        posbench.rope(*sizes)


def test_a_size_may_be_of_numpy() -> None:
    assert posbench.rope(np.int64(HEADS), WIDTH, TRAINED).sizes.num_heads == HEADS
    assert (
        posbench.rope(HEADS, WIDTH, TRAINED, base=np.float32(500)).encoding.frequencies.base == 500
    )


def test_a_function_shows_its_settings_with_their_defaults() -> None:
    found = str(inspect.signature(posbench.rope, eval_str=False)).partition(" ->")[0]
    sizes = "num_heads, head_width, trained, longest=None, num_kv_heads=None, model_width=None"
    assert found == f"({sizes}, *, base=10000, layout='half')"
    assert str(inspect.signature(posbench.ssmax)).startswith(
        f"({sizes}, *, host=<RoPE>, length=${{train_positions}}, power=1)"
    )
    assert str(inspect.signature(posbench.pi)).startswith("(*, scale=None)")
    assert posbench.rope.__qualname__ == "rope" and "2104.09864" in (posbench.rope.__doc__ or "")
    assert pickle.loads(pickle.dumps(posbench.rope)) is posbench.rope


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_setting_that_a_function_shows_is_taken(name: str) -> None:
    if name in PATTERNS:
        return
    function = standalone.encoding(name)
    for each in inspect.signature(function).parameters.values():
        plain = not isinstance(each.default, standalone.Written)
        if each.kind is inspect.Parameter.KEYWORD_ONLY and plain:
            function(HEADS, WIDTH, TRAINED, **{each.name: each.default})


def test_a_host_is_chosen_by_its_name() -> None:
    position = posbench.ssmax(HEADS, WIDTH, TRAINED, host="alibi")
    assert type(position.encoding.host).__name__ == "ALiBi"
    wide = posbench.fox(HEADS, WIDTH, TRAINED, model_width=24)
    q, k, v, _ = tensors()
    assert wide.double()(q, k, v, torch.randn(2, N, 24).double()).isfinite().all()


def block() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), posbench.rope(HEADS, WIDTH, TRAINED))


Q, K, V, X = tensors()
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no sizes": (lambda: posbench.rope(), "missing a required argument: 'num_heads': write rope"),
    "too many": (lambda: posbench.rope(4, 16, 64, 64, 4, 64, 500), "too many positional"),
    "a misspelt setting": (lambda: posbench.rope(4, 16, 64, bse=5), "did you mean base"),
    "a setting of an extension": (lambda: posbench.yarn(scal=2), "did you mean scale"),
    "a setting of what has none": (lambda: posbench.direct(scale=2), "it takes none"),
    "an infinite base": (lambda: posbench.rope(4, 16, 64, base=float("inf")), "finite number"),
    "a base in words": (lambda: posbench.rope(4, 16, 64, base="ten"), "must be a number"),
    "a tensor as base": (lambda: posbench.rope(4, 16, 64, base=torch.ones(2)), "got a Tensor"),
    "an interpolation": (lambda: posbench.rope(4, 16, 64, base="${oc.env:HOME}"), "must be a val"),
    "a host that is a position": (
        lambda: posbench.ssmax(4, 16, 64, host=posbench.rope(4, 16, 64)),
        r"host is the name of an encoding that is one layer, as host='rope', got Position$",
    ),
    "no host": (lambda: posbench.ssmax(4, 16, 64, host=None), "host is the name .* got None"),
    "a host in part": (lambda: posbench.dape(4, 16, 64, host={"base": 3}), "host is the name"),
    "a host of unlike layers": (
        lambda: posbench.ssmax(4, 16, 64, host="rope_nope"),
        "one layer, as host='rope', got 'rope_nope'",
    ),
    "a class of others as a host": (
        lambda: posbench.ssmax(4, 16, 64, host={"_target_": "os.system", "command": "exit"}),
        "os.system is not imported, because os is no module of posbench",
    ),
    "a path as a name": (lambda: standalone.encoding("../encoding/rope"), "must be a name"),
    "no name": (lambda: standalone.extension(None), "must be a name, such .* got None"),
    "tokens as heads": (lambda: posbench.rope(2**20, 16, 64), "num_heads must be at most 65,536"),
    "a host that is none": (lambda: posbench.ssmax(4, 16, 64, host="alibii"), "did you mean alibi"),
    "longest below trained": (lambda: posbench.rope(4, 16, 64, 32), "longest=32 is less than"),
    "heads of keys that divide nothing": (
        lambda: posbench.rope(4, 16, 64, num_kv_heads=3),
        "num_kv_heads=3 does not divide num_heads=4",
    ),
    "an odd width": (lambda: posbench.rope(4, 15, 64), "head_width must be even, got 15"),
    "the other layout": (
        lambda: made("rope")(*(t.transpose(1, 2) for t in (Q, K, V))),
        r"looks like \[batch, n, heads, head width\]: heads come first here, \[batch, heads, n, "
        r"head width\], so give q.transpose\(1, 2\)",
    ),
    "keys of the other layout": (
        lambda: made("rope")(Q, K.transpose(1, 2), V.transpose(1, 2)),
        r"so give k.transpose\(1, 2\)",
    ),
    "one sequence without a batch": (lambda: made("rope")(Q[0], K[0], V[0]), "q must be .batch"),
    "heads beside one another": (lambda: made("rope")(X, X, X), r"got the shape \(2, 29, 64\)"),
    "other heads": (lambda: made("rope")(Q[:, :3], K, V), "has 3 heads where 4 was expected"),
    "keys of three heads": (lambda: made("rope")(Q, Q[:, :3], Q[:, :3]), "a number that divides 4"),
    "keys of more heads": (lambda: made("rope")(Q, *(torch.cat((Q, Q), 1),) * 2), "has 8 heads"),
    "another width": (lambda: made("rope")(Q[..., :8], K, V), "width 8, and RoPE was made for"),
    "values of another width": (lambda: made("rope")(Q, K, V[..., :8]), "v has heads of width 8"),
    "fewer values": (lambda: made("rope")(Q, K, V[:, :, 1:]), "every key needs one value"),
    "another batch": (lambda: made("rope")(Q, K[:1], V[:1]), "q has 2 sequences and k 1"),
    "more queries than keys": (
        lambda: made("rope")(Q, K[:, :, 1:], V[:, :, 1:]),
        r"q has 29 tokens and k 28: .* torch.cat\(\(cached, k\), 2\)",
    ),
    "no query": (lambda: made("rope")(Q[:, :, :0], K, V), "q is empty"),
    "no sequence": (lambda: made("rope")(Q[:0], K[:0], V[:0]), "q is empty"),
    "a list": (lambda: made("rope")(Q.tolist(), K, V), "q must be a tensor"),
    "sparse": (lambda: made("rope")(Q.to_sparse(), K, V), "all of them, got .* .torch.sparse_coo"),
    "positions on no device": (
        lambda: made("rope")(Q, K, V, pos=torch.arange(N)[None].to("meta")),
        "must hold numbers, got torch.int64 on meta",
    ),
    "positions of embeddings in a list": (lambda: made("rope").embed(X, [1]), "must be a tensor"),
    "an infinite scale": (
        lambda: posbench.yarn(scale=float("inf")).extend(made("rope"), 64),
        "scale must be a finite number, got inf",
    ),
    "integers": (lambda: made("rope")(Q.long(), K.long(), V.long()), "floating-point numbers"),
    "another precision": (lambda: made("rope")(Q, K.float(), V), "k torch.float32: bring all"),
    "another device": (lambda: made("rope")(Q, K.to("meta"), V), "device cpu and k meta"),
    "parameters elsewhere": (
        lambda: made("learned").to("meta")(Q, K, V),
        "parameters of Learned are on meta and q is on cpu",
    ),
    "parameters of less precision": (
        lambda: made("deberta").float()(Q, K, V),
        r"the parameters of DeBERTa have the dtype torch.float32 and q torch.float64",
    ),
    "positions in place of x": (
        lambda: made("rope")(Q, K, V, torch.arange(N)[None]),
        "positions are given as pos=",
    ),
    "x of another width": (lambda: made("fox")(Q, K, V, X[..., :9]), "give model_width=9"),
    "x of other tokens": (
        lambda: made("rope")(Q, K, V, X[:, :7]),
        "does not fit 2 sequences of 29",
    ),
    "x of one sequence": (lambda: made("rope")(Q, K, V, X[:1]), "does not fit 2 sequences of 29"),
    "positions of the queries alone": (
        lambda: made("rope")(Q[:, :, -1:], K, V, pos=torch.tensor([[N - 1]])),
        "positions of 1 quer.*, and those of all 29 keys are needed",
    ),
    "positions without a batch": (
        lambda: made("rope")(Q, K, V, pos=torch.arange(N)),
        r"pos must be \[1 or 2, 29\], got the shape \(29,\)",
    ),
    "positions in a list": (lambda: made("rope")(Q, K, V, pos=[[0]]), "pos must be a tensor"),
    "positions that are truths": (
        lambda: made("rope")(Q, K, V, pos=torch.ones(1, N).bool()),
        "must hold numbers",
    ),
    "positions that are no numbers": (
        lambda: made("rope")(Q, K, V, pos=torch.full((1, N), float("nan"))),
        "holds NaN or infinity",
    ),
    "positions between rows": (
        lambda: made("learned").embed(X, torch.arange(N)[None] + 0.5),
        "a row for each whole position",
    ),
    "positions beyond the rows": (
        lambda: made("learned").embed(X, torch.arange(N)[None] + 8 * TRAINED),
        "positions from 128 to 156 do not fit the 128 that Learned has",
    ),
    "positions before the rows": (
        lambda: made("learned").embed(X, torch.arange(N)[None] - 1),
        "positions from -1 to 27",
    ),
    "fewer positions than embeddings": (
        lambda: made("rope").embed(X, torch.arange(3)[None]),
        "pos has 3 positions and x 29 tokens",
    ),
    "embeddings of tokens": (lambda: made("rope").embed(torch.ones(2, N).long()), "x must be"),
    "ids that no task supplies": (lambda: made("bipe").draw(N), r"draw\(n, ids=...\)"),
    "more tokens than tested": (
        lambda: posbench.yarn().extend(made("rope"), tested=N - 1)(Q, K, V),
        "position 28 lies beyond tested=28",
    ),
    "a position beyond what is tested": (
        lambda: posbench.yarn().extend(made("rope"), tested=40)(
            Q, K, V, pos=torch.arange(N)[None] + 20
        ),
        "position 48 lies beyond tested=40",
    ),
    "tested nothing": (lambda: posbench.yarn().extend(made("rope"), tested=0), "tested must be"),
    "tested a multiple": (lambda: posbench.yarn().extend(made("rope"), tested=2.5), "got 2.5"),
    "extended twice": (
        lambda: posbench.yarn().extend(posbench.log_n().extend(made("rope"), 40), 80),
        "extended for tested=40 already, and not for 80",
    ),
    "the same extension twice": (
        lambda: posbench.yarn().extend(posbench.yarn().extend(made("rope"), 40), 40),
        "yarn has been applied to the position already",
    ),
    "a layer that is none": (lambda: posbench.yarn().extend(nn.Linear(2, 2), 64), "got a Linear"),
    "a layer around one": (
        lambda: posbench.yarn().extend(block(), 64),
        "got a Sequential: give each of those it holds, as MODULE.1",
    ),
    "a function of an encoding": (lambda: posbench.yarn().extend(posbench.rope, 64), "a function"),
    "an extension that searches": (
        lambda: posbench.yarn_tuned().extend(made("rope"), 64),
        "searches for its settings .* take yarn with settings",
    ),
    "an extension that is a function": (
        lambda: made("rope").with_extension(posbench.yarn(), 64),
        "with_extension takes an Extension, got a UnboundExtension",
    ),
    "an extension of ones own for no positions": (
        lambda: made("rope").with_extension(PI(), 0),
        "tested must be",
    ),
    "an extension of ones own twice": (
        lambda: made("rope").with_extension(PI(), 64).with_extension(PI(), 64),
        "PI has been applied to the position already",
    ),
    "one position": (
        lambda: posbench.log_n().extend(posbench.rope(2, 8, 1), 9),
        "log_n extends what was trained on 2 positions or more, and this was on 1",
    ),
    "layers by a name": (
        lambda: posbench.only(layers="last").extend(made("rope"), 64),
        "only.layers='last'.* does not fit: .*: correct its settings",
    ),
    "a factor beyond all numbers": (
        lambda: posbench.giraffe_power(power=1000.5).extend(made("rope"), 64),
        "giraffe_power.power=1000.5.* does not fit",
    ),
    "a number of sequences as a generator": (
        lambda: made("rope").draw(8, 5),  # type: ignore[arg-type]
        "generator is a torch.Generator or None, got 5: for several sequences give batch=",
    ),
    "an extension that trains anew": (
        lambda: posbench.ceiling().extend(made("rope"), 64),
        "trains a new model .* make the encoding with trained=64",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_right_is_refused_in_one_sentence(kind: str) -> None:
    call, words = BAD[kind]
    with pytest.raises(PosbenchError, match=f"(?s){words}") as refusal:
        call()
    assert "\n" not in str(refusal.value) and "_internal" not in str(refusal.value)


def test_as_many_tokens_as_are_tested_are_taken() -> None:
    exact = posbench.yarn().extend(made("rope"), tested=N)
    assert exact(Q, K, V, pos=torch.arange(N)[None]).isfinite().all()


def test_two_extensions_follow_one_another_as_both_has_them() -> None:
    one = posbench.log_n().extend(posbench.yarn().extend(made("rope", base=30), 40), 40)
    two = posbench.both(second="log_n").extend(made("rope", base=30), 40)
    assert one.extensions == ("yarn", "log_n")
    assert torch.equal(one(*tensors()), two(*tensors()))


def test_an_encoding_without_what_an_extension_changes_is_refused() -> None:
    with pytest.raises(IllegalExtension, match="needs frequencies"):
        posbench.yarn().extend(made("alibi"), tested=64)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RoPE", "did you mean rope?"),
        ("alibbi", "did you mean alibi?"),
        ("rope_yarn", "the encoding rope with the extension yarn: write yarn().extend(rope(...)"),
        ("records", "it is a module, so write import posbench.records"),
        ("encodings", "write import posbench.encodings; posbench.list_encodings() is the table"),
    ],
)
def test_a_name_that_is_none_says_what_was_meant(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(posbench, name, raising=False)  # a module that some test has imported
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(posbench, name)


def test_a_private_name_is_answered_without_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute '_rope'$"):
        posbench._rope  # noqa: B018
