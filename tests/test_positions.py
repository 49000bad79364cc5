"""Positions that are drawn are held against their distribution, and those that a task supplies
against enumerations; wrappers take their host from the command line.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from loops import (
    BATCH,
    HEADS,
    WIDTH,
    N,
    by_pairs,
    call,
    given,
    marked,
    oracle,
    product,
    same,
    scores,
)
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import attend
from posbench.core.encoding import Draw, PositionEncoding, Wrapper
from posbench.core.scoring import inputs
from posbench.encodings.abacus import Abacus
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.bipe import BiPE
from posbench.encodings.cape import CAPE
from posbench.encodings.coupling import Coupling
from posbench.encodings.learned import Learned
from posbench.encodings.nope import NoPE
from posbench.encodings.random_floats import RandomFloats
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.running.subject import setup


def drawn(
    encoding: PositionEncoding, ids: Tensor, seed: int = 0, training: bool = True, batch: int = 4
) -> Tensor:
    return encoding.positions(ids, Draw(batch, torch.Generator().manual_seed(seed), training))


def many(
    encoding: PositionEncoding, ids: Tensor, draws: int, training: bool = True, batch: int = 1
) -> Tensor:
    """[draws, batch|1, n], one generator for all."""
    draw = Draw(batch, torch.Generator().manual_seed(5), training)
    return torch.stack([encoding.positions(ids, draw) for _ in range(draws)])


INDEX = torch.arange(N)[None]


# -- positions that are drawn ----------------------------------------------------------------------


@pytest.mark.slow
@oracle("random_positions", "distribution: every subset equally often")
@pytest.mark.parametrize("training", [True, False])
def test_random_positions_are_a_uniform_subset_in_order(training: bool) -> None:
    """Also at evaluation. One draw for a batch."""
    encoding, ids = RandomPositions(RoPE(WIDTH), 5), torch.arange(3)[None]
    found = many(encoding, ids, 5000, training, batch=4)
    assert found.shape == (5000, 1, 3) and (found.diff() > 0).all()
    counts = Counter(tuple(row) for row in found[:, 0].tolist())
    assert set(counts) == {
        (i, j, k) for i in range(5) for j in range(i + 1, 5) for k in range(j + 1, 5)
    }
    assert all(
        400 < count < 600 for count in counts.values()
    )  # 500 expected, standard deviation 21


@oracle("random_positions", "identity: with as many positions as tokens it is its host")
def test_random_positions_from_a_full_range_are_the_ids() -> None:
    assert torch.equal(drawn(RandomPositions(RoPE(WIDTH), N), INDEX), INDEX)
    assert RandomPositions(RoPE(WIDTH), 50).span(7) == 50


@pytest.mark.parametrize("make", [RandomPositions, RandomFloats])
def test_random_positions_keep_ids_together_that_a_task_couples(
    make: Callable[..., Wrapper],
) -> None:
    ids = torch.tensor([[0, 1, 2, 3, 1, 2, 3], [0, 1, 1, 2, 3, 2, 0]])
    pos = drawn(make(RoPE(WIDTH), 40), ids)
    assert pos.shape == ids.shape
    table = {int(i): float(p) for i, p in zip(ids[0], pos[0], strict=True)}
    assert pos.tolist() == [[table[i] for i in row] for row in ids.tolist()]
    assert table[0] < table[1] < table[2] < table[3]


def test_random_positions_refuse_what_does_not_fit() -> None:
    encoding = RandomPositions(RoPE(WIDTH), 6)
    assert drawn(encoding, torch.arange(6)[None]).tolist() == [list(range(6))]
    for attempt in (lambda: drawn(encoding, INDEX), lambda: encoding.span(7)):
        with pytest.raises(
            ConfigError, match=r"7 positions cannot be drawn from largest=6: raise it"
        ):
            attempt()
    with pytest.raises(ConfigError, match=r"cannot be drawn from largest=20: raise it"):
        setup("encoding=random_positions", "encoding.largest=20").model()


@pytest.mark.slow
@oracle("random_floats", "distribution: order statistics of uniform numbers")
@pytest.mark.parametrize("training", [True, False])
def test_random_floats_are_sorted_uniform_numbers(training: bool) -> None:
    """The k-th of n lies at k / (n + 1) of the range on average, and in every part of it; also at
    evaluation.
    """
    found = many(RandomFloats(RoPE(WIDTH), 50), INDEX, 4000, training, batch=4)
    assert found.shape == (4000, 1, N) and (found.diff() >= 0).all()
    assert 0 <= found.min() < 0.1 and 49.9 < found.max() < 50
    expected = torch.tensor([50 * k / (N + 1) for k in range(1, N + 1)])
    torch.testing.assert_close(found.mean((0, 1)), expected, rtol=0, atol=0.5)
    shares = torch.histc(found, 10, 0, 50) / found.numel()
    assert shares.min() > 0.09 and shares.max() < 0.11
    assert (found.frac() != 0).any() and RandomFloats(RoPE(WIDTH), 50).span(7) == 50


@oracle("shape", "distribution: uniform shifts")
def test_shape_shifts_every_sequence_by_a_number_of_its_own() -> None:
    """Uniform in 0..K, both ends included."""
    encoding = SHAPE(Sinusoidal(8), 4)
    shift = many(encoding, INDEX, 500, batch=10) - INDEX
    assert (
        shift.shape == (500, 10, N)
        and (shift == shift[..., :1]).all()
        and not shift.is_floating_point()
    )
    counts = Counter(shift[..., 0].flatten().tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert any(len(set(row)) > 1 for row in shift[..., 0].tolist())
    assert encoding.span(7, training=True) == 11 and encoding.span(7) == 7


@pytest.mark.slow
@oracle("cape", "distribution: uniform shift, jitter and log-scaling")
def test_cape_shifts_jitters_and_scales() -> None:
    def found(shift: float, jitter: float, scaling: float) -> Tensor:
        return many(CAPE(Sinusoidal(8), shift, jitter, scaling), INDEX, 300, batch=10).double()

    def uniform(values: Tensor, bound: float) -> None:
        """In [-bound, bound], near both ends, as much in each quarter."""
        assert (
            values.abs().max() <= bound * (1 + 1e-4)
            and values.min() < -0.98 * bound
            and values.max() > 0.98 * bound
        )
        shares = torch.histc(values.float(), 4, -bound, bound) / values.numel()
        assert shares.min() > 0.21 and shares.max() < 0.29

    shift = found(3.0, 0, 1) - INDEX
    assert shift.shape == (300, 10, N) and (shift - shift[..., :1]).abs().max() < 1e-5
    uniform(shift[..., 0], 3.0)
    assert (shift[:, 0, 0] != shift[:, 1, 0]).all()

    jitter = found(0, 0.4, 1) - INDEX
    uniform(jitter, 0.4)
    assert (jitter[..., 0] != jitter[..., 1]).all() and (jitter[:, 0] != jitter[:, 1]).any()

    scaling = found(0, 0, 2.0)[..., 1:] / INDEX[:, 1:]
    assert (scaling - scaling[..., :1]).abs().max() < 1e-5
    uniform(scaling[..., 0].log(), math.log(2.0))

    both = found(3.0, 0, 2.0)  # the shift is scaled as well: position 0 goes to lambda times delta
    slope = both[..., 1] - both[..., 0]
    uniform(both[..., 0] / slope, 3.0)
    assert both[..., 0].abs().max() > 5.0


@pytest.mark.slow
def test_cape_span_bounds_every_position() -> None:
    encoding = CAPE(Sinusoidal(8), 3.0, 0.5, 2.0)
    found = many(encoding, INDEX, 2000)
    furthest = encoding.span(N, training=True)
    assert found.max() + 1 <= furthest == math.ceil(2.0 * (N - 1 + 3.5)) + 1 and found.max() > 17
    assert encoding.span(N) == N


@pytest.mark.parametrize(
    ("name", "make"),
    marked(
        "identity: nothing is drawn at evaluation",
        shape=(lambda: SHAPE(Sinusoidal(8), 4),),
        cape=(lambda: CAPE(Sinusoidal(8), 4.0, 0.5, 1.5),),
    ),
)
def test_shifts_and_jitter_are_for_training_only(
    name: str, make: Callable[[], PositionEncoding]
) -> None:
    assert torch.equal(drawn(make(), INDEX, training=False), INDEX)
    assert not torch.equal(drawn(make(), INDEX), INDEX.expand(4, -1))


DRAWN = ("random_positions", "random_floats", "shape", "cape", "coupling", "abacus")


@pytest.mark.parametrize("name", DRAWN)
def test_positions_depend_on_the_generator_alone(name: str) -> None:
    run = setup(f"encoding={name}", "task=copy")
    stack = run.model().encodings
    batch = run.task.batch(run.train_length, 4, 0, "train", 0)
    first, again, other = (inputs(batch, stack, seed, training=True).pos for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    classes = {"coupling": "task-supplied ids", "abacus": "task-supplied ids"}
    assert stack.method_class == classes.get(name, "trained beyond")


@pytest.mark.parametrize(
    ("name", "make", "host"),
    marked(
        "identity: the host at the positions drawn",
        random_positions=(lambda host: RandomPositions(host, 40), RoPE(WIDTH)),
        random_floats=(lambda host: RandomFloats(host, 40), ALiBi(HEADS)),
        shape=(lambda host: SHAPE(host, 9), Sinusoidal(HEADS * WIDTH)),
        cape=(lambda host: CAPE(host, 9.0, 0.5, 1.2), Sinusoidal(HEADS * WIDTH)),
        coupling=(lambda host: Coupling(host, 40), Learned(HEADS * WIDTH, 40)),
    ),
)
def test_a_sampler_leaves_the_formula_to_its_host(
    name: str, make: Callable[[PositionEncoding], Wrapper], host: PositionEncoding
) -> None:
    encoding = make(host)
    pos = drawn(encoding, INDEX, batch=BATCH).expand(BATCH, -1)
    a = call()
    a = a.at(pos, pos)
    same(scores(encoding, a), scores(host, a))
    same(encoding.embed(a.x, pos), host.embed(a.x, pos))
    assert (
        host.float_positions == encoding.float_positions
        and host.max_positions == encoding.max_positions
    )


# -- positions that a task supplies ----------------------------------------------------------------


@oracle("coupling", "enumeration: starts and ids")
def test_coupling_starts_anywhere_that_fits() -> None:
    """Uniform in 0..N - 1 - max id, one start a sequence; at evaluation the ids as they are."""
    ids = torch.tensor([[0, 1, 2, 3, 1, 2, 3]])
    encoding = Coupling(Learned(8, 8), 8)
    start = many(encoding, ids, 500, batch=10) - ids
    assert start.shape == (500, 10, 7) and (start == start[..., :1]).all()
    counts = Counter(start[..., 0].flatten().tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert any(len(set(row)) > 1 for row in start[..., 0].tolist())
    assert torch.equal(drawn(encoding, ids, training=False), ids)
    assert encoding.span(3) == 8 and encoding.ids == "coupled"


@oracle("coupling", "hand case: copy")
def test_coupled_tokens_of_copy_get_one_row() -> None:
    """`BOS c a b SEP c a b`: a symbol and its copy, in training wherever the start is."""
    run = setup("encoding=coupling", "task=copy")
    model, n = run.model(), run.train_length
    batch = run.task.batch(n, 64, 0, "train", 0)
    table = model.encodings.layers[0].table
    for training in (True, False):
        data = inputs(batch, model.encodings, 3, training)
        added = model.encodings.embed(torch.zeros(64, 2 * n + 2, table.shape[1]), data.pos)
        assert torch.equal(added[:, 1 : n + 1], added[:, n + 2 :])
        assert torch.equal(added, table[data.pos])
    starts = inputs(batch, model.encodings, 3, True).pos[:, 0]
    assert len(set(starts.tolist())) > 5 and inputs(batch, model.encodings, 3).pos[:, 0].max() == 0
    assert model.encodings.ids == "coupled" and run.test_positions == len(table)


@pytest.mark.slow
@oracle("abacus", "enumeration: offsets and ids")
def test_abacus_moves_numbers_and_leaves_other_tokens() -> None:
    """One offset for a batch, uniform in 0..rows - 1 - max id; at evaluation none."""
    ids = torch.tensor([[0, 1, 2, 3, 0, 1, 2], [0, 1, 0, 1, 2, 3, 0]])
    encoding = Abacus(8, 8)
    found = many(encoding, ids, 5000)
    offset = (found - ids)[:, ids > 0]
    assert (found[:, ids == 0] == 0).all() and (offset == offset[:, :1]).all()
    counts = Counter(offset[:, 0].tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert torch.equal(drawn(encoding, ids, training=False), ids)
    assert encoding.ids == "within" and encoding.max_positions == encoding.span(3) == 8


@oracle("abacus", "double loop")
def test_abacus_adds_the_row_of_the_digit() -> None:
    encoding = given(
        Abacus(5, 9), table=torch.randn(9, 5, generator=torch.Generator().manual_seed(2)).double()
    )
    x, pos = torch.randn(2, 4, 5, dtype=torch.float64), torch.tensor([[0, 3, 4, 0], [8, 0, 1, 2]])
    table, added = encoding.table.tolist(), encoding.embed(x, pos).tolist()
    for b in range(2):
        for t in range(4):
            row = table[int(pos[b, t])]
            assert added[b][t] == pytest.approx(
                [u + r for u, r in zip(x[b, t].tolist(), row, strict=True)], abs=1e-12
            )
    a = call()
    same(scores(encoding, a), scores(NoPE(), a))


@oracle("abacus", "hand case: copy")
def test_abacus_rows_of_copy() -> None:
    """`BOS c a b SEP c a b`: rows 0 1 2 3 0 1 2 3, and one table for all layers."""
    run = setup("encoding=abacus", "task=copy", "model.num_layers=3")
    model, n = run.model(), run.train_length
    data = inputs(run.task.batch(n, 2, 0, "train", 0), model.encodings, 0)
    assert data.pos.tolist() == [[0, *range(1, n + 1), 0, *range(1, n + 1)]] * 2
    assert [name for name, _ in model.named_parameters() if "encodings" in name] == [
        "encodings.layers.0.table"
    ]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert Abacus(100, 200, 0.3).table.std().item() == pytest.approx(0.3, rel=0.02)


PLACES = [[0, 1, 2, 3, 0, 1, 2], [1, 2, 1, 0, 0, 1, 2]]
SEGMENTS = [[0, 1, 1, 1, 1, 2, 2], [1, 1, 2, 2, 2, 3, 3]]
"""Of `PLACES`, counted by hand: a token of no segment belongs to the one before it."""


@oracle("bipe", "double loop")
@oracle("bipe", "hand case: segments")
def test_bipe_adds_places_and_gives_its_host_segments() -> None:
    a = call()
    a = a.at(torch.tensor(PLACES), torch.tensor(PLACES))
    encoding = given(
        BiPE(ALiBi(HEADS), 24, 6),
        table=torch.randn(6, 24, generator=torch.Generator().manual_seed(2)),
    )
    slopes, content = alibi_slopes(HEADS), product(a)

    def score(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) - slopes[h] * (SEGMENTS[b][i] - SEGMENTS[b][j])

    same(scores(encoding, a), by_pairs(a, score))
    rotated = scores(RoPE(WIDTH), a.at(torch.tensor(SEGMENTS), torch.tensor(SEGMENTS)))
    same(scores(BiPE(RoPE(WIDTH), 24, 6), a), rotated)
    table, x, added = encoding.table.tolist(), a.x.tolist(), encoding.embed(a.x, a.q_pos).tolist()
    for b, row in enumerate(PLACES):
        for t, place in enumerate(row):
            assert added[b][t] == pytest.approx(
                [u + p for u, p in zip(x[b][t], table[place], strict=True)], abs=1e-12
            )
    absolute = given(BiPE(Sinusoidal(24), 24, 6), table=encoding.table.detach())
    expected = Sinusoidal(24).embed(encoding.embed(a.x, a.q_pos), torch.tensor(SEGMENTS))
    same(absolute.embed(a.x, a.q_pos), expected)


def test_bipe_asks_for_places_and_draws_nothing() -> None:
    """One table for all layers; what a host offers to extensions of distances or frequencies is not
    passed on.
    """
    run = setup("encoding=bipe", "task=copy", "model.num_layers=3")
    model, n = run.model(), run.train_length
    data = inputs(run.task.batch(n, 2, 0, "train", 0), model.encodings, 0, training=True)
    assert data.pos.tolist() == [[0, *range(1, n + 1), 0, *range(1, n + 1)]] * 2
    assert [name for name, _ in model.named_parameters() if "encodings" in name] == [
        "encodings.layers.0.table"
    ]
    assert model.encodings.method_class == "task-supplied ids"
    assert model.encodings.handles == PositionEncoding.handles
    assert BiPE(NoPE(), 8, 9).span(3) == 9 == BiPE(NoPE(), 8, 9).max_positions


@pytest.mark.parametrize(
    "make", [lambda: Coupling(Learned(8, 8), 4), lambda: Abacus(8, 4), lambda: BiPE(RoPE(8), 8, 4)]
)
def test_ids_that_do_not_fit_are_refused(make: Callable[[], PositionEncoding]) -> None:
    fits, too_many = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 2, 4]])
    for training in (True, False):
        assert drawn(make(), fits, training=training).max() == 3
        with pytest.raises(
            ConfigError, match=r"ids up to 4, and (largest|num_rows)=4 leaves no room: raise it"
        ):
            drawn(make(), too_many, training=training)


@pytest.mark.parametrize("name", ["coupling", "abacus", "bipe"])
def test_a_task_without_the_ids_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"asks the task for '?(coupled|within)'? position ids"):
        setup(f"encoding={name}", "task=passkey").model()


# -- settings --------------------------------------------------------------------------------------


HOSTED = ("ssmax", "headscale", "sink", "softmax_off_by_one", "scale_invariant", "sliding_window")


@pytest.mark.parametrize("name", HOSTED)
@pytest.mark.parametrize("host", ["alibi", "rope", "nape", "t5"])
def test_wrappers_take_their_host_from_the_command_line(name: str, host: str) -> None:
    run = setup(f"encoding={name}", f"encoding@encoding.host={host}")
    layer = next(iter(run.model().encodings))
    assert type(layer.host).__name__.lower() == host
    width = run.config.model.head_width
    assert torch.isfinite(
        attend(layer.double().encode(call(range(9), run.config.model.num_heads, width)))
    ).all()
