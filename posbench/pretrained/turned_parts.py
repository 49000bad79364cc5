"""Rotations of a part of each head, wherever it lies, found by what a model's tables say.

A rotary embedding returns a table of angles. From it come the number of pairs that turn and their
frequencies; which channels they are is found out by trying.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rope import PAIRS
from posbench.encodings.rotation import rotate
from posbench.extensions.direct import Direct
from posbench.pretrained.configured import Configured, Form, own_extension, rotations
from posbench.pretrained.refusal import CannotMount

USUAL_BASE = 10_000.0


class TurnedPart(PositionEncoding):
    r"""RoPE on the r channels of a head from `first` on, with the rest as they are.

    $z_{ij} = c\,\bigl(\mathrm{Re}\sum_{m<r/2} q_{i,m}\,\overline{k_{j,m}}\;
    e^{\pm\mathrm{i}(i-j)\theta_m} + \sum_{c\ \text{outside}} q_{i,c}\,k_{j,c}\bigr)$ with r/2
    frequencies. Pair m is two channels of the part, by `layout` as in `RoPE`. The sign is minus
    where `reversed`. With `first` = 0 and neighbours this is GPT-J's and GLM-4's rotation, with the
    last channels that of latent attention (DeepSeek-V2, arXiv 2405.04434). nanochat turns all
    channels the other way.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(
        self, frequencies: Frequencies, first: int = 0, layout: str = "half", reversed: bool = False
    ) -> None:
        super().__init__()
        self.frequencies, self.first, self.reversed = frequencies, first, reversed
        self.pairs = PAIRS[layout]

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        start, stop = self.first, self.first + 2 * self.frequencies.count

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            cos, sin = self.frequencies.tables(pos, dtype)
            part = rotate(*self.pairs(x[..., start:stop]), cos, -sin if self.reversed else sin)
            return torch.cat((x[..., :start], part, x[..., stop:]), -1)

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))


@dataclass(frozen=True)
class Angles:
    """What a rotary embedding returned at position 1: radians of each pair, and a factor."""

    theta: Tensor  # [pairs], in float64, not negative
    magnitude: float
    exact: bool  # whether the table was kept in float32 or better


def angles(output: Any) -> Angles | None:
    """The angles in what a rotary embedding returned for positions 0, 1, ...; None if there are
    none.
    """
    if isinstance(output, Tensor) and output.is_complex():
        table, kind = output.reshape(-1, *output.shape[-2:])[0], torch.float32
    elif is_pair(output):
        cos, sin = (each.reshape(-1, *each.shape[-2:])[0] for each in output)
        kind = cos.dtype
        table = torch.complex(cos.double(), sin.double())
        table = _once(table)
    else:
        return None
    if table.shape[0] < 2:
        return None
    return Angles(
        table[1].angle().abs().double().cpu(), float(table[0].abs().max()), kind.itemsize >= 4
    )


def is_pair(output: Any) -> bool:
    """Whether it is cosine and sine, apart."""
    return (
        isinstance(output, tuple)
        and len(output) == 2
        and all(isinstance(each, Tensor) and not each.is_complex() for each in output)
    )


def _once(table: Tensor) -> Tensor:
    """Each pair of a table [n, width] once, if it is there twice."""
    width = table.shape[-1]
    if width % 2:
        return table
    one, other = table.chunk(2, -1)
    if torch.equal(one, other):
        return one
    if torch.equal(table[..., 0::2], table[..., 1::2]):
        return table[..., 0::2]
    return table


def configured_parts(config: Any, width: int, tables: Sequence[Angles]) -> Iterator[Form]:
    """Every part of a head that may turn, with the frequencies of the configuration."""
    sizes = list(dict.fromkeys(len(each.theta) for each in tables))
    for count, parameters in itertools.product(sizes, known_rotations(config)):
        try:
            own = own_extension(parameters, config.max_position_embeddings)
            frequencies = Frequencies(count, float(parameters["rope_theta"]))
        except (AttributeError, CannotMount, KeyError, TypeError, ValueError):
            continue
        yield from _placed(frequencies, width, own)


def measured_parts(
    config: Any, width: int, tables: Sequence[Angles], positions: int
) -> Iterator[Form]:
    """The same with the frequencies of tables, as far as these were kept in enough digits."""
    for each in tables:
        if each.exact:
            none = Configured(Direct(), positions)
            yield from _placed(_measured(each, config), width, none)


def known_rotations(config: Any) -> list[Mapping[str, Any]]:
    """`rope_parameters` as far as they can be read."""
    try:
        return rotations(config)
    except (CannotMount, AttributeError):
        return []


def _placed(frequencies: Frequencies, width: int, own: Configured) -> Iterator[Form]:
    size = 2 * frequencies.count
    if size > width:
        return
    firsts = dict.fromkeys((width - size, 0))
    for layout, first, back in itertools.product(PAIRS, firsts, (False, True)):
        words = [
            "reversed" if back else "",
            "interleaved" if layout == "interleaved" else "",
            "partial" if size < width else "",
            "RoPE",
            "of the last channels" if first else "",
        ]
        yield Form(TurnedPart(frequencies, first, layout, back), own, " ".join(filter(None, words)))


def _measured(found: Angles, config: Any) -> Frequencies:
    """A grid with exactly a base where the angles are one, or the stretch of one."""
    count, theta = len(found.theta), found.theta
    if count > 1 and abs(float(theta[0]) - 1) < 1e-6 and 0 < float(theta[-1]) < 1:
        base = float(theta[-1]) ** (-count / (count - 1))
        grid = Frequencies(count, base)
        if ((grid.theta() - theta).abs() <= 1e-5 * theta).all():
            return replace(grid, magnitude=found.magnitude)
    bases = [float(each["rope_theta"]) for each in known_rotations(config) if "rope_theta" in each]
    grid = Frequencies(count, next((each for each in bases if each > 1), USUAL_BASE))
    stretch = tuple((grid.theta() / theta).tolist())
    return replace(grid, stretch=stretch, magnitude=found.magnitude)
