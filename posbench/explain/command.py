"""`posbench explain method=rope task=passkey`: why a method stops, on one page.

    posbench explain method=rope task=passkey
    posbench explain method=rope,rope_yarn task=key_value_retrieval seed=1

The words are those of `python -m posbench`; two methods are shown side by side. A model that is not
trained yet is trained first, and kept where runs keep theirs. What is found at 1x, 2x, 4x and 8x
goes to RESULTS/explain/PROTOCOL/TASK/METHODS/seed=SEED.html, and in sentences to the terminal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posbench.base.disk import write_whole, writing_to
from posbench.base.errors import PosbenchError
from posbench.config import command_lines, mistakes
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.folders import with_own
from posbench.config.words import Word

if TYPE_CHECKING:
    from posbench.explain.page import Explanation
    from posbench.running.run_spec import RunSpec

MULTIPLES = (1.0, 2.0, 4.0, 8.0)
MOST = 2
"""Methods that are shown side by side."""


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser("posbench explain", "Why a method stops.", config_dir=True)
    parser.add_argument("words", nargs="+", help="as after python -m posbench, one or two methods")
    chosen = parser.parse_intermixed_args(arguments)

    def explained() -> int:
        requested = runs(chosen.words, chosen.config_dir)
        with composing(*chosen.config_dir):
            for words in requested:
                mistakes.check(words, chosen.config_dir)
            return _explain(requested, chosen.config_dir)

    return exit_status(explained, chosen.words, chosen.config_dir)


def runs(words: Sequence[str], own: Sequence[Path] = ()) -> list[list[str]]:
    """The words of each run: those that list two values are of two runs.

    What makes a row may be listed, and nothing else: a page is of one task and one seed.
    """
    read = [Word.of(word) for word in words]
    several = [word for word in read if word.several]
    if tests := [word.text for word in several if not word.makes_row]:
        raise PosbenchError(
            f"{' '.join(tests)} asks for several pages: two methods are side by side on one task "
            "with one seed, so choose one and give the command once for each"
        )
    if len(several) > 1 or any(len(word.values(own)) > MOST for word in several):
        said = " ".join(word.text for word in several)
        raise PosbenchError(
            f"{said} asks for more than two runs: two are side by side, as method=rope,rope_yarn"
        )
    # A pattern that matches nothing is kept, and refused with all else that may be wrong.
    each = [word.each(own) or [word.text] for word in read]
    return [list(run) for run in itertools.product(*each)]


def _explain(requested: Sequence[Sequence[str]], own: Sequence[Path]) -> int:
    from posbench.explain.page import html, text  # and with it torch
    from posbench.running.run_spec import RunSpec
    from posbench.showing.pages import explanation_path

    runs = [RunSpec.of(compose(*words)) for words in requested]
    explained: list[Explanation] = []
    for run in runs:
        explained.append(_explained(run, own))
        print(text(explained[-1]), end="\n\n", flush=True)

    first = runs[0]
    names = [run.identity.method.slug for run in runs]
    path = first.results_dir / explanation_path(
        first.identity.protocol.slug, first.identity.task.slug, names, first.seed
    )
    with writing_to(first.results_dir):
        write_whole(path, html(explained), first.results_dir)
    print(f"Written: {path}")
    return 0


def _explained(spec: RunSpec, own: Sequence[Path]) -> Explanation:
    """One run explained; its command names the folders of the user."""
    from posbench.explain.measures import inside
    from posbench.explain.page import Explanation
    from posbench.running.console import Console
    from posbench.running.prepare import ReadyRun

    ready = ReadyRun.of(spec, Console())
    setup = ready.setup
    if setup.extension.retrained:
        raise PosbenchError("a ceiling is another model at each length: explain the method itself")
    prepared = ready.prepare(ready.train())
    record = spec.record()
    found = record if record is not None else prepared.evaluate()
    return Explanation(
        spec.identity.method.label,
        spec.identity.task.label,
        setup.task.measure,
        str(with_own(spec.command, own)),
        found.rows,
        list(found.views),
        inside(setup.evaluation, prepared.placed(), prepared.extension, MULTIPLES),
    )
