"""What the page draws from: all runs of a folder as compact JSON, with what opens behind a row.

    tasks      name, protocol, measure, lengths n, nominal and true multiples
    rows       name, class, family, host, extension, settings, commands, descriptions
    runs       by task and row: seed, training, learned and area of each run
    curves     by task and row: what it reaches, then mean scores by length and half their intervals
    depths     by task and row: accuracy by length and depth of the source, a letter a cell
    sections   what is ranked together: rows, their names in drawings, what they reach, and the
               score of what was learned at each length, see `posbench.statistics.effects`
    texts      descriptions of classes by their full names, HTML
    papers     arXiv ids of classes by the same names, and `code`: files
    root       the way from the page to posbench's own files, "" where they are not above it
    sketches   pictures of methods

Scores, areas and shares are whole numbers of thousandths; null where there is none. The script
draws these points, and works nothing out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.boards.measured_runs import METHOD, SHOWN, MeasuredRuns
from posbench.boards.opening import drawn_names
from posbench.boards.ranking import RankedRows
from posbench.config import families, flat
from posbench.config.board import Board
from posbench.config.folders import own_names, with_own
from posbench.config.provenance import targets
from posbench.config.record_command import Command
from posbench.records.record import Record
from posbench.showing.pages import (
    arxiv_ids,
    definition_of,
    docstring,
    explanation_path,
    inline,
    paragraphs_of,
)

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Levels from 0 to 1."""
NO_TOKENS = "-"
PARAGRAPHS = 3
"""Paragraphs kept of a docstring: a sentence, the formula, and what is special."""
TASK = SHOWN[:2]
Json = dict[str, Any]


def thousandths(values: Iterable[float]) -> list[int | None]:
    """Numbers as JSON can hold them, None for what is none.

    The page shows hundredths, and .7846 must not become .785 and then .79. So a value that is no
    whole number of thousandths is never given as half a hundredth.
    """
    found: list[int | None] = []
    for value in values:
        if value != value:
            found.append(None)
            continue
        near = round(1000 * value)
        if near % 10 == 5:
            rest = round(1000 * value - near, 6)
            near += int(rest > 0) - int(rest < 0)
        found.append(near)
    return found


def content(
    measured: MeasuredRuns,
    standings: Sequence[RankedRows],
    board: Board,
    explained: Collection[Path] = (),
    folders: Sequence[Path] = (),
    root: str = "",
) -> Json:
    """The JSON of a page.

    Args:
        measured: all runs
        standings: what is ranked, in the order in which it is shown
        board: its tasks come first, in their order
        explained: pages of `posbench.explain`, by their paths from the folder of the page
        folders: of the user, which commands name where they need them
        root: see `root_above`
    """
    known, found = measured.lengths, measured.records
    runs = as_ranked(measured.runs, standings)
    tasks = _tasks(known, board)
    methods = known.drop_duplicates("row").sort_values("row")
    rows = {name: number for number, name in enumerate(methods["row"])}
    first = {_method(record): record for record in reversed(found)}
    texts: dict[str, str] = {}
    sketches = measured.sketches
    described = [_row(line, first, texts, folders) for line in methods.to_dict("records")]
    links = _links(found, explained)
    named = methods[METHOD].itertuples(index=False, name=None)
    for method, row in zip(named, described, strict=True):
        row["explained"] = links.get(method, [])
    shown = {name: sketch for name in rows if (sketch := sketches.get(name))}
    return {
        "tasks": [*tasks.values()],
        "rows": described,
        "runs": _runs(runs, tasks, rows),
        "curves": _curves(measured.by_length, runs, tasks, rows),
        "depths": _depths(measured, tasks, rows),
        "sections": [_section(each, rows) for each in standings],
        "texts": texts,
        "papers": {target: ids for target in texts if (ids := arxiv_ids(docstring(target)))},
        "code": {target: _file(target) for target in texts} if root else {},
        "root": root,
        "sketches": {
            name: {key: each[key] for key in ("quantity", "distances", "curves", "map", "trained")}
            for name, each in shown.items()
        },
    }


def as_script(content: Json) -> str:
    """The text of the JSON inside an element of HTML: no name in it can end that element."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# -- tasks and rows --------------------------------------------------------------------------------


def _tasks(known: pd.DataFrame, board: Board) -> dict[tuple[str, str], Json]:
    """By protocol and name, those of the board first."""
    columns = ["multiple", "true_multiple", "test_length"]
    once = known[known["multiple"] >= 1].drop_duplicates([*TASK, "test_length"])
    found: dict[tuple[str, str], Json] = {}
    for key, part in once.sort_values("test_length").groupby(TASK):
        first, listed = part.iloc[0], part[columns].to_dict("list")
        found[key] = {
            "name": key[1],
            "protocol": key[0],
            "measure": first["measure"],
            "n": listed["test_length"],
            "multiples": listed["multiple"],
            "true": [round(value, 4) for value in listed["true_multiple"]],
        }
    ordered = sorted(found, key=lambda key: (key[0], *board.place(key[1])))
    return {key: found[key] for key in ordered}


def _row(
    line: Json,
    records: dict[tuple[str, str], Record],
    texts: dict[str, str],
    folders: Sequence[Path],
) -> Json:
    record = records[line["method"], line["method_hash"]]
    encoding, extension = record.config["encoding"], record.config["extension"]
    used = [*sorted(targets(encoding)), *([] if line["plain"] else sorted(targets(extension)))]
    return {
        "name": line["row"],
        "class": line["method_class"],
        "family": families.family(record.method.encoding),
        "host": record.method.base_label,
        "extension": line["extension"],
        "settings": _settings(encoding) + ([] if line["plain"] else _settings(extension)),
        "command": str(with_own(Command.parse(record.command), folders)),
        "explain": _explaining(record, folders),
        "parameters": line["parameters"],
        "yaml": _yaml(record, plain=line["plain"]),
        "classes": [
            [target, target.rpartition(".")[2]] for target in used if _described(target, texts)
        ],
    }


def _yaml(record: Record, *, plain: bool) -> list[str]:
    """The configuration of a row among posbench's own, by group and name."""
    method = record.method
    extensions = [] if plain else method.extension.split("+")
    parts = {"encoding": [method.encoding], "extension": extensions}
    return [
        f"{group}/{name}"
        for group, names in parts.items()
        for name in names
        if name in _own_names(group)
    ]


_own_names = functools.cache(own_names)


def _file(target: str) -> str:
    """The file of a class of posbench, from the folder that holds all."""
    module = definition_of(target)[0]
    path = Path(module.replace(".", "/"))
    top = Path(str(files("posbench"))).parent
    inside = path / "__init__.py"
    return (inside if (top / inside).is_file() else path.with_suffix(".py")).as_posix()


def root_above(folder: Path) -> str:
    """The way from a folder up to posbench's own files, as in "../../"; "" where it is not below
    them, as beside an installed package.
    """
    top = Path(str(files("posbench"))).resolve().parent
    here = folder.resolve()
    if not here.is_relative_to(top) or not (top / "conf").is_dir():
        return ""
    return "../" * len(here.relative_to(top).parts)


def _explaining(record: Record, folders: Sequence[Path]) -> str:
    """The command that explains where a run stops, "" where there is no one model of
    posbench to look into.
    """
    command = Command.parse(record.command)
    if command.module != "posbench" or record.ceiling is not None or record.diverged:
        return ""
    return str(with_own(command.with_module("posbench explain"), folders))


def _method(record: Record) -> tuple[str, str]:
    """What distinguishes rows, as METHOD names it: the same settings may have two names."""
    return record.method.label, record.method.hash


def _links(
    found: Iterable[Record], pages: Collection[Path]
) -> dict[tuple[str, str], list[list[str]]]:
    """By label and hash of a method: each of its runs that a page explains, and where that is."""
    links: dict[tuple[str, str], dict[str, str]] = {}
    for record in found if pages else ():
        task, protocol, method = record.task, record.protocol, record.method
        path = explanation_path(protocol.slug, task.slug, [method.slug], record.seed)
        if path in pages:
            run = f"{task.label} ({protocol.label}, seed {record.seed})"
            links.setdefault(_method(record), {})[run] = quote(path.as_posix())
    return {method: [[*link] for link in sorted(each.items())] for method, each in links.items()}


def _settings(node: Json) -> list[str]:
    """The settings of a class and of those inside it, "host.base=10000"; a long value is cut."""
    texts = ((place, str(value)) for place, value in flat.settings(node))
    return [f"{place}={text if len(text) < 60 else text[:56] + ' ...'}" for place, text in texts]


def _described(target: str, texts: dict[str, str]) -> bool:
    """Whether a class has a text, which is then among the others."""
    if target not in texts:
        try:
            texts[target] = _text(target)
        except PosbenchError:  # a class of the user, whose file is elsewhere
            return False
    return True


@functools.cache
def _text(target: str) -> str:
    paragraphs = paragraphs_of(docstring(target))[:PARAGRAPHS]
    return "".join(f"<p>{inline(part)}</p>" for part in paragraphs)


# -- numbers ---------------------------------------------------------------------------------------


def as_ranked(runs: pd.DataFrame, standings: Sequence[RankedRows]) -> pd.DataFrame:
    """A line a run; the area of a run that a section ranks ends where that section's areas end."""
    ranked = [each.part.runs for each in standings]
    return pd.concat([runs, *ranked]).drop_duplicates(SHOWN, keep="last")


def _runs(
    runs: pd.DataFrame, tasks: dict[tuple[str, str], Json], rows: dict[str, int]
) -> list[Json]:
    """Runs by task and row: seed, training, learned and area."""
    numbers = {key: number for number, key in enumerate(tasks)}
    found: list[Json] = [{} for _ in tasks]
    trainings: dict[str, int] = {}
    ordered = runs.sort_values(SHOWN, kind="stable")
    columns = [ordered[name].tolist() for name in (*SHOWN, "training", "trained")]
    areas = thousandths(ordered["area"])
    for protocol, task, row, seed, training, learned, area in zip(*columns, areas, strict=True):
        of_row = found[numbers[protocol, task]].setdefault(str(rows[row]), [])
        number = trainings.setdefault(training, len(trainings))
        of_row.append([seed, number, int(learned), area])
    return found


def _curves(
    lines: pd.DataFrame,
    runs: pd.DataFrame,
    tasks: dict[tuple[str, str], Json],
    rows: dict[str, int],
) -> list[Json]:
    """Curves by task and row, at the lengths of the task: the numbers of leaderboard.csv, but that
    areas end where those of its section do.
    """
    areas = runs["area"].where(runs["trained"]).groupby([runs[name] for name in SHOWN[:-1]]).mean()
    by_task = dict(list(lines[lines["multiple"] >= 1].groupby(TASK)))
    found: list[Json] = []
    for key in tasks:
        points = by_task[key].pivot(index="row", columns="test_length")
        columns = areas[key].reindex(points.index), points["score"], points["half_width_95"]
        curves: Json = {}
        for row, area, *lists in zip(
            points.index, *(each.to_numpy().tolist() for each in columns), strict=True
        ):
            known = [each for each in lists if not np.isnan(each).all()]
            curves[str(rows[row])] = [*thousandths([area]), *map(thousandths, known)]
        found.append(curves)
    return found


def _depths(
    measured: MeasuredRuns, tasks: dict[tuple[str, str], Json], rows: dict[str, int]
) -> list[Json]:
    """Right tokens by length and depth, summed over seeds; nothing where depth does not vary."""
    sums: list[dict[int, dict[int, Any]]] = [{} for _ in tasks]
    numbers = {key: number for number, key in enumerate(tasks)}
    for (protocol, task, row), record in measured.shown:
        if (protocol, task) not in numbers:  # all of its tests are shorter than training
            continue
        of_row = sums[numbers[protocol, task]].setdefault(rows[row], {})
        for view in record.views:
            if view.by != "depth" or len(view.above) < 2:
                continue
            nothing = [0] * len(view.above)
            edges, right, tokens = of_row.setdefault(
                view.test_length, (view.above, nothing, nothing.copy())
            )
            if edges != view.above:
                continue
            # Lists: for ten bins they are faster than arrays.
            pairs = zip(view.num_tokens, view.token_accuracy_teacher_forced, strict=True)
            for place, (count, share) in enumerate(pairs):
                right[place] += share * count
                tokens[place] += count
    return [
        {
            str(row): {str(n): _letters(right, tokens) for n, (_, right, tokens) in each.items()}
            for row, each in by_row.items()
            if each
        }
        for by_row in sums
    ]


def _letters(right: Sequence[float], tokens: Sequence[int]) -> str:
    return "".join(
        LETTERS[round(part / count * (len(LETTERS) - 1))] if count else NO_TOKENS
        for part, count in zip(right, tokens, strict=True)
    )


# -- what is ranked --------------------------------------------------------------------------------


def _section(standing: RankedRows, rows: dict[str, int]) -> Json:
    part, names = standing.part, list(map(str, standing.summary.index))
    at = [standing.number_at(each) for each in standing.lengths]
    return {
        "title": part.title,
        "protocol": part.protocol,
        "tasks": sorted(set(part.runs["task_name"])),
        "rows": [rows[row] for row in names],
        "names": drawn_names(names),
        "longest": standing.longest,
        "multiples": standing.lengths,
        "means": [thousandths(each[row] for each in at) for row in names],
    }
