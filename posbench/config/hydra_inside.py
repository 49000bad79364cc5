"""What is taken from inside Hydra and OmegaConf, and may change with their versions.

`get_args_parser` has the options of a Hydra application. They have no public list, and a copy of
them would not follow its versions. OmegaConf gives a resolver the node around what it resolves, and
where that is in the whole it says by a method of its own alone.
"""

from __future__ import annotations

from typing import Any

from hydra._internal.utils import get_args_parser as get_args_parser


def place_of(node: Any) -> str:
    """The keys that lead to a node from the root, "hydra.launcher"; "" for the root itself."""
    return str(node._get_full_key(None))
