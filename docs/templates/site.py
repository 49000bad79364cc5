"""What MkDocs does to these pages beside laying them out; see mkdocs.yml.

Links that leave docs/ lead to a copy within the site: pages as pages, code as a page of code, all
else as it is. So the site is whole without the repository. Formulas become MathML, which needs no
script.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from posbench.showing.pages import mathml

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = "repository"
"""Where copies of files outside of docs/ are in the site."""
HIDDEN, SHOWN = re.compile(r"^\."), "dot-"
"""A name with a dot before it, which MkDocs leaves out, and what it has instead."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.M | re.S)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$\n]+?)(?<!\s)\$", re.S)
MARK = "\N{INVISIBLE SEPARATOR}"  # which is no white space
CODE = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".css": "css", ".js": "javascript"}
PAGE = "---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n`````{language}\n{text}\n`````\n"


def place(path: str) -> str:
    """Where a file of the repository is in the site's sources."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    code = Path(path).suffix in CODE
    seen = "/".join(HIDDEN.sub(SHOWN, part) for part in path.split("/"))
    return f"{OUTSIDE}/{seen}{'.md' if code else ''}"


def origin(uri: str) -> str:
    """The file of the repository that a source of the site is, the other way round."""
    if not uri.startswith(f"{OUTSIDE}/"):
        return f"docs/{uri}"
    path = uri.removeprefix(f"{OUTSIDE}/")
    path = "/".join(re.sub(f"^{SHOWN}", ".", part) for part in path.split("/"))
    inner = path.removesuffix(".md")
    return inner if path != inner and Path(inner).suffix in CODE else path


def targets(path: str, text: str) -> Iterator[str]:
    """The files of the repository that a page of it links to."""
    for _, _, link in LINK.findall(FENCE.sub("", text)):
        if target := resolved(path, link):
            yield target


def resolved(path: str, link: str) -> str:
    """The file that a link on the page `path` leads to; "" for an address or an anchor."""
    name = link.partition("#")[0]
    if not name or "://" in name or name.startswith("mailto:"):
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def on_files(files: Files, config: Any) -> Files:
    waiting = [origin(file.src_uri) for file in files if file.is_documentation_page()]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        for target in targets(path, (ROOT / path).read_text(encoding="utf-8")):
            file = ROOT / target
            if target in seen or not file.is_file():
                continue
            seen.add(target)
            if target.startswith("docs/"):
                continue
            if file.suffix in CODE:
                text = file.read_text(encoding="utf-8")
                content = PAGE.format(path=target, language=CODE[file.suffix], text=text)
                files.append(File.generated(config, place(target), content=content))
            else:
                files.append(File.generated(config, place(target), abs_src_path=str(file)))
                if file.suffix == ".md":
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    path = origin(page.file.src_uri)
    if Path(path).suffix in CODE:
        return markdown
    found: list[str] = []
    page.meta["formulas"] = found

    def kept(match: re.Match[str]) -> str:
        found.append(mathml(match[1] or match[2], "block" if match[1] else "inline"))
        return f"{MARK}{len(found) - 1}{MARK}"

    parts = FENCE.split(markdown)
    parts[::2] = [FORMULA.sub(kept, part) for part in parts[::2]]

    def moved(match: re.Match[str]) -> str:
        picture, text, link = match.groups()
        if not (target := resolved(path, link)):
            return match[0]
        if not (ROOT / target).is_file():  # a folder
            return text
        here = posixpath.dirname(page.file.src_uri) or "."
        _, sign, anchor = link.partition("#")
        return f"{picture}[{text}]({posixpath.relpath(place(target), here)}{sign}{anchor})"

    # A link may have code in its text, and code may look like a link: only fences are left alone.
    blocks = re.split(r"(^```.*?^```$)", "".join(parts), flags=re.M | re.S)
    blocks[::2] = [LINK.sub(moved, block) for block in blocks[::2]]
    return "".join(blocks)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Formulas come back when the page is HTML: as Markdown they would end paragraphs."""
    found = page.meta.get("formulas", [])
    return re.sub(f"{MARK}(\\d+){MARK}", lambda match: found[int(match[1])], html)
