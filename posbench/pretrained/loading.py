"""A model with its tokenizer from a folder of transformers or from a GGUF file."""

from __future__ import annotations

import functools
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posbench.content_hash import content_hash
from posbench.errors import ConfigError, PosbenchError

GGUF = ".gguf"
COUNTED = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja")
"""Endings of the files of a folder that say what the model computes."""


@dataclass(frozen=True)
class Files:
    """The files of a model, which is called by their name and a hash of their content."""

    path: Path

    def __post_init__(self) -> None:
        if self.path.suffix == GGUF and self.path.is_file():
            return
        if (self.path / "config.json").is_file():
            return
        inside = sorted(self.path.glob(f"*{GGUF}")) if self.path.is_dir() else []
        hint = f": name {inside[0]}" if inside else ": name one that is, or a .gguf file"
        raise ConfigError(f"model={self.path} is no folder with a config.json{hint}")

    @functools.cached_property
    def hash(self) -> str:
        """A hash of the content of all that counts; a GGUF file may have any name."""
        if self.path.suffix == GGUF:
            return content_hash(_digest(self.path))
        counted = (each for each in self.path.iterdir() if each.suffix in COUNTED)
        return content_hash({each.name: _digest(each) for each in counted})

    @property
    def name(self) -> str:
        """Such as smollm2-135m-instruct.q4_1-1a2b3c4d."""
        stem = self.path.stem if self.path.suffix == GGUF else self.path.resolve().name
        kept = "".join(each if each.isalnum() or each in ".-_" else "-" for each in stem.lower())
        return f"{kept}-{self.hash[:8]}"

    def load(self, dtype: str, device: str = "cpu") -> tuple[Any, Any]:
        """The model and its tokenizer; ConfigError says what is not there."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if not getattr(torch, device).is_available():
            raise ConfigError(f"device={device} and torch sees none: leave device out")
        where: dict[str, Any] = {"pretrained_model_name_or_path": self.path}
        if self.path.suffix == GGUF:
            need_gguf()
            where = {
                "pretrained_model_name_or_path": self.path.parent,
                "gguf_file": self.path.name,
            }
        try:
            tokenizer = AutoTokenizer.from_pretrained(**where)
            model = AutoModelForCausalLM.from_pretrained(**where, dtype=dtype)
        except (OSError, ValueError, KeyError, struct.error) as error:  # as transformers says it
            raise ConfigError(
                f"model={self.path} cannot be loaded with its tokenizer, which tasks as text need: "
                f"{' '.join(str(error).split())}"
            ) from None
        if not tokenizer("some words")["input_ids"]:  # transformers makes one up, without tokens
            raise ConfigError(
                f"model={self.path} has no tokenizer, which tasks as text need: save that of the "
                "model in the same folder"
            )
        return model.eval().to(device), tokenizer


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


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
