"""Trainings of others in one file: found by their hash, and never by anything else."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, save
from small_runs import TINY, kept, ran, tiny, trained, without_seconds

from posbench.base.errors import ConfigError, PosbenchError, Unreadable
from posbench.config import provenance
from posbench.config.compose import compose, composing
from posbench.core.training import Training
from posbench.running.checkpoints import CONTENT, WEIGHTS, Checkpoints
from posbench.running.console import Console
from posbench.running.resuming import loaded
from posbench.running.scores import CHECKPOINTS
from posbench.running.shared_training import SharedTraining
from posbench.running.zoo import Zoo, usable, zoos
from posbench.sharing import zoo as command
from posbench.sweeping.plan import plan
from posbench.sweeping.requests import Request

FILE = Path("results/zoo/tiny.safetensors")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `made` has a tiny run of RoPE."""
    folder = tmp_path_factory.mktemp("zoo")
    with pytest.MonkeyPatch.context() as patch, composing():
        patch.chdir(folder)
        ran(Path("made"), "method=rope")
    return folder


@pytest.fixture
def packed(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash of the training of that run, in a zoo where runs look for one."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    [folder] = Path("made", CHECKPOINTS).iterdir()
    monkeypatch.setattr(command, "_trainings_of", lambda board: [folder.name, "of_no_folder"])
    assert command.main(["pack", str(FILE), "--board", "tiny", "--from", "made"]) == 0
    return folder.name


@pytest.mark.slow
def test_a_training_in_a_zoo_is_found_as_one_of_ones_own(
    packed: str, fits: list[Training], capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(fits)
    here, there = ran(Path("made"), "method=rope_ntk"), ran(Path("other"), "method=rope_ntk")
    assert len(fits) == before, "neither trains"
    assert without_seconds(here) == without_seconds(there)
    assert here.training == there.training, "its machine, its seconds and its commit as well"
    said = capsys.readouterr().out
    assert f"Trained before ({packed}): the weights are from {FILE}, made on " in said
    assert not list(Path("other").rglob(WEIGHTS)), "a zoo is only read"


@pytest.mark.slow
def test_weights_are_kept_bit_for_bit(packed: str) -> None:
    zoo, own = Zoo(FILE), loaded(Path("made", CHECKPOINTS, packed, WEIGHTS))
    found = zoo.weights(packed)
    assert found.keys() == own.keys()
    assert all(torch.equal(found[name], own[name]) for name in own)
    assert {each.dtype for each in found.values()} == {torch.float32}
    first = FILE.read_bytes()
    assert command.main(["pack", str(FILE), "--board", "tiny", "--from", "made"]) == 0
    assert FILE.read_bytes() == first


@pytest.mark.slow
@pytest.mark.parametrize("words", [("encoding.base=500",), ("seed=1",), ("training.steps=3",)])
@pytest.mark.parametrize("place", ["results/zoo", str(FILE)])
def test_another_training_is_made_and_that_is_said_of_a_zoo_that_was_named(
    packed: str,
    words: tuple[str, ...],
    place: str,
    fits: list[Training],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = len(fits)
    trained_with_zoo("method=rope", *words, place=place)
    assert len(fits) == before + 1
    said = f"{FILE} has no weights of this training ("
    assert (said in capsys.readouterr().out) == (place == str(FILE))


def trained_with_zoo(*words: str, force: bool = False, place: str = "results/zoo") -> Any:
    run = tiny(Path("elsewhere"), *words)
    config = run.config
    there = Checkpoints(config.results_dir, config.trainer, force, Console(), place)
    [shared] = SharedTraining.of(run)
    begun = shared.begin()
    return there.train_once(shared.hash, shared.content, begun, begun.model, [])


@pytest.mark.slow
def test_who_wants_a_training_gets_one(packed: str, fits: list[Training]) -> None:
    before = len(fits)
    trained_with_zoo("method=rope", force=True)
    assert len(fits) == before + 1
    trained(tiny(Path("without"), "method=rope"))  # zoo=
    assert len(fits) == before + 2
    assert not zoos("") and [each.path for each in zoos(FILE)] == [FILE]
    with pytest.raises(ConfigError, match=r"^zoo=nowhere is neither a file nor a folder: name one"):
        zoos("nowhere")


@pytest.mark.slow
def test_what_is_of_other_code_or_of_another_torch_is_made_again_and_that_is_said(
    packed: str,
    fits: list[Training],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = len(fits)
    with monkeypatch.context() as changed:
        changed.setattr(provenance, "versions", lambda: {"torch": "99.0.1"})
        assert not usable("results/zoo")
        trained_with_zoo("method=rope")
    assert len(fits) == before + 1
    assert f"{FILE} has these weights, made with torch {torch.__version__}; training again" in (
        capsys.readouterr().out
    )
    assert usable("results/zoo").keys() == {packed}
    monkeypatch.setattr(provenance, "training_hash", lambda *_: "f" * 16)
    trained_with_zoo("method=rope")
    assert len(fits) == before + 2


def rewritten(part: str = "content", **changes: Any) -> None:
    """The zoo with another content of its training, or another log."""
    with safe_open(FILE, framework="pt") as file:
        said = file.metadata()
    [(key, text)] = said.items()
    entry = json.loads(text)
    entry[part] |= changes
    FILE.write_bytes(save(load(FILE.read_bytes()), {key: json.dumps(entry)}))


def test_a_damaged_zoo_is_named(packed: str) -> None:
    whole = FILE.read_bytes()
    for content in (whole[:-1], pickle.dumps({"weights": 1})):
        FILE.write_bytes(content)
        with pytest.raises(Unreadable, match=rf"{FILE} is damaged \(.*\): get the file again"):
            trained_with_zoo("method=rope")
    FILE.write_bytes(whole)
    rewritten(seed=5)
    with pytest.raises(Unreadable, match=f"what it says of {packed} has another hash"):
        _ = Zoo(FILE).trainings
    for changes in ({"task": []}, {"encoding": []}, {"seed": None}):
        FILE.write_bytes(whole)
        rewritten(**changes)
        with pytest.raises(Unreadable, match=f"{FILE} is damaged"):
            _ = Zoo(FILE).trainings
    pipe = FILE.with_name("pipe.safetensors")
    os.mkfifo(pipe)
    with pytest.raises(Unreadable, match="it is no file"):  # and nobody waits for it
        _ = Zoo(pipe).trainings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda each: torch.full_like(each, float("nan")), "are NaN"),
        (lambda each: each.half(), "its weights are of another type"),
        (lambda each: each[:1], "its weights have other shapes"),
        (lambda each: None, "it has other weights"),
    ],
)
def test_weights_that_no_training_has_left_are_not_taken(
    packed: str, change: Callable[[torch.Tensor], torch.Tensor | None], said: str
) -> None:
    with safe_open(FILE, framework="pt") as file:
        header = file.metadata()
    made = {name: change(each) for name, each in load(FILE.read_bytes()).items()}
    kept = {name: each.contiguous() for name, each in made.items() if each is not None}
    FILE.write_bytes(save(kept, header))
    with pytest.raises(Unreadable, match=rf"{FILE} is damaged \(.*{said}\): get the file again"):
        trained_with_zoo("method=rope")


@pytest.mark.parametrize(
    "wrong", [{"threads": -3}, {"cpu_seconds": -1.0}, {"replicas": 0}, {"device": "\x1b[31mcpu"}]
)
def test_a_log_that_no_training_writes_is_refused(packed: str, wrong: dict[str, Any]) -> None:
    rewritten("log", **wrong)
    with pytest.raises(Unreadable, match=f"{FILE} is damaged"):
        _ = Zoo(FILE).trainings


def test_what_a_zoo_has_is_listed(packed: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert command.main(["list", "results/zoo"]) == 0
    first, line = capsys.readouterr().out.splitlines()[-2:]
    assert first == f"{FILE}: 1 training"
    settings = "RoPE(base=10000, layout=half) on Passkey(key_length=3, "
    assert line.startswith(f"  {packed}  {settings}") and "), seed 0, 20 steps, made on" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pack", "tiny.pt", "--board", "tiny"], "let it end in .safetensors"),
        (["pack", "new.safetensors", "--board", "tiny", "--from", "empty"], "none of the 2 trai"),
        (["list", "made"], "made has no zoo"),
    ],
)
def test_mistakes_with_a_zoo_are_one_sentence(
    packed: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 1
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_a_damaged_training_is_not_packed(packed: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("made", CHECKPOINTS, packed, WEIGHTS)
    path.write_bytes(path.read_bytes()[:100])
    assert command.main(["pack", str(FILE), "--board", "tiny", "--from", "made"]) == 1
    assert f"{path} is damaged" in capsys.readouterr().err
    path.with_name(CONTENT).write_text("[]")
    with pytest.raises(PosbenchError, match="delete it"):
        command._finished(path.parent)


@pytest.mark.slow
def test_a_plan_knows_what_needs_no_training(packed: str) -> None:
    words = [(*TINY, f"method={method}") for method in ("rope", "rope_pi")]
    words += [(*TINY, "method=rope", "seed=1")]
    with composing():
        planned = plan(Request(words))
        cost = planned.cost(Path("made"))
        assert len(planned.in_zoo) == 1
        assert {run.training in planned.in_zoo for run in planned.runs if run.spec.seed == 0} == {
            True
        }
        assert planned.runs[0].spec.training_hashes == [packed]
        assert "1 training is in the zoo" in "\n".join(planned.lines(cost))
        alone = plan(Request([(*each, "zoo=") for each in words]))
        assert not alone.in_zoo and alone.cost(Path("made")).training > cost.training
        forced = plan(Request([(*each, "force=true") for each in words]))
        assert not forced.in_zoo


def test_replicas_leave_out_what_a_zoo_has(packed: str) -> None:
    run = tiny(Path("elsewhere"), "method=rope")
    [shared] = SharedTraining.of(run)
    assert kept(run).step(shared.hash, shared.settings) == 0
    with_zoo = Checkpoints("elsewhere", run.config.trainer, False, Console(), "results/zoo")
    assert with_zoo.step(shared.hash, shared.settings) is None


def test_a_folder_of_somebody_else_names_no_zoo() -> None:
    assert compose("zoo=other").content["zoo"] == "other"
    from posbench.config.hydra_search import OF_THE_USER

    assert "zoo" in OF_THE_USER
