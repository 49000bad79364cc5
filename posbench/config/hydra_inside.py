"""What is taken from inside Hydra and OmegaConf, and may change with their versions.

`get_args_parser` has the options of a Hydra application. They have no public list, and a copy of
them would not follow its versions. OmegaConf gives a resolver the node around what it resolves, and
where that is in the whole it says by a method of its own alone. `hydra.compose` composes Hydra's
own settings as well, which takes sixteen times as long as the defaults list of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import (
    Overrides,
    _create_defaults_tree,
    _tree_to_list,
    ensure_no_duplicates_in_list,
)
from hydra._internal.utils import get_args_parser as get_args_parser
from hydra.core.default_element import ConfigDefault, DefaultsTreeNode
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError


def place_of(node: Any) -> str:
    """The keys that lead to a node from the root, "hydra.launcher"; "" for the root itself."""
    return str(node._get_full_key(None))


ROOT = "config"


class OptionFiles(CachingConfigRepository):
    """The files that the initialised Hydra finds, each read once: those of conf/, of the user's
    folders, and the rows of methods.yaml.
    """

    def __init__(self) -> None:
        loader: Any = GlobalHydra.instance().config_loader()
        super().__init__(loader.repository)
        self._groups: dict[str, bool] = {}
        root = self.load_config(ROOT)
        assert root is not None
        assert root.defaults_list is not None
        root.defaults_list = [  # Hydra's own settings are no part of a run
            each
            for each in root.defaults_list
            if not getattr(each, "group", "").startswith("hydra/")
        ]

    def group_exists(self, config_path: str) -> bool:
        if config_path not in self._groups:
            self._groups[config_path] = super().group_exists(config_path)
        return self._groups[config_path]

    def option(self, path: str) -> ConfigResult | None:
        """The file "encoding/rope"; None where there is none."""
        return self.load_config(path)


@dataclass(frozen=True)
class Placed:
    """What a file and its defaults lists choose, with the words that choose otherwise."""

    files: list[tuple[str, str]]  # each with its package, in the order in which they are merged
    choices: dict[str, str | None]
    unused: list[str]  # what words choose, or take away, and no defaults list has


def placed(path: str, files: OptionFiles, words: Sequence[Override] = ()) -> Placed:
    """Where the content of a file goes, and that of each option in its defaults lists."""
    overrides = Overrides(files, list(words))
    node = ConfigDefault(path=path, primary=path == ROOT)
    node.update_parent("", "")
    tree = _create_defaults_tree(
        files,
        DefaultsTreeNode(node),
        is_root_config=node.primary,
        skip_missing=False,
        interpolated_subtree=False,
        overrides=overrides,
    )
    found = _tree_to_list(tree)
    ensure_no_duplicates_in_list(found)
    return Placed(
        [(str(each.config_path), each.package or "") for each in found],
        overrides.known_choices,
        [
            *(key for key, each in overrides.override_metadata.items() if not each.used),
            *(key for key, each in overrides.deletions.items() if not each.used),
        ],
    )


def set_in(content: dict[str, Any], override: Override) -> dict[str, Any]:
    """The content once a word has set a value, added or taken away one; KeyError if it is not
    there.
    """
    cfg, key = OmegaConf.create(content, flags={"struct": True}), override.key_or_group
    if override.is_delete() and OmegaConf.select(cfg, key, throw_on_missing=False) is None:
        raise KeyError(key)
    try:
        ConfigLoaderImpl._apply_overrides_to_config([override], cfg)
    except ConfigCompositionException as error:
        if isinstance(error.__cause__, ConfigAttributeError | ConfigKeyError):
            raise KeyError(key) from None
        raise
    return OmegaConf.to_container(cfg, resolve=False)  # type: ignore[return-value]
