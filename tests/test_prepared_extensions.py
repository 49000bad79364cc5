"""Extensions that train a little further, take positions away, skip some in training, or choose
their settings.

What they compute is held against plain loops, as in `test_closed_forms`; what a run makes of them
is looked at in small experiments in this process: which weights change, what is trained anew, what
the record says.
"""

from __future__ import annotations

import cmath
import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
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
from offered import CONF
from omegaconf import OmegaConf
from small_runs import TINY

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.config.folders import own_names
from posbench.core.encoding import Draw, EncodingStack, PositionEncoding
from posbench.core.extension import Extension, FineTuning
from posbench.core.settings import TrainingConfig
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.ssmax import SSMax
from posbench.encodings.t5 import T5
from posbench.extensions.both import Both
from posbench.extensions.direct import Direct
from posbench.extensions.drope import Dropped
from posbench.extensions.finetuned import FineTuned
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.log_n import LogN
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.longrope2_search import LongRoPE2Factors, LongRoPE2Search
from posbench.extensions.longrope_search import LongRoPEExponents, LongRoPESearch
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.pose import SkipWise
from posbench.extensions.resonance import Resonance
from posbench.extensions.tuned import Tuned
from posbench.extensions.yarn import YaRN
from posbench.running.setup import Setup
from posbench.running.subject import Subject, setup
from posbench.tasks.copy import Copy

oracle = pytest.mark.oracle
L = 4  # positions seen in training
MODEL = HEADS * WIDTH

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
    # n = 16 of the copy task has 34 positions, three times as many are those of n = 50.
    found = FineTuning(0.1, 3.0, 0.5).settings(training, Copy())
    assert (found.lengths, found.total_steps, found.learning_rate) == ((4, 50), 30, 2e-3)
    assert found.warmup_steps == 3, "a tenth of the steps"
    unchanged = (
        "steps_scale",
        "batch_size",
        "decay_fraction",
        "validation_samples",
    )
    assert all(getattr(found, name) == getattr(training, name) for name in unchanged)
    least = FineTuning(1e-6, 0.01, 1.0).settings(training, Copy())
    assert least.total_steps == 1
    assert least.lengths == (4, 4), "not below the shortest"


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
    "name",
    [name for name in own_names("extension") if name.endswith("_tuned") and "fine" not in name],
)
def test_the_knobs_of_a_yaml_are_settings_of_its_extension(name: str) -> None:
    extension = extension_of(name)
    assert isinstance(extension, Tuned)
    default = extension_of(name.removesuffix("_tuned"))
    assert told(extension.extension) == told(default), (
        "what is tried first is the extension as it stands alone"
    )
    assert (extension.budget, extension.multiple, extension.method_class) == (24, 2.5, "tuned")
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


@pytest.mark.slow
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


# -- LongRoPE2 -------------------------------------------------------------------------------------


@oracle("longrope2_search", "double loop")
@pytest.mark.parametrize("s", [1.0, 2.0, 3.5, 8.0])
@pytest.mark.parametrize(("critical", "ratios"), [(2, (1.1, 1.7)), (0, (1, 1, 1.3, 2)), (4, ())])
def test_pairs_before_the_critical_one_are_at_the_base_that_leads_up_to_it(
    critical: int, ratios: tuple[float, ...], s: float
) -> None:
    """By bases, as the paper has it: theta_c = 1 / (lambda_c b^(c/K)) = b'^(-c/K)."""
    train, base = 40, 10000.0
    found = LongRoPE2Factors(critical, ratios).apply(RoPE(WIDTH), train, round(s * train))
    expected = []
    for m in range(4):
        if m >= critical:
            theta = base ** (-m / 4) / (s * ratios[m - critical])
        else:
            slow = s * ratios[0] if ratios else s
            raised = (slow * base ** (critical / 4)) ** (4 / critical)
            theta = raised ** (-m / 4)
        expected.append(base ** (-m / 4) if s == 1 else theta)
    assert found.frequencies.theta().tolist() == pytest.approx(expected, rel=1e-12)
    assert found.frequencies.magnitude == 1.0
    fixed = LongRoPE2Factors(critical, ratios, s).apply(RoPE(WIDTH), train, 5 * train)
    assert fixed.frequencies == found.frequencies


@oracle("longrope2_search", "identity: the list of longrope without settings")
def test_without_settings_longrope2_has_the_list_that_longrope_starts_from() -> None:
    for test in (10, 40, 41, 160):
        ours, theirs = (
            each.apply(RoPE(WIDTH), 40, test).frequencies
            for each in (LongRoPE2Factors(), LongRoPE())
        )
        assert ours.theta().tolist() == theirs.theta().tolist() and ours.magnitude == 1
    explicit = LongRoPE2Factors(1, (1.0, 1.0, 1.0)).apply(RoPE(WIDTH), 40, 160).frequencies
    assert explicit.theta().tolist() == pytest.approx(
        LongRoPE2Factors().apply(RoPE(WIDTH), 40, 160).frequencies.theta().tolist(), rel=1e-12
    )  # pair 0 turns 6 times in 40 positions, pair 1 not once


@oracle("longrope2_search", "published numbers")
@pytest.mark.parametrize(
    ("width", "base", "train", "ten", "one"),
    [(96, 10000.0, 2048, 19, 31), (128, 500_000.0, 8192, 24, 35)],
)
def test_critical_pairs_are_those_of_the_paper(
    width: int, base: float, train: int, ten: int, one: int
) -> None:
    """Phi-3 mini has 31 in theory, LLaMA 3 has 35."""
    assert LongRoPE2Search.bounds(EncodingStack([RoPE(width, base)]), train) == (
        width // 2, ten, one,
    )  # fmt: skip
    assert ten == math.ceil(width / 2 * math.log(train / (20 * math.pi), base))
    assert one == math.ceil(width / 2 * math.log(train / (2 * math.pi), base))


@oracle("longrope2_search", "distribution")
def test_the_first_generation_has_every_critical_pair_and_one_ratio_each() -> None:
    search, stack = LongRoPE2Search(), EncodingStack([RoPE(64, 100.0)])
    count, first, last = search.bounds(stack, 500) or (0, 0, 0)
    assert (first, last) == (15, 31)
    candidates = search.candidates(stack, 500, np.random.default_rng(0))
    drawn = [next(candidates)[0] for _ in range(200 * (last + 1 - first))]
    assert Counter(each["critical"] for each in drawn) == dict.fromkeys(range(first, last + 1), 200)
    ratios = [each["ratios"][0] for each in drawn]
    assert all(set(each["ratios"]) == {each["ratios"][0]} for each in drawn)
    assert all(len(each["ratios"]) == count - each["critical"] for each in drawn)
    assert 1 <= min(ratios) < 1.01 and 1.99 < max(ratios) < 2
    assert statistics.mean(ratios) == pytest.approx(1.5, abs=0.02)


@pytest.mark.slow
@oracle("longrope2_search", "distribution")
def test_mutants_lie_between_their_neighbours_and_about_a_third_changes() -> None:
    search, rng = LongRoPE2Search(), np.random.default_rng(0)
    parent = {"critical": 3, "ratios": [1.0, 1.2, 1.2, 1.6, 1.9]}
    changed, lows, highs = Counter[int](), [2.0] * 5, [1.0] * 5
    for _ in range(4000):
        settings, extension = search.mutated(parent, rng)
        ratios = settings["ratios"]
        assert settings["critical"] == extension.critical == 3 and extension.ratios == tuple(ratios)
        assert [1.0, *ratios, 2.0] == sorted([1.0, *ratios, 2.0]) and ratios != parent["ratios"]
        for place, (new, old) in enumerate(zip(ratios, parent["ratios"], strict=True)):
            changed[place] += new != old
            lows[place], highs[place] = min(lows[place], new), max(highs[place], new)
    assert parent["ratios"] == [1.0, 1.2, 1.2, 1.6, 1.9]
    share = 0.3 + 0.7**5 / 5  # chosen, or the one that is chosen where none is
    assert all(changed[place] / 4000 == pytest.approx(share, abs=0.03) for place in (0, 3, 4))
    assert highs[4] == pytest.approx(2, abs=0.01) and lows[0] == 1.0


def test_half_of_the_budget_is_drawn_and_the_rest_comes_from_the_best() -> None:
    """Where the loss falls with the ratios, mutants of the best end lower than what was drawn."""
    asked: list[LongRoPE2Factors] = []

    def loss(each: Any) -> float:
        asked.append(each)
        return -sum(each.ratios or (1.0,) * 3) - 5 * (each.critical == 1)

    stack, rng = EncodingStack([RoPE(WIDTH)]), np.random.default_rng(0)
    found = LongRoPE2Search(24).trials(stack, 40, rng, loss)
    assert len(found) == len(asked) == 24 and asked[0].ratios is None
    drawn, mutants = asked[1:13], asked[13:]
    assert all(len({*(each.ratios or ())}) <= 1 for each in drawn)
    assert any(len({*(each.ratios or ())}) > 1 for each in mutants)
    assert [each.loss for each in found] == sorted(each.loss for each in found)
    assert found[0].extension in mutants
    again = LongRoPE2Search(24).trials(stack, 40, np.random.default_rng(0), loss)
    assert [each.settings for each in again] == [each.settings for each in found]
    for budget in (1, 2, 5):
        assert len(LongRoPE2Search(budget).trials(stack, 40, rng, loss)) == budget
    assert len(LongRoPE2Search(5).trials(EncodingStack([NoPE()]), 40, rng, lambda each: 1.0)) == 1


def test_ratios_that_fall_or_begin_below_one_are_refused() -> None:
    for ratios in ((1.2, 1.1), (0.9, 1.0)):
        with pytest.raises(ConfigError, match="at least 1 and not fall"):
            LongRoPE2Factors(2, ratios)
    with pytest.raises(ConfigError, match="give both or none"):
        LongRoPE2Factors(2)
    with pytest.raises(ConfigError, match="give 4, got 3"):
        LongRoPE2Factors(2, (1.0,)).apply(RoPE(WIDTH), L, 9)


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
    run, encoding = short_base("model.head_width=8")
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
