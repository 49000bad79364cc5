"""Does the small board predict the large model? How extensions rank on both.

On each task that both have, and at each length beyond 1x that both were tested at:

    small(e) = mean over seeds of the corrected score of extension e on the host, rope_short_base
    large(e) = mean over samples of the log-likelihood of an answer's token under e
    rho      = Spearman's rank correlation of the two, over the extensions that both have

The interval is over draws of seeds and of samples, and p is the share of all orders of the
extensions whose correlation is at least as far from 0: it says whether so few extensions can show
an agreement at all. The host has the short base, at which 70 % of the pairs complete a turn in
training; of SmolLM2's 32 pairs, 62 % do in its 8,192 positions. This rule was written when one of
that model's three texts had been measured at 1.5x.

A second interval came when the results were known. It is over other extensions and other texts,
drawn again with those that are there, and over seeds.

`python results/pretrained/predicting.py LARGE SMALL` reads the records of both folders and writes
predicting.md into LARGE.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.base.wording import counted
from posbench.config import command_lines
from posbench.records import files, tables
from posbench.showing.table import code, number, pipes, plain
from posbench.statistics import aggregates
from posbench.statistics.aggregates import CONFIDENCE, PRETRAINED, ZERO_SHOT, Array
from posbench.statistics.likelihoods import Draws, resampled
from posbench.statistics.measures import corrected_lines

FILE = "predicting.md"
ORDERS = 100_000
"""Orders of the extensions that are looked at: all of eight."""
FEWEST = 3
"""A rank correlation of fewer extensions says nothing."""


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's, of the overall numbers of the same rows on two sides, with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def over_rows(cls, one: Draws, other: Draws, seed: int = 0) -> RankCorrelation:
        """The same, of rows that are drawn again with each draw of the two sides. Draws with fewer
        rows than `FEWEST` say nothing.
        """
        count = len(one.rows)
        random = np.random.default_rng(seed)
        rows = random.integers(count, size=(len(one.overall), count))
        enough = np.array([len(set(each)) >= FEWEST for each in rows.tolist()])
        drawn = [np.take_along_axis(each.overall, rows, 1)[enough] for each in (one, other)]
        again = [
            Draws(side.rows, side.estimates, overall)
            for side, overall in zip((one, other), drawn, strict=True)
        ]
        return cls.of(*again)

    @classmethod
    def of(cls, one: Draws, other: Draws) -> RankCorrelation:
        """Rows that tie share their mean rank; draws in which all of one side tie say nothing.

        NaN where the estimates of one side tie. Raises `PosbenchError` if rows differ.
        """
        if one.rows != other.rows:
            raise PosbenchError("a rank correlation is of the same rows on both sides")
        value = _correlated(one.estimates[None], other.estimates[None])
        drawn = _correlated(one.overall, other.overall)
        drawn = drawn[~np.isnan(drawn)]
        if np.isnan(value[0]) or not len(drawn):
            return cls(np.nan, np.nan, np.nan)
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return cls(float(value[0]), float(low), float(high))


def _correlated(one: Array, other: Array) -> Array:
    """Rank correlation of each draw; both are [draw, row]."""
    sides = [stats.rankdata(np.round(values, 9), axis=1) for values in (one, other)]
    centred = [ranks - ranks.mean(1, keepdims=True) for ranks in sides]
    norms = np.sqrt((centred[0] ** 2).sum(1) * (centred[1] ** 2).sum(1))
    products = (centred[0] * centred[1]).sum(1)
    return np.divide(products, norms, out=np.full(len(norms), np.nan), where=norms > 0)


@dataclass(frozen=True)
class Prediction:
    """One task at one length: both numbers of each extension, and how their orders agree."""

    task: str
    multiple: float
    sides: pd.DataFrame  # by extension, columns `small` and `large`
    seeds: int
    samples: int
    agreed: RankCorrelation
    texts: int
    over_rows: RankCorrelation  # and over texts

    @property
    def p(self) -> float:
        """Two-sided, over all orders of the extensions, or a sample of them if they are many."""
        large, small = (self.sides[side].rank().to_numpy() for side in ("large", "small"))
        found = stats.permutation_test(
            (large,),
            lambda order, axis: ((order - large.mean()) * (small - small.mean())).sum(axis),
            permutation_type="pairings",
            n_resamples=ORDERS,
            vectorized=True,
            rng=np.random.default_rng(0),
        )
        return float(found.pvalue)

    @property
    def without_lowest(self) -> float:
        """The correlation without the two that are lowest in the large model, which any measure
        may have told; NaN of fewer than five.
        """
        rest = self.sides.iloc[:-2]
        return float(rest.corr("spearman").loc["small", "large"]) if len(rest) >= FEWEST else np.nan

    @classmethod
    def of(
        cls,
        task: str,
        multiple: float,
        small: pd.DataFrame,
        large: pd.DataFrame,
        questions: int,
    ) -> Prediction:
        """`small` holds corrected scores, `large` log-likelihoods: [seed or sample, extension]. As
        many samples as `questions` share a text.
        """
        drawn = resampled(small, task)
        texts = large.groupby(large.index // questions).mean()
        return cls(
            task,
            multiple,
            pd.DataFrame({"small": small.mean(), "large": large.mean()}).sort_values(
                ["large", "small"], ascending=False
            ),
            len(small),
            len(large),
            RankCorrelation.of(drawn, resampled(large)),
            len(texts),
            RankCorrelation.over_rows(drawn, resampled(texts)),
        )


def predictions(
    large: pd.DataFrame, small: pd.DataFrame, host: str, protocol: str, questions: int = 1
) -> list[Prediction]:
    """Predictions from the long tables of a pretrained model and of a board, for rows with
    default settings; of the board, those of a host under a protocol.

    Lengths and tasks with fewer than three extensions in common are left out. Raises
    `PosbenchError` if either side holds several versions of one run, which cannot be compared.
    """
    usual = large[(large["method_class"] == PRETRAINED) & (large["changed"] == "")]
    hosted = small[small["protocol"] == protocol]
    hosted = hosted[(hosted["encoding"] == host) & (hosted["changed"] == "")]
    hosted = hosted[(hosted["method_class"] == ZERO_SHOT) & ~hosted["task_changed"]]
    for side in (usual, hosted):
        tables.refuse_mixed(side, ["task", "extension"])
    hosted = hosted.assign(value=corrected_lines(hosted))
    usual = usual.assign(value=-usual["loss"])
    found = []
    for (task, multiple), theirs in usual[usual["multiple"] > 1].groupby(["task", "multiple"]):
        ours = hosted[(hosted["task"] == task) & (hosted["multiple"] == multiple)]
        wide = [
            each.pivot_table(index="seed", columns="extension", values="value")
            for each in (ours, theirs)
        ]
        both = sorted(set(wide[0]) & set(wide[1]))
        # Seeds and samples that all of them have.
        whole = [each[both].dropna() for each in wide]
        if len(both) >= FEWEST and all(len(each) for each in whole):
            found.append(Prediction.of(str(task), float(multiple), *whole, questions))
    return found


def refuse_several(large: pd.DataFrame, folder: Path) -> None:
    """PosbenchError if a folder has several pretrained models or protocols."""
    of_models = large[large["method_class"] == PRETRAINED]
    for column, what, option in (
        ("encoding", "models", "--method '*@{}'"),
        ("protocol", "protocols", "--protocol {}"),
    ):
        names = sorted(of_models[column].unique())
        if len(names) > 1:
            raise PosbenchError(
                f"{folder} has records of the {what} {' and '.join(names)}, and a page is of one: "
                f"put those of one into a folder, posbench records publish --from {folder} "
                f"--to FOLDER {option.format(names[0])}"
            )


def markdown(found: Sequence[Prediction], host: str, protocol: str) -> str:
    lines = [
        "# Does the small board predict the large model?",
        "",
        f"Small: the score of an extension on {code(host)} under protocol {protocol}, corrected "
        "for chance, the mean over seeds. "
        "Large: the log-likelihood of a token of the answer under the same extension of the "
        "pretrained model, in nats, the mean over samples. Spearman's rank correlation of the two "
        "has its 95 % interval over draws of seeds and samples with these extensions, and a p over "
        "all orders of the extensions. Noise on either side draws it towards 0. There samples are "
        "drawn as if each had a text to itself. A second interval is over other extensions, other "
        "texts and seeds. It was added when the results were known. It is one model, one small "
        "host and a hand-picked set of extensions: other models and other tasks may agree less. "
        "The rule was written when one of the large model's three texts had been measured.",
        "",
    ]
    for each in found:
        lines += _section(each)
    if not found:
        lines += ["No task has three extensions on both sides yet.", ""]
    lines.append("Generated by `python results/pretrained/predicting.py`; do not edit.")
    return "\n".join(lines) + "\n"


def _section(found: Prediction) -> Iterator[str]:
    yield from (f"## {found.task} at {found.multiple:g}x", "")
    agreed, few = found.agreed, min(found.seeds, found.samples) < aggregates.FEWEST
    interval = "" if few else f"95 % {number(agreed.low)} to {number(agreed.high)}; "
    yield (
        f"Over {len(found.sides)} extensions the rank correlation is {number(agreed.value)} "
        f"({interval}p {_shown(found.p)}), with {counted(found.seeds, 'seed')} and "
        f"{counted(found.samples, 'sample')}{', too few for an interval' if few else ''}."
    )
    if found.texts >= aggregates.FEWEST and not few:
        low, high = number(found.over_rows.low), number(found.over_rows.high)
        yield (
            f"Over other extensions and texts the interval is {low} to {high}, by "
            f"{counted(found.texts, 'text')}."
        )
    if not np.isnan(found.without_lowest):
        lowest = " and ".join(f"{code(each)}" for each in found.sides.index[-2:])
        rest = number(found.without_lowest)
        yield f"Without {lowest}, the lowest of the large model, it is {rest}."
    rows = [
        [plain(str(extension)), number(line["small"]), f"{line['large']:.2f}"]
        for extension, line in found.sides.iterrows()
    ]
    yield from ("", *pipes(["extension", "small", "large"], rows), "")


def _shown(p: float) -> str:
    return "< .01" if p < 0.01 else f"= {number(p)}"


def main(arguments: list[str] | None = None) -> int:
    command = "python results/pretrained/predicting.py"
    parser = command_lines.parser(
        command, "Two boards in, how far one predicts the other out.", check=True
    )
    parser.add_argument("large", type=Path, help="with the records of a pretrained model")
    parser.add_argument("small", type=Path, help="with the records of a board")
    parser.add_argument("--host", default="rope_short_base", help="of the board's extensions")
    parser.add_argument("--protocol", default="cpu", help="of the board's records")
    chosen = parser.parse_args(arguments)

    def page() -> str:
        records = files.records(chosen.large)
        large, small = tables.table(records), tables.table(files.records(chosen.small))
        refuse_several(large, chosen.large)
        questions = max(each.config["task"].get("questions", 1) for each in records)
        found = predictions(large, small, chosen.host, chosen.protocol, questions)
        return markdown(found, chosen.host, chosen.protocol)

    command = f"{command} {chosen.large} {chosen.small}"
    command += f" --host {chosen.host} --protocol {chosen.protocol}"
    return command_lines.write_page(chosen.large / FILE, page, command, chosen.check)


if __name__ == "__main__":
    sys.exit(main())
