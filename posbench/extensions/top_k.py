"""Top-k selection at test time: no query attends to more keys than training had."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.core.selection import Selected


class TopK(Extension):
    r"""Each query attends to its own key and to those that score best, as many as training had.

    $w_{ij} \propto e^{z_{ij}}$ for $j \in S_i$ and 0 for other keys, where $S_i$ has i itself and
    the k - 1 largest of the scores $z_{ij}$, $j < i$, as in the encoding of this name (top-k
    attention on trained models, arXiv 2106.06899).

    `keys` k, left out, is the positions seen in training: the first L queries attend as they did,
    and later ones to L keys, whose scores are the largest of many and not those of a crowd. Unlike
    a window it hides no key for being far away. Distances stay new to the host, and a key that
    scores too well because of that is chosen with the others. A smaller k is sharper and changes
    the training length too.
    """

    needs = "mask"

    def __init__(self, keys: int | None = None) -> None:
        if keys is not None and keys < 1:
            raise ConfigError(
                "keys are those that a query attends to, its own too: at least 1 (or null for the "
                f"positions seen in training), got {keys}"
            )
        self.keys = keys

    @property
    def is_identity(self) -> bool:
        return self.keys is None

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return Selected(encoding, self.keys if self.keys is not None else train_positions)
