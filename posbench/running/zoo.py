"""Trainings in a file for others: weights, and what made each of them.

A zoo is one file in the format of safetensors, so that reading it runs no code of whoever wrote
it. Tensors are called HASH/NAME. The header holds a line of JSON for each training, under HASH: the
content that the hash is of (settings, and the hash of the code), and the log, which names the
machine, the versions and the commit of the training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError, field_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from posbench.base.content_hash import content_hash
from posbench.base.disk import damaged, reading, write_bytes
from posbench.base.errors import ConfigError, PosbenchError, first_mistake
from posbench.base.wording import printable
from posbench.config import provenance
from posbench.core.row import Part
from posbench.core.settings import Config
from posbench.records.record import weights_hash
from posbench.running.log import Log

SUFFIX = ".safetensors"
AGAIN = "get the file again"


class Kept(Part):
    """What a zoo says of one training."""

    content: dict[str, Any]  # what the weights depend on
    log: Log

    @field_validator("content")
    @classmethod
    def _complete(cls, content: dict[str, Any]) -> dict[str, Any]:
        match content:
            case {
                "task": [{"_target_": str()}, *_],
                "encoding": {"_target_": str()},
                "seed": int(),
            }:
                return content
        raise ValueError("lacks the task, the encoding or the seed")

    @property
    def settings_hash(self) -> str:
        """The hash of all but the code."""
        return content_hash({key: self.content[key] for key in self.content.keys() - {"source"}})

    @property
    def hash(self) -> str:
        return weights_hash(self.settings_hash, str(self.content.get("source")))

    @property
    def usable(self) -> bool:
        """Whether records of these weights would count as complete, see `Fingerprint`."""
        return provenance.same_versions(self.log.versions, provenance.versions())

    def may_be_of(self, content: Mapping[str, Any]) -> bool:
        """Whether a run with these settings may ask for it, by what can be told at once: seed,
        task, encoding.
        """
        asked = provenance.without_places([content["task"], content["encoding"]])
        has = [self.content["task"][0], self.content["encoding"]]
        classes = [[each.get("_target_") for each in both] for both in (asked, has)]
        return classes[0] == classes[1] and self.content["seed"] == content["seed"]

    @property
    def made_on(self) -> str:
        """The machine and the commit, in words."""
        at = f" at commit {self.log.commit[:8]}" if self.log.commit else ""
        return printable(f"{self.log.cpu or self.log.device}{at}")


class Zoo:
    """A file with trainings; Unreadable where it is none, or has an entry that is not what its hash
    is of.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def trainings(self) -> dict[str, Kept]:
        """What there is, by its hash."""
        with self._opened() as file:
            said: Mapping[str, str] = file.metadata() or {}
        try:
            found = {key: Kept.model_validate_json(text) for key, text in said.items()}
        except ValidationError as error:
            raise damaged(self.path, first_mistake(error), AGAIN) from None
        for key, training in found.items():
            if training.hash != key:
                raise damaged(self.path, f"what it says of {key} has another hash", AGAIN)
        return found

    def weights(self, reference: str) -> dict[str, torch.Tensor]:
        """The weights of a training, on the CPU."""
        start = f"{reference}/"
        with self._opened() as file:
            names = [name for name in file.keys() if name.startswith(start)]  # noqa: SIM118
            return {name.removeprefix(start): file.get_tensor(name) for name in names}

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        if not self.path.is_file():  # a pipe would be waited for
            raise damaged(self.path, "it is no file", AGAIN)
        try:
            with reading(self.path), safe_open(self.path, framework="pt", device="cpu") as file:
                yield file
        except SafetensorError as error:
            raise damaged(self.path, str(error), AGAIN) from None


def zoos(place: str | Path) -> list[Zoo]:
    """The zoo that a path names, or all in the folder that it names.

    An empty place means none, and so does the usual one where nothing is there. ConfigError if
    another place has nothing.
    """
    if not str(place):
        return []
    path = Path(place)
    if path.is_dir():
        return [Zoo(each) for each in sorted(path.glob(f"*{SUFFIX}"))]
    if path.is_file():
        return [Zoo(path)]
    if str(place) != Config.zoo:
        raise ConfigError(
            f"zoo={place} is neither a file nor a folder: name one with weights, or leave zoo out"
        )
    return []


def write(trainings: Mapping[str, tuple[Kept, Mapping[str, torch.Tensor]]], path: Path) -> None:
    """Write a zoo, whole; the same trainings give the same bytes."""
    said: dict[str, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    for key, (training, weights) in sorted(trainings.items()):
        if training.hash != key:
            raise PosbenchError(f"{key} is not the hash of what its training says: leave it out")
        said[key] = json.dumps(training.model_dump(mode="json"), separators=(",", ":"))
        tensors |= {f"{key}/{name}": each.contiguous() for name, each in sorted(weights.items())}
    write_bytes(save(tensors, said), path)


def usable(place: str | Path) -> dict[str, Kept]:
    """The trainings of all zoos there that need not be made again, by hash."""
    found: dict[str, Kept] = {}
    for zoo in zoos(place):
        found |= {key: each for key, each in zoo.trainings.items() if each.usable}
    return found
