"""The pages of docs/reference: every encoding, extension, task and setting, one after the other.

`python -m posbench.conf.reference` writes them with the lists of conf/. All of it is read off the
files of conf/, the docstrings of classes and the lines of `posbench.explain.sketches`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from posbench.boards.measured_runs import sketches
from posbench.conf.reference import END, grouped, link, option
from posbench.config import families, resolvers
from posbench.config.folders import own_names
from posbench.config.methods import AS_TRAINED, methods
from posbench.config.modules import module_file, source_of
from posbench.core.settings import __file__ as SETTINGS
from posbench.showing.pages import definition_of, docstring
from posbench.showing.table import pipes

FORMULA = r"\$\$(.+?)\$\$|\$([^$]+)\$"
UP = "../.."
"""From a page to the folder of the repository."""

# -- one entry -------------------------------------------------------------------------------------


def entry(group: str, name: str) -> Iterator[str]:
    """What a name is: its description, where it comes from, how it runs, and its YAML."""
    target = families.content(group, name).get("_target_", "")
    yield from (f"### `{name}`", "")
    if target and not families.whose(group, name):
        yield from description(docstring(target))
    else:
        yield from (option(group, name).meaning, "")
    yield from (f"- {each}" for each in facts(group, name, target))
    yaml = families.text(f"{group}/{name}.yaml").strip()
    yield from ("", "```yaml", f"# conf/{group}/{name}.yaml", *yaml.splitlines(), "```", "")


def description(text: str) -> Iterator[str]:
    """A docstring as Markdown; what is indented below a heading such as "Examples:" stays so."""
    for part in filter(None, re.split(r"\n\s*\n", text)):
        lines = part.strip("\n").splitlines()
        first = next((at for at, line in enumerate(lines) if line.startswith("    ")), len(lines))
        if 0 < first < len(lines) and lines[first - 1].endswith(":"):
            said = " ".join(lines[:first])
            yield from (said, "", "```text", *(line[4:] for line in lines[first:]), "```", "")
        elif lines[0].startswith("- "):
            yield from (*lines, "")
        else:
            yield from (" ".join(line.strip() for line in lines), "")


def facts(group: str, name: str, target: str) -> Iterator[str]:
    chosen = [f"`{group}={name}`"]
    if row := row_of(group, name):
        chosen.append(f"`method={row}`")
    yield f"**Choose it:** {' or '.join(chosen)}."
    known = option(group, name)
    if known.needs:
        yield f"**Extends:** encodings with {known.needs}."
    if known.sources:
        yield f"**Source:** {', '.join(link(f'arXiv {id}') for id in known.sources)}."
    if target and (path := module_file(definition_of(target)[0])):
        place = code_of(path)
        yield f"**Code:** [{place}]({UP}/{place})."
    if row and (sketch := sketches().get(row)):
        yield f"**Attention:** {sketch['path']}. **Keys can be cached:** {sketch['keys']}."
    if served := served_by(group, name):
        yield f"**Served by:** {served}."


def row_of(group: str, name: str) -> str:
    """The method that shows how an encoding or extension runs: the one of RoPE, or the first."""
    if group not in ("encoding", "extension"):
        return ""
    rows = {
        row: method
        for row, method in methods().items()
        if not method.model
        and (
            (method.encoding, method.extension) == (name, AS_TRAINED)
            if group == "encoding"
            else method.extension == name
        )
    }
    ours = [row for row in rows if row in (name, f"rope_{name}")]
    return next(iter([*ours, *rows]), "")


def served_by(group: str, name: str) -> str:
    """Who has an extension as a setting, as `posbench.pretrained.servers` writes them; "" where it
    is made of others, or is no extension.
    """
    content = families.content(group, name)
    if group != "extension" or {"extension", "defaults"} & content.keys():
        return ""
    target = content.get("_target_", "")
    if name == AS_TRAINED:
        return "all, as nothing has to be set"
    if target.rpartition(".")[2] in served_classes():
        return "transformers and vLLM"
    if "FrequencyExtension" in ancestors(target):
        return "transformers, as LongRoPE's lists, where it changes frequencies alone"
    return "the mounted model only"


def ancestors(target: str) -> set[str]:
    """The names of the classes that a class extends, without importing it."""
    module, definition = definition_of(target)
    if module.startswith("posbench.core."):
        return {definition.name}
    bases = [base.id for base in definition.bases if isinstance(base, ast.Name)]
    above = [ancestors(f"{module}.{base}") for base in bases if base != "ABC"]
    return {definition.name}.union(*above)


@functools.cache
def served_classes() -> frozenset[str]:
    """The classes for which `posbench.pretrained.servers` has a rule; it is not imported, because
    that takes torch.
    """
    source = source_of("posbench.pretrained.servers")
    assert source is not None
    node = source.definitions["RULES"][0]
    assert isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
    return frozenset(key.id for key in node.value.keys if isinstance(key, ast.Name))


def code_of(path: Path) -> str:
    """A module's place in the repository."""
    return path.resolve().relative_to(root()).as_posix()


def root() -> Path:
    return Path(str(files("posbench.conf"))).resolve().parent


def lines(group: str) -> list[dict[str, str]]:
    """What the pages say of each name, a line a name, without links."""
    found = []
    for heading, options in grouped(group).items():
        for each in options:
            row = row_of(group, each.name)
            sketch = sketches().get(row, {})
            found.append(
                {
                    "name": each.name,
                    "family": heading,
                    "what": each.meaning,
                    "formula": formula(group, each.name),
                    "needs": each.needs,
                    "source": ", ".join(f"arXiv {id}" for id in each.sources),
                    "attention": sketch.get("path", ""),
                    "cacheable": sketch.get("keys", ""),
                    "served_by": served_by(group, each.name),
                    "method": row,
                }
            )
    return found


def formula(group: str, name: str) -> str:
    """The first equation in the docstring of its class; "" where it has none, or is a pattern."""
    target = families.content(group, name).get("_target_", "")
    found = re.findall(FORMULA, docstring(target), re.S) if target else []
    equations = (" ".join("".join(each).split()) for each in found)
    return next((each for each in equations if "=" in each), "")


# -- pages of a group ------------------------------------------------------------------------------

TERMS = {
    "encoding": (
        "Those that end in `_blocked` are the same encodings, computed in blocks. "
        "*Attention* says how it is computed, on an untrained layer: *fused* in a fast kernel, "
        "*fused by rows* with a mask, *dense* from the whole matrix of scores, which costs the "
        "most. *Keys can be cached* says whether the key of a token stays what it is while others "
        "follow."
    ),
    "extension": (
        "Some are the same extension with chosen settings (`_tuned`), in the last layers alone "
        "(`_last`), with one factor for all lengths (`_served_`), or trained from the middle on "
        "(`_early`). "
        "*Attention* and *keys* are those of the method that is named. *At one scale* means that "
        "keys stay what they are as long as the extension keeps its factor. *Served by* says who "
        "has it as a setting; `posbench pretrained` prints the setting after it has tried it."
    ),
    "task": (
        "`posbench tasks NAME --n 8` prints samples. `training` in a YAML has the shortest and "
        "longest n in training and the number of steps, which is what a training costs."
    ),
}


def page(group: str) -> str:
    names = own_names(group)
    lines = [f"# {group.capitalize()}s", "", f"There are {len(names)} names. {TERMS[group]}"]
    for heading, options in grouped(group).items():
        title = heading[0].upper() + heading[1:] if heading else "All"
        lines += ["", f"## {title}", ""]
        for each in options:
            lines += entry(group, each.name)
    return "\n".join([*lines[:-1], *END])


# -- settings --------------------------------------------------------------------------------------

ASKED = ("positions", "base_for_turns", "turns", "steepness", "rate")
"""Functions that a YAML may call."""
LINE = re.compile(r"^( *)([\w]+):(?: (.*?))?(?:\s+# (.*))?$")


def settings() -> str:
    lines = [
        "# Settings",
        "",
        "Every setting can be changed on the command line, as in `training.packing=128`. The name "
        "of the protocol then says so.",
        "",
        "## Of a protocol",
        "",
        f"These are the defaults, those of [conf/protocol/cpu.yaml]({UP}/conf/protocol/cpu.yaml).",
        "",
        *_table("protocol/cpu.yaml", ("model", "training", "evaluation", "trainer")),
        "",
        "A task sets three more: `training.steps`, and its shortest and longest n in training, "
        "`training.min_length` and `training.max_length` ([tasks](tasks.md)).",
        "",
        "## Of a run",
        "",
        f"From [conf/config.yaml]({UP}/conf/config.yaml).",
        "",
        *_table("config.yaml", ("", "trainer")),
        "",
        "## What a YAML may ask for",
        "",
        "A YAML of an encoding or extension may take sizes from the model, such as "
        "`${model.width}`, `${model.num_heads}`, `${model.head_width}` and `${model.num_layers}`. "
        "It may take `${train_positions}` and `${test_positions}`, and call these functions:",
        "",
    ]
    for name in ASKED:
        said = " ".join((getattr(resolvers, f"_{name}").__doc__ or "").split())
        lines.append(f"- `{name}`: {said}")
    return "\n".join([*lines, *END])


def _table(file: str, sections: tuple[str, ...]) -> list[str]:
    rows, section = [], ""
    for line in families.text(file).splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        indent, name, value, said = found.groups()
        if not indent:
            section = name if not value else ""
        place = f"{section}.{name}" if indent else name
        if value and len(indent) <= 2 and section in sections:
            rows.append([f"`{place}`", f"`{value}`", said or _commented(name)])
    return pipes(["setting", "default", "what it is"], rows, "lll")


@functools.cache
def _commented(name: str) -> str:
    """The comment behind a setting in posbench/core/settings.py."""
    text = Path(SETTINGS).read_text(encoding="utf-8")
    found = re.search(rf"^    {name}: .*?  # (.*)$", text, re.M)
    return found[1] if found else ""


def pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    of_groups = {f"{group}s.md": page(group) for group in TERMS}
    return of_groups | {"settings.md": settings()}
