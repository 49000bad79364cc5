"""README and docs keep their word: commands run, recipes run as printed, links lead somewhere, and
numbers are those of the records.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from making import changed, record, view
from omegaconf import OmegaConf
from processes import succeeded

from posbench import standalone
from posbench.base.errors import ConfigError, PosbenchError
from posbench.boards import answers
from posbench.boards.compare import command as compare_command
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.predictions import PredictionOutcome
from posbench.boards.ranking import standings_without_board
from posbench.boards.section_facts import SectionFacts
from posbench.conf import detailed
from posbench.config import board as definition
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.core.attention import Attention
from posbench.pretrained.request import extension_at
from posbench.pretrained.servers import Recipe, ServedModel
from posbench.records import files, tables
from posbench.showing.table import NOTHING, number
from posbench.statistics.standings import within

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("", "docs", "docs/reference")
    for path in sorted((ROOT / folder).glob("*.md" if folder else "README.md"))
}
EXCERPTS = {"text"}
"""What is between fences of these languages is no command."""
SMALL = ["protocol=smoke", "training.steps=5"]


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language and the text of everything between fences."""
    yield from re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[page], re.M | re.S)


def commands(start: str = "") -> list[tuple[str, str]]:
    """Every line of the shell with its page, without the comment behind it."""
    return [
        (page, line.split(" #")[0].strip())
        for page in PAGES
        for language, text in blocks(page)
        if language == "sh"
        for line in text.splitlines()
        if line.startswith(start)
    ]


def words_of(command: str) -> list[str]:
    return shlex.split(command)[1:]


OF_POSBENCH = list(dict.fromkeys(line for _, line in commands("posbench")))
OWN = "mine"  # the folder of the recipes in docs/extending.md
BOARDS = re.compile(r"\bboard=\w+")

SKIPPED = {
    "posbench compare mine/encoding/decay.yaml": "trains for minutes",
    "posbench compare mine/extension/slow_half.yaml": "trains for minutes",
    "posbench records zoo list results/zoo": "is run in tests/test_zoo.py, on a zoo that is there",
    "posbench compare mine/encoding/decay.yaml --quick": "trains for minutes",
    "posbench compare mine/task/every_other.yaml": "trains for an hour",
    "posbench records verify results/main --sample 12": "repeats twelve runs",
}
"""Commands that no test runs, with the reason; their options are looked for in the help."""
NEEDS_A_MODEL = re.compile(r"(model|pretrained)=(FOLDER|\$MODEL)")


def is_a_run(words: list[str]) -> bool:
    return words[0] in ("run", "sweep") or "=" in words[0]


RUNS = [each for each in OF_POSBENCH if is_a_run(words_of(each)) and OWN not in each]
SWEEPS = [each for each in RUNS if words_of(each)[0] == "sweep"]


def test_every_block_is_run_or_is_an_excerpt() -> None:
    """A block of Python or YAML names the file that a test writes it into."""
    for page in PAGES:
        for language, text in blocks(page):
            if language in ("python", "yaml"):
                assert re.match(r"(# @.*\n)?# [\w/]+\.(py|yaml)\n", text), (page, text[:60])
            else:
                assert language in {"sh", *EXCERPTS}, (page, text[:60])


def test_the_shell_has_only_commands_that_a_test_knows() -> None:
    known = ("posbench ", "make ", "pip install ", "python3 -m venv ", "MODEL=$(python -c ")
    assert [line for _, line in commands() if line and not line.startswith(known)] == []


@pytest.mark.parametrize("command", RUNS)
def test_every_setting_that_is_shown_is_one(command: str) -> None:
    """Of a sweep each value, beside the first of the others."""
    given = [word for word in words_of(command) if word not in ("run", "sweep")]
    if BOARDS.search(command):
        [name] = [word[6:] for word in given if BOARDS.match(word)]
        assert (ROOT / f"conf/board/{name}.yaml").exists()
        return
    values = [list(values_of(word)) for word in given]
    firsts = [each[0] for each in values]
    compose(*firsts).cfg()
    for place, more in enumerate(values):
        for other in more[1:]:
            compose(*firsts[:place], other, *firsts[place + 1 :]).cfg()


def values_of(word: str) -> Iterator[str]:
    """The values of a word of a sweep; a list in brackets is one, and so is a range here."""
    key, _, value = word.partition("=")
    for each in [value] if value.startswith("[") else re.sub(r"range\(.*\)", "0", value).split(","):
        yield f"{key}={each}"


def test_what_is_installed_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [line for page in PAGES.values() for line in re.findall(r"pip install [^\n`]+", page)]
    assert len(lines) > 5
    for line in lines:
        for extra in re.findall(r"'\.\[(\w+)\]'", line):
            assert extra in extras, line
        for name in re.findall(r" -[cr] ([\w.-]+)", line):
            assert (ROOT / name).exists(), line
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for page, line in commands("make "):
        assert line.split()[1] in targets, (page, line)


@pytest.mark.slow
def test_every_sweep_of_a_board_can_be_planned(tmp_path: Path) -> None:
    for command in filter(BOARDS.search, SWEEPS):
        planned = [word for word in words_of(command) if word != "plan_only=true"]
        succeeded(tmp_path, *planned, "plan_only=true")


@pytest.mark.slow
def test_every_other_command_runs(tmp_path: Path) -> None:
    """In a folder with the published records and the runs of a small sweep."""
    shutil.copytree(ROOT / "results/main", tmp_path / "results/main")
    shutil.copytree(ROOT / "results/pretrained", tmp_path / "results/local/pretrained")
    small = " ".join(["posbench sweep method=rope,rope_yarn seed=0", *SMALL])
    ended(small, tmp_path)
    rest = [each for each in OF_POSBENCH if each not in RUNS and OWN not in each]
    for command in rest:
        if "lm-eval" in command and find_spec("lm_eval") is None:
            continue
        if NEEDS_A_MODEL.search(command):
            # All else that it says is right: it is refused for the model alone.
            named = command.replace("$MODEL", "FOLDER").replace("BOOK.txt", "README.md")
            done = called(named, ROOT)
            assert "=FOLDER is no folder with a config.json" in done.stderr, command + done.stderr
        elif command in SKIPPED:
            continue
        elif " --write" not in command and "decay" not in command:
            shorter = ("explain method", "pretrained export")
            more = SMALL if any(each in command for each in shorter) else []
            more = ["--protocol", "smoke"] if "records publish" in command else more
            command = re.sub(r"(publish .*)passkey", r"\1passkey-6c629d3c", command)
            # What is checked is published: its page links to others, and to files beside it.
            ended(command, ROOT if "--check" in command else tmp_path, *more)


@pytest.mark.slow
def test_commands_that_are_not_run_have_the_options_they_show() -> None:
    for command in SKIPPED:
        assert command in OF_POSBENCH, "and are there"
        name = " ".join(word for word in words_of(command)[:2] if re.fullmatch(r"[a-z]+", word))
        helped = called(f"posbench {name} --help", ROOT).stdout
        for option in re.findall(r"--[\w-]+", command):
            assert option in helped, (command, option)


def called(command: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-m", "posbench", *words_of(command), *more]
    return subprocess.run(given, cwd=folder, capture_output=True, text=True, check=False)


def ended(command: str, folder: Path, *more: str) -> None:
    """Run a command, which must succeed."""
    more = tuple(each for each in more if each not in command)
    done = called(command, folder, *more)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.slow
def test_the_recipes_of_ones_own_run_as_printed(tmp_path: Path) -> None:
    as_printed = r"```(?:python|yaml)\n((?:# @.*\n)?# (mine/\S+)\n.*?)```"
    for block, name in re.findall(as_printed, PAGES["docs/extending.md"], re.S):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
    found = [line for _, line in commands("posbench") if OWN in line and line not in SKIPPED]
    kinds = [words_of(line)[0] for line in dict.fromkeys(found)]
    of_encodings, of_tasks = ["check", "run", "explain", "check"], ["check", "tasks", "run"]
    assert kinds == [*of_encodings, "check", "run", *of_tasks, "records"]
    for command in dict.fromkeys(found):
        small = {"run": SMALL, "records": ["--protocol", "smoke"]}.get(words_of(command)[0], [])
        ended(command, tmp_path, *small)
    assert list(tmp_path.glob("results/local/records/smoke/passkey-*/decay/seed=0.json"))
    assert (tmp_path / "results/local/catalogue/catalogue.html").exists()
    ended("posbench records accept decay.tar.gz", tmp_path)


def test_the_block_with_an_encoding_from_posbench_runs_as_printed() -> None:
    [block] = re.findall(r"```python\n# elsewhere.py\n(.*?)```", PAGES["docs/python.md"], re.S)
    names: dict[str, object] = {}
    exec(block, names)
    trained = names["CausalSelfAttention"](64, 4, 128).position  # type: ignore[operator]
    longer = names["yarn"]().extend(trained, tested=512)  # type: ignore[operator]
    q, k, v = torch.randn(3, 1, 4, 20, 16)
    assert torch.equal(longer(q, k, v), longer(q, k, v))
    assert not torch.allclose(longer(q, k, v), trained(q, k, v))
    head = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert not torch.allclose(trained(q, k, v), head) and torch.allclose(
        trained(q, k, v, pos=torch.zeros(1, 20).long()), head, atol=1e-6
    )


@pytest.mark.slow
def test_the_block_with_tables_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = re.findall(r"```python\n# records.py\n(.*?)```", PAGES["docs/python.md"], re.S)
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert (tmp_path / "rows.png").exists()


@pytest.mark.slow
def test_the_block_with_runs_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = re.findall(r"```python\n# calls.py\n(.*?)```", PAGES["docs/python.md"], re.S)
    monkeypatch.chdir(tmp_path)
    exec(block, names := {})  # type: ignore[var-annotated]
    assert len(names["runs"].groupby(["method", "seed"])) == 4
    assert "arXiv 2309.00071" in capsys.readouterr().out


@pytest.mark.slow
def test_the_block_with_a_class_of_ones_own_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = re.findall(r"```python\n# own.py\n(.*?)```", PAGES["docs/python.md"], re.S)
    [mine] = re.findall(r"```python\n# mine/decay.py\n(.*?)```", PAGES["docs/extending.md"], re.S)
    (tmp_path / "decay.py").write_text(mine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "decay", raising=False)
    compared: list[list[str]] = []
    monkeypatch.setattr(compare_command, "compared", compared.append)
    exec(block, {})
    path = tmp_path / "encoding/square_root_decay.yaml"
    assert compared == [[str(path), "--quick"]]
    assert yaml.safe_load(path.read_text()) == {
        "_target_": "decay.SquareRootDecay",
        "strength": 1.0,
    }


def test_the_block_with_a_layer_of_ones_own_class_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = re.findall(r"```python\n# own_layer.py\n(.*?)```", PAGES["docs/python.md"], re.S)
    [mine] = re.findall(r"```python\n# mine/decay.py\n(.*?)```", PAGES["docs/extending.md"], re.S)
    (tmp_path / "decay.py").write_text(mine)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "decay", raising=False)
    exec(block, {})
    assert capsys.readouterr().out == "torch.Size([2, 4, 128, 16])\n"


def test_a_name_that_is_none_is_told_which_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"encoding=ropee is unknown: did you mean rope\?"):
        standalone.encoding("ropee")(num_heads=4, head_width=16, trained=128)
    trained = standalone.encoding("rope")(num_heads=4, head_width=16, trained=128)
    with pytest.raises(ConfigError, match=r"extension=yarnn is unknown: did you mean yarn\?"):
        standalone.extension("yarnn")().extend(trained, tested=512)


# -- links -----------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGES[page], flags=re.S))
    for link in links:
        if link.startswith("http"):
            assert re.match(r"https://(arxiv\.org/abs/|github\.com/)", link), link
            continue
        name, _, anchor = link.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert path.exists() and path.is_relative_to(ROOT), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{page}: {link}"


def test_every_page_can_be_reached() -> None:
    """From the README, and from the navigation of the site."""
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for link in re.findall(r"\]\(([^)\s#]+)", PAGES[page]):
            path = ((ROOT / page).parent / link).resolve()
            name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
            if name in PAGES and name not in reached:
                waiting.append(name)
    assert {*PAGES} - reached <= {"docs/index.md"}


# -- the reference ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("group", ["encoding", "extension", "task"])
def test_the_reference_has_every_name_once(group: str) -> None:
    text = PAGES[f"docs/reference/{group}s.md"]
    assert sorted(re.findall(r"^### `(\w+)`$", text, re.M)) == sorted(own_names(group))
    assert text == detailed.page(group), "run `python -m posbench.conf.reference`"


def test_the_reference_says_how_a_name_runs_and_who_serves_it() -> None:
    def of(group: str, name: str) -> str:
        return PAGES[f"docs/reference/{group}s.md"].split(f"### `{name}`\n")[1].split("\n### ")[0]

    assert "`extension=yarn` or `method=rope_yarn`" in of("extension", "yarn")
    assert "**Served by:** transformers and vLLM" in of("extension", "yarn")
    assert "**Served by:** transformers, as LongRoPE's lists" in of("extension", "by_parts")
    assert "**Served by:** the mounted model only" in of("extension", "rerope")
    assert "**Served by:**" not in of("extension", "yarn_fine_tuned")
    assert "**Attention:** fused. **Keys can be cached:** yes." in of("encoding", "fox")
    assert "[2503.02130](https://arxiv.org/abs/2503.02130)" in of("encoding", "fox")
    assert detailed.served_classes() == {"PI", "NTK", "DynamicNTK", "YaRN", "Llama3", "LongRoPE"}
    assert "have PI, NTK, YaRN, Llama 3 and LongRoPE as settings" in PAGES["docs/answers.md"]
    for method in re.findall(r"^\| `a\.(\w+)\(", PAGES["docs/extending.md"], re.M):
        assert callable(getattr(Attention, method))
    assert "BOS a MARK 7 2 b a SEP 7 2 EOS\n" in of("task", "passkey")


def test_settings_of_the_reference_are_those_of_a_run() -> None:
    """Each with its default."""
    text = PAGES["docs/reference/settings.md"]
    assert text == detailed.settings(), "run `python -m posbench.conf.reference`"
    cfg = compose("protocol=cpu").cfg()
    rows = re.findall(r"^\| `((?:model|training|evaluation)\.\w+)` \| `(.*?)` \|", text, re.M)
    assert len(rows) > 30
    for place, shown in rows:
        assert OmegaConf.select(cfg, place) == yaml.safe_load(shown) or place.endswith("_rate")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="pip install -e '.[docs]'")
def test_the_site_is_built_without_a_warning_and_asks_for_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for name in ("index.html", "reference/extensions.html"):
        asked = re.findall(r'(?:src|href)="(https?://[^"]+)"', (tmp_path / name).read_text())
        assert [each for each in asked if "arxiv.org" not in each] == []
    pages = [each for each in tmp_path.rglob("*.html") if each.name != "404.html"]
    links = {
        (each.parent / unquote(link)).resolve()
        for each in pages
        for link in re.findall(r'(?:src|href)="(?![a-z]+:)([^"#?]+)', each.read_text())
    }
    assert len(links) > 50 and [each for each in links if not each.exists()] == []


# -- numbers ---------------------------------------------------------------------------------------


def test_the_readme_is_one_page() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 200


def test_extensions_that_are_another_one_again_or_a_control_are_not_counted() -> None:
    """An extension is the same one with settings that are searched, of the last layers alone, with
    one scale, or trained from the middle on; so is an encoding that is computed in blocks.
    """
    facts = answers.Facts(ROOT)
    again = [
        name
        for name in own_names("extension")
        if (name.endswith(("_tuned", "_last")) and not name.endswith("_fine_tuned"))
        or "_served_" in name
        or "_early" in name
        or "_last_" in name
    ]
    controls = ["direct", "direct_continued", "direct_fine_tuned", "ceiling", "only", "both"]
    assert facts.size("extension") == len({*own_names("extension")} - {*again, *controls})
    blocked = [name for name in own_names("encoding") if name.endswith("_blocked")]
    assert facts.size("encoding") == len(own_names("encoding")) - len(blocked)
    assert facts.size("task") == len(own_names("task"))


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (ROOT / "docs/templates").glob("*.md"))
)
def test_no_template_has_a_score_in_digits(name: str) -> None:
    text = (ROOT / "docs/templates" / name).read_text()
    words = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|```.*?```|`[^`]*`", "", text, flags=re.S)
    assert re.findall(r"(?<![\w.])[-+]?\.\d+", words) == []


def test_settings_of_servers_on_the_page_are_those_of_the_code() -> None:
    model = ServedModel(8192, 500_000.0, 64, 32768)
    recipe = Recipe.of(model, extension_at("yarn", 8192, 32768))
    given = {"max_position_embeddings": 32768, "rope_parameters": recipe.parameters}
    page = PAGES["docs/pretrained.md"]
    section = page.partition("## What do I write into config.json")[2].partition("\n## ")[0]
    first, second = re.findall(r"```text\n(.*?)\n```", section, re.S)
    assert json.loads(first) == given
    assert second.splitlines() == list(recipe.lines(32768))
    assert "advise trained=8192 base=500000 target=32768" in section


@pytest.mark.slow
def test_what_pages_say_of_the_model_is_so() -> None:
    table = tables.table(files.records(ROOT / "results/main"))
    parameters = table.groupby("protocol")["parameters"].median()
    assert round(parameters["cpu"], -4) == 100_000 and round(parameters["cpu_wide"], -4) == 670_000
    cpu = table[table["protocol"] == "cpu"]
    assert (cpu["train_positions"].min(), cpu["train_positions"].max()) == (40, 62)
    for board, least in (("encodings", 35), ("served", 38)):
        learned = tables.table(files.records(ROOT / "results" / board))["train_positions"]
        assert (learned.min(), learned.max()) == (least, 40)
    assert all("35 to 62 positions" in PAGES[page] for page in ("README.md", "docs/answers.md"))
    named = definition.load("main").all_tasks
    steps = [
        yaml.safe_load((ROOT / f"conf/task/{task}.yaml").read_text())["training"]["steps"]
        for task in named
    ]
    assert max(steps) == 4000 and len(named) == 12


# -- what a template may ask -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts() -> answers.Facts:
    return answers.Facts(ROOT)


@pytest.mark.slow
def test_a_number_of_a_page_is_that_of_the_board(facts: answers.Facts) -> None:
    """As the page of the board, which is made another way, has it."""
    text = (ROOT / "results/main/leaderboard.md").read_text()
    first = facts.section("main", "Encodings: zero-shot")
    row = first.placed[0]
    assert f"{row} reaches furthest of 26 rows: {first.reach(row)}, on" in text
    less = first.less("rope_qk_norm", row).replace("95 % ", "")
    assert f"the highest is rope_qk_norm ({first.number('rope_qk_norm')}), {less}" in text
    base = facts.section("main", "Extensions at base 10,000")
    assert f"{base.first_at(8)} is highest: {base.reach(base.first_at(8), 8)}, on" in text


@pytest.mark.slow
def test_a_run_of_two_boards_counts_once(facts: answers.Facts) -> None:
    columns = ["protocol_hash", "task_hash", "method_hash", "seed"]
    served, windows = (
        set(facts.frame(each)[columns].itertuples(index=False, name=None))
        for each in ("served", "windows")
    )
    assert served & windows
    assert facts.num_records("served", "windows") == f"{len(served | windows):,}"
    assert facts.num_records("served") == f"{len(served):,}"


@pytest.mark.slow
def test_what_a_first_place_depends_on_is_counted(facts: answers.Facts) -> None:
    """As the page has it: four tasks and two seeds without which another row is first."""
    first = facts.section("main", "Encodings: zero-shot")
    text = (ROOT / "results/main/leaderboard.md").read_text()
    assert "first if one task or seed is left out: path without copy, suffix_lookup" in text
    assert "seed 10 or seed 12" in text
    assert len(first.overturning) == 6 and sum("seed" in each for each in first.overturning) == 2
    reaches = first.standing.summary.loc[first.placed, "reaches"]
    gap = reaches.iloc[0] - reaches.iloc[3]
    assert (first.within(gap - 1e-6), first.within(gap + 1e-6)) == (2, 3)


def test_the_leading_rows_are_above_the_widest_gap_of_the_upper_half() -> None:
    """Seven rows have three gaps there: .02, .03 and .15. The wider one below them is .39."""
    reaches = [0.9, 0.88, 0.85, 0.7, 0.69, 0.3, 0.1]
    summary = pd.DataFrame({"reaches": reaches}, index=list("abcdefg"))
    standing: Any = SimpleNamespace(summary=summary, placed=list("abcdefg"))
    measured: Any = None
    facts = SectionFacts(standing, measured, measured)
    assert facts.leading == ["a", "b", "c"] and facts.above_widest == 5


def test_gains_are_counted_after_holm_s_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four, .01 is .03 and .03 is .06. A loss is no gain."""
    found = [
        PredictionOutcome("a", "b", difference=0.3, p=0.01),
        PredictionOutcome("c", "d", difference=0.3, p=0.03),
        PredictionOutcome("c", "e", difference=0.3, p=0.04),
        PredictionOutcome("e", "f", difference=-0.3, p=0.001),
        PredictionOutcome("g", "h", difference=0.3, p=float("nan")),
    ]
    monkeypatch.setattr(answers.Facts, "pairs", lambda *_: found)
    assert answers.Facts(ROOT).gaining("tuned", "it helps") == 1


def test_a_row_is_compared_with_one_of_another_section_seed_by_seed() -> None:
    def section(row: str, areas: dict[tuple[int, str], float], failed: str = "") -> SectionFacts:
        runs = pd.DataFrame(
            [
                {"row": row, "seed": seed, "task": task, "area": area, "learned": task != failed}
                for (seed, task), area in areas.items()
            ]
        )
        standing: Any = SimpleNamespace(part=SimpleNamespace(runs=runs))
        return SectionFacts(standing, standing, standing)

    one = section("a", {(20, "x"): 0.5, (20, "y"): 0.9, (21, "x"): 0.3, (22, "x"): 1.0})
    other = section("b", {(20, "x"): 0.1, (20, "y"): 0.7, (21, "x"): 0.4, (21, "z"): 0.2}, "z")
    assert one.gains_by_seed("a", other, "b") == pytest.approx([0.3, -0.1])


def test_rows_of_two_sections_are_the_same_but_for_the_settings_of_a_section() -> None:
    def section(*settings: str, areas: dict[str, float], sort: float = 1.0) -> SectionFacts:
        runs = pd.DataFrame({"row": areas.keys(), "area": areas.values(), "task": "copy"})
        runs.loc[len(runs)] = [next(iter(areas)), sort, "sort"]  # a task that the board waits for
        runs = runs.assign(seed=20, training=runs["row"], learned=True)
        rows = SimpleNamespace(settings=settings)
        part = SimpleNamespace(runs=runs, rows=rows, lacking=lambda board: ["sort"])
        standing: Any = SimpleNamespace(part=part)
        return SectionFacts(standing, standing, standing)

    wide = {"a (deep=4, wide=2)": 0.1, "b (deep=4, wide=2)": 0.5, "c (deep=4, wide=2)": 0.9}
    wide["b (deep=4, slow=1, wide=2)"] = 0.7  # another row
    found = section("wide=2", "deep=4", areas=wide).agreement(
        section(areas={"a": 0.2, "b": 0.8, "c": 0.6, "d": 1.0}, sort=0.0)
    )
    assert found.tasks == ["copy"]
    assert found.reaches.round(6).to_dict("list") == {
        "one": [0.1, 0.5, 0.9],
        "other": [0.2, 0.8, 0.6],
    }
    assert found.correlation == pytest.approx(0.5)


def test_what_another_row_needs_to_be_first_is_named() -> None:
    without = {"copy": "b", "sort": "a", "passkey": None, "seed 20": "b", "seed 21": "a"}
    runs = pd.DataFrame({"seed": [21, 20, 20]})
    standing: Any = SimpleNamespace(
        first_without=without,
        placed=["a", "b"],
        tasks=["sort", "copy", "passkey", "language"],
        part=SimpleNamespace(runs=runs),
    )
    facts = SectionFacts(standing, standing, standing)
    assert facts.overturning == ["copy", "seed 20"]
    assert facts.overturned == "Leave out copy or seed 20, and another row comes first."
    without.clear()
    assert facts.overturned == "It stays first whichever task or seed is left out."


def test_two_tasks_are_compared_by_the_rows_that_have_learned_both() -> None:
    cells = pd.DataFrame(
        {"s": [0.9, 0.95, 0.2, 0.4, None], "t": [0.1, 0.5, 0.3, None, 0.9]}, list("abcde")
    )
    standing: Any = SimpleNamespace(cells=lambda: cells)
    facts = SectionFacts(standing, standing, standing)
    assert facts.rank_correlation("s", "t") == (pytest.approx(0.5), 3)  # places 2, 3, 1 and 1, 3, 2
    assert facts.spread("t", "s", 0.9) == (0.1, 0.5, 2)
    assert facts.furthest_on("t") == ["e", "b", "c", "a"]  # and d has not learned it


def test_rows_reach_further_with_zeros_by_the_t_of_all_tasks_and_after_correction() -> None:
    """a: all by .5 and a little. b: as far ahead on three tasks, and 0 on the last, not learned.
    e and f: each p = .046 above d, which Holm makes .09.
    """
    areas = {
        "a": [0.7, 0.7, 0.71, 0.69],
        "b": [0.7, 0.7, 0.71, None],
        "c": [0.2, 0.21, 0.2, 0.19],
        "d": [0.0] * 4,
        "e": [0.7, 0.7, 0.71, 0.05],
        "f": [0.7, 0.71, 0.7, 0.05],
    }
    cells = pd.DataFrame(areas, list("stuv"), dtype=float).T
    standing: Any = SimpleNamespace(cells=lambda: cells, placed=list(areas))
    facts = SectionFacts(standing, standing, standing)
    assert facts.further_with_zeros("c") == ["a"], "and d reaches less far"
    assert facts.further_with_zeros("d") == ["a", "c"]


def test_tokens_are_right_by_how_far_their_source_is_over_all_seeds() -> None:
    """4 of 8 and 1 of 10 tokens with one seed, 8 of 8 and 12 of 24 with the other."""
    bins = [
        [(0, 0.5, 8, 0.5, 1), (0.5, 1, 10, 0.1, 1), (1, None, 9, 1.0, 1)],
        [(0, 0.5, 8, 1.0, 1), (0.5, 1, 24, 0.5, 1)],
    ]
    found = [
        changed(record("rope", {1: 1.0, 8: 0.5}, seed), {"views": [view("distance", 10, *each)]})
        for seed, each in enumerate(bins)
    ]
    measured = MeasuredRuns.of(found)
    board: Any = None
    facts = SectionFacts(standings_without_board(measured)[0], measured, board)
    assert facts.right("rope", "copy", 10, up_to=0.5) == 12 / 16
    assert facts.right("rope", "copy", 10) == 25 / 50
    assert facts.right("rope", "copy", 10, up_to=0.5, seed=1) == 1
    assert facts.area("rope", "copy", 1) == facts.area("rope", "copy")
    assert np.isnan(facts.area("rope", "copy", 2)) and facts.cell("rope", "copy", 2) == NOTHING
    for row, task, n in (("rope", "copy", 20), ("rope", "sort", 10), ("alibi", "copy", 10)):
        with pytest.raises(PosbenchError, match=r"no such tokens|no row alibi"):
            facts.right(row, task, n)


@pytest.mark.slow
def test_rows_agree_by_the_seeds_that_both_have() -> None:
    """Without one there is nothing to agree on."""
    level = {"rope": 0.2, "nope": 0.5, "alibi": 0.9}
    found = [
        record(row, {1: 1.0, 2: level[row], 8: level[row]}, seed, task=task)
        for row, seeds in (("rope", (0, 1)), ("nope", (0, 1)), ("alibi", (2, 3)))
        for seed in seeds
        for task in ("copy", "sort")
    ]
    measured = MeasuredRuns.of(found)
    board: Any = None
    facts = SectionFacts(standings_without_board(measured)[0], measured, board)
    assert facts.agreed("nope", "rope") and not facts.agreed("alibi", "rope")
    assert facts.loses_less(("nope", "rope"), ("rope", "nope"))
    assert not facts.loses_less(("alibi", "rope"), ("rope", "nope"))


def test_the_cost_of_learning_is_that_of_the_seeds_that_both_learned() -> None:
    """10 of 20 products on one task; 30 of 10 on the other, whose second seed only one learned."""
    runs = [("x", "s", 20, 10, True), ("x", "t", 20, 30, True), ("x", "t", 21, 10, True)]
    runs += [("y", "s", 20, 20, True), ("y", "t", 20, 10, True), ("y", "t", 21, 90, False)]
    columns = ["row", "task", "seed", "multiplications", "learned"]
    summary = pd.DataFrame(index=["x", "y"])
    standing: Any = SimpleNamespace(summary=summary, pool=pd.DataFrame(runs, columns=columns))
    facts = SectionFacts(standing, standing, standing)
    assert facts.costs("x", "y").to_dict() == {"s": 0.5, "t": 3.0}
    assert facts.cost("x", "y") == "1.75"


@pytest.mark.slow
def test_rows_reach_further_after_the_correction_of_holm(facts: answers.Facts) -> None:
    """The k-th smallest of n values of p times n - k + 1, and no less than those before it."""
    until = facts.section("encodings", "Encodings")
    assert until.standing.fitted is not None
    less = until.standing.fitted.differences("rope", until.placed)
    corrected, worst = {}, 0.0
    for k, (row, p) in enumerate(less["p"].dropna().sort_values().items()):
        worst = max(worst, float(p) * (len(less["p"].dropna()) - k))
        corrected[row] = worst
    sure = {row for row, p in corrected.items() if p < 0.05 and less.loc[row, "difference"] > 0}
    assert set(until.further_than("rope")) == sure and len(sure) < len(less)


@pytest.mark.slow
def test_what_a_panel_says_of_itself_is_on_its_page(facts: answers.Facts) -> None:
    """A budget, the tasks that it waits for, and its predictions, all pairs of them."""
    page = (ROOT / "results/encodings/leaderboard.md").read_text()
    until = facts.section("encodings", "Encodings")
    assert facts.section("served", "One scale").seeds_of_tasks == "2 seeds on 6 tasks"
    assert sum(map(int, re.findall(r"seeds? on (\d+)", until.seeds_of_tasks))) == until.num_tasks
    budget = page.partition("## What was learned with the multiplications of fox")[2]
    for row in ("path_blocked", "nope_short_conv"):
        shares = within(until.standing.pool, "fox")["learned"]
        assert f"| {row} | {100 * shares[row]:.0f} % |" in budget
    lacks = f"{len(until.waiting)} of 11 tasks: {', '.join(until.waiting)}."
    assert (f"Too few rows have been run on {lacks}" in page) == bool(until.waiting)
    said = "Without positions, a model reaches further than with explicit ones"
    pairs = facts.pairs("encodings", said)
    assert [each.second for each in pairs] == ["rope", "alibi", "t5"]
    assert all(f"| {each.first}, {each.second} | {each.common} |" in page for each in pairs)
    missed = ", ".join(f"{each.first} and {each.second}" for each in pairs if not each.holds)
    held = sum(each.holds for each in pairs)
    assert f"| {said} | {held} of 3 | {missed or NOTHING} |" in facts.predictions_table("encodings")


@pytest.mark.slow
def test_what_one_loses_beside_another_is_asked_of_each_seed(facts: answers.Facts) -> None:
    """At 1x and by seed: with factor 4, Self-Extend -.044 and -.059, NTK -.037 and -.139."""
    one = facts.section("served", "One scale")
    four, ntk = ((f"rope_{name}_served_4", f"rope_{name}") for name in ("self_extend", "ntk"))
    assert not one.loses_less(four, ntk, 1) and not one.loses_less(ntk, four, 1)
    eight, ntk = ((f"rope_{name}_served_8", f"rope_{name}") for name in ("self_extend", "ntk"))
    assert one.loses_less(eight, ntk, 1) and not one.loses_less(ntk, eight, 1)


@pytest.mark.slow
def test_of_a_hybrid_the_seeds_are_told_task_by_task(facts: answers.Facts) -> None:
    """As runs.csv has them; the interval by Student's t with four degrees of freedom, 2.776."""
    hybrids = facts.section("hybrids", "Hybrids")
    with_rope, without = "gated_deltanet_rope", "gated_deltanet_nope"
    runs = pd.read_csv(ROOT / "results/hybrids/runs.csv").set_index(["task", "method", "seed"])
    areas = runs["area"]["passkey_distractors"]
    less = (areas[without] - areas[with_rope]).to_numpy()
    half = 2.776 * less.std(ddof=1) / 5**0.5
    said = hybrids.over_seeds(without, with_rope, "passkey_distractors")
    assert said == f"{less.mean():.2f} ±{half:.2f}".replace("0.", ".")
    learned = runs["learned"]["kth_from_end_drawn"].astype(bool)
    assert hybrids.seeds_of(without, "kth_from_end_drawn") == f"{learned[without].sum()} of 5"


@pytest.mark.slow
def test_what_is_not_there_is_refused_with_what_was_meant(facts: answers.Facts) -> None:
    first = facts.section("main", "Encodings: zero-shot")
    with pytest.raises(PosbenchError, match="has no row alibbi: did you mean alibi"):
        first.reach("alibbi")
    with pytest.raises(PosbenchError, match="has no column height"):
        first.table(["rope"], ["height"])
    with pytest.raises(PosbenchError, match="a table of 10 rows is too long: at most 9"):
        first.table(first.placed[:10], ["reaches"])
    with pytest.raises(PosbenchError, match="board main has no section Decodings"):
        facts.section("main", "Decodings")
    with pytest.raises(PosbenchError, match="the records no longer say that one is two"):
        answers.holds(False, "one is two")


def test_each_short_answer_is_the_bold_sentence_below_its_question() -> None:
    page = "## 1. Who's first?\n\n**Nobody. Ever.**\nMore.\n\n### And then?\n\n**Later.**\n"
    assert answers.short_answers(page, "1.", "And").splitlines() == [
        "- [1. Who's first?](#1-whos-first)<br>Nobody. Ever.",
        "- [And then?](#and-then)<br>Later.",
    ]
    for other in ("2.", "More"):
        with pytest.raises(PosbenchError, match=f"begins '{re.escape(other)}'"):
            answers.short_answers(page, other)


def test_questions_are_in_the_order_of_the_list_of_short_answers() -> None:
    page = PAGES["docs/answers.md"]
    asked = re.findall(r"^## (\d+\. .+)$", page, re.M)
    listed = re.findall(r"^- \[(\d+\. .+?)\]\(#", page.partition("## How to read")[0], re.M)
    assert asked == listed and len(asked) == 20
    assert [int(question.partition(".")[0]) for question in asked] == list(range(1, 21))


def test_a_folder_without_templates_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answers.main([str(tmp_path)]) == 1
    assert "has no docs/templates: give the folder of the repository" in capsys.readouterr().err


@pytest.mark.slow
def test_the_verb_between_two_rows_follows_the_interval(facts: answers.Facts) -> None:
    first = facts.section("main", "Encodings: zero-shot")
    assert first.compared("fox", "rope") == "reaches further than"
    assert first.compared("rope", "fox") == "reaches less far than"
    assert first.compared("path", "fox") == "is not shown to differ from"
    assert first.cell("fox", "reverse") == NOTHING and first.cell("fox", "language") == ".99"


@pytest.mark.slow
def test_differences_between_sections_have_an_interval_and_the_sign_of_each_seed(
    facts: answers.Facts,
) -> None:
    one = facts.section("served", "One scale")
    runs, _ = one.measured.with_scores(one.measured.runs)
    scores = runs[runs["trained"]].pivot_table(index=["task", "seed"], columns="row", values="1x")
    for factor in (2, 4, 8):
        for base in ("rope_ntk", "rope_pi", "rope_short_base+yarn"):
            row = f"{base}_served_{factor}"
            lost = (scores[row] - scores[base]).dropna()
            by_seed = lost.groupby("seed").mean().round(9)
            agreed = bool(by_seed.gt(0).all() or by_seed.lt(0).all())
            assert one.agreed(row, base, 1) == agreed == one.change(row, base, 1).endswith("*")
            mean = lost.groupby("task").mean().mean()
            assert one.less(row, base, 1).startswith(number(float(mean)))
    assert not one.agreed("rope_ntk_served_2", "rope_ntk", 1)  # one seed loses nothing
    with pytest.raises(PosbenchError, match="no row rope_yarns"):
        one.less("rope_yarns", "rope_yarn")


@pytest.mark.slow
def test_the_rows_of_a_method_are_found_by_the_share_of_positions_of_their_setting(
    facts: answers.Facts,
) -> None:
    windows = facts.section("windows", "Windows")
    found = windows.by_share("rope_short_base+self_extend")
    assert sorted(found) == [0.05, 0.125, 0.25, 0.5]
    assert found[0.25] == "rope_short_base+self_extend"  # the default, which has no setting
    assert "0.125" in found[0.125]
    reaches = [windows.of(row)["reaches"] for row in found.values()]
    assert reaches == sorted(reaches, reverse=True)
    with pytest.raises(PosbenchError, match="not one row for each"):
        windows.by_share("rope_short_base+mesa")


@pytest.mark.slow
def test_what_differs_from_the_highest_at_a_length_is_counted_as_the_findings_count(
    facts: answers.Facts,
) -> None:
    """The page of the board says it for each host and length."""
    text = (ROOT / "results/main/leaderboard.md").read_text()
    for title in ("Extensions", "Extensions at base 10,000"):
        section = facts.section("main", title)
        chapter = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for length in (2, 4, 8):
            differing, others = section.differing_at(length)
            [line] = re.findall(rf"^(?:- )?At {length}x, .*$", chapter, re.M)
            assert f"{differing or 'None'} of {others} others" in line
            assert others == section.num_rows - 1


@pytest.mark.slow
def test_rows_tasks_and_seeds_are_those_of_other_pages(facts: answers.Facts) -> None:
    """The page of the board counts rows and tasks, and `runs.csv` has each run."""
    text = (ROOT / "results/main/leaderboard.md").read_text()
    runs = pd.read_csv(ROOT / "results/main/runs.csv")
    runs = runs[runs["protocol"] == "cpu"]
    for title, row in (
        ("Encodings: zero-shot", "hard_alibi"),
        ("Settings of the model", "nope_short_conv"),
    ):
        section = facts.section("main", title)
        counts = f"of {section.num_rows} rows have learned each of the {section.num_tasks} tasks"
        assert counts in text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        seeds = set(runs[runs["method"] == row].groupby("task")["seed"].nunique())
        assert {f"{count} seed{'s' * (count > 1)}" for count in seeds} == {section.seeds(row)}


@pytest.mark.slow
def test_numbers_for_conditions_are_those_that_are_shown(facts: answers.Facts) -> None:
    base = facts.section("main", "Extensions at base 10,000")
    assert number(base.value("rope_yarn", 8)) == base.number("rope_yarn", 8)
    assert base.less("rope_yarn", "rope", 8).startswith(number(base.gap("rope_yarn", "rope", 8)))
    assert base.gap("rope_yarn", "rope", 8) == -base.gap("rope", "rope_yarn", 8)


@pytest.mark.slow
def test_claims_are_counted_and_marked_as_their_page_has_them(facts: answers.Facts) -> None:
    text = (ROOT / "results/replications/claims.md").read_text()
    for start, by_seed in (("Verdicts on ", False), ("By seed: Verdicts on ", True)):
        [line] = re.findall(rf"^{start}(\d+ claims: .*)\.$", text, re.M)
        said = line.split(": ")[1].split(", ")
        assert f"{facts.count('replications', by_seed=by_seed)} claims" in line
        for each in said:
            verdict, _, count = each.rpartition(" ")
            assert facts.count("replications", verdict, by_seed=by_seed) == int(count)
    mirror = (
        "Without an extension, a base much larger than one at which most pairs turn goes further"
    )
    before = "Without an extension, a short base goes further than base 10,000"
    shown = facts.claims_table("extensions", [before, mirror])
    assert f"| {mirror} (post hoc) |" in shown and f"| {before} |" in shown
    assert f"| {mirror} (post hoc) |" in (ROOT / "results/extensions/claims.md").read_text()


@pytest.mark.slow
def test_tasks_on_which_a_side_fails_at_the_training_length_are_named(
    facts: answers.Facts,
) -> None:
    """As the tables of the claims page have them."""
    text = (ROOT / "results/extensions/claims.md").read_text()
    for claim in (
        "PoSE reaches four times the length from sequences of the training length",
        "YaRN is above NTK at large factors",
    ):
        part = text.split(f"### {claim}\n")[1].split("\n### ")[0]
        failed = re.findall(r"^\| (\w+) \|.* no: not testable \|$", part, re.M)
        assert facts.untestable("extensions", claim) == list(dict.fromkeys(failed))
