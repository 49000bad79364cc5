"""The command line: `posbench COMMAND ...`, and `posbench KEY=VALUE ...` for a run.

A command is imported when it is called, so that help and mistakes answer at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence

RUN = "posbench.application"
COMMANDS = {
    "run": (RUN, "one run: method=rope_ntk task=copy seed=1"),
    "sweep": (RUN, "many runs: method=rope,alibi task=passkey,copy 'seed=range(3)', or board=main"),
    "status": ("posbench.sweeping.status", "how far a sweep is"),
    "board": ("posbench.boards.command", "records in, tables and a page out; board claims FOLDER"),
    "compare": ("posbench.boards.compare.command", "your method or task among published rows"),
    "check": ("posbench.checks.command", "does your class keep its promises?"),
    "explain": ("posbench.explain.command", "where a trained model looks; explain catalogue"),
    "records": ("posbench.sharing.command", "publish, verify, bundle, accept, export, upload, zoo"),
    "pretrained": (
        "posbench.pretrained.command",
        "extensions on your model; verify, advise, reach, lm-eval",
    ),
    "tasks": ("posbench.explain.samples", "what a task generates: tasks passkey --n 8"),
}
"""Each command with the module that carries it out, and what it is for."""
WITHIN = {
    ("board", "claims"): "posbench.boards.claims.page",
    ("explain", "catalogue"): "posbench.explain.catalogue",
    ("records", "dashboard"): "posbench.sharing.dashboard",
    ("records", "zoo"): "posbench.sharing.zoo",
    ("pretrained", "export"): "posbench.pretrained.export",
    ("pretrained", "verify"): "posbench.pretrained.verify",
    ("pretrained", "advise"): "posbench.pretrained.advise",
    ("pretrained", "reach"): "posbench.pretrained.reach",
    ("pretrained", "lm-eval"): "posbench.pretrained.lm_eval",
}
"""Commands that are the second word of another."""


def main() -> None:
    """The entry point of `posbench` and `python -m posbench`."""
    words = sys.argv[1:]
    if not words:
        print("\n".join(short_help()))
        sys.exit()
    if words[0] == "help":
        words = ["--help"]
    if words[0] in COMMANDS:
        sys.exit(carried_out(words))
    if said := misspelt(words[0]):
        print(f"posbench: {said}", file=sys.stderr)
        sys.exit(1)
    sys.exit(carried_out(["run", *words]))


def short_help() -> Iterator[str]:
    """The commands, and where there is more."""
    yield "posbench COMMAND ..., each with its own --help"
    yield from (f"  {name:10}  {what}" for name, (_, what) in COMMANDS.items())
    yield "`posbench --help` has examples, and lists all that can be chosen."


def misspelt(word: str) -> str:
    """What to say of a first word that is near to a command, and neither a setting nor a name."""
    if not word.isalpha():
        return ""
    from posbench.base.wording import closest
    from posbench.config import folders

    named = any(word in folders.own_names(group) for group in folders.GROUPS)
    if named or not (meant := closest(word, COMMANDS)):
        return ""
    return f"{word} is no command: did you mean {meant}? `posbench --help` lists all of them"


def carried_out(words: Sequence[str]) -> int:
    """Carry a command out; its exit status."""
    name, *rest = words
    module, _ = COMMANDS[name]
    if rest and (name, rest[0]) in WITHIN:
        module, rest = WITHIN[name, rest[0]], rest[1:]
    if module == RUN:
        sys.argv[1:] = [*(["-m"] if name == "sweep" else []), *rest]  # which Hydra reads
        ended: int = importlib.import_module(module).main()
        return ended
    status: int = importlib.import_module(module).main(list(rest))
    return status
