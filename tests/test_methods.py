"""The table of methods: what its rows compose, how they are chosen, and that a file of one's own
either adds to them or is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hydra
import pytest
from offered import CONF

from posbench.base.errors import ConfigError
from posbench.checks import command
from posbench.config import folders
from posbench.config import methods as table
from posbench.config.compose import compose, composing
from posbench.config.folders import own_names
from posbench.config.methods import methods
from posbench.config.options import options
from posbench.explain import catalogue as page

Answered = Callable[..., tuple[int | None, str, str]]


def test_every_row_is_an_encoding_and_an_extension_that_exist() -> None:
    assert {method.encoding for method in methods().values()} <= set(own_names("encoding"))
    assert {method.extension for method in methods().values()} <= set(own_names("extension"))
    assert len(set(methods().values())) == len(methods()), "two rows compose the same"


@pytest.mark.parametrize(
    ("method", "encoding", "extension"),
    [
        ("rope", "rope", "direct"),
        ("rope_ntk", "rope", "ntk"),
        ("rope_nope", "rope_nope", "direct"),
        ("rope_fine_tuned", "rope", "direct_fine_tuned"),
        ("rope_continued", "rope", "direct_continued"),
        ("rope_yarn_log_n", "rope", "both"),
        ("alibi_interpolate_distance", "alibi", "interpolate_distance"),
    ],
)
def test_a_method_chooses_its_encoding_and_its_extension(
    method: str, encoding: str, extension: str
) -> None:
    chosen = compose(f"method={method}")
    found = tuple(chosen.choices[group] for group in ("method", "encoding", "extension"))
    assert found == (method, encoding, extension)
    pair = compose(f"encoding={encoding}", f"extension={extension}").content
    for group in ("encoding", "extension"):
        assert chosen.content[group] == pair[group]


@pytest.mark.slow
def test_a_choice_on_the_command_line_wins_over_the_row() -> None:
    words = ["method=rope_ntk", "extension=yarn"]
    choices = hydra.compose("config", words, return_hydra_config=True).hydra.runtime.choices
    assert (choices.encoding, choices.extension) == ("rope", "yarn")


def test_the_rows_are_all_that_can_be_chosen() -> None:
    assert options("method") == sorted(methods()) == own_names("method")


def test_two_rows_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "methods.yaml").write_text(
        "layers: {rope_nope: [direct]}\nrotary: {rope: {all: [direct, nope]}}\n"
    )
    monkeypatch.setattr(table, "files", lambda package: tmp_path)
    monkeypatch.setattr(table, "cells", table.cells.__wrapped__)
    with pytest.raises(ValueError, match=r"two methods rope_nope: .* `rope: \[NAME: nope\]`"):
        methods.__wrapped__()


# -- a method of one's own -------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a method rope_mine, an extension of RoPE that posbench has not."""
    for name, text in (
        ("extension/mine.yaml", "_target_: posbench.extensions.direct.Direct\n"),
        (
            "method/rope_mine.yaml",
            "# @package _global_\n"
            "defaults: [override /encoding: rope, override /extension: mine]\n",
        ),
    ):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "mine"


@pytest.mark.slow
def test_a_method_of_ones_own_stands_beside_the_rows(mine: Path) -> None:
    with composing(mine):
        assert options("method") == sorted([*methods(), "rope_mine"])
        cfg = hydra.compose("config", ["method=rope_mine"], return_hydra_config=True)
        assert cfg.hydra.runtime.choices.extension == "mine"


@pytest.mark.slow
def test_help_lists_a_method_of_ones_own(mine: Path, answered: Answered) -> None:
    status, out, err = answered("--config-dir", str(mine), "--help")
    assert (status, err) == (0, "")
    listed = out.replace(",", " ").split()
    assert {"rope_mine", "mine", *own_names("method"), *own_names("extension")} <= set(listed)


def test_a_name_that_comes_near_one_of_ones_own_is_understood(
    mine: Path, answered: Answered
) -> None:
    status, _, err = answered("--config-dir", str(mine), "method=rope_mime")
    assert status == 1 and "did you mean rope_mine?" in err


@pytest.mark.slow
@pytest.mark.parametrize(("glob", "chosen"), [("alibi*", "alibi"), ("*mine", "rope_mine")])
def test_a_glob_finds_rows_and_files(
    glob: str, chosen: str, mine: Path, answered: Answered
) -> None:
    # A setting that is wrong in every run, so that nothing is trained.
    words = ("--config-dir", str(mine), "-m", f"method=glob({glob})", "training.steps=abc")
    status, out, err = answered(*words)
    assert status == 1 and err.endswith(" failed\n")
    assert f"method={chosen} training.steps=abc: training.steps must be a valid integer" in out


@pytest.mark.parametrize(
    ("line", "offered"),
    [("method=rope_nt", "method=rope_ntk"), ("method=alibi_l", "method=alibi_learned")],
)
def test_a_shell_completes_the_rows(
    line: str, offered: str, answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_LINE", f"posbench {line}")
    monkeypatch.setenv("COMP_POINT", str(len(f"posbench {line}")))
    status, out, err = answered("-sc", "query=bash")
    assert (status, err) == (0, "")
    assert offered in out.split()


# -- clashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", folders.GROUPS)
def test_a_file_with_the_name_of_one_of_posbench_is_refused(group: str, tmp_path: Path) -> None:
    taken = own_names(group)[0]
    path = tmp_path / group / f"{taken}.yaml"
    path.parent.mkdir()
    path.write_text("a: 1\n")
    said = f"{path} has the name of posbench's own {group} {taken}: rename the file, e.g. my_"
    with pytest.raises(ConfigError) as refused, composing(tmp_path):
        pass
    assert str(refused.value).startswith(said)


@pytest.fixture
def clash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("mine/encoding/rope.yaml")
    path.parent.mkdir(parents=True)
    path.write_text("_target_: posbench.encodings.nope.NoPE\n")
    return path


CLASH = (
    "posbench: mine/encoding/rope.yaml has the name of posbench's own encoding rope: rename the "
    "file, e.g. my_rope.yaml\n"
)


@pytest.mark.parametrize("words", [("encoding=rope",), ("--help",), ("-m", "method=glob(*)")])
def test_the_command_refuses_a_clash(
    words: tuple[str, ...], clash: Path, answered: Answered
) -> None:
    assert answered("--config-dir", "mine", *words) == (1, "", CLASH)


@pytest.mark.parametrize(
    "words", [["mine/encoding/rope.yaml"], ["--config-dir", "mine", "encoding=rope"]]
)
def test_the_check_refuses_a_clash(
    words: list[str], clash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 1
    assert capsys.readouterr().err == CLASH


def test_the_catalogue_refuses_a_clash(clash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["--config-dir", "mine", "rope"]) == 1
    assert capsys.readouterr().err == CLASH


def test_the_catalogue_says_which_method_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["rope_ntkk"]) == 1
    assert "method=rope_ntkk is unknown: did you mean rope_ntk?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_files_of_posbench_itself_are_no_clash() -> None:
    folders.check(CONF)
    folders.check_file(CONF / "encoding/rope.yaml", "encoding")


def test_the_folder_of_a_group_is_not_the_folder_that_holds_it(
    clash: Path, answered: Answered
) -> None:
    clash.rename(clash.with_name("mine.yaml"))
    status, _, err = answered("--config-dir", "mine/encoding", "encoding=mine")
    assert (status, err) == (
        1,
        "posbench: mine/encoding holds no folder encoding/, it is one: give the folder around it, "
        "--config-dir mine\n",
    )
