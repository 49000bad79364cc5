"""results/pretrained/predicting.py: ranks of extensions on a small board and on a large model."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.statistics import likelihoods

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def predicting() -> Any:
    spec = importlib.util.spec_from_file_location(
        "predicting", ROOT / "results/pretrained/predicting.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["predicting"] = module
    spec.loader.exec_module(module)
    return module


SCORES = {"pi": (0.2, 0.28), "yarn": (0.76, 0.84), "ntk": (0.9, 0.98), "dca": (0.56, 0.64)}
"""Of two seeds, with a chance of .2. Less it, and by .8, the means are .05, .75, .925 and .5."""
LOSSES = {"yarn": (1.0, 1.5), "ntk": (2.0, 2.5), "dca": (3.0, 3.5), "pi": (4.0, 4.5)}


def small(**more: Any) -> list[dict[str, Any]]:
    return [
        {
            **{"method_class": "zero-shot", "protocol": "cpu", "encoding": "rope_short_base"},
            **{"changed": "", "task_changed": False, "task": "passkey", "multiple": 1.5},
            **{"extension": name, "seed": seed, "score": score, "chance": 0.2, "loss": 0.0},
            **more,
        }
        for name, scores in SCORES.items()
        for seed, score in enumerate(scores)
    ]


def large(**more: Any) -> list[dict[str, Any]]:
    return [
        {
            **{"method_class": "pretrained", "protocol": "smollm2", "encoding": "smollm2"},
            **{"changed": "", "task": "passkey", "multiple": 1.5, "extension": name},
            **{"seed": seed, "loss": loss, "score": 0.0, "chance": 0.0},
            **more,
        }
        for name, losses in LOSSES.items()
        for seed, loss in enumerate(losses)
    ]


def found(predicting: Any, mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[Any]:
    frames = pd.DataFrame(theirs), pd.DataFrame(mine)
    return list(predicting.predictions(*frames, "rope_short_base", "cpu"))


def test_two_orders_of_four_extensions_that_differ_by_one_exchange(predicting: Any) -> None:
    """Rho = 1 - 6 * 2 / (4 * 15) = .8: ntk and yarn have changed places. Of the 24 orders, one has
    a correlation of 1, three of .8, and as many have the same below 0: p = 8 / 24.
    """
    [one] = found(predicting, small(), large())
    assert (one.task, one.multiple, one.seeds, one.samples) == ("passkey", 1.5, 2, 2)
    assert list(one.sides.index) == ["yarn", "ntk", "dca", "pi"]
    assert one.sides["small"].tolist() == pytest.approx([0.75, 0.925, 0.5, 0.05])
    assert one.sides["large"].tolist() == pytest.approx([-1.25, -2.25, -3.25, -4.25])
    # Of another seed or sample all have more or less alike, so every draw has these two orders.
    agreed = one.agreed
    assert (agreed.value, agreed.low, agreed.high) == pytest.approx((0.8, 0.8, 0.8))
    assert one.p == pytest.approx(8 / 24)
    page = predicting.markdown([one], "rope_short_base", "cpu")
    assert "## passkey at 1.5x" in page and "| dca | .50 | -3.25 |" in page
    assert (
        "Over 4 extensions the rank correlation is .80 (p = .33), with 2 seeds and 2 samples, too "
        "few for an interval." in page
    )


def test_without_the_two_lowest_of_the_large_model(predicting: Any) -> None:
    """yarn, ntk and dca are left of five, and the small board exchanges the first two: 1 - 12 / 24.
    Of four extensions two would be left, and nothing is said.
    """
    assert pd.isna(found(predicting, small(), large())[0].without_lowest)
    fifth = [each | {"extension": "direct", "score": 0.2} for each in small()[:2]]
    theirs = [each | {"extension": "direct", "loss": 9.0} for each in large()[:2]]
    [one] = found(predicting, small() + fifth, large() + theirs)
    assert list(one.sides.index[-2:]) == ["pi", "direct"]
    assert one.without_lowest == pytest.approx(0.5)
    page = predicting.markdown([one], "rope_short_base", "cpu")
    assert "Without `pi` and `direct`, the lowest of the large model, it is .50." in page


def test_only_what_both_sides_have_alike_is_compared(predicting: Any) -> None:
    others = [
        *small(encoding="rope", score=0.0),
        *small(protocol="learned", score=0.0),
        *small(method_class="fine-tuned", score=0.0),
        *small(changed="scale=2", score=0.0),
        *small(task_changed=True, score=0.0, task="passkey"),
        *small(multiple=1.0, score=0.0),
        # A seed of one extension alone, and an extension of one side alone.
        small()[0] | {"seed": 7, "score": 1.0},
        *(each | {"extension": "abf"} for each in small()[:2]),
    ]
    tuned = large(method_class="pretrained, tuned", loss=7.0)
    within = large(multiple=1.0, loss=7.0)
    few = [each for each in large(task="multi_hop") if each["extension"] in ("pi", "ntk")]
    [one] = found(
        predicting, small() + others + small(task="multi_hop"), large() + tuned + within + few
    )
    assert one.agreed.value == pytest.approx(0.8) and one.seeds == 2
    assert list(one.sides.index) == ["yarn", "ntk", "dca", "pi"]


def test_two_versions_two_models_and_nothing_in_common_are_told(predicting: Any) -> None:
    with pytest.raises(PosbenchError):
        found(predicting, small() + small(), large())
    both = pd.DataFrame(large() + large(encoding="gemma"))
    with pytest.raises(PosbenchError, match="records of the models gemma and smollm2"):
        predicting.refuse_several(both, Path("FOLDER"))
    predicting.refuse_several(pd.DataFrame(large()), Path("FOLDER"))
    assert found(predicting, small(task="copy"), large()) == []
    assert "No task has three extensions on both sides yet." in predicting.markdown([], "a", "b")


def draws(areas: dict[str, list[float]]) -> likelihoods.Draws:
    return likelihoods.resampled(pd.DataFrame(areas), draws=500)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_rank_correlation_is_that_of_scipy_draw_by_draw(predicting: Any) -> None:
    one = draws({"a": [0.1, 0.5], "b": [0.2, 0.4], "c": [0.3, 0.9], "d": [0.3, 0.3]})
    two = draws({"a": [0.6, 0.5], "b": [0.2, 0.2], "c": [0.7, 0.1], "d": [0.3, 0.4]})
    found = predicting.RankCorrelation.of(one, two)
    estimates = (np.round(each.estimates, 9) for each in (one, two))  # a, b and d tie
    value = stats.spearmanr(*estimates).statistic
    assert found.value == pytest.approx(value)
    each = [stats.spearmanr(a, b).statistic for a, b in zip(one.overall, two.overall, strict=True)]
    bounds = np.nanquantile(each, [0.025, 0.975])
    assert [found.low, found.high] == pytest.approx(list(bounds))
    assert found.low < found.high


@pytest.mark.slow
def test_an_interval_over_rows_is_that_of_scipy_with_rows_drawn_again(predicting: Any) -> None:
    one = draws({"a": [0.1, 0.5], "b": [0.2, 0.4], "c": [0.3, 0.9], "d": [0.3, 0.2]})
    two = draws({"a": [0.6, 0.5], "b": [0.2, 0.2], "c": [0.7, 0.1], "d": [0.3, 0.4]})
    found = predicting.RankCorrelation.over_rows(one, two)
    rows = np.random.default_rng(0).integers(4, size=(500, 4))
    each = [
        stats.spearmanr(a[row], b[row]).statistic
        for row, a, b in zip(rows, one.overall, two.overall, strict=True)
        if len({*row}) >= 3
    ]
    assert 100 < len(each) < 500
    assert [found.low, found.high] == pytest.approx(list(np.nanquantile(each, [0.025, 0.975])))
    assert found.value == predicting.RankCorrelation.of(one, two).value


def test_questions_of_one_text_are_drawn_with_it(predicting: Any) -> None:
    """Six samples of three texts; one text of two questions would have no interval."""
    frames = [pd.DataFrame(small()), pd.DataFrame(large())]
    more = pd.concat([frames[1].assign(seed=frames[1]["seed"] + 2 * text) for text in range(3)])
    [one] = predicting.predictions(more, frames[0], "rope_short_base", "cpu", 2)
    assert (one.samples, one.texts) == (6, 3)
    assert one.over_rows.low < one.over_rows.value <= one.over_rows.high


def test_a_side_of_ties_has_no_rank_correlation(predicting: Any) -> None:
    one, two = draws({"a": [0.1], "b": [0.2]}), draws({"a": [0.5], "b": [0.5]})
    assert np.isnan(predicting.RankCorrelation.of(one, two).value)
    with pytest.raises(PosbenchError, match="same rows"):
        predicting.RankCorrelation.of(one, draws({"a": [0.1], "c": [0.2]}))
