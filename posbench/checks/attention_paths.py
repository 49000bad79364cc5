"""Is attention the same on every path that it may take? The fused path beside the dense one, also
in low precision, and blocks of any size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posbench.core.attention import Attention, attend, dense
from posbench.running.subject import Subject, call, require

ROUNDINGS = {"root mean square": 2.5, "largest": 3.0}
"""How far outputs in bfloat16 may be off, in units of what rounding the inputs alone does to them.

No absolute tolerance fits all: scores that are not scaled, as TENER's, make of the same inputs
several times the error, which is no fault of the encoding, and the largest of many errors is a
matter of luck. Over 57 encodings and eight seeds each, the root mean square is off by 0.4 to 1.2
units (Shaw's relative values: 1.8) and the largest by at most 1.8. Where angles are formed in
bfloat16 the root mean square is off by 3.8 to 18.
"""


def moved(a: Attention, device: str | None = None, dtype: torch.dtype | None = None) -> Attention:
    """The same call on another device, or with its inputs in another precision."""
    inputs = {name: getattr(a, name).to(device, dtype) for name in ("q", "k", "v", "x")}
    places = {name: getattr(a, name).to(device) for name in ("q_pos", "k_pos", "segments")}
    return replace(a, **inputs, **places)


def _rounded(a: Attention, dtype: torch.dtype) -> Attention:
    """The call with every input off by up to half a unit in the last place of another precision."""
    generator, most = torch.Generator().manual_seed(1), torch.finfo(dtype).eps / 2

    def off(t: Tensor) -> Tensor:
        shares = 2 * torch.rand(t.shape, generator=generator, dtype=t.dtype) - 1
        return t * (1 + most * shares)

    changed: dict[str, Any] = {name: off(getattr(a, name)) for name in ("q", "k", "v", "x")}
    return replace(a, **changed)


def _sizes(error: Tensor) -> dict[str, float]:
    return {
        "root mean square": error.square().mean().sqrt().item(),
        "largest": error.abs().max().item(),
    }


def fused_path_equals_the_dense_reference(subject: Subject) -> None:
    """Outputs and gradients, of inputs and parameters, must be equal in float64."""
    for index, encoding in enumerate(subject.stirred()):
        results = []
        for run, block in ((attend, 16), (dense, 8 * 9)):
            a = call(8 * 9)
            leaves = [t.requires_grad_() for t in (a.q, a.k, a.v, a.x)] + list(
                encoding.parameters()
            )
            out = run(encoding.encode(a), block)
            weight = torch.randn(
                out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype
            )
            results.append(
                (out, *torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True))
            )
        for fused, reference in zip(*results, strict=True):
            if fused is None and reference is None:
                continue
            require(
                fused is not None
                and reference is not None
                and (fused - reference).abs().max().item() < 1e-10,
                f"layer {index}: the fused path and the dense one give different outputs or "
                "gradients: a term, mask or normaliser returns something else for a block of rows "
                "than for all of them",
            )


def fused_path_stays_within_tolerance_at_8x(subject: Subject) -> None:
    """Compare attention in float32 and bfloat16 with the dense path in float64.

    Both get the very same (rounded) inputs.
    """
    n = 8 * subject.made().train_positions
    backends = [("cpu", torch.float32), ("cpu", torch.bfloat16)]
    if torch.cuda.is_available():
        backends += [("cuda", torch.float32), ("cuda", torch.bfloat16)]
    further = "evaluation.longest=9"  # of what the tests of a task have, the next is 8x or more
    for device, dtype in backends:
        for exact, encoding in zip(subject.layers(further), subject.layers(further), strict=True):
            a = call(n, dtype=dtype)
            given = moved(a, dtype=torch.float64)
            reference = dense(exact.encode(given))
            fused = attend(encoding.float().to(device).encode(moved(a, device=device)))
            error = (fused.double().cpu() - reference).abs()
            advice = "form angles, cumulative sums and biases in float32 or better, cast afterwards"
            if dtype == torch.float32:
                tolerance = 2e-5 if device == "cpu" else 5e-5
                require(
                    error.max().item() < tolerance,
                    f"in {dtype} on {device} outputs at 8 times the training length are off by "
                    f"{error.max().item():.1e} (at most {tolerance}): {advice}",
                )
                continue
            rounding = (dense(exact.encode(_rounded(given, dtype))) - reference).abs()
            for kind, most in ROUNDINGS.items():
                found, unit = (_sizes(t)[kind] for t in (error, rounding))
                require(
                    found < most * unit,
                    f"in {dtype} on {device} outputs at 8 times the training length are off by "
                    f"{found:.1e} ({kind}), {found / unit:.1f} times what rounding the inputs "
                    f"alone does (at most {most}): {advice}",
                )


def any_block_size_gives_the_same(subject: Subject) -> None:
    """Attention works on rows in blocks, and their size must only matter for memory."""
    for encoding in subject.stirred():
        whole = attend(encoding.encode(call(29)), 29)
        for block in (1, 7, 28):
            error = (attend(encoding.encode(call(29)), block) - whole).abs().max().item()
            require(
                error < 1e-12,
                f"in blocks of {block} rows the output differs by {error:.1e} from that of all "
                "rows at once: use `rows` to index queries (q, q_pos), and never the shape of a "
                "block as the number of keys",
            )
