"""The page of all names: every option once, each with what it is and where it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from offered import CONF

from posbench.boards.page import BOARDS
from posbench.conf import reference as listing
from posbench.config import families
from posbench.config.folders import GROUPS, own_names
from posbench.config.methods import methods
from posbench.config.provenance import targets
from posbench.showing.pages import docstring

PAGE = (CONF / "README.md").read_text(encoding="utf-8")
CLASSES = sorted(
    set().union(
        *(
            targets(families.content(group, name))
            for group in ("encoding", "extension", "task")
            for name in own_names(group)
        )
    )
)
NAMES = [(group, name) for group in GROUPS for name in own_names(group)]


def sections() -> dict[str, str]:
    """The page, cut at the headings of its groups."""
    parts = re.split(r"^## (.+)\n", PAGE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, below its heading."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [row for row in found if row[0] not in ("name", "---")]


def tables(group: str) -> dict[str, list[str]]:
    """The names below each heading of a group."""
    parts = re.split(r"^### (.+)\n", sections()[group], flags=re.M)
    below = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {heading: [row[0].strip("`") for row in rows(text)] for heading, text in below.items()}


# -- the page --------------------------------------------------------------------------------------


@pytest.mark.slow  # as `make check` does
@pytest.mark.parametrize("name", listing.PAGES)
def test_the_committed_page_is_what_the_command_writes(name: str) -> None:
    committed = (CONF / name).read_text(encoding="utf-8")
    assert listing.PAGES[name]() == committed, f"run `{listing.COMMAND}`"


def test_a_page_that_is_out_of_date_is_refused_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "files", lambda package: tmp_path)
    pages = {"README.md": lambda: "all of it: é\n", "RECIPES.md": lambda: "rows\n"}
    monkeypatch.setattr(listing, "PAGES", pages)
    (tmp_path / "RECIPES.md").write_text("rows\n")
    for stale in (None, "some of it\n"):
        if stale is not None:
            (tmp_path / "README.md").write_text(stale)
        assert listing.main(["--check"]) == 1
        said = f"posbench: regenerating changes conf/README.md: run `{listing.COMMAND}`\n"
        assert capsys.readouterr().err == said
    assert (tmp_path / "README.md").read_text() == "some of it\n", "--check wrote something"
    assert listing.main([]) == 0
    assert (tmp_path / "README.md").read_bytes() == "all of it: é\n".encode()
    assert listing.main(["--check"]) == 0


def test_one_command_runs_what_writes_each_page() -> None:
    root = CONF.parent
    recipe = (root / "Makefile").read_text().split("\npages:")[1].split("\n\n")[0]
    tables = [root / "tests/ORACLES.md", root / "tests/mutants/RESULTS.md"]
    for path in [*sorted(CONF.glob("*.md")), *tables]:
        written = re.search(r"(?:Generated|Written) by `python (?:-m )?([\w./]+)", path.read_text())
        assert written and f" {written[1]} " in recipe, path.name


def test_the_boards_that_are_written_are_those_that_pages_lead_to() -> None:
    [written] = re.findall(r"^BOARDS := (.*)$", (CONF.parent / "Makefile").read_text(), re.M)
    assert sorted(written.split()) == sorted(BOARDS.values())


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_of_a_group_is_there_once(group: str) -> None:
    assert sorted(row[0] for row in rows(sections()[group])) == sorted(
        f"`{name}`" for name in own_names(group)
    )


def test_every_group_is_there_with_what_it_is_and_its_default() -> None:
    assert sorted(sections()) == sorted(GROUPS)
    for group, meaning in GROUPS.items():
        usual = "none." if group in ("experiment", "board") else "`"
        assert f"\n`{group}=NAME` chooses {meaning}. The default is {usual}" in sections()[group]
    assert "The default is `passkey`." in sections()["task"]


def test_every_row_has_a_description_of_its_own() -> None:
    for group, text in sections().items():
        said = [row[1] for row in rows(text)]
        assert all(each.endswith((".", "?")) for each in said), group
        assert len(set(said)) == len(said), f"two rows of {group} say the same"


def test_every_row_has_the_cells_of_its_table() -> None:
    """A bar inside a formula would end its cell."""
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.M):
        lines = block.splitlines()
        assert {len(re.split(r"(?<!\\)\|", line)) for line in lines} == {lines[0].count("|") + 1}
        assert len(lines) > 2


@pytest.mark.parametrize("target", CLASSES)
def test_a_class_begins_with_one_short_sentence(target: str) -> None:
    """Its paragraph is the description in tables, which show no formulas: those follow it."""
    first = " ".join(docstring(target).split("\n\n")[0].split())
    assert 0 < len(first) <= 120, f"{len(first)} characters: {first}"
    assert first.endswith(".") and ". " not in first and "$" not in first and "arXiv" not in first


@pytest.mark.slow
def test_a_yaml_begins_with_a_short_sentence() -> None:
    for group, name in NAMES:
        meaning = listing.option(group, name).meaning
        assert len(meaning) <= 160 and "$" not in meaning, (group, name)


def test_every_source_is_a_link_to_arxiv_and_named_nowhere_else() -> None:
    for row in rows(PAGE):
        links = row[-1].split(", ") if row[2:] and row[-1] else []
        for link in links:
            assert re.fullmatch(r"\[(\d{4}\.\d{5})\]\(https://arxiv\.org/abs/\1\)", link), link
        assert len(set(links)) == len(links)
        assert "arXiv" not in row[1]


# -- groupings -------------------------------------------------------------------------------------


def test_encodings_stand_under_the_families_of_the_methods() -> None:
    families = tables("encoding")
    assert next(iter(families)) == "None, absolute" and "Others" not in families
    assert families["Relative vectors"] == [
        "shaw", "transformer_xl", "xlnet", "tener", "deberta", "projected_logits",
    ]  # fmt: skip
    assert families["Rotary"][0] == "rope"
    assert families["Rotary"][-1] == "rope_short_base", "it is RoPE with another base"
    of = {name: family for family, found in families.items() for name in found}
    for family, found in tables("method").items():
        assert {of[methods()[name].encoding] for name in found} == {family}


def test_extensions_stand_under_what_they_change() -> None:
    kinds = tables("extension")
    assert kinds["Frequencies"][:2] == ["pi", "ntk"]
    assert kinds["Two of them, one after the other"] == ["both"]
    assert {"clamp", "table_tiling"} <= set(list(kinds.values())[-1])
    needed = {row[0]: row[2] for row in rows(sections()["extension"]) if len(row) == 4}
    assert needed["`clamp`"] == "distance"
    assert needed["`table_tiling`"] == "rows"
    assert needed["`inkling_temperature`"] == needed["`yarn_temperature`"] == "temperature"
    assert needed["`block_causal`"] == "mask"
    assert list(needed.values()) == sorted(needed.values())


def test_tasks_stand_under_their_kinds() -> None:
    kinds = tables("task")
    assert "Others" not in kinds, "name its kind in conf/tasks.yaml"
    assert {"copy", "copy_small", "prefix_lookup"} <= set(kinds["Copy"])
    assert kinds["Smoke tests"] == ["first", "majority"]


# -- one row ---------------------------------------------------------------------------------------


def test_a_row_says_what_its_class_says_first() -> None:
    found = listing.option("encoding", "alibi")
    said = "A bias falls in proportion to the distance, with a fixed slope for each head."
    assert found.meaning == said
    assert found.sources == ("2108.12409",)
    assert listing.option("task", "parity").sources == ("2207.02098", "2305.19466")


@pytest.mark.parametrize(
    ("cited", "sources"), [([], ("2309.16039",)), (["arXiv 2101.00001v2"], ("2101.00001",))]
)
def test_a_yaml_around_another_class_says_it_itself(
    monkeypatch: pytest.MonkeyPatch, cited: list[str], sources: tuple[str, ...]
) -> None:
    """Up to the end of a sentence; the paper is that of the class if it names none."""
    assert listing.option("extension", "abf").sources == ("2309.16039",)
    lines = ["abf, in words", "that go on.", *cited, "No more of them."]
    monkeypatch.setattr(families, "head", lambda group, name: lines)
    found = listing.option.__wrapped__("extension", "abf_tuned")
    assert found.meaning == "abf, in words that go on."
    assert found.sources == sources


def test_a_yaml_that_says_nothing_has_other_settings_of_a_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(families, "head", lambda group, name: [])
    silent = listing.option.__wrapped__
    assert silent("extension", "abf_tuned").meaning == "`abf` with other settings."
    assert silent("encoding", "rope_short_base").meaning == "`rope` with other settings."
    assert silent("task", "copy_small").meaning == "`copy` with other settings."


def test_an_extension_around_a_bare_name_has_it_as_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"defaults": ["yarn", {"/extension@second": "log_n"}, "_self_"]}
    monkeypatch.setattr(families, "content", lambda group, name: content)
    assert listing._parts("extension", "mine") == ["yarn", "log_n"]


def test_a_method_names_what_it_composes() -> None:
    def said(name: str) -> str:
        return listing.option("method", name).meaning

    assert said("rope") == "`rope` as it was trained."
    assert said("rope_ntk") == "`rope` with `ntk`."
    assert said("rope_yarn_log_n") == "`rope` with `both` (`yarn` and `log_n`)."
    assert said("rope_qk_norm_yarn") == "`rope` with `yarn` and `qk_norm` of the model."
    assert listing.option("method", "rope_pi").sources == ("2104.09864", "2306.15595")
