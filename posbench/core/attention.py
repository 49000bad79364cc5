"""What one attention call computes, as an immutable value, and the executor that runs it.

An encoding is a function from one `Attention` to another. It fills in the fields its formula needs;
the executor reads off the object which path can run it and knows no encoding by name:

    fused          nothing but q, k, v and a factored bias: one `scaled_dot_product_attention`,
                   O(n) memory
    fused by rows  additive terms or masks: the same kernel on blocks of queries, with a mask
    dense          a content score, normaliser or value term of its own: explicit weights by block

The dense path runs every object and is the reference that the other two must equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Term = Callable[[slice], Tensor]
"""rows -> [batch|1, heads|1, rows, keys]; `rows` is a slice of query indices."""
Normaliser = Callable[[Tensor, Tensor], Tensor]
"""(logits, allowed) -> weights, all [batch, heads, rows, keys].

The last key that a query is allowed to see is its own.
"""
ValueTerm = Callable[[Tensor, slice], Tensor]
"""(weights, rows) -> [batch, heads, rows, width], linear in the weights."""
Change = Callable[["Attention", slice], "Attention"]
"""(call, its heads among all heads) -> call"""
Finish = Callable[[Tensor, slice], Tensor]
"""(output, rows) -> output, [batch, heads, rows, width]; row by row, so every path can apply it."""

BLOCK_ELEMENTS = 2**21
"""Elements in one block of the score matrix (8 MiB in float32); bounds memory at any length."""

ROWS_AT_ONCE = 64
"""Queries whose attention weights are held at once where only the last queries are wanted."""


def softmax(logits: Tensor, allowed: Tensor) -> Tensor:
    return logits.masked_fill(~allowed, -torch.inf).softmax(-1)


class Plan(Protocol):
    """Anything attention can execute: one `Attention`, or a composite of several."""

    @property
    def num_queries(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    def logits(self, rows: slice) -> Tensor: ...
    def allowed(self, rows: slice) -> Tensor: ...
    def weights(self, logits: Tensor, rows: slice) -> Tensor: ...
    def output(self, weights: Tensor, rows: slice) -> Tensor: ...
    def run(self, block: int) -> Tensor: ...
    def each(self, change: Change, first: int = 0) -> Plan: ...


@dataclass(frozen=True)
class Attention:
    r"""One causal attention call.

    $$z_{ij} = \tau_i\, c\, \langle q_i, k_j \rangle + B_{ij}, \qquad
      o_i = \sum_j N(z_i)_j\, v_j + \sum_t a^{(t)}_i$$

    with $B = b^q (b^k)^\top + \sum_t \text{terms}$ added *after* the scale $c$. With `scales_bias`
    the temperature multiplies $B$ as well. Causality goes by index, distance by position: the two
    differ as soon as positions are random, shifted or supplied by the task.
    """

    q: Tensor  # [batch, heads, n, width]; an encoding may widen q and k together
    k: Tensor  # [batch, heads, n, width]
    v: Tensor  # [batch, heads, n, head_width]
    x: Tensor  # [batch, n, model_width], the normalised input of the layer
    q_pos: Tensor  # [batch|1, n] or [batch|1, n, axes], integer or float
    k_pos: Tensor  # the same shape; kept apart because region methods move only one of the two
    scale: float  # c
    temperature: Tensor | None = None  # [batch|1, heads|1, n|1, 1], tau
    scales_bias: bool = False
    bias_q: Tensor | None = None  # [batch|1, heads, n, rank]
    bias_k: Tensor | None = None  # [batch|1, heads, n, rank]
    content: Term | None = None  # replaces c <q_i, k_j>
    terms: tuple[Term, ...] = ()
    masks: tuple[Term, ...] = ()  # boolean, True where a key is seen; a query must see itself
    normalise: Normaliser = softmax
    values: tuple[ValueTerm, ...] = ()
    finish: Finish | None = None  # applied to the output last, e.g. to undo a rotation at the query
    segments: Tensor | None = None  # [batch|1, n], integer: the part a token is in; None: one part

    def __post_init__(self) -> None:
        if self.temperature is not None and (
            self.temperature.ndim != 4 or self.temperature.shape[-1] != 1
        ):
            raise ValueError(
                "temperature must be [batch|1, heads|1, n|1, 1], got "
                f"{tuple(self.temperature.shape)}"
            )
        if (self.bias_q is None) != (self.bias_k is None):
            raise ValueError("bias_q and bias_k make one factored bias: give both or neither")
        if self.q_pos.ndim < 2 or self.k_pos.ndim < 2:
            raise ValueError("positions must be [batch|1, n] or [batch|1, n, axes]")

    # -- builders: each returns a new object -------------------------------------------------------

    def at(self, q_pos: Tensor, k_pos: Tensor) -> Attention:
        """The same call with queries and keys at other positions."""
        return replace(self, q_pos=q_pos, k_pos=k_pos)

    def plus(self, *terms: Term) -> Attention:
        return replace(self, terms=(*self.terms, *terms))

    def where(self, *masks: Term) -> Attention:
        return replace(self, masks=(*self.masks, *masks))

    def heated(self, temperature: Tensor, scales_bias: bool = False) -> Attention:
        """Multiply the content logits (and with `scales_bias` the bias) by `temperature`."""
        tau = temperature if self.temperature is None else self.temperature * temperature
        return replace(self, temperature=tau, scales_bias=self.scales_bias or scales_bias)

    def factored(self, bias_q: Tensor, bias_k: Tensor) -> Attention:
        """Add the low-rank bias `bias_q @ bias_k.T`, exactly, for `rank` extra channels."""
        if self.bias_q is not None and self.bias_k is not None:
            bias_q, bias_k = (
                torch.cat((self.bias_q, bias_q), -1),
                torch.cat((self.bias_k, bias_k), -1),
            )
        return replace(self, bias_q=bias_q, bias_k=bias_k)

    def heads(self, part: slice) -> Attention:
        """This call restricted to the heads in `part`.

        Only inputs can be cut, so a head's own content score, normaliser and value terms are set
        afterwards, on the part. ValueError if content, value terms or `finish` are set already.
        """
        if (
            self.content is not None
            or self.values
            or self.finish is not None
            or self.normalise is not softmax
        ):
            raise ValueError(
                "split heads before an encoding sets content, value terms, a normaliser or finish, "
                "not after"
            )

        def cut(t: Tensor) -> Tensor:
            return t if t.shape[1] == 1 else t[:, part]

        def cut_terms(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            return tuple(lambda rows, term=term: cut(term(rows)) for term in terms)

        return replace(
            self,
            q=self.q[:, part],
            k=self.k[:, part],
            v=self.v[:, part],
            temperature=None if self.temperature is None else cut(self.temperature),
            bias_q=None if self.bias_q is None else cut(self.bias_q),
            bias_k=None if self.bias_k is None else cut(self.bias_k),
            terms=cut_terms(self.terms),
            masks=cut_terms(self.masks),
        )

    def each(self, change: Change, first: int = 0) -> Attention:
        """Apply `change` to every call in the plan; the heads count from `first`."""
        return change(self, slice(first, first + self.num_heads))

    def distance(self, rows: slice) -> Tensor:
        """D = i - j in positions, [batch|1, rows, keys]; negative only where ids decrease."""
        return self.q_pos[:, rows, None] - self.k_pos[:, None, :]

    def offset(self, rows: slice) -> Tensor:
        """The offset i - j in indices, [rows, keys]; causality, windows and key counts go by it."""
        index = torch.arange(self.num_queries, device=self.q.device)
        return index[rows, None] - index[None, :]

    # -- the formula, row by row -------------------------------------------------------------------

    @property
    def num_queries(self) -> int:
        return self.q.shape[-2]

    @property
    def num_heads(self) -> int:
        return self.q.shape[1]

    def tau(self, rows: slice) -> Tensor | float:
        if self.temperature is None:
            return 1.0
        return (
            self.temperature if self.temperature.shape[-2] == 1 else self.temperature[..., rows, :]
        )

    def bias(self, rows: slice) -> Tensor | None:
        """B, [batch|1, heads|1, rows, keys], or None if there is no bias."""
        parts = [term(rows) for term in self.terms]
        if self.bias_q is not None and self.bias_k is not None:
            parts.append(self.bias_q[..., rows, :] @ self.bias_k.mT)
        return sum(parts[1:], parts[0]) if parts else None

    def logits(self, rows: slice) -> Tensor:
        content = (
            self.content(rows)
            if self.content is not None
            else self.scale * (self.q[..., rows, :] @ self.k.mT)
        )
        bias, tau = self.bias(rows), self.tau(rows)
        if bias is None:
            return tau * content
        return tau * (content + bias) if self.scales_bias else tau * content + bias

    def allowed(self, rows: slice) -> Tensor:
        """True where a key may be seen, [batch|1, heads|1, rows, keys]."""
        allowed = (self.offset(rows) >= 0)[None, None]
        for mask in self.masks:
            allowed = allowed & mask(rows)
        return allowed

    def weights(self, logits: Tensor, rows: slice) -> Tensor:
        return self.normalise(logits, self.allowed(rows))

    def output(self, weights: Tensor, rows: slice) -> Tensor:
        weights = weights.to(self.v.dtype)  # a float32 bias has made them wider than a bfloat16 v
        out = weights @ self.v
        for value in self.values:
            out = out + value(weights, rows)
        return self._finished(out, rows)

    def _finished(self, out: Tensor, rows: slice) -> Tensor:
        return out if self.finish is None else self.finish(out, rows)

    # -- execution ---------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """`fused`, `fused by rows` or `dense`; read off the fields, never declared."""
        if self.content is not None or self.values or self.normalise is not softmax:
            return "dense"
        return "fused by rows" if self.terms or self.masks else "fused"

    def run(self, block: int) -> Tensor:
        if self.path == "dense":
            return dense(self, block)
        if self.path == "fused":
            return self._one_call()
        return by_rows(self._masked_call, self.num_queries, block)

    def _one_call(self) -> Tensor:
        # The scale is folded into q, so that appended bias channels are not scaled with it.
        q, k = self._scaled_q(slice(0, self.num_queries)), self.k
        if self.bias_q is not None and self.bias_k is not None:
            bias_q = self.bias_q * self.tau(slice(None)) if self.scales_bias else self.bias_q
            bias_q, bias_k = exact_channels(bias_q, self.bias_k, q.dtype)
            shape = (*q.shape[:-1], bias_q.shape[-1])
            q, k = (
                torch.cat((q, bias_q.expand(shape)), -1),
                torch.cat((k, bias_k.expand(shape)), -1),
            )
        # Kernels with linear memory need q, k and v to have one width: with unequal widths,
        # 16,384 tokens cost 10 GB.
        width = self.v.shape[-1]
        v = F.pad(self.v, (0, q.shape[-1] - width)) if q.shape[-1] > width else self.v
        if v.shape[-1] > q.shape[-1]:
            q, k = (F.pad(t, (0, v.shape[-1] - t.shape[-1])) for t in (q, k))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)[..., :width]
        return self._finished(out, slice(0, self.num_queries))

    def _scaled_q(self, rows: slice) -> Tensor:
        return (self.q[..., rows, :] * (self.scale * self.tau(rows))).to(self.q.dtype)

    def _masked_call(self, rows: slice) -> Tensor:
        tau, bias = self.tau(rows), self.bias(rows)
        q = self._scaled_q(rows)
        allowed = self.allowed(rows)
        if bias is None:
            mask = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~allowed, -torch.inf)
        else:
            mask = (
                (tau * bias if self.scales_bias else bias)
                .to(q.dtype)
                .masked_fill(~allowed, -torch.inf)
            )
        out = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask, scale=1.0)
        return self._finished(out, rows)


@dataclass(frozen=True)
class Heads:
    """Several plans side by side, on their own heads; widths, normalisers and paths may differ."""

    parts: Sequence[Plan]

    @property
    def num_queries(self) -> int:
        return self.parts[0].num_queries

    @property
    def path(self) -> str:
        return " + ".join(dict.fromkeys(part.path for part in self.parts))  # type: ignore[attr-defined]

    @property
    def num_heads(self) -> int:
        return sum(part.num_heads for part in self.parts)

    def _split(self, t: Tensor) -> Iterator[tuple[Plan, Tensor]]:
        return zip(self.parts, t.split([part.num_heads for part in self.parts], 1), strict=True)

    def logits(self, rows: slice) -> Tensor:
        return torch.cat([part.logits(rows) for part in self.parts], 1)

    def allowed(self, rows: slice) -> Tensor:
        each = [(part.num_heads, part.allowed(rows)) for part in self.parts]
        batch = max(allowed.shape[0] for _, allowed in each)
        return torch.cat([allowed.expand(batch, heads, -1, -1) for heads, allowed in each], 1)

    def weights(self, logits: Tensor, rows: slice) -> Tensor:
        return torch.cat([part.weights(z, rows) for part, z in self._split(logits)], 1)

    def output(self, weights: Tensor, rows: slice) -> Tensor:
        return torch.cat([part.output(w, rows) for part, w in self._split(weights)], 1)

    def run(self, block: int) -> Tensor:
        return torch.cat([part.run(block) for part in self.parts], 1)

    def each(self, change: Change, first: int = 0) -> Heads:
        parts = []
        for part in self.parts:
            parts.append(part.each(change, first))
            first += part.num_heads
        return replace(self, parts=tuple(parts))


@dataclass(frozen=True)
class Regions:
    """One call whose scores come from several position maps; `select` names the part for every key.

    The host encodes once per map. Logits are selected. Each part's value terms get the weights of
    its own region only, which is exact because they are linear in the weights.
    """

    select: Term  # rows -> integer [batch|1, heads|1, rows, keys]
    parts: Sequence[Attention]

    path = "dense"

    def __post_init__(self) -> None:
        if any(part.finish is not None for part in self.parts):
            raise ValueError(
                "a map of the finished output has no meaning where keys have several positions"
            )

    @property
    def num_queries(self) -> int:
        return self.parts[0].num_queries

    @property
    def num_heads(self) -> int:
        return self.parts[0].num_heads

    def logits(self, rows: slice) -> Tensor:
        region = self.select(rows)
        z = self.parts[0].logits(rows)
        for index, part in enumerate(self.parts[1:], start=1):
            z = torch.where(region == index, part.logits(rows), z)
        return z

    def allowed(self, rows: slice) -> Tensor:
        return self.parts[0].allowed(rows)

    def weights(self, logits: Tensor, rows: slice) -> Tensor:
        return self.parts[0].weights(logits, rows)

    def output(self, weights: Tensor, rows: slice) -> Tensor:
        region, weights = self.select(rows), weights.to(self.parts[0].v.dtype)
        out = weights @ self.parts[0].v
        for index, part in enumerate(self.parts):
            for value in part.values:
                out = out + value(weights * (region == index), rows)
        return out

    def run(self, block: int) -> Tensor:
        return dense(self, block)

    def each(self, change: Change, first: int = 0) -> Regions:
        return replace(self, parts=tuple(part.each(change, first) for part in self.parts))


def attend(plan: Plan, block: int | None = None) -> Tensor:
    """Execute a plan, `block` query rows at a time; returns [batch, heads, n, head_width]."""
    return plan.run(block or _block_rows(plan))


def attend_from(plan: Plan, start: int) -> Tensor:
    """`attend` for the queries from `start` on, [batch, heads, n - start, head_width]."""
    # When most queries are wanted, a fused kernel over all is faster than explicit weights.
    if 2 * start < plan.num_queries:
        return attend(plan)[..., start:, :]

    def outputs(rows: slice) -> Tensor:
        rows = slice(start + rows.start, start + rows.stop)
        return plan.output(plan.weights(plan.logits(rows), rows), rows)

    return by_rows(outputs, plan.num_queries - start, ROWS_AT_ONCE)


def dense(plan: Plan, block: int | None = None) -> Tensor:
    """The reference: explicit logits and weights, in blocks of query rows."""
    return by_rows(
        lambda r: plan.output(plan.weights(plan.logits(r), r), r),
        plan.num_queries,
        block or _block_rows(plan),
    )


def by_rows(compute: Callable[[slice], Tensor], n: int, size: int) -> Tensor:
    """Apply `compute` to blocks of `size` rows; join them along the dimension before the last."""
    rows = blocks(n, size)
    if torch.is_grad_enabled() or len(rows) == 1:
        return torch.cat([compute(part) for part in rows], -2)
    # A small result kept after every block would fragment the memory that the block has freed, and
    # the next block would allocate more: 3.5 GB instead of 0.5 at 16,384 tokens. Writing into one
    # tensor keeps none of them.
    first = compute(rows[0])
    out = first.new_empty(*first.shape[:-2], n, first.shape[-1])
    out[..., rows[0], :] = first
    for part in rows[1:]:
        out[..., part, :] = compute(part)
    return out


def blocks(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _block_rows(plan: Plan) -> int:
    leaf = plan
    while not isinstance(leaf, Attention):
        leaf = leaf.parts[0]  # type: ignore[attr-defined]
    batch, heads, n, _ = leaf.q.shape
    return max(1, min(n, BLOCK_ELEMENTS // (batch * heads * n)))


def exact_channels(bias_q: Tensor, bias_k: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Bias channels in the precision of q, without losing large integers.

    bfloat16 holds integers only up to 256, so each factor is split into a leading part
    and a remainder: (a + a')(b + b') = ab + ab' + a'b, where the dropped a'b' is at most
    2^-16 of the product.
    """
    if dtype.itemsize >= bias_q.dtype.itemsize or dtype.itemsize >= 4:
        return bias_q.to(dtype), bias_k.to(dtype)
    (a, a_rest), (b, b_rest) = (
        (t.to(dtype), (t - t.to(dtype).to(t.dtype)).to(dtype)) for t in (bias_q, bias_k)
    )
    return torch.cat((a, a, a_rest), -1), torch.cat((b, b_rest, b), -1)
