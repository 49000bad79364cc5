r"""Extensions that sharpen attention: a factor $\tau_i \ge 1$ on the scores of query i, against the
crowd of keys.

With more keys the same scores spread the weight over more of them. All but `YarnTemperature` act on
late queries alone: up to L, the positions seen in training, $\tau_i = 1$.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from posbench.attention import Attention, Plan
from posbench.encoding import PositionEncoding, Wrapper
from posbench.errors import ConfigError
from posbench.extension import Extension, Scaled

Tau = Callable[[Attention], Tensor]
"""call -> the temperature of its queries, [batch|1, 1, n|1, 1]"""


def constant(factor: float) -> Tau:
    """The same temperature for every query."""

    def tau(a: Attention) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return torch.full((1, 1, 1, 1), factor, dtype=dtype, device=a.q.device)

    return tau


class Heated(Wrapper):
    """The host, with the content scores of every query times a temperature; a bias stays as it
    is.
    """

    def __init__(self, host: PositionEncoding, tau: Tau) -> None:
        super().__init__(host)
        self.tau = tau

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a.heated(self.tau(a)))


class AllHeated(Heated):
    """The host, with content scores and bias of every query times a temperature.

    The bias is multiplied itself, once the host has made it: a temperature of the host's own, or of
    an extension around this one, goes on acting on the content alone.
    """

    def encode(self, a: Attention) -> Plan:
        tau = self.tau(a)

        def hot(part: Attention, _: slice) -> Attention:
            if part.scales_bias:
                return part.heated(tau)
            bias_q = None if part.bias_q is None else tau * part.bias_q
            terms = tuple(
                lambda rows, term=term: tau[..., rows, :] * term(rows) for term in part.terms
            )
            return replace(part.heated(tau), terms=terms, bias_q=bias_q)

        return self.host.encode(a).each(hot)


class Temperature(Extension):
    """A temperature that grows with the query's place, from `length` on: L, where that is left out
    (null).
    """

    needs = "temperature"
    around: type[Heated] = Heated

    def __init__(self, length: int | None = None) -> None:
        if length is not None and length < 2:
            raise ConfigError(
                "length is where the temperature starts to grow, at least 2 (or null for the "
                f"trained length), got {length}"
            )
        self.length = length

    @property
    def is_identity(self) -> bool:
        return self.length is None

    @abstractmethod
    def tau(self, a: Attention, length: int) -> Tensor:
        """The temperature of the queries, [batch|1, n]."""

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        length = self.length if self.length is not None else train_positions
        return self.around(encoding, lambda a: self.tau(a, length)[:, None, :, None])


class LogN(Temperature):
    r"""$\tau_i = \max\bigl(1, \frac{\ln(i+1)}{\ln L}\bigr)$ for the query that sees i + 1 keys
    (log-n scaling: J. Su, kexue.fm/archives/8823; arXiv 2202.12172).

    The entropy of a softmax over n keys grows like $\ln n$; this holds it near what it was at L
    keys. Keys are counted by index, those that a mask hides included. `length` L is the positions
    seen in training unless it is set; where positions are drawn from a range that training has
    filled, it is that range, and a test that stays within changes nothing. A bias is not
    multiplied.

    The maximum is what makes the method one for trained models. Without it every query before L is
    flattened, the first to $\tau = 0$, in a way that training has not shown: $\ln(i+1)/\ln L$ must
    be trained with, and the encoding `ssmax` does, starting from just that.
    """

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        count = torch.arange(1, a.num_queries + 1, dtype=dtype, device=a.q.device)
        return (count.log() / math.log(length)).clamp(min=1)[None]


class Growing(Temperature):
    """With `beta`, the growth of the temperature for each factor e of length."""

    def __init__(self, beta: float = 0.1, length: int | None = None) -> None:
        super().__init__(length)
        if not beta > 0:
            raise ConfigError(
                "beta is the growth of the temperature with the logarithm and must exceed 0, got "
                f"{beta}"
            )
        self.beta = beta


class LogFloor(Growing):
    r"""$\tau_p = 1 + \beta\,\ln\bigl(1 + \lfloor p / L \rfloor\bigr)$ for a query at position p
    (Ministral 3 as in transformers; Llama 4, in its layers without rotation).

    A step at every multiple of L: 1 for the trained positions 0 to L - 1, $1 + \beta \ln 2$ from
    position L on. Llama 4 floors (p + 1)/8192 and so steps one position earlier, which with its
    8192 replaced by L would change the last trained query; the form of Ministral 3 does not.
    $\beta$ is 0.1 in both. They are trained with it, at lengths where it acts; here it is put on
    afterwards. Negative positions count as 0. A bias is not multiplied.
    """

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return 1 + self.beta * (a.q_pos // length).clamp(min=0).to(dtype).log1p()


class InklingTemperature(Growing):
    r"""$\tau_p = 1 + \beta\,\ln\max\bigl(1, \frac{p+1}{L}\bigr)$ for a query at position p, on
    content scores *and* bias: $z_{ij} = \tau_i\,(c\,\langle q_i, k_j\rangle + B_{ij})$ (Inkling as
    in transformers; no paper).

    It grows without steps, from position L on: at the last trained one it is 1. $\beta$ is 0.1, as
    published. A bias that stands for a distance stands for a sharper one the later the query:
    ALiBi's slope grows by $\tau$. Without a bias it multiplies the scores alone. Inkling is trained
    with it; here it is put on afterwards.
    """

    around = AllHeated

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return 1 + self.beta * ((a.q_pos + 1).to(dtype) / length).clamp(min=1).log()


class YarnTemperature(Scaled):
    r"""$\tau = (0.1 \ln s + 1)^2$ for every query: the temperature of YaRN (arXiv 2309.00071)
    without its frequencies.

    YaRN multiplies cosine and sine by $0.1 \ln s + 1$ and so the scores of rotated channels by the
    square. Here the content scores are multiplied, whatever they are made of, so that encodings
    without rotation have the temperature too; a bias is not. On RoPE, PI and this are YaRN with
    nothing kept. Where only a part of the channels is rotated YaRN leaves the rest alone, and this
    does not. The constants were fitted to perplexities of LLaMA.

    s is `scale`, or left out (null) $\max(1, L'/L)$ for each test length. Unlike the other
    temperatures it is the same for early and late queries: at a longer test the first L are
    sharpened as well.
    """

    needs = "temperature"

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        factor = (0.1 * math.log(self.scale_at(train_positions, test_positions)) + 1) ** 2
        return Heated(encoding, constant(factor))
