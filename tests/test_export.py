"""A trained model of the suite, read by transformers, gives the suite's logits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from small_runs import TINY, trained
from small_runs import tiny as tiny_run
from torch import Tensor
from transformers import AutoModelForCausalLM

from posbench.base.errors import ConfigError
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.pi import PI
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.yarn import YaRN
from posbench.pretrained.export import checked_model, export, main
from posbench.pretrained.proof import mounted_and_proved
from posbench.running.setup import Setup


def some_tokens(setup: Setup, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(setup.task.vocab_size, (2, n), generator=generator)


@pytest.mark.slow
@torch.no_grad()
def test_the_exported_model_gives_the_logits_of_the_suite(tmp_path: Path) -> None:
    setup = tiny_run(tmp_path, "encoding=rope", "task=copy", "training.steps=10")
    with torch.enable_grad():
        ours = trained(setup).model.eval()
    export(ours, setup.train_positions, tmp_path / "to")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "to").eval()
    assert type(theirs).__name__ == "GPTNeoXForCausalLM"
    assert theirs.config.max_position_embeddings == setup.train_positions
    n = 2 * setup.train_positions
    tokens = some_tokens(setup, n)
    pos = torch.arange(n)[None]
    expected = ours(tokens, pos)
    torch.testing.assert_close(theirs(tokens).logits, expected, rtol=0, atol=2e-5)
    with mounted_and_proved(theirs) as mounted:  # there and back, with extensions
        assert mounted.train_positions == setup.train_positions
        own = setup.train_positions // 4
        for extension in (PI(), DynamicNTK(), YaRN(2.0, 0.5), SelfExtend(own), ReRoPE(own)):
            stack = extension.extend(ours.encodings, setup.train_positions, n)
            extended = ours.with_encodings(stack)(tokens, pos)
            assert (extended - expected).abs().max() > 1e-2
            mounted.extension = extension
            torch.testing.assert_close(theirs(tokens).logits, extended, rtol=0, atol=2e-5)


@pytest.mark.slow
@torch.no_grad()
def test_a_part_of_each_head_may_turn(tmp_path: Path) -> None:
    setup = tiny_run(tmp_path, "encoding=partial_rope", "task=copy")
    ours = setup.model().eval()
    export(ours, setup.train_positions, tmp_path / "to")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "to").eval()
    tokens = some_tokens(setup, 20)
    expected = ours(tokens, torch.arange(20)[None])
    torch.testing.assert_close(theirs(tokens).logits, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("words", "reason"),
    (
        (("encoding=alibi",), "GPT-NeoX has rotary positions and no ALiBi"),
        (("encoding=rope", "encoding.layout=interleaved"), "turns the halves of a head"),
        (("encoding=rope_nope",), "no NoPE"),
        (("encoding=rope", "model.qk_norm=true"), r"GPT-NeoX has no model\.qk_norm"),
        (("encoding=rope", "model.loops=3"), r"GPT-NeoX has no model\.loops=3"),
        (("encoding=rope", "extension=pi"), "PI belongs to the test of a model"),
    ),
)
def test_what_gpt_neox_is_not_is_refused_before_training(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    setup = tiny_run(tmp_path, "task=copy", *words)
    with pytest.raises(ConfigError, match=reason):
        checked_model(setup.model(), setup)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["method=alibi", "extension=yarn"],
            "which this encoding does not have; it can extend rope",
        ),
        (["method=rope", "trainer.accelerator=mps"], "needs an Apple GPU and torch sees none"),
    ],
    ids=["extension", "device"],
)
def test_what_cannot_be_made_is_refused_as_it_is_of_a_run(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("posbench.running.prepare.legal_encodings", lambda extension: ["rope"])
    assert main([*TINY, *words, "task=copy", "to=exported"]) == 1
    answer = capsys.readouterr().err
    assert said in answer and answer.count("\n") == 1 and not any(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_writes_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*TINY, "training.steps=2", "method=rope", "task=copy", "results_dir=results"]
    assert main([*words, "to=exported"]) == 0
    assert (tmp_path / "exported" / "model.safetensors").exists()
    assert main([*words, "to=exported"]) == 1
    assert "to=exported is there and not empty" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main([*words, "to=elsewhere"]) == 1
    assert "pip install 'posbench[pretrained]'" in capsys.readouterr().err
    assert main(words) == 1
    assert "to=FOLDER" in capsys.readouterr().err
