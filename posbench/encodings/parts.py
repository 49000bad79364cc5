"""Changing the calls inside a plan, whatever a host has made of them: one call, several heads, several regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from posbench.attention import Attention, Heads, Plan, Regions

Change = Callable[[Attention, slice], Attention]
"""(call, its heads among all heads) -> call"""


def each(plan: Plan, change: Change, first: int = 0) -> Plan:
    """`change` applied to every call of the plan. The parts of `Heads` are counted on from head `first`."""
    if isinstance(plan, Attention):
        return change(plan, slice(first, first + plan.num_heads))
    if isinstance(plan, Heads):
        parts: list[Plan] = []
        for part in plan.parts:
            parts.append(each(part, change, first))
            first += part.num_heads
        return replace(plan, parts=tuple(parts))
    if isinstance(plan, Regions):
        heads = slice(first, first + plan.num_heads)
        return replace(plan, parts=tuple(change(part, heads) for part in plan.parts))
    raise TypeError(f"a plan is an Attention, Heads or Regions, got {type(plan).__name__}")
