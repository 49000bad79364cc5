"""`python -m posbench.results`: publish records, and verify that published ones can be made again.

    python -m posbench.results publish --task passkey     your own records into results/published
    python -m posbench.results verify results/published --sample 12
    python -m posbench.results columns                    what each column of `load` means

`load` is the long table of all records of a folder. `summarise` ranks its rows, with intervals,
and `compare` tests one of them against another; both take data frames, of other sources as well.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

import pandas as pd

from posbench.errors import PosbenchError
from posbench.leaderboard.standings import compare, summarise
from posbench.records import files, tables
from posbench.records.files import LOCAL, PUBLISHED

__all__ = ["compare", "load", "main", "publish", "summarise"]


def load(results_dir: str | Path = LOCAL) -> pd.DataFrame:
    """One row a run and test length; `posbench.records.tables.documentation()` has the columns."""
    return tables.table(files.records(results_dir))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posbench.results", description="Keep records, and check them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_publish(commands.add_parser("publish", help="copy records to the published ones"))
    _add_verify(commands.add_parser("verify", help="repeat some records and compare every number"))
    commands.add_parser("columns", help="say what the columns of the long table mean")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "publish":
            return _publish(chosen)
        if chosen.command == "verify":
            return _verify(chosen)
        print("\n".join(_columns()))
        return 0
    except (PosbenchError, OSError) as error:  # OSError: a folder that cannot be written
        print(f"posbench: {error}", file=sys.stderr)
        return 1


def _columns() -> list[str]:
    """The documentation of the long table, a line a column; pandas would align to the right."""
    said = tables.documentation()
    lines = [tuple(said.columns), *said.itertuples(index=False, name=None)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _add_publish(command: argparse.ArgumentParser) -> None:
    help = "default: %(default)s"
    command.add_argument("--from", dest="source", type=Path, default=LOCAL, help=help)
    command.add_argument("--to", dest="target", type=Path, default=PUBLISHED, help=help)
    pattern = "name or pattern, default: %(default)s"
    command.add_argument("--protocol", default="cpu", help=pattern)
    command.add_argument("--task", default="*", help=pattern)
    command.add_argument("--method", default="*", help=pattern)


def _publish(chosen: argparse.Namespace) -> int:
    count = publish(chosen.source, chosen.target, chosen.protocol, chosen.task, chosen.method)
    pattern = f"protocol {chosen.protocol}, task {chosen.task}, method {chosen.method}"
    if not count:
        raise PosbenchError(f"no record of {pattern} in {chosen.source}: run it first")
    print(f"Copied {count} records ({pattern}) to {chosen.target}.")
    print(f"Bring its board up to date: python -m posbench.leaderboard {chosen.target}")
    return 0


def publish(source: Path, target: Path, protocol: str, task: str, method: str) -> int:
    """Put the matching records among the published ones; returns how many.

    Patterns are held against the names in the paths of records (`*`, `?`).
    """
    patterns = (protocol, task, method)
    found = [
        record
        for record in files.records(source)
        if all(
            fnmatch.fnmatchcase(name.slug, pattern)
            for name, pattern in zip(
                (record.protocol, record.task, record.method), patterns, strict=True
            )
        )
    ]
    if found:
        files.publish(found, files.audits(source), target)
    return len(found)


def _add_verify(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, help="with published records")
    command.add_argument(
        "--sample", type=int, default=12, help="how many to repeat, default: %(default)s"
    )
    command.add_argument("--seed", type=int, default=0, help="of the choice, default: %(default)s")
    command.add_argument(
        "--restamp",
        action="store_true",
        help="carry records of earlier code over where the sample of their stratum agrees",
    )
    command.add_argument(
        "--in", dest="scratch", type=Path, help="a folder to repeat them in, so that it can go on"
    )


def _verify(chosen: argparse.Namespace) -> int:
    from posbench.running.verify import verify  # and with it torch

    agreed = verify(
        chosen.folder, chosen.sample, chosen.seed, restamp=chosen.restamp, scratch=chosen.scratch
    )
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
