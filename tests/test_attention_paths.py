"""The executor gives the same by whichever path, in whatever blocks, with gradients, in linear
memory and in low precision, and nothing of a later token.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from plans import ALL, BATCH, BY_ROWS, FUSED, HEADS, WIDTH, N, call, random, same
from torch import Tensor

from posbench.core import attention
from posbench.core.attention import Attention, Regions, attend, blocks, dense, exact_channels
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.t5 import T5

TRAINED = 42  # positions of the training length that "8 times" refers to


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def as_dtype(a: Attention, dtype: torch.dtype) -> Attention:
    return replace(a, q=a.q.to(dtype), k=a.k.to(dtype), v=a.v.to(dtype), x=a.x.to(dtype))


# -- plans: what a method may set, alone and together ----------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_path_is_read_off_the_fields(name: str) -> None:
    expected = "fused" if name in FUSED else "fused by rows" if name in BY_ROWS else "dense"
    assert ALL[name]()[0](call()).path == expected


@pytest.mark.parametrize("block", [None, 3])
@pytest.mark.parametrize("name", FUSED | BY_ROWS)
def test_fused_paths_equal_the_dense_reference_with_gradients(name: str, block: int | None) -> None:
    """Values, and gradients with respect to q, k, v, x and parameters."""
    encode, parameters = ALL[name]()
    a = call()
    leaves = [t.requires_grad_() for t in (a.q, a.k, a.v, a.x)] + parameters
    weight = random(BATCH, HEADS, N, WIDTH, seed=11)
    results = []
    for run in (attend, dense):
        out = run(encode(a), block)
        found = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
        results.append([out, *(torch.zeros(()) if g is None else g for g in found)])
    for fused, reference in zip(*results, strict=True):
        same(fused, reference)
    reached = [g.abs().max() > 0 for g in results[0][1:]]
    assert reached[:3] == [True] * 3 and all(reached[4:]), (
        "q, k, v and every parameter get a gradient"
    )


@pytest.mark.parametrize("name", ALL)
def test_any_block_size_gives_the_same(name: str) -> None:
    plan = ALL[name]()[0](call())
    whole = attend(plan, N)
    for block in (1, 3, N - 1, N + 5, None):
        same(attend(plan, block), whole, 1e-12)
        same(dense(plan, block), whole)


def test_blocks_cover_every_row_once() -> None:
    for n, size in [(11, 3), (12, 3), (1, 5), (5, 1)]:
        assert [i for rows in blocks(n, size) for i in range(n)[rows]] == list(range(n))
        assert all(rows.stop - rows.start <= size for rows in blocks(n, size))


@pytest.mark.parametrize("composite", [False, True])
def test_a_block_of_scores_stays_within_its_budget(
    composite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bounds memory at any length: batch x heads x rows x keys elements at once."""
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", 3 * BATCH * HEADS * N)
    asked: list[int] = []

    def term(rows: slice) -> Tensor:
        asked.append(rows.stop - rows.start)
        return torch.zeros(1, 1, rows.stop - rows.start, N, dtype=torch.float64)

    plan = call().plus(term)
    attend(Regions(lambda rows: torch.zeros(1, 1, 1, N), [plan]) if composite else plan)
    assert max(asked) == 3 and sum(asked) == N


# -- causality -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_no_output_depends_on_a_later_token(name: str, backwards: bool) -> None:
    """By index, also where positions run the other way."""
    encode = ALL[name]()[0]
    a, cut = call(), 6
    if backwards:
        a = a.at(a.q_pos.flip(1), a.k_pos.flip(1))
    later = replace(a, **{f: getattr(a, f).clone() for f in ("q", "k", "v", "x")})
    for t in (later.q, later.k, later.v):
        t[:, :, cut:] += 3
    later.x[:, cut:] -= 2
    for run in (attend, dense):
        before, after = run(encode(a), 4), run(encode(later), 4)
        same(after[:, :, :cut], before[:, :, :cut], 1e-12)
        assert not torch.allclose(after[:, :, cut:], before[:, :, cut:])


@pytest.mark.parametrize("name", FUSED | BY_ROWS)
def test_the_last_output_depends_on_every_key_it_may_see(name: str) -> None:
    """The other half of causality: nothing earlier is lost, the first key and the query's own
    included.
    """
    a = call()
    v = a.v.requires_grad_()
    plan = ALL[name]()[0](a)
    (gradient,) = torch.autograd.grad(attend(plan, 4)[:, :, -1].sum(), v)
    seen = plan.allowed(slice(N - 1, N)).expand(BATCH, HEADS, 1, N)[:, :, 0]
    assert torch.equal(gradient.abs().sum(-1) > 0, seen)


# -- precision -------------------------------------------------------------------------------------

ENCODINGS: dict[str, Callable[[], NoPE | RoPE | ALiBi | T5]] = {
    "nope": NoPE,
    "rope": lambda: RoPE(WIDTH),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, 8, 21, TRAINED),
}
TOLERANCES = [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)]  # outputs are of the order of 1


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_low_precision_stays_within_tolerance_at_8x(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    """The fused path against the dense one in float64, on the same rounded inputs."""
    a = as_dtype(call(8 * TRAINED), dtype)
    module = ENCODINGS[name]()
    out = attend(module.encode(a))
    assert out.dtype == dtype
    reference = dense(module.double().encode(as_dtype(a, torch.float64)))
    same(out.double(), reference, tolerance)


@pytest.mark.parametrize("heads", [8, 6])
@pytest.mark.parametrize("start", [0, 2**20])
@pytest.mark.parametrize(
    ("dtype", "logit", "output"),
    [(torch.float32, 3e-4, 1e-4), (torch.bfloat16, 2e-2, 2e-2)],
    ids=["float32", "bfloat16"],
)
def test_alibi_keeps_its_distances_at_2048_tokens(
    heads: int, start: int, dtype: torch.dtype, logit: float, output: float
) -> None:
    """bfloat16 counts to 256 and float32 has steps of 1/8 at 2^20: distances survive because
    positions are counted from the middle and bfloat16 channels carry their remainders. Biases reach
    1024; rows from all over are compared.
    """
    n = 2048
    a = call(n, heads=heads, width=4, start=start)
    a = as_dtype(replace(a, q=a.q[:1], k=a.k[:1], v=a.v[:1], x=a.x[:1]), dtype)
    plan, exact = ALiBi(heads).encode(a), ALiBi(heads).encode(as_dtype(a, torch.float64))
    bias_q, bias_k = exact_channels(plan.bias_q, plan.bias_k, dtype)
    assert bias_q.dtype == bias_k.dtype == dtype
    out, slopes = attend(plan).double(), torch.tensor(alibi_slopes(heads), dtype=torch.float64)
    for rows in (slice(0, 8), slice(1020, 1028), slice(n - 8, n)):
        distance = torch.arange(n, dtype=torch.float64)[rows, None] - torch.arange(n)
        same(
            (bias_q[:, :, rows].double() @ bias_k.double().mT)[0],
            -slopes[:, None, None] * distance,
            logit,
        )
        same(out[:, :, rows], exact.output(exact.weights(exact.logits(rows), rows), rows), output)


def test_channels_are_split_only_where_precision_is_lost() -> None:
    left, right = random(1, 2, 5, 2, seed=27), random(1, 2, 5, 2, seed=28)
    for given, dtype, width in [
        (torch.float64, torch.float64, 2),
        (torch.float64, torch.float32, 2),
        (torch.float32, torch.float32, 2),
        (torch.bfloat16, torch.bfloat16, 2),
        (torch.float32, torch.bfloat16, 6),
        (torch.float32, torch.float16, 6),
    ]:
        bias_q, bias_k = exact_channels(left.to(given), right.to(given), dtype)
        assert (
            bias_q.shape[-1] == bias_k.shape[-1] == width and bias_q.dtype == bias_k.dtype == dtype
        )


# -- memory ----------------------------------------------------------------------------------------

MEMORY = """
import resource, sys, torch
from posbench.core.attention import Attention, attend
from posbench.encodings.t5 import T5
from posbench.encodings.alibi import ALiBi
torch.set_num_threads(1)

def call(n):
    q, k, v = (torch.randn(1, 4, n, 16) for _ in range(3))
    pos = torch.arange(n)[None]
    return Attention(q, k, v, torch.randn(1, n, 64), pos, pos, 0.25)

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

encoding = {encoding}
with torch.no_grad():
    attend(encoding.encode(call(64)))
    a = call({n})
    before = peak()
    out = attend(encoding.encode(a))
    assert torch.isfinite(out).all()
    print((peak() - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "n", "limit"),
    [("ALiBi(4)", 16384, 100), ("T5(4, 64, 32, 42)", 4096, 200)],
    ids=["fused", "fused by rows"],
)
def test_memory_stays_far_below_the_score_matrix(made: str, n: int, limit: int) -> None:
    """In MiB. The scores of 4 heads alone would take 4096 at 16,384 tokens and 256 at 4096; by
    rows, one block of 16 MiB exists at a time, in a few copies.
    """
    pytest.importorskip("resource")
    script = MEMORY.format(encoding=made, n=n)
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < limit


# -- objects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (N,), (1, 1, N), (BATCH, HEADS, N, 2), (1, 1, 1, 1, 1)], ids=str
)
def test_a_temperature_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"temperature must be \[batch\|1, heads\|1, n\|1, 1\], got"
    ):
        replace(call(), temperature=torch.ones(shape))


@pytest.mark.parametrize("field", ["bias_q", "bias_k"])
def test_half_a_factored_bias_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="give both or neither"):
        replace(call(), **{field: torch.ones(1, HEADS, N, 2)})


@pytest.mark.parametrize("which", [0, 1])
def test_positions_without_a_batch_axis_are_refused(which: int) -> None:
    given = [torch.arange(N)[None], torch.arange(N)[None]]
    given[which] = torch.arange(N)
    with pytest.raises(ValueError, match=r"positions must be \[batch\|1, n\]"):
        call().at(*given)


def test_builders_leave_the_object_they_start_from_as_it_is() -> None:
    a = call()
    tau, mask = torch.ones(1, 1, 1, 1), torch.ones(1, 1, N, N, dtype=torch.bool)
    factor = torch.ones(1, HEADS, N, 1)
    for built in (
        a.at(a.q_pos + 1, a.k_pos),
        a.plus(lambda rows: torch.zeros(1, 1, 1, N)),
        a.where(lambda rows: mask[:, :, rows]),
        a.heated(tau, scales_bias=True),
        a.factored(factor, factor),
        a.heads(slice(0, 1)),
    ):
        assert built is not a
    assert (
        a.terms == a.masks == ()
        and a.temperature is a.bias_q is a.bias_k is None
        and not a.scales_bias
    )
    assert a.q_pos[0, 0] == 0 and a.q.shape[1] == HEADS
    with pytest.raises(AttributeError):
        a.scale = 1.0  # type: ignore[misc]


def bfloat16_call(seed: int = 0) -> Attention:
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, 2, 12, 8, generator=g).bfloat16() for _ in range(3))
    pos = torch.arange(12)[None]
    return Attention(q, k, v, torch.zeros(1, 12, 16), pos, pos, 8**-0.5)


@pytest.mark.parametrize("make", [lambda: ALiBi(2), lambda: T5(2, 16, 4, 8)], ids=["alibi", "t5"])
def test_the_dense_path_runs_in_bfloat16_under_a_float32_bias(
    make: Callable[[], PositionEncoding],
) -> None:
    torch.manual_seed(0)
    plan = make().encode(bfloat16_call())
    out = dense(plan)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attend(plan).float(), rtol=0, atol=5e-2)


@pytest.mark.parametrize(
    "make", [lambda: ALiBi(2), lambda: T5(2, 16, 4, 8), NoPE], ids=["alibi", "t5", "nope"]
)
def test_a_float32_temperature_heats_bfloat16_queries(make: Callable[[], PositionEncoding]) -> None:
    torch.manual_seed(0)
    call, encoding = bfloat16_call(), make()
    cold, plan = encoding.encode(call), encoding.encode(call.heated(torch.full((1, 1, 1, 1), 1.5)))
    torch.testing.assert_close(attend(plan).float(), dense(plan).float(), rtol=0, atol=5e-2)
    assert (attend(plan) - attend(cold)).abs().max() > 0.1
