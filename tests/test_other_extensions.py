"""Extensions by mask and table, and several in order, are held against plain loops in Python
floats: of what each query sees, and of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from extending import L, extended, host, hosts, log_n
from loops import BATCH, HEADS, WIDTH, N, by_pairs, call, everywhere, given, same, scores
from offered import thinned
from omegaconf import OmegaConf
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi
from posbench.encodings.coupling import Coupling
from posbench.encodings.learned import Learned
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nope import NoPE
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.sliding_window import SlidingWindow as WindowEncoding
from posbench.encodings.ssmax import SSMax
from posbench.encodings.xpos import XPos
from posbench.extensions.block_causal import BlockCausal
from posbench.extensions.both import Both
from posbench.extensions.chunked import Chunked
from posbench.extensions.dca import DCA
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.finetuned import FineTuned
from posbench.extensions.inkling_temperature import InklingTemperature
from posbench.extensions.llama3 import Llama3
from posbench.extensions.log_floor import LogFloor
from posbench.extensions.log_n import LogN
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.served import Served
from posbench.extensions.sliding_window import SlidingWindow
from posbench.extensions.table_hierarchical import TableHierarchical
from posbench.extensions.table_interpolation import TableInterpolation
from posbench.extensions.table_tiling import TableTiling
from posbench.extensions.tuned import Tuned
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_temperature import YarnTemperature
from posbench.extensions.yarn_turns import YaRNTurns

oracle = pytest.mark.oracle
IDENTITY = "identity: the extension itself, told one length"
MODEL = 6


# -- masks -----------------------------------------------------------------------------------------

Rule = Callable[[int, int, int], bool]
"""(i, j, size) -> seen, for j <= i"""
MASKS: dict[str, tuple[type[Extension], Rule, int]] = {
    "sliding_window": (SlidingWindow, lambda i, j, w: i - w < j, L),
    "chunked": (Chunked, lambda i, j, c: math.floor(i / c) == math.floor(j / c), L),
    "block_causal": (
        BlockCausal,
        lambda i, j, b: math.floor(i / b) - math.floor(j / b) in (0, 1),
        L // 2,
    ),
}
masks = pytest.mark.parametrize(
    ("cls", "rule", "usual"),
    [
        pytest.param(*case, marks=oracle(name, "double loop"), id=name)
        for name, case in MASKS.items()
    ],
)


def weighted(a: Attention, z: Tensor, rule: Rule, size: int) -> Tensor:
    """Softmax over the keys that are seen, and the sum of their values, term by term."""
    z, v, n = z.tolist(), a.v.tolist(), a.num_queries

    def row(b: int, h: int, i: int) -> list[float]:
        power = {j: math.exp(z[b][h][i][j]) for j in range(i + 1) if rule(i, j, size)}
        return [
            sum(p * v[b][h][j][c] for j, p in power.items()) / sum(power.values())
            for c in range(WIDTH)
        ]

    return torch.tensor(
        [[[row(b, h, i) for i in range(n)] for h in range(HEADS)] for b in range(BATCH)],
        dtype=torch.float64,
    )


@everywhere
@pytest.mark.parametrize("size", [None, 1, 2, 3, N, 100])
@masks
def test_a_mask_hides_keys_by_index(
    cls: Any, rule: Rule, usual: int, size: int | None, positions: list[float]
) -> None:
    a, base = call(positions), RoPE(WIDTH)
    encoding = extended(cls(size), base)
    expected = weighted(a, scores(base, a), rule, usual if size is None else size)
    same(dense(encoding.encode(a)), expected)
    for block in (1, 3, N):
        same(attend(encoding.encode(a), block), expected)
    same(scores(encoding, a), scores(base, a))


@pytest.mark.parametrize("trained", [1, 2, 5, 6, 7])
@pytest.mark.parametrize("cls", [SlidingWindow, Chunked, BlockCausal])
def test_a_mask_hides_nothing_of_the_training_length_and_something_beyond(
    cls: Any, trained: int
) -> None:
    """Odd lengths as well: half of them is rounded up."""
    n = 3 * trained + 1
    allowed = cls().apply(NoPE(), trained, n).encode(call(range(n))).allowed(slice(0, n))[0, 0]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    assert torch.equal(allowed[:trained, :trained], causal[:trained, :trained])
    assert (
        not torch.equal(allowed, causal)
        and bool(allowed.diagonal().all())
        and not (allowed & ~causal).any()
    )
    assert cls().is_identity and not cls(trained).is_identity
    a = call(range(trained))
    assert torch.equal(dense(cls().apply(NoPE(), trained, n).encode(a)), dense(NoPE().encode(a)))


@oracle("sliding_window", "library: transformers sliding_window_causal_mask_function")
@oracle("chunked", "library: transformers chunked_causal_mask_function")
@pytest.mark.parametrize("size", [1, 3, 4, 50])
def test_windows_and_chunks_are_those_of_transformers(size: int) -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    i, n = torch.arange(17), 17
    theirs = {
        SlidingWindow: masking.sliding_window_causal_mask_function(size),
        Chunked: masking.chunked_causal_mask_function(size, torch.zeros(1, dtype=torch.long)),
    }
    for cls, mask in theirs.items():
        allowed = extended(cls(size), NoPE()).encode(call(range(n))).allowed(slice(0, n))[0, 0]
        assert torch.equal(allowed, mask(0, 0, i[:, None], i[None, :]))


@oracle("sliding_window", "identity: the encoding of this name")
@hosts
def test_a_window_put_on_afterwards_is_the_window_of_the_encoding(
    make: Callable[[], PositionEncoding],
) -> None:
    """Also where the host counts or breaks among the keys that are seen."""
    a, base = call(), host(make)
    same(
        attend(extended(SlidingWindow(3), base).encode(a)),
        attend(WindowEncoding(base, 3).encode(a)),
    )
    same(
        attend(extended(SlidingWindow(), base).encode(a)), attend(WindowEncoding(base, L).encode(a))
    )


@oracle("chunked", "identity: every chunk is a sequence of its own")
@pytest.mark.parametrize("make", [lambda: RoPE(WIDTH), lambda: ALiBi(HEADS), NoPE])
def test_every_chunk_is_attended_to_by_itself(make: Callable[[], PositionEncoding]) -> None:
    a, base = call(), make()
    out = attend(extended(Chunked(3), base).encode(a))
    for start in range(0, N, 3):
        part = slice(start, min(start + 3, N))
        q, k, v, x = (getattr(a, name)[..., part, :] for name in ("q", "k", "v", "x"))
        alone = Attention(q, k, v, x, a.q_pos[:, part], a.k_pos[:, part], a.scale)
        same(out[:, :, part], attend(base.encode(alone)))


@oracle("block_causal", "enumeration: how many keys each place of a block sees")
@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_a_block_sees_itself_and_the_one_before(block: int) -> None:
    n = 17
    allowed = (
        extended(BlockCausal(block), XPos(WIDTH, 8.0))
        .encode(call(range(n)))
        .allowed(slice(0, n))[0, 0]
    )
    assert allowed.sum(-1).tolist() == [
        i + 1 if i < block else block + i % block + 1 for i in range(n)
    ]


def test_masks_meet() -> None:
    a = call(range(12))
    both = (
        extended(Both(SlidingWindow(3), Chunked(4)), NoPE()).encode(a).allowed(slice(0, 12))[0, 0]
    )
    expected = [[j <= i and i - j < 3 and i // 4 == j // 4 for j in range(12)] for i in range(12)]
    assert both.tolist() == expected


# -- tables ----------------------------------------------------------------------------------------


def table(rows: int = 40) -> Tensor:
    return torch.randn(rows, MODEL, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def learned(cls: type[Learned] = Learned, rows: int = 40) -> Learned:
    return given(cls(MODEL, rows), table=table(rows))  # type: ignore[return-value]


def interpolated(rows: list[list[float]], p: int, test: int) -> list[float]:
    u = p * (L - 1) / (test - 1)
    low = math.floor(u + 1e-9)
    f = u - low
    high = low + 1 if f > 1e-9 else low
    return [(1 - f) * x + f * y for x, y in zip(rows[low], rows[high], strict=True)]


def blended(rows: list[list[float]], u: float) -> list[float]:
    """Between the rows next to u, and the nearest of the L rows where there is none on one side."""
    weights = [max(0.0, 1 - abs(min(max(u, 0.0), L - 1.0) - row)) for row in range(L)]
    return [
        sum(w * row[c] for w, row in zip(weights, rows, strict=False)) for c in range(len(rows[0]))
    ]


def hierarchical(rows: list[list[float]], p: int, a: float) -> list[float]:
    """As J. Su writes it, with u in place of rows; positions from 1."""
    i, j = p // L + 1, p % L + 1

    def u(index: int) -> list[float]:
        return [
            (x - a * first) / (1 - a) for x, first in zip(rows[index - 1], rows[0], strict=True)
        ]

    return [a * x + (1 - a) * y for x, y in zip(u(i), u(j), strict=True)]


TABLES: dict[str, tuple[Extension, Callable[[list[list[float]], int, int], list[float]]]] = {
    "table_interpolation": (TableInterpolation(), interpolated),
    "table_interpolation_ratio": (
        TableInterpolation(align="ratio"),
        lambda rows, p, test: blended(rows, p * L / test),
    ),
    "table_interpolation_half_pixels": (
        TableInterpolation(align="half_pixels"),
        lambda rows, p, test: blended(rows, (p + 0.5) * L / test - 0.5),
    ),
    "table_tiling": (TableTiling(), lambda rows, p, test: rows[p % L]),
    "table_hierarchical": (TableHierarchical(), lambda rows, p, test: hierarchical(rows, p, 0.4)),
}
tables = pytest.mark.parametrize(
    ("extension", "rule"),
    [
        pytest.param(*case, marks=oracle(name, "double loop"), id=name)
        for name, case in TABLES.items()
    ],
)


@pytest.mark.parametrize("test", [L, L + 1, 9, L * L])
@pytest.mark.parametrize("cls", [Learned, Multiplicative])
@tables
def test_rows_are_those_of_the_formula(
    extension: Extension, rule: Any, cls: type[Learned], test: int
) -> None:
    base, rows = learned(cls), table().tolist()
    x = torch.randn(
        BATCH, test, MODEL, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    new = torch.tensor([rule(rows, p, test) for p in range(test)], dtype=torch.float64)
    expected = x + new if cls is Learned else x * (1 + new)
    encoding = extended(extension, base, test)
    same(encoding.embed(x, torch.arange(test)[None]), expected)
    order = torch.randperm(
        test, generator=torch.Generator().manual_seed(3)
    )  # each by its own position
    same(encoding.embed(x[:, order], order[None].expand(BATCH, -1)), expected[:, order])
    assert {*encoding.parameters()} == {*base.parameters()}
    a = call(range(test))
    assert torch.equal(attend(encoding.encode(a)), attend(base.encode(a)))


@pytest.mark.parametrize("cls", [Learned, Multiplicative])
@pytest.mark.parametrize("extension", [case for case, _ in TABLES.values()], ids=list(TABLES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_trained_rows_are_unchanged_at_the_training_length_bit_for_bit(
    extension: Extension, cls: type[Learned], dtype: torch.dtype
) -> None:
    base, pos = learned(cls, 100).to(dtype), torch.arange(49)[None]
    x = torch.randn(1, 49, MODEL, generator=torch.Generator().manual_seed(1)).to(dtype)
    for test in (49, 20):
        assert torch.equal(extension.apply(base, 49, test).embed(x, pos), base.embed(x, pos))
    assert extension.is_identity and extension.apply(base, 49, 60).embed(x, pos).dtype == dtype


@oracle("table_interpolation", "library: torch interpolate with aligned corners")
@pytest.mark.parametrize(
    ("scale", "test"), [(None, 9), (None, 23), (2.0, 99), (2.6, 99), (1.0, 99)]
)
def test_interpolation_is_a_linear_resampling_with_aligned_corners(
    scale: float | None, test: int
) -> None:
    trained = 10
    longest = max(test, trained) if scale is None else round(scale * trained)
    resampled = F.interpolate(
        table()[None, :trained].mT, size=longest, mode="linear", align_corners=True
    ).mT
    pos = torch.arange(longest)[None]
    encoding = TableInterpolation(scale).apply(learned(), trained, test)
    same(encoding.embed(torch.zeros(1, longest, MODEL).double(), pos), resampled)
    assert TableInterpolation(scale).is_identity == (scale in (None, 1.0))


@oracle("table_interpolation_half_pixels", "library: torch interpolate without aligned corners")
@pytest.mark.parametrize(
    ("scale", "test"), [(None, 9), (None, 23), (2.0, 99), (2.6, 99), (1.0, 99)]
)
def test_half_pixels_are_the_usual_linear_resampling(scale: float | None, test: int) -> None:
    trained = 10
    longest = max(test, trained) if scale is None else round(scale * trained)
    resampled = F.interpolate(
        table()[None, :trained].mT, size=longest, mode="linear", align_corners=False
    ).mT
    pos = torch.arange(longest)[None]
    encoding = TableInterpolation(scale, "half_pixels").apply(learned(), trained, test)
    same(encoding.embed(torch.zeros(1, longest, MODEL).double(), pos), resampled)


@oracle("table_interpolation_ratio", "identity: every s-th position is a row, at whole ratios")
def test_by_ratio_rows_are_s_apart_and_the_last_ones_alike() -> None:
    extension = TableInterpolation(align="ratio")
    out = extended(extension, learned(), 3 * L).embed(
        torch.zeros(1, 3 * L, MODEL).double(), torch.arange(3 * L)[None]
    )[0]
    assert torch.equal(out[::3], table()[:L])
    same(out[1:-3:3], (2 * table()[: L - 1] + table()[1:L]) / 3)
    assert torch.equal(out[-2:], out[-3:-2].expand(2, -1))


def test_an_unknown_alignment_is_refused() -> None:
    with pytest.raises(ConfigError, match="align must be one of corners, ratio, half_pixels"):
        TableInterpolation(align="pixels")


def test_interpolation_keeps_the_ends() -> None:
    """No rounding: a position that falls on a row is that row, at any length."""
    base = learned(rows=100)
    for test in range(30, 3000, 97):
        encoding = TableInterpolation().apply(base, 30, test)
        ends = torch.tensor([[0, test - 1]])
        out = encoding.embed(torch.zeros(1, 2, MODEL).double(), ends)[0]
        assert torch.equal(out, base.table[[0, 29]])


@oracle("table_tiling", "identity: rows of positions L apart")
def test_tiled_rows_repeat() -> None:
    out = extended(TableTiling(), learned(), 20).embed(
        torch.zeros(1, 20, MODEL).double(), torch.arange(20)[None]
    )[0]
    assert torch.equal(out, table()[:L].repeat(5, 1))


@oracle("table_hierarchical", "identity: digits add up")
def test_hierarchical_rows_are_sums_of_their_digits_and_all_different() -> None:
    def new(a: float) -> Tensor:
        encoding = extended(TableHierarchical(a), learned(), L * L)
        return encoding.embed(torch.zeros(1, L * L, MODEL).double(), torch.arange(L * L)[None])[
            0
        ].unflatten(0, (L, L))

    rows = new(0.4)
    assert torch.equal(rows[0], table()[:L])
    same(rows - rows[:, :1], (rows[:1] - rows[:1, :1]).expand(L, -1, -1))
    same(rows[:, 0] - rows[0, 0], (table()[:L] - table()[0]) * 2 / 3)
    assert torch.cdist(rows.flatten(0, 1), rows.flatten(0, 1)).fill_diagonal_(1).min() > 0.01
    nearly = new(0.5 + 1e-9)
    same(nearly, nearly.mT.mT.transpose(0, 1), 1e-6)  # why one half is refused


@pytest.mark.parametrize("test", [L, 9])
@pytest.mark.parametrize("extension", [case for case, _ in TABLES.values()], ids=list(TABLES))
def test_positions_that_have_no_row_raise_and_fractions_do(extension: Extension, test: int) -> None:
    encoding = extended(extension, learned(rows=9), test)
    limit, x = encoding.max_positions, torch.zeros(1, 1, MODEL).double()
    if limit is None:
        encoding.embed(x, torch.tensor([[100_000]]))
    else:
        encoding.embed(x, torch.tensor([[limit - 1]]))
        with pytest.raises(IndexError):
            encoding.embed(x, torch.tensor([[limit]]))
    assert not encoding.float_positions and "rows" not in encoding.handles and not encoding.relative
    with pytest.raises((IndexError, RuntimeError)):
        encoding.embed(x, torch.tensor([[0.25]]))


@pytest.mark.parametrize("align", ["corners", "ratio", "half_pixels"])
def test_a_row_is_shared_only_where_places_lie_beyond_the_table(align: str) -> None:
    """Then positions have no end; elsewhere the table's own is kept, and what has no row raises."""
    for test, shared in ((L, False), (9, align != "corners")):
        encoding = extended(TableInterpolation(align=align), learned(rows=9), test)
        assert (encoding.max_positions is None) == shared


@pytest.mark.parametrize("extension", [case for case, _ in TABLES.values()], ids=list(TABLES))
def test_tables_inside_wrappers_are_extended(extension: Extension) -> None:
    x, pos = torch.zeros(1, 9, MODEL).double(), torch.arange(9)[None]
    plain = extended(extension, learned(), 9).embed(x, pos)
    for wrap in (
        lambda t: Coupling(t, 40),
        lambda t: SHAPE(t, 3),
        lambda t: SSMax(t, HEADS, L).double(),
    ):
        assert "rows" in wrap(learned()).handles
        assert torch.equal(extended(extension, wrap(learned()), 9).embed(x, pos), plain)


@pytest.mark.parametrize("name", thinned("encoding"))
def test_whatever_offers_rows_is_affine_in_the_row_of_each_position(name: str) -> None:
    """What the extensions of tables rest on: doubling the table doubles what it changes."""
    from posbench.running.subject import Subject

    layer = next(Subject(f"encoding={name}").layers())
    if "rows" not in layer.handles:
        return
    x = torch.randn(1, 6, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pos = torch.tensor([[3, 1, 4, 1, 5, 9]])
    once, mixed = layer.embed(x, pos), 0.3 * layer.embed(x, pos) + 0.7 * layer.embed(x, pos * 0)
    with torch.no_grad():
        layer.table[[1, 3, 4, 5, 9]] = 0.3 * layer.table[[1, 3, 4, 5, 9]] + 0.7 * layer.table[0]
    same(layer.embed(x, pos), mixed)
    assert not torch.allclose(layer.embed(x, pos), once)


# -- several in order ------------------------------------------------------------------------------


@oracle("both", "identity: one after the other")
@pytest.mark.parametrize(
    ("first", "second", "make"),
    [
        (YaRN(2.0), LogN(), lambda: RoPE(WIDTH)),
        (LogN(), YaRN(2.0), lambda: RoPE(WIDTH)),
        (SlidingWindow(3), NTK(4.0), lambda: RoPE(WIDTH)),
        (Chunked(3), InklingTemperature(0.4), lambda: ALiBi(HEADS)),
        (Direct(), LogFloor(), NoPE),
    ],
)
def test_a_sequence_is_the_second_after_the_first(
    first: Extension, second: Extension, make: Callable[[], PositionEncoding]
) -> None:
    a, base = call(), make()
    twice = attend(second.apply(first.apply(base, L, N), L, N).encode(a))
    stack = EncodingStack([base, base])
    for layer in Both(first, second).extend(stack, L, N):
        assert torch.equal(attend(layer.encode(a)), twice)
    assert torch.equal(attend(Both(first, second).apply(base, L, N).encode(a)), twice)
    for one in (first, second):
        assert not one.changes or not torch.allclose(
            attend(one.apply(base, L, N).encode(a)), attend(base.encode(a))
        )


@oracle("both", "double loop")
def test_pi_and_log_n_are_both_formulas_at_once() -> None:
    a = call()
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()
    half, s = WIDTH // 2, N / L

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(half):
            angle = (p[b][i] - p[b][j]) * 10000 ** (-m / half) / s
            x, y = (
                complex(q[b][h][i][m], q[b][h][i][m + half]),
                complex(k[b][h][j][m], k[b][h][j][m + half]),
            )
            total += (x * y.conjugate() * complex(math.cos(angle), math.sin(angle))).real
        return log_n(i, 0) * a.scale * total

    same(scores(extended(Both(PI(), LogN()), RoPE(WIDTH)), a), by_pairs(a, score))


def test_a_sequence_declares_what_its_parts_do() -> None:
    class Tuned(Direct):
        method_class = "fine-tuned"

    plain = Both(Direct(), Direct())
    assert (plain.needs, plain.changes, plain.is_identity, plain.method_class) == (
        "",
        False,
        True,
        "zero-shot",
    )
    mixed = Both(NTK(), Both(LogN(), NTK(4.0)))
    assert mixed.needs == "frequencies and temperature and frequencies"
    assert mixed.changes and Both(Direct(), LogN()).changes and not mixed.is_identity
    assert Both(NTK(), LogN()).is_identity and not Both(NTK(), LogN(5)).is_identity
    assert Both(LogN(), Tuned()).method_class == Both(Tuned(), LogN()).method_class == "fine-tuned"
    assert Both(LogN(), LogFloor()).needs == "temperature"


def test_each_part_of_a_sequence_refuses_by_itself() -> None:
    alibi = EncodingStack([ALiBi(HEADS)])
    for parts in ((YaRN(), LogN()), (LogN(), YaRN())):
        with pytest.raises(IllegalExtension, match="YaRN needs frequencies"):
            Both(*parts).extend(alibi, L, N)
    with pytest.raises(
        IllegalExtension, match="TableTiling needs rows"
    ):  # the first has used them up
        Both(TableInterpolation(), TableTiling()).extend(EncodingStack([learned()]), L, N)


def test_each_part_of_a_sequence_takes_the_layers_that_it_can() -> None:
    hybrid = EncodingStack([RoPE(WIDTH), ALiBi(HEADS)], num_specifications=2)
    a = call()
    rope, alibi = Both(NTK(4.0), LogN()).extend(hybrid, L, N)
    same(scores(rope, a), scores(extended(LogN(), NTK(4.0).apply(RoPE(WIDTH), L, N)), a))
    same(scores(alibi, a), scores(extended(LogN(), ALiBi(HEADS)), a))


def chosen(*words: str) -> Extension:
    cfg = compose("extension=both", *words).cfg()
    cfg.train_positions = 40  # by which defaults scale
    node = OmegaConf.to_container(cfg.extension, resolve=True)
    return build(node, "extension")  # type: ignore[arg-type]


def kinds(extension: Extension) -> Any:
    return (
        [kinds(p) for p in extension.parts]
        if isinstance(extension, Both)
        else type(extension).__name__
    )


def test_a_sequence_is_chosen_on_the_command_line() -> None:
    assert kinds(chosen()) == ["YaRN", "LogN"]
    assert kinds(chosen("extension@extension.second=sliding_window")) == ["YaRN", "SlidingWindow"]
    three = chosen(
        "extension@extension.first=ntk",
        "extension@extension.second=both",
        "extension@extension.second.first=log_floor",
        "extension.second.first.beta=0.7",
    )
    assert kinds(three) == ["NTK", ["LogFloor", "LogN"]]
    assert three.parts[1].parts[0].beta == 0.7  # type: ignore[attr-defined]


# -- one scale for all lengths ---------------------------------------------------------------------

INNER: dict[str, Callable[[], Extension]] = {
    "pi": PI,
    "ntk": NTK,
    "yarn": lambda: YaRN(2.0),
    "yarn_turns": lambda: YaRNTurns(2.0),
    "llama3": Llama3,
    "longrope": LongRoPE,
    "self_extend": lambda: SelfExtend(2),
}
FACTORS = (2, 4, 8)
SERVED = [
    pytest.param(name, factor, marks=oracle(f"{name}_served_{factor}", IDENTITY))
    for name in INNER
    for factor in FACTORS
]


@pytest.mark.parametrize(("name", "factor"), SERVED)
def test_a_served_extension_is_the_inner_one_at_the_longest_length(name: str, factor: int) -> None:
    """At the training length too, and far beyond what the server is set for."""
    cfg = compose(f"extension={name}_served_{factor}").cfg()
    cfg.train_positions = L
    node = OmegaConf.to_container(cfg.extension, resolve=True)
    built = build(node, "extension")  # type: ignore[arg-type]
    assert isinstance(built, Served) and built.factor == factor
    assert type(built.extension) is type(INNER[name]())
    a, base = call(range(40)), RoPE(WIDTH, 100)
    inner = INNER[name]()
    served = Served(inner, factor)
    expected = attend(inner.apply(base, L, factor * L).encode(a))
    for test in (L, 2 * L, 8 * L, 10 * L):
        (layer,) = served.extend(EncodingStack([base]), L, test)
        assert torch.equal(attend(layer.encode(a)), expected)
        assert torch.equal(attend(extended(served, base, test).encode(a)), expected)
    assert not torch.allclose(expected, attend(base.encode(a)))
    assert not served.is_identity and served.scale_policy == "fixed"


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("test", [L, 3 * L, 16 * L])
def test_served_frequencies_are_what_the_papers_say_they_are(factor: int, test: int) -> None:
    base = RoPE(WIDTH, 100)
    pi, ntk = (extended(Served(inner, factor), base, test) for inner in (PI(), NTK()))
    thetas = [100 ** (-m / 4) for m in range(4)]
    assert pi.frequencies.theta().tolist() == pytest.approx([each / factor for each in thetas])
    slower = [each / factor ** (m / 3) for m, each in enumerate(thetas)]
    assert ntk.frequencies.theta().tolist() == pytest.approx(slower)
    magnitude = extended(Served(YaRN(2.0), factor), base, test).frequencies.magnitude
    assert magnitude == pytest.approx(0.1 * math.log(factor) + 1)


def test_a_scale_of_its_own_is_the_same_as_one_that_is_served() -> None:
    a, base = call(range(20)), RoPE(WIDTH, 100)
    for inner in (PI, NTK, Llama3, LongRoPE):
        one, other = Served(inner(), 4), inner(scale=4)
        for test in (L, 5 * L):
            same(*(attend(extended(each, base, test).encode(a)) for each in (one, other)))


def test_what_cannot_be_served_is_refused() -> None:
    assert Served(PI(), 1).is_identity
    with pytest.raises(ConfigError, match=r"at least 1, got 0\.5"):
        Served(PI(), 0.5)
    for inner in (DCA(), Direct(), PI(scale=2)):
        with pytest.raises(ConfigError, match=f"{type(inner).__name__} has no scale that follows"):
            Served(inner, 2)
    for inner in (FineTuned(PI()), Tuned(DynamicNTK, {"factor": [2, 3]})):
        with pytest.raises(ConfigError, match="trains or searches"):
            Served(inner, 2)


# -- settings at their limit -----------------------------------------------------------------------


def test_the_smallest_settings_are_not_refused() -> None:
    for extension in (LogN(2), SlidingWindow(1), Chunked(1), BlockCausal(1), YarnTemperature(1.0)):
        attend(extended(extension, NoPE()).encode(call()))
    TableHierarchical().apply(learned(), 4, 16)
    TableInterpolation().apply(learned(), 2, 5)


@pytest.mark.parametrize("extension", [case for case, _ in TABLES.values()], ids=list(TABLES))
def test_tables_are_extended_where_there_is_one(extension: Extension) -> None:
    with pytest.raises(IllegalExtension, match="needs rows"):
        extension.extend(EncodingStack([RoPE(WIDTH)]), L, N)


def test_where_training_has_filled_the_range_of_positions_nothing_is_extended() -> None:
    stack = EncodingStack([RandomPositions(RoPE(WIDTH), 30)])
    spans = stack.span(L, training=True), stack.span(N)
    a = call()
    for extension in (
        LogN(),
        LogFloor(),
        InklingTemperature(),
        YarnTemperature(),
        SlidingWindow(),
        Chunked(),
    ):
        (layer,) = extension.extend(stack, *spans)
        assert torch.equal(attend(layer.encode(a)), dense(RoPE(WIDTH).encode(a))) or torch.allclose(
            attend(layer.encode(a)), attend(RoPE(WIDTH).encode(a))
        )
