"""Words of the command line: what Hydra reads in them."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
from hydra.errors import OverrideParseException

from posbench import application
from posbench.base.errors import ConfigError
from posbench.config import mistakes
from posbench.config.words import Word, quoted, readable


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


ODD = ["a b", "ümlaut", "it's", "(x)", "[a", "a,b", "a=b", "#x", "~/x", "1", "1e3", "null", "True"]
ODD += [" a ", "a\\", "a\\'b", "range(3)", "glob(*)", '"q"', "", "a;b", "$x", "rope", "../a/b.c"]


@pytest.mark.parametrize("text", ODD)
def test_hydra_reads_a_quoted_text_as_it_is(text: str) -> None:
    assert Word.of(f"key={quoted(text)}").override.value() == text


@pytest.mark.parametrize("text", ["rope", "../a/b.c", "a b", "$x", ""])
def test_a_text_that_hydra_reads_anyway_has_no_quotes(text: str) -> None:
    assert quoted(text) == text


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("null", None), ("[1,2]", [1, 2]), ("(x)", "(x)"), ("ü", "ü")]
)
def test_quotes_are_for_what_hydra_could_not_read(text: str, value: object) -> None:
    assert Word.of(f"key={readable(text)}").override.value() == value
    assert Word.of(f"key={readable('1,ab')}").values() == ["1", "ab"]


# -- words that say too much -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=rope method=alibi", "method=rope and method=alibi set the same: leave one out"),
        ("seed=1 seed=2", "seed=1 and seed=2 set the same: leave one out"),
        ("encoding.base=5 +encoding.base=6", "encoding.base=5 and .encoding.base=6 set the same"),
        ("method=rope encoding=alibi", "method=rope is a row of encoding rope, and encoding=alibi"),
        ("method=alibi,rope encoding=rope", "method=alibi is a row of encoding alibi"),
        ("method=rope_yarn extension=ntk", "write encoding=rope extension=ntk"),
        ("method=rope_yarn extension=direct", "method=rope_yarn has the extension yarn"),
        ("method=mine encoding=rope", "method=mine is a row of encoding decay"),
        ("task=passkey.yaml", "task=passkey.yaml names a file, .*: write task=passkey$"),
        ("method= rope", "no spaces around =, as in method= rope: write method=rope"),
        ("method = rope", "no spaces around =, as in method = rope: write method=rope"),
        ("seed=1 method =rope", "no spaces around =, as in method =rope: write method=rope"),
    ],
)
def test_two_words_that_exclude_each_other_are_both_named(
    words: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "method").mkdir()
    (tmp_path / "method/mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /encoding: decay\n"
    )
    with pytest.raises(ConfigError, match=said):
        mistakes.check(words.split(), [tmp_path])


@pytest.mark.parametrize(
    "words",
    [
        "method=rope extension=yarn",
        "method=rope encoding=rope",
        "method=rope_yarn extension=yarn encoding=rope",
        "method=rope_qk_norm extension=pi",
        "method=rope,alibi extension=direct,pi seed=1,2",
        "board=main method=rope_yarn extension=ntk",
        "encoding=alibi extension=direct",
        "method=ssmax encoding@encoding.host=alibi",
        "seed=1 seed=1",
        "method=mine extension=pi",
        "logger.name= seed=1",
    ],
)
def test_words_that_agree_are_left_alone(words: str, tmp_path: Path) -> None:
    (tmp_path / "method").mkdir()
    (tmp_path / "method/mine.yaml").write_text("defaults: [override /encoding: decay]\n")
    mistakes.check(words.split(), [tmp_path])


# -- options among them ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "-m method=rope seed=0,1 --config-dir mine",
        "method=rope -m seed=0,1 --config-dir mine",
        "--config-dir mine method=rope seed=0,1 --multirun",
        "method=rope --config-dir=mine seed=0,1 -m",
    ],
)
def test_an_option_may_stand_anywhere(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["posbench", *written.split()])
    given = application._arguments(sys.argv[1:])
    assert (given.multirun, given.config_dir) == (True, "mine")
    assert given.overrides == ["method=rope", "seed=0,1"] == sys.argv[-2:]
    again = application.get_args_parser().parse_args(sys.argv[1:])  # as Hydra reads it
    assert vars(again) == vars(given) | {"config_dir": None}, "posbench gives Hydra the folder"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("--method rope", "--method is no option: write method=rope"),
        ("--seed=3", "--seed=3 is no option: write seed=3"),
        ("--tasks list", "--tasks is no option: write task=list"),
        ("seed=1 --training.steps 5", "--training.steps is no option: write training.steps=5"),
        ("--method", "--method is no option: write method=VALUE"),
        ("--frobnicate", "--frobnicate is no option: `python -m posbench --help`"),
        ("--cfg jobb", "argument --cfg/-c: invalid choice: 'jobb'"),
    ],
)
def test_a_setting_written_as_an_option_is_named_as_a_word(written: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        application._arguments(written.split())
    assert str(refused.value).startswith(said)


def test_the_version_is_that_of_posbench(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        application._arguments(["seed=1", "--version"])
    said = capsys.readouterr().out
    assert not ended.value.code
    assert f"posbench {importlib.metadata.version('posbench')}" in said and "torch " in said
