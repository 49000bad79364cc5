"""Extensions that train a little further, take positions away, skip some in training, or choose
their settings.

What they compute is held against plain loops, as in `test_closed_forms`; what a run makes of them
is looked at in small experiments in this process: which weights change, what is trained anew, what
the record says.
"""

from __future__ import annotations

import cmath
import contextlib
import functools
import json
import math
import signal
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CONF, composed, names, setup
from loops import (
    BATCH,
    HEADS,
    POSITIONS,
    SCALE,
    WIDTH,
    by_pairs,
    call,
    everywhere,
    product,
    same,
    scores,
    shaken,
)
from omegaconf import OmegaConf
from test_faults import checkpoint_folder, finished, record, started, succeeded, without_timings
from torch import Tensor

from posbench import results
from posbench.catalogue.conformance import Subject
from posbench.composing.building import build
from posbench.composing.identity import Identity, MethodName, Name
from posbench.config import TrainingConfig
from posbench.encoding import Draw, EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.ssmax import SSMax
from posbench.encodings.t5 import T5
from posbench.errors import ConfigError, IllegalExtension
from posbench.evaluation import Answers, Tests
from posbench.extension import Extension, FineTuning
from posbench.extensions.both import Both
from posbench.extensions.direct import Direct
from posbench.extensions.drope import Dropped
from posbench.extensions.finetuned import FineTuned
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.log_n import LogN
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.longrope_search import LongRoPEExponents, LongRoPESearch
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.pose import SkipWise
from posbench.extensions.resonance import Resonance
from posbench.extensions.tuned import Tuned
from posbench.extensions.yarn import YaRN
from posbench.provenance import content_hash
from posbench.running import checkpoints as keeping
from posbench.running import experiment as experiments
from posbench.running.console import Console
from posbench.running.experiment import Prepared, Setup, Trained
from posbench.scoring import inputs, loss
from posbench.streams import stream_seed
from posbench.training import Training, fit

oracle = pytest.mark.oracle
L = 4  # positions seen in training
MODEL = HEADS * WIDTH
TINY = (
    "protocol=smoke",
    "training.min_length=6",
    "training.max_length=16",
    "training.batch_size=4",
    "model.width=32",
)

HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, MODEL, 4, 8),
    "sinusoidal": lambda: Sinusoidal(MODEL),
}
hosts = pytest.mark.parametrize("make", HOSTS.values(), ids=list(HOSTS))


# -- no position at all ----------------------------------------------------------------------------


@oracle("drope", "double loop")
@everywhere
@hosts
def test_without_positions_scores_are_the_product_of_content_times_the_temperature(
    make: Callable[[], PositionEncoding], positions: list[float]
) -> None:
    a = call(positions)
    content = product(a)
    for extension, test, tau in (
        (Dropped(0.3), 7, 1 + 0.3 * math.log(7 / 4)),
        (Dropped(0.3), 3, 1.0),
        (Dropped(0.3, 5.0), 3, 1 + 0.3 * math.log(5)),
        (Dropped(), 8, 1 + 0.1 * math.log(2)),
        (Dropped(0.0, 5.0), 7, 1.0),
    ):
        dropped = extension.apply(shaken(make()), L, test)
        same(scores(dropped, a), by_pairs(a, lambda *at, tau=tau: tau * content(*at)))


@hosts
def test_without_positions_tokens_stay_as_they_are_and_any_position_will_do(
    make: Callable[[], PositionEncoding],
) -> None:
    x, pos = torch.randn(BATCH, 7, MODEL), torch.arange(7)[None] * 10**6
    dropped = Dropped().apply(make(), L, 7)
    assert torch.equal(dropped.embed(x, pos), x)
    assert (
        dropped.relative and dropped.max_positions is None and "frequencies" not in dropped.handles
    )


@oracle("drope", "identity: NoPE with these weights")
@pytest.mark.parametrize("name", ["rope", "t5", "learned", "fox"])
def test_a_model_without_its_positions_is_that_of_nope(name: str) -> None:
    run, nope = setup(*TINY, f"encoding={name}"), setup(*TINY, "encoding=nope")
    model, plain = run.model().eval(), nope.model().eval()
    plain.load_state_dict(
        {
            key: value
            for key, value in model.state_dict().items()
            if not key.startswith("encodings.")
        }
    )
    tokens = torch.randint(run.task.vocab_size, (3, 40), generator=torch.Generator().manual_seed(0))
    pos = torch.arange(40)[None]
    dropped = model.with_encodings(Dropped(scale=1.0).extend(model.encodings, 17, 40))
    assert torch.equal(dropped(tokens, pos), plain(tokens, pos))
    hot = model.with_encodings(Dropped(scale=4.0).extend(model.encodings, 17, 40))
    assert not torch.allclose(hot(tokens, pos), plain(tokens, pos))


# -- gaps in the positions of training -------------------------------------------------------------


def drawn(
    encoding: PositionEncoding, n: int, count: int = 1, training: bool = True
) -> list[tuple[float, ...]]:
    """The positions that sequences of n tokens are given."""
    draw = Draw(count, torch.Generator().manual_seed(0), training)
    return [
        tuple(row)
        for row in encoding.positions(torch.arange(n)[None], draw).expand(count, n).tolist()
    ]


@oracle("pose", "enumeration")
@pytest.mark.parametrize(("n", "multiple"), [(3, 2.0), (4, 2.0), (2, 1.5), (5, 1.0)])
def test_every_place_and_every_width_of_the_gap_is_equally_likely(n: int, multiple: float) -> None:
    """Of c tokens before the gap and a width u: p_i = i below c, i + u from c on."""
    target = round(multiple * L)
    pairs = [(c, u) for c in range(1, n) for u in range(max(target - n, 0) + 1)]
    share = 1 / len(pairs)
    expected: Counter[tuple[float, ...]] = Counter()
    for c, u in pairs:
        expected[tuple(i if i < c else i + u for i in range(n))] += share  # type: ignore[assignment]
    count = 20_000
    found = Counter(drawn(SkipWise(multiple).apply(RoPE(WIDTH), L, L), n, count))
    assert found.keys() == expected.keys()
    for positions, probability in expected.items():  # of each, within 4.5 standard deviations
        error = math.sqrt(count * probability * (1 - probability))
        assert abs(found[positions] - count * probability) <= 4.5 * error, positions


def test_sequences_of_one_batch_have_gaps_of_their_own_up_to_both_ends_of_the_target() -> None:
    found = drawn(SkipWise(4.0).apply(RoPE(WIDTH), L, L), L, 500)
    assert {row[-1] for row in found} == set(range(L - 1, 4 * L))
    assert {row[0] for row in found} == {0}
    assert len(set(found)) > 20


def test_a_sequence_as_long_as_the_target_or_longer_has_no_gap() -> None:
    skipping = SkipWise(2.0).apply(RoPE(WIDTH), L, L)
    for n in (2 * L, 2 * L + 3):
        assert set(drawn(skipping, n, 50)) == {tuple(range(n))}


def test_tests_have_no_gap() -> None:
    skipping = SkipWise(4.0).apply(RoPE(WIDTH), L, 8 * L)
    for n in (2, L, 8 * L):
        assert set(drawn(skipping, n, 50, training=False)) == {tuple(range(n))}


def test_gaps_leave_the_scores_of_the_host_and_its_parameters_as_they_are() -> None:
    a = call(POSITIONS["with gaps"])
    for make in HOSTS.values():
        host = shaken(make())
        skipping = SkipWise(4.0).apply(host, L, L)
        same(scores(skipping, a), scores(host, a), 0)
        assert {*skipping.parameters()} == {*host.parameters()} and skipping.handles == host.handles
        assert (skipping.method_class, host.method_class) == ("trained beyond", "zero-shot")


def test_other_wrappers_and_extensions_work_inside_and_around_a_gap() -> None:
    a = call()
    ssmax = SSMax(RoPE(WIDTH), HEADS, L).double()
    same(scores(SkipWise(4.0).apply(ssmax, L, L), a), scores(ssmax, a), 0)
    for order in (Both(PI(4.0), SkipWise(4.0)), Both(SkipWise(4.0), PI(4.0))):
        both = order.apply(RoPE(WIDTH), L, L)
        same(scores(both, a), scores(PI(4.0).apply(RoPE(WIDTH), L, L), a), 0)
        assert max(row[-1] for row in drawn(both, L, 500)) == 4 * L - 1
    shifted = SkipWise(2.0).apply(SHAPE(Sinusoidal(MODEL), 5), L, L)
    found = drawn(shifted, 3, 2000)
    assert {row[0] for row in found} == set(range(6)), "the shift of the host"
    assert {row[-1] - row[0] for row in found} == set(range(2, 2 * L)), "and the gap"
    assert drawn(shifted, 3, training=False) == [(0, 1, 2)]


def test_gaps_come_about_whichever_layer_knows_positions() -> None:
    """Positions are drawn once for all layers."""
    for layers in ([RoPE(WIDTH), NoPE()], [NoPE(), RoPE(WIDTH)]):
        stack = SkipWise(4.0).extend(EncodingStack(layers, 2), L, L)
        draw = Draw(100, torch.Generator().manual_seed(0), True)
        assert int(stack.positions(torch.arange(L)[None], draw).max()) > L


# -- what is declared ------------------------------------------------------------------------------


def test_a_fine_tuned_extension_does_what_the_one_inside_does_and_declares_it() -> None:
    a = call(POSITIONS["with gaps"])
    for inner, policy, kind in (
        (PI(2.0), "fixed", "fine-tuned"),
        (PI(), "per test length", "fine-tuned"),
        (Direct(), "none", "fine-tuned"),
        (Both(PI(4.0), SkipWise(4.0)), "fixed", "trained beyond"),
    ):
        outer = FineTuned(inner, 0.2, 3.0, 0.5)
        assert (outer.scale_policy, outer.method_class) == (policy, kind)
        assert (outer.needs, outer.changes, outer.is_identity) == (
            inner.needs,
            inner.changes,
            False,
        )
        assert outer.finetuning == FineTuning(0.2, 3.0, 0.5) and inner.finetuning is None
        same(
            scores(outer.apply(RoPE(WIDTH), L, 9), a), scores(inner.apply(RoPE(WIDTH), L, 9), a), 0
        )
    stack = EncodingStack([RoPE(WIDTH), NoPE()], 2)
    extended = list(FineTuned(NTK(2.0)).extend(stack, L, 9))
    assert (
        extended[1] is list(stack)[1]
        and extended[0].frequencies == NTK(2.0).apply(RoPE(WIDTH), L, 9).frequencies
    )
    with pytest.raises(IllegalExtension):
        FineTuned(NTK(2.0)).extend(EncodingStack([NoPE()]), L, 9)


def test_further_training_is_measured_by_the_training_before_it() -> None:
    training = TrainingConfig(
        min_length=8,
        max_length=32,
        length_scale=0.5,
        steps=1200,
        steps_scale=0.25,
        learning_rate=4e-3,
        batch_size=7,
    )
    found = FineTuning(0.1, 3.0, 0.5).settings(training)
    assert (found.lengths, found.total_steps, found.learning_rate) == ((4, 48), 30, 2e-3)
    assert found.warmup_steps == 3, "a tenth of the steps"
    unchanged = (
        "length_scale",
        "steps_scale",
        "batch_size",
        "min_length",
        "decay_fraction",
        "validation_samples",
    )
    assert all(getattr(found, name) == getattr(training, name) for name in unchanged)
    assert FineTuning(1e-6, 0.01, 1.0).settings(training).total_steps == 1
    assert FineTuning(1e-6, 0.01, 1.0).settings(training).lengths == (4, 4), (
        "not below the shortest"
    )


POLICIES: list[tuple[Extension, str]] = [
    (Direct(), "none"),
    (PI(), "per test length"),
    (PI(2.0), "fixed"),
    (PI(1.0), "fixed"),
    (YaRN(scale=4.0), "fixed"),
    (Resonance(), "none"),
    (LeakyReRoPE(2), "per test length"),
    (LeakyReRoPE(2, 3.0), "fixed"),
    (LogN(), "none"),
    (Dropped(), "per test length"),
    (Dropped(0.1, 2.0), "fixed"),
    (SkipWise(4.0), "none"),
    (LongRoPEExponents((0.0, 0.5)), "per test length"),
    (LongRoPESearch(), "per test length"),
    (Both(YaRN(), LogN()), "per test length"),
    (Both(Resonance(), LogN()), "none"),
    (Both(PI(2.0), Dropped()), "fixed and per test length"),
]


@pytest.mark.parametrize(
    ("extension", "policy"), POLICIES, ids=lambda value: str(value).partition(" object")[0]
)
def test_an_extension_says_how_it_follows_the_length_of_a_test(
    extension: Extension, policy: str
) -> None:
    assert extension.scale_policy == policy


@functools.cache
def extension_of(name: str) -> Extension:
    """As its YAML has it."""
    return Subject("encoding=rope").extension(name)


def told(value: Any) -> Any:
    """All settings of an extension, those of extensions inside it included."""
    return (
        {name: told(part) for name, part in vars(value).items()}
        if isinstance(value, Extension)
        else value
    )


def test_the_policies_of_the_yaml_files() -> None:
    expected = {
        "pi": "per test length",
        "both": "per test length",
        "resonance": "none",
        "leaky_rerope": "per test length",
        "pi_fine_tuned": "fixed",
        "drope": "per test length",
        "pose": "fixed",
    }
    assert {name: extension_of(name).scale_policy for name in expected} == expected


def test_what_trains_or_searches_is_the_outermost() -> None:
    tuned = Tuned(YaRN, {"beta_fast": [2.0, 3.0]})
    for make in (
        lambda: Both(FineTuned(PI(2.0)), LogN()),
        lambda: Both(LogN(), tuned),
        lambda: FineTuned(FineTuned(PI(2.0))),
        lambda: FineTuned(tuned),
        lambda: FineTuned(LongRoPESearch()),
        lambda: Tuned(functools.partial(FineTuned, PI(2.0)), {"steps": [0.1, 0.2]}),
        lambda: Tuned(
            functools.partial(Tuned, YaRN, {"beta_fast": [2.0, 3.0]}), {"budget": [1, 2]}
        ),
    ):
        with pytest.raises(ConfigError, match="trains or searches") as caught:
            make()
        assert "\n" not in str(caught.value)


# -- search ----------------------------------------------------------------------------------------


class Knobbed(Extension):
    """Does nothing; its settings are there to be chosen, and some exclude each other."""

    def __init__(self, a: int = 0, b: int = 0) -> None:
        if a == b == 3:
            raise ConfigError("three of both")
        self.a, self.b = a, b

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        if self.a > train_positions:
            raise ConfigError("more than there are positions")
        return encoding


STACK = EncodingStack([RoPE(WIDTH)])


def tuned(budget: int = 24) -> Tuned:
    return Tuned(Knobbed, {"a": [1, 2, 3, 9], "b": [1, 2, 3]}, budget)


def tried(extension: Any, losses: Callable[[Any], float], seed: int = 0) -> list[Any]:
    return extension.trials(STACK, L, np.random.default_rng(seed), losses)


@pytest.mark.parametrize("budget", [1, 2, 5, 9])
def test_the_budget_counts_every_setting_that_is_tried_and_the_default_is_one(budget: int) -> None:
    asked: list[tuple[int, int]] = []
    found = tried(tuned(budget), lambda each: asked.append((each.a, each.b)) or 0.5)  # type: ignore[func-returns-value]
    assert len(found) == len(asked) == budget
    assert asked[0] == (0, 0) and found[0].settings == {}, (
        "equal losses: the default is the first and stays"
    )
    assert len(set(asked)) == budget, "none twice"


def test_settings_that_exclude_each_other_are_passed_over_and_cost_nothing() -> None:
    found = tried(tuned(), lambda each: 0.5)
    allowed = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)} - {
        (3, 3)
    }  # nine exceeds the positions of training
    assert {(trial.extension.a, trial.extension.b) for trial in found} == allowed | {(0, 0)}
    assert all(
        trial.settings in ({}, {"a": trial.extension.a, "b": trial.extension.b}) for trial in found
    )


def test_the_settings_that_lose_least_come_first() -> None:
    found = tried(tuned(), lambda each: abs(each.a - 2) + abs(each.b - 3))
    assert found[0].settings == {"a": 2, "b": 3} and found[0].loss == 0
    assert [trial.loss for trial in found] == sorted(trial.loss for trial in found)
    assert tried(tuned(), lambda each: each.a + each.b)[0].settings == {}, "the default may win"


def test_a_loss_that_is_no_number_never_wins() -> None:
    found = tried(tuned(), lambda each: 7.0 if (each.a, each.b) == (3, 1) else math.nan)
    assert found[0].settings == {"a": 3, "b": 1} and all(
        math.isnan(trial.loss) for trial in found[1:]
    )
    assert tried(tuned(), lambda each: math.nan)[0].settings == {}


def test_the_same_seed_tries_the_same_settings_and_another_seed_others() -> None:
    def order(seed: int, extension: Any) -> list[dict[str, Any]]:
        asked = Counter[int]()
        return [
            t.settings for t in tried(extension, lambda each: asked.update([0]) or asked[0], seed)
        ]  # type: ignore

    for make in (lambda: tuned(6), lambda: LongRoPESearch(6)):
        assert order(1, make()) == order(1, make())
        assert order(1, make())[1:] != order(2, make())[1:]


def test_the_default_is_not_tried_a_second_time() -> None:
    """Neither those of the class nor those that the YAML gives the class."""
    for make, default in ((Knobbed, (0, 0)), (functools.partial(Knobbed, b=1), (0, 1))):
        extension = Tuned(make, {"a": [0, 1], "b": [0, 1]})
        found = [
            (trial.extension.a, trial.extension.b) for trial in tried(extension, lambda each: 0.0)
        ]
        assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)] and found[0] == default


@pytest.mark.parametrize(
    "name", [name for name in names("extension") if name.endswith("_tuned") and "fine" not in name]
)
def test_the_knobs_of_a_yaml_are_settings_of_its_extension(name: str) -> None:
    extension = extension_of(name)
    assert isinstance(extension, Tuned)
    default = extension_of(name.removesuffix("_tuned"))
    assert told(extension.extension) == told(default), (
        "what is tried first is the extension as it stands alone"
    )
    assert (extension.budget, extension.multiple, extension.method_class) == (24, 3, "tuned")
    for _, candidate in extension.candidates(STACK, 40, np.random.default_rng(0)):
        assert type(candidate) is type(default)


# -- LongRoPE, searched ----------------------------------------------------------------------------

RISING = (0.0, 0.25, 0.25, 0.9)


@oracle("longrope_search", "closed form")
@pytest.mark.parametrize("s", [1.0, 2.0, 3.5, 8.0])
def test_exponents_are_a_list_of_longrope_for_every_factor(s: float) -> None:
    train = 40
    theta = [10000.0 ** (-m / 4) / s**e for m, e in enumerate(RISING)]
    for extension in (LongRoPEExponents(RISING), LongRoPEExponents(RISING, s)):
        found = extension.apply(RoPE(WIDTH), train, round(s * train)).frequencies
        assert found.theta().tolist() == pytest.approx(theta, rel=1e-12)
        assert found.magnitude == pytest.approx(
            math.sqrt(1 + math.log(s) / math.log(train)), rel=1e-12
        )
    listed = LongRoPE([s**e for e in RISING]).apply(RoPE(WIDTH), train, round(s * train))
    a = call(POSITIONS["with gaps"])
    same(
        scores(LongRoPEExponents(RISING).apply(RoPE(WIDTH), train, round(s * train)), a),
        scores(listed, a),
    )


def test_exponents_left_out_are_those_of_longrope_and_nothing_changes_at_the_training_length() -> (
    None
):
    for test in (10, 40, 41, 160):
        ours, theirs = (
            each.apply(RoPE(WIDTH), 40, test).frequencies
            for each in (LongRoPEExponents(), LongRoPE())
        )
        assert (ours.theta().tolist(), ours.magnitude) == (
            theirs.theta().tolist(),
            theirs.magnitude,
        )
    assert LongRoPEExponents(RISING).is_identity and not LongRoPEExponents(RISING, 2.0).is_identity
    at_length = LongRoPEExponents(RISING).apply(RoPE(WIDTH), 40, 40).frequencies
    assert (
        at_length.theta().tolist() == RoPE(WIDTH).frequencies.theta().tolist()
        and at_length.magnitude == 1
    )


def test_a_list_of_exponents_of_another_length_is_refused_when_it_is_used() -> None:
    with pytest.raises(ConfigError, match="one factor for each frequency: give 4, got 2"):
        LongRoPEExponents((0.0, 1.0)).apply(RoPE(WIDTH), L, 9)


@oracle("longrope_search", "distribution")
def test_searched_exponents_never_fall_and_are_those_of_the_formula() -> None:
    """By e = r u^p of sorted u: the largest of many is r, and the median of many is r / 2^p."""
    candidates = LongRoPESearch().candidates(
        EncodingStack([RoPE(4000)]), L, np.random.default_rng(0)
    )
    highest, shapes = [], []
    for _ in range(400):
        settings, extension = next(candidates)
        e = settings["exponents"]
        assert extension.exponents == tuple(e) and len(e) == 2000
        assert e == sorted(e) and e[0] >= 0 and e[-1] <= 1.1
        highest.append(e[-1])
        shapes.append(math.log2(math.log2(e[-1] / statistics.median(e))))
    assert 0.79 < min(highest) < 0.81 and 1.09 < max(highest) < 1.1
    assert statistics.mean(highest) == pytest.approx(0.95, abs=0.02)
    assert min(shapes) == pytest.approx(-2, abs=0.2) and max(shapes) == pytest.approx(2, abs=0.2)
    assert statistics.mean(shapes) == pytest.approx(0, abs=0.2)
    assert statistics.pstdev(shapes) == pytest.approx(4 / math.sqrt(12), abs=0.1), "uniform between"


def test_a_search_of_exponents_begins_with_the_list_that_needs_none() -> None:
    asked: list[Any] = []
    found = tried(LongRoPESearch(5), lambda each: asked.append(each.exponents) or 1.0)  # type: ignore[func-returns-value]
    assert asked[0] is None and all(len(each) == WIDTH // 2 for each in asked[1:])
    assert len({*asked}) == 5 and found[0].settings == {}


def test_one_list_of_exponents_cannot_serve_layers_that_differ() -> None:
    search, rng = LongRoPESearch(), np.random.default_rng(0)
    settings, _ = next(search.candidates(EncodingStack([NoPE(), RoPE(16)], 2), L, rng))
    assert len(settings["exponents"]) == 8
    with pytest.raises(ConfigError, match="layers of 4 and 8 frequencies"):
        next(search.candidates(EncodingStack([RoPE(8), RoPE(16)], 2), L, rng))


# -- refusals --------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Dropped(-0.1), r"growth of the temperature .* must not be negative, got -0\.1"),
    (lambda: Dropped(math.nan), r"growth of the temperature .* must not be negative, got nan"),
    (lambda: Dropped(0.1, 0.5), r"at least 1 \(or null for one a length\), got 0\.5"),
    (
        lambda: SkipWise(0.9),
        r"multiple is that of the positions to be trained, at least 1, got 0\.9",
    ),
    (
        lambda: FineTuned(PI(2.0), steps=0),
        r"steps of the fine-tuning is a factor .* must be positive, got 0",
    ),
    (
        lambda: FineTuned(PI(2.0), multiple=-1),
        r"multiple of the fine-tuning .* must be positive, got -1",
    ),
    (
        lambda: FineTuned(PI(2.0), learning_rate=math.inf),
        r"learning_rate of the fine-tuning .* got inf",
    ),
    (lambda: FineTuned(PI(2.0), steps=math.nan), r"steps of the fine-tuning .* got nan"),
    (lambda: LongRoPESearch(budget=0), r"budget is the number of candidates, .* at least 1, got 0"),
    (
        lambda: LongRoPESearch(multiple=1.0),
        r"multiple is that of the validation length and must exceed 1, got 1\.0",
    ),
    (lambda: Tuned(YaRN, {}), r"knobs lists at least one setting, .* got \{\}"),
    (
        lambda: Tuned(YaRN, {"beta_fast": []}),
        r"for each at least one value, got \{'beta_fast': \[\]\}",
    ),
    (
        lambda: LongRoPEExponents((0.0, 0.5, 0.4)),
        r"not fall from pair to pair, got \[0\.0, 0\.5, 0\.4\]",
    ),
    (
        lambda: LongRoPEExponents((-0.1, 0.5)),
        r"exponents must not be negative .*got \[-0\.1, 0\.5\]",
    ),
    (lambda: LongRoPEExponents((0.0, math.nan)), r"exponents must not .*got \[0\.0, nan\]"),
]


@pytest.mark.parametrize(("make", "refusal"), REFUSED, ids=[refusal for _, refusal in REFUSED])
def test_a_setting_that_cannot_work_is_refused_in_one_sentence(
    make: Callable[[], object], refusal: str
) -> None:
    with pytest.raises(ConfigError, match=refusal) as caught:
        make()
    assert "\n" not in str(caught.value)


# -- small experiments -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Every test begins as a fresh process does."""
    experiments._latest.clear()
    yield
    experiments._latest.clear()


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """Every training that takes place, in order."""
    seen: list[Training] = []

    def noted(training: Training, *arguments: Any) -> Any:
        seen.append(training)
        return fit(training, *arguments)

    monkeypatch.setattr(keeping, "fit", noted)
    return seen


def tiny(folder: Path, *words: str) -> Setup:
    run = setup(*TINY, *words)
    run.config.results_dir = str(
        folder
    )  # set here, where composing it anew for each test would cost more than to train
    return run


def prepared(folder: Path, *words: str) -> tuple[Setup, Trained, Prepared]:
    run = tiny(folder, *words)
    trained = run.trained(Console(), [])
    return run, trained, run.prepared(trained, Console())


def ran(folder: Path, *words: str) -> results.Record:
    """The record of a whole run in this process, which is called what the words say."""
    cfg = composed(*TINY, *words)
    cfg.results_dir = str(folder)
    called, short = " ".join(words), content_hash(words)
    name, method = (
        Name("tiny", "tiny", short),
        MethodName(called, short, short, "rope", "direct", "rope"),
    )
    task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
    experiments.run(cfg, Identity(name, name, method, called), task)
    return results.read(results.record_path(folder, "tiny", "tiny", short, cfg.seed))


def state(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def checkpoints(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("checkpoints/*/weights.pt")}


@pytest.mark.parametrize(
    "words",
    [("method=rope_pi_fine_tuned",), ("encoding=t5", "extension=direct_fine_tuned")],
    ids=" ".join,
)
def test_fine_tuning_changes_its_own_weights_and_not_the_shared_ones(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = tiny(tmp_path, *words)
    trained = run.trained(Console(), [])
    before, files = state(trained.model), checkpoints(tmp_path)
    tuned = run.prepared(trained, Console()).model
    run.evaluated(tuned, run.extension)
    assert equal(state(trained.model), before)
    assert len(checkpoints(tmp_path)) == 2 and files.items() <= checkpoints(tmp_path).items()
    after = state(tuned)
    assert after.keys() == before.keys()
    assert [name for name in after if torch.equal(after[name], before[name])] == [], (
        "all of them are trained"
    )


@pytest.mark.parametrize(
    ("extension", "encoding", "inner", "multiple"),
    [
        pytest.param(name, *case, marks=oracle(name, "identity: trained further by hand"), id=name)
        for name, *case in (
            ("drope", "nope", None, 1),
            ("direct_continued", "rope", None, 1),
            ("pi_fine_tuned", "rope", PI(2.0), 2),
            ("pose", "rope", Both(PI(4.0), SkipWise(4.0)), 1),
        )
    ],
)
def test_fine_tuning_is_the_training_of_what_the_extension_makes_of_the_model(
    tmp_path: Path, extension: str, encoding: str, inner: Extension | None, multiple: float
) -> None:
    """Put together by hand: these weights, that encoding, two steps of their own stream."""
    run, trained, found = prepared(tmp_path, "encoding=rope", f"extension={extension}")
    model = setup(*TINY, f"encoding={encoding}").model()
    model.load_state_dict(trained.model.state_dict())
    if inner is not None:
        model = model.with_encodings(
            inner.extend(model.encodings, run.train_positions, run.train_positions)
        )
    settings = FineTuning(0.1, multiple, 1.0).settings(run.config.training)
    training = Training(model.train(), run.task, settings, stream_seed(0, "fine-tuning"))
    fit(training, tmp_path / "last.ckpt", "cpu", 100, [], [], lambda point: None)
    expected, other_weights = state(found.model), state(trained.model)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
        assert not torch.equal(value, other_weights[name]), name


def test_gaps_are_there_while_it_is_fine_tuned_and_nowhere_else(
    tmp_path: Path, fits: list[Training]
) -> None:
    run, _, found = prepared(tmp_path, "method=rope_pose")
    first, second = fits
    n = max(first.batch(step).pos.shape[1] for step in range(20))
    assert all(int(first.batch(step).pos.max()) < n for step in range(20))
    widest = max(int(second.batch(step).pos.max()) for step in range(20))
    assert 2 * run.train_positions < widest < 4 * run.train_positions
    assert int(second.validation_batch().pos.max()) == run.train_positions - 1
    batch = run.tests.batch(16)
    tested = run.tests.extended(found.model, run.extension, 16)
    for model in (found.model, tested):
        assert int(run.tests.inputs(batch, model, 16).pos.max()) == run.task.num_positions(16) - 1


@pytest.mark.parametrize(
    ("method", "kind", "policy", "lengths"),
    [
        ("rope_pi_fine_tuned", "fine-tuned", "fixed", [3, 16]),
        ("rope_pose", "trained beyond", "fixed", [3, 8]),
    ],
)
def test_the_record_says_what_was_spent_on_fine_tuning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    method: str,
    kind: str,
    policy: str,
    lengths: list[int],
) -> None:
    found = ran(tmp_path, f"method={method}", "extension.steps=0.6")
    assert (found["method"]["class"], found["method"]["scale_policy"]) == (kind, policy)
    spent = found["finetuning"]
    assert (spent["steps"], spent["lengths"], spent["device"]) == (12, lengths, "cpu")
    assert [point["step"] for point in spent["curve"]] == [10, 12]
    assert all({"loss", "validation_loss", "score"} < point.keys() for point in spent["curve"])
    assert (tmp_path / "checkpoints" / spent["hash"] / "weights.pt").exists()
    assert not any("seconds" in name for name in spent), (
        "what may differ between two runs stands in timings alone"
    )
    assert spent["hash"] != found["training"]["hash"] and found["training"]["steps"] == 20
    assert found["search"] is None and found["timings"]["preparation_cpu_seconds"] > 0
    out = capsys.readouterr().out
    assert f"Fine-tuning: 12 steps with n up to {lengths[1]}." in out
    assert "(before" in out and "fine-tuning)" in out and "(same" not in out


def test_records_without_preparation_say_so(tmp_path: Path) -> None:
    for words, policy in (
        (("method=rope",), "none"),
        (("method=rope_ntk", "extension.scale=2"), "fixed"),
    ):
        found = ran(tmp_path, *words)
        assert (found["search"], found["finetuning"]) == (None, None)
        assert (found["method"]["class"], found["method"]["scale_policy"]) == ("zero-shot", policy)


@pytest.mark.parametrize(
    ("encoding", "extension"), [("learned", "drope"), ("t5", "drope"), ("t5", "direct_fine_tuned")]
)
def test_a_second_run_loads_the_fine_tuned_weights(
    tmp_path: Path, fits: list[Training], encoding: str, extension: str
) -> None:
    words = (f"encoding={encoding}", f"extension={extension}")
    first = prepared(tmp_path, *words)
    assert [training.settings.total_steps for training in fits] == [20, 2]
    experiments._latest.clear()
    second = prepared(tmp_path, *words)
    assert len(fits) == 2, "nothing was trained again"
    assert equal(state(first[2].model), state(second[2].model))
    assert first[2].finetuning == second[2].finetuning | {"lengths": first[2].finetuning["lengths"]}
    assert first[0].evaluated(first[2].model, first[2].extension) == second[0].evaluated(
        second[2].model, second[2].extension
    )
    before, after = (state(each) for each in (first[1].model, first[2].model))
    assert any(name.startswith("encodings.") for name in before)
    for name in before:  # what has been dropped is not trained
        kept = extension == "drope" and name.startswith("encodings.")
        assert torch.equal(before[name], after[name]) == kept, name


def test_other_settings_of_the_fine_tuning_are_another_fine_tuning(
    tmp_path: Path, fits: list[Training]
) -> None:
    for words in ((), ("extension.learning_rate=0.5",), (), ("extension.multiple=3",)):
        prepared(tmp_path, "method=rope_pi_fine_tuned", *words)
    found = [
        (each.settings.total_steps, each.settings.learning_rate, each.settings.lengths[1])
        for each in fits
    ]
    assert found == [(20, 3e-3, 8), (2, 3e-3, 16), (2, 1.5e-3, 16), (2, 3e-3, 24)]


class Interrupted(Exception):
    pass


class Interrupting(Console):
    """Stops a training in its middle."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    @contextlib.contextmanager
    def progress(self, steps: int) -> Iterator[Any]:
        def report(point: dict[str, float]) -> None:
            if point["step"] >= self.step:
                raise Interrupted

        with super().progress(steps) as (_, callback):
            yield report, callback


def test_an_interrupted_fine_tuning_goes_on_from_its_checkpoint(
    tmp_path: Path, fits: list[Training], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("method=rope_pi_fine_tuned", "extension.steps=1", "trainer.checkpoint_every=5")
    _, _, whole = prepared(tmp_path / "whole", *words)
    run = tiny(tmp_path / "parts", *words)
    trained = run.trained(Console(), [])
    before = state(trained.model)
    with pytest.raises(Interrupted):
        run.prepared(trained, Interrupting(20))
    assert [path.parent.name for path in tmp_path.glob("parts/checkpoints/*/last.ckpt")] == [
        whole.finetuning["hash"]  # type: ignore[index]
    ]
    assert len(checkpoints(tmp_path / "parts")) == 1, "only what is complete"
    assert equal(state(trained.model), before)
    capsys.readouterr()
    again = run.prepared(trained, Console())
    out = capsys.readouterr().out
    assert (
        "Going on from the last checkpoint" in out
        and "step 10/20" not in out
        and "step 20/20" in out
    )
    assert equal(state(again.model), state(whole.model))
    assert again.finetuning["curve"] == whole.finetuning["curve"]  # type: ignore[index]
    assert not list(tmp_path.glob("*/checkpoints/*/last.ckpt"))


@pytest.mark.slow
def test_a_fine_tuning_stopped_by_kill_minus_nine_has_the_record_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    words = (
        "protocol=smoke",
        "method=rope_pi_fine_tuned",
        "extension.steps=20",
        "trainer.checkpoint_every=20",
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    succeeded(whole, *words)
    for step in (80, 160):
        command = started(parts, *words)
        command.until(lambda step=step, command=command: f"step {step}/400" in command.out)  # type: ignore[misc]
        command.signalled(signal.SIGKILL)
        assert not list(parts.rglob("seed=0.json"))
    command = succeeded(parts, *words)
    assert "the weights are shared" in command.out and "step 120/400" not in command.out
    assert without_timings(parts, "rope_pi_fine_tuned*") == without_timings(
        whole, "rope_pi_fine_tuned*"
    )
    assert not list(parts.rglob("last.ckpt"))


@pytest.mark.parametrize("extension", ["direct_fine_tuned", "log_floor_tuned"])
def test_a_table_too_short_for_what_comes_after_training_is_refused_before_it(
    tmp_path: Path, fits: list[Training], extension: str
) -> None:
    words = (f"extension={extension}", "evaluation.multiples=[1,1.5]")
    with pytest.raises(ConfigError, match="positions") as caught:
        prepared(tmp_path, "encoding=learned", *words)
    assert "\n" not in str(caught.value) and fits == []


# -- a search in an experiment ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(f"rope_{name}", marks=oracle(name, "identity: by the loss of training"))
        for name in ("yarn_tuned", "longrope_search")
    ],
)
def test_a_search_keeps_what_loses_least_on_a_length_of_its_own(
    tmp_path: Path, method: str
) -> None:
    run, trained, found = prepared(tmp_path, f"method={method}", "extension.budget=6")
    search = found.search
    assert search is not None and search["length"] == 24 and search["length"] not in run.lengths
    assert search["num_samples"] == 16 and len(search["trials"]) == 6
    losses = [trial["loss"] for trial in search["trials"]]
    assert losses[0] == min(losses) and search["chosen"] == search["trials"][0]["settings"]
    assert sum(trial["settings"] == {} for trial in search["trials"]) == 1
    make = YaRN if method == "rope_yarn_tuned" else LongRoPEExponents
    model, positions = trained.model, run.task.num_positions(24)
    data = inputs(run.task.batch(24, 16, 0, "validation", 24), model.encodings, 0)
    for trial in search[
        "trials"
    ]:  # by the loss of training, which shares no code with that of tests
        settings = trial["settings"] or (
            {"beta_fast": 2.0, "beta_slow": 1.0} if make is YaRN else {}
        )
        extended = model.with_encodings(
            make(**settings).extend(model.encodings, run.train_positions, positions)
        )
        with torch.no_grad():
            assert trial["loss"] == pytest.approx(loss(extended, data).item(), rel=1e-5)
    assert type(found.extension) is make
    assert all(
        getattr(found.extension, key) == pytest.approx(value)
        for key, value in search["chosen"].items()
    )
    assert found.model is trained.model and found.finetuning is None


@oracle("dynamic_ntk_tuned", "identity: the extension with the settings found")
def test_the_record_of_a_search_names_its_trials_and_rows_are_those_of_the_winner(
    tmp_path: Path,
) -> None:
    words = {
        "dynamic_ntk": ("method=rope", "extension=dynamic_ntk"),
        "tuned": ("method=rope_dynamic_ntk_tuned",),
    }
    tuned = ran(tmp_path, *words["tuned"])
    assert (tuned["method"]["class"], tuned["method"]["scale_policy"]) == (
        "tuned",
        "per test length",
    )
    chosen = tuned["search"]["chosen"] or {"factor": extension_of("dynamic_ntk").factor}
    plain = ran(tmp_path, *words["dynamic_ntk"], f"extension.factor={chosen['factor']}")
    assert tuned["rows"] == plain["rows"]
    assert {trial["settings"].get("factor") for trial in tuned["search"]["trials"]} >= {
        1.25,
        1.5,
        3,
        4,
        6,
        8,
    }


def test_another_seed_of_the_run_searches_other_candidates(tmp_path: Path) -> None:
    def candidates(seed: int) -> set[str]:
        experiments._latest.clear()
        _, _, found = prepared(
            tmp_path, "method=rope_longrope_search", "extension.budget=3", f"seed={seed}"
        )
        return {json.dumps(trial["settings"]) for trial in found.search["trials"]}  # type: ignore[index]

    assert candidates(0) == candidates(0)
    assert candidates(0) & candidates(1) == {"{}"}


def test_a_candidate_whose_loss_is_no_number_is_recorded_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = Tests.answers, Counter[int]()

    def first_is_nan(self: Tests, *arguments: Any) -> Answers:
        asked[0] += 1
        found = answers(self, *arguments)
        return SimpleNamespace(mean_loss=math.nan) if asked[0] == 1 else found  # type: ignore[return-value]

    monkeypatch.setattr(Tests, "answers", first_is_nan)
    found = ran(tmp_path, "method=rope_longrope_search", "extension.budget=3")
    assert [trial["loss"] is None for trial in found["search"]["trials"]] == [False, False, True]
    assert found["search"]["trials"][-1]["settings"] == {}


def test_a_validation_length_that_is_a_test_length_is_refused_before_training(
    tmp_path: Path, fits: list[Training]
) -> None:
    for method in ("rope_yarn_tuned", "rope_longrope_search"):
        with pytest.raises(
            ConfigError, match=r"extension\.multiple=2 .* n = 16, which is a test length"
        ) as caught:
            ran(tmp_path, f"method={method}", "extension.multiple=2")
        assert "1, 1.25, 1.5, 2, 4" in str(caught.value) and "\n" not in str(caught.value)
    assert fits == [] and checkpoints(tmp_path) == {}


# -- runs of one process share their weights -------------------------------------------------------


def without_times(found: results.Record) -> results.Record:
    return {key: value for key, value in found.items() if key != "timings"}


def test_runs_of_one_process_train_once_and_give_what_processes_of_their_own_give(
    tmp_path: Path,
    fits: list[Training],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(keeping.torch, "load", lambda path, **_: pytest.fail(f"read {path}"))
    here = [ran(tmp_path / "one", f"method={name}") for name in ("rope", "rope_ntk")]
    assert len(fits) == 1
    assert capsys.readouterr().out.count("the weights are shared") == 1
    for name, found in zip(("rope", "rope_ntk"), here, strict=True):
        experiments._latest.clear()
        assert without_times(ran(tmp_path / name, f"method={name}")) == without_times(found)
    assert len(fits) == 3


def test_other_weights_are_trained_however_many_there_were_before(
    tmp_path: Path, fits: list[Training]
) -> None:
    for words in (
        ("method=rope",),
        ("seed=1",),
        ("encoding.base=500",),
        ("seed=1", "extension=pi"),
        ("method=rope",),
    ):
        prepared(tmp_path, *words)
    assert [
        (training.seed, training.model.encodings.layers[0].frequencies.base) for training in fits
    ] == [
        (0, 10000),
        (1, 10000),
        (0, 500),
    ]
    prepared(tmp_path, "method=rope", "force=true")
    assert len(fits) == 4


def test_the_model_without_the_extension_is_measured_once_for_all_runs_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, measured = Tests.rows, []

    def noted(self: Tests, model: Any, extension: Extension | None) -> Any:
        measured.append(type(extension).__name__)
        return rows(self, model, extension)

    monkeypatch.setattr(Tests, "rows", noted)
    for method in ("rope_pi", "rope_ntk", "rope", "rope_fine_tuned", "rope_yarn"):
        ran(tmp_path, f"method={method}")
    assert measured == ["PI", "NoneType", "NTK", "Direct", "FineTuned", "YaRN"]


def test_what_is_shown_beside_a_run_is_measured_at_its_own_lengths_and_on_its_own_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        Console, "table", lambda self, identity, measure, rows, base, *_: shown.append((rows, base))
    )
    for words in (
        ("method=rope_ntk", "evaluation.multiples=[1]"),
        ("method=rope_pi", "evaluation.multiples=[1,2]"),
        ("method=rope_ntk", "evaluation.multiples=[1,2]", "evaluation.num_samples=8"),
    ):
        ran(tmp_path, *words)
    for rows, base in shown:
        assert [(row["test_length"], row["num_samples"]) for row in rows] == [
            (row["test_length"], row["num_samples"]) for row in base
        ]


def test_what_is_shown_beside_a_fine_tuned_run_is_the_model_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Any, Any, str]] = []
    monkeypatch.setattr(
        Console,
        "table",
        lambda self, identity, measure, rows, base, remark, *_: shown.append((rows, base, remark)),
    )
    tuned, rope, ntk = (
        ran(tmp_path, f"method={name}") for name in ("rope_fine_tuned", "rope", "rope_ntk")
    )
    assert (
        shown[0] == (tuned["rows"], rope["rows"], "before fine-tuning")
        and tuned["rows"] != rope["rows"]
    )
    assert shown[1] == (rope["rows"], None, "same weights")
    assert shown[2] == (ntk["rows"], rope["rows"], "same weights")


@pytest.mark.slow
def test_a_sweep_trains_once_and_its_runs_are_those_of_processes_of_their_own(
    tmp_path: Path,
) -> None:
    sweep, alone = tmp_path / "sweep", tmp_path / "alone"
    out = succeeded(sweep, "-m", "protocol=smoke", "method=rope,rope_ntk").out
    assert out.count("step 20/20") == 1 and out.count("the weights are shared") == 1
    assert checkpoint_folder(sweep).is_dir()
    assert finished(alone, "protocol=smoke", "method=rope_ntk").status == 0
    assert without_timings(sweep, "rope_ntk") == without_timings(alone, "rope_ntk")
    assert record(sweep, "rope")["training"] == record(sweep, "rope_ntk")["training"]


# -- RoPE with another base ------------------------------------------------------------------------


def short_base(*words: str) -> tuple[Setup, RoPE]:
    run = setup("protocol=cpu", "encoding=rope_short_base", *words)
    (encoding,) = {type(layer): layer for layer in run.encodings()}.values()
    assert isinstance(encoding, RoPE)
    return run, encoding


@oracle("rope_short_base", "published numbers")
def test_as_many_pairs_turn_in_training_as_those_of_llama_2_do_in_its_own() -> None:
    """In the continuous index x of theta = b^-x: L theta = 2 pi at x = ln(L / 2 pi) / ln b."""
    llama = math.log(4096 / (2 * math.pi)) / math.log(10000)
    assert llama == pytest.approx(0.70355, abs=5e-6)
    text = (CONF / "encoding/rope_short_base.yaml").read_text("utf-8")
    (share,) = (
        float(line.partition(":")[2])
        for line in [text.partition("${base_for_turns")[2].partition("}")[0]]
    )
    assert share == pytest.approx(llama, abs=0.005)
    for words in (
        (),
        ("task=copy",),
        ("task=copy", "training.max_length=400"),
        ("task=key_value_retrieval",),
    ):
        run, encoding = short_base(*words)
        positions = run.train_positions
        x = math.log(positions / (2 * math.pi)) / math.log(encoding.frequencies.base)
        assert x == pytest.approx(0.7, abs=2e-3)
    node = OmegaConf.create(
        {"train_positions": 4096, "base": "${base_for_turns:" + f"{llama}" + "}"}
    )
    assert node.base == pytest.approx(10000, abs=0.01)


@oracle("rope_short_base", "enumeration")
@pytest.mark.parametrize("length", [8, 32, 100, 1000])
def test_pairs_up_to_seven_tenths_of_the_way_turn_in_training_and_no_other(length: int) -> None:
    run, encoding = short_base(f"training.max_length={length}")
    turns = [
        run.train_positions * theta / (2 * math.pi)
        for theta in encoding.frequencies.theta().tolist()
    ]
    assert len(turns) == 16
    assert [turn >= 1 for turn in turns] == [m <= 0.7 * 16 for m in range(16)]


@oracle("rope_short_base", "double loop")
@everywhere
def test_a_short_base_is_rope_with_that_base(positions: list[float]) -> None:
    run, encoding = short_base("model.width=16")
    base = (run.train_positions / (2 * math.pi)) ** (10 / 7)
    a = call(positions)
    q, k, i_pos, j_pos = (each.tolist() for each in (a.q, a.k, a.q_pos, a.k_pos))

    def score(b: int, h: int, i: int, j: int) -> float:
        angle, total = i_pos[b][i] - j_pos[b][j], 0.0
        for m in range(4):
            left = complex(q[b][h][i][m], q[b][h][i][m + 4])
            right = complex(k[b][h][j][m], k[b][h][j][m + 4])
            total += (
                left * right.conjugate() * cmath.exp(1j * angle * round(base, 2) ** (-m / 4))
            ).real
        return SCALE * total

    same(scores(encoding, a), by_pairs(a, score), 1e-8)
