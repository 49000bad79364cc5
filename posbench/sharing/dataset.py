"""Records as a data set: Parquet files, and a card that says what is in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing.table import pipes
from posbench.statistics.aggregates import PRETRAINED, is_pretrained

CONFIGURATIONS = {
    "cells": "one row a run and test length: what was measured, and of which run",
    "views": "one row a run, test length and bin: accuracy and loss by distance, depth or position",
    "choices": "one row a run that chose settings, which stand in `chosen` as JSON",
}
"""Name of a file and of its configuration -> what a row is."""
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}


def frames(found: Sequence[Record]) -> dict[str, pd.DataFrame]:
    """The tables by the name of their configuration."""
    chosen = tables.choices(found)
    chosen["chosen"] = [json.dumps(each, sort_keys=True) for each in chosen["chosen"]]
    return {"cells": tables.table(found), "views": tables.views(found), "choices": chosen}


def write(found: Sequence[Record], folder: Path) -> list[Path]:
    """Write data/*.parquet and README.md; the same records give the same bytes.

    A table without rows is left out: hubs refuse a file that they cannot tell the types of.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise PosbenchError("Parquet needs a library: pip install 'posbench[parquet]'") from None
    made = {name: frame for name, frame in frames(found).items() if len(frame)}
    paths = [folder / "data" / f"{name}.parquet" for name in made]
    for path, frame in zip(paths, made.values(), strict=True):
        write_whole(path, frame.to_parquet(None, engine="pyarrow", index=False), folder)
    card = folder / "README.md"
    write_whole(card, _card(made))
    return [*paths, card]


def _trained(runs: pd.DataFrame) -> str:
    """What the runs are made of, in sentences."""
    as_found = runs["method_class"].map(is_pretrained).astype(bool)
    said = []
    if not as_found.all():
        of = "Every run" if not as_found.any() else "Every other run"
        said.append(
            f"{of} trains a small model from scratch on a synthetic task; its scores are no "
            "statement about large language models."
        )
    if as_found.any():
        said.insert(
            0,
            f"{counted(int(as_found.sum()), 'run')} of class {PRETRAINED} "
            f"{agreeing(int(as_found.sum()), 'tests', 'test')} a model that others have trained, "
            "and the seed of such a run is the number of a sample.",
        )
    return " ".join(said)


def _card(made: dict[str, pd.DataFrame]) -> str:
    """Front matter that dataset hubs read, and the text that people do."""
    cells = made["cells"]
    size = next((name for most, name in SIZES.items() if len(cells) < most), "n>1M")
    front = [
        "---",
        "license: apache-2.0",
        "pretty_name: posbench results",
        "tags: [position-encoding, length-generalization, transformers, benchmark]",
        f"size_categories: ['{size}']",
        "configs:",
    ]
    for name in made:
        front += [f"- config_name: {name}", f"  data_files: data/{name}.parquet"]
        front += ["  default: true"] if name == "cells" else []
    runs = cells.drop_duplicates(tables.RUN)
    runs_of_all = counted(len(runs), "run")
    counts = ", ".join(
        counted(cells[column].nunique(), column) for column in ("method", "task", "seed")
    )
    documented = [
        [f"`{column}`", *said]
        for column, *said in tables.documentation().itertuples(index=False, name=None)
    ]
    text = [
        "---",
        "",
        "# posbench results",
        "",
        "How transformer position encodings, and extensions of them, do at lengths beyond those "
        f"that they were trained on: {runs_of_all}, {counts}. {_trained(runs)}",
        "",
        *(
            f"- `{name}`: {CONFIGURATIONS[name]}; {counted(len(frame), 'row')}"
            for name, frame in made.items()
        ),
        "",
        "```python",
        "import pandas as pd",
        "",
        'cells = pd.read_parquet("data/cells.parquet")',
        "```",
        "",
        f"Rows of the other tables belong to the run with the same {', '.join(tables.RUN)}. "
        "Runs with the same `training_hash` share their weights, so they are no independent "
        "samples. Compare scores that have different `chance` after correcting them for it, and "
        "methods within their `method_class`.",
        "",
        "## Columns of `cells`",
        "",
        *pipes(["column", "type", "unit", "meaning"], documented, "llll"),
        "",
        "Written by `posbench records export`.",
    ]
    return "\n".join([*front, *text]) + "\n"
