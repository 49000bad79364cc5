"""What pages are made of: templates, links to explanations, and docstrings as HTML."""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
from latex2mathml.converter import Converter

from posbench.base.errors import ConfigError
from posbench.config.source import source_of
from posbench.config.source_hash import located


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


def rendered(package: str, name: str, script: str = "", **values: Any) -> str:
    """The text of the template `name` of a package, without a line break at its end.

    Pages extend page.html.j2, which has what is alike in all of them: a policy that allows nothing
    but this script, colours by day and night, type, tables that scroll by themselves, a foot.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(each, ".") for each in (package, "posbench.showing")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["policy"] = policy
    return environment.get_template(name).render(values, script=script)


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


@dataclass(frozen=True)
class Description:
    """The docstring of one class, and its sources."""

    name: str
    text: str  # HTML
    sources: tuple[str, ...]  # arXiv ids


def described(name: str, text: str) -> Description:
    """The description that a docstring, without its indentation, gives of a class."""
    paragraphs = [f"<p>{inline(part)}</p>" for part in paragraphs_of(text)]
    return Description(
        name, "\n".join(paragraphs), tuple(dict.fromkeys(re.findall(r"\d{4}\.\d{5}", text)))
    )


def paragraphs_of(text: str) -> list[str]:
    """The paragraphs of a docstring, a line each."""
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def inline(text: str) -> str:
    """A paragraph as HTML."""

    def formula(match: re.Match[str]) -> str:
        return mathml(match[1] or match[2], "block" if match[1] else "inline")

    # Formulas come first, because what is between dollars is not prose.
    parts = re.split(r"(\$\$.+?\$\$|\$.+?\$)", text)
    parts[1::2] = [re.sub(r"\$\$(.+?)\$\$|\$(.+?)\$", formula, part) for part in parts[1::2]]
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
            assert isinstance(definition, ast.ClassDef), target
            return module, definition
        if name not in source.imported:
            break
        module, name = source.imported[name]
    raise ConfigError(f"{target} is not a class of posbench")


def docstring(target: str) -> str:
    return ast.get_docstring(definition_of(target)[1]) or ""
