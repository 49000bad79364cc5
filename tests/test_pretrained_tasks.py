"""Tasks as text, the command that measures on them, and what it says of serving."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import TRAINED, llama
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from posbench.errors import ConfigError
from posbench.extension import Extension
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.yarn import YaRN
from posbench.pretrained.command import main
from posbench.pretrained.forms import mount
from posbench.pretrained.measuring import Score, samples, score
from posbench.pretrained.serving import overrides
from posbench.pretrained.text_tasks import TASKS

pytestmark = pytest.mark.filterwarnings("ignore")

ALPHABET = "\n .:?0123456789NabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMOPQRSTUVWXYZ,"


def characters() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are characters."""
    vocabulary = {"<s>": 0, "?!": 1} | {each: 2 + i for i, each in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?!"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="?!")


@pytest.mark.parametrize("name", TASKS)
def test_samples_have_their_length_and_say_the_answer_once(name: str) -> None:
    tokenizer = characters()
    for length in (256, 257, 300):
        found = samples(TASKS[name], name, tokenizer, length, 5, 0)
        for sample, wanted in zip(found, np.linspace(0, 1, 5), strict=True):
            assert len(sample.tokens) == length
            assert sample.tokens[0] == tokenizer.bos_token_id
            text = "".join(tokenizer.convert_ids_to_tokens(sample.prompt[1:]))
            answer = "".join(tokenizer.convert_ids_to_tokens(sample.answer))
            assert "?!" not in text and text.count(f"{answer}.\n") + text.count(f":{answer}\n") == 1
            asked = text.rpartition("\n")[2]
            assert asked.endswith(" is") and abs(sample.depth - wanted) < 0.4
        depths = [sample.depth for sample in found]
        assert depths == sorted(depths)
        assert found == samples(TASKS[name], name, tokenizer, length, 5, 0)
        assert found != samples(TASKS[name], name, tokenizer, length, 5, 1)
    with pytest.raises(ConfigError, match="choose longer lengths"):
        samples(TASKS[name], name, tokenizer, 20, 1, 0)


def test_scores_are_those_of_greedy_decoding() -> None:
    net, tokenizer = llama(positions=512), characters()
    net.resize_token_embeddings(len(tokenizer))
    found = samples(TASKS["passkey"], "passkey", tokenizer, 160, 2, 0)
    with mount(net) as mounted, torch.no_grad():
        decoded = [
            net.generate(
                torch.tensor([each.prompt]),
                attention_mask=torch.ones(1, len(each.prompt)),
                max_new_tokens=len(each.answer),
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )[0, len(each.prompt) :].tolist()
            for each in found
        ]
        assert score(mounted, found).exact == 0
        right = [
            type(each)(each.prompt, answer, each.depth)
            for each, answer in zip(found, decoded, strict=True)
        ]
        best = score(mounted, [*right, found[0]])
        assert (best.exact, best.samples) == (2, 3)
        assert score(mounted, right).log_likelihood > score(mounted, found).log_likelihood


def test_intervals_are_those_of_wilson() -> None:
    z, n, p = 1.959964, 10, 0.7
    for bound, sign in zip(Score(7, n, 0.0).interval, (-1, 1), strict=True):
        # Where the accuracy would lie just z standard errors away.
        error = math.sqrt(bound * (1 - bound) / n)
        assert p == pytest.approx(bound - sign * z * error, abs=1e-6)


@pytest.mark.parametrize(
    "extension",
    (PI(), NTK(), DynamicNTK(), YaRN(2.0, 0.5), Llama3(0.2, 1.0), LongRoPE()),
    ids=lambda extension: type(extension).__name__,
)
def test_a_model_loaded_with_the_recipe_is_the_one_measured(
    extension: Extension, tmp_path: Path
) -> None:
    length, net = 2 * TRAINED, llama()
    net.save_pretrained(tmp_path)
    tokens = torch.randint(40, (1, length), generator=torch.Generator().manual_seed(2))
    with mount(net) as mounted, torch.no_grad():
        recipe = overrides(mounted, extension, length)
        assert isinstance(recipe, dict)
        before = net(tokens).logits
        mounted.extension = extension
        measured = net(tokens).logits
        served = LlamaForCausalLM.from_pretrained(tmp_path, dtype="float64", **recipe)(tokens)
    largest = float(measured.abs().max())
    assert (before - measured).abs().max() > 1e-3 * largest
    # In transformers the base of the NTK forms is rounded to float32 before it is raised.
    torch.testing.assert_close(served.logits, measured, rtol=0, atol=1e-5 * largest)


def test_what_cannot_be_served_has_a_sentence() -> None:
    with mount(llama()) as mounted:
        for extension in (SelfExtend(8), YaRN(2.0, 0.5, mscale=0.7)):
            said = overrides(mounted, extension, 48)
            assert said == (
                f"neither transformers nor vLLM has {type(extension).__name__}: only the mounted "
                "model can be served"
            )
    with mount(llama({"rope_type": "linear", "factor": 2.0})) as mounted:
        assert "of its own already" in overrides(mounted, PI(), 48)


def test_the_command_measures_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, net = characters(), llama(positions=160)
    net.resize_token_embeddings(len(tokenizer))
    net.save_pretrained(tmp_path / "net")
    tokenizer.save_pretrained(tmp_path / "net")
    words = [f"model={tmp_path / 'net'}", "task=passkey", "samples=2", "lengths=[1,1.5]"]

    def said(*more: str) -> tuple[int, Any]:
        return main([*words, *more]), capsys.readouterr()

    status, out = said("extension=direct,yarn,self_extend")
    assert status == 0, out.err
    lines = out.out.splitlines()
    assert "trained for 160 positions, equals itself when mounted" in lines[0]
    rows = [line.split()[:3] for line in lines if line.startswith("passkey")]
    names = ("direct", "yarn", "self_extend")
    assert rows == [["passkey", tokens, name] for tokens in ("160", "240") for name in names]
    assert lines[-1].startswith("self_extend: neither transformers nor vLLM")
    llama().save_pretrained(tmp_path / "mute")
    for wrong, reason in (
        (f"model={tmp_path / 'mute'}", "cannot be loaded with its tokenizer"),
        ("extension=pi_fine_tuned", "extension=pi_fine_tuned trains or searches"),
        ("extension=yarm", "did you mean yarn"),
        ("task=passkeys", "did you mean passkey"),
        ("length=[1]", "did you mean lengths"),
        ("samples=0", "must be above 0"),
        ("model=nowhere", "model=nowhere is no folder"),
    ):
        status, out = said(wrong)
        assert status == 1 and reason in out.err
