"""The page: what stops each method, side by side, as one HTML file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posbench.base.wording import agreeing
from posbench.core.row import Row, View
from posbench.explain.measures import Inside
from posbench.showing.figures import (
    COLOURS,
    DASHES,
    MARKERS,
    STYLE,
    axis_of_lengths,
    depth_map_svg,
    in_colours_of_page,
    plain_ticks,
    score_by_length,
    svg_text,
)
from posbench.showing.pages import Block, Chapter, Items, Page, Picture
from posbench.showing.table import NOTHING, Line, Markdown, Table, code, number
from posbench.statistics.measures import corrected, corrected_lines

# -- sentences say what changes between the training length and a longer one -----------------------

STOPPED = 0.5
"""Below this share of its score at 1x, both corrected for chance, a method has stopped."""


def stops_at(inside: Inside) -> float:
    """The first of the lengths at which less than half of the score at 1x is left, beyond what
    guessing gives, or the last.
    """
    lengths = inside.lengths
    scores = corrected_lines(lengths)
    lost = lengths.index[scores < STOPPED * scores[0]]
    return float(lost[0] if len(lost) else lengths.index[-1])


def reader(inside: Inside) -> tuple[int, int]:
    """The head that looks most at the source at 1x; where there is no source, the one without
    which the model loses most.
    """
    first = _at(inside.heads, inside.lengths.index[0])
    by = "on_source" if first["on_source"].notna().any() else "without"
    chosen = first["on_source"].idxmax() if by == "on_source" else first["without"].idxmin()
    layer, head = chosen
    return int(layer), int(head)


def sentences(inside: Inside) -> Iterator[str]:
    """They name what differs where the method stops, or at the longest test if it does not."""
    near, far = float(inside.lengths.index[0]), stops_at(inside)
    scores = inside.lengths["score"]
    yield (
        f"On these {inside.samples} sequences its score is {number(scores[near])} at {near:g}x and "
        f"{number(scores[far])} at {far:g}x."
    )
    if far == near:
        return
    if corrected_lines(inside.lengths)[0] < STOPPED:
        yield "It has not learned its task at the training length: longer ones tell little."
    layer, head = reader(inside)
    named = f"layer {layer + 1}, head {head + 1}"
    before, after = (_at(inside.heads, at).loc[(layer, head)] for at in (near, far))
    if not math.isnan(before["on_source"]):
        shares = [number(each["on_source"]) for each in (before, after)]
        yield (
            f"The head that looks most at the right token ({named}) has {shares[0]} of its "
            f"attention there at {near:g}x, and {shares[1]} at {far:g}x; its logit is "
            f"{before['margin']:+.1f} above all others, and then {after['margin']:+.1f}."
        )
    yield (
        f"That head spreads its attention over {before['keys']:.1f} keys at {near:g}x and over "
        f"{after['keys']:.1f} at {far:g}x; its logits have a standard deviation of "
        f"{before['sd']:.1f} and {after['sd']:.1f}."
    )
    lost = scores[near] - _at(inside.heads, near)["without"]
    (worst_layer, worst_head), most = lost.idxmax(), lost.max()
    if most > 0:
        yield (
            f"Without layer {worst_layer + 1}, head {worst_head + 1} the score at {near:g}x is "
            f"{number(scores[near] - most)}: no other head is needed as much."
        )
    one, other = inside.lengths.loc[near], inside.lengths.loc[far]
    if not math.isnan(other["farthest"]):
        yield (
            f"It is asked to understand distances up to {one['farthest']:.0f} at {near:g}x, and up "
            f"to {other['farthest']:.0f} at {far:g}x."
        )
    if not math.isnan(other["unseen_phases"]):
        yield (
            f"At {far:g}x, {100 * other['unseen_phases']:.0f} % of its rotary pairs are at phases "
            f"that training has not shown; at {near:g}x, {100 * one['unseen_phases']:.0f} %."
        )


def _at(heads: pd.DataFrame, multiple: float) -> pd.DataFrame:
    return heads[heads["multiple"] == multiple].set_index(["layer", "head"]).sort_index()


# -- the pictures of the page ----------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """How a column of numbers is shown: its label, the range of its axis where that is known."""

    label: str
    limits: tuple[float, float] | None = None
    log: bool = False


PANELS = {
    "on_source": Panel("attention on the right token", (0.0, 1.0)),
    "keys": Panel("keys that it spreads over, $e^H$", log=True),
    "margin": Panel("logit of the right token above all others"),
    "without": Panel("score without the head", (0.0, 1.0)),
}


def of_heads(inside: Inside) -> str:
    """Four panels: a curve a head, layers by colour, heads by dash."""
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(6.6, 6), layout="constrained")
        panels = figure.subplots(2, 2)
        for axes, (column, panel) in zip(panels.flat, PANELS.items(), strict=True):
            for (layer, head), part in inside.heads.groupby(["layer", "head"]):
                _curve(axes, part, column, int(layer), int(head))
            if column == "without":
                scores = inside.lengths["score"]
                axes.plot(scores.index, scores, color="0.4", linewidth=1, label="with all")
            _dress(axes, list(inside.lengths.index), panel)
        handles, labels = panels.flat[3].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return svg_text(figure)


def _curve(axes: Axes, part: pd.DataFrame, column: str, layer: int, head: int) -> None:
    axes.plot(
        part["multiple"],
        part[column],
        label=f"layer {layer + 1}, head {head + 1}",
        color=COLOURS[layer % len(COLOURS)],
        linestyle=DASHES[head % len(DASHES)],
        marker=MARKERS[head % len(MARKERS)],
        markersize=4.5,
        markerfacecolor="white",
    )


def _dress(axes: Axes, ticks: list[float], panel: Panel) -> None:
    axis_of_lengths(axes, ticks)
    axes.set_title(panel.label, fontsize=10)
    if panel.limits:
        axes.set_ylim(panel.limits[0] - 0.03, panel.limits[1] + 0.03)
    elif panel.log:
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    else:
        axes.axhline(0, color="0.6", linewidth=1, linestyle=":")
    axes.spines[["top", "right"]].set_visible(False)


# -- the page --------------------------------------------------------------------------------------

COLUMNS = {
    "score": "score",
    "farthest": "farthest distance",
    "unseen_phases": "pairs at unseen phases",
}


@dataclass(frozen=True)
class Explanation:
    """All that the page shows of one method."""

    label: str
    task: str
    measure: str  # what the score is
    command: str  # repeats the run
    rows: Sequence[Row]
    views: Sequence[View]
    inside: Inside

    @property
    def sentences(self) -> list[str]:
        return list(sentences(self.inside))

    @property
    def table(self) -> Table:
        """A line a length."""
        lengths = self.inside.lengths
        untrained = {row.multiple: row.untrained for row in self.rows}
        lines = []
        for multiple in lengths.index:
            values = [float(lengths.loc[multiple, name]) for name in COLUMNS]
            share = untrained.get(multiple)
            cells = [number(values[0]), number(values[1], 0), number(values[2])]
            cells.append(NOTHING if share is None else number(share))
            lines.append(Line(f"{multiple:g}x", cells))
        return Table.of(["length", *COLUMNS.values(), "entries never trained"], lines)

    @property
    def depths(self) -> str | None:
        """Accuracy by length and depth of the source, where the task has sources."""
        return depth_map_svg(self.rows, self.views)


def title(explained: Sequence[Explanation]) -> str:
    go = agreeing(len(explained), "goes", "go")
    labels = " and ".join(each.label for each in explained)
    return f"How far {labels} {go} on {explained[0].task}, and why"


def html(explained: Sequence[Explanation]) -> str:
    picture = score_by_length({each.label: each.rows for each in explained}, explained[0].measure)
    page = Page(
        title(explained),
        [_part(each) for each in explained],
        [Markdown("Made by `posbench explain` from a checkpoint of each run.")],
        lead=[measured_on(explained[0]), READING.format(samples=explained[0].inside.samples)],
        answer=[kept(each) for each in explained],
        picture=Picture(in_colours_of_page(picture)),
        style=STYLE_OF_PAGE,
    )
    return page.html()


def measured_on(explained: Explanation) -> str:
    """What was measured, and how a score is read."""
    first, last = (end(explained.rows, key=lambda row: row.multiple) for end in (min, max))
    return (
        f"A model was trained on {explained.task} and then tested on sequences of up to "
        f"{last.test_positions:,} positions, {last.multiple:g} times those of training. Its score "
        f"is the {explained.measure}: 1 is no error, and guessing gives {number(first.chance)}."
    )


def kept(explained: Explanation) -> str:
    """Where a method stops, in a sentence."""
    known = [row for row in explained.rows if row.multiple >= 1] or explained.rows
    scores = {row.multiple: float(corrected(row.score, row.chance)) for row in known}
    first, last = min(scores), max(scores)
    if scores[first] < STOPPED:
        return f"{explained.label} has not learned the task: it has less than half of it at 1x."
    lost = [at for at in sorted(scores) if scores[at] < STOPPED * scores[first]]
    if lost:
        return f"{explained.label} has lost more than half of its score at {lost[0]:g}x."
    return f"{explained.label} keeps at least half of its score up to {last:g}x."


READING = (
    "The first curves use all sequences that the run was tested on, and all else uses {samples} a "
    "length. Attention and logits are means over the tokens that are asked for. They show what "
    "changes together, not what causes what. The score without a head shows how much the model "
    "needs it."
)
STYLE_OF_PAGE = """
#tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 0 2rem; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; }
figure { margin: 1rem 0; }
figure svg { min-width: 30rem; max-width: 48rem; }
main > figure svg { min-width: 44rem; max-width: 66rem; }
"""  # noqa: E501


def _part(each: Explanation) -> Chapter:
    blocks: list[Block] = [Items(each.sentences), each.table]
    blocks.append(Picture(in_colours_of_page(of_heads(each.inside))))
    if each.depths:
        blocks.append("Token accuracy by length and by where in the prompt the source is.")
        blocks.append(Picture(in_colours_of_page(each.depths)))
    return Chapter(each.label, [*blocks, Markdown(code(each.command))])


def text(explained: Explanation) -> str:
    """The page for a terminal: the sentences, and the numbers of each head at 1x and where it
    stops.
    """
    lines = [explained.label, *(f"  {sentence}" for sentence in explained.sentences)]
    return "\n".join([*lines, "", _aligned(explained.inside.heads)])


def _aligned(heads: pd.DataFrame) -> str:
    shown = heads.assign(layer=heads["layer"] + 1, head=heads["head"] + 1)
    columns = ["multiple", "layer", "head", "on_source", "keys", "margin", "sd", "without"]
    formats = {"multiple": "{:g}x", "layer": "{:.0f}", "head": "{:.0f}", "keys": "{:.1f}"}
    formats |= {"margin": "{:+.1f}", "sd": "{:.1f}"}
    rows = []
    for _, line in shown.iterrows():
        first, *cells = (
            formats[name].format(line[name]) if name in formats else number(line[name])
            for name in columns
        )
        rows.append(Line(first, cells))
    return "\n".join(Table.of([name.replace("_", " ") for name in columns], rows).aligned())
