"""Does an encoding count tokens? Pairs of tokens that are alike, at equal positions, are compared
from place to place: what differs between them was counted by index, or summed over other tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import Draw, PositionEncoding
from posbench.running import before_training
from posbench.running.subject import HEADS, WIDTH

COUNTING = frozenset(
    {
        "accumulated_rotations.AccumulatedRotations",  # sums angles over the tokens between
        "asentmax.ASEntmax",  # temperature of the number of visible keys
        "cable.Cable",  # sums slopes of the tokens between
        "carope.CARoPE",  # sums angles over the tokens before
        "chunked.Chunked",  # chunks of tokens
        "cope.CoPE",  # gates that count the tokens between
        "fox.FoX",  # gates of the tokens between
        "hard_alibi.HardALiBi",  # windows of tokens
        "path.PaTH",  # reflections of the tokens between
        "per_row_dda.PerRowForgetting",  # gates of the tokens between
        "selective_rope.SelectiveRoPE",  # sums angles over the tokens before
        "short_conv.Convolved",  # sums over the tokens before
        "sliding_window.SlidingWindow",  # windows of tokens
        "ssmax.SSMax",  # temperature of the number of visible keys
        "stick_breaking.StickBreaking",  # what the tokens between leave of the stick
        "wall.Wall",  # gates of the tokens between
    }
)
"""Encodings of posbench that count tokens, or sum over them, whatever their positions; also those
that are derived from one or hold one. Classes of your own declare `counts_tokens = True`.
"""

PLACES, KINDS, POSITIONS = 24, 3, (3, 7, 12)
"""Of the tokens that are compared: how many there are, and how many tokens and positions differ."""
CLOSE = 1e-9
PREFIX = "posbench.encodings."


def declared(encoding: PositionEncoding) -> bool:
    """Whether an encoding, or one inside it, says that it counts tokens."""
    said = getattr(encoding, "counts_tokens", None)
    if said is not None:
        return bool(said)
    return any(
        getattr(part, "counts_tokens", False)
        or any(
            f"{cls.__module__}.{cls.__qualname__}".removeprefix(PREFIX) in COUNTING
            for cls in type(part).__mro__
        )
        for part in encoding.modules()
    )


@torch.no_grad()
def found(encoding: PositionEncoding, places: int = PLACES) -> str:
    """What differs between tokens that are alike, and where; "" if nothing does.

    All that an encoding gives to attention is looked at: positions, embeddings, queries, keys,
    values, scores, masks, weights of equal scores, terms of the values and the last map.
    """
    generator = torch.Generator().manual_seed(5)
    pos = torch.tensor(POSITIONS)[torch.randint(len(POSITIONS), (places,), generator=generator)]
    pos[0], pos[-1] = POSITIONS[0], POSITIONS[-1]  # what counts from one to the other is to show
    kinds = torch.randint(KINDS, (places,), generator=generator)
    ids = encoding.positions(pos[None], Draw(1, torch.Generator().manual_seed(0)))[0]
    if where := _differing(ids, pos):
        return f"what `positions` gives {where}"
    labels = len(POSITIONS) * pos + kinds
    a = _call(pos[None], kinds)
    if where := _differing((encoding.embed(a.x, a.q_pos) - a.x)[0], labels):
        return f"the embedding {where}"
    plan, rows = encoding.encode(a), slice(0, places)
    for leaf in before_training.leaves(plan):
        of_tokens = {"query": leaf.q, "key": leaf.k, "value": leaf.v}
        if leaf.finish is not None:
            same = leaf.v[..., :1, :].expand_as(leaf.v)
            of_tokens["finished output"] = leaf.finish(same, rows)
        for name, tensor in of_tokens.items():
            if where := _differing(tensor.movedim(-2, 0), labels):
                return f"the {name} {where}"
        for name, tensor in _of_pairs(leaf, rows):
            if where := _differing_pairs(tensor, labels):
                return f"the {name} {where}"
    if (select := getattr(plan, "select", None)) is not None and (
        where := _differing_pairs(select(rows), labels)
    ):
        return f"the region {where}"
    return ""


def _call(pos: Tensor, kinds: Tensor) -> Attention:
    """Tokens of some kinds at some positions."""

    def drawn(seed: int, *shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(KINDS, *shape, generator=generator, dtype=torch.float64)[kinds]

    q, k, v = (drawn(seed, HEADS, WIDTH).transpose(0, 1)[None] for seed in (2, 3, 4))
    x, segments = drawn(10, HEADS * WIDTH)[None], torch.zeros_like(pos)
    return Attention(q, k, v, x, pos, pos, scale=WIDTH**-0.5, segments=segments)


def _of_pairs(leaf: Attention, rows: slice) -> list[tuple[str, Tensor]]:
    """What depends on a query and a key, [..., queries, keys] each."""
    n = leaf.num_queries
    flat = torch.zeros(1, leaf.num_heads, n, n, dtype=torch.float64)
    seen = torch.ones(1, 1, n, n, dtype=torch.bool)
    found = [("score", leaf.logits(rows))]
    found += [("mask", (seen & mask(rows)).double()) for mask in leaf.masks]
    found.append(("weight of equal scores", leaf.normalise(flat, seen)))
    for value in leaf.values if n <= PLACES else ():  # memory grows with the third power
        of_keys = []
        for key in range(n):
            one = flat.clone()
            one[..., key] = 1
            of_keys.append(value(one, rows).expand(1, leaf.num_heads, n, -1))
        found.append(("term of the values", torch.stack(of_keys, -1).transpose(-2, -3)))
    return found


def _differing_pairs(tensor: Tensor, labels: Tensor) -> str:
    n = len(labels)
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    pairs = (labels[:, None] * (labels.max() + 1) + labels)[seen]
    tensor = tensor.expand(*tensor.shape[:-2], n, n).movedim((-2, -1), (0, 1))
    return _differing(tensor[seen], pairs, seen.nonzero().tolist())


def _differing(tensor: Tensor, labels: Tensor, names: list[list[int]] | None = None) -> str:
    """Two places of one label at which values differ; "" if there are none."""
    values = tensor.reshape(len(labels), -1).double().nan_to_num(neginf=-1e9)
    _, groups = labels.unique(return_inverse=True)
    places = torch.arange(len(labels))
    firsts = torch.full((int(groups.max()) + 1,), len(labels)).scatter_reduce(
        0, groups, places, "amin"
    )[groups]
    off = (values - values[firsts]).abs().amax(1)
    place = int(off.argmax())
    if off[place] <= CLOSE:
        return ""
    one, other = int(firsts[place]), place
    if names is None:
        return f"differs between the places {one} and {other}"
    (i, j), (k, m) = names[one], names[other]
    return f"of query {i} and key {j} differs from that of query {k} and key {m}"
