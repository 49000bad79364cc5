"""Proof that mounting changed nothing and that an extension changed something.

transformers reads a rotation once, when a model is made: editing the configuration of a loaded
model does nothing and says nothing. Whatever is measured here has been shown to have taken effect.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posbench.extension import Extension
from posbench.extensions.direct import Direct
from posbench.pretrained.forms import mount, tolerance
from posbench.pretrained.mounting import NAME, Mounted
from posbench.pretrained.refusal import CannotMount
from posbench.streams import stream_seed

TOKENS = 64
"""Tokens of the comparison, and of the attempt to see an effect at few positions."""


def mounted_and_proved(model: PreTrainedModel, train_positions: int | None = None) -> Mounted:
    """`mount`, after which the mounted model is shown to equal the model itself."""
    if model.config._attn_implementation == NAME:
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
    except BaseException:
        mounted.unmount()
        raise
    return mounted


@torch.no_grad()
def disagreement(mounted: Mounted, tokens: int = TOKENS) -> float:
    """The largest difference from the model itself, as a share of its largest logit.

    Two sequences of random tokens are compared, one of which is padded on the left. The mounted
    model is left mounted, without extension.
    """
    n = min(tokens, mounted.train_positions)
    batch = _random_tokens(mounted.model, 2, n)
    present = torch.ones_like(batch)
    present[1, : n // 4] = 0
    mounted.extension = Direct()
    ours = _logits(mounted.model, batch, present)
    mounted.unmount()
    theirs = _logits(mounted.model, batch, present)
    mounted.mount()
    difference = (ours - theirs)[present.bool()].abs().max() / theirs.abs().max()
    return float(difference)


@torch.no_grad()
def prove_effect(mounted: Mounted, extension: Extension, length: int) -> None:
    """CannotMount unless the extension changes logits at `length`, which lies beyond L.

    A few tokens spread over all positions show it at once for what changes rotations. What counts
    keys needs all `length` of them.
    """
    if not extension.changes:
        return
    n = min(TOKENS, length)
    spread = torch.linspace(0, length - 1, n).round().long()[None]
    if _changes(mounted, extension, length, n, spread):
        return
    if not _changes(mounted, extension, length, length, torch.arange(length)[None]):
        raise CannotMount(
            f"{type(extension).__name__} changed no logit at {length} positions, beyond the "
            f"{mounted.train_positions} trained, so measuring it would measure the model itself: "
            "see whether its settings leave anything to change at that length"
        )


def _changes(mounted: Mounted, extension: Extension, length: int, n: int, pos: Tensor) -> bool:
    batch = _random_tokens(mounted.model, 1, n)
    present, pos = torch.ones_like(batch), pos.to(batch.device)
    before = mounted.extension
    try:
        found = []
        for each in (Direct(), extension):
            mounted.extension = each
            with mounted.at(length):
                found.append(_logits(mounted.model, batch, present, pos)[:, -1])
    finally:
        mounted.extension = before
    # Another path of attention rounds differently, which is no effect.
    rounding = 16 * torch.finfo(found[0].dtype).eps * found[0].abs().max()
    return bool((found[0] - found[1]).abs().max() > rounding)


def _random_tokens(model: PreTrainedModel, rows: int, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(stream_seed("pretrained", "proof"))
    size = model.config.get_text_config().vocab_size
    return torch.randint(size, (rows, n), generator=generator).to(model.device)


def _logits(
    model: PreTrainedModel, tokens: Tensor, present: Tensor, pos: Tensor | None = None
) -> Tensor:
    pos = (present.cumsum(1) - 1).clamp(min=0) if pos is None else pos
    return model(input_ids=tokens, attention_mask=present, position_ids=pos, use_cache=False).logits
