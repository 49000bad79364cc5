"""`posbench explain catalogue`: one page with every method's formula, picture and declarations.

    posbench explain catalogue                  all methods, in results/local/catalogue
    posbench explain catalogue --output FOLDER  all methods, elsewhere
    posbench explain catalogue alibi fire       some of them
    posbench explain catalogue extension=yarn   an extension, on the method's encoding
    posbench explain catalogue --config-dir mine encoding=decay alibi  beside one of your own

Everything on it is read off the classes and measured on untrained models; nothing is written by
hand.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from posbench.base.disk import make_writable, write_whole
from posbench.base.errors import ConfigError
from posbench.base.wording import counted
from posbench.config import command_lines, constructors, flat, mistakes
from posbench.config.building import class_of_run
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.folders import OF_A_ROW
from posbench.config.identity import identify
from posbench.config.legality import method_class, refusal
from posbench.config.options import options
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.extension import Extension, ExtensionWrapper
from posbench.explain.probe import MAP, STRETCH, Probe
from posbench.running.setup import Setup
from posbench.showing.figures import COLOURS, STYLE, in_colours_of_page, svg_text
from posbench.showing.pages import Block, Chapter, Description, Page, Picture, Terms, described
from posbench.showing.table import Column, Line, Markdown, Table

# -- the picture of a row: tokens are all alike, so that only position matters ---------------------


def draw(probe: Probe) -> str:
    """The curves, the map of the same and the map of attention side by side, as SVG text."""
    hidden = np.triu(np.ones((MAP, MAP), bool), 1)
    scores, weights = (np.where(hidden, np.nan, each) for each in (probe.map, probe.weights))
    with style.context(["default", STYLE | {"font.size": 9}]):
        figure = Figure(figsize=(9.2, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.9, 1, 1))
        _curves(left, probe)
        _map(figure, middle, scores, f"{probe.quantity}, head 1", "RdBu_r")
        _map(figure, right, weights, "attention / uniform, head 1", "viridis")
        return svg_text(figure)


def _curves(axes: Axes, probe: Probe) -> None:
    same = np.allclose(probe.curves, probe.curves[:1], equal_nan=True)
    for head, values in enumerate(probe.curves[: 1 if same else None]):
        label = "all heads" if same else f"head {head + 1}"
        axes.plot(values, linewidth=1.6, color=COLOURS[head % len(COLOURS)], label=label)
    end = probe.run.train_positions - 1
    axes.axvline(end, color="0.6", linewidth=0.8, linestyle=":")
    above = axes.get_xaxis_transform()
    axes.text(end, 1.01, "training ends", fontsize=8, color="0.4", transform=above)
    axes.set_xlabel("distance, tokens")
    axes.set_ylabel(probe.quantity)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _map(figure: Figure, axes: Axes, values: np.ndarray, title: str, colours: str) -> None:
    low, high = np.nanquantile(values, (0.005, 0.995))
    if high - low < 1e-9:  # constant: show the middle of the scale, not rounding noise
        low, high = low - 1, high + 1
    picture = axes.imshow(values, cmap=colours, norm=Normalize(low, high), interpolation="none")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    figure.colorbar(picture, ax=axes, shrink=0.85)


# -- what is shown of a row -----------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One row of the catalogue."""

    method: str
    settings: str
    descriptions: tuple[Description, ...]
    properties: dict[str, str]
    picture: str  # SVG

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for each in self.descriptions for source in each.sources))


def describe(cls: type) -> Description:
    """A class's docstring as HTML."""
    return described(cls.__name__, inspect.cleandoc(cls.__doc__ or ""))


def parts_of(encoding: PositionEncoding) -> Iterator[PositionEncoding]:
    """The encoding, and the hosts inside it."""
    yield encoding
    if isinstance(encoding, Wrapper):
        yield from parts_of(encoding.host)


def applied(extension: Extension) -> Iterator[Extension]:
    """An extension and those inside it, except any that neither changes nor trains anything.

    For a sequence these are only its parts.
    """
    parts = getattr(extension, "parts", None)
    if isinstance(parts, tuple):
        inside = parts
    else:
        inside = (extension.extension,) if isinstance(extension, ExtensionWrapper) else ()
        if extension.changes or extension.trains:
            yield extension
    for part in inside:
        yield from applied(part)


def words_of(name: str) -> str:
    """A choice as the command line has it: a name alone is that of a method."""
    return name if "=" in name else f"method={name}"


def entry(name: str) -> Entry:
    """The row of a method, or of an encoding or extension, "encoding=decay"."""
    word = words_of(name)
    probe = Probe(word)
    base, extension = probe.base, probe.run.extension
    distinct = [layer for index in base.firsts for layer in parts_of(base.layers[index])]  # type: ignore[arg-type]
    # Describe the encoding as it was trained, and the extension. The wrappers that an extension
    # makes are part of the extension, and get no description.
    classes = [type(part) for part in (*distinct, *applied(extension))]
    return Entry(
        identify(compose(word)).method.label,
        _settings(probe.run),
        tuple(describe(cls) for cls in dict.fromkeys(classes)),
        properties(probe),
        draw(probe),
    )


def _settings(run: Setup) -> str:
    """The method's settings, as they are for the training length of its picture, without the sizes
    of the model, which are not its own; also what the YAML of the user's classes leaves out.
    """
    found = []
    for group in ("encoding", "extension"):
        written = flat.settings(OmegaConf.to_container(run.composed[group], resolve=False))
        for (place, source), (_, value) in zip(
            written, flat.settings(run.nodes[group]), strict=True
        ):
            if "${model." not in str(source):
                found.append(f"{place}={value}")
        found += [
            f"{each.place}={each.value} (its YAML does not name it)"
            for each in constructors.unnamed(run.nodes[group], class_of_run)
        ]
    return ", ".join(found)


def properties(probe: Probe) -> dict[str, str]:
    """The declarations, and what can be read off the plan."""
    stack, extension = probe.base, probe.run.extension
    layers: list[PositionEncoding] = [stack.layers[index] for index in stack.firsts]  # type: ignore[misc]
    limit = stack.max_positions
    allowed = [name for name, each in probe.subject.extensions() if not refusal(each, stack)]
    parameters = sum(p.numel() for p in stack.parameters())
    return {
        "class": method_class(extension, stack),
        "scale": extension.scale_policy,
        "path": probe.path,
        "relative": "yes" if all(layer.relative for layer in layers) else "no",
        "fractional positions": "yes" if all(layer.float_positions for layer in layers) else "no",
        "positions": "no limit" if limit is None else f"{limit}",
        "ids asked of the task": stack.ids,
        "parameters": f"{parameters:,}" if parameters else "none",
        "tied over layers": ", ".join(sorted({name for layer in layers for name in layer.shared}))
        or "nothing",
        "handles": ", ".join(sorted(stack.handles)),
        "extensions": ", ".join(allowed),
    }


def _of_folders(own: Sequence[Path]) -> list[str]:
    """The encodings and extensions of the user, which no method need name."""
    return [
        f"{group}={path.stem}"
        for folder in own
        for group in ("encoding", "extension")
        for path in sorted((folder / group).glob("*.yaml"))
    ]


def _entries(names: Sequence[str]) -> Iterator[Entry]:
    """The entries, with a line of progress for every ten."""
    started = time.monotonic()
    for count, name in enumerate(names, 1):
        yield entry(name)
        if count % 10 == 0 and count < len(names):
            left = (time.monotonic() - started) / count * (len(names) - count)
            print(f"  {count} of {len(names)}, {left:.0f} s left", flush=True)


# -- writing ---------------------------------------------------------------------------------------


def page(entries: list[Entry]) -> str:
    index = ("path", "relative", "parameters", "class")
    lines = []
    for each in entries:
        sources = Markdown(" ".join(map(_arxiv, each.sources)))
        linked = Markdown(f"[{each.method}](#{_part(each).anchor})")
        lines.append(Line(linked, [*(each.properties[name] for name in index), sources]))
    columns = [Column(name, text=True) for name in ("method", *index, "source")]
    return Page(
        "Catalogue",
        [Chapter("", [Table(columns, lines)]), *map(_part, entries)],
        [Markdown("Written by `posbench explain catalogue`.")],
        lead=[READING],
        style=STYLE_OF_PAGE,
    ).html()


READING = (
    "Every method: its formula and source, what it declares, and a picture of one untrained layer. "
    "All queries are equal, and so are all keys, so only position matters. The curves show the "
    "score of a key at each distance from the last query. For encodings that are added to the "
    "embeddings they show the product of two encodings. The maps show the score of all pairs, and "
    f"the attention that follows. An extension is shown at {STRETCH} times the training length."
)
STYLE_OF_PAGE = """
section { border-top: 1px solid var(--line); padding-top: .4rem; margin-top: 2.2rem; }
figure svg { min-width: 44rem; max-width: 66rem; }
"""


def _part(entry: Entry) -> Chapter:
    pictured: list[Block] = [Picture(in_colours_of_page(entry.picture)), Terms(entry.properties)]
    return Chapter(entry.method, [entry.settings or "no settings", *entry.descriptions, *pictured])


def _arxiv(source: str) -> str:
    return f"[{source}](https://arxiv.org/abs/{source})"


def main(arguments: list[str] | None = None) -> int:
    says = __doc__.split("\n\n")[0]
    parser = command_lines.parser("posbench explain catalogue", says, config_dir=True)
    parser.add_argument(
        "methods",
        nargs="*",
        metavar="METHOD",
        help="or encoding=NAME, extension=NAME; default: all methods, and all of --config-dir",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/local/catalogue"), help="default: %(default)s"
    )
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)

    def written() -> int:
        with composing(*chosen.config_dir):
            asked = chosen.methods or [*options("method"), *_of_folders(chosen.config_dir)]
            for name in asked:
                group, _, option = words_of(name).partition("=")
                if group not in OF_A_ROW:
                    raise ConfigError(f"{name} has no page: give {', '.join(OF_A_ROW)} and a name")
                mistakes.check_choice(group, option, options(group))
            make_writable(chosen.output)  # before minutes of drawing
            entries = []
            for each in _entries(asked):
                write_whole(chosen.output / f"{each.method}.svg", each.picture)
                entries.append(each)
            write_whole(chosen.output / "catalogue.html", page(entries))
        page_of_all = chosen.output / "catalogue.html"
        print(f"{counted(len(entries), 'method')}: {page_of_all}, and an SVG for each beside it.")
        return 0

    return exit_status(written, own=chosen.config_dir)
