"""What was decided before a board ran: `python results/pilots/analysis.py` writes choices.md.

A panel is a table and a sentence; its rule was written down before its runs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from posbench.base.errors import PosbenchError
from posbench.config import command_lines
from posbench.config.board import AS_TRAINED, Board, load
from posbench.records import files
from posbench.records.record import Record, RecordedTraining
from posbench.showing.table import number, pipes
from posbench.statistics.correlation import rank_correlation
from posbench.statistics.measures import area


@dataclass(frozen=True)
class Choice:
    """A table, and the sentence that says what follows from it."""

    title: str
    table: pd.DataFrame
    decision: str

    @property
    def markdown(self) -> str:
        shown = self.table.map(lambda value: "" if value != value else str(value))
        lines = pipes(list(map(str, shown.columns)), shown.to_numpy().tolist())
        return "\n".join([f"## {self.title}", "", *lines, "", f"**{self.decision}**", ""])


@dataclass(frozen=True)
class PanelRun:
    """One run that a panel asks for, and its record, if it has been made."""

    part: str
    task: str
    row: str
    seed: int
    record: Record | None


def asked(records: Iterable[Record], panel: Board) -> Iterator[PanelRun]:
    """Every run of a panel, part by part."""
    known: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        method, where = record.method, (record.protocol.name, record.task.name, str(record.seed))
        for row in {(method.base, method.extension), (method.name, "")}:
            known.setdefault((*where, *row), []).append(record)
    for name, part in panel.parts.items():
        rows = [*itertools.product(part.encodings, part.extensions)]
        rows += [(method, "") for method in part.methods]
        for task, row, seed in itertools.product(part.tasks or panel.all_tasks, rows, part.seeds):
            key = (part.protocol or panel.protocol, task, str(seed), *row)
            mine = [each for each in known.get(key, []) if _has(each, part.settings)]
            called = row[0] if row[1] in ("", AS_TRAINED) else f"{row[0]} with {row[1]}"
            yield PanelRun(name, task, called, seed, mine[-1] if mine else None)


def of_panel(records: Iterable[Record], panel: Board) -> dict[str, list[Record]]:
    """The records of each part of a panel; PosbenchError if one is missing."""
    found: dict[str, list[Record]] = {}
    for run in asked(records, panel):
        if run.record is None:
            raise PosbenchError(
                f"panel {panel.name} has no record of {run.row} on {run.task}, seed {run.seed} "
                f"({run.part})"
            )
        found.setdefault(run.part, []).append(run.record)
    return found


def _has(record: Record, settings: Sequence[str]) -> bool:
    """Whether the record was made with these settings, and with no others that were changed.

    A setting that is the protocol's own is not among those that were changed.
    """
    changed = {
        change for name in (record.protocol, record.task, record.method) for change in name.changed
    }
    asked = dict(setting.split("=", 1) for setting in settings)
    if not {change.split("=", 1)[0] for change in changed} <= asked.keys():
        return False
    return all(_setting(record, key) == _read(value) for key, value in asked.items())


def _read(value: str) -> object:
    """A value as the command line reads it: to YAML itself 6e-3 is a text."""
    return OmegaConf.create(f"value: {value}").value


def _setting(record: Record, key: str) -> object:
    value: Any = record.config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def area_of(record: Record) -> float:
    """The area of all its lengths beyond training."""
    tested = record.rows
    return area(
        [row.true_multiple for row in tested],
        [row.score for row in tested],
        [row.chance for row in tested],
    )


# -- how many heads the model has ------------------------------------------------------------------


def heads(records: Iterable[Record], panel: Board) -> Choice:
    """CPU seconds to solved, or of all steps, with each number of heads; the fewest in all win."""
    rows = [
        {
            "encoding": record.method.base,
            "task": record.task.name,
            "heads": part,
            "seconds": record.training.cpu_seconds,
            "solved": record.solved_step is not None,
        }
        for part, several in of_panel(records, panel).items()
        for record in several
    ]
    frame = pd.DataFrame(rows)
    sums = frame.groupby("heads")["seconds"].sum()
    solved = frame.groupby("heads")["solved"].sum()
    each = frame.groupby(["encoding", "task", "heads"]).agg({"seconds": "sum", "solved": "sum"})
    cells = each["seconds"].round().astype(int).astype(str) + " (" + each["solved"].astype(str)
    shown = (cells + ")").unstack("heads").reset_index()
    said = ", ".join(f"{part}: {sums[part]:,.0f} s, {solved[part]} solved" for part in sums.index)
    return Choice(
        "Heads: CPU seconds to solved, over both seeds (seeds solved)",
        shown,
        f"{sums.idxmin()} ({said}; of {len(frame) // len(sums)} each)",
    )


# -- for how many steps each task is trained. It looks at validations at the -----------------------

STEPS = (1000, 2000, 4000)
"""The steps that a task may have; a training that never gets to its gate counts as the last."""


def steps(records: Iterable[Record], panel: Board) -> Choice:
    """Twice the median step to the gate of each task, rounded up to one of STEPS."""
    rows = []
    for record in (each for several in of_panel(records, panel).values() for each in several):
        step = STEPS[-1] if record.solved_step is None else record.solved_step
        rows.append({"task": record.task.name, "encoding": record.method.base, "step": step})
    frame = pd.DataFrame(rows)
    medians = frame.groupby("task")["step"].median()
    of_encodings = frame.groupby(["task", "encoding"])["step"].median().unstack("encoding")
    table = of_encodings.reindex(list(panel.all_tasks)).astype(int)
    table["median"] = medians
    table["steps"] = [chosen_steps(medians[task]) for task in table.index]
    return Choice(
        "Steps: the median step to the gate over three seeds (4,000: not reached), and twice the "
        "median over encodings, rounded up to 1,000, 2,000 or 4,000",
        table.reset_index(),
        ", ".join(f"{task}: {count:,}" for task, count in table["steps"].items()),
    )


def chosen_steps(median: float) -> int:
    """Twice the median, rounded up to one of STEPS, of which the last is the most."""
    return next((count for count in STEPS if 2 * median <= count), STEPS[-1])


# -- at which rate rows are trained ----------------------------------------------------------------

AGREE = 0.9
"""The rank correlation from which on one learning rate is fair to all."""
USUAL, OTHER = 3e-3, 6e-3
"""The learning rate of the protocol, and the one beside it where it is not fair."""


def rates(records: Iterable[Record], panel: Board) -> Choice:
    """Whether the order of encodings at the usual rate is that at each one's best rate."""
    rows = []
    for record in (each for several in of_panel(records, panel).values() for each in several):
        training = record.training
        rows.append(
            {
                "encoding": record.method.base,
                "task": record.task.name,
                "rate": training.learning_rate,
                "loss": _last(training),
                "area": area_of(record),
            }
        )
    frame = pd.DataFrame(rows)
    best = frame.loc[frame.groupby(["encoding", "task"])["loss"].idxmin()]
    usual = frame[frame["rate"] == USUAL].groupby("encoding")["area"].mean()
    at_best = best.groupby("encoding")["area"].mean()
    correlation = rank_correlation(usual, at_best)
    table = best.pivot(index="encoding", columns="task", values="rate").map("{:g}".format)
    table[f"area at {USUAL:g}"] = usual.round(3)
    table["area at those"] = at_best.round(3)
    fair = correlation >= AGREE
    then = (
        f"every row is trained at {USUAL:g}"
        if fair
        else f"every row is trained at the better of {USUAL:g} and {OTHER:g}, by its loss"
    )
    return Choice(
        "Learning rates: that with the lowest loss in distribution of each encoding on each task, "
        "and mean areas beyond training at the usual rate and at those",
        table.reset_index(),
        f"Rank correlation {correlation:.2f}: {then}",
    )


def _last(training: RecordedTraining) -> float:
    return training.curve.validation_loss[-1] if training.curve.validation_loss else np.inf


# -- whether the order of encodings rests on equal steps. It decides nothing -----------------------


def until_solved(records: Iterable[Record], panel: Board) -> Choice:
    """Whether encodings keep their order if each is trained until it has learned its task."""
    rows = [
        {
            "encoding": record.method.base,
            "trained": name,
            "area": area_of(record),
            "steps": record.training.steps,
        }
        for name, several in of_panel(records, panel).items()
        for record in several
    ]
    means = pd.DataFrame(rows).pivot_table(index="encoding", columns="trained")
    areas, steps = means["area"][list(panel.parts)], means["steps"][list(panel.parts)]
    table = pd.concat(
        [
            areas.round(3).add_prefix("area, "),
            steps.map("{:,.0f}".format).add_prefix("mean steps, "),
        ],
        axis=1,
    )
    correlation = rank_correlation(areas.iloc[:, 0], areas.iloc[:, 1])
    return Choice(
        "Equal steps or equal proficiency: areas, means over the tasks",
        table.reset_index(),
        f"Rank correlation {correlation:.2f}; nothing is decided by it",
    )


# -- whether the newer methods learn at all. It decides nothing ------------------------------------


def newer(records: Iterable[Record], panel: Board) -> Choice:
    """Whether methods learn at all: the steps to the gate of each seed, and CPU seconds."""
    rows = [
        {
            "row": record.method.base,
            "task": record.task.name,
            "steps": "never" if record.solved_step is None else f"{record.solved_step:,}",
            "seconds": record.training.cpu_seconds,
            "solved": record.solved_step is not None,
        }
        for several in of_panel(records, panel).values()
        for record in several
    ]
    frame = pd.DataFrame(rows)
    each = frame.groupby(["row", "task"]).agg(
        {"steps": ", ".join, "seconds": "mean", "solved": "any"}
    )
    cells = each["steps"] + " (" + each["seconds"].round().astype(int).astype(str) + " s)"
    unsolved = [f"{row} on {task}" for (row, task), made in each.iterrows() if not made["solved"]]
    return Choice(
        "Newer methods: the step to the gate with each seed (mean CPU seconds)",
        cells.unstack("task")[list(panel.all_tasks)].reset_index(),
        f"Not solved with any seed: {', '.join(unsolved) or 'none'}",
    )


# -- whether anything in the scores of a few rows is implausible. It decides nothing ---------------

LOOKED_AT = (1, 2, 4, 8)
"""Lengths at which scores are shown, in multiples."""


def look(records: Iterable[Record], panel: Board) -> Choice:
    """The scores of a few rows, as they are shown on the board, means over seeds."""
    rows = [
        {
            "task": record.task.name,
            "row": record.method.name,
            "length": f"{test.multiple:g}x",
            "score": test.score,
        }
        for several in of_panel(records, panel).values()
        for record in several
        for test in record.rows
        if test.multiple in LOOKED_AT
    ]
    frame = pd.DataFrame(rows).groupby(["task", "row", "length"])["score"].mean()
    cells = frame.map(number).unstack("length")[[f"{multiple:g}x" for multiple in LOOKED_AT]]
    return Choice(
        "Rows that were looked at closely: scores by length",
        cells.reset_index(),
        "Nothing is decided by this panel; what was seen stands in look.md",
    )


# -- whether the later tasks are learned at all ----------------------------------------------------

ENOUGH = 2
"""The rows that must learn a task, or it is made easier."""


def learnability(records: Iterable[Record], panel: Board) -> Choice:
    """The steps of each training, and its score at 1x; runs not made yet are named as such."""
    runs = list(asked(records, panel))
    learned, missing = (dict.fromkeys(panel.all_tasks, 0) for _ in range(2))
    cells = []
    for run in runs:
        if run.record is None:
            missing[run.task] += 1
            said = "not run"
        else:
            solved, (test,) = run.record.solved_step is not None, run.record.rows
            learned[run.task] += solved
            steps = f"{run.record.training.steps:,}" if solved else "not learned"
            said = f"{steps} ({number(test.score)})"
        cells.append({"task": run.task, "row": run.row, "cell": said})
    frame = pd.DataFrame(cells)
    rows = list(dict.fromkeys(frame["row"]))
    table = frame.pivot(index="task", columns="row", values="cell").loc[list(panel.all_tasks), rows]
    table["learned by"] = [learned[task] for task in table.index]
    few = [task for task, count in learned.items() if count < ENOUGH]
    too_hard = [task for task in few if learned[task] + missing[task] < ENOUGH]
    said = {
        "Learned by fewer than two rows": too_hard,
        "Not decided yet": [task for task in few if task not in too_hard],
    }
    found = [f"{title}: {', '.join(tasks) or 'none'}" for title, tasks in said.items()]
    found.append(f"{sum(missing.values())} of {len(runs)} trainings not run")
    return Choice(
        "Learnability of the later tasks: steps of the training, of at most 12,000 (score at 1x)",
        table.reset_index(),
        ". ".join(found),
    )


# -- python -m posbench.pilots FOLDER --------------------------------------------------------------

# It reads the records of the panels in FOLDER and writes choices.md beside them.

PANELS: dict[str, Callable[[Iterable[Record], Board], Choice]] = {
    "heads": heads,
    "steps": steps,
    "rates": rates,
    "until_solved": until_solved,
    "newer": newer,
    "look": look,
    "learnability": learnability,
}
"""The panels by the name of their boards, in the order of the page."""


def markdown(found: Sequence[Record]) -> str:
    """The tables of all panels that have been run, each with what follows from it."""
    lines = [
        "# What was decided before the main board",
        "",
        "The rules stand in conf/board/heads.yaml, steps.yaml and rates.yaml; they were written "
        "down before these runs. until_solved.yaml, newer.yaml and look.yaml decide nothing. "
        "learnability.yaml came later, with the tasks that it tries.",
        "",
    ]
    for name, choose in PANELS.items():
        panel = load(name)
        try:
            lines.append(choose(found, panel).markdown)
        except PosbenchError as error:
            title = name.capitalize().replace("_", " ")
            lines += [
                f"## {title}",
                "",
                f"Not complete yet: {error}.",
                "",
            ]
    lines.append(f"Generated by `{COMMAND}`; do not edit.")
    return "\n".join(lines) + "\n"


COMMAND = "python results/pilots/analysis.py"


def main(arguments: list[str] | None = None) -> int:
    here = Path(__file__).parent
    parser = command_lines.parser(COMMAND, "Panels in, decisions out.", check=True)
    chosen = parser.parse_args(arguments)

    def page() -> str:
        return markdown(files.records(here))

    return command_lines.write_page(here / "choices.md", page, COMMAND, chosen.check)


if __name__ == "__main__":
    sys.exit(main())
