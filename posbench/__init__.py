"""posbench: benchmarks position encodings of transformers, and how far their extensions reach.

`from posbench import rope, yarn` takes an encoding or an extension into code of one's own; see
`posbench.standalone`.
"""

from importlib.resources import files
from typing import Any

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """An encoding or extension by its name; modules of posbench are asked for here as well."""
    groups = () if name.startswith("_") else ("encoding", "extension")
    if any(files("posbench.conf").joinpath(group, f"{name}.yaml").is_file() for group in groups):
        from posbench.standalone import named

        return named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
