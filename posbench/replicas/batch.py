"""The batches of several trainings, put together to one of a single shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.scoring import Inputs

NOT_ASKED = -100
"""The label of a place that predicts nothing."""


@dataclass(frozen=True)
class ReplicaBatch:
    """The batches of R replicas, [R, batch|1, n], padded at their end to the longest."""

    tokens: Tensor
    pos: Tensor
    segments: Tensor
    labels: Tensor  # NOT_ASKED where nothing is to be predicted
    first: int  # column of the first place of all

    @classmethod
    def of(cls, batches: Sequence[Inputs], beyond: int = 0) -> ReplicaBatch:
        """Padded to the longest, and `beyond` it, by the last token and position of each sequence:
        those exist in every table.
        """
        length = max(data.tokens.shape[1] for data in batches) + beyond
        rows = max(data.pos.shape[0] for data in batches)

        def padded(column: Tensor) -> Tensor:
            last = column[:, -1:]
            shape = (len(column), length - column.shape[1], *column.shape[2:])
            return torch.cat((column, last.expand(shape)), 1)

        labels = [data.tokens.new_full(data.tokens.shape, NOT_ASKED) for data in batches]
        for each, data in zip(labels, batches, strict=True):
            each[data.where] = data.labels
        return cls(
            torch.stack([padded(data.tokens) for data in batches]),
            torch.stack([padded(data.pos.expand(rows, *data.pos.shape[1:])) for data in batches]),
            torch.stack([padded(data.segments) for data in batches]),
            torch.stack(
                [F.pad(each, (0, length - each.shape[1]), value=NOT_ASKED) for each in labels]
            ),
            min(data.first for data in batches),
        )

    def to(self, device: torch.device) -> ReplicaBatch:
        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return ReplicaBatch(
            moved(self.tokens),
            moved(self.pos),
            moved(self.segments),
            moved(self.labels),
            self.first,
        )
