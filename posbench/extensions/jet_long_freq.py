"""Jet-Long by frequencies: exact up to a window, and YaRN from its edge on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posbench.base.errors import IllegalExtension
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import EncodingStack, PositionEncoding, Wrapper
from posbench.core.extension import Scaled
from posbench.core.frequencies import Frequencies
from posbench.extensions.distances import below, counted
from posbench.extensions.regions import beyond, joined
from posbench.extensions.temperature import Heated, constant
from posbench.extensions.yarn import YaRN, growth


class JetLongFreq(Scaled):
    r"""Near keys keep RoPE's frequencies; beyond a window, YaRN's take over where those left off.

    Angles $d\,\theta_m$ for $d \le w_0$, else $w_0\,\theta_m + (d - w_0)\,\theta'_m$ with
    YaRN's $\theta'_m = \theta_m/\lambda_m$ at $s = \frac{L' - w_0}{L - w_0}$, and content scores
    times $0.1\ln s + 1$ (the variant by frequencies that Jet-Long's code has, arXiv 2607.07740).

    Up to `window` $w_0$ nothing is interpolated. Beyond it the way from the edge of the window to
    the key is, so that angles go on where those of the window end, in every pair, and the largest
    distance of the test comes to L - 1/s in those that are interpolated by all of s. Left out
    (null), `scale` s is as above for each test length, and nothing changes at the training length.
    Published with $w_0$ = 2,048 of 32,768, and 32 and 1 turns.

    `beta_fast` and `beta_slow` are those of `YaRN`, whose ramp this is; the authors end theirs at
    the last pair at the latest, which differs where every pair turns more than `beta_slow` times in
    training. The factor is on scores as it is, where YaRN has its square, and on near keys too. A
    decay, as xPos has it, goes on from the edge as the angles do.
    """

    needs = "frequencies and distance"

    def __init__(
        self,
        window: int,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        scale: float | None = None,
    ) -> None:
        super().__init__(scale)
        counted("window", window)
        self.window = window
        self.ramp = YaRN(beta_fast, beta_slow)

    def scale_at(self, train_positions: int, test_positions: int) -> float:
        below("window", self.window, train_positions)
        return super().scale_at(train_positions - self.window, test_positions - self.window)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        scale = self.scale_at(train_positions, test_positions)
        stretch = self.ramp.stretch(frequencies, train_positions, scale)
        bifocal = Bifocal(encoding, frequencies.stretched(stretch), stretch, self.window)
        return Heated(bifocal, constant(growth(1.0, scale)))

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        held = [{"frequencies", "distance"} <= layer.handles for layer in stack]
        if not any(held):
            raise IllegalExtension(
                "JetLongFreq needs frequencies and distance, which this encoding does not have"
            )
        return stack.replaced(
            [
                self.apply(layer, train_positions, test_positions) if both else layer
                for layer, both in zip(stack, held, strict=True)
            ]
        )


@dataclass(frozen=True)
class Ahead(Frequencies):
    r"""Every position is told `lead` positions further, for each frequency its own."""

    lead: tuple[float, ...] = ()

    def angles(self, pos: Tensor, rate: Tensor) -> Tensor:
        lead = torch.tensor(self.lead, dtype=rate.dtype, device=rate.device)
        return super().angles(pos, rate) + lead * rate


class Bifocal(Wrapper):
    """The host as it is for keys up to the window, and with other frequencies from its edge on."""

    def __init__(
        self,
        host: PositionEncoding,
        frequencies: Frequencies,
        stretch: tuple[float, ...],
        window: int,
    ) -> None:
        super().__init__(host)
        self.far = frequencies
        # (i + lead) theta' - j theta' = w_0 theta + (i - w_0 - j) theta'
        self.ahead = Ahead(
            frequencies.count,
            frequencies.base,
            frequencies.stretch,
            frequencies.magnitude,
            tuple(window * (each - 1) for each in stretch),
        )
        self.is_far = beyond(window)
        self.handles = host.handles - {"frequencies", "distance"}

    def encode(self, a: Attention) -> Plan:
        far = innermost(self.host, self.far, self.ahead)

        def select(rows: slice) -> Tensor:
            return self.is_far(a, rows)[:, None].to(torch.uint8)

        return joined(select, [self.host.encode(a), far.encode(a)])


def innermost(
    encoding: PositionEncoding, keys: Frequencies, queries: Frequencies
) -> PositionEncoding:
    """The encoding with two kinds of frequencies in the host that has them."""
    if isinstance(encoding, Wrapper):
        return encoding.variant(host=innermost(encoding.host, keys, queries))
    return Stitched(encoding, keys, queries)


class Stitched(Wrapper):
    """The keys of the host at some frequencies, and its queries at others."""

    def __init__(self, host: PositionEncoding, keys: Frequencies, queries: Frequencies) -> None:
        super().__init__(host)
        self.sides = tuple(host.variant(frequencies=each).encode for each in (keys, queries))

    def encode(self, a: Attention) -> Plan:
        keys, queries = (encode(a) for encode in self.sides)
        if not (isinstance(keys, Attention) and isinstance(queries, Attention)) or keys.content:
            raise IllegalExtension(
                "scores of this host are no product of a query and a key, as where xPos spans more "
                "than 130 scale_base: its two sides cannot have frequencies of their own"
            )
        return replace(keys, q=queries.q, bias_q=queries.bias_q)
