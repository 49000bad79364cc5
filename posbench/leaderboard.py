"""The leaderboard: records in, `leaderboard.md`, `.html` and `.csv` out. Same records, same bytes.

`python -m posbench.leaderboard [FOLDER]` reads FOLDER/records (your own runs by default), writes the three
files into FOLDER and prints the tables. Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import functools
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from scipy import special

from posbench import figures, provenance, results
from posbench.errors import PosbenchError

THRESHOLD = 0.95
"""Mean sequence accuracy from which a length counts towards the effective length."""
CONFIDENCE = 0.95
NOTHING = "\N{EN DASH}"

GUIDE = {
    "Accuracy": "of whole sequences: every answer token and the end right. Columns are test lengths in multiples of "
    "the training length.",
    "Mean": "over the lengths beyond the training length, tasks and seeds. Lengths in brackets are shown but not "
    "averaged.",
    "±": "half the width of the 95 % interval over seeds (Student's t). A difference within the intervals is not a "
    "difference.",
    "Solved": "seeds that learned the task at all, with an accuracy of at least .95 at 1x. A row in which none did is "
    "marked “did not learn”: it says nothing about extrapolation. Unsolved seeds stay in every mean; the "
    "mean of the solved ones alone stands beside it.",
    "Effective": "the largest length with a mean accuracy of at least .95, all shorter ones included.",
    "Steps": "of training until the accuracy was .95 for the first time; a mean over the seeds that got there.",
    "CPU s": "seconds of training. Methods that stretch the same trained weights share them, and their cost.",
}

BOARD = ["protocol", "protocol_hash"]
TASK = ["task", "task_hash", "task_version"]
METHOD = ["method", "method_hash"]
RUN = [*BOARD, *TASK, *METHOD, "seed"]
"""Columns that tell apart what must not be mixed: contents by their hash, and names as people gave them."""


# -- what the records say --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its interval: NaN where one seed allows none."""

    mean: float
    half: float

    @classmethod
    def over(cls, seeds: Iterable[float]) -> Estimate:
        values = np.array(list(seeds), float)
        mean = float(values.mean()) if len(values) else np.nan
        if len(values) < 2:
            return cls(mean, np.nan)
        quantile = special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)  # of Student's t
        return cls(mean, float(quantile * values.std(ddof=1) / len(values) ** 0.5))

    def __str__(self) -> str:
        return number(self.mean) if np.isnan(self.half) else f"{number(self.mean)} ±{number(self.half)}"


@dataclass(frozen=True)
class Length:
    """A test length of a task."""

    test_length: int
    total_length: int
    multiple: float
    aggregated: bool
    chance: float

    @property
    def heading(self) -> str:
        return f"{self.multiple:g}x" if self.aggregated else f"({self.multiple:g}x)"

    @property
    def in_mean(self) -> bool:
        return self.aggregated and self.multiple > 1


@dataclass(frozen=True)
class Cell:
    """One method on one task at one length, over its seeds."""

    accuracy: Estimate
    lowest: float
    highest: float
    token_accuracy: float
    within: float  # token accuracy where the source is no farther than in training; NaN where there is none
    beyond: float
    loss: float

    @classmethod
    def of(cls, runs: pd.DataFrame) -> Cell:
        accuracy = runs["sequence_accuracy"]
        return cls(
            Estimate.over(accuracy),
            float(accuracy.min()),
            float(accuracy.max()),
            float(runs["token_accuracy"].mean()),
            float(runs["token_accuracy_within_trained_distance"].mean()),
            float(runs["token_accuracy_beyond_trained_distance"].mean()),
            float(runs["loss"].mean()),
        )


@dataclass(frozen=True)
class Summary:
    """One method on one task, over its seeds: all that any table says about it."""

    task: str
    method: str
    method_hash: str
    method_class: str
    cells: dict[float, Cell]  # by multiple
    accuracy: pd.DataFrame  # [seed, multiple]
    scores: pd.Series  # by seed: the mean accuracy beyond the training length
    mean: Estimate  # of the scores
    solved: pd.Series  # by seed
    solved_step: float
    parameters: int
    cpu_seconds: float

    @classmethod
    def of(cls, runs: pd.DataFrame, lengths: Sequence[Length]) -> Summary:
        """`runs`: the rows of one method on one task."""
        first, by_seed = runs.iloc[0], runs.drop_duplicates("seed").set_index("seed").sort_index()
        accuracy = runs.pivot(index="seed", columns="multiple", values="sequence_accuracy")
        accuracy = accuracy.reindex(columns=[n.multiple for n in lengths])
        # skipna: a record that lacks a length has no mean, rather than a mean over other lengths
        scores = accuracy[[n.multiple for n in lengths if n.in_mean]].mean(axis=1, skipna=False)
        return cls(
            task=str(first["task_name"]),
            method=str(first["method_name"]),
            method_hash=str(first["method_hash"]),
            method_class=str(first["class"]),
            cells={n.multiple: Cell.of(runs[runs["multiple"] == n.multiple]) for n in lengths},
            accuracy=accuracy,
            scores=scores,
            mean=Estimate.over(scores),
            solved=by_seed["solved"],
            solved_step=float(by_seed["solved_step"].mean()),
            parameters=int(first["parameters"]),
            cpu_seconds=float(by_seed["train_cpu_seconds"].mean()),
        )

    @property
    def num_solved(self) -> int:
        return int(self.solved.sum())

    @property
    def mean_of_solved(self) -> float:
        return float(self.scores[self.solved].mean())

    @property
    def effective(self) -> float:
        """The largest multiple with a mean accuracy of at least THRESHOLD, all shorter ones included; or NaN."""
        reached = np.nan
        for multiple in sorted(self.cells):
            if not self.cells[multiple].accuracy.mean >= THRESHOLD:  # nor where it is NaN
                break
            reached = multiple
        return reached

    @property
    def mark(self) -> str:
        return "" if self.num_solved else "did not learn"


@dataclass(frozen=True)
class Overall:
    """One method over the tasks of a protocol: the summary of each task that it was run on."""

    parts: list[Summary]
    num_tasks: int

    @property
    def method(self) -> str:
        return self.parts[0].method

    @property
    def method_hash(self) -> str:
        return self.parts[0].method_hash

    @property
    def method_class(self) -> str:
        return self.parts[0].method_class

    @property
    def parameters(self) -> int:
        return max(part.parameters for part in self.parts)  # tasks differ in the size of their vocabulary

    @property
    def cpu_seconds(self) -> float:
        return float(np.mean([part.cpu_seconds for part in self.parts]))

    @functools.cached_property
    def seeds(self) -> list[int]:
        """Those that were run on every task: only they can be averaged over tasks."""
        if len(self.parts) < self.num_tasks:
            return []
        return sorted(set.intersection(*(set(part.scores.index) for part in self.parts)))

    @functools.cached_property
    def mean(self) -> Estimate:
        return Estimate.over(np.mean([part.scores[seed] for part in self.parts]) for seed in self.seeds)

    def accuracy(self, multiple: float) -> float:
        if not self.seeds:
            return np.nan
        return float(np.mean([part.accuracy.loc[self.seeds, multiple] for part in self.parts]))

    @property
    def mean_of_solved(self) -> float:
        solved = [part.scores[part.solved] for part in self.parts] if self.seeds else []
        return float(pd.concat(solved).mean()) if solved else np.nan

    @property
    def solved(self) -> str:
        return f"{sum(part.num_solved for part in self.parts)}/{sum(len(part.solved) for part in self.parts)}"

    @property
    def shown_mean(self) -> str:
        if self.seeds:
            return str(self.mean)
        if len(self.parts) < self.num_tasks:
            return f"{NOTHING} ({len(self.parts)} of {self.num_tasks} tasks)"
        return f"{NOTHING} (no seed on all tasks)"

    @property
    def mark(self) -> str:
        failed = [part.task for part in self.parts if not part.num_solved]
        if not failed:
            return ""
        if len(failed) == len(self.parts):
            return "did not learn"
        return f"did not learn {' and '.join(failed) if len(failed) < 3 else f'{len(failed)} tasks'}"


@dataclass(frozen=True)
class TaskBoard:
    """All methods on one task under one protocol, best first."""

    protocol: str
    task: str
    hashes: dict[str, Any]  # of protocol and task, and the task's version
    train_length: int
    train_positions: int
    lengths: list[Length]
    summaries: list[Summary]
    looks: dict[tuple[str, str], int]  # (method, hash) -> number of the look of its curve, one a protocol

    @classmethod
    def of(cls, runs: pd.DataFrame, looks: dict[tuple[str, str], int]) -> TaskBoard:
        """`runs`: the rows of one task under one protocol."""
        names = ["test_length", "total_length", "multiple", "aggregated", "chance"]
        different = runs.drop_duplicates("test_length").sort_values("test_length")
        lengths = [Length(*row) for row in different[names].itertuples(index=False, name=None)]
        first = runs.iloc[0]
        return cls(
            protocol=str(first["protocol_name"]),
            task=str(first["task_name"]),
            hashes={name: first[name] for name in ("protocol_hash", "task_hash", "task_version")},
            train_length=int(first["train_length"]),
            train_positions=int(first["train_positions"]),
            lengths=lengths,
            summaries=best_first(Summary.of(part, lengths) for _, part in runs.groupby(METHOD)),
            looks=looks,
        )


def boards(table: pd.DataFrame) -> list[list[TaskBoard]]:
    """One list a protocol, one board a task in it. What differs in label, hash or version is never averaged."""
    ordered = without_repeats(table).sort_values(["seed", "test_length"], kind="stable")
    found = []
    for _, protocol in named(ordered).groupby(BOARD):
        methods = sorted(set(zip(protocol["method_name"], protocol["method_hash"], strict=True)))
        looks = {method: index for index, method in enumerate(methods)}
        found.append([TaskBoard.of(runs, looks) for _, runs in protocol.groupby(TASK)])
    return found


def without_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """The table with each run once. Settings that were changed and changed back leave a run's record twice,
    `seed=0.<hash>.json` and the newer `seed=0.json`, which comes later in the order of paths.
    """
    return table.drop_duplicates([*RUN, "test_length"], keep="last")


def named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the names that are shown: labels, and what tells them apart where a label is not unique."""
    versions = _suffixes(table, [*BOARD, "task"], "task_version", ", version {}")
    return table.assign(
        protocol_name=table["protocol"] + _suffixes(table, ["protocol"], "protocol_hash", " [{:.8}]"),
        task_name=table["task"] + versions + _suffixes(table, [*BOARD, "task"], "task_hash", " [{:.8}]"),
        method_name=table["method"] + _suffixes(table, [*BOARD, "method"], "method_hash", " [{:.8}]"),
    )


def _suffixes(table: pd.DataFrame, label: list[str], column: str, form: str) -> pd.Series:
    """The value of `column` in this form where one label stands for several values, "" elsewhere."""
    several = table.groupby(label)[column].transform("nunique") > 1
    return table[column].map(form.format).where(several, "")


def best_first(rows: Iterable[Any]) -> list[Any]:
    """By mean, rows without one last, ties by name."""

    def order(row: Any) -> tuple[bool, float, str, str]:
        mean = row.mean.mean
        return np.isnan(mean), -np.nan_to_num(mean), row.method, row.method_hash

    return sorted(rows, key=order)


# -- what a reader must know before believing a number ---------------------------------------------------


def remarks(found: list[results.Record], table: pd.DataFrame) -> list[str]:
    """A sentence each."""
    runs = named(table).drop_duplicates(RUN, keep="last")
    said = [
        _several_protocols(runs),
        _smoke(runs),
        _single_seeds(runs),
        _several_settings(runs),
        _one_label_several_methods(runs),
        _one_method_several_labels(runs),
        _mixed_code(runs),
        _outdated(found),
        _repeats(len(found) - len(runs)),
    ]
    return [sentence for sentence in said if sentence]


def _several_protocols(runs: pd.DataFrame) -> str:
    names = sorted(set(runs["protocol_name"]))
    if len(names) == 1:
        return ""
    return f"Records of {len(names)} protocols ({', '.join(names)}) are shown apart: never compare across them."


def _smoke(runs: pd.DataFrame) -> str:
    if not runs["protocol"].str.match(r"smoke\b").any():
        return ""
    return "The smoke protocol only proves that the code runs; its accuracies mean nothing."


def _single_seeds(runs: pd.DataFrame) -> str:
    seeds = runs.groupby([*BOARD, *TASK, *METHOD])["seed"].nunique()
    if not (few := int((seeds == 1).sum())):
        return ""
    return (
        f"{few} of {len(seeds)} rows rest on one seed: they have no interval, and seed noise is often larger than the "
        "difference between two methods. Add seeds with -m 'seed=range(3)'."
    )


def _several_settings(runs: pd.DataFrame) -> str:
    ambiguous = runs[runs["task_name"] != runs["task"]]
    if ambiguous.empty:
        return ""
    names = ", ".join(sorted(set(ambiguous["task_name"])))
    return (
        f"A task appears in several versions or settings ({names}): each has a table of its own and counts as a task."
    )


def _one_label_several_methods(runs: pd.DataFrame) -> str:
    names = sorted(set(runs.loc[runs["method_name"] != runs["method"], "method_name"]))
    if not names:
        return ""
    return (
        f"One name stands for methods of different settings; their hashes tell them apart ({', '.join(names)}). "
        "A name changes its meaning when its YAML does: repeat the older runs."
    )


def _one_method_several_labels(runs: pd.DataFrame) -> str:
    names = runs.groupby([*BOARD, "method_hash"])["method_name"].agg(lambda column: sorted(set(column)))
    same = sorted({" = ".join(group) for group in names if len(group) > 1})
    if not same:
        return ""
    return f"The same settings appear under different names, a row each: {'; '.join(same)}."


def _mixed_code(runs: pd.DataFrame) -> str:
    sources = runs.groupby(["method_name", *BOARD, *TASK, *METHOD])["source_hash"].nunique()
    names = sorted({index[0] for index in sources[sources > 1].index})
    if not names:
        return ""
    return (
        f"Seeds in one row were trained by different versions of the code ({', '.join(names)}): repeat the older ones."
    )


def _outdated(found: list[results.Record]) -> str:
    old = [record for record in found if outdated(record)]
    if not old:
        return ""
    names = sorted({record["method"]["label"] for record in old})
    return (
        f"{len(old)} of {len(found)} records come from other training code than this version's "
        f"({', '.join(names)}): repeat them with force=true."
    )


def _repeats(count: int) -> str:
    if not count:
        return ""
    return (
        f"{count} {'records repeat a run' if count > 1 else 'record repeats a run'} that is there already, with the "
        "same settings and seed: the last in the order of paths counts."
    )


def outdated(record: results.Record) -> bool:
    """Whether the modules that trained this record have changed since; False where that cannot be told."""
    targets = [record["config"]["task"]["_target_"], *_targets(record["config"]["encoding"])]
    current = _source_hash(tuple(sorted({target.rpartition(".")[0] for target in targets})))
    return current is not None and current != record["provenance"]["source_hash"]


@functools.cache
def _source_hash(modules: tuple[str, ...]) -> str | None:
    missing = [module for module in modules if provenance.module_file(module) is None]
    if any(module.startswith("posbench.") for module in missing):
        return ""  # a module of this package that is gone: no record's hash
    return None if missing else provenance.source_hash("posbench.training", *modules)


def _targets(node: Any) -> list[str]:
    if isinstance(node, list):
        return [target for value in node for target in _targets(value)]
    if not isinstance(node, dict):
        return []
    own = [node["_target_"]] if "_target_" in node else []
    return own + [target for value in node.values() for target in _targets(value)]


# -- sections: what every format shows -------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    name: str
    cells: list[str]
    mark: str = ""  # shown beside the name
    curve: str = ""  # id of its curve in the SVG


@dataclass(frozen=True)
class Table:
    headings: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Section:
    """One task of a protocol, or all of them."""

    title: str
    notes: list[str]
    table: Table
    curves: str = ""  # SVG
    distances: Table | None = None

    @property
    def anchor(self) -> str:
        return anchor(self.title)


Columns = dict[str, Callable[[Any], str]]
"""Heading -> what it shows of a `Summary` or an `Overall`."""

DISTANCES = "Token accuracy within / beyond the trained distance"
DISTANCES_NOTE = (
    "Of answer tokens that repeat a token of the prompt, the right ones, given the right tokens before them (teacher "
    "forcing). Within: the query is no farther from its source than in training. Beyond: it is farther. "
    f"{NOTHING}: no such tokens at this length."
)
DETAILS = ("class", "steps", "parameters", "CPU s")
"""Columns that the terminal has no room for."""


def sections(found: list[list[TaskBoard]]) -> list[Section]:
    """Of each protocol first all tasks together, then each."""
    shown = []
    for tasks in found:
        if len(tasks) > 1:
            shown.append(overall_section(tasks))
        shown += [task_section(board) for board in tasks]
    return shown


def task_section(board: TaskBoard) -> Section:
    title = f"{board.task}, protocol {board.protocol}"
    ids = [f"curve-{anchor(title)}-{index}" for index in range(len(board.summaries))]
    return Section(
        title,
        [_lengths_note(board), _chance_note(board)],
        tabulated(_task_columns(board.lengths), board.summaries, ids),
        figures.accuracy_by_length(_curves(board), [n.multiple for n in board.lengths], anchor(title)),
        tabulated(_distance_columns(board.lengths), board.summaries, ids),
    )


def overall_section(tasks: list[TaskBoard]) -> Section:
    by_method: dict[tuple[str, str], list[Summary]] = {}
    for board in tasks:
        for summary in board.summaries:
            by_method.setdefault((summary.method, summary.method_hash), []).append(summary)
    rows = best_first(Overall(parts, len(tasks)) for parts in by_method.values())
    common = [n for n in tasks[0].lengths if all(n.multiple in {m.multiple for m in task.lengths} for task in tasks)]
    notes = ["A row is a mean over tasks of unlike difficulty: look at each task before you choose."]
    if not all(row.seeds for row in rows):
        notes.append("Rows without a mean lack some of the tasks; a mean over other tasks would not be comparable.")
    title = f"All {len(tasks)} tasks, protocol {tasks[0].protocol}"
    return Section(title, notes, tabulated(_overall_columns(common), rows))


def tabulated(columns: Columns, rows: Sequence[Any], ids: Sequence[str] = ()) -> Table:
    shown = [[show(row) for show in columns.values()] for row in rows]
    curves = ids or [""] * len(rows)
    return Table(
        ["method", *columns],
        [Row(row.method, cells, row.mark, curve) for row, cells, curve in zip(rows, shown, curves, strict=True)],
    )


def _task_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: str(row.mean),
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: str(row.cells[multiple].accuracy)),
        "solved": lambda row: f"{row.num_solved}/{len(row.solved)}",
        "effective": lambda row: NOTHING if np.isnan(row.effective) else f"{row.effective:g}x",
        "steps": lambda row: number(row.solved_step, 0),
        "class": lambda row: row.method_class,
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(row.cpu_seconds, 0),
    }


def _overall_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: row.shown_mean,
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: number(row.accuracy(multiple))),
        "solved": lambda row: row.solved,
        "class": lambda row: row.method_class,
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(row.cpu_seconds, 0),
    }


def _distance_columns(lengths: Sequence[Length]) -> Columns:
    def both(row: Summary, multiple: float) -> str:
        cell = row.cells[multiple]
        return f"{number(cell.within)} / {number(cell.beyond)}"

    return _at_each(lengths, both)


def _at_each(lengths: Sequence[Length], show: Callable[[Any, float], str]) -> Columns:
    def at(multiple: float) -> Callable[[Any], str]:
        return lambda row: show(row, multiple)

    return {n.heading: at(n.multiple) for n in lengths}


def _lengths_note(board: TaskBoard) -> str:
    tested = ", ".join(f"{n.test_length} ({n.total_length} tokens)" for n in board.lengths)
    return f"Trained on n up to {board.train_length} ({board.train_positions} positions); tested at n = {tested}."


def _chance_note(board: TaskBoard) -> str:
    highest = max(n.chance for n in board.lengths)
    same = all(n.chance == highest for n in board.lengths)
    return f"Guessing the answer succeeds with a probability of {'' if same else 'at most '}{highest:.1g}."


def _curves(board: TaskBoard) -> list[figures.Curve]:
    return [
        figures.Curve(
            summary.method,
            board.looks[summary.method, summary.method_hash],
            list(summary.cells),
            [cell.accuracy.mean for cell in summary.cells.values()],
            [cell.accuracy.half for cell in summary.cells.values()],
        )
        for summary in board.summaries
    ]


def number(value: float, decimals: int = 2) -> str:
    """Without the leading zero, as accuracies are read: .93, 1.00."""
    if np.isnan(value):
        return NOTHING
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("0.") else text


def anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())


# -- formats ---------------------------------------------------------------------------------------------


def markdown(shown: list[Section], notes: list[str]) -> str:
    lines = ["# posbench leaderboard", ""]
    lines += [f"- **{term}**: {meaning}" for term, meaning in GUIDE.items()]
    lines += ["", *(f"> {note}\n" for note in notes)]
    for section in shown:
        lines += [f"## {section.title}", "", *(f"{note}\n" for note in section.notes), *_pipes(section.table), ""]
        if section.distances:
            lines += [f"### {DISTANCES}", "", f"{DISTANCES_NOTE}\n", *_pipes(section.distances), ""]
    lines.append("Generated by `python -m posbench.leaderboard` from the records beside it; do not edit.")
    return "\n".join(lines) + "\n"


def _pipes(table: Table) -> list[str]:
    rows = [[f"{row.name} *({row.mark})*" if row.mark else row.name, *row.cells] for row in table.rows]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in [table.headings, *rows]]
    lines.insert(1, " | ".join(["---"] + ["---:"] * (len(table.headings) - 1)))
    return [f"| {line} |" for line in lines]


def html(shown: list[Section], notes: list[str]) -> str:
    source = (Path(__file__).parent / "leaderboard.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    content = {"sections": shown, "notes": notes, "guide": GUIDE}
    return environment.from_string(source).render(content, distances=DISTANCES, distances_note=DISTANCES_NOTE)


def csv(found: list[list[TaskBoard]]) -> str:
    """One row a method and test length."""
    rows = [
        {
            "protocol": board.protocol,
            "task": board.task,
            "method": row.method,
            "class": row.method_class,
            "multiple": length.multiple,
            "test_length": length.test_length,
            "aggregated": length.aggregated,
            "seeds": len(row.scores),
            "seeds_solved": row.num_solved,
            "sequence_accuracy": cell.accuracy.mean,
            "half_width_95": cell.accuracy.half,
            "lowest": cell.lowest,
            "highest": cell.highest,
            "chance": length.chance,
            "token_accuracy": cell.token_accuracy,
            "token_accuracy_within_trained_distance": cell.within,
            "token_accuracy_beyond_trained_distance": cell.beyond,
            "loss": cell.loss,
            "mean": row.mean.mean,
            "mean_half_width_95": row.mean.half,
            "mean_solved_only": row.mean_of_solved,
            "effective": row.effective,
            "solved_step": row.solved_step,
            "parameters": row.parameters,
            "train_cpu_seconds": row.cpu_seconds,
            "method_hash": row.method_hash,
            **board.hashes,
        }
        for tasks in found
        for board in tasks
        for row in board.summaries
        for length in board.lengths
        for cell in [row.cells[length.multiple]]
    ]
    return pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def show(shown: list[Section], notes: list[str], emit: Callable[[str], None]) -> None:
    """The tables in the terminal, without `DETAILS`."""
    for section in shown:
        emit(f"{section.title}\n")
        for line in _aligned(section.table):
            emit(f"  {line}")
        emit("")
    for note in notes:
        emit(f"Note: {note}")


def _aligned(table: Table) -> list[str]:
    rows = [[f"{row.name} ({row.mark})" if row.mark else row.name, *row.cells] for row in table.rows]
    columns = [column for column in zip(table.headings, *rows, strict=True) if column[0] not in DETAILS]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


# -- the command -----------------------------------------------------------------------------------------


def generate(folder: Path) -> tuple[dict[str, str], list[Section], list[str]]:
    """File name -> content, and what the terminal shows."""
    found = results.records(folder)
    if not found:
        hint = "run `python -m posbench` first"
        if folder != results.PUBLISHED and results.PUBLISHED.is_dir():
            hint += f", or read the published board with `python -m posbench.leaderboard {results.PUBLISHED}`"
        raise PosbenchError(f"no records in {folder}: {hint}")
    table = results.table(found)
    notes, summaries = remarks(found, table), boards(table)
    shown = sections(summaries)
    files = {
        "leaderboard.md": markdown(shown, notes),
        "leaderboard.html": html(shown, notes),
        "leaderboard.csv": csv(summaries),
    }
    return files, shown, notes


def changed(folder: Path, files: dict[str, str]) -> list[str]:
    """Names of the files that do not hold this content. Curves are left out of the comparison: each version of
    matplotlib draws them differently, and they show what the table says.
    """

    def without_curves(content: bytes) -> bytes:
        return re.sub(rb"<svg.*?</svg>", b"", content, flags=re.DOTALL)

    return [
        name
        for name, content in files.items()
        if not (path := folder / name).exists() or without_curves(path.read_bytes()) != without_curves(content.encode())
    ]


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m posbench.leaderboard", description="Records in, leaderboard out.")
    parser.add_argument("folder", nargs="?", type=Path, default=results.LOCAL, help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if regenerating changes a file")
    chosen = parser.parse_args(arguments)
    try:
        files, shown, notes = generate(chosen.folder)
        if chosen.check:
            _check(chosen.folder, files)
            emit(f"{chosen.folder}: up to date.")
            return 0
        for name, content in files.items():
            (chosen.folder / name).write_bytes(content.encode())
    except (PosbenchError, OSError) as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no ± still gets its tables
    show(shown, notes, emit)
    emit(f"Written, with more columns: {', '.join(str(chosen.folder / name) for name in files)}")
    return 0


def _check(folder: Path, files: dict[str, str]) -> None:
    if names := changed(folder, files):
        raise PosbenchError(
            f"regenerating changes {', '.join(names)} in {folder}: "
            f"run `python -m posbench.leaderboard {folder}` and commit the result"
        )


if __name__ == "__main__":
    sys.exit(main())
