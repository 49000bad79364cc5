"""posbench: benchmarks position encodings of transformers, and how far their extensions reach.

`from posbench import rope, yarn` takes an encoding or an extension into code of your own; see
`posbench.standalone`. `posbench.extended` and `posbench.evaluate` are for a model of transformers.
"""

from importlib.resources import files
from typing import Any

__version__ = "0.2.0"
OF_MODELS = ("extended", "evaluate")
"""Names of `posbench.models`, which needs transformers."""


def __getattr__(name: str) -> Any:
    """An encoding or extension by its name; modules of posbench are asked for here as well."""
    if name in OF_MODELS:
        from posbench import models

        return getattr(models, name)
    groups = () if name.startswith("_") else ("encoding", "extension")
    if any(files("posbench.conf").joinpath(group, f"{name}.yaml").is_file() for group in groups):
        from posbench.standalone import named

        return named(name)
    meant = "" if name.startswith("_") else _meant(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")


def _meant(name: str) -> str:
    """What to write in place of a name that is none; imports nothing that takes long."""
    from posbench.base.wording import closest

    if any(
        files(__name__).joinpath(path).is_file() for path in (f"{name}.py", f"{name}/__init__.py")
    ):
        return f": it is a module, so write import {__name__}.{name}"
    found = {
        group: {
            each.name.removesuffix(".yaml")
            for each in files("posbench.conf").joinpath(group).iterdir()
            if each.name.endswith(".yaml")
        }
        for group in ("encoding", "extension")
    }
    lower = name.lower()
    for end in range(len(lower) - 1, 0, -1):
        host, extension = lower[:end], lower[end + 1 :]
        if lower[end] == "_" and host in found["encoding"] and extension in found["extension"]:
            return (
                f": it is a row of the benchmark, the encoding {host} with the extension "
                f"{extension}: write {extension}().extend({host}(...), tested=...)"
            )
    near = closest(lower, found["encoding"] | found["extension"])
    return f": did you mean {near}?" if near else ""
