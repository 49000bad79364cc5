"""Sentences say what changes between the training length and a longer one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from posbench.explain.measures import Inside
from posbench.showing.numbers import number

STOPPED = 0.5
"""Below this share of its score at 1x a method is said to have stopped."""


def stops_at(inside: Inside) -> float:
    """The first of the lengths at which less than half of the score at 1x is left, or the last."""
    scores = inside.lengths["score"]
    lost = scores.index[scores < STOPPED * scores.iloc[0]]
    return float(lost[0] if len(lost) else scores.index[-1])


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
    if scores[near] < STOPPED:
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
