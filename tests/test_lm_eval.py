"""A model under an extension as a backend of lm-evaluation-harness, on tasks made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import TRAINED, characters, llama, saved

from posbench import cli
from posbench.base.errors import ConfigError, IllegalExtension
from posbench.pretrained import lm_eval as launcher

pytest.importorskip("lm_eval", reason="pip install 'posbench[lm-eval]'")
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from posbench.pretrained.harness import HarnessModel

LENGTH = 2 * TRAINED
TEXTS = [
    ("The road goes", " past"),
    ("Rain", " fell on the roof"),
    ("The mill is old, and so is", " it"),
]
"""Contexts with continuations, two within the 24 trained positions and one beyond them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = characters()
    tokenizer.eos_token = "<s>"  # the harness stops there
    return saved(llama().float(), tmp_path_factory.mktemp("models") / "tiny", tokenizer)


def asked(backend: HFLM) -> list[float]:
    """The log-likelihoods of the continuations."""
    requests = [
        Instance("loglikelihood", {}, arguments=text, idx=place) for place, text in enumerate(TEXTS)
    ]
    return [likely for likely, _ in backend.loglikelihood(requests, disable_tqdm=True)]


def ours(folder: Path, **arguments: Any) -> HarnessModel:
    return HarnessModel(str(folder), dtype="float32", **arguments)


def test_without_an_extension_the_harness_reads_what_it_reads_itself(folder: Path) -> None:
    theirs = HFLM(str(folder), dtype="float32", device="cpu", max_length=LENGTH, batch_size=3)
    backend = ours(folder, length=LENGTH, batch_size=3)
    wanted = asked(theirs)
    assert asked(backend) == pytest.approx(wanted, abs=1e-4)
    assert asked(ours(folder, length=LENGTH)) == pytest.approx(wanted, abs=1e-4)  # one by one
    rolling = [Instance("loglikelihood_rolling", {}, arguments=(TEXTS[2][0] * 3,), idx=0)]
    assert backend.loglikelihood_rolling(rolling) == pytest.approx(
        theirs.loglikelihood_rolling(rolling), abs=1e-4
    )
    settings = {"until": ["."], "max_gen_toks": 6}
    answers = [
        Instance("generate_until", {}, arguments=(text, settings), idx=place)
        for place, (text, _) in enumerate(TEXTS)
    ]
    assert backend.generate_until(answers) == theirs.generate_until(answers)


def test_an_extension_changes_what_is_read_and_has_one_setting_for_all_texts(folder: Path) -> None:
    plain = asked(ours(folder, length=LENGTH))
    extended = ours(folder, extension="yarn", length=LENGTH, batch_size=3)
    found = asked(extended)
    assert all(abs(one - other) > 1e-3 for one, other in zip(found, plain, strict=True))
    assert asked(ours(folder, extension="yarn", length=LENGTH)) == pytest.approx(found, abs=1e-4)
    # The same as a mounted model at that length, whatever the length of the text.
    text = [*extended.tok_encode(TEXTS[0][0]), *extended.tok_encode(TEXTS[0][1])]
    with torch.no_grad(), extended.mounted.at(LENGTH):
        likely = extended.model(torch.tensor([text])).logits[0].log_softmax(-1)
    places = range(len(text) - len(TEXTS[0][1]), len(text))
    assert found[0] == pytest.approx(
        float(sum(likely[place - 1, text[place]] for place in places)), abs=1e-4
    )
    sharper = asked(ours(folder, extension="yarn", length=LENGTH, **{"extension.mscale": 3}))
    assert sharper != pytest.approx(found, abs=1e-3)
    info = extended.get_model_info()
    assert (info["extension"], info["length"], info["train_positions"]) == ("yarn", LENGTH, TRAINED)


def test_an_extension_that_changes_nothing_up_to_the_trained_length_is_the_model(
    folder: Path,
) -> None:
    assert asked(ours(folder, extension="yarn"))[:2] == pytest.approx(
        asked(ours(folder))[:2], abs=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"extension": "yran"}, "did you mean yarn"),
        ({"lenght": 48}, "did you mean length"),
        ({"trust_remote_code": True}, "trust_remote_code"),
        ({"extension": "yarn", "extension.beta": 3}, "beta"),
        ({"extension": "abf_fine_tuned"}, "trains"),
    ],
)
def test_arguments_without_effect_are_refused(
    folder: Path, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises((ConfigError, IllegalExtension), match=said):
        ours(folder, **arguments)


@pytest.mark.slow  # the harness looks through all tasks that it has
def test_the_command_runs_a_task_of_the_harness(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """A task of two questions, in a folder as users of the harness write them."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "roads.jsonl").write_text(
        '{"text": "The road goes past", "right": " the mill"}\n'
        '{"text": "Rain fell on the roof all", "right": " night"}\n'
    )
    (tmp_path / "roads.yaml").write_text(
        f"""task: roads
dataset_path: json
dataset_kwargs: {{data_files: {{test: {tmp_path / "roads.jsonl"}}}}}
test_split: test
output_type: loglikelihood
doc_to_text: text
doc_to_target: right
target_delimiter: ""
metric_list: [{{metric: perplexity, aggregation: perplexity, higher_is_better: false}}]
"""
    )
    status = cli.carried_out(
        [
            *("pretrained", "lm-eval", "--tasks", str(tmp_path / "roads.yaml")),
            *("--model_args", f"pretrained={folder},extension=yarn,length={LENGTH}"),
        ]
    )
    out = capsys.readouterr().out
    assert status == 0 and "|roads" in out and "perplexity" in out


def test_a_task_that_there_is_not_has_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"pretrained={folder},length={LENGTH}"
    assert launcher.main(["--tasks", "nosuch", "--model_args", given]) == 1
    error = capsys.readouterr().err
    assert "Tasks not found: nosuch: `posbench pretrained lm-eval ls tasks` lists" in error
    assert "Traceback" not in error


def test_the_command_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main([]) == 1 and "pretrained=FOLDER" in capsys.readouterr().out
