"""Do the tests notice a wrong encoding? Each mutant is one small change of a formula, tried in a
scratch copy.

    python -m tests.mutants                 all of tests/mutants/*.yaml, as a table
    python -m tests.mutants fire shaw       those of some methods
    python -m tests.mutants --write         tries those that tests/mutants/RESULTS.md lacks, and
                                            writes it; with names, all of those methods
    python -m tests.mutants --check         tries none; fails if the table lacks one, or a file its
                                            text
    python -m tests.mutants --changed-since [REV] --seconds 600
                                            those of files that differ from REV (left out: from
                                            where the branch left origin/main, else HEAD~1); none
                                            is started after ten minutes

A mutant names `method`, `path`, `old` and `new` text (old must occur exactly once), and `tests`,
the files (or pytest arguments) that should catch it. One that cannot be caught, because it computes
the same, carries `equivalent` with its proof, and is expected to survive. Tests that fail without
any change catch nothing: they are run once without.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
TABLE = "tests/mutants/RESULTS.md"
COMMAND = "python -m tests.mutants --write"
ROOT = HERE.parent.parent
COPIED = (
    "posbench",
    "conf",
    "tasks",
    "tests",
    "pyproject.toml",
    "README.md",
    "docs",
    "CHANGELOG.md",
)


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast


@functools.cache
def mutants() -> list[dict[str, str]]:
    return [
        mutant
        for path in sorted(HERE.glob("*.yaml"))
        for mutant in yaml.load(
            path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
    ]


def named(mutant: dict[str, str]) -> tuple[str, str]:
    """The method and the change, as the table has them."""
    change = " -> ".join(f"`{' '.join(mutant[key].split())}`" for key in ("old", "new"))
    return mutant["method"], change.replace("|", "&#124;")


def occurrences(old: str, text: str) -> list[tuple[int, int]]:
    """Where `old` stands in the text, however its lines are broken."""
    words = re.findall(r"\w+|[^\w\s]", old)
    closing = (rf",?\s*{re.escape(word)}" if word in ")]}" else re.escape(word) for word in words)
    return [match.span() for match in re.finditer(r"\s*".join(closing), text)]


def changed_since(revision: str) -> set[str]:
    """The files that differ from a revision, in the working tree; by default, from where this
    branch left origin/main, or where it is there, from the commit before.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    if not revision:
        left = git("merge-base", "origin/main", "HEAD")
        revision = left if left and left != git("rev-parse", "HEAD") else "HEAD~1"
    if not git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"):
        raise SystemExit(f"{revision} is no commit of this clone: name one, or fetch more of it")
    return set(git("diff", "--name-only", revision).splitlines())


def changed(mutant: dict[str, str]) -> str:
    """The text of the file with the change."""
    text = (ROOT / mutant["path"]).read_text("utf-8")
    places = occurrences(mutant["old"], text)
    if len(places) != 1:
        raise SystemExit(
            f"{mutant['method']}: {mutant['old']!r} occurs {len(places)} times, not once"
        )
    start, stop = places[0]
    indent = mutant["old"][: len(mutant["old"]) - len(mutant["old"].lstrip())]
    return text[:start] + mutant["new"].removeprefix(indent) + text[stop:]


def passes(tests: str, scratch: Path) -> bool:
    """Whether tests pass in the copy; run in a fork, so that torch is imported once."""
    child = os.fork()
    if child == 0:
        os.chdir(scratch)
        sys.path.insert(0, str(scratch))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        arguments = ["-x", "-p", "no:cacheprovider", *shlex.split(tests)]
        os._exit(int(pytest.main(arguments)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1, 2):  # 2: the change broke an import, which is caught as well
        raise SystemExit(f"pytest ended with {code}; are there tests in {tests}?")
    return code == 0


def survives(mutant: dict[str, str], scratch: Path) -> bool:
    """Whether the tests pass with the change."""
    path, text = scratch / mutant["path"], (ROOT / mutant["path"]).read_text("utf-8")
    path.write_text(changed(mutant), "utf-8")
    alive = passes(mutant["tests"], scratch)
    path.write_text(text, "utf-8")
    return alive


def copied(scratch: Path) -> None:
    """What tests need, as the installed package maps it."""
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, scratch / name)
    for package in ("conf", "tasks"):
        (scratch / "posbench" / package).symlink_to(scratch / package)


def tried(chosen: Sequence[dict[str, str]], seconds: float) -> Iterator[tuple[str, ...]]:
    """A row for each mutant that was begun in time: its method, its change and the verdict."""
    if not chosen:
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Heavy and never changed: imported before the fork. Nothing of posbench may be.
    import hypothesis  # noqa: F401
    import lightning  # noqa: F401
    import torch  # noqa: F401

    sound: set[str] = set()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        copied(scratch)
        for mutant in chosen:
            if time.monotonic() - start > seconds:
                break
            if mutant["tests"] not in sound and not passes(mutant["tests"], scratch):
                raise SystemExit(f"{mutant['tests']} fails without any change")
            sound.add(mutant["tests"])
            alive, equivalent = survives(mutant, scratch), mutant.get("equivalent", "")
            verdict = (
                ("equivalent: " + equivalent if equivalent else "SURVIVED") if alive else "caught"
            )
            yield (*named(mutant), verdict)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Do the tests notice a wrong encoding?"
    )
    parser.add_argument("methods", nargs="*", help="those of these methods alone")
    parser.add_argument("--write", action="store_true", help="write tests/mutants/RESULTS.md")
    parser.add_argument(
        "--changed-since", nargs="?", const="", metavar="REV", help="those of changed files alone"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="after which none is started"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="is every mutant in the table, and its text in its file?",
    )
    options = parser.parse_args()
    if options.check:
        stale = {row[:2] for row in results()} ^ {named(mutant) for mutant in mutants()}
        if methods := ", ".join(sorted({method for method, _ in stale})):
            raise SystemExit(f"{TABLE} is not of today for {methods}: run `{COMMAND}`")
        for mutant in mutants():
            changed(mutant)  # which refuses one whose text is no longer there
        print(f"{TABLE}: up to date.")
        return
    if options.write and options.changed_since is not None:
        parser.error("--write takes no --changed-since: it finds what the table lacks")

    known = mutants()
    names = set(options.methods)
    if unknown := names - {mutant["method"] for mutant in known}:
        parser.error(f"there are no mutants of {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in known if not names or mutant["method"] in names]
    if options.changed_since is not None:
        files = changed_since(options.changed_since)
        chosen = [mutant for mutant in chosen if mutant["path"] in files]
    known_rows = {row[:2]: row for row in results()}
    if options.write and not names:
        chosen = [mutant for mutant in chosen if named(mutant) not in known_rows]
    rows = []
    for row in tried(chosen, options.seconds):
        rows.append(row)
        print(" | ".join(row), flush=True)
        if options.write:  # at once: what is found is kept, whatever stops the rest
            write(known_rows | {row[:2]: row for row in rows})
    print(summary(rows))
    if left := len(chosen) - len(rows):
        print(f"{left} more were left for want of time.")
    if options.write:  # without those of mutants that are no more
        write(known_rows | {row[:2]: row for row in rows})
    raise SystemExit(any(verdict == "SURVIVED" for *_, verdict in rows))


def summary(rows: list[tuple[str, ...]]) -> str:
    caught = sum(verdict == "caught" for *_, verdict in rows)
    survived = sum(verdict == "SURVIVED" for *_, verdict in rows)
    equivalent = len(rows) - caught - survived
    methods = len({method for method, *_ in rows})
    return (
        f"{len(rows)} mutants of {methods} methods: {caught} caught, {equivalent} equivalent, "
        f"{survived} survived."
    )


def results() -> list[tuple[str, ...]]:
    """The rows of the table as it stands."""
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else ""
    rows = [
        tuple(line.strip("| \n").split(" | "))
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return [row for row in rows[2:] if len(row) == 3]


def write(known: dict[tuple[str, ...], tuple[str, ...]]) -> None:
    """The table of the mutants that there are, method by method."""
    found = [known[named(mutant)] for mutant in mutants() if named(mutant) in known]
    rows = sorted(found, key=lambda row: row[0])
    head = "# Changes of a formula, and whether a test noticed\n\n"
    head += f"Written by `{COMMAND}`. "
    table = "\n\n| method | change | verdict |\n| --- | --- | --- |\n"
    table += "".join(f"| {' | '.join(row)} |\n" for row in rows)
    RESULTS.write_text(head + summary(rows) + table, "utf-8")


if __name__ == "__main__":
    main()
