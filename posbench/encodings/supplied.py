"""Encodings that ask the task for position ids: which tokens correspond, which digit of a number
this is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.attention import Attention, Plan
from posbench.encoding import Draw, PositionEncoding, Wrapper
from posbench.errors import ConfigError


class Coupling(Wrapper):
    r"""$p_t = s + \mathrm{id}_t$, where tokens that correspond share an id of the task; s is a
    random start (position coupling, arXiv 2405.20671).

    The host is told that a token and the one it is to repeat or to add stand at the same position.
    In training the start is drawn for each sequence from all that fit, 0 to N - 1 - max id with N =
    `largest`, so that every position of the longest test is trained; at evaluation it is 0. The
    paper's host is a learned table of N rows; a relative host does not notice the start. The
    structure of the task is given, not learned: rows of this method compare with those that are
    given it as well.
    """

    ids = "coupled"
    method_class = "task-supplied ids"

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the number of positions that ids may take, at least 1, got {largest}"
            )
        self.ids, self.method_class = type(self).ids, type(self).method_class
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        starts = room(ids, self.largest, "largest")
        if draw.training:
            ids = ids + torch.randint(starts, (draw.batch_size, 1), generator=draw.generator)
        return self.host.positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(self.largest, training)


class Abacus(PositionEncoding):
    r"""$x_t \leftarrow x_t + P_{k + c_t}$ for the $c_t$-th symbol of a number (from 1), $x_t + P_0$
    for all other tokens; k is a random offset in training and 0 at evaluation (Abacus embeddings,
    arXiv 2405.17399).

    The task says which symbol of its number a token is; numbers are written least significant digit
    first where it matters. One offset is drawn for a batch, from 0 to the largest that the
    `num_rows` rows of P allow, so that every row is trained (published: at most 99 with 20 digits
    in training and 100 in the test, in 1024 rows, most of which never occur). Rows are drawn as
    those of `Learned`. The structure of the task is given, not learned: rows of this method compare
    with those that are given it as well.
    """

    shared = ("table",)
    relative = False
    float_positions = False
    ids = "within"
    method_class = "task-supplied ids"

    def __init__(self, model_width: int, num_rows: int, init_std: float = 1.0) -> None:
        super().__init__()
        if num_rows < 2:
            raise ConfigError(
                "num_rows holds a row for other tokens and one a symbol, at least 2, got "
                f"{num_rows}"
            )
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        offsets = room(ids, len(self.table), "num_rows")
        if draw.training:
            ids = torch.where(
                ids > 0, ids + torch.randint(offsets, (), generator=draw.generator), ids
            )
        return ids

    def span(self, length: int, training: bool = False) -> int:
        return len(self.table)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + F.embedding(pos, self.table)


class BiPE(Wrapper):
    r"""$x_t \leftarrow x_t + P_{c_t}$ for the $c_t$-th symbol of a segment (from 1, and 0 for other
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
        self.ids, self.method_class = type(self).ids, type(self).method_class
        self.relative = self.float_positions = False
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


def room(ids: Tensor, size: int, name: str) -> int:
    """How many starts there are from which all ids stay below `size`."""
    largest = int(ids.max())
    if largest >= size:
        raise ConfigError(
            f"the task gives ids up to {largest}, and {name}={size} leaves no room: raise it above "
            "that"
        )
    return size - largest
