"""Whether a small board predicts a large model: the rank correlation, and what it is of."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from making import DIRECT, changed, record, save
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.boards import predicting
from posbench.records import tables
from posbench.records.record import Record
from posbench.statistics import bootstrap
from posbench.statistics.correlation import RankCorrelation

HOST = "rope_short_base"
SMALL = {"direct": 0.1, "pi": 0.5, "yarn": 0.8, "dca": 0.7}
LARGE = {"direct": 4.0, "pi": 3.0, "yarn": 1.5, "dca": 1.0}  # losses


def small(scores: Mapping[str, float] = SMALL, task: str = "passkey", **more: Any) -> list[Record]:
    """Two seeds of each extension of the host."""
    found = []
    for extension, score in scores.items():
        name = HOST if extension == "direct" else f"{HOST}_{extension}"
        for seed in (10, 11):
            # A seed moves every row alike, so that draws keep the order.
            levels = {1: 1.0, 1.5: score - 0.01 * (seed - 10), 2: score}
            kept = {"encoding": HOST, "extension": extension} | more
            found.append(record(name, levels, seed, task=task, **kept))
    return found


def large(losses: Mapping[str, float] = LARGE, model: str = "big") -> list[Record]:
    """Four samples of each extension of a pretrained model."""
    found = []
    for extension, loss in losses.items():
        name = model if extension == "direct" else f"{model}_{extension}"
        for sample in range(4):
            made = record(
                name,
                {1: 1.0, 1.5: 0.0},
                sample,
                protocol="pretrained",
                task="passkey",
                encoding=model,
                extension=extension,
            )
            plain = {"config.extension": DIRECT} if extension == "direct" else {}
            new = {"method_class": "pretrained", "rows.1.loss": loss + 0.1 * sample}
            found.append(changed(made, new | plain))
    return found


def found_of(large: pd.DataFrame, small: pd.DataFrame) -> list[predicting.Prediction]:
    return predicting.predictions(large, small, HOST, "cpu")


def test_extensions_are_ranked_on_both_sides() -> None:
    (found,) = found_of(tables.table(large()), tables.table(small()))
    assert (found.task, found.multiple, found.seeds, found.samples) == ("passkey", 1.5, 2, 4)
    assert found.sides.index.tolist() == ["dca", "yarn", "pi", "direct"], "best on the large first"
    assert found.sides.loc["yarn", "large"] == pytest.approx(-1.65)
    chance = small()[0].rows[1].chance
    expected = (0.795 - chance) / (1 - chance)
    assert found.sides.loc["yarn", "small"] == pytest.approx(expected)
    assert found.agreed.value == pytest.approx(0.8), "two neighbours are swapped"
    assert found.agreed.low == found.agreed.high == pytest.approx(0.8), "draws keep both orders"
    turned = {extension: -loss for extension, loss in LARGE.items()}
    (other,) = found_of(tables.table(large(turned)), tables.table(small()))
    assert other.agreed.value == pytest.approx(-0.8)


def test_only_what_both_have_counts() -> None:
    others = [
        *small({"lampe": 1.0}),
        *small({"ntk": 1.0}, encoding="rope"),
        *small({"pi": 0.9}, task="copy"),
        *small({"pi": 0.9}, protocol="cpu_wide"),
    ]
    (found,) = found_of(tables.table(large()), tables.table([*small(), *others]))
    assert set(found.sides.index) == set(LARGE)
    (alone,) = found_of(tables.table(large()), tables.table(small()))
    assert found.sides.equals(alone.sides), "nothing else is mixed in"
    few = {"direct": 0.1, "pi": 0.5}
    assert not found_of(tables.table(large()), tables.table(small(few)))
    with pytest.raises(PosbenchError, match="records of big, huge: give those of one encoding"):
        found_of(tables.table([*large(), *large(model="huge")]), tables.table(small()))


def test_several_versions_of_a_run_are_not_averaged() -> None:
    for again in (small({"yarn": 0.1}, version=2), small({"yarn": 0.1}, protocol_hash="another")):
        with pytest.raises(PosbenchError, match="task=passkey, extension=yarn has runs of "):
            found_of(tables.table(large()), tables.table([*small(), *again]))
    repeated = [changed(each, {"task_version": 2}) for each in large()[:1]]
    with pytest.raises(PosbenchError, match="extension=direct has runs of task_version 1 and 2"):
        found_of(tables.table([*large(), *repeated]), tables.table(small()))


def test_the_page_is_written_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "large", tmp_path / "small"]
    for folder, found in zip(folders, (large(), small()), strict=True):
        for each in found:
            save(folder, each)
    words = list(map(str, folders))
    assert predicting.main([*words, "--check"]) == 1
    assert "regenerating changes" in capsys.readouterr().err
    assert predicting.main(words) == 0 == predicting.main([*words, "--check"])
    text = (folders[0] / "predicting.md").read_text()
    found = "the rank correlation is .80 (p = .33), with 2 seeds and 4 samples"
    assert f"{found}, too few for an interval." in text
    assert "| dca | " in text


def draws(areas: dict[str, list[float]]) -> bootstrap.Draws:
    runs = [
        {"row": row, "task": "t", "group": "g", "seed": seed, "area": area}
        for row, of_row in areas.items()
        for seed, area in enumerate(of_row)
    ]
    return bootstrap.given_tasks(pd.DataFrame(runs), draws=500)


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_rank_correlation_is_that_of_scipy_draw_by_draw() -> None:
    one = draws({"a": [0.1, 0.5], "b": [0.2, 0.4], "c": [0.3, 0.9], "d": [0.3, 0.3]})
    two = draws({"a": [0.6, 0.5], "b": [0.2, 0.2], "c": [0.7, 0.1], "d": [0.3, 0.4]})
    found = RankCorrelation.of(one, two)
    estimates = (np.round(each.estimates.mean(0), 9) for each in (one, two))  # a, b and d tie
    value = stats.spearmanr(*estimates).statistic
    assert found.value == pytest.approx(value)
    each = [stats.spearmanr(a, b).statistic for a, b in zip(one.overall, two.overall, strict=True)]
    bounds = np.nanquantile(each, [0.025, 0.975])
    assert [found.low, found.high] == pytest.approx(list(bounds))
    assert found.low < found.high


def test_a_side_of_ties_has_no_rank_correlation() -> None:
    one, two = draws({"a": [0.1], "b": [0.2]}), draws({"a": [0.5], "b": [0.5]})
    assert np.isnan(RankCorrelation.of(one, two).value)
    with pytest.raises(PosbenchError, match="same rows"):
        RankCorrelation.of(one, draws({"a": [0.1], "c": [0.2]}))


def test_p_counts_orders_and_the_lowest_of_the_large_model_may_make_a_correlation() -> None:
    sides = pd.DataFrame(
        {"large": [5.0, 4.0, 3.0, 2.0, 1.0], "small": [3.0, 5.0, 4.0, 1.0, 2.0]}, list("abcde")
    )
    found = predicting.Prediction("copy", 2.0, sides, 3, 30, RankCorrelation(0.6, 0.0, 1.0))
    orders = [
        stats.spearmanr(order, sides["small"]).statistic
        for order in itertools.permutations(sides["large"])
    ]
    assert found.p == pytest.approx(np.mean([abs(each) >= 0.6 - 1e-9 for each in orders]))
    assert found.without_lowest == pytest.approx(-0.5)
    (page,) = (
        line for line in predicting.markdown([found], HOST, "cpu").splitlines() if "Without" in line
    )
    assert page == "Without `d` and `e`, the lowest of the large model, it is -.50."
