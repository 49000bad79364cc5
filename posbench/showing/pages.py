"""What pages are made of: templates, links to explanations, and docstrings as HTML."""

from __future__ import annotations

import ast
import base64
import functools
import hashlib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import markupsafe
from latex2mathml.converter import Converter

from posbench.base.errors import ConfigError
from posbench.config.modules import source_of
from posbench.config.source_hash import located
from posbench.showing.table import Markdown, Table, paragraph, plain, shade


def policy(script: str = "") -> str:
    """What a page may load and run: nothing but its own styles, pictures and this script.

    Args:
        script: the text between the tags, to the letter; "" if the page has none
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"; script-src 'sha256-{digest}'" if script else ""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:{scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def rendered(package: str, name: str, **values: Any) -> str:
    """The text of the template `name` of a package, without a line break at its end."""
    return _templates(package).get_template(name).render(values)


@functools.cache
def _templates(package: str) -> jinja2.Environment:
    """Those of a package, each of which is compiled once: it takes as long as to rank a board."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"policy": policy, "shade": shade}
    environment.filters["whole"] = _whole
    return environment


def _whole(text: str) -> markupsafe.Markup:
    """A text for a page in which no line ends between a number and its sign of percent."""
    return markupsafe.escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


# -- what pages are made of: each block is shown on a page and in Markdown -------------------------


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]
    kind = "items"


@dataclass(frozen=True)
class Terms:
    """Words, and what they mean."""

    meanings: Mapping[str, str]
    kind = "terms"


@dataclass(frozen=True)
class Picture:
    """An SVG, which a page holds, and Markdown names by its file; without one it leaves it out."""

    svg: str
    caption: str = ""
    file: str = ""
    kind = "picture"


@dataclass(frozen=True)
class Description:
    """The docstring of one class, and its sources; Markdown leaves it out."""

    name: str
    text: str  # HTML
    sources: tuple[str, ...]  # arXiv ids
    kind = "description"


@dataclass(frozen=True)
class Chapter:
    """A heading, and what is below it. A part of a part is folded away on a page."""

    title: str
    blocks: Sequence[Block]
    look: str = ""  # a class of the page's style

    kind = "part"

    @property
    def anchor(self) -> str:
        """That of the heading in HTML; GitHub makes its own of the one in Markdown."""
        return "".join(sign if sign.isalnum() else "-" for sign in self.title.lower())

    @property
    def tables(self) -> Iterator[Table]:
        return (block for block in self.blocks if isinstance(block, Table))


Block = str | Table | Items | Terms | Picture | Description | Chapter
"""What a page shows below a heading: a text is a paragraph."""


@dataclass(frozen=True)
class Page:
    """A page, as HTML and as Markdown."""

    title: str
    parts: Sequence[Chapter]
    foot: Sequence[str]  # how it came about
    lead: Sequence[Block] = ()  # before all else
    answer: Sequence[str] = ()  # what it says, in sentences
    doors: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what follows, by reader
    beside: Mapping[str, str] = field(default_factory=dict)  # other pages, and this one as "#..."
    about: Sequence[str] = ()  # what its folder says of itself
    notes: Sequence[str] = ()  # what must be known before a number is believed
    picture: Picture | None = None
    guide: Terms | None = None  # what the numbers mean, folded away
    defined: Sequence[str] = ()  # below the guide
    style: str = ""
    script: str = ""
    data: str = ""  # JSON for the script

    def html(self) -> str:
        """The page as one file that loads nothing."""
        return rendered("posbench.showing", "page.html.j2", page=self) + "\n"

    def markdown(self) -> str:
        """The same without what only a browser shows, the guide at its end."""
        picture = [] if self.picture is None else [self.picture]
        notes = [Markdown(f"> {paragraph(note)}") for note in (*self.about, *self.notes)]
        blocks = [*self.lead, *picture, *self.answer, *notes, *self.parts]
        if self.guide is not None:
            blocks.append(Chapter("What the columns mean", [self.guide]))
        found = [f"# {plain(self.title)}"]
        for block in [*blocks, *self.foot]:
            found += _in_markdown(block, 2)
        return "\n\n".join(found) + "\n"


def _in_markdown(block: Block, level: int) -> list[str]:
    """A block as Markdown, in pieces between which a line is left free."""
    match block:
        case Chapter(title=title, blocks=blocks):
            below = [piece for each in blocks for piece in _in_markdown(each, level + 1)]
            return [*([f"{'#' * level} {plain(title)}"] if title else []), *below]
        case Table():
            return ["\n".join(block.pipes)] if block.rows else []
        case Items(texts=texts):
            return ["\n".join(f"- {paragraph(text)}" for text in texts)]
        case Terms(meanings=meanings):
            return ["\n".join(f"- **{name}**: {text}" for name, text in meanings.items())]
        case Picture(caption=caption, file=file):
            return [f"![{caption}]({file})"] if file else []
        case Description():
            return []
    return [paragraph(block)]


# -- where the pages of posbench.explain are, to which boards link ---------------------------------

FOLDER = "explain"


def explanation_path(protocol: str, task: str, methods: Sequence[str], seed: int) -> Path:
    """Where in a results folder the page of these methods is kept, as records are; all names are
    slugs.
    """
    return Path(FOLDER) / protocol / task / ",".join(methods) / f"seed={seed}.html"


def explanations(results_dir: Path) -> list[Path]:
    """The pages that are there, by their paths in the results folder."""
    return sorted(path.relative_to(results_dir) for path in results_dir.glob(f"{FOLDER}/**/*.html"))


# -- what the docstring of a class says, as HTML, with formulas as MathML. No torch ----------------


def described(name: str, text: str) -> Description:
    """The description that a docstring, without its indentation, gives of a class."""
    paragraphs = [f"<p>{inline(part)}</p>" for part in paragraphs_of(text)]
    return Description(name, "\n".join(paragraphs), tuple(arxiv_ids(text)))


def arxiv_ids(text: str) -> list[str]:
    """The papers that a docstring names, in its order and without their versions."""
    return [*dict.fromkeys(re.findall(r"\b(\d{4}\.\d{5})(?:v\d+)?\b", text))]


def paragraphs_of(text: str) -> list[str]:
    """The paragraphs of a docstring, a line each."""
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def inline(text: str) -> str:
    """A paragraph as HTML."""
    # Every second part is a formula: what is between dollars is not prose.
    parts = re.split(r"(\$\$.+?\$\$|\$.+?\$)", text)
    parts[1::2] = [
        mathml(part.strip("$"), "block" if part.startswith("$$") else "inline")
        for part in parts[1::2]
    ]
    parts[::2] = [
        re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(part, quote=False))
        for part in parts[::2]
    ]
    return "".join(parts)


MACROS = re.compile(r"\\(re)?newcommand|\\providecommand|\\x?def\b")
"""Definitions in a formula: a few may mean as much text as fits into no memory."""
ATTRIBUTES = {"href", "style", "class", "id"}
"""What a formula may say of a page, and none of ours does."""
ENTITY = re.compile(r"&amp;(#\w+|lt|gt|amp);")


def mathml(formula: str, display: str) -> str:
    """A formula of LaTeX as MathML, without any other markup; as it is written, if it is none.

    Not by `convert` of the library, which gives the texts in a formula back as they are.
    """
    try:
        if MACROS.search(formula):
            raise ValueError
        tree = Converter(display=display).convert_to_element(formula)
    except Exception:  # whatever the library raises for what it cannot read
        return f"<code>{html.escape(formula, quote=False)}</code>"
    for element in tree.iter():
        for name in ATTRIBUTES & element.attrib.keys():
            del element.attrib[name]
    # Its tables have signs as entities, which are text as well.
    return ENTITY.sub(r"&\1;", ElementTree.tostring(tree, encoding="unicode"))


def definition_of(target: str) -> tuple[str, ast.ClassDef]:
    """The module in which a class is defined, and its definition, which is not run."""
    module, _, name = (located(target) or target).rpartition(".")
    while (source := source_of(module)) is not None:
        if name in source.definitions:
            definition = source.definitions[name][0]
            if not isinstance(definition, ast.ClassDef):
                break
            return module, definition
        if name not in source.imported:
            break
        module, name = source.imported[name]
    raise ConfigError(f"{target} is not a class of posbench")


def docstring(target: str) -> str:
    return ast.get_docstring(definition_of(target)[1]) or ""
