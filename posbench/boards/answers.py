"""`python -m posbench.boards.answers`: README.md and the pages of docs/ that hold numbers.

    python -m posbench.boards.answers            fills in docs/templates/*.md
    python -m posbench.boards.answers --check    writes nothing; fails if a page is an older one

People write the templates. A number of the records is a call there, such as `main.reach("rope")`,
and never a digit, so that a page cannot say what the records do not. A row or a claim that is not
there is an error, and so is a condition of the words around a number (`holds`) that is not met. The
statistics are those of the boards.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, counted
from posbench.boards.claims.claim import Side, read_claims
from posbench.boards.claims.page import of_experiments
from posbench.boards.claims.verdicts import Finding, Outcome, findings
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked, standings_of, standings_without_board
from posbench.boards.tables import ranking
from posbench.config import board as definition
from posbench.config import commands
from posbench.config.exit_status import exit_status
from posbench.config.folders import own_names
from posbench.records import files
from posbench.showing.table import NOTHING, bounds, code, number, pipes, span, with_interval
from posbench.statistics.aggregates import Estimate
from posbench.statistics.likelihoods import of_board
from posbench.statistics.standings import SIGNIFICANT

COMMAND = "python -m posbench.boards.answers"
TEMPLATES = Path("docs/templates")
AT_THE_ROOT = ("README.md",)
"""Pages that are written into the folder itself; the others go into docs/."""
MOST = 8
"""Rows of a table in the documentation."""
AFTERWARDS = " (post hoc)"
"""Stands behind a claim that was written after its records were seen."""


# -- one section of a board ------------------------------------------------------------------------


@dataclass(frozen=True)
class SectionFacts:
    """What a template may ask of the rows of one section of a board.

    A length is a multiple of the positions of training. Without one, numbers are areas from 1x to
    8x, as the board ranks them.
    """

    standing: Ranked
    measured: Measured

    def of(self, row: str) -> pd.Series:
        """The line of a row; PosbenchError if the section has none of that name."""
        summary = self.standing.summary
        if row not in summary.index:
            near = closest(row, map(str, summary.index))
            hint = f": did you mean {near}?" if near else ""
            raise PosbenchError(f"{self.standing.part.title} has no row {row}{hint}")
        line: pd.Series = summary.loc[row]
        return line

    def number(self, row: str, length: float | None = None) -> str:
        """How far a row reaches, or its score at a length."""
        return number(self.value(row, length))

    def value(self, row: str, length: float | None = None) -> float:
        """The same for a condition, not rounded."""
        self.of(row)
        return float(self._numbers(length).loc[row, "number"])

    def reach(self, row: str, length: float | None = None) -> str:
        """The same with its interval."""
        self.of(row)
        line = self._numbers(length).loc[row]
        return f"{number(line['number'])}{bounds(line)}"

    def learned(self, row: str) -> str:
        """The share of its trainings that learned."""
        return f"{100 * self.of(row)['learned']:.0f} %"

    def on(self, row: str) -> str:
        """The tasks that it has learned, of those that it was run on."""
        line = self.of(row)
        return f"{line['tasks']:.0f} of {counted(int(line['num_tasks']), 'task')}"

    def less(self, row: str, other: str, length: float | None = None) -> str:
        """A row less another on the tasks that both have learned, with the interval."""
        line = self._less(row, other, length)
        ends = "" if pd.isna(line["low"]) else f"95 % {span(line['low'], line['high'])}, "
        return f"{number(line['difference'])} ({ends}{counted(int(line['common']), 'task')})"

    def gap(self, row: str, other: str, length: float | None = None) -> float:
        """The same difference for a condition, not rounded."""
        return float(self._less(row, other, length)["difference"])

    def compared(self, row: str, other: str, length: float | None = None) -> str:
        """The verb between two rows: what the interval of their difference allows to say."""
        line = self._less(row, other, length)
        if line["low"] > 0:
            return "reaches further than" if length is None else "scores higher than"
        if line["high"] < 0:
            return "reaches less far than" if length is None else "scores lower than"
        return "is not shown to differ from"

    def change(self, row: str, other: str, length: float | None = None) -> str:
        """The same for a cell of a table; a star marks what has one sign in every seed."""
        line = self._less(row, other, length)
        star = "\\*" if self.agreed(row, other, length) else ""
        return f"{number(line['difference'])}{bounds(line)}{star}"

    def agreed(self, row: str, other: str, length: float | None = None) -> bool:
        """Whether the difference has one sign in every seed, by its mean over tasks of a seed."""
        measure = "area" if length is None else f"{length:g}x"
        runs, _ = self.measured.with_scores(self.measured.runs, self.standing.longest)
        runs = runs[runs["trained"] & runs["row"].isin([row, other])]
        of, over = (
            runs[runs["row"] == each].set_index(["task", "seed"])[measure] for each in (row, other)
        )
        by_seed = (of - over).dropna().groupby("seed").mean().round(9)
        return bool((by_seed < 0).all() or (by_seed > 0).all())

    def over_seeds(self, row: str, other: str, task: str) -> str:
        """A row less another on one task, with the interval over the seeds that both learned."""
        of, over = (self._learned_areas(each, task) for each in (row, other))
        return with_interval(Estimate.over((of - over).dropna()))

    def seeds_of(self, row: str, task: str) -> str:
        """How many of its seeds learned a task, as in "1 of 5"."""
        runs = self.standing.part.runs
        mine = runs[(runs["row"] == row) & (runs["task_name"] == task)]
        return f"{len(self._learned_areas(row, task))} of {len(mine)}"

    def _learned_areas(self, row: str, task: str) -> pd.Series:
        self.of(row)
        runs = self.standing.part.runs
        mine = runs[(runs["row"] == row) & (runs["task_name"] == task) & runs["learned"]]
        areas: pd.Series = mine.set_index("seed")["area"]
        return areas

    def on_task(self, row: str, other: str, task: str, length: float) -> str:
        """A row less another at a length of one task, in the mean of the seeds that learned it."""
        fitted = self.standing.fitted
        assert fitted is not None
        cells = fitted.cell_means(f"{length:g}x")
        return number(float(cells.loc[row, task] - cells.loc[other, task]))

    def cell(self, row: str, task: str) -> str:
        """How far a row reaches on one task; a dash where none of its trainings learned it."""
        self.of(row)
        return number(float(self.standing.cells().loc[row, task]))

    def best(self, task: str, length: float) -> float:
        """The highest mean score of a row on a task at a length; 0 where none has learned it."""
        assert self.standing.fitted is not None
        return float(
            self.standing.fitted.cell_means(f"{length:g}x").get(task, pd.Series([0])).max()
        )

    def keys(self, row: str) -> str:
        """Whether the keys of earlier tokens can be cached."""
        return self._cell(row, "keys")

    @property
    def placed(self) -> list[str]:
        """The rows that have learned two thirds of the tasks, furthest first."""
        return self.standing.placed

    def first_at(self, length: float) -> str:
        """The row that is highest at a length."""
        return str(self.standing.at(length)["number"].idxmax())

    @property
    def level(self) -> int:
        """How many rows with a place are not shown to differ from the first."""
        summary = self.standing.summary
        return int((summary["placed"] & ~(summary["p_holm"] < SIGNIFICANT)).sum()) - 1

    def differing_at(self, length: float) -> tuple[int, int]:
        """Of the rows other than the highest at a length: how many differ from it after Holm's
        correction, and how many there are.
        """
        assert self.standing.fitted is not None
        first, rows = self.first_at(length), list(map(str, self.standing.at(length).index))
        less = self.standing.fitted.differences(first, rows, f"{length:g}x")
        return int((less["p_holm"] < SIGNIFICANT).sum()), len(less)

    @property
    def num_rows(self) -> int:
        """How many rows there are, with those that have no place."""
        return len(self.standing.summary)

    @property
    def num_tasks(self) -> int:
        """How many tasks a row was run on."""
        return len(self.standing.tasks)

    def seeds(self, row: str) -> str:
        """How many seeds a row has on each of its tasks."""
        self.of(row)
        runs = self.standing.part.runs
        counts = runs[runs["row"] == row].groupby("task")["seed"].nunique()
        least, most = int(counts.min()), int(counts.max())
        return counted(most, "seed") if least == most else f"{least} to {counted(most, 'seed')}"

    @property
    def others_first(self) -> int:
        """Without how many of its tasks, one at a time, another row than the first is first."""
        standing = self.standing
        rows = [standing.first_without.get(task) for task in standing.tasks]
        return sum(row is not None and row != standing.placed[0] for row in rows)

    @property
    def split(self) -> tuple[int, int]:
        """Of the pairs of row and task with several seeds: how many have a seed that learned and
        one that did not, and how many there are.
        """
        runs = self.standing.part.runs
        of = runs.groupby(["row", "task"])["learned"].agg(["mean", "size"])
        several = of[of["size"] > 1]
        return int(several["mean"].between(0, 1, inclusive="neither").sum()), len(several)

    def by_share(self, method: str) -> dict[float, str]:
        """The rows of a method by the share of the positions that its setting has, furthest first.

        A row whose name has no setting has the method's default: the share that is left over.
        """
        share = re.compile(r"positions:([\d.]+)")
        rows = [row for row in self.standing.known if row.partition(" (")[0] == method]
        found = {row: float(of[1]) for row in rows if (of := share.search(row))}
        asked = {float(each) for each in share.findall(" ".join(self.standing.part.rows.settings))}
        if len(left := asked.difference(found.values())) != len(rows) - len(found) or len(left) > 1:
            raise PosbenchError(f"{method} has not one row for each of {sorted(asked)}")
        return {found[row] if row in found else min(left): row for row in rows}

    def table(self, rows: Sequence[str], columns: Sequence[str], first: str = "method") -> str:
        """Rows in Markdown; a column is one of the board, a task, a length such as "4x", or
        "less ROW".
        """
        if len(rows) > MOST:
            raise PosbenchError(f"a table of {len(rows)} rows is too long: at most {MOST}")
        shown = [[code(row), *(self._cell(row, column) for column in columns)] for row in rows]
        headings = [re.sub(r"^less (\w+)$", r"less `\1`", each) for each in columns]
        return "\n".join(pipes([first, *headings], shown))

    def _numbers(self, length: float | None) -> pd.DataFrame:
        if length is not None:
            return self.standing.at(length)
        return self.standing.summary.rename(columns={"reaches": "number"})

    def _less(self, row: str, other: str, length: float | None) -> pd.Series:
        fitted = self.standing.fitted
        if fitted is None:
            raise PosbenchError(f"no row of {self.standing.part.title} has learned a task")
        for each in {row, other}.difference(fitted.rows):  # those of other sections are there too
            self.of(each)
        measure = "area" if length is None else f"{length:g}x"
        line: pd.Series = fitted.differences(other, [row], measure).loc[row]
        return line

    def _cell(self, row: str, column: str) -> str:
        self.of(row)
        headings = self._ranking.headings[1:]
        if column in headings:
            cells = {line.name: line.cells for line in self._ranking.rows}
            return cells[row][headings.index(column)]
        if column.startswith("less "):
            other = column.removeprefix("less ")
            return NOTHING if row == other else self.less(row, other)
        if re.fullmatch(r"[\d.]+x", column):
            return self.number(row, float(column[:-1]))
        if column in self.standing.tasks:
            return self.cell(row, column)
        raise PosbenchError(f"{self.standing.part.title} has no column {column}")

    @functools.cached_property
    def _ranking(self) -> Any:
        return ranking(self.standing, self.measured)


# -- all boards ------------------------------------------------------------------------------------


class Facts:
    """What a template may ask of a folder that holds results/ and docs/."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._found: dict[str, dict[str, SectionFacts]] = {}

    def section(self, board: str, title: str) -> SectionFacts:
        """A section of a board by its title; PosbenchError if there is none."""
        found = self._sections(board)
        if title not in found:
            raise PosbenchError(f"board {board} has no section {title}: it has {', '.join(found)}")
        return found[title]

    @functools.cache  # noqa: B019 (one object for all pages)
    def measured(self, board: str) -> Measured:
        """The runs of a board."""
        folder = self.root / "results" / board
        return Measured.of(files.records(folder), definition.board_of(folder))

    def frame(self, board: str) -> pd.DataFrame:
        """The long table of the records of a board."""
        return self.measured(board).lengths

    def num_records(self, *boards: str) -> str:
        """How many runs these boards have."""
        columns = ["protocol_hash", "task_hash", "method_hash", "seed"]
        return f"{sum(len(self.frame(each).drop_duplicates(columns)) for each in boards):,}"

    def waits(self, panel: str) -> str:
        """That a question waits for the records of a panel."""
        definition.load(panel)  # and there is such a panel
        link = f"[conf/board/{panel}.yaml](../conf/board/{panel}.yaml)"
        if (self.root / "results" / panel / "records").is_dir():
            done = self.num_records(panel)
            return (
                f"The panel {link} asks it; {done} of its runs are done, and it is not summed up."
            )
        return f"The panel {link} asks it and has no records yet: `posbench sweep board={panel}`."

    @property
    def unrun(self) -> str:
        """The parts of the main board without a record."""
        known = {each.standing.part.rows for each in self._sections("main").values()}
        titles = [
            title for title, rows in definition.load("main").parts.items() if rows not in known
        ]
        return ", ".join(titles)

    def size(self, group: str) -> int:
        """How many encodings, extensions or tasks there are.

        An extension is the same one with settings that are searched, of the last layers alone, with
        one scale, or trained from the middle on; so is an encoding that is computed in blocks.
        """
        names = own_names(group)
        if group == "extension":
            again = re.compile(r"(?<!_fine)_tuned$|_last(_|$)|_served_|_early")
            names = [name for name in names if not again.search(name)]
        return len([name for name in names if not name.endswith("_blocked")])

    # -- claims of papers --------------------------------------------------------------------------

    def claim(self, board: str, text: str) -> str:
        """The verdict on a claim, with the difference of its two sides."""
        found = [each for each in self.verdicts(board) if each.claim.claim == text]
        if len(found) != 1:
            near = closest(text, [each.claim.claim for each in self.verdicts(board)])
            raise PosbenchError(f"{board} has no claim {text!r}{f': {near!r}?' if near else ''}")
        return _verdict(found[0])

    def claims_table(self, board: str, texts: Sequence[str]) -> str:
        """Claims with their verdicts, in Markdown; what was written afterwards is marked."""
        after = {each.claim.claim for each in self.verdicts(board) if each.claim.post_hoc}
        rows = [
            [f"{text}{AFTERWARDS * (text in after)}", self.claim(board, text)] for text in texts
        ]
        return "\n".join(pipes(["claim", "verdict, both sides, difference"], rows, "ll"))

    def count(self, board: str, verdict: str | None = None, by_seed: bool = False) -> int:
        """How many claims there are that were written before their runs, or have a verdict."""
        found = self.verdicts(board, by_seed)
        before = [each.verdict for each in found if not each.claim.post_hoc]
        return len(before) if verdict is None else Counter(map(str, before))[verdict]

    def untestable(self, board: str, text: str) -> list[str]:
        """The tasks of a claim on which a side fails at 1x already, with one encoding at least."""
        [found] = [each for each in self.verdicts(board) if each.claim.claim == text]
        failed = (each.task for each in found.tables if each.gate == Outcome.NOT_TESTABLE)
        return list(dict.fromkeys(failed))

    @functools.cache  # noqa: B019
    def verdicts(self, board: str, by_seed: bool = False) -> list[Finding]:
        """What records say of the claims of a board; `by_seed` has a gate for each seed."""
        stated, frame = (
            read_claims(self.root / "results" / board / "claims.yaml"),
            self.frame(board),
        )
        of_papers = [claim for claim in stated if claim.experiments]
        rest = [claim for claim in stated if not claim.experiments]
        found = []
        if of_papers:
            found += findings(of_papers, of_experiments(of_papers, frame), by_seed)
        return [*found, *(findings(rest, frame, by_seed) if rest else [])]

    # -- a pretrained model ------------------------------------------------------------------------

    def answered(self, task: str, extension: str, length: float) -> str:
        """How many samples the pretrained model answers in full."""
        frame = self.frame("pretrained")
        rows = (frame["task"] == task) & (frame["extension"] == extension)
        scores = frame.loc[rows & (frame["multiple"] == length), "score"]
        return f"{int(scores.sum())} of {len(scores)}"

    def gains(self, task: str, length: float) -> str:
        """Extensions of the pretrained model: answers in full, and the gain in log-likelihood."""
        frame = self.frame("pretrained")
        mine = frame[frame["task"] == task]
        likelihoods = of_board(mine)
        at = mine[mine["multiple"] == length]
        rows = []
        for (label, digest), tests in at.groupby(["method", "method_hash"]):
            found = likelihoods[label, digest, length]
            gain = f"{found.more}" if found.more is not None else NOTHING
            answered = f"{int(tests['score'].sum())} of {len(tests)}"
            name = code(label.partition("@")[0])
            rows.append((-found.log_likelihood, [name, gain, answered]))
        columns = ["extension", "gain, nats a token [95 %]", "answers in full"]
        return "\n".join(pipes(columns, [cells for _, cells in sorted(rows)]))

    def added(self, board: str, model: str, extension: str) -> Estimate:
        """The loss of an extension of a pretrained model less that of none, over texts."""
        frame = self.frame(board)
        mine = frame[frame["encoding"].str.startswith(model)]
        loss = mine.pivot(index="seed", columns="extension", values="loss")
        if extension not in loss:
            raise PosbenchError(f"{board} has no record of {extension} on {model}")
        return Estimate.over((loss[extension] - loss["direct"]).dropna())

    def added_table(self, board: str, extensions: Sequence[str], factors: Sequence[int]) -> str:
        """`added` by model and extension, with a column for each factor that is served."""
        rows = []
        for model in sorted(self.frame(board)["encoding"].unique()):
            for name in extensions:
                found = [self.added(board, model, f"{name}_served_{each}") for each in factors]
                cells = [f"{number(each.mean, 3)} ±{number(each.half_width, 3)}" for each in found]
                rows.append([code(model.rpartition("-")[0]), code(name), *cells])
        return "\n".join(
            pipes(["model", "extension", *(f"factor {each}" for each in factors)], rows)
        )

    def num_texts(self, board: str) -> str:
        """How many texts each model read."""
        counts = self.frame(board).groupby("encoding")["seed"].nunique()
        return " and ".join(
            f"{count} by {code(name.rpartition('-')[0])}" for name, count in counts.items()
        )

    # -- sentences of other pages ------------------------------------------------------------------

    def quoted(self, page: str, beginning: str) -> str:
        """The sentence of a generated page that begins so, up to its full stop."""
        text = read_text(self.root / page, 10_000_000)
        place = text.find(beginning)
        if place < 0:
            raise PosbenchError(f"{page} says nothing that begins with {beginning!r}")
        ends = re.search(r"\.(?=\s|$)", text[place:])
        return " ".join(text[place : place + ends.end()].split()) if ends else text[place:]

    def _sections(self, board: str) -> dict[str, SectionFacts]:
        if board not in self._found:
            asked = definition.board_of(self.root / "results" / board)
            measured = self.measured(board)
            standings = standings_of(asked, measured) or standings_without_board(measured)
            self._found[board] = {
                each.part.title: SectionFacts(each, measured) for each in standings
            }
        return self._found[board]


def _verdict(found: Finding) -> str:
    """The verdict, the means of both sides over all pairs, and their difference."""
    if pd.isna(found.difference.mean):
        return f"{found.verdict}"
    of, over = (
        number(float(pd.concat([getattr(each, side) for each in found.left]).mean()))
        for side in ("of", "over")
    )
    over = over if isinstance(found.claim.over, Side) else f"a limit of {over}"
    pairs = counted(found.num_pairs, "pair")
    return f"{found.verdict}: {of} and {over}, {with_interval(found.difference)}, {pairs}"


def holds(condition: object, sentence: str) -> None:
    """Refuse a page whose words its numbers no longer bear out; a template says what they need."""
    if not condition:
        raise PosbenchError(f"the records no longer say that {sentence}: write this part again")


# -- templates -------------------------------------------------------------------------------------


def filled(root: Path, name: str, facts: Facts) -> str:
    """The page that a template makes."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root / TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, whose names are our own
        extensions=["jinja2.ext.do"],
    )
    environment.globals |= {"facts": facts, "code": code, "holds": holds}
    text = environment.get_template(name).render()
    return f"<!-- Filled in from {TEMPLATES}/{name} by `{COMMAND}`; do not edit. -->\n{text}"


def pages(root: Path) -> dict[Path, bytes]:
    """Every page that has a template, by its path."""
    facts = Facts(root)
    names = sorted(path.name for path in (root / TEMPLATES).glob("*.md"))
    if not names:
        raise PosbenchError(f"{root} has no {TEMPLATES}: give the folder of the repository")
    return {
        (root if name in AT_THE_ROOT else root / "docs") / name: filled(root, name, facts).encode()
        for name in names
    }


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = commands.parser(COMMAND, "Templates and records in, documentation out.", check=True)
    parser.add_argument(
        "root", nargs="?", type=Path, default=Path(), help="the repository; default: here"
    )
    chosen = parser.parse_args(arguments)

    def written() -> int:
        made = pages(chosen.root)
        commands.write_or_check(made, chosen.check, f"run `{COMMAND}`")
        said = ", ".join(map(str, made))
        emit(f"{said}: up to date." if chosen.check else f"Written: {said}")
        return 0

    return exit_status(written)


if __name__ == "__main__":
    sys.exit(main())
