"""What the layers of a mounted model that are alike do to positions, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from posbench.extensions.direct import Direct
from posbench.pretrained.configured import Configured, Form

SAME = 1e-5
"""A share of a number up to which two are the same."""


@dataclass(frozen=True)
class LayerKind:
    """What layers that are alike do, at the longest length."""

    form: Form
    window: int | None
    length: int

    @property
    def frequencies(self) -> Any:
        """Those of the layer before its extension; None where nothing turns."""
        known = "frequencies" in self.form.encoding.handles
        return self.form.encoding.frequencies if known else None

    @property
    def magnitude(self) -> float:
        """The factor on cosine and sine that its extension sets."""
        after: Any = self.form.at(self.length).frequencies
        return float(after.magnitude / self.frequencies.magnitude)

    @property
    def pairs_changed(self) -> int:
        after: Any = self.form.at(self.length).frequencies
        return int(((self.frequencies.theta() / after.theta() - 1).abs() > SAME).sum())

    def turned_unlike(self, other: Configured) -> float:
        """The largest share by which a frequency differs from the one that another extension sets.

        Logits of far positions differ much whatever differs, and frequencies as much as they do.
        """
        ours: Any = self.form.at(self.length).frequencies
        theirs: Any = replace(self.form, own=other).at(self.length).frequencies
        return float((ours.theta() / theirs.theta() - 1).abs().max())

    @property
    def changes(self) -> bool:
        """Whether its extension changes anything at this length."""
        rotary = self.frequencies is not None
        return rotary and bool(self.pairs_changed or abs(self.magnitude - 1) > SAME)

    @property
    def name(self) -> str | None:
        """Its extension, by the file it is in; None without."""
        own = type(self.form.own.extension)
        return None if own is Direct else own.__module__.rpartition(".")[2]

    @property
    def rule(self) -> str:
        """Its extension with its numbers."""
        if self.name is None:
            return "none"
        numbers = numbers_of(self.form, self.length)
        shown = ", ".join(f"{name} {value:.6g}" for name, value in numbers.items())
        return f"{self.name}: {shown}"

    def cells(self) -> list[str]:
        seen = f", window {self.window}" if self.window else ""
        if self.frequencies is None:
            return [self.form.name + seen, "", "none", "nothing to change"]
        changed = f"{self.pairs_changed} of {self.frequencies.count} pairs"
        return [
            self.form.name + seen,
            f"{self.frequencies.base:,.6g}",
            self.rule,
            changed if self.changes else "nothing",
        ]


LEFT_OUT = ("scale", "mscale", "mscale_all_dim")
"""Settings that the factor, and that on cosine and sine, say already."""


def numbers_of(form: Form, length: int) -> dict[str, float]:
    """The numbers of a form's extension: the length it begins at, its factor, its settings."""
    own = form.own
    inner: Any = own.extension
    found = {
        "trained length": float(own.positions),
        "factor": inner.scale_at(own.positions, length),
    }
    for name, value in vars(inner).items():
        if name not in LEFT_OUT and isinstance(value, bool | int | float):
            found[name] = float(value)
    after: Any = form.at(length).frequencies
    return found | {"cosine and sine times": float(after.magnitude)}
