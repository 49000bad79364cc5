"""The catalogue has a row for every method, with formulas that are formulas and declarations that
are the classes'.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from offered import thinned
from omegaconf import OmegaConf

from posbench.config.compose import compose
from posbench.explain import catalogue, probe
from posbench.running.subject import Subject


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    assert (
        catalogue.main(["rope", "rope_ntk", "alibi", "learned", "t5", "--output", str(folder)]) == 0
    )
    return folder


@pytest.mark.slow
def test_the_page_holds_all_it_shows(folder: Path) -> None:
    page = (folder / "catalogue.html").read_text()
    assert page.count("<section") == 1 + page.count("<svg") == 6
    assert not re.search(r'(src|href)="(?!#|data:|https://arxiv\.org/abs/)', page), (
        "nothing is fetched from elsewhere"
    )
    assert "steepness=4.32" in page and "${" not in page
    assert sorted(path.stem for path in folder.glob("*.svg")) == [
        "alibi",
        "learned",
        "rope",
        "rope_ntk",
        "t5",
    ]


@pytest.mark.slow
def test_no_formula_is_left_as_source(folder: Path) -> None:
    page = (folder / "catalogue.html").read_text()
    prose = re.sub(
        r"<math.*?</math>|<svg.*?</svg>|<code>.*?</code>|\$\{.*?\}", "", page, flags=re.S
    )
    assert "$" not in prose and "\\" not in prose


@pytest.mark.parametrize("name", thinned("method"))
def test_every_method_is_described_with_formula_and_source(name: str) -> None:
    run = Subject(f"method={name}").made()
    parts = [part for layer in run.model().encodings for part in catalogue.parts_of(layer)]
    texts = [catalogue.describe(type(part)) for part in parts]
    assert all(text.text for text in texts)
    assert any("<math" in text.text for text in texts) or name.startswith("nope")
    said = ("kexue.fm", "tilderesearch.com", "no paper")  # blogs, a library's own invention
    assert any(text.sources or any(words in text.text for words in said) for text in texts), (
        f"{name} names no source"
    )


def test_the_curves_are_the_formula() -> None:
    alibi, rope = (probe.Probe(f"method={name}") for name in ("alibi_published", "rope"))
    d, content = np.arange(alibi.curves.shape[1]), probe.WIDTH**0.5
    np.testing.assert_allclose(
        alibi.curves, [content - 2.0 ** (-2 * (h + 1)) * d for h in range(4)], atol=1e-9
    )
    theta = 10_000.0 ** (-np.arange(16) / 16)
    np.testing.assert_allclose(
        rope.curves[0], content * np.cos(d[:, None] * theta).mean(-1), atol=1e-9
    )
    assert alibi.map[4, 3] == pytest.approx(content - 0.25)
    np.testing.assert_allclose(rope.weights.sum(-1), np.arange(1, probe.MAP + 1))


@pytest.mark.slow
def test_the_properties_are_those_of_the_classes() -> None:
    shown = catalogue.properties(probe.Probe("method=t5"))
    assert (
        shown["path"] == "fused by rows"
        and shown["relative"] == "yes"
        and shown["tied over layers"] == "table"
    )
    legal = shown["extensions"].split(", ")
    assert "direct" in legal and "ntk" not in legal and shown["ids asked of the task"] == "index"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "row"), [("encoding=alibi", "alibi"), ("extension=yarn", "rope_yarn")]
)
def test_a_row_is_called_as_on_the_leaderboard(words: str, row: str) -> None:
    assert catalogue.entry(words).method == row


def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.main(["nothing"]) == 1
    assert capsys.readouterr().err.startswith(
        "posbench: method=nothing is unknown: `python -m posbench --help` lists all of them"
    )


SILENT = {"Direct", "Both"}
"""A page has no words for what changes nothing, nor for a list: its parts are described instead."""
MADE = {
    "longrope_search": ["LongRoPESearch", "LongRoPEExponents"],
    "longrope2_search": ["LongRoPE2Search", "LongRoPE2Factors"],
    "dpe_search": ["DPESearch", "DPE"],
    "pi_by_layer_search": ["LayerFactorsSearch", "LayerFactors"],
    "ntk_by_layer_search": ["LayerFactorsSearch", "LayerFactors"],
}
"""Where a class makes what is inside it, the YAML does not name it."""


def classes(node: object) -> list[str]:
    """The classes that a YAML names, in their order in it."""
    if isinstance(node, Mapping):
        own = [node["_target_"].rsplit(".", 1)[1]] if "_target_" in node else []
        return own + [each for value in node.values() for each in classes(value)]
    return [each for value in node for each in classes(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("name", thinned("extension"))
def test_every_extension_is_described_and_so_is_what_is_inside_it(name: str) -> None:
    """Not by its name: an attribute of one's own may be called like those of a sequence."""
    applied = list(catalogue.applied(Subject("method=rope").extension(name)))
    assert all(catalogue.describe(type(each)).text for each in applied)
    node = OmegaConf.to_container(compose(f"extension={name}").cfg().extension)
    listed = [each for each in classes(node) if each not in SILENT]
    assert [type(each).__name__ for each in applied] == MADE.get(name, listed)


@pytest.mark.slow
def test_what_is_described_of_nested_extensions_is_what_they_do() -> None:
    found = {
        name: [
            type(each).__name__
            for each in catalogue.applied(Subject("method=rope").extension(name))
        ]
        for name in ("direct", "both", "by_parts", "yarn_tuned", "direct_continued", "pose")
    }
    assert found == {
        "direct": [],
        "both": ["YaRN", "LogN"],
        "by_parts": ["ByParts"],
        "yarn_tuned": ["Tuned", "YaRN"],
        "direct_continued": ["FineTuned"],
        "pose": ["FineTuned", "PI", "SkipWise"],
    }
