"""A position encoding around causal attention, for one layer of a model elsewhere."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, attend_from
from posbench.core.encoding import Draw, EncodingStack, PositionEncoding
from posbench.core.extension import Extension


@dataclass(frozen=True)
class Sizes:
    """What an encoding is made for. ConfigError names a size that is no count."""

    num_heads: int
    head_width: int
    trained: int  # positions of the longest training sequence
    longest: int | None = None  # of the tests; 8 times `trained`, if it is left out
    num_kv_heads: int | None = None  # of keys and values; any that divides num_heads, if left out
    model_width: int | None = None  # of x; num_heads * head_width, if it is left out

    def __post_init__(self) -> None:
        defaults = {
            "num_heads": None,
            "head_width": None,
            "trained": None,
            "longest": lambda: 8 * self.trained,
            "num_kv_heads": None,
            "model_width": lambda: self.num_heads * self.head_width,
        }
        for name, default in defaults.items():
            value = getattr(self, name)
            if value is None and default is not None:
                value = default()
            if value is not None or name != "num_kv_heads":
                object.__setattr__(self, name, count(name, value))
        assert self.longest is not None
        if self.longest < self.trained:
            raise ConfigError(
                f"longest={self.longest} is less than trained={self.trained}: give the positions "
                "of the longest test, or leave it out for 8 times those of training"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}: "
                "each head of keys serves as many heads of queries as every other"
            )


LARGEST = {"num_heads": 2**16, "num_kv_heads": 2**16, "head_width": 2**16, "model_width": 2**32}
"""More than any model has: by mistake, a number of tokens may come to mean one of these."""


def count(name: str, value: Any) -> int:
    """The whole number that a size is; ConfigError if it is none, less than 1 or absurdly large."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else 0
    except (TypeError, RuntimeError):
        number = 0
    if number < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
    if number > (most := LARGEST.get(name, 2**53)):
        raise ConfigError(f"{name} must be at most {most:,}, got {number:,}")
    return number


class Position(nn.Module):
    """Causal attention with a position encoding, for one layer.

    **Shapes.** Queries are [batch, heads, m, head width], keys and values [batch, key heads, n,
    head width]; positions come last but one. Code that has [batch, n, heads, head width] transposes
    first: `q.transpose(1, 2)`. Other shapes are refused; where n is the number of heads by
    accident, the two layouts look alike and nothing can be known. Where keys have fewer heads,
    their number divides that of queries, and each serves a run of neighbours, as in transformers.

    **With a cache** queries are the last m of the n tokens, and the result has their m rows. Keys
    are given as the layer projects them: the encoding rotates them itself, at every call. So cache
    keys before any rotation, and x as well where the encoding computes from it. `pos` and `x`
    always belong to all n tokens. The result is that of the whole sequence at once. A cache that
    drops keys is another sequence, whose first token is the first that is left.

    **Drawn positions.** Some encodings draw positions, in training or always. In training, and with
    a cache, draw them once with `draw`, and give them to `embed` and to every layer. Otherwise each
    call would draw for itself. In evaluation, without a cache, they are drawn from a fixed seed.

    **A class of yours** takes `Position(MyEncoding(), Sizes(4, 16, 128))`.

    Args:
        encoding: of the layer
        sizes: what it was made for
        tested: the positions that an extension was made for, None without one
        extensions: the names of those that were applied, in order
    """

    def __init__(
        self,
        encoding: PositionEncoding,
        sizes: Sizes,
        tested: int | None = None,
        extensions: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        if not isinstance(encoding, PositionEncoding):
            what = getattr(encoding, "__name__", type(encoding).__name__)
            raise ConfigError(
                f"encoding is {what}: give an object of a class of yours, as MyEncoding(), or take "
                "one of posbench, as posbench.rope(4, 16, 128)"
            )
        if not isinstance(sizes, Sizes):
            raise ConfigError(f"sizes is {sizes!r}: give Sizes(4, 16, 128)")
        self.encoding = encoding
        self.sizes = sizes
        self.tested = tested
        self.extensions = extensions
        self._standing_alone: object = None  # the weights of which it is known

    @property
    def trained(self) -> int:
        """Positions of the longest training sequence."""
        return self.sizes.trained

    @property
    def _name(self) -> str:
        return type(self.encoding).__name__

    def with_extension(self, extension: Extension, tested: int, name: str = "") -> Self:
        """The same weights for sequences of `tested` positions, under an extension.

        `posbench.yarn().extend(position, tested)` does this with one that has a YAML.

        Args:
            extension: made for these trained and tested positions, if it asks for them
            tested: positions of the longest sequence to come
            name: of the extension in messages; by default that of its class

        Raises:
            IllegalExtension: if the encoding lacks what the extension changes
            ConfigError: if `extension` is none, `tested` is no count, the position is extended
                already for other lengths or by the same, or the extension trains anew
        """
        if not isinstance(extension, Extension):
            raise ConfigError(
                f"with_extension takes an Extension, got a {type(extension).__name__}: give an "
                "object of a class of posbench.extension, as MyExtension()"
            )
        tested, name = count("tested", tested), name or type(extension).__name__
        if self.tested not in (None, tested):
            raise ConfigError(
                f"the position is extended for tested={self.tested} already, and not for "
                f"{tested}: extend the trained one"
            )
        if name in self.extensions:
            raise ConfigError(
                f"{name} has been applied to the position already, and would change it twice: "
                "extend the trained one"
            )
        if extension.retrained:
            raise ConfigError(
                f"{name} trains a new model for each test length and extends none: make the "
                f"encoding with trained={tested}"
            )
        stack = EncodingStack([self.encoding])
        spans = stack.span(self.trained, training=True), stack.span(tested)
        [encoding] = extension.extend(stack, *spans)
        extensions = (*self.extensions, name)
        return type(self)(encoding, self.sizes, tested, extensions).train(self.training)

    def draw(
        self,
        n: int,
        generator: torch.Generator | None = None,
        batch: int = 1,
        ids: Tensor | None = None,
    ) -> Tensor:
        """The positions of n tokens, [1|batch, n]: 0 to n - 1 unless the encoding has others.

        Args:
            n: number of tokens
            generator: what positions are drawn with. Without it torch's own in training, and one
                of seed 0 in evaluation
            batch: number of sequences, where each draws for itself
            ids: [1|batch, n], what a task says of its tokens, for encodings that ask for it

        Raises:
            ConfigError: if the encoding asks for ids, or has no room for n positions
        """
        n, batch = count("n", n), count("batch", batch)
        if not isinstance(generator, torch.Generator | None):
            raise ConfigError(
                f"generator is a torch.Generator or None, got {generator!r}: for several "
                "sequences give batch=..."
            )
        if ids is None and self.encoding.ids != "index":
            raise ConfigError(
                f"{self._name} takes ids of the kind {self.encoding.ids!r} that a task supplies, "
                "and none follow from a length: give position.draw(n, ids=...), and its result "
                "as pos"
            )
        if ids is not None:
            self._check_pos(ids, "ids", n, batch)
        if generator is None:
            generator = (
                torch.default_generator if self.training else torch.Generator().manual_seed(0)
            )
        given = torch.arange(n)[None] if ids is None else ids.cpu()
        self._check_limits(given)
        pos = self.encoding.positions(given, Draw(batch, generator, self.training))
        self._check_limits(pos, drawn=True)
        return pos

    def embed(self, x: Tensor, pos: Tensor | None = None) -> Tensor:
        """Token embeddings with what the encoding adds to them, before the first layer.

        Args:
            x: [batch, m, model width], embeddings of all tokens, or with `pos` of the last m
            pos: [1|batch, n], positions of all n tokens. Without it x must be the whole sequence:
                that x is a part of one cannot be seen

        Returns:
            [batch, m, model width]

        Raises:
            ConfigError: if a shape does not fit
        """
        self._check_x(x)
        batch, m, width = x.shape
        n = pos.shape[1] if isinstance(pos, Tensor) and pos.ndim == 2 else m
        if n < m:
            raise ConfigError(
                f"pos has {n} positions and x {m} tokens: give the positions of all tokens"
            )
        pos = self._given(pos, n, m, batch, x.device)
        if n == m:
            return self.encoding.embed(x, pos)
        # An encoding may count from the first token: those before are there, as zeros.
        whole = torch.cat((x.new_zeros(batch, n - m, width), x), 1)
        return self.encoding.embed(whole, pos)[:, n - m :]

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, x: Tensor | None = None, pos: Tensor | None = None
    ) -> Tensor:
        """Causal attention of m queries to n keys, m <= n, the last query being that of the last.

        Args:
            q: [batch, heads, m, head width]
            k: [batch, key heads, n, head width], as projected, not rotated
            v: [batch, key heads, n, head width]
            x: [batch, n, model width], the normalised input of the layer, all n tokens of it. Only
                encodings that compute from it read it, in no finer precision than their parameters
            pos: [1|batch, n], positions of all n tokens; those of `draw`, if they are left out

        Returns:
            [batch, heads, m, head width]

        Raises:
            ConfigError: if shapes, types or devices do not fit; if an input that the encoding reads
                is missing; or if the encoding needs queries that a cache does not keep
        """
        self._check_heads(q, k, v)
        batch, heads, m, width = q.shape
        n = k.shape[2]
        pos = self._given(pos, n, m, batch, q.device)
        x = self._input(x, q, n)
        k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))

        def attended(before: Tensor) -> Tensor:
            """With these as the queries of the tokens before, of which no row is asked."""
            whole = torch.cat((before, q), 2)
            call = Attention(whole, k, v, x, pos, pos, scale=width**-0.5)
            return attend_from(self.encoding.encode(call), n - m)

        if m == n:
            return attend(self.encoding.encode(Attention(q, k, v, x, pos, pos, width**-0.5)))
        out = attended(q.new_zeros(batch, heads, n - m, width))
        weights = [(each.data_ptr(), each._version) for each in self.state_dict().values()]
        if self._standing_alone != weights:  # nor is it known of weights that have changed
            with torch.no_grad():
                # Large ones: of what a row reads, small weights leave little.
                other = attended(-64 * k[:, :, : n - m].flip(-1))
            near = min(torch.finfo(out.dtype).eps ** 0.5, 2**-6)  # rounding makes less
            most = near * float(out.detach().abs().nan_to_num(0).max())
            if not torch.allclose(out, other, rtol=near, atol=most, equal_nan=True):
                raise ConfigError(
                    f"{self._name} computes a row from the queries before it, and a cache does not "
                    f"keep them: give all {n} queries"
                )
            self._standing_alone = weights
        return out

    # -- what is refused ---------------------------------------------------------------------------

    def _check_heads(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        sizes = self.sizes
        for name, t in (("q", q), ("k", k), ("v", v)):
            if not isinstance(t, Tensor):
                raise ConfigError(f"{name} must be a tensor {LAYOUT}, got a {type(t).__name__}")
            if t.ndim != 4:
                raise ConfigError(f"{name} must be {LAYOUT}, got the shape {tuple(t.shape)}")
            if not t.is_floating_point() or t.layout != torch.strided:
                raise ConfigError(
                    f"{name} must hold floating-point numbers, all of them, got {t.dtype} "
                    f"({t.layout})"
                )
            of_keys = sizes.num_kv_heads if name != "q" else sizes.num_heads
            fits = t.shape[1] == of_keys
            if of_keys is None:
                fits = 0 < t.shape[1] <= sizes.num_heads and sizes.num_heads % t.shape[1] == 0
            if not fits:
                raise ConfigError(self._wrong_heads(name, t, of_keys))
            if t.shape[3] != sizes.head_width:
                raise ConfigError(
                    f"{name} has heads of width {t.shape[3]}, and {self._name} was made for "
                    f"head_width={sizes.head_width}: give {LAYOUT}, or make it for that width"
                )
            if 0 in t.shape:
                raise ConfigError(
                    f"{name} is empty, {tuple(t.shape)}: give one sequence and one token at least"
                )
            for what in ("dtype", "device"):
                if getattr(t, what) != getattr(q, what):
                    raise ConfigError(
                        f"q has the {what} {getattr(q, what)} and {name} {getattr(t, what)}: bring "
                        f"all to one, as with {name}.to(q.{what})"
                    )
            if t.shape[0] != q.shape[0]:
                raise ConfigError(
                    f"q has {q.shape[0]} sequences and {name} {t.shape[0]}: give a batch of one "
                    "size"
                )
        if k.shape != v.shape:
            raise ConfigError(
                f"k is {tuple(k.shape)} and v {tuple(v.shape)}: every key needs one value"
            )
        if q.shape[2] > k.shape[2]:
            raise ConfigError(
                f"q has {q.shape[2]} tokens and k {k.shape[2]}: give the keys of all tokens, "
                "those of a cache before the new, as with torch.cat((cached, k), 2)"
            )
        held = next(self.parameters(), None)
        if held is not None and held.device != q.device:
            raise ConfigError(
                f"the parameters of {self._name} are on {held.device} and q is on {q.device}: "
                "bring them together, as with position.to(q.device)"
            )
        if held is not None and held.dtype.itemsize < q.dtype.itemsize:
            raise ConfigError(
                f"the parameters of {self._name} have the dtype {held.dtype} and q {q.dtype}, "
                "which is finer: bring them together, as with position.to(q.dtype)"
            )

    def _wrong_heads(self, name: str, t: Tensor, expected: int | None) -> str:
        wanted = f"{expected}" if expected else f"a number that divides {self.sizes.num_heads}"
        found = f"{name} of shape {tuple(t.shape)} has {t.shape[1]} heads where {wanted} "
        alike = t.shape[2] == expected if expected else self.sizes.num_heads % t.shape[2] == 0
        if alike and t.shape[3] == self.sizes.head_width:
            return (
                f"{found}was expected, and looks like [batch, n, heads, head width]: heads come "
                f"first here, {LAYOUT}, so give {name}.transpose(1, 2)"
            )
        return f"{found}was expected: give {LAYOUT}, or make {self._name} for as many heads"

    def _check_x(self, x: Any) -> None:
        if not (isinstance(x, Tensor) and x.ndim == 3 and x.is_floating_point()):
            found = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ConfigError(
                f"x must be floating-point numbers [batch, n, model width], got {found}; positions "
                "are given as pos=..."
            )
        if x.shape[2] != self.sizes.model_width:
            raise ConfigError(
                f"x has width {x.shape[2]} and {self._name} was made for {self.sizes.model_width}: "
                f"give model_width={x.shape[2]} when it is made"
            )
        if 0 in x.shape:
            raise ConfigError(f"x is empty, {tuple(x.shape)}: give one token at least")

    def _input(self, x: Tensor | None, q: Tensor, n: int) -> Tensor:
        """x, or where it is missing or short, what says so if the encoding reads it."""
        computes = f"{self._name} computes from x, the normalised input of the layer"
        if x is None:
            return absent(f"{computes}: give it as position(q, k, v, x), [batch, n, model width]")
        self._check_x(x)
        m = q.shape[2]
        if x.shape[0] != q.shape[0] or x.shape[1] not in (m, n):
            raise ConfigError(
                f"x of shape {tuple(x.shape)} does not fit {q.shape[0]} sequences of {n} tokens: "
                "give [batch, n, model width], of the same tokens as k"
            )
        if x.device != q.device:
            raise ConfigError(f"q is on {q.device} and x on {x.device}: give x.to(q.device)")
        if x.shape[1] < n:
            return absent(
                f"{computes}, of all {n} tokens, and x has {m}: cache x as k and v are cached, and "
                "give all of it"
            )
        held = next(self.parameters(), None)
        if held is not None and held.dtype.itemsize < x.dtype.itemsize:
            return x.to(held.dtype)
        return x

    def _given(self, pos: Any, n: int, m: int, batch: int, device: torch.device) -> Tensor:
        """The positions of n tokens, the last m of which are asked for."""
        if pos is not None:
            self._check_pos(pos, "pos", n, batch, m)
            self._check_limits(pos, drawn=True)
            return pos.to(device)
        generator = torch.Generator().manual_seed(0)
        before = generator.get_state()
        pos = self.draw(n, generator)
        drawn = not torch.equal(before, generator.get_state())
        if drawn and (self.training or m < n):
            remedy = (
                "once a batch, pos = position.draw(n), and give pos to embed and to every layer; "
                "outside training, call position.eval()"
                if self.training
                else "once, pos = position.draw(tokens in the end), and give "
                "pos=pos[:, :tokens so far] to embed and to every layer"
            )
            raise ConfigError(
                f"{self._name} draws positions, and each call would draw for itself: draw them "
                + remedy
            )
        return pos.to(device)

    def _check_pos(self, pos: Any, name: str, n: int, batch: int, m: int | None = None) -> None:
        wanted = f"[1 or {batch}, {n}]"
        if not isinstance(pos, Tensor):
            raise ConfigError(f"{name} must be a tensor {wanted}, got a {type(pos).__name__}")
        if pos.dtype == torch.bool or pos.is_complex() or pos.is_meta:
            raise ConfigError(f"{name} must hold numbers, got {pos.dtype} on {pos.device}")
        if pos.ndim == 2 and pos.shape[1] == m and m != n:
            raise ConfigError(
                f"{name} has the positions of {m} queries, and those of all {n} keys are needed: "
                f"give {wanted}"
            )
        if pos.ndim != 2 or pos.shape[0] not in (1, batch) or pos.shape[1] != n:
            raise ConfigError(f"{name} must be {wanted}, got the shape {tuple(pos.shape)}")
        if pos.is_floating_point():
            if not self.encoding.float_positions:
                raise ConfigError(
                    f"{self._name} has a row for each whole position: give {name} as integers, "
                    f"got {pos.dtype}"
                )
            if not bool(pos.isfinite().all()):
                raise ConfigError(f"{name} holds NaN or infinity: give finite positions")

    def _check_limits(self, pos: Tensor, drawn: bool = False) -> None:
        """ConfigError if the encoding, or its extension, was not made for these positions.

        Args:
            pos: ids of tokens, or what was drawn of them
            drawn: which of the two
        """
        most = self.encoding.max_positions
        if most is not None and not 0 <= int(pos.min()) <= int(pos.max()) < most:
            raise ConfigError(
                f"positions from {pos.min().item():g} to {pos.max().item():g} do not fit the "
                f"{most} that {self._name} has, from 0 on: make it with a larger longest=..."
            )
        if self.tested is None:
            return
        last = pos.max().item()
        end = self.encoding.span(self.tested, self.training) if drawn else self.tested
        if last >= max(end, self.tested):
            raise ConfigError(
                f"position {last:g} lies beyond tested={self.tested}, the positions that it was "
                "extended for: extend the trained position for as many as the sequence will have"
            )


LAYOUT = "[batch, heads, n, head width]"


class Absent(Tensor):
    """Stands for an input that is missing: whatever reads it raises ConfigError, which says so."""

    why: str

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        inputs = [*args, *(kwargs or {}).values()]
        whys = [each.why for each in inputs if isinstance(each, Absent)]
        raise ConfigError(whys[0] if whys else "the encoding computes from x: give it")


def absent(why: str) -> Tensor:
    found = torch.empty(0).as_subclass(Absent)
    found.why = why
    return found
