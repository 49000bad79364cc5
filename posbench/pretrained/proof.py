"""Proof that mounting changed nothing and that an extension changed something.

transformers reads a rotation once, when a model is made: editing the configuration of a loaded
model does nothing and says nothing. Whatever is measured here has been shown to have taken effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posbench.base.errors import PosbenchError
from posbench.core.extension import Extension
from posbench.core.streams import stream_seed
from posbench.extensions.direct import Direct
from posbench.pretrained.forms import mount, tolerance
from posbench.pretrained.mounting import NAME, Layer, Mounted
from posbench.pretrained.reading import answers
from posbench.pretrained.refusal import CannotMount, as_one_line
from posbench.pretrained.richer import NAME as RICHER
from posbench.pretrained.richer import RereadingMounted, itself

FAILS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a model raises whose code and settings do not go together."""
TOKENS = 64
"""Tokens of the comparison, and of the attempt to see an effect at few positions."""


def mounted_and_proved(model: PreTrainedModel, train_positions: int | None = None) -> Mounted:
    """`mount`, after which the mounted model is shown to equal the model itself."""
    if model.config._attn_implementation in (NAME, RICHER):
        raise CannotMount(
            f"this {type(model).__name__} is mounted already: unmount it first, or go on with the "
            "Mounted that it has"
        )
    model.eval()
    mounted = mount(model, train_positions)
    try:
        difference = disagreement(mounted)
        if not difference <= tolerance(model.dtype):
            raise CannotMount(
                f"the mounted {type(model).__name__} differs from the model itself by "
                f"{difference:.2g} of the largest logit, where {tolerance(model.dtype):.2g} is its "
                "precision: it does something with positions that was not recognised, so choose "
                "another model"
            )
        return _with_questions(mounted)
    except PosbenchError:
        mounted.unmount()
        raise
    except FAILS as error:
        mounted.unmount()
        raise CannotMount(
            f"{type(model).__name__} cannot be compared with itself ({as_one_line(error)}): see "
            "whether it runs without posbench, and choose another model"
        ) from error
    except BaseException:
        mounted.unmount()
        raise


def _with_questions(mounted: Mounted) -> Mounted:
    """The model as it is asked questions: after one reading of the text, or after one for each."""
    try:
        prove_questions(mounted)
    except KeepsState:
        mounted.unmount()
        again = RereadingMounted(
            mounted.model, mounted.layers, mounted.rotaries, mounted.train_positions
        )
        try:
            prove_questions(again)
            again.caches = growing(again) <= tolerance(again.model.dtype)
        except BaseException:
            again.unmount()
            raise
        return again
    return mounted


@torch.no_grad()
def growing(mounted: Mounted) -> float:
    """The largest difference of what is read token by token, with the cache that the model makes
    itself, from one pass over all; as a share of the largest logit. NaN where it cannot be read so.
    """
    model, n = itself(mounted.model), max(min(TOKENS, mounted.train_positions), 8)
    row, cache, parts = random_tokens(model, 1, n), None, []
    with mounted.at(n):
        whole = logits_of(model, row, torch.ones_like(row))
        try:
            for part in (slice(0, n - 4), *(slice(at, at + 1) for at in range(n - 4, n))):
                out = model(
                    input_ids=row[:, part],
                    attention_mask=torch.ones_like(row[:, : part.stop]),
                    past_key_values=cache,
                    use_cache=True,
                )
                cache = out.past_key_values
                parts.append(out.logits)
        except FAILS:
            return float("nan")
    return float((torch.cat(parts, 1) - whole).abs().max() / whole.abs().max())


class KeepsState(CannotMount):
    """A text cannot be read once for several questions, for layers keep more than keys and
    values.
    """


@torch.no_grad()
def disagreement(mounted: Mounted) -> float:
    """The largest difference from the model itself, as a share of its largest logit.

    Two sequences of random tokens are compared, one of which is padded on the left. That one is
    left out where the model itself gives NaN for it, as Gemma 2 of transformers does in float64.
    The mounted model is left mounted, without extension. Raises `CannotMount` if the model gives
    NaN for the other one too.
    """
    n = min(TOKENS, mounted.train_positions)
    batch = random_tokens(mounted.model, 2, n)
    present = torch.ones_like(batch)
    present[1, : n // 4] = 0
    mounted.extension = Direct()
    ours = logits_of(mounted.model, batch, present)
    mounted.unmount()
    theirs = logits_of(mounted.model, batch, present)
    mounted.mount()
    if theirs[0].isnan().any():
        raise CannotMount(
            f"{type(mounted.model).__name__} itself gives NaN for random tokens: "
            f"load it in another precision than {mounted.model.dtype}, or choose another model"
        )
    compared = present.bool()
    compared[1] &= not theirs[1][compared[1]].isnan().any()
    ours, theirs = ours[compared], theirs[compared]
    return float((ours - theirs).abs().max() / theirs.abs().max())


@torch.no_grad()
def prove_questions(mounted: Mounted) -> None:
    """CannotMount unless two questions after one text have the answers that the model itself gives.

    They go the way of every measurement: the text is read once, and what a question has added is
    cut off again. So the second question must have the same answer as if it were the only one,
    which does not depend on the precision of a model. Models that transformers calls stateful are
    not asked so: in half precision, what they forget is hard to tell from rounding.

    Raises `KeepsState` where a text would have to be read again.
    """
    model = itself(mounted.model)
    again = isinstance(mounted, RereadingMounted)
    if getattr(model, "_is_stateful", False) and not again:
        raise KeepsState(_keeps_state(mounted))
    n = max(min(TOKENS, mounted.train_positions), 3)
    rows, size = random_tokens(model, 2, n), max(n // 8, 1)
    shared = rows[0, : n - 2 * size].tolist()
    rows[1, : len(shared)] = rows[0, : len(shared)]
    asked = [(row[len(shared) : -size].tolist(), row[-size:].tolist()) for row in rows]
    try:
        given = [torch.tensor(each.log_likelihood) for each in answers(mounted, shared, asked, n)]
        (alone,) = answers(mounted, shared, asked[1:], n)
    except PosbenchError:
        raise
    except Exception as error:
        raise _no_questions(mounted, as_one_line(error)) from error
    mounted.unmount()
    logits = logits_of(model, rows, torch.ones_like(rows))[:, -size - 1 : -1].float()
    mounted.mount()
    wanted = logits.log_softmax(-1).gather(2, rows[:, -size:, None])[..., 0].cpu()
    ours = torch.stack(given)
    remembered = (ours[1] - torch.tensor(alone.log_likelihood)).abs().max()
    rounding = max(torch.finfo(each).eps for each in (model.dtype, ours.dtype))
    if not remembered <= 2 * rounding * ours[1].abs().max():
        raise _no_questions(mounted, f"{remembered:.2g} nats after another question")
    # A logit that is off by d, and a sum over all of them, are off by 2 d.
    allowed = 2 * tolerance(model.dtype) * float(logits.abs().max())
    if not (difference := float((ours - wanted).abs().max())) <= allowed:
        raise _no_questions(mounted, f"{difference:.2g} nats from a whole pass")


def _no_questions(mounted: Mounted, what: str) -> CannotMount:
    """Why two questions cannot follow one text; some layers may keep no keys to cut off."""
    model = itself(mounted.model)
    few = len(mounted.layers) < getattr(model.config.get_text_config(), "num_hidden_layers", 0)
    if few and not isinstance(mounted, RereadingMounted):
        return KeepsState(_keeps_state(mounted))
    return CannotMount(
        f"{type(model).__name__} answers questions after a text that it has read otherwise than in "
        f"one pass ({what}): choose another model"
    )


def _keeps_state(mounted: Mounted) -> str:
    return (
        f"{type(itself(mounted.model)).__name__} keeps a state that cannot be cut back to the end "
        "of a text, so a question would know of the one before it: choose a model whose layers "
        "keep keys and values alone"
    )


def narrow(mounted: Mounted) -> list[Layer]:
    """The rotary layers that no extension reaches, for their windows lie within L."""
    return [
        layer
        for layer in mounted.layers
        if rotary(layer) and layer.window is not None and layer.window <= mounted.train_positions
    ]


def rotary(layer: Layer) -> bool:
    return "frequencies" in layer.form.encoding.handles


def windows(layers: Sequence[Layer]) -> str:
    """Such as "32 and 64"."""
    return " and ".join(str(each) for each in sorted({layer.window or 0 for layer in layers}))


def prove_effect_at(mounted: Mounted, extension: Extension, lengths: Sequence[int]) -> None:
    """`prove_effect` at one of the lengths beyond L, the shortest first. Where there is none, it is
    made at the longest, for an extension that changes short texts too.
    """
    asked = sorted(length for length in lengths if length > mounted.train_positions)
    if not asked and not extension.is_identity:
        asked = [max(lengths)]
    for length in asked:
        try:
            return prove_effect(mounted, extension, length)
        except CannotMount:  # a little beyond L, an extension may change less than rounding does
            if length == asked[-1]:
                raise


@torch.no_grad()
def prove_effect(mounted: Mounted, extension: Extension, length: int) -> None:
    """CannotMount unless the extension changes logits at `length`, which lies beyond L.

    A few tokens spread over all positions show it at once for what changes rotations. What counts
    keys needs all `length` of them.
    """
    if not extension.changes:
        return
    few = spread(length)
    if _changes(mounted, extension, length, len(few), few[None]):
        return
    if not _changes(mounted, extension, length, length, torch.arange(length)[None]):
        still = narrow(mounted)
        if len(still) == sum(map(rotary, mounted.layers)):
            raise CannotMount(
                f"all rotary layers have windows of {windows(still)}, within the "
                f"{mounted.train_positions} trained positions, so no distance is new"
            )
        dtype = str(mounted.model.dtype).removeprefix("torch.")
        where = "beyond" if length > mounted.train_positions else "of"
        name = getattr(extension, "name", type(extension).__name__)
        raise CannotMount(
            f"{name} changed no logit at {length} positions, {where} the "
            f"{mounted.train_positions} trained, by more than {dtype} "
            "rounds, so measuring it would measure the model itself: see whether its settings "
            "leave anything to change at that length"
        )


def spread(length: int) -> Tensor:
    """A few positions from the first to the last of a length, [n]."""
    return torch.linspace(0, length - 1, min(TOKENS, length), dtype=torch.float64).round().long()


def _changes(mounted: Mounted, extension: Extension, length: int, n: int, pos: Tensor) -> bool:
    batch = random_tokens(mounted.model, 1, n)
    present, pos = torch.ones_like(batch), pos.to(batch.device)
    before = mounted.extension
    try:
        found = []
        for each in (Direct(), extension):
            mounted.extension = each
            with mounted.at(length):
                found.append(logits_of(mounted.model, batch, present, pos).double())
    finally:
        mounted.extension = before
    # Another path of attention rounds differently, which is no effect. Over all tokens and in the
    # root mean square rounding is small, also in half precision.
    plain, extended = found
    rounding = 4 * torch.finfo(mounted.model.dtype).eps * plain.square().mean().sqrt()
    return bool((plain - extended).square().mean().sqrt() > rounding)


def random_tokens(model: PreTrainedModel, rows: int, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(stream_seed("pretrained", "proof"))
    size = model.config.get_text_config().vocab_size
    return torch.randint(size, (rows, n), generator=generator).to(model.device)


def logits_of(
    model: PreTrainedModel, tokens: Tensor, present: Tensor, pos: Tensor | None = None
) -> Tensor:
    pos = (present.cumsum(1) - 1).clamp(min=0) if pos is None else pos
    return model(input_ids=tokens, attention_mask=present, position_ids=pos, use_cache=False).logits
