"""Words of the command line: what Hydra reads in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.errors import OverrideParseException

from posbench.composing.words import Word


@pytest.mark.parametrize(
    ("text", "group", "key", "section"),
    [
        ("method=rope", "method", "method", "method"),
        ("encoding.base=1e3", "encoding.base", "encoding.base", "encoding"),
        ("+encoding@encoding.host=t5", "encoding", "encoding@encoding.host", "encoding"),
        ("++force=true", "force", "force", "force"),
        ("~training.steps", "training.steps", "training.steps", "training"),
        ("hydra/launcher=cores", "hydra/launcher", "hydra/launcher", "hydra/launcher"),
    ],
)
def test_a_key_has_no_sign(text: str, group: str, key: str, section: str) -> None:
    word = Word.of(text)
    assert (word.group, word.key, word.section) == (group, key, section)
    assert not word.several and word.each() == [text], "as it was written"


@pytest.mark.parametrize(
    ("text", "makes_row"),
    [
        ("method=rope", True),
        ("+extension.scale=4", True),
        ("encoding@encoding.host=t5", True),
        ("model.qk_norm=true", True),
        ("model.width=64", False),
        ("qk_norm=true", False),
        ("training.steps=5", False),
        ("task=copy", False),
    ],
)
def test_a_word_makes_a_row_or_its_test(text: str, makes_row: bool) -> None:
    assert Word.of(text).makes_row == makes_row


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("seed=1,2", ["1", "2"]),
        ("seed=range(10,13)", ["10", "11", "12"]),
        ("++encoding.base=choice(5,6.5)", ["5", "6.5"]),
        ("training.learning_rate=[1e-3],[2e-3]", ["[0.001]", "[0.002]"]),
        ("method=glob(rope_yarn_tu*,exclude=*turns*)", ["rope_yarn_tuned"]),
    ],
)
def test_several_values_are_those_of_a_sweep(text: str, values: list[str]) -> None:
    word = Word.of(text)
    assert word.several and word.values() == values
    head = text.partition("=")[0]
    assert word.each() == [f"{head}={value}" for value in values]


def test_a_list_is_one_value() -> None:
    word = Word.of("evaluation.multiples=[1,2]")
    assert not word.several and word.values() == ["[1,2]"]


def test_a_pattern_matches_what_is_in_folders_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding/rope_mine.yaml").touch()
    assert Word.of("encoding=glob(rope_m*)").values([tmp_path]) == ["rope_mine"]
    assert Word.of("encoding=glob(rope_m*)").values() == []
    assert Word.of("encoding.base=glob(*)").values() == []


def test_what_hydra_cannot_read_is_no_word() -> None:
    with pytest.raises(OverrideParseException):
        Word.of("rope")
