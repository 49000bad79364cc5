"""Files of strangers that were written to do harm: each ends in one sentence, without effect.

What asks to be called or read is in test_building.py, archives are in test_bundles.py, and records
in test_hostile_records.py and test_verify.py.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posbench.base.disk import Lock, write_whole
from posbench.base.errors import PosbenchError, Unwritable, of_limits
from posbench.boards import command as leaderboard
from posbench.boards.claims.claim import read_claims
from posbench.checks.command import main as check
from posbench.config import board, folders
from posbench.config.exit_status import of_the_system
from posbench.pretrained.command import main as pretrained

Answered = Callable[..., tuple[int | None, str, str]]

NOPE = "_target_: posbench.encodings.nope.NoPE\n"
BOMB = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
YAML: dict[str, tuple[str | bytes, str]] = {
    "aliases that double and double": (NOPE + BOMB, "it has more than 20,000 values"),
    "a list inside itself": (NOPE + "x: &a [*a]\n", "*a is a part of itself"),
    "a section inside itself": (NOPE + "x: &a {y: {z: *a}}\n", "*a is a part of itself"),
    "brackets in brackets": (NOPE + f"x: {'[' * 5000}{']' * 5000}\n", "50 inside each other"),
    "a megabyte": (NOPE + "#" * 1_100_000, "bytes are more than it can have"),
    "a number of 5,000 digits": (NOPE + f"x: {'9' * 5000}\n", "more digits than can be read"),
    "binary": (NOPE + "x: [{y: !!binary aGVsbG8=}]\n", "x.0.y is binary: write it as text"),
    "a key that is null": (NOPE + "null: 1\n", "Incompatible key type"),
    "a set": (NOPE + "x: !!set {a, b}\n", "cannot be read: "),
    "a key that is true": (NOPE + "true: 3\n", "the key True is no text"),
    "a key that is a list": (NOPE + "? [1, 2]\n: 3\n", "found unhashable key"),
    "a name of Python": (NOPE + "x: !!python/name:os.system\n", "a constructor for the tag"),
    "a new object": (NOPE + "x: !!python/object/new:os.system [id]\n", "a constructor for the tag"),
    "not UTF-8": (b"_target_: \xff\xfe\n", "can't decode byte 0xff"),
    "a choice of itself": ("defaults: [evil]\n" + NOPE, "choose each other in a ring"),
    "a choice by the environment": ("defaults: ['${oc.env:HOME}']\n" + NOPE, "interpolation"),
    "a choice outside by its group": ("defaults: [{'../..': x}]\n" + NOPE, "leads out of "),
    "a sign for terminals in a key": (NOPE + '"\\e[31mx": 1\n', r"\x1b[31mx"),
    "a sign for terminals in a target": ('_target_: "\\e[31mx.Y"\n', r"\x1b[31mx.Y"),
    "force": ("# @package _global_\nforce: true\n", "evil.yaml sets force, which is the user's"),
}


@pytest.mark.parametrize(("text", "said"), YAML.values(), ids=YAML)
def test_yaml_that_was_written_to_do_harm_is_one_sentence(
    text: str | bytes, said: str, answered: Answered, tmp_path: Path
) -> None:
    path = tmp_path / "mine/encoding/evil.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "x.yaml").write_text(NOPE)
    began = time.process_time()
    status, _, err = answered("--config-dir", "mine", "protocol=smoke", "encoding=evil")
    assert status == 1 and err.startswith("posbench: ") and said in err, err
    assert err.count("\n") == 1 and err[:-1].isprintable() and len(err) < 400
    assert not (tmp_path / "results").exists() and time.process_time() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["evil", "mood"])
def test_a_ring_of_choices_is_the_same_sentence_for_other_commands(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for here, there in (("evil", "mood"), ("mood", "evil")):
        path = tmp_path / f"encoding/{here}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"defaults: [{there}]\n")
    assert check(["--config-dir", str(tmp_path), f"encoding={name}"]) == 1
    assert "choose each other in a ring" in capsys.readouterr().err


MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "it is a pipe"),
    "a folder": (Path.mkdir, "it is a folder"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "No such file"),
}


@pytest.mark.fault("YAML of one's own that is a pipe, a folder, or a link to what is none")
@pytest.mark.parametrize(("make", "said"), MADE.values(), ids=MADE)
def test_yaml_that_is_no_file_is_named_and_not_waited_for(
    make: Callable[[Path], object], said: str, answered: Answered, tmp_path: Path
) -> None:
    path = tmp_path / "mine/encoding/evil.yaml"
    path.parent.mkdir(parents=True)
    make(path)
    status, _, err = answered("--config-dir", "mine", "protocol=smoke", "method=rope")
    assert status == 1 and "encoding/evil.yaml cannot be read" in err and said in err, err
    assert err.count("\n") == 1 and not (tmp_path / "results").exists()


LONG = "é" * 5000


@pytest.mark.parametrize("word", [f"method={LONG}", f"{LONG}=3", f"seed={LONG}"])
def test_of_a_word_that_nobody_reads_to_its_end_both_ends_are_said(
    word: str, answered: Answered
) -> None:
    status, out, err = answered(word)
    assert status == 1 and not out and len(err) < 600 and "é…é" in err and "Errno" not in err, err


def test_what_the_system_refuses_has_a_remedy_and_no_number() -> None:
    gone = OSError(errno.ENOENT, "No such file or directory", "there")
    said = "there cannot be used (No such file or directory): give the path of what is there"
    assert of_the_system(gone) == said
    broken = OSError(errno.EIO, "Input/output error", "disk")
    assert of_the_system(broken) == "disk cannot be used (Input/output error): give another one"
    assert of_the_system(OSError("no file")) == "no file"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "said"),
    [
        (f"seed={'9' * 5000}", "a number has more digits than can be read: give a smaller one"),
        ("task.num_symbols=1000000000000", "memory does not hold what this needs"),
        (
            "encoding.head_width=90",
            "RoPE cannot be applied to 4 tokens and 2 heads of 32 channels (RuntimeError: ",
        ),
    ],
)
def test_what_is_larger_than_can_be_worked_with_is_one_sentence(
    word: str, said: str, answered: Answered
) -> None:
    status, _, err = answered("protocol=smoke", "task=copy", "method=rope", word)
    assert status == 1 and err.count("\n") == 1 and err.startswith(f"posbench: {said}"), err


def test_errors_that_are_of_no_limit_keep_their_frames() -> None:
    deep = RecursionError("maximum recursion depth exceeded")
    assert str(of_limits(deep)).startswith("what was given is nested too deeply")
    gpu = RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
    assert str(of_limits(gpu)).startswith("memory does not hold")
    for other in (RuntimeError("shapes"), ValueError("digits"), TypeError("can't allocate memory")):
        assert of_limits(other) is None


@pytest.mark.parametrize("word", ["method=\x1b[31mx", "--\x1b[31mx", "\x1b]0;x\x07=3", "\u202ex=3"])
def test_no_sentence_has_signs_that_a_terminal_obeys(word: str, answered: Answered) -> None:
    status, out, err = answered(word)
    assert status == 1 and not out and err[:-1].isprintable(), err


@pytest.mark.parametrize("name", ["torch", "numpy", "hydra", "sitecustomize", "json", "posbench"])
def test_a_module_in_a_folder_takes_the_place_of_no_other(name: str, tmp_path: Path) -> None:
    """What is imported later, such as torch, is found where it is installed."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit('was imported')\n")
    before = list(sys.path)
    with folders.importable([tmp_path]):
        assert sys.path[: len(before)] == before and sys.path[-1] == str(tmp_path)
    assert sys.path == before


@pytest.mark.slow
def test_modules_with_names_of_installed_ones_are_not_imported_by_a_run(tmp_path: Path) -> None:
    (tmp_path / "mine/encoding").mkdir(parents=True)
    (tmp_path / "mine/encoding/evil.yaml").write_text(NOPE)
    for name in ("torch", "numpy", "lightning", "pandas", "sitecustomize"):
        (tmp_path / f"mine/{name}.py").write_text(f"open('{tmp_path}/mark', 'w')\n")
    (tmp_path / "mine/evil.pth").write_text(f"import os; open('{tmp_path}/mark', 'w')\n")
    words = ["--config-dir", "mine", "protocol=smoke", "encoding=evil", "training.steps=1"]
    done = subprocess.run(
        [sys.executable, "-m", "posbench", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and not (tmp_path / "mark").exists(), done.stderr


@pytest.mark.fault("a lock that is a link to a file of the user")
def test_a_lock_that_is_a_link_is_a_sentence_and_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(Unwritable, match=r"\.lock is a link, and nothing is written through one"):
        Lock(tmp_path / ".lock").acquire()
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_folder_of_records_that_leads_to_itself_has_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records").symlink_to(tmp_path)
    assert leaderboard.main([str(tmp_path)]) == 1
    assert "no records in" in capsys.readouterr().err


CLAIMS = {
    "aliases that double and double": (BOMB, "it has more than 20,000 values"),
    "a list inside itself": ("- &a [*a]\n", "*a is a part of itself"),
    "brackets in brackets": ("[" * 20_000, "50 inside each other"),
    "a day that there is not": ("- {id: 2020-13-45}\n", "month must be in 1..12"),
    "a number of 5,000 digits": (f"- {'9' * 5000}\n", "more digits than can be read"),
    "an object of Python": ("- !!python/object/apply:os.system [id]\n", "for the tag"),
    "a text of a megabyte": (f"'{'x' * 900_000}'\n", "must be a list of claims, got "),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), CLAIMS.values(), ids=CLAIMS)
def test_yaml_that_hydra_does_not_read_is_refused_alike(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claims of a folder, a board and a recipe."""
    for name in ("claims.yaml", "board/evil.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with pytest.raises(PosbenchError) as refused:
        read_claims(tmp_path / "claims.yaml")
    assert said in str(refused.value) and len(str(refused.value)) < 500
    with pytest.raises(PosbenchError, match="board evil is not"):
        board.load("evil", [tmp_path])
    assert pretrained([f"recipe={tmp_path}/claims.yaml"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("posbench: recipe=") and err.count("\n") == 1


def test_a_recipe_that_has_no_end_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert pretrained(["recipe=/dev/zero"]) == 1
    said = "posbench: recipe=/dev/zero cannot be read (it is a device): name a YAML file\n"
    assert capsys.readouterr().err == said


CONFIGS = {
    "brackets in brackets": "[" * 200_000,
    "a list": "[]",
    "no heads": '{"model_type": "llama", "hidden_size": -1, "num_attention_heads": 0}',
    "a number for a name": '{"model_type": 3}',
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_a_model_that_cannot_be_is_one_sentence(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(text)
    assert pretrained([f"model={tmp_path}", "extension=yarn", "tokens=[256]"]) == 1
    assert f"posbench: model={tmp_path} " in capfd.readouterr().err


def test_a_pipe_and_a_device_are_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    (link := tmp_path / "link").symlink_to("/dev/null")
    for path in (pipe, link):
        with pytest.raises(Unwritable, match="is a device or a pipe, and a file is written there"):
            write_whole(path, "text")
    assert pipe.is_fifo() and link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]
