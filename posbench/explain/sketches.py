"""`python -m posbench.explain.sketches`: what a page without torch shows of each row.

    python -m posbench.explain.sketches           draws rows that are new or whose code has changed
    python -m posbench.explain.sketches rope      draws these rows again
    python -m posbench.explain.sketches --check   draws nothing; fails if there are such rows

Rows are all methods and those pairs of the main board that are none.
The file beside this module has a line a row: its picture in the catalogue at a lower resolution,
what is measured on it there, and the hash of what it was drawn from. The leaderboard reads it, and
so needs no torch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posbench.base.content_hash import content_hash
from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted, listed
from posbench.config import board as definition
from posbench.config import command_lines, mistakes
from posbench.config.board_rows import recorded
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.methods import AS_TRAINED, methods
from posbench.config.modules import reading_once
from posbench.config.options import options
from posbench.config.provenance import known_hash, targets
from posbench.core.attention import Attention, Heads
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.explain.probe import HEADS, MAP, SIZES, WIDTH, Probe

COMMAND = "python -m posbench.explain.sketches"
FILE = "sketches.jsonl"
POINTS = 40
"""Distances in a curve."""
CELLS = 16
"""Queries, and keys, in a map; each is a square of tokens."""
LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
UNIFORM = 4.0
"""The attention, in multiples of the uniform one, from which on a map is darkest."""
KEYS = (24, 32)
"""Two lengths, as multiples of an eighth of the training length, at which keys are compared."""
NEAR = 1e-9
SAME = 0.01
"""A share of the range of a curve that is no difference."""
SHOWN = 3
"""Names of rows that look the same."""


def rows() -> dict[str, tuple[str, ...]]:
    """The words that choose each row, by its name in records."""
    found: dict[str, tuple[str, ...]] = {name: (f"method={name}",) for name in options("method")}
    known = {(row.encoding, row.extension) for row in methods().values() if not row.model}
    for part in definition.load("main").parts.values():
        for encoding, extension in itertools.product(part.encodings, part.extensions):
            if (encoding, extension) not in known:
                name = encoding if extension == AS_TRAINED else f"{encoding}+{recorded(extension)}"
                found[name] = (f"encoding={encoding}", f"extension={extension}")
    return found


@torch.no_grad()
def sketch(name: str, words: Sequence[str] = ()) -> dict[str, Any]:
    """The line of a row, by default of the method of that name.

    `quantity` of the curves, one a head or one for all that are the same; `distances` of their
    points; `map` of attention, row by row below the diagonal, on a scale of `LEVELS`; `trained`
    positions; `path` on which attention is computed; and `keys`: whether those of a token stay
    what they are while others follow. "yes", "at one scale" if they change where the extension
    is set to another length, "no", or "no keys" where a score is not a product with a key.
    """
    probe = Probe(*words or [f"method={name}"])
    curves = probe.curves
    if np.allclose(curves, curves[:1], equal_nan=True):
        curves = curves[:1]
    chosen = np.unique(np.linspace(0, curves.shape[1] - 1, POINTS).round().astype(int))
    return {
        "method": name,
        "quantity": probe.quantity,
        "trained": probe.run.train_positions,
        "distances": chosen.tolist(),
        "curves": [[_short(value) for value in curve[chosen]] for curve in curves],
        "map": _map(probe.weights),
        "path": probe.path,
        "keys": _keys(probe),
    }


RISES = "rises with the distance"


def told(mine: Mapping[str, Any]) -> Iterator[str]:
    """What a sketch shows, in sentences: how scores change with the distance, and which rows have
    the same picture. A wrong sign is seen here, and a method that does nothing.
    """
    trends = [trend(mine, curve) for curve in mine["curves"]]
    how, heads = Counter(trends).most_common(1)[0]
    head = trends.index(how)  # whose numbers are shown
    trained = [at for at, distance in enumerate(mine["distances"]) if distance < mine["trained"]]
    places = dict.fromkeys((*trained[:2], trained[len(trained) // 4], trained[-1]))
    shown = mine["curves"][head]
    values = [f"{_value(shown[at])} at {mine['distances'][at]}" for at in places]
    where = "" if heads == len(trends) else f" in {heads} of {len(trends)} heads"
    doubt = "; if far keys should count less, turn the sign" if RISES in trends else ""
    yield (
        f"untrained and between equal tokens, the {mine['quantity']} {how}{where}: "
        f"{listed(values)} (head {head + 1}){doubt}"
    )
    if names := alike(mine):
        more = [counted(len(names) - SHOWN, "other row")] if len(names) > SHOWN else []
        yield (
            f"{listed([*names[:SHOWN], *more])} {agreeing(len(names), 'has', 'have')} the same "
            "picture: if yours should differ, see whether it does anything before training"
        )


def trend(mine: Mapping[str, Any], curve: Sequence[float | None]) -> str:
    """How a curve goes within the trained distances, from the token before on: that a token sees
    itself otherwise than all others says nothing of distance.
    """
    near = [0 < distance < mine["trained"] for distance in mine["distances"]]
    values = np.array([value for value, kept in zip(curve, near, strict=True) if kept], float)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return "is seen at one distance alone" if len(values) else "is seen at no other distance"
    steps, little = np.diff(values), SAME * np.ptp(values)
    up, down = bool((steps > little).any()), bool((steps < -little).any())
    if up and down:
        return "rises and falls with the distance"
    if up:
        return RISES
    return "falls with the distance" if down else "is the same at every distance"


def alike(mine: Mapping[str, Any]) -> list[str]:
    """The rows of the file with the same picture, those with the shortest names first."""
    found = []
    for line in map(json.loads, _file().read_text(encoding="utf-8").splitlines()):
        same = all(line[name] == mine[name] for name in ("quantity", "distances", "map"))
        if same and line["method"] != mine["method"] and _alike(line["curves"], mine["curves"]):
            found.append(str(line["method"]))
    return sorted(found, key=lambda name: (len(name), name))


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Curves that are the same but for a share of their range; one head may be that of all."""
    a, b = np.broadcast_arrays(np.array(one, float), np.array(other, float))
    return bool(
        np.allclose(a, b, rtol=0, atol=SAME * max(np.ptp(b[np.isfinite(b)]), NEAR), equal_nan=True)
    )


def _value(value: float | None) -> str:
    return "unseen" if value is None else f"{value:.3g}"


def code(words: Sequence[str]) -> str:
    """The hash of what a row is drawn from: its settings, and the source of its classes."""
    content = compose(*words, *SIZES).content
    chosen = [content[group] for group in ("encoding", "extension", "model")]
    source = known_hash("posbench.explain.probe.measured", frozenset(targets(chosen)))
    return content_hash([chosen, source])


def _short(value: float) -> float | None:
    """Three digits; none where nothing is seen, so that the same picture is the same text."""
    return float(f"{value:.3g}") + 0.0 if np.isfinite(value) else None


def _map(weights: np.ndarray) -> str:
    """The lower triangle of a map in units of uniform attention, a letter a square."""
    side = MAP // CELLS
    squares = weights.reshape(CELLS, side, CELLS, side)
    seen = np.tril(np.ones((MAP, MAP))).reshape(squares.shape)
    means = (squares * seen).sum((1, 3)) / np.maximum(seen.sum((1, 3)), 1)
    # A method may give what is no number; its runs say so.
    places = np.nan_to_num(np.clip(np.sqrt(means / UNIFORM), 0, 1)) * (len(LEVELS) - 1)
    return "".join(LEVELS[round(place)] for place in places[np.tril_indices(CELLS)])


def _keys(probe: Probe) -> str:
    stack = probe.stack
    short, long = (multiple * probe.trained // 8 for multiple in KEYS)
    if (limit := stack.max_positions) is not None:
        long = min(long, limit)
        short = min(short, long - 1)
    first = list(_encoded(stack, short, short))
    if any(keys is None for keys in first):
        return "no keys"
    if not _same(first, _encoded(stack, long, short)):
        return "no"
    scales = [_encoded(probe.at(length), short, short) for length in (short, long)]
    return "yes" if _same(*scales) else "at one scale"


def _encoded(stack: EncodingStack, length: int, counted: int) -> Iterator[torch.Tensor | None]:
    """The first keys of every layer; a bias is added to their products, and is none of them."""
    for index in stack.firsts:
        layer: PositionEncoding = stack.layers[index]  # type: ignore[assignment]
        plan = layer.encode(_unlike_tokens(length))
        for part in plan.parts if isinstance(plan, Heads) else [plan]:
            if not isinstance(part, Attention) or part.content is not None:
                yield None
                continue
            yield part.k[..., :counted, :]


def _unlike_tokens(n: int) -> Attention:
    """A call on tokens that differ, of which the first are the same whatever the length."""

    def drawn(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        rows = [torch.randn(HEADS * WIDTH, generator=generator) for _ in range(n)]
        return torch.stack(rows)[None].double()

    q, k, v = (drawn(seed).view(1, n, HEADS, WIDTH).transpose(1, 2) for seed in (1, 2, 3))
    pos, segments = torch.arange(n)[None], torch.zeros(1, n, dtype=torch.long)
    return Attention(q, k, v, drawn(0), pos, pos, scale=WIDTH**-0.5, segments=segments)


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a.shape == b.shape and bool(((a - b).abs() <= NEAR).all()) for a, b in pairs)


def text(lines: Sequence[dict[str, Any]]) -> str:
    """The file of these lines."""
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser(COMMAND, __doc__.split("\n\n")[0], check=True)
    parser.add_argument("rows", nargs="*", help="default: those that are new or have changed")
    chosen = parser.parse_args(arguments)
    return exit_status(lambda: _written(chosen))


def _file() -> Path:
    return Path(str(files("posbench.explain"))) / FILE


def _written(chosen: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    path = _file()
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    known = {line["method"]: line for line in map(json.loads, lines)}
    with composing(), reading_once():
        every = rows()
        for name in chosen.rows:
            mistakes.check_choice("row", name, list(every))
        codes = {name: code(words) for name, words in every.items()}
        stale = [name for name in every if known.get(name, {}).get("code") != codes[name]]
        if chosen.check:
            if wrong := [*stale, *sorted(known.keys() - every.keys())]:
                raise PosbenchError(f"{FILE} is not of today for {listed(wrong)}: run `{COMMAND}`")
            print(f"{FILE}: up to date.")
            return 0
        for name in chosen.rows or stale:
            known[name] = sketch(name, every[name]) | {"code": codes[name]}
    content = text([known[name] for name in sorted(known.keys() & every.keys())])
    write_whole(path, content.encode())
    print(f"Written: {counted(len(chosen.rows or stale), 'row')} in {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
