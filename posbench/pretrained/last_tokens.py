"""The loss of the last tokens of texts, the same tokens at every length."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError
from posbench.core.extension import Extension
from posbench.core.streams import stream_seed
from posbench.pretrained.measuring import Found, Measurement, target
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.reading import answers
from posbench.pretrained.text_tasks import Pieces

LAST = 64
"""Tokens of each text whose loss is measured."""
SHORTEST = LAST + 2
"""Two tokens before them: one is read with the text, one asks for the first of them."""
PACKAGE = "sympy"
"""Its source is the text where none is given: PyTorch installs it, the same files everywhere."""
ENDINGS = (".md", ".py", ".rst", ".txt")
A_TOKEN = 8
"""Characters of which a token surely has fewer, on average."""


@dataclass(frozen=True)
class LastTokens(Measurement):
    """How likely the last 64 tokens of each text are; a sample is a text.

    A text is the first `longest` tokens of a file, the longest length of all. At a shorter length
    the tokens that are predicted stay, and the first ones before them are left out. So lengths and
    extensions are compared on the same tokens. Files come in an order that the hash of the folder
    decides, and one with fewer tokens is passed over.
    """

    name: str
    folder: Path
    pieces: Pieces
    longest: int

    by = "position"
    measure = "share of next tokens that are the likeliest"
    version = 1
    chance = 0.0

    @classmethod
    def of(cls, text: str, pieces: Pieces, longest: int) -> LastTokens:
        """Of a folder of text files; of the source of SymPy where `text` is empty."""
        if not text:
            spec = importlib.util.find_spec(PACKAGE)
            if spec is None or spec.origin is None:
                raise ConfigError(
                    f"task=last_tokens reads the source of {PACKAGE}, which is not installed: give "
                    "text=FOLDER with text files"
                )
            text = str(Path(spec.origin).parent)
        folder = Path(text)
        if not folder.is_dir():
            raise ConfigError(f"task=last_tokens needs a folder of text files, got text={text}")
        if longest < SHORTEST:
            raise ConfigError(
                f"task=last_tokens needs lengths of at least {SHORTEST} tokens, got {longest}"
            )
        return cls("last_tokens", folder, pieces, longest)

    @property
    def node(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "_target_": target(type(self)),
            "folder": self.folder.name,
            "files": self.hash,
            "longest": self.longest,
            "last": LAST,
        }

    @functools.cached_property
    def paths(self) -> list[Path]:
        found = (each for each in self.folder.rglob("*") if each.suffix in ENDINGS)
        return sorted(each for each in found if each.is_file())

    @functools.cached_property
    def hash(self) -> str:
        """The hash of the names and the contents of all files."""
        return content_hash(
            [
                [
                    each.relative_to(self.folder).as_posix(),
                    hashlib.sha256(each.read_bytes()).hexdigest(),
                ]
                for each in self.paths
            ]
        )

    def numbers(self, text: int) -> list[int]:
        return [text]

    def found(
        self, mounted: Mounted, extension: Extension, length: int, text: int, stream: str = "test"
    ) -> list[Found]:
        if length < SHORTEST:
            raise ConfigError(f"task={self.name} needs {SHORTEST} tokens or more, got {length}")
        # Validation has every other text, so that no test sees it before.
        tokens = self._text(2 * text + (stream != "test"))
        tokens = [*self.pieces.before, *tokens[len(self.pieces.before) - length :]]
        mounted.extension = extension
        before = time.process_time()
        asked = [(tokens[-LAST - 1 : -LAST], tokens[-LAST:])]
        (answer,) = answers(mounted, tokens[: -LAST - 1], asked, length)
        return [Found(text, answer, None, None, time.process_time() - before)]

    def _text(self, number: int) -> list[int]:
        """The first tokens of a file, as many as the longest length has after a start token."""
        while len(self._read) <= number:
            tokens = next(self._long, None)
            if tokens is None:
                raise ConfigError(
                    f"{self.folder} has {len(self._read)} files of {self.longest} tokens, and "
                    f"{number + 1} are needed: give text= another folder, fewer texts or shorter "
                    "lengths"
                )
            self._read.append(tokens)
        return self._read[number]

    @functools.cached_property
    def _read(self) -> list[list[int]]:
        return []

    @functools.cached_property
    def _long(self) -> Iterator[list[int]]:
        """The texts, one after another."""
        rng = np.random.default_rng(stream_seed("pretrained", self.name, self.hash))
        size = self.longest - len(self.pieces.before)
        for place in rng.permutation(len(self.paths)):
            try:
                said = self.paths[place].read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            tokens = self.pieces(said[: A_TOKEN * self.longest])
            if len(tokens) >= size:
                yield tokens[:size]
