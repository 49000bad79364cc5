"""Do the tests notice a wrong encoding? Each mutant is one small change of a formula, tried in a
scratch copy.

    python -m tests.mutants                 all of tests/mutants/*.yaml, as a table
    python -m tests.mutants fire shaw       those of some methods
    python -m tests.mutants --write         writes tests/mutants/RESULTS.md; with names, their rows

A mutant names `method`, `path`, `old` and `new` text (old must occur exactly once), and `tests`,
the files (or pytest arguments) that should catch it. One that cannot be caught, because it computes
the same, carries `equivalent` with its proof, and is expected to survive.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
ROOT = HERE.parent.parent
COPIED = ("posbench", "conf", "tasks", "tests", "pyproject.toml", "README.md", "CHANGELOG.md")


def mutants() -> list[dict[str, str]]:
    return [
        mutant
        for path in sorted(HERE.glob("*.yaml"))
        for mutant in yaml.safe_load(path.read_text("utf-8"))
    ]


def occurrences(old: str, text: str) -> list[tuple[int, int]]:
    """Where `old` stands in the text, however its lines are broken."""
    words = re.findall(r"\w+|[^\w\s]", old)
    closing = (rf",?\s*{re.escape(word)}" if word in ")]}" else re.escape(word) for word in words)
    return [match.span() for match in re.finditer(r"\s*".join(closing), text)]


def survives(mutant: dict[str, str], scratch: Path) -> bool:
    """Whether the tests pass with the change; run in a fork, so that torch is imported once."""
    path = scratch / mutant["path"]
    text = (ROOT / mutant["path"]).read_text("utf-8")
    places = occurrences(mutant["old"], text)
    if len(places) != 1:
        raise SystemExit(
            f"{mutant['method']}: {mutant['old']!r} occurs {len(places)} times, not once"
        )
    start, stop = places[0]
    indent = mutant["old"][: len(mutant["old"]) - len(mutant["old"].lstrip())]
    path.write_text(text[:start] + mutant["new"].removeprefix(indent) + text[stop:], "utf-8")
    child = os.fork()
    if child == 0:
        os.chdir(scratch)
        sys.path.insert(0, str(scratch))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        arguments = [
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            *shlex.split(mutant["tests"]),
        ]
        os._exit(int(pytest.main(arguments)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    path.write_text(text, "utf-8")
    if code not in (0, 1, 2):  # 2: the change broke an import, which is caught as well
        raise SystemExit(
            f"{mutant['method']}: pytest ended with {code}; are there tests in {mutant['tests']}?"
        )
    return code == 0


def main() -> None:
    chosen = {word for word in sys.argv[1:] if not word.startswith("-")}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Heavy and never changed: imported before the fork. Nothing of posbench may be.
    import hypothesis  # noqa: F401
    import lightning  # noqa: F401
    import torch  # noqa: F401

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, scratch / name)
        for package, real in (
            ("conf", "conf"),
            ("tasks", "tasks"),
        ):  # as the installed package maps them
            (scratch / "posbench" / package).symlink_to(scratch / real)
        for mutant in mutants():
            if chosen and mutant["method"] not in chosen:
                continue
            alive, equivalent = survives(mutant, scratch), mutant.get("equivalent", "")
            verdict = (
                ("equivalent: " + equivalent if equivalent else "SURVIVED") if alive else "caught"
            )
            change = " -> ".join(f"`{' '.join(mutant[key].split())}`" for key in ("old", "new"))
            rows.append((mutant["method"], change.replace("|", "&#124;"), verdict))
            print(" | ".join(rows[-1]), flush=True)
    survived = sum(verdict == "SURVIVED" for *_, verdict in rows)
    print(summary(rows))
    if "--write" in sys.argv:
        known = {mutant["method"] for mutant in mutants()}
        kept = [row for row in results() if chosen and row[0] in known - chosen]
        write(sorted([*kept, *rows], key=lambda row: row[0]))
    raise SystemExit(survived > 0)


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


def write(rows: list[tuple[str, ...]]) -> None:
    head = "# Changes of a formula, and whether a test noticed\n\n"
    head += "Written by `python -m tests.mutants --write`. "
    table = "\n\n| method | change | verdict |\n| --- | --- | --- |\n"
    table += "".join(f"| {' | '.join(row)} |\n" for row in rows)
    RESULTS.write_text(head + summary(rows) + table, "utf-8")


if __name__ == "__main__":
    main()
