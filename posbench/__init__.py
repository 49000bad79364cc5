"""posbench: benchmarks position encodings of transformers, and how far their extensions reach.

    posbench.encodings(), posbench.extensions(), posbench.tasks()     what there is, as data frames
    posbench.run("method=rope_yarn", "task=passkey")                  a run, or many; a data frame
    posbench.check(MyEncoding), posbench.compare(MyEncoding)          a class of your own
    posbench.load("results/main"), posbench.plot(table, ["rope"])     records

`from posbench import rope, yarn` takes an encoding or an extension into code of your own.
`posbench.extended` and `posbench.evaluate` are for a model of transformers. All of these are in
`posbench.calls`, `posbench.standalone` and `posbench.models`.
"""

import sys
from importlib import import_module
from importlib.resources import files
from inspect import getdoc, signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posbench.calls import (
        check,
        compare,
        encodings,
        extensions,
        load,
        plot,
        run,
        summarise,
        tasks,
    )

__version__ = "0.3.0"
OF_MODELS = ("extended", "evaluate")
"""Names of `posbench.models`, which needs transformers."""
ELSEWHERE = {
    "PosbenchError": "posbench.errors",
    "Position": "posbench.position",
    "Sizes": "posbench.position",
}
"""Classes, and the public place of each."""

__all__ = [
    "check",
    "compare",
    "encodings",
    "extensions",
    "load",
    "plot",
    "run",
    "summarise",
    "tasks",
]
CALLS = tuple(__all__)
"""Functions of `posbench.calls`. Those that share their name with a package are that package,
which can be called.
"""
GROUPS = ("encoding", "extension")


class CalledModule(ModuleType):
    """A package such as `posbench.encodings`, and the function of that name."""

    def __call__(self, *args: Any, **given: Any) -> Any:
        return self._function(*args, **given)

    def __repr__(self) -> str:
        return f"<function {self.__name__}, and the package>"

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)

    @property
    def _function(self) -> Any:
        return getattr(import_module("posbench.calls"), self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> Any:
        return signature(self._function)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What `help` says: that of the function."""
        name = self.__name__.rpartition(".")[2]
        return f"{name}{signature(self._function)}\n\n{getdoc(self._function)}"


class _Package(ModuleType):
    """posbench itself: what the import system binds in it under the name of a call is called."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CALLS and isinstance(value, ModuleType):
            value.__class__ = CalledModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The calls, those of models, and every encoding and extension."""
    names = {*CALLS, *OF_MODELS, *ELSEWHERE, "__version__"}
    return sorted(names.union(*(_names(group) for group in GROUPS)))


def __getattr__(name: str) -> Any:
    """A call, or an encoding or extension by its name; modules of posbench are asked for here as
    well.
    """
    if name in ELSEWHERE:
        return getattr(import_module(ELSEWHERE[name]), name)
    if name in OF_MODELS:
        return getattr(import_module(f"{__name__}.models"), name)
    if name in CALLS:
        is_module = any(files(__name__).joinpath(path).is_file() for path in _modules(name))
        if is_module or name == "tasks":  # that one is installed from elsewhere
            return import_module(f"{__name__}.{name}")
        return getattr(import_module(f"{__name__}.calls"), name)
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
        return f": it is a module, so write import {__name__}.{name}"
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
    near = closest(lower, found["encoding"] | found["extension"] | {*CALLS, *OF_MODELS, *ELSEWHERE})
    return f": did you mean {near}?" if near else ""
