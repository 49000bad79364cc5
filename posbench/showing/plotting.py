"""The long table as a figure, for notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, known_names
from posbench.core.row import Unit
from posbench.records.tables import FIELDS, refuse_mixed
from posbench.showing.figures import MARKERS, axis_of_lengths
from posbench.statistics.aggregates import FEWEST, Estimate
from posbench.statistics.measures import refuse_lacking

WIDTH, HEIGHT, ACROSS = 4.2, 3.2, 3
LEGIBLE = 12
"""Curves that are drawn unless somebody names more."""
SHARES = {name for name, field in FIELDS.items() if Unit("share") in field.metadata}
"""Columns that are 1 at the most."""


class Plot(Figure):
    """A figure that a notebook shows as a picture, whatever its backend."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=110)
        return out.getvalue()


def plot(
    table: pd.DataFrame,
    methods: str | Sequence[str] | None = None,
    tasks: str | Sequence[str] | None = None,
    measure: str = "score",
) -> Plot:
    """Draw a measure against the test length, a panel a task, a line a method.

    Lengths are multiples of the trained one, on a logarithmic axis, on which 1 is marked. A line
    is the mean over seeds, at lengths that every seed has; the band is its 95 % interval (Student's
    t), drawn where there are three seeds or more. Dashes show what guessing scores.

    Args:
        table: of `posbench.results.load`, or other rows with its columns `task`, `method`, `seed`,
            `multiple`, `chance` and the measure; of one protocol, if it has that column
        methods: which row to draw, or which and in which order; without it all, twelve at most
        tasks: the same for the panels
        measure: a column with numbers

    Returns:
        The figure, for `display` or `savefig`. PosbenchError names a column, method, task or
        measure that the table lacks, protocols if there are several, and a row that mixes runs of
        several versions, or says that there are too many rows.
    """
    _refuse_lacking(table, measure)
    if "protocol" in table and table["protocol"].nunique() > 1:
        raise PosbenchError(
            f"the table holds runs of several protocols ({', '.join(table['protocol'].unique())}), "
            "which have no common mean: choose the rows of one"
        )
    if methods is None and (count := table["method"].nunique()) > LEGIBLE:
        raise PosbenchError(
            f"the table has {count} rows, and of more than {LEGIBLE} no curve can be told from the "
            "others: name those to draw, as methods=['rope', 'alibi']"
        )
    methods, tasks = _chosen(table, "method", methods), _chosen(table, "task", tasks)
    if not methods or not tasks:
        raise PosbenchError("the table has no rows: load a folder with records")
    drawn = table["method"].isin(methods) & table["task"].isin(tasks)
    refuse_mixed(table[drawn], ["task", "method"])
    across = min(len(tasks), ACROSS)
    down = -(-len(tasks) // across)
    figure = Plot(figsize=(WIDTH * across + 2, HEIGHT * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for axes, task in zip(panels, tasks, strict=False):
        _panel(axes, table[table["task"] == task], methods, measure)
        axes.set_title(task, parse_math=False)
    for axes in panels[len(tasks) :]:
        axes.set_axis_off()
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    named = [name for name in methods if name in lines]
    legend = figure.legend(
        [lines[name] for name in named], named, loc="outside right upper", frameon=False
    )
    for text in legend.get_texts():  # names of others, which may have dollars
        text.set_parse_math(False)
    figure.supxlabel("test length / training length")
    figure.supylabel(measure.replace("_", " "))
    return figure


def _refuse_lacking(table: pd.DataFrame, measure: str) -> None:
    """PosbenchError names a column that is missing, or holds no numbers."""
    if not isinstance(table, pd.DataFrame):
        raise PosbenchError(
            "the table must be a data frame, such as posbench.results.load(FOLDER), got a "
            f"{type(table).__name__}"
        )
    needed = {"task": False, "method": False, "seed": False, "multiple": True}
    refuse_lacking(table, needed | ({"chance": True} if measure == "score" else {}))
    numbers = [name for name in table if pd.api.types.is_numeric_dtype(table[name])]
    if measure not in numbers:
        near = closest(str(measure), map(str, numbers))
        meant = f": did you mean {near}?" if near else f": choose one of {', '.join(numbers)}"
        raise PosbenchError(f"measure={measure!r} is no column with numbers of this table{meant}")
    if not (table["multiple"] > 0).all():
        raise PosbenchError(
            "multiple must hold lengths as multiples of the trained one, above 0, got "
            f"{table['multiple'].min()}: leave such lines out"
        )


def _chosen(table: pd.DataFrame, column: str, asked: str | Sequence[str] | None) -> list[str]:
    known = sorted(map(str, table[column].unique()))
    if asked is None:
        return known
    if not isinstance(asked, Iterable):
        raise PosbenchError(f"{column}s must be a name or a list of names, got {asked!r}")
    names = [asked] if isinstance(asked, str) else list(dict.fromkeys(map(str, asked)))
    if not names:
        raise PosbenchError(f"no {column} is named: name one, or leave {column}s out for all")
    for name in names:
        if name not in known:
            raise PosbenchError(
                f"{column} {name!r} is not in the table: "
                + known_names(known, f"table[{column!r}].unique()", closest(name, known))
            )
    return names


def _panel(axes: Axes, table: pd.DataFrame, methods: Sequence[str], measure: str) -> None:
    axes.axvline(1, color="0.6", linewidth=1, linestyle=":")
    if measure == "score":
        chance = table.groupby("multiple")["chance"].mean()
        axes.plot(chance.index, chance, color="0.6", linewidth=1, linestyle="--")
    for look, name in enumerate(methods):
        _line(axes, table[table["method"] == name], name, look, measure)
    axis_of_lengths(axes, table["multiple"])
    axes.grid(alpha=0.25)


def _line(axes: Axes, runs: pd.DataFrame, name: str, look: int, measure: str) -> None:
    # The lengths that every seed has.
    at = runs.pivot(index="multiple", columns="seed", values=measure).dropna()
    if at.empty:
        return
    found = Estimate.each(at.to_numpy(float))
    mean = np.array([estimate.mean for estimate in found])
    marker = MARKERS[look % len(MARKERS)]
    (line,) = axes.plot(
        at.index, mean, label=name, color=f"C{look % 10}", marker=marker, markersize=4
    )
    if at.shape[1] >= FEWEST:
        half = np.array([estimate.half_width for estimate in found])
        low, high = mean - half, mean + half
        if measure in SHARES:  # a symmetric interval may end where no score can be
            low, high = low.clip(min(0.0, mean.min())), high.clip(max=1.0)
        axes.fill_between(at.index, low, high, color=line.get_color(), alpha=0.12)
