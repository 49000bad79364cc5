"""A model with its tokenizer from a folder of transformers or from a GGUF file."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import LogRecord
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, counted, known_names, printable

GGUF = ".gguf"
COUNTED = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja")
"""Endings of the files of a folder that say what the model computes."""
OF_TOKENIZERS = ("*token*", "vocab*", "*.model", "spiece*")
"""Names of files of a tokenizer, of which a folder with one has some."""
AS_DATA: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""What every loader of transformers is told: a model is data, and all of it is on this machine.
Told nothing about code of the model's own, transformers asks on a terminal whether to run it."""

try:
    from huggingface_hub.errors import StrictDataclassError as RefusedConfiguration
except ImportError:  # without transformers, or with a version that has none

    class RefusedConfiguration(Exception):  # type: ignore[no-redef]
        """Nothing raises it."""


UNLOADABLE = (
    *(OSError, ImportError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, struct.error, RefusedConfiguration, SafetensorError, UnpicklingError),
)
"""What transformers raises for files that say what no model can be, as one of no heads."""


@dataclass(frozen=True)
class Files:
    """The files of a model, which is called by their name and a hash of their content."""

    path: Path

    def __post_init__(self) -> None:
        if self.path.suffix == GGUF and self.path.is_file():
            return
        if (self.path / "config.json").is_file():
            refuse_others(self.path)
            return
        inside = sorted(self.path.glob(f"*{GGUF}")) if self.path.is_dir() else []
        hint = f": name {inside[0]}" if inside else ": name one that is, or a .gguf file"
        raise ConfigError(f"model={self.path} is no folder with a config.json{hint}")

    @functools.cached_property
    def hash(self) -> str:
        """A hash of the content of all that counts; a GGUF file may have any name."""
        if self.path.suffix == GGUF:
            return content_hash(_digest(self.path))
        counted = (
            each for each in self.path.iterdir() if each.suffix in COUNTED and each.is_file()
        )  # for a pipe it would wait
        return content_hash({each.name: _digest(each) for each in counted})

    @property
    def name(self) -> str:
        """Such as smollm2-135m-instruct.q4_1-1a2b3c4d."""
        stem = self.path.stem if self.path.suffix == GGUF else self.path.resolve().name
        kept = "".join(each if each.isalnum() or each in ".-_" else "-" for each in stem.lower())
        return f"{kept}-{self.hash[:8]}"

    @functools.cached_property
    def _named(self) -> dict[str, Any]:
        """What names it to transformers, once it is refused if it is no mere data. It is kept, as
        the head of a GGUF file with a large vocabulary takes seconds.
        """
        refuse_giants(self.path)
        if self.path.suffix == GGUF:
            return {
                "pretrained_model_name_or_path": self.path.parent,
                "gguf_file": self.path.name,
            }
        refuse_kernels(self.path)
        refuse_pickles(self.path)
        return {"pretrained_model_name_or_path": self.path}

    def load(self, dtype: str, device: str = "cpu") -> tuple[Any, Any]:
        """The model and its tokenizer; ConfigError says what is not there."""
        tokenizer = self.tokenizer()  # first, for it takes no time
        return self.model(dtype, device), tokenizer

    def model(self, dtype: str, device: str = "cpu") -> Any:
        """The model alone; ConfigError says why it cannot be loaded."""
        import torch
        from transformers import AutoModelForCausalLM

        if not getattr(torch, device).is_available():
            raise ConfigError(f"device={device} and torch sees none: leave device out")
        safe = {} if self.path.suffix == GGUF else {"use_safetensors": True}
        found, told = self._loaded(
            AutoModelForCausalLM, "", dtype=dtype, output_loading_info=True, **safe
        )
        if missing := sorted(told["missing_keys"]):  # transformers draws them at random
            raise ConfigError(
                f"model={self.path} lacks {counted(len(missing), 'weight')} that its config.json "
                f"asks for, {missing[0]} among them: take its files from where they come again"
            )
        return found.eval().to(device)

    def tokenizer(self) -> Any:
        """The tokenizer alone; ConfigError says why it cannot be loaded."""
        from transformers import AutoTokenizer

        lacking = ConfigError(
            f"model={self.path} has no tokenizer, which tasks as text need: save that of the model "
            "in the same folder"
        )
        try:
            found = self._loaded(AutoTokenizer, " with its tokenizer, which tasks as text need")
        except ConfigError:
            if self.path.is_dir() and not any(map(list, map(self.path.glob, OF_TOKENIZERS))):
                raise lacking from None
            raise
        if not hasattr(found, "bos_token_id"):  # of a model with two, as RAG's
            raise ConfigError(
                f"model={self.path} has a {type(found).__name__}, which is no tokenizer of one "
                "decoder: save that of the model in the same folder"
            )
        if not found("some words")["input_ids"]:  # transformers makes one up, without tokens
            raise lacking
        return found

    def _loaded(self, of: Any, what: str, **more: Any) -> Any:
        named = self._named
        try:
            with quietly():
                return of.from_pretrained(**named, **AS_DATA, **more)
        except UNLOADABLE as error:  # as it says it
            if "trust_remote_code" in str(error):
                raise ConfigError(
                    f"model={self.path} needs code of its own ({_own_code(self.path)}), which is "
                    "never run here: choose a model and a tokenizer that transformers has itself"
                ) from None
            refuse_unknown_rules(self.path)
            if "Unrecognized configuration class" in str(error):  # and then all that there are
                kind = _mapping(self.path / "config.json").get("model_type", "this model")
                raise ConfigError(
                    f"model={self.path} cannot be loaded: {kind} is no decoder that predicts the "
                    "next token, and only those are measured"
                ) from None
            # What was met on the way names no setting, as "list index out of range".
            bare = isinstance(error, LookupError | ArithmeticError | AttributeError | TypeError)
            raise ConfigError(
                f"model={self.path} cannot be loaded{what}: "
                f"{' '.join(str(error).split()) or type(error).__name__}"
                f"{': take its files from where they come again' * bare}"
            ) from None


@contextmanager
def quietly() -> Iterator[None]:
    """Without transformers' bar of progress, whose line never ends; warnings that repeat names of
    a file are printable.
    """
    from transformers.utils import logging

    def plain(line: LogRecord) -> bool:
        line.msg, line.args = printable(line.getMessage()), ()
        return True

    handlers = logging.get_logger("transformers").handlers
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    for handler in handlers:
        handler.addFilter(plain)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(plain)
        if shown:
            logging.enable_progress_bar()


def refuse_others(folder: Path) -> None:
    """ConfigError where a folder has transformers read another configuration than its config.json,
    or the weights of another folder below those of an adapter. No hash would count them.
    """
    if named := _mapping(folder / "config.json").get("configuration_files"):
        raise ConfigError(
            f"config.json in {folder} names others in its place, configuration_files="
            f"{named!r:.80}, and it alone is read: take that line out"
        )
    if (folder / "adapter_config.json").exists():
        raise ConfigError(
            f"model={folder} has an adapter_config.json, and adapters are not read: merge it into "
            "the weights (merge_and_unload of peft), and save the model in a folder of its own"
        )


OWN_ATTENTION = ("eager", "sdpa", "flex_attention")
"""What transformers computes itself. Any other name may be that of a kernel of the hub, also one
without a slash, as flash_attention_2, for which it fetches one where none is installed.
"""
OF_KERNELS = re.compile(r"_?(attn|experts)_implementation(_internal)?")


def refuse_kernels(folder: Path) -> None:
    """ConfigError where a configuration names a kernel of the hub, which transformers would run."""
    for name, value in _settings(folder):
        if not (kind := OF_KERNELS.fullmatch(name)):
            continue
        named = value.values() if isinstance(value, dict) else [value]
        strange = {str(each) for each in named if each} - {*OWN_ATTENTION}
        # Those of experts that transformers has itself have no slash; see OWN_ATTENTION.
        if kind[1] == "experts":
            strange = {each for each in strange if "/" in each}
        if strange:
            raise ConfigError(
                f"model={folder} names code to fetch in its config.json ({name}: {value!r}), "
                "which is never run here: take that line out"
            )


MOST = {
    **dict.fromkeys(("layer", "num_blocks", "num_labels", "attention_types"), 10_000),
    **dict.fromkeys(("block_count", "head_count", "expert_count"), 10_000),
    **dict.fromkeys(("position", "factor", "context_length"), 2**40),
    **dict.fromkeys(("theta", "freq_base"), 10**18),
}
"""Of what a config.json or the head of a GGUF file counts, by a part of its name: no model has
more, and one that says so is built for hours, or counted in numbers that no tensor has.
"""


def refuse_giants(model: Path) -> None:
    """ConfigError where a configuration has more layers, positions or the like than any model."""
    of_gguf = model.suffix == GGUF and model.is_file()
    for name, value in head_of_gguf(model)[0].items() if of_gguf else _settings(model):
        if "size" in name:  # of embeddings or networks for each layer
            continue
        most = next((most for part, most in MOST.items() if part in name), None)
        if most is not None and isinstance(value, int | float) and not value <= most:
            where = "its head" if of_gguf else "its config.json"
            raise ConfigError(
                f"model={model} has {name}: {value!r:.40} in {where}, which is not at "
                f"most {most:,}: give the configuration that the model came with"
            )


def refuse_unknown_rules(folder: Path) -> None:
    """ConfigError where config.json has a `rope_type` that is none, of which transformers only
    repeats the name.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = _mapping(folder / "config.json")
    places = [each for each in (config, config.get("text_config")) if isinstance(each, dict)]
    blocks = [each.get(name) for each in places for name in ("rope_scaling", "rope_parameters")]
    while blocks:
        block = blocks.pop()
        if not isinstance(block, dict):
            continue
        blocks += block.values()  # of each kind of layer
        kind = str(block.get("rope_type", block.get("type", "default")))
        if kind not in (known := ["default", *ROPE_INIT_FUNCTIONS]):
            hint = known_names(known, "posbench pretrained verify --help", closest(kind, known))
            raise ConfigError(f"rope_type={kind} in {folder / 'config.json'}: {hint}")


def refuse_pickles(folder: Path) -> None:
    """ConfigError where the weights of a folder are pickled, as to read them may run code, or where
    its index or its config.json names files elsewhere: no hash would count them.
    """
    places: list[Any] = [_mapping(folder / "config.json")]
    while places:
        if not isinstance(place := places.pop(), dict):
            continue
        if (named := place.get("transformers_weights")) is not None:
            raise ConfigError(
                f"config.json in {folder} names its weights, transformers_weights={named!r:.80}, "
                "and weights are read from the safetensors beside it alone: take that line out, or "
                "save the model again with save_pretrained"
            )
        places += place.values()
    for index in folder.glob("*.safetensors.index.json"):
        named = _mapping(index).get("weight_map")
        for name in sorted(set(map(str, named.values()))) if isinstance(named, dict) else []:
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise ConfigError(
                    f"{index} names {name!r}, and weights are read from the safetensors of its "
                    "folder alone: save the model again with save_pretrained"
                )
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(each.name for each in folder.glob("pytorch_model*.bin"))
    if pickled:
        raise ConfigError(
            f"model={folder} has its weights in {pickled[0]} alone, a pickle, and only safetensors "
            "are read here: if you trust it, write AutoModelForCausalLM.from_pretrained"
            f"({str(folder)!r}).save_pretrained(NEW) in Python, and copy the tokenizer's files to "
            "NEW"
        )


def _mapping(path: Path) -> dict[str, Any]:
    """What a JSON file says; nothing where it cannot be read, which transformers will then say."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _settings(folder: Path) -> Iterator[tuple[str, Any]]:
    """The settings of a config.json, those inside others too, as the length of a rotation; what is
    in a list has its name.
    """
    places: list[tuple[str, Any]] = [("", _mapping(folder / "config.json"))]
    while places:
        name, place = places.pop()
        inside = [(name, each) for each in place] if isinstance(place, list) else []
        if isinstance(place, dict):
            inside = list(place.items())
        yield from inside
        places += inside


def _own_code(folder: Path) -> str:
    """The files that a folder would have transformers run."""
    maps = [
        _mapping(folder / f"{each}.json").get("auto_map") for each in ("config", "tokenizer_config")
    ]
    named = {name for each in maps for name in re.findall(r"([\w/-]+)\.\w+", json.dumps(each))}
    return ", ".join(f"{each}.py" for each in sorted(named)) or "as it says"


def need_gguf() -> None:
    """One sentence where what reads GGUF is not installed."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise PosbenchError(
            f"{error.name} is not installed, which a GGUF file needs: pip install "
            "'posbench[pretrained]'"
        ) from None


def head_of_gguf(file: Path) -> tuple[dict[str, Any], set[str]]:
    """What the head of a GGUF file says, and the names of its tensors; no weight is read.

    ConfigError says why a file has no such head. The reader of the package `gguf` goes on behind
    the end of a file, up to the number that its head gives, which may be 2**60.
    """
    need_gguf()
    from gguf import GGUFReader

    class Bounded(GGUFReader):
        def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **more: Any) -> Any:
            found = super()._get(offset, dtype, count, *order, **more)
            if len(found) < int(count):
                raise ValueError("it ends before what its head counts")
            return found

    try:
        reader = Bounded(file)
        settings = {name: each.contents() for name, each in reader.fields.items()}
        return settings, {each.name for each in reader.tensors}
    except UNLOADABLE as error:
        raise ConfigError(
            f"model={file} is no GGUF file that can be read ({printable(str(error)):.200}): take "
            "it from where it comes again"
        ) from None


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
