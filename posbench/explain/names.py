"""`python -m posbench.catalogue.names`: conf/README.md, all that can be chosen in a line each.

    python -m posbench.catalogue.names            writes the page
    python -m posbench.catalogue.names --check    writes nothing; fails if the page is an older one

What a name stands for is read off its YAML and the docstring of its class, and where it belongs off
conf/methods.yaml and conf/tasks.yaml. Nothing here imports a method.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from posbench.config import commands, families
from posbench.config.folders import GROUPS, own_names
from posbench.config.methods import AS_TRAINED, methods
from posbench.config.provenance import targets
from posbench.config.source import module_file
from posbench.showing.pages import definition_of, docstring
from posbench.showing.table import pipes

LIMIT = 160
"""Characters of a description, as they are seen: a command of LaTeX is one. No formula is cut."""

ORDER = ("task", "protocol", "experiment", "encoding", "extension", "method", "board", "logger")
ARXIV = r"\d{4}\.\d{5}"


@dataclass(frozen=True)
class Option:
    """One name of a group."""

    name: str
    meaning: str
    sources: tuple[str, ...]  # arXiv ids
    needs: str = ""  # the handle of the encoding; said of extensions that stand by it


# -- files and docstrings --------------------------------------------------------------------------


def _cited(target: str) -> str:
    """The docstrings of the module and of the class, in which sources may be named."""
    path = module_file(definition_of(target)[0])
    assert path is not None  # the class was found there
    head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return f"{head}\n{docstring(target)}"


def _declared(target: str, attribute: str) -> str:
    """The text that a class, or the nearest of those that it extends, gives an attribute."""
    module, definition = definition_of(target)
    for node in definition.body:
        assigned = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if attribute in [each.id for each in assigned if isinstance(each, ast.Name)]:
            return str(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    for base in definition.bases:
        assert isinstance(base, ast.Name), target
        if base.id != "ABC" and (found := _declared(f"{module}.{base.id}", attribute)):
            return found
    return ""


# -- one name --------------------------------------------------------------------------------------


@functools.cache
def option(group: str, name: str) -> Option:
    if group == "method":
        return _method(name)
    content, said = families.content(group, name), _said(group, name)
    target = content.get("_target_", "")
    whose = families.whose(group, name)
    meaning, cited = said, said
    if not re.search(ARXIV, said) and group in ("encoding", "extension", "task"):
        classes = sorted(targets(content)) if whose else [target]
        parts = [each for part in _parts(group, name) for each in option(group, part).sources]
        cited = " ".join([*map(_cited, classes), *parts])
    if not said and group != "protocol":
        others = " and ".join(f"`{each}`" for each in _parts(group, name) or [whose])
        first = docstring(target).split("\n\n")[0] if not whose else ""
        meaning = first or f"{others} with other settings"
    needs = _declared(target, "needs") if group == "extension" else ""
    return Option(name, shown(meaning), tuple(dict.fromkeys(re.findall(ARXIV, cited))), needs)


def _method(name: str) -> Option:
    encoding, extension, model = methods()[name]
    each_part = " and ".join(f"`{part}`" for part in _parts("extension", extension))
    inside = f" ({each_part})" if " and " in each_part else ""
    extended = "as it was trained" if extension == AS_TRAINED else f"with `{extension}`{inside}"
    ids = option("encoding", encoding).sources + option("extension", extension).sources
    settings = ", ".join(f"`{setting}`" for setting, _ in model)
    beside = f" and {settings} of the model" if settings else ""
    return Option(name, f"`{encoding}` {extended}{beside}.", tuple(dict.fromkeys(ids)))


def _said(group: str, name: str) -> str:
    """The comment at the head of a YAML, up to the first line that ends in a full stop."""
    lines: list[str] = []
    for line in families.head(group, name):
        if not (lines and lines[-1].endswith(".")):
            lines.append(line)
    return " ".join(lines)


def _parts(group: str, name: str) -> list[str]:
    """The extensions that an extension is made of, by the list of defaults of its YAML.

    The host of an encoding is none of its parts: any other may take its place.
    """
    if group != "extension":
        return []
    written = families.content(group, name).get("defaults", [])
    defaults = [each for each in written if each != "_self_"]
    return [
        part
        for each in defaults  # a bare name is another option of the same group
        for part in ([each] if isinstance(each, str) else each.values())
    ]


# -- a description ---------------------------------------------------------------------------------


def shown(text: str) -> str:
    """The beginning of a description in Markdown: up to about LIMIT characters, cut between
    sentences or clauses and never inside a formula.
    """
    pieces = _pieces(_joined(_without_sources(" ".join(text.split()))))
    if _seen(pieces) <= LIMIT:
        return _sentence(pieces, ".")
    whole, part = 0, 0  # how many pieces to keep: up to the end of a sentence, of a clause
    for end in range(1, len(pieces)):
        if whole + part and _seen(pieces[:end]) > LIMIT:
            break
        before, after = pieces[end - 1], pieces[end]
        if _depth(pieces[:end]):
            continue
        if before.endswith((".", "?")):
            whole = end
        elif before.endswith((",", ";", ":")) or re.match(r" (\(|with|where|and)", after):
            part = end
    if (whole and _seen(pieces[:whole]) > LIMIT / 2) or not part:
        return _sentence(pieces[: whole or len(pieces)], ".")
    return _sentence(pieces[:part], " …")


def _sentence(pieces: list[str], end: str) -> str:
    text = "".join(map(_markdown, pieces))
    return text if text.endswith((".", "?")) or not text else text.rstrip(",;:") + end


def _without_sources(text: str) -> str:
    """Leave out the arXiv ids, which have a column of their own."""
    place = r"(, (section|eq\.|table|figure) \d[\d.]*(?<!\.))?"
    cited = rf"(( of| in|,)? ?)arXiv {ARXIV}((,| and|, and) {ARXIV})*{place}(?=[),;.:]|$)"
    text = re.sub(cited, "", text)
    text = re.sub(r"; ?\)", ")", re.sub(r"\([;,] ?", "(", text))
    return re.sub(r" ?\(\)", "", text)


def _joined(text: str) -> str:
    """Make a setting that stands right behind a formula, as in $c/$`span`, a part of it."""

    def formula(match: re.Match[str]) -> str:
        setting = match[2].replace("_", r"\_")
        return rf"${match[1]}\text{{{setting}}}$"

    return re.sub(r"\$([^$]+)\$`(\w+)`", formula, text).replace("$$", "")


def _pieces(text: str) -> list[str]:
    """Formulas, code and words, each with the blank before it; joined they are the text."""
    return re.findall(r"\s*(?:\$[^$]+\$[^\s$]*|`[^`]+`[^\s`]*|[^\s$`]+)", text)


def _depth(pieces: list[str]) -> int:
    """How many parentheses of the prose are open."""
    prose = "".join(re.sub(r"\$[^$]+\$|`[^`]+`", "", piece) for piece in pieces)
    return prose.count("(") - prose.count(")")


def _seen(pieces: list[str]) -> int:
    """About the number of characters that a reader sees."""

    def formula(match: re.Match[str]) -> str:
        return re.sub(r"\\[A-Za-z]+", "x", re.sub(r"\\[^A-Za-z]|[{}_^$\s]", "", match[0]))

    return len(re.sub(r"\$[^$]+\$", formula, "".join(pieces)))


def _markdown(piece: str) -> str:
    """A formula between $` and `$, within which GitHub takes no sign for one of Markdown's."""
    parts = re.split(r"\$([^$]+)\$", piece)
    bars = [re.sub(r"\\\|", r"\\Vert ", part).replace("|", r"\vert ") for part in parts[1::2]]
    parts[1::2] = [f"$`{formula}`$" for formula in bars]
    return "".join(parts)


# -- groups ----------------------------------------------------------------------------------------


def grouped(group: str) -> dict[str, list[Option]]:
    """The options of a group under their headings; under "" where it has none."""
    headings: dict[str, list[Option]] = {}
    placed = [(families.heading(group, name), option(group, name)) for name in own_names(group)]
    listed = methods() if group == "method" else families.listed(group)
    rank = {name: place for place, name in enumerate(listed)}
    for heading in families.order(group, {heading for heading, _ in placed}):
        options = [each for found, each in placed if found == heading]
        options.sort(key=lambda each: rank.get(each.name, len(rank)))
        headings[heading] = options
    if families.ELSEWHERE in headings:
        headings[families.ELSEWHERE].sort(key=lambda each: each.needs)
    return headings


# -- the page --------------------------------------------------------------------------------------


def page() -> str:
    written = yaml.safe_load(families.text("config.yaml"))["defaults"]
    defaults = [each for each in written if each != "_self_"]
    default = {group: name for each in defaults for group, name in each.items()}
    links = ", ".join(f"[{group}](#{group})" for group in ORDER)
    lines = [
        "# What can be chosen",
        "",
        "Each name belongs to a group, and is chosen with `python -m posbench GROUP=NAME`: "
        f"{links}. The YAML of a name, `GROUP/NAME.yaml`, holds its settings; methods are the rows "
        "of [methods.yaml](methods.yaml). `python -m posbench.catalogue` shows every method with "
        "all its formulas and a picture.",
        "",
        "In formulas, query i sees key j at the distance d = i - j, with the score z and the "
        r"weight w; x is a token as a layer is given it, $`c = 1/\sqrt{d_h}`$ the scale of scores, "
        r"B a bias added to them, $`\tau`$ a temperature, $`\theta_m`$ a frequency of the rotation "
        r"and $`\lambda_m`$ what divides it; L is the number of positions in training, L' that of "
        "a test, and s the factor between them.",
    ]
    for group in ORDER:
        lines += ["", f"## {group}", ""]
        usual = f"`{default[group]}`" if default[group] else "none"
        lines += [f"`{group}=NAME` chooses {GROUPS[group]}. The default is {usual}."]
        for heading, options in grouped(group).items():
            lines += ["", f"### {heading[0].upper()}{heading[1:]}"] if heading else []
            lines += ["", *_rows_of(options, heading)]
    lines += ["", "Generated by `python -m posbench.catalogue.names`; do not edit.", ""]
    return "\n".join(lines)


def _rows_of(options: list[Option], heading: str) -> list[str]:
    sourced = any(each.sources for each in options)
    columns = ["name", "what it is"]
    columns += ["needs"] * (heading == families.ELSEWHERE) + ["source"] * sourced
    rows = []
    for each in options:
        cells = [f"`{each.name}`", each.meaning]
        cells += [each.needs] * (heading == families.ELSEWHERE)
        cells += [", ".join(f"[{id}](https://arxiv.org/abs/{id})" for id in each.sources)] * sourced
        rows.append(cells)
    return pipes(columns, rows, "l" * len(columns))


def main(arguments: list[str] | None = None) -> int:
    command = "python -m posbench.catalogue.names"
    chosen = commands.parser(command, "All that can be chosen, on a page.", check=True).parse_args(
        arguments
    )
    path = Path(str(files("posbench.conf"))) / "README.md"
    return commands.write_page(path, page, command, chosen.check, shown="conf/README.md")


if __name__ == "__main__":
    sys.exit(main())
