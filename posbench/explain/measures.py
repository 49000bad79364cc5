"""Numbers on one length: what each head looks at, and what the model is without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from posbench.core.attention import Attention, Heads, Plan, Regions
from posbench.core.encoding import EncodingStack, Wrapper
from posbench.core.evaluation import Evaluation, pieces
from posbench.core.extension import Extension
from posbench.core.frequencies import Frequencies
from posbench.core.task import Batch
from posbench.core.transformer import Transformer

# -- attention is watched inside a model that is tested, and heads are taken out of it -------------


class AttentionRecorder(Wrapper):
    """An encoding that computes what its host does, and keeps the plan of the last call, which is
    that of the last loop where blocks are applied several times.
    """

    plan: Plan

    def encode(self, a: Attention) -> Plan:
        self.plan = self.host.encode(a)
        return self.plan


def watched(model: Transformer) -> tuple[Transformer, list[AttentionRecorder]]:
    """The same model, and the encoding of each layer, which can be asked for its plan."""
    layers = [AttentionRecorder(layer) for layer in model.encodings]
    return model.with_encodings(model.encodings.replaced(layers)), layers


@contextmanager
def without_head(model: Transformer, layer: int, head: int) -> Iterator[None]:
    """The output of one head counts as 0 for its layer, in every loop, while this context lasts."""
    width = model.head_width
    channels = slice(head * width, (head + 1) * width)

    def silenced(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        found = inputs[0].clone()
        found[..., channels] = 0
        return found

    block = model.blocks[layer]
    handle = block.out.register_forward_pre_hook(silenced)  # type: ignore[union-attr]
    try:
        yield
    finally:
        handle.remove()


def farthest(plan: Plan, rows: slice) -> float:
    """The largest distance between a query and a key that it sees, in positions as the method
    counts them; NaN where they have several axes.
    """
    if isinstance(plan, Heads):
        return max(farthest(part, rows) for part in plan.parts)
    if isinstance(plan, Regions):
        region = plan.select(rows)
        far = [
            _largest(part.distance(rows), plan.allowed(rows) & (region == index))
            for index, part in enumerate(plan.parts)
            if part.q_pos.ndim == 2
        ]
        return max(far, default=float("nan"))
    if not isinstance(plan, Attention) or plan.q_pos.ndim != 2:
        return float("nan")
    return _largest(plan.distance(rows), plan.allowed(rows))


def _largest(distance: Tensor, seen: Tensor) -> float:
    """The largest of [batch|1, rows, keys] where [batch|1, heads|1, rows, keys] is true."""
    spread = distance[:, None].expand(torch.broadcast_shapes(distance[:, None].shape, seen.shape))
    return float(spread.masked_fill(~seen.expand(spread.shape), 0).max())


# -- what is measured inside a model ---------------------------------------------------------------

SAMPLES = 32
EVERYWHERE, OF_SOURCE = ("keys", "sd"), ("on_source", "margin")
"""Means over all queries that are asked for, and over those whose answer repeats a token."""


@dataclass(frozen=True)
class Inside:
    """The measurements inside a model, on sequences of some lengths.

    `heads` has one line a length, layer and head, with means over the tokens that are asked for:

        `on_source`   share of the attention on the token that the answer repeats; NaN without one
        `keys`        $e^H$, with H the entropy of the attention: over how many keys it spreads
        `margin`      logit of the source above the largest of all other keys
        `sd`          the standard deviation of the logits of the keys that are seen
        `without`     the score of the model if the head finds nothing

    `lengths` has one line a length: `score` of the whole model on the same sequences, `chance`,
    that of guessing, `farthest`, the largest distance that the method asks the model to understand,
    and `unseen_phases`, the share of rotary pairs that turn further than in training and have not
    completed a turn there (NaN for other encodings).
    """

    heads: pd.DataFrame
    lengths: pd.DataFrame
    samples: int = SAMPLES  # sequences of each length


@torch.inference_mode()
def inside(
    tests: Evaluation,
    model: Transformer,
    extension: Extension,
    multiples: Sequence[float],
    samples: int = SAMPLES,
) -> Inside:
    """Look at the model on some sequences of each length."""
    model.eval()
    heads: list[dict[str, float]] = []
    lengths: list[dict[str, float]] = []
    for n, multiple in tests.lengths.multiples.items():
        if multiple not in multiples:
            continue
        batches = tests.batches(n, samples)
        extended = tests.extend(model, extension, n)
        seen = [_seen(tests, model, extended, batch) for batch in batches]
        of_heads = pd.concat([heads_seen for heads_seen, _ in seen])
        for (layer, head), pieces_of_head in of_heads.groupby(["layer", "head"]):
            values = together(pieces_of_head)
            with without_head(model, int(layer), int(head)):
                without = _score(tests, model, extended, batches)
            where = {"multiple": multiple, "layer": layer, "head": head, "without": without}
            heads.append({**where, **values})
        stack = tests.encodings(model, extension, tests.task.longest(n, tests.lengths.trained))
        far = float(np.fmax.reduce([distance for _, distance in seen]))
        lengths.append(
            {
                "multiple": multiple,
                "score": _score(tests, model, extended, batches),
                "chance": tests.task.chance(n),
                "farthest": far,
                "unseen_phases": unseen_phases(
                    model.encodings, stack, tests.spans(model, n)[0], far + 1
                ),
            }
        )
    return Inside(pd.DataFrame(heads), pd.DataFrame(lengths).set_index("multiple"), samples)


def _score(
    tests: Evaluation, model: Transformer, extended: Transformer, batches: Sequence[Batch]
) -> float:
    found = [tests.task.score(batch, tests.predict(extended, model, batch)) for batch in batches]
    return float(np.mean(found))


def _seen(
    tests: Evaluation, model: Transformer, extended: Transformer, batch: Batch
) -> tuple[pd.DataFrame, float]:
    """The work of the layers on one batch, read off their plans: a line a piece, layer and head,
    with the numbers of queries behind it; and the farthest distance.
    """
    device = next(model.parameters()).device
    seen, layers = watched(extended)
    lines: list[pd.DataFrame] = []
    far: list[float] = []
    for rows in pieces(batch, device):
        part = batch.part(rows)
        data = tests.inputs(part, model).to(device)
        seen(data.tokens, data.pos, data.segments, data.where, data.first)
        source = torch.from_numpy(part.source[:, 1:]).to(device)
        for index, layer in enumerate(layers):
            asked = slice(data.first, data.tokens.shape[1])
            where, repeated = data.where[:, asked], source[:, asked]
            found = of_plan(layer.plan, asked, where, repeated)
            counts = {"asked": int(where.sum()), "sourced": int((where & (repeated >= 0)).sum())}
            each = pd.DataFrame(found).rename_axis("head").reset_index()
            lines.append(each.assign(layer=index, **counts))
            far.append(farthest(layer.plan, asked))
    return pd.concat(lines), float(np.fmax.reduce(far))


def together(pieces: pd.DataFrame) -> dict[str, float]:
    """The means of one head over the queries of all pieces, however they were cut."""

    def mean(name: str, counts: str) -> float:
        known = pieces[pieces[counts] > 0]
        return float(np.average(known[name], weights=known[counts])) if len(known) else math.nan

    everywhere = {name: mean(name, "asked") for name in EVERYWHERE}
    return everywhere | {name: mean(name, "sourced") for name in OF_SOURCE}


def of_plan(plan: Plan, rows: slice, where: Tensor, source: Tensor) -> dict[str, list[float]]:
    """Means over the queries in `where` [batch, rows] of one layer, a number a head."""
    logits, allowed = plan.logits(rows).float(), plan.allowed(rows)
    weights = plan.weights(plan.logits(rows), rows).float()
    shape = weights.shape
    logits, allowed = logits.expand(shape), allowed.expand(shape)
    total = weights.sum(-1, keepdim=True).clamp(min=1e-12)  # some normalisers leave a rest
    shares = weights / total
    entropy = -(shares * shares.clamp(min=1e-12).log()).sum(-1)
    count = allowed.sum(-1)
    seen = logits.masked_fill(~allowed, 0)
    mean = seen.sum(-1) / count
    spread = ((logits - mean[..., None]).masked_fill(~allowed, 0).square().sum(-1) / count).sqrt()
    found = {"keys": entropy.exp(), "sd": spread}
    everywhere = {name: _means(values, where) for name, values in found.items()}
    sourced = where & (source >= 0)
    at = source.clamp(min=0)[:, None, :, None].expand(*shape[:-1], 1)
    others = logits.masked_fill(~allowed, -torch.inf).scatter(-1, at, -torch.inf).amax(-1)
    of_source = {
        "on_source": weights.gather(-1, at)[..., 0],
        "margin": logits.gather(-1, at)[..., 0] - others,
    }
    return everywhere | {name: _means(values, sourced) for name, values in of_source.items()}


def _means(values: Tensor, where: Tensor) -> list[float]:
    """The mean of [batch, heads, rows] over the places in `where`, for each head."""
    chosen = values.transpose(0, 1)[:, where]  # [heads, places]
    if not chosen.shape[1]:
        return [math.nan] * chosen.shape[0]
    return [float(value) for value in chosen.mean(1)]


def unseen_phases(
    trained: EncodingStack, tested: EncodingStack, train_positions: float, positions: float
) -> float:
    r"""The share of rotary pairs at a phase that training has not shown: those with
    $\theta'_m D > \theta_m D_0$ and $\theta_m D_0 < 2\pi$, for the positions D of the test, one
    more than its largest distance, and $D_0$ of training. NaN for encodings without frequencies.
    """
    before, now = _frequencies(trained), _frequencies(tested)
    if before is None or now is None or math.isnan(positions):
        return math.nan
    old, new = before.theta() * train_positions, now.theta() * positions
    return float(((new > old + 1e-9) & (old < 2 * math.pi)).double().mean())


def _frequencies(stack: EncodingStack) -> Frequencies | None:
    found = getattr(next(iter(stack)), "frequencies", None)
    return found if isinstance(found, Frequencies) else None
