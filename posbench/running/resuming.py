"""What torch keeps on a disk: written whole, the checkpoint before kept, and damage put aside."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from posbench.base.disk import Damaged, atomically, put_aside, read_bytes, reading

THREADS = "threads"
"""Where a checkpoint says with how many threads of torch it was made."""
Refused = list[tuple[Path, Path, str]]
"""Checkpoints that are damaged: where each was, where it is kept, and how that is known."""


def loaded(path: Path) -> Any:
    """What torch has saved in a file, on the CPU. Damaged where it is not that, Unreadable where
    the machine does not say.

    The bytes are read first, so that an error of the disk cannot be taken for one of the file.
    """
    with reading(path):
        saved = io.BytesIO(read_bytes(path))
        try:
            return torch.load(saved, weights_only=True, map_location="cpu")
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file makes torch raise
            if "allocate memory" in str(error):
                raise
            raise Damaged(type(error).__name__) from None


def before(path: Path) -> Path:
    """Where the checkpoint before the last is kept."""
    return path.with_suffix(f".before{path.suffix}")


@contextmanager
def keeping(path: Path) -> Iterator[Path]:
    """A file beside `path` to write a checkpoint to; the one that is there becomes the one before.

    Whenever this is killed, one of the two is whole.
    """
    with atomically(path) as beside:
        yield beside
        if path.exists():
            os.replace(path, before(path))


def remaining(path: Path) -> tuple[dict[str, Any] | None, Refused]:
    """The state in the last checkpoint that is whole, which `path` then holds; None if none is.

    What is damaged is put aside. Unreadable, where the machine does not let anybody know.
    """
    refused: Refused = []
    for place in (path, before(path)):
        with reading(place):
            if not place.exists():
                continue
        try:
            state = loaded(place)
            if not isinstance(state, dict) or not {"global_step", "state_dict", "callbacks"} <= (
                state.keys()
            ):
                raise Damaged("it is no checkpoint")
        except Damaged as error:
            refused.append((place, put_aside(place), str(error)))
            continue
        if place != path:
            os.replace(place, path)
        return state, refused
    return None, refused


def forget(path: Path) -> None:
    """Remove the checkpoints of a training that has ended."""
    for place in (path, before(path)):
        place.unlink(missing_ok=True)


def with_threads(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint that says how many threads it was made with: sums depend on that."""
    return state | {THREADS: torch.get_num_threads()}


class Keeping(L.Callback):
    """Makes Lightning write and read the checkpoints of a training as this module does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        trainer.strategy.checkpoint_io = WholeCheckpoints(self.path)


class WholeCheckpoints(TorchCheckpointIO):
    """Writes what `posbench.core.training.Checkpoint` then renames to `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write it whole, under a name of this call alone; only then the last is the one before."""
        with atomically(Path(path)) as beside:
            torch.save(with_threads(checkpoint), beside)
        if self.path.exists():
            os.replace(self.path, before(self.path))

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        found: dict[str, Any] = loaded(Path(path))
        return found
