"""Whether `import posbench` has found the package, or a folder that only has its name."""

from __future__ import annotations

import posbench
from posbench.errors import PosbenchError


def refuse_shadow() -> None:
    """PosbenchError where a folder named posbench stands in for the package.

    `python -m` looks into the current folder first, and in the folder above a clone it takes the
    clone for a package without content. Modules are found all the same if the installation is
    editable, but no longer all of the source that the hashes of a record are made of.
    """
    if posbench.__file__ is None:
        raise PosbenchError(
            f"the folder {posbench.__path__[0]} hides the package, because `python -m` looks into "
            "the current folder first: go to another folder, such as that one"
        )
