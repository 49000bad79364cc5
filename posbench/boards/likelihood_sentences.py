"""How much likelier answers of pretrained models are under each extension, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from posbench.boards.labels import METHOD
from posbench.statistics import likelihoods
from posbench.statistics.aggregates import is_pretrained

BOARD = ["protocol_hash", "task_hash", "task_version", "protocol", "task"]


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """One sentence for each pretrained model and task: extensions at the longest test, best first.

    The model without extension must be there to be compared with.
    """
    mine = table[table["method_class"].map(is_pretrained).astype(bool)]
    for (*_, model), tests in mine.groupby([*BOARD, "encoding"]):
        found = likelihoods.of_board(tests)
        longest = float(tests["multiple"].max())
        names = _extensions(tests)
        at_longest = {
            names[label, digest]: likelihood
            for (label, digest, multiple), likelihood in found.items()
            if multiple == longest
        }
        said = {name: each.more for name, each in at_longest.items() if each.more is not None}
        if not said:
            continue
        ordered = sorted(said.items(), key=lambda each: (-each[1].more, each[0]))
        task = tests.iloc[0]["task"]
        lost = [f"{name} {each.lost}" for name, each in sorted(at_longest.items()) if each.lost]
        rows = ", ".join([*(f"{name} {more}" for name, more in ordered), *lost])
        yield (
            f"{task} at {longest:g}x, gain in log-likelihood of an answer's token over {model} "
            f"without extension, in nats, with 95 % intervals over samples: {rows}."
        )


def _extensions(tests: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What each row has been given, with what was changed; the label where two have the same."""
    rows = tests.drop_duplicates(METHOD)
    changed = (rows["extension"] + " (" + rows["changed"] + ")").where(
        rows["changed"] != "", rows["extension"]
    )
    shown = rows["method"].where(changed.duplicated(keep=False), changed)
    return dict(zip(rows[METHOD].itertuples(index=False, name=None), shown, strict=True))
