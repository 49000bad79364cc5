"""What a board has found, in sentences, each with its tasks, its trainings and its interval.

- **Which reaches furthest of what it has learned** is asked of each section: its first row, which
  rows differ from it (paired differences on common tasks, corrected by Holm), and what is below the
  table.
- **Extensions** of a host are asked about at 2x, 4x and 8x, on the tasks that the host has learned,
  beside the host as it was trained.
- What was not learned is named as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from posbench.base.wording import agreeing, counted, listed
from posbench.boards.ranking import ROUNDING, RankedRows
from posbench.config.board import JudgingRule
from posbench.showing.pages import Chapter
from posbench.showing.table import (
    Markdown,
    bounds,
    number,
    span,
)
from posbench.statistics.aggregates import is_pretrained
from posbench.statistics.standings import SIGNIFICANT

LENGTHS = (2.0, 4.0, 8.0)
FEW = 4
"""The most names in a sentence."""
LEAST_PLACED = 3
"""One row in so many must have a place before one of several is called first."""
EQUIVALENT = JudgingRule().equivalent
"""Numbers that differ by less count as equal, on every board."""


def answer(standing: RankedRows) -> Iterator[str]:
    """What a section says, in sentences; nothing where no two rows can be compared."""
    if len(standing.known) < 2:
        return
    if standing.part.is_of_a_host:
        yield from _at_lengths(standing, LENGTHS)
        yield from _of_no_use(standing)
        return
    yield from _first_place(standing)
    if higher := _higher(standing):
        more = " and have higher numbers there" * bool(standing.placed)
        yield (
            "Below the table are rows with fewer than two thirds of the tasks run and learned"
            f"{more}: {_beginning(higher)}."
        )
    yield _learned(standing)
    yield from _hard(standing)


def _beginning(said: Sequence[str]) -> str:
    """The first three of a list, and how many more there are."""
    more = [f"and {len(said) - 3} more"] * (len(said) > 3)
    return "; ".join([*said[:3], *more])


def headline(found: Sequence[RankedRows]) -> Iterator[str]:
    """The answer of a board in a few sentences: which encoding reaches furthest, what is below the
    table, and which extension of each host reaches furthest at the longest length.
    """
    first = first_compared(found)
    if first is None:
        yield "No two rows can be compared yet."
        return
    yield from from_scratch(first, found)
    yield from of_models(first, found)


def first_compared(found: Sequence[RankedRows]) -> RankedRows | None:
    """The first section in which rows can be compared."""
    return next((each for each in found if len(each.known) > 1), None)


def first_shown(found: Sequence[RankedRows]) -> RankedRows | None:
    """The section that a page begins with: that one, or where there is none the first of all."""
    return first_compared(found) or next(iter(found), None)


def from_scratch(first: RankedRows, found: Sequence[RankedRows]) -> Iterator[str]:
    """What follows for a model that is trained from scratch."""
    if not first.part.is_of_a_host:
        yield from _first_place(first, short=True)
    mine = _of_one_kind(first, found)
    few = [said for each in mine if not each.part.is_of_a_host for said in _higher(each)]
    if few:
        yield (
            "Below the table, with fewer than two thirds of the tasks run and learned"
            f"{', and yet higher' * bool(first.placed)}: {_beginning(few)}."
        )


def of_models(first: RankedRows, found: Sequence[RankedRows]) -> Iterator[str]:
    """What follows for a model that is trained already."""
    for each in _of_one_kind(first, found):
        if len(each.known) < 2 or not each.part.is_extended:
            continue
        if each.part.is_of_a_host:
            yield from _at_lengths(each, LENGTHS[-1:], short=True)
        elif each.placed:
            row = each.placed[0]
            line = each.summary.loc[row]
            of = f"furthest of {counted(len(each.placed), 'row')}," * (len(each.placed) > 1)
            reaches = f"{number(line['reaches'])}{bounds(line)}"
            yield (" ".join(filter(None, [f"{each.part.title}: {row} reaches", of, reaches])) + ".")


OF_A_METHOD = (
    Markdown("`posbench check FILE` tries what every encoding or extension promises, in seconds."),
    Markdown("`posbench compare FILE` trains it and gives its place among these rows."),
)


def doors(standings: Sequence[RankedRows]) -> dict[str, list[str]]:
    """What follows for three readers, with links to the sections that say more."""
    first = first_compared(standings)
    if first is None:
        return {}
    extended = [each for each in standings if each.part.is_extended]
    scratch = [] if first.part.is_extended else [*from_scratch(first, standings), _links([first])]
    found: dict[str, list[str]] = {
        "I train from scratch": scratch,
        "I have a trained model": [*of_models(first, standings), _links(extended)],
        "I have a method of my own": [*OF_A_METHOD],
    }
    return {title: said for title, said in found.items() if len(said) > 1}


def _links(standings: Sequence[RankedRows]) -> Markdown:
    parts = [Chapter(each.part.title, []) for each in standings]
    return Markdown(", ".join(f"[{part.title}](#{part.anchor})" for part in parts))


def _of_one_kind(first: RankedRows, found: Sequence[RankedRows]) -> list[RankedRows]:
    return [each for each in found if each.kind == first.kind and not each.part.rows.protocol]


def _first_place(standing: RankedRows, *, short: bool = False) -> Iterator[str]:
    """Which row is first, and without what it stays so; where few rows have a place, how few."""
    placed, rows = len(standing.placed), len(standing.summary)
    if not placed:
        return
    if 1 < placed < rows / LEAST_PLACED:
        yield (
            f"{placed} of {rows} rows have been run on two thirds of the tasks and learned them. "
            "Those are too few for a first place."
        )
        return
    yield _furthest(standing, short=short)
    yield from _without_each(standing, short=short)


def _furthest(standing: RankedRows, *, short: bool = False) -> str:
    """The first row of a table, and what is known of the others beside it."""
    name = standing.short_name if short else str
    summary = standing.summary
    first, *others = standing.placed
    line = summary.loc[first]
    if not others:
        return (
            f"{name(first)} alone has learned two thirds of the tasks, and reaches "
            f"{number(line['reaches'])}{bounds(line)}, {_on(standing, first)}."
        )
    said = (
        f"On the tasks that each row learned, {name(first)} reaches furthest of "
        f"{counted(len(standing.placed), 'row')}: {number(line['reaches'])}{bounds(line)}, "
        f"{_on(standing, first)}."
    )
    level = [row for row in others if line["reaches"] - summary.loc[row, "reaches"] < EQUIVALENT]
    if level:
        said += (
            f" That is less than {number(EQUIVALENT)} above {_few(map(name, level))}, which the "
            "board counts as equal."
        )
    sure, rest, untested = _tested(summary, others)
    if rest:
        near = rest[: 1 if short else 3]
        shown = "; ".join(
            f"{name(row)} minus {name(first)} is {_less(summary.loc[row])}" for row in near
        )
        said += (
            f" {counted(len(rest), 'row')} {agreeing(len(rest), 'is', 'are')} not shown to differ "
            f"from it. On the tasks that both have learned, {shown}."
        )
    if sure and not short:
        said += (
            f" {counted(len(sure), 'row')} {agreeing(len(sure), 'differs', 'differ')} from it: the "
            f"highest is {name(sure[0])} ({number(summary.loc[sure[0], 'reaches'])}), "
            f"{_less(summary.loc[sure[0]])}."
        )
    if untested and not short:
        said += (
            f" {counted(len(untested), 'row')} {agreeing(len(untested), 'has', 'have')} learned "
            "too few tasks in common with it for a test."
        )
    return said


def _few(names: Iterable[str]) -> str:
    """Names as a sentence lists them, the first ones where there are many."""
    every = [*names]
    others = [counted(len(every) - FEW, "other")] if len(every) > FEW else []
    return listed([*every[:FEW], *others])


def _tested(less: pd.DataFrame, rows: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The rows that differ, those not shown to, and those with too few common tasks for a test."""
    p = less["p_holm"]
    sure = [row for row in rows if p[row] < SIGNIFICANT]
    untested = [row for row in rows if pd.isna(p[row])]
    return sure, [row for row in rows if row not in {*sure, *untested}], untested


def _without_each(standing: RankedRows, *, short: bool = False) -> Iterator[str]:
    """Which row is first where one task or one seed is left out."""
    if not (found := standing.first_without):
        return
    name = standing.short_name if short else str
    first = standing.placed[0]
    others: dict[str, list[str]] = {}
    for left_out, row in found.items():
        if row != first:
            others.setdefault(row, []).append(left_out)
    if not others:
        yield f"{name(first)} stays first {' and '.join(_stays(standing))}."
        return
    shown = "; ".join(f"{name(row)} without {listed(each, 'or')}" for row, each in others.items())
    each = " or ".join(_left_out(standing))
    yield f"Another row is first if one {each} is left out: {shown}."


def _stays(standing: RankedRows) -> Iterator[str]:
    """Without what a row stays first: seeds by name, where only some could be left out."""
    seeds = [each for each in standing.first_without if each.startswith("seed ")]
    if len(seeds) in (0, standing.part.runs["seed"].nunique()):
        yield f"whichever {' or '.join(_left_out(standing))} is left out"
        return
    if len(standing.tasks) > 1:
        yield "whichever task is left out"
    yield f"without {listed(seeds, 'or')}"


def _left_out(standing: RankedRows) -> Iterator[str]:
    """What was left out, one at a time."""
    seeds = any(each.startswith("seed ") for each in standing.first_without)
    yield from ["task"] * (len(standing.tasks) > 1) + ["seed"] * seeds


def _higher(standing: RankedRows) -> list[str]:
    """The rows that have learned too few tasks for a place, though more than one, and reach
    further on those.
    """
    summary, first = standing.summary, standing.placed
    limit = summary.loc[first[0], "reaches"] if first else -1.0
    return [
        f"{row} {number(summary.loc[row, 'reaches'])}{bounds(summary.loc[row])}, "
        f"{_on(standing, row)}"
        for row in standing.known
        if row not in first and standing.is_measured(row) and summary.loc[row, "reaches"] > limit
    ]


def _learned(standing: RankedRows) -> str:
    """How many rows learn how much."""
    summary, tasks = standing.summary, len(standing.tasks)
    whole = int((summary["tasks"] == tasks).sum())
    every = summary.index[summary["learned"].round(9) == 1]
    every = [str(row) for row in every if summary.loc[row, "num_tasks"] == tasks]
    # Extensions of one host share its trainings, and those of a pretrained model its samples.
    runs = standing.part.runs.drop_duplicates(["task", "seed", "training"])
    unit, verb = "training", "learned"
    solved = f"learned {agreeing(len(runs), 'its', 'their')} task at 1x"
    if is_pretrained(standing.kind):
        unit, verb = "sample", "answered"
        solved = f"{agreeing(len(runs), 'is', 'are')} answered at 1x without an extension"
    every_task = "the task" if tasks == 1 else f"each of the {tasks} tasks"
    shown = f": {listed(every)}" if every and len(every) <= FEW else ""
    return (
        f"{int(runs['learned'].sum()):,} of {counted(len(runs), unit)} {solved}. "
        f"{whole or 'None'} of {counted(len(summary), 'row')} "
        f"{agreeing(whole or 1, 'has', 'have')} {verb} {every_task} at "
        f"least once, {len(every) or 'none'} with every {unit}{shown}."
    )


def _at_lengths(
    standing: RankedRows, lengths: Sequence[float], *, short: bool = False
) -> Iterator[str]:
    """Which extension is first at each length, on what its host has learned."""
    (host,) = standing.part.rows.encodings
    fitted = standing.fitted
    if fitted is None:
        return
    for multiple in (each for each in lengths if each in standing.lengths):
        at = standing.at(multiple).sort_values("number", ascending=False, kind="stable")
        first = str(at.index[0])
        less = fitted.differences(first, list(map(str, at.index)), f"{multiple:g}x")
        sure, rest, untested = _tested(less, list(map(str, less.index)))
        highest = at["number"].iloc[0] - at["number"] < ROUNDING
        equal = [str(row) for row in at.index[highest]]
        said = (
            f"At {multiple:g}x, on {host}, {_few(equal)} "
            f"{agreeing(len(equal), 'is', 'are')} highest: "
            f"{number(at.loc[first, 'number'])}{bounds(at.loc[first])}, {_on(standing, first)}"
        )
        alone = standing.part.as_trained
        if alone in less.index:
            said += (
                f"; {host} without an extension is at {number(at.loc[alone, 'number'])}, and "
                f"its difference to the first is {_less(less.loc[alone])}"
            )
        if short:
            yield f"{said}."
            continue
        near = listed([standing.short_name(row) for row in rest[:3]])
        shown = agreeing(len(sure) or 1, "is", "are")
        said += f". {len(sure) or 'None'} of {len(less)} others {shown} shown to differ from it"
        said += f"; of the rest, {near} {agreeing(len(rest[:3]), 'is', 'are')} highest" * bool(rest)
        said += f"; {counted(len(untested), 'row')} cannot be tested" * bool(untested) + "."
        yield said


def _hard(standing: RankedRows) -> Iterator[str]:
    """The tasks that no training has learned, or fewer than half."""
    once = standing.part.runs.drop_duplicates(["task", "seed", "training"])
    learned = once.groupby("task")["learned"].mean()
    if never := list(learned.index[learned == 0]):
        yield f"No row has learned {listed(never, 'or')}, so how far it reaches there is not known."
    half = [
        f"{task} ({math.floor(100 * each)} %)" for task, each in learned.items() if 0 < each < 0.5
    ]
    if half and not is_pretrained(standing.kind):
        yield f"Fewer than half of the trainings learned {listed(half)}."


def _of_no_use(standing: RankedRows) -> Iterator[str]:
    """The tasks on which a host that has not learned them says nothing of its extensions."""
    learned = standing.part.runs.groupby("task")["learned"].any()
    if never := list(learned.index[~learned]):
        (host,) = standing.part.rows.encodings
        yield (
            f"No training of {host} learned {listed(never, 'or')}, so nothing is known of "
            "extensions there."
        )


def _on(standing: RankedRows, row: str) -> str:
    """On how many tasks, and of how many trainings."""
    line, runs = standing.summary.loc[row], standing.part.runs
    learned = runs.loc[runs["row"] == row, "learned"]
    unit = "sample" if is_pretrained(standing.kind) else "training"
    return (
        f"on {line['tasks']:.0f} of {counted(len(standing.tasks), 'task')}, learned by "
        f"{int(learned.sum())} of {counted(len(learned), unit)}"
    )


def _less(line: pd.Series) -> str:
    """A difference to the first, as in "-.02 (-.24 to .20, 10 tasks)"."""
    low, high = (line.get(f"difference_{side}", line.get(side)) for side in ("low", "high"))
    tasks = counted(int(line["common"]), "task") if not pd.isna(line["common"]) else ""
    ends = f"{span(low, high)}, " if not pd.isna(low) else ""
    return f"{number(line['difference'])} ({ends}{tasks})"
