"""posbench: benchmarks position encodings of transformers, and how far their extensions reach.

    posbench.list_encodings(), list_extensions(), list_tasks()      what there is, as data frames
    posbench.run("method=rope_yarn", "task=passkey")                a run, or many; a data frame
    posbench.check(MyEncoding), posbench.compare(MyEncoding)        a class of your own
    posbench.load("results/main"), posbench.plot(table, ["rope"])   records

`from posbench import rope, yarn` takes an encoding or an extension into code of your own.
`posbench.extended` and `posbench.evaluate` are for a model of transformers. All of these are in
`posbench.calls`, `posbench.results`, `posbench.standalone` and `posbench.models`.
"""

from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posbench.calls import check, compare, list_encodings, list_extensions, list_tasks, run
    from posbench.results import difference, load, plot, summarise

__version__ = "0.3.0"
__all__ = [
    "PosbenchError",
    "check",
    "compare",
    "difference",
    "list_encodings",
    "list_extensions",
    "list_tasks",
    "load",
    "plot",
    "run",
    "summarise",
]
ELSEWHERE = {
    **dict.fromkeys(__all__, "posbench.calls"),
    **dict.fromkeys(("difference", "load", "plot", "summarise"), "posbench.results"),
    **dict.fromkeys(("extended", "evaluate"), "posbench.models"),  # which needs transformers
    "PosbenchError": "posbench.errors",
    "Position": "posbench.position",
    "Sizes": "posbench.position",
}
"""Functions and classes, and the public place of each."""
GROUPS = ("encoding", "extension")


def __dir__() -> list[str]:
    """The functions and classes, and every encoding and extension."""
    names = {*ELSEWHERE, "__version__"}
    return sorted(names.union(*(_names(group) for group in GROUPS)))


def __getattr__(name: str) -> Any:
    """A function or class, or an encoding or extension by its name."""
    if name in ELSEWHERE:
        return getattr(import_module(ELSEWHERE[name]), name)
    if name == "results":  # which messages name
        return import_module(f"{__name__}.{name}")
    groups = () if name.startswith("_") else GROUPS
    if any(files("posbench.conf").joinpath(group, f"{name}.yaml").is_file() for group in groups):
        from posbench.standalone import named

        return named(name)
    meant = "" if name.startswith("_") else _meant(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")


def _modules(name: str) -> tuple[str, str]:
    return f"{name}.py", f"{name}/__init__.py"


def _names(group: str) -> set[str]:
    found = files("posbench.conf").joinpath(group).iterdir()
    return {each.name.removesuffix(".yaml") for each in found if each.name.endswith(".yaml")}


def _meant(name: str) -> str:
    """What to write in place of a name that is none; imports nothing that takes long."""
    from posbench.base.wording import closest

    if any(files(__name__).joinpath(path).is_file() for path in _modules(name)):
        table = f"; {__name__}.list_{name}() is the table" * (f"list_{name}" in ELSEWHERE)
        return f": it is a module, so write import {__name__}.{name}{table}"
    found = {group: _names(group) for group in GROUPS}
    lower = name.lower()
    for end in range(len(lower) - 1, 0, -1):
        host, extension = lower[:end], lower[end + 1 :]
        if lower[end] == "_" and host in found["encoding"] and extension in found["extension"]:
            return (
                f": it is a row of the benchmark, the encoding {host} with the extension "
                f"{extension}: write {extension}().extend({host}(...), tested=...), or "
                f'posbench.run("method={lower}")'
            )
    near = closest(lower, found["encoding"] | found["extension"] | {*ELSEWHERE})
    return f": did you mean {near}?" if near else ""
