"""Records as two folders that can be pushed as they are: a data set, and a site.

    dataset/    Parquet files, a card for dataset hubs, CITATION.cff, .zenodo.json for Zenodo
    site/       the board as index.html, and its tables; for any static host

The card of the site makes it a static Space of a hub. The data set has no eval.yaml, by which a hub
counts a data set as a benchmark: that names a framework of a list that the hub keeps, and posbench
is none of these.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import yaml  # type: ignore[import-untyped]

from posbench.base.disk import read_bytes, write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted
from posbench.boards import opening
from posbench.boards.measured_runs import MeasuredRuns, lengths_frame, runs_frame
from posbench.boards.page import ABOUT, LARGEST, generate
from posbench.config.board import board_of
from posbench.records import files, tables
from posbench.records.record import Record
from posbench.showing.table import pipes
from posbench.statistics.aggregates import PRETRAINED, is_pretrained

CONFIGURATIONS = {
    "cells": "one row a run and test length: what was measured, and of which run",
    "views": "one row a run, test length and bin: accuracy and loss by distance, depth or position",
    "choices": "one row a run that chose settings, which `chosen` has as JSON",
    "runs": "one row a run, with the measures that rank it: what it learned, its area and reach",
    "rows": "one row a method, task and test length: means over seeds, with their intervals",
}
"""Name of a file and of its configuration -> what a row is."""
TITLE = "posbench results"
AUTHORS = "The posbench developers"
KEYWORDS = ["position-encoding", "length-generalization", "transformers", "benchmark"]
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}


def frames(found: Sequence[Record]) -> dict[str, pd.DataFrame]:
    """The tables by the name of their configuration."""
    chosen = tables.choices(found)
    chosen["chosen"] = [json.dumps(each, sort_keys=True) for each in chosen["chosen"]]
    cells = tables.table(found)
    measured = MeasuredRuns.of(found)
    return {
        "cells": cells,
        "views": tables.views(found),
        "choices": chosen,
        "runs": runs_frame(measured),
        "rows": lengths_frame(measured),
    }


def write(found: Sequence[Record], folder: Path) -> list[Path]:
    """Write data/*.parquet and what describes them; the same records give the same bytes.

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
    for name in CONFIGURATIONS.keys() - made.keys():  # of other records, from before
        (folder / "data" / f"{name}.parquet").unlink(missing_ok=True)
    described = {
        "README.md": _card(made),
        "CITATION.cff": _citation(made["cells"]),
        ".zenodo.json": _deposit(made["cells"]),
    }
    for name, text in described.items():
        write_whole(folder / name, text)
    return [*paths, *(folder / name for name in described)]


def _said(cells: pd.DataFrame) -> str:
    """What the data are, in sentences."""
    runs = cells.drop_duplicates(tables.RUN)
    counts = ", ".join(
        counted(cells[column].nunique(), column) for column in ("method", "task", "seed")
    )
    return (
        "How transformer position encodings, and extensions of them, do at lengths beyond those "
        f"that they were trained on: {counted(len(runs), 'run')}, {counts}. {_trained(runs)}"
    )


def _citation(cells: pd.DataFrame) -> str:
    """CITATION.cff, see citation-file-format.github.io; GitHub and Zenodo read it."""
    content = {
        "cff-version": "1.2.0",
        "title": TITLE,
        "message": "If you use these data, please cite them, and the papers of the methods.",
        "type": "dataset",
        "authors": [{"name": AUTHORS}],
        "abstract": _said(cells),
        "keywords": KEYWORDS,
        "version": version("posbench"),
        "license": "Apache-2.0",
    }
    return str(yaml.safe_dump(content, sort_keys=False, width=1000))


def _deposit(cells: pd.DataFrame) -> str:
    """.zenodo.json, the metadata of a deposit."""
    content = {
        "title": TITLE,
        "upload_type": "dataset",
        "description": _said(cells),
        "creators": [{"name": AUTHORS}],
        "keywords": KEYWORDS,
        "version": version("posbench"),
        "access_right": "open",
        "license": "Apache-2.0",
    }
    return json.dumps(content, indent=1) + "\n"


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
        f"pretty_name: {TITLE}",
        f"tags: [{', '.join(KEYWORDS)}]",
        f"size_categories: ['{size}']",
        "configs:",
    ]
    for name in made:
        front += [f"- config_name: {name}", f"  data_files: data/{name}.parquet"]
        front += ["  default: true"] if name == "cells" else []
    documented = [
        [f"`{column}`", *said]
        for column, *said in tables.documentation().itertuples(index=False, name=None)
    ]
    text = [
        "---",
        "",
        f"# {TITLE}",
        "",
        _said(cells),
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


# -- the site --------------------------------------------------------------------------------------

SPACE = f"""---
title: {TITLE}
sdk: static
app_file: index.html
license: apache-2.0
---

The page is one file, which loads nothing. Written by `posbench records export`.
"""
"""The card by which a hub serves the folder."""


def write_site(held: files.Folder, source: Path, folder: Path) -> list[Path]:
    """Write the board of the records that a folder holds, and its tables.

    It is made in a folder away from all others, so that it has no link to what is not pushed with
    it.
    """
    with tempfile.TemporaryDirectory() as alone:
        with suppress(OSError, ValueError):  # as a board, which says that it does not read it
            (Path(alone) / ABOUT).write_bytes(read_bytes(source / ABOUT, LARGEST))
        made = generate(Path(alone), held.records, held.audits, board_of(source))
    pages = {**made.pages, "README.md": SPACE}
    pages["index.html"] = pages.pop("leaderboard.html")
    if opening.FILE not in pages:  # of other records, from before
        (folder / opening.FILE).unlink(missing_ok=True)
    for name, text in pages.items():
        write_whole(folder / name, text)
    return [folder / name for name in pages]
