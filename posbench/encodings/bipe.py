"""BiPE: a place within a segment, and the segments counted."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import Draw, PositionEncoding, Wrapper
from posbench.encodings.supplied_ids import room


class BiPE(Wrapper):
    r"""A token gets a learned row for its place in its segment, and the host counts segments.

    $x_t \leftarrow x_t + P_{c_t}$ for the $c_t$-th symbol of a segment (from 1, and 0 for other
    tokens), and the host at the position $n_t$, the number of segments begun up to t (bilevel
    encoding, arXiv 2401.16421).

    The task says which symbol of its segment a token is. A token of none, such as a separator,
    belongs to the segment before it. The table P tells places inside a segment apart and is one for
    all layers; the host sees all tokens of a segment at one position. The paper's hosts are RoPE
    and ALiBi, the latter with slopes 96 times as steep; here a host is as it is given. The bet is
    that a longer text has more segments, not longer ones: where segments grow with the length, rows
    are met that were never trained, as with `Learned`. The structure of the task is given, not
    learned: rows of this method compare with those that are given it as well.
    """

    shared = ("table",)
    ids = "within"
    method_class = "task-supplied ids"
    relative = False
    float_positions = False

    def __init__(
        self, host: PositionEncoding, model_width: int, num_rows: int, init_std: float = 1.0
    ) -> None:
        super().__init__(host)
        if num_rows < 2:
            raise ConfigError(
                "num_rows holds a row for other tokens and one a symbol, at least 2, got "
                f"{num_rows}"
            )
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows
        # Positions are places in segments: what stretches or caps distances has nothing to act on.
        self.handles = host.handles & PositionEncoding.handles

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        room(ids, len(self.table), "num_rows")
        return ids

    def span(self, length: int, training: bool = False) -> int:
        return len(self.table)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.host.embed(x + F.embedding(pos, self.table), begun(pos))

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a.at(begun(a.q_pos), begun(a.k_pos)))


def begun(pos: Tensor) -> Tensor:
    """The number of segments begun up to each token, of which `pos` is the place, [batch|1, n]."""
    return (pos == 1).cumsum(-1)
