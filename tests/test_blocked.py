"""Encodings computed in blocks give the scores, outputs and gradients of the ones that they speed
up, whatever the length and the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from loops import WIDTH, call, same, shaken
from torch import Tensor

from posbench.core.attention import Attention, attend, attend_from
from posbench.core.encoding import PositionEncoding
from posbench.encodings import path_blocked
from posbench.encodings.path import PaTH
from posbench.encodings.path_blocked import BlockedPaTH
from posbench.encodings.path_fox import PaTHFoX
from posbench.encodings.path_fox_blocked import BlockedPaTHFoX
from posbench.encodings.wall import Wall
from posbench.encodings.wall_blocked import BlockedWall

oracle = pytest.mark.oracle
HEADS, MODEL, RANK = 2, 2 * WIDTH, 5

Make = Callable[..., PositionEncoding]
PAIRS = [
    pytest.param(
        PaTH, BlockedPaTH, (RANK, 3), marks=oracle("path_blocked", "identity: path"), id="path"
    ),
    pytest.param(
        PaTH, BlockedPaTH, (RANK, 1), marks=oracle("path_blocked", "identity: path"), id="kernel 1"
    ),
    pytest.param(
        PaTHFoX,
        BlockedPaTHFoX,
        (RANK, 3, 4.0),
        marks=oracle("path_fox_blocked", "identity: path_fox"),
        id="path_fox",
    ),
    pytest.param(
        Wall, BlockedWall, (3.0,), marks=oracle("wall_blocked", "identity: wall"), id="wall"
    ),
]
pairs = pytest.mark.parametrize(("reference", "blocked", "settings"), PAIRS)
lengths = pytest.mark.parametrize("n", [1, 2, 7, 15, 16, 17, 63, 64, 65, 129, 200])


def alike(reference: Make, blocked: Make, settings: tuple[float, ...]) -> list[PositionEncoding]:
    """Both with the same parameters."""
    both = [shaken(make(MODEL, HEADS, WIDTH, *settings)) for make in (reference, blocked)]
    both[1].load_state_dict(both[0].state_dict())
    return both


def gradients(encoding: PositionEncoding, a: Attention) -> list[Tensor]:
    """The output, and its gradients to inputs and parameters in a random direction."""
    leaves = [getattr(a, name).detach().requires_grad_() for name in ("q", "k", "v", "x")]
    out = attend(encoding.encode(replace(a, **dict(zip("qkvx", leaves, strict=True)))))
    generator = torch.Generator().manual_seed(1)
    along = torch.randn(out.shape, generator=generator, dtype=out.dtype)
    return [out, *torch.autograd.grad(out, [*leaves, *encoding.parameters()], along)]


@pairs
@lengths
def test_outputs_and_gradients_are_those_of_the_reference(
    reference: Make, blocked: Make, settings: tuple[float, ...], n: int
) -> None:
    a = call(range(n), heads=HEADS)
    theirs, ours = (gradients(each, a) for each in alike(reference, blocked, settings))
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


@pairs
@lengths
def test_scores_are_those_of_the_reference_for_any_rows(
    reference: Make, blocked: Make, settings: tuple[float, ...], n: int
) -> None:
    a = call(range(n), heads=HEADS)
    theirs, ours = (each.encode(a) for each in alike(reference, blocked, settings))
    third = n // 3
    for rows in (slice(0, n), slice(n - 1, n), slice(third, third + n // 2 + 1), slice(third, n)):
        seen = ours.allowed(rows)
        same(ours.logits(rows) * seen, theirs.logits(rows) * seen)


@pairs
def test_a_cache_of_keys_gives_the_rows_of_the_whole_sequence(
    reference: Make, blocked: Make, settings: tuple[float, ...]
) -> None:
    """One query after the other, with the keys so far; the queries before are not kept."""
    a = call(range(70), heads=HEADS)
    theirs, ours = alike(reference, blocked, settings)
    whole = attend(theirs.encode(a))
    for n in (1, 16, 17, 64, 70):
        cut = {name: getattr(a, name)[:, :, :n] for name in ("q", "k", "v")}
        cut["q"] = torch.cat((torch.zeros_like(cut["q"][:, :, 1:]), cut["q"][:, :, -1:]), 2)
        pos = a.q_pos[:, :n]
        one = replace(a, **cut, x=a.x[:, :n], q_pos=pos, k_pos=pos)
        same(attend_from(ours.encode(one), n - 1), whole[:, :, n - 1 : n])


@oracle("path_blocked", "identity: path in blocks of any size")
@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_the_size_of_a_block_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_blocked, "SHORT", size)
    a = call(range(30), heads=HEADS)
    theirs, ours = (gradients(each, a) for each in alike(PaTH, BlockedPaTH, (RANK, 3)))
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


@pytest.mark.parametrize("length", [64, 300])
def test_gates_that_close_fade_by_halves_without_overflow(length: int) -> None:
    """Sums of logarithms are in the thousands, in float32."""
    a, (theirs, ours) = call(range(length), heads=HEADS), alike(Wall, BlockedWall, (3.0,))
    with torch.no_grad():
        for each in (theirs, ours):
            each.gate.weight.mul_(100)
    exact = theirs.encode(a).logits(slice(0, length))
    narrow = replace(a, **{name: getattr(a, name).float() for name in "qkvx"})
    found = ours.float().encode(narrow).logits(slice(0, length))
    same(found.double(), exact, 1e-3)
    found.sum().backward()
    assert all(bool(torch.isfinite(each.grad).all()) for each in ours.parameters())
