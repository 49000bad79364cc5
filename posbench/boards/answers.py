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
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2
import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, counted, listed
from posbench.boards.claims.claim import Side, read_claims
from posbench.boards.claims.page import of_experiments
from posbench.boards.claims.verdicts import Finding, Outcome, findings
from posbench.boards.measured_runs import MeasuredRuns, MoreContext, more_context
from posbench.boards.predictions import PredictionOutcome, predictions
from posbench.boards.ranking import standings_of, standings_without_board, unrun_parts
from posbench.boards.section_facts import SectionFacts
from posbench.boards.tables import context_parts
from posbench.config import board as definition
from posbench.config import command_lines
from posbench.config.board import Board
from posbench.config.exit_status import exit_status
from posbench.config.folders import own_names
from posbench.config.names import labelled
from posbench.records import files
from posbench.showing.table import NOTHING, code, number, pipes, with_interval
from posbench.statistics.aggregates import Estimate
from posbench.statistics.likelihoods import LAST_TOKENS, added, of_board
from posbench.statistics.randomisation import holm
from posbench.statistics.standings import SIGNIFICANT

COMMAND = "python -m posbench.boards.answers"
TEMPLATES = Path("docs/templates")
AT_THE_ROOT = ("README.md",)
"""Pages that are written into the folder itself; the others go into docs/."""
AFTERWARDS = " (post hoc)"
"""Behind a claim that was written after its records were seen."""


# -- all boards ------------------------------------------------------------------------------------


class Facts:
    """What a template may ask of a folder that holds results/ and docs/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def section(self, board: str, title: str) -> SectionFacts:
        """A section of a board by its title; PosbenchError if there is none."""
        found = self._sections(board)
        if title not in found:
            raise PosbenchError(f"board {board} has no section {title}: it has {', '.join(found)}")
        return found[title]

    @functools.cache  # noqa: B019 (one object for all pages)
    def measured(self, board: str) -> MeasuredRuns:
        """The runs of a board."""
        return MeasuredRuns.of(files.records(self.root / "results" / board), self._asked(board))

    def frame(self, board: str) -> pd.DataFrame:
        """The long table of the records of a board."""
        return self.measured(board).lengths

    def predicted(self, board: str, said: str) -> dict[str, PredictionOutcome]:
        """What came of a prediction of a board, by the first row of each pair."""
        return {each.first: each for each in self.pairs(board, said)}

    @functools.cache  # noqa: B019 (one object for all pages)
    def pairs(self, board: str, said: str) -> list[PredictionOutcome]:
        """What came of a prediction of a board, pair by pair."""
        standings = [each.standing for each in self._sections(board).values()]
        found = predictions(self._asked(board), standings, self._contexts(board))
        if said not in found:
            raise PosbenchError(f"board {board} predicts no {said!r}: it has {', '.join(found)}")
        return found[said]

    def gaining(self, board: str, said: str) -> int:
        """For how many pairs of a prediction the first is shown to reach further, after Holm's
        correction for the number of its pairs.
        """
        pairs = self.pairs(board, said)
        corrected = zip(holm([each.p for each in pairs]), pairs, strict=True)
        return sum(p < SIGNIFICANT and each.difference > 0 for p, each in corrected)

    def predictions_table(self, board: str) -> str:
        """Each prediction of a board: for how many of its pairs it holds, and for which not."""
        rows = []
        shown = asked = 0
        for said in self._asked(board).contrasts:
            if not (pairs := [each for each in self.pairs(board, said) if each.common]):
                continue
            against = [f"{each.first} and {each.second}" for each in pairs if not each.holds]
            held = f"{len(pairs) - len(against)} of {len(pairs)}"
            rows.append([said, held, ", ".join(against) or NOTHING])
            shown += sum(each.low > 0 for each in pairs)
            asked += len(pairs)
        table = pipes(["predicted", "holds for", "and not for"], rows, "lrl")
        rule = (
            "A prediction holds for a pair by its margin, mostly .02 on average over tasks. "
            f"That is no test: for {shown} of {asked} the interval is above 0."
        )
        return "\n".join([*table, "", rule])

    def context(self, board: str) -> MoreContext:
        """What more context gives or takes on the one task of a board."""
        [found] = self._contexts(board)
        return found

    def lost(self, board: str, row: str, seed: int, multiple: float) -> float:
        """What one seed of a row loses from 1x to a multiple, in nats a token."""
        runs = self.context(board).by_text
        runs = runs[(runs["row"] == row) & (runs["seed"] == seed)]
        far, near = (runs[runs["multiple"] == each] for each in (multiple, 1.0))
        return float((far["nats"].sum() - near["nats"].sum()) / far["tokens"].sum())

    def context_table(self, board: str) -> str:
        """The same as a table, a line a row."""
        [part] = context_parts([self.context(board)])
        [shown] = part.tables
        return "\n".join(shown.pipes)

    def num_records(self, *boards: str) -> str:
        """How many runs these boards have; one that several have counts once."""
        columns = ["protocol_hash", "task_hash", "method_hash", "seed"]
        runs = pd.concat([self.frame(each)[columns].drop_duplicates() for each in boards])
        return f"{len(runs.drop_duplicates()):,}"

    @property
    def unrun(self) -> str:
        """The parts of the main board without a record."""
        found = (each.standing.part for each in self._sections("main").values())
        return ", ".join(unrun_parts(definition.load("main"), found))

    def size(self, group: str) -> int:
        """How many encodings, extensions or tasks there are, without controls.

        An extension is the same one with settings that are searched, of the last layers alone, with
        one scale, or trained from the middle on; so is an encoding that is computed in blocks.
        """
        names = own_names(group)
        if group == "extension":
            again = re.compile(r"(?<!_fine)_tuned$|_last(_|$)|_served_|_early")
            control = re.compile(r"^direct|^ceiling$|^only$|^both$")
            names = [name for name in names if not again.search(name) and not control.search(name)]
        return len([name for name in names if not name.endswith("_blocked")])

    # -- claims of papers --------------------------------------------------------------------------

    def claim(self, board: str, text: str) -> str:
        """The verdict on a claim, with the difference of its two sides."""
        return _verdict(self._finding(board, text))

    def claims_table(self, board: str, texts: Sequence[str]) -> str:
        """Claims with their verdicts, in Markdown; what was written afterwards is marked."""
        found = [self._finding(board, text) for text in texts]
        rows = [
            [f"{each.claim.claim}{AFTERWARDS * each.claim.post_hoc}", _verdict(each)]
            for each in found
        ]
        return "\n".join(pipes(["claim", "verdict, both sides, difference"], rows, "ll"))

    def count(self, board: str, verdict: str | None = None, by_seed: bool = False) -> int:
        """How many claims there are that were written before their runs, or have a verdict."""
        found = self.verdicts(board, by_seed)
        before = [each.verdict for each in found if not each.claim.post_hoc]
        return len(before) if verdict is None else Counter(map(str, before))[verdict]

    def untestable(self, board: str, text: str) -> list[str]:
        """The tasks of a claim on which a side fails at 1x already, with one encoding at least."""
        tables = self._finding(board, text).tables
        failed = (each.task for each in tables if each.gate == Outcome.NOT_TESTABLE)
        return list(dict.fromkeys(failed))

    def _finding(self, board: str, text: str) -> Finding:
        """What records say of a claim; PosbenchError if the board has none with these words."""
        found = {each.claim.claim: each for each in self.verdicts(board)}
        if text not in found:
            near = closest(text, found)
            raise PosbenchError(f"{board} has no claim {text!r}{f': {near!r}?' if near else ''}")
        return found[text]

    @functools.cache  # noqa: B019
    def verdicts(self, board: str, by_seed: bool = False) -> list[Finding]:
        """What records say of the claims of a board; `by_seed` has a gate for each seed."""
        stated = read_claims(self.root / "results" / board / "claims.yaml")
        of_papers = [claim for claim in stated if claim.experiments]
        rest = [claim for claim in stated if not claim.experiments]
        frame = self.frame(board)
        return [
            *findings(of_papers, of_experiments(of_papers, frame), by_seed),
            *findings(rest, frame, by_seed),
        ]

    # -- a pretrained model ------------------------------------------------------------------------

    def answered(self, task: str, extension: str, length: float, board: str = "pretrained") -> str:
        """How many samples the pretrained model answers in full."""
        frame = self.frame(board)
        rows = (frame["task"] == task) & (frame["extension"] == extension)
        scores = frame.loc[rows & (frame["multiple"] == length), "score"]
        return f"{int(scores.sum())} of {len(scores)}"

    def gains(self, task: str, length: float, board: str = "pretrained") -> str:
        """Extensions of the pretrained model: answers in full, and the gain in log-likelihood."""
        frame = self.frame(board)
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

    def added(
        self, board: str, model: str, extension: str, tokens: int, task: str = LAST_TOKENS
    ) -> Estimate:
        """The loss of an extension of a pretrained model minus that of none, over texts."""
        found = added(self._read_by(board, model, tokens, task), extension, questions(task))
        if found is None:
            raise PosbenchError(f"{board} has no record of {extension} on {model}")
        return found

    def loss(self, board: str, model: str, tokens: int, task: str = LAST_TOKENS) -> float:
        """The mean loss of a pretrained model without an extension, in nats a token."""
        here = self._read_by(board, model, tokens, task)
        return float(here.loc[here["extension"] == "direct", "loss"].mean())

    def adds(
        self, board: str, model: str, extension: str, tokens: int, task: str = LAST_TOKENS
    ) -> str:
        """`added` with its interval."""
        return _cost(self.added(board, model, extension, tokens, task))

    def added_table(
        self,
        board: str,
        extensions: Sequence[str],
        factors: Sequence[int],
        tokens: Sequence[int],
        task: str = LAST_TOKENS,
    ) -> str:
        """`added` by model, length and extension, with a column for each factor that is served."""
        rows = []
        for model in sorted(self.frame(board)["encoding"].unique()):
            for length, name in itertools.product(tokens, extensions):
                mine = self._read_by(board, model, length, task)
                one = questions(task)
                found = [added(mine, f"{name}_served_{each}", one) for each in factors]
                costs = [_cost(each) for each in found if each is not None]
                if costs:
                    texts = str(mine["seed"].nunique() // one)
                    what = [code(model.rpartition("-")[0]), f"{length:,}", texts, code(name)]
                    rows.append([*what, *costs])
        headings = ["model", "tokens", "texts", "extension"]
        return "\n".join(
            pipes(
                [*headings, *(f"factor {each}" for each in factors)],
                rows,
                "lrrl" + "r" * len(factors),
            )
        )

    def _read_by(self, board: str, model: str, tokens: int, task: str) -> pd.DataFrame:
        """The lines of a model on a task at a length."""
        frame = self.frame(board)
        here = frame["encoding"].str.startswith(model) & (frame["test_length"] == tokens)
        return frame[here & (frame["task"] == task)]

    # -- sentences of other pages ------------------------------------------------------------------

    def quoted(self, page: str, beginning: str, below: str = "") -> str:
        """The sentence of a generated page that begins so, up to its full stop: the first one below
        a heading.
        """
        text = read_text(self.root / page, 10_000_000)
        text = text[max(text.find(f"## {below}\n"), 0) :] if below else text
        place = text.find(beginning)
        if place < 0:
            raise PosbenchError(f"{page} says nothing that begins with {beginning!r}")
        ends = re.search(r"\.(?=\s|$)", text[place:])
        return " ".join(text[place : place + ends.end()].split()) if ends else text[place:]

    def _asked(self, board: str) -> Board:
        return definition.board_of(self.root / "results" / board)

    @functools.cache  # noqa: B019 (one object for all pages)
    def _contexts(self, board: str) -> list[MoreContext]:
        return more_context(self.measured(board))

    @functools.cache  # noqa: B019 (one object for all pages)
    def _sections(self, board: str) -> dict[str, SectionFacts]:
        asked, measured = self._asked(board), self.measured(board)
        standings = standings_of(asked, measured) or standings_without_board(measured)
        return {each.part.title: SectionFacts(each, measured, asked) for each in standings}


def questions(task: str) -> int:
    """How many samples share a text in the published records of pretrained models."""
    return 1 if task == LAST_TOKENS else 10


def _cost(found: Estimate) -> str:
    """Thousandths of a nat, which differ where hundredths do not."""
    return f"{number(found.mean, 3)} ±{number(found.half_width, 3)}"


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


def short_answers(page: str, *headings: str) -> str:
    """A list of the questions with these beginnings, each with the bold sentences below it."""
    lines = []
    for beginning in headings:
        found = re.search(rf"^##+ ({re.escape(beginning)}.*)\n+\*\*(.+)\*\*$", page, re.M)
        if not found:
            raise PosbenchError(f"no answer in bold follows a heading that begins {beginning!r}")
        question, answer = found.groups()
        anchor = re.sub(r"[^\w -]", "", question.lower()).replace(" ", "-")
        lines.append(f"- [{question}](#{anchor})<br>{answer}")
    return "\n".join(lines)


# -- published lower bounds on the base of RoPE, for a context of so many positions ----------------

STEP = 1.001
"""The ratio of the bases that are tried. A base above one that fits need not fit."""
FEW = 64
"""Distances that are tried first."""


def decay(length: int, width: int) -> float:
    r"""The least b with sum_i cos(m b^(-2i/d)) >= 0 for every distance m < L, i = 0..d/2-1, to a
    thousandth. Below it a query may look at a random key rather than at a similar one far away.

    Args:
        length: L, positions
        width: d, of a head, even

    Source: arXiv 2405.14591.
    """
    exponents = -np.arange(width // 2) * 2 / width
    base = 1.0
    while not _is_positive(base**exponents, length):
        base *= STEP
    return base


def aliasing(length: int) -> float:
    """The bound b > L / (2 pi), with which the slowest pair of a wide head turns less than once.
    Its frequency b^(2/d - 1) is taken as 1 / b, here and in `drift`. Source: arXiv 2602.10959.
    """
    return length / (2 * math.pi)


def with_base(base: int, longer: bool) -> str:
    """The row of RoPE with a base, trained on longer sequences or not, as boards call it."""
    settings = [] if base == 10000 else [f"encoding.base={base}"]
    return labelled("rope", [*settings, "training.length_scale=4"] if longer else settings)


def turning(length: int, base: float) -> float:
    """About the share of the pairs that turn within a context: ln(L / 2 pi) / ln b, since pair i of
    a head of d channels turns once in 2 pi b^(2i/d) positions.
    """
    return math.log(length / (2 * math.pi)) / math.log(base)


def turn(base: float, width: int) -> float:
    """Positions in which the slowest pair of a head turns once: 2 pi b^(1 - 2/d)."""
    return float(2 * math.pi * base ** (1 - 2 / width))


def drift(length: int) -> float:
    """The bound b >= L / arccos(epsilon): the cosine of the slowest pair is epsilon or above. Here
    epsilon is 0, in one layer, the least that can be asked. Source: arXiv 2602.10959.
    """
    return 2 * length / math.pi


def _is_positive(frequencies: npt.NDArray[np.float64], length: int) -> bool:
    """Whether the sum of cosines is nowhere negative. Near distances mostly decide."""
    start, end = 0, min(FEW, length)
    while start < end:
        distances = np.arange(start, end)
        if (np.cos(distances[:, None] * frequencies).sum(1) < 0).any():
            return False
        start, end = end, min(2 * end, length)
    return True


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
    environment.globals |= {"facts": facts, "code": code, "number": number, "holds": holds}
    environment.globals |= {
        "decay": decay,
        "aliasing": aliasing,
        "drift": drift,
        "turn": turn,
        "turning": turning,
    }
    environment.globals |= {"with_base": with_base, "short_answers": short_answers}
    environment.filters["listed"] = listed
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
    parser = command_lines.parser(
        COMMAND, "Templates and records in, documentation out.", check=True
    )
    parser.add_argument(
        "root", nargs="?", type=Path, default=Path(), help="the repository; default: here"
    )
    chosen = parser.parse_args(arguments)

    def written() -> int:
        made = pages(chosen.root)
        command_lines.write_or_check(made, chosen.check, f"run `{COMMAND}`")
        said = ", ".join(map(str, made))
        emit(f"{said}: up to date." if chosen.check else f"Written: {said}")
        return 0

    return exit_status(written)


if __name__ == "__main__":
    sys.exit(main())
