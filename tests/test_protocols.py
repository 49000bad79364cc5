"""Protocols come with all that their papers state, and set the model, the decoding of the test and
the ceiling.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from offered import CONF
from small_runs import prepared, ran, tiny, trained

from posbench.base.errors import ConfigError, Diverged
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.core.scoring import logits
from posbench.core.settings import checked
from posbench.core.training import Training, fit
from posbench.core.transformer import Transformer
from posbench.running import checkpoints as keeping
from posbench.running.subject import setup

PAPERS = (
    "jelassi2024",
    "kazemnejad2023",
    "mamba2023_induction",
    "press2022",
    "ruoss2023",
    "zoology2024",
)
STATED = {
    "model": "width num_layers num_heads head_width mlp_ratio dropout embedding_std",
    "training": "min_length max_length length_scale steps steps_scale batch_size num_examples "
    "packing random_offset loss_on learning_rate warmup_steps decay decay_fraction "
    "weight_decay beta1 beta2 gradient_clip validate_every validation_samples",
    "evaluation": "multiples longest ladder num_samples decoding",
}
"""What two replications of one paper may do differently: a protocol that stands for a paper says
each of it.
"""


# -- the protocols that come with posbench ---------------------------------------------------------


def test_the_papers_are_there() -> None:
    assert set(PAPERS) <= set(own_names("protocol"))


@pytest.mark.parametrize("name", PAPERS)
def test_the_protocol_of_a_paper_states_every_choice_and_its_source(name: str) -> None:
    text = (CONF / "protocol" / f"{name}.yaml").read_text()
    content = yaml.safe_load(text)
    assert {section: set(content[section]) for section in STATED} == {
        section: set(keys.split()) for section, keys in STATED.items()
    }
    assert "arXiv" in text and "Its method" in text and "Its task" in text
    experiments = re.findall(r"experiment=(\w+)", text)
    assert experiments and set(experiments) <= set(own_names("experiment"))


SHORT = [
    "model.width=16",
    "model.num_layers=2",
    "model.num_heads=1",
    "training.steps=3",
    "training.batch_size=4",
    "training.validation_samples=4",
    "training.num_examples=0",
    "training.validate_every=2",
    "training.warmup_steps=1",
    "evaluation.num_samples=2",
    "evaluation.multiples=[1]",
    "evaluation.ladder=[]",
    "trainer.accelerator=cpu",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", own_names("protocol"))
def test_a_small_model_is_trained_and_tested_under_each_protocol(name: str, tmp_path: Path) -> None:
    words = SHORT if name != "smoke" else ()
    words = (*words, *["training.until.least_decay=1"] * (name == "learned"))
    run = setup(f"protocol={name}", *words, "method=rope", "task=copy")
    run.config.results_dir = str(tmp_path)
    rows = prepared(run, trained(run)).evaluate().rows
    assert rows[0].multiple == 1 and all(row.loss is not None for row in rows)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("training.packing=-1", "training.packing must be greater than or equal to 0, got -1"),
        (
            "training.random_offset=-2",
            "training.random_offset must be greater than or equal to 0, got -2",
        ),
        (
            "training.num_examples=10",
            "training.num_examples=10 does not fill one batch of .*: raise it to 64 or",
        ),
        ("training.loss_on=prompt", "training.loss_on must be 'answer' or 'all', got 'prompt'"),
        ("training.decay=steep", "training.decay must be 'linear' or 'cosine', got 'steep'"),
        ("training.stop_at=1.5", "training.stop_at must be less than or equal to 1, got 1.5"),
        (
            "training.learning_rate=[]",
            r"lists rates to choose from, each once and one at least, got \[\]",
        ),
        ("training.learning_rate=[1e-3,1e-3]", "each once"),
        ("training.learning_rate=[1e-3,fast]", "must be positive and finite, or a list of such"),
        (
            "training.learning_rate=0",
            "training.learning_rate must be positive and finite, or a list of such, got 0",
        ),
        ("model.dropout=1", "model.dropout must be less than 1, got 1"),
        ("model.mlp_ratio=-1", "model.mlp_ratio must be greater than or equal to 0, got -1"),
        (
            "evaluation.decoding=beam",
            "evaluation.decoding must be 'teacher_forced' or 'greedy', got 'beam'",
        ),
    ],
)
def test_a_wrong_choice_gets_its_sentence(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        checked(compose(setting).cfg())


def test_offsets_that_a_table_has_no_rows_for_are_refused_before_training() -> None:
    with pytest.raises(
        ConfigError, match=r"the encoding has 320 positions, but training, .* need 340: raise"
    ):
        setup(
            "protocol=cpu", "method=learned", "task=passkey", "training.random_offset=300"
        ).model()


# -- the model that is trained ---------------------------------------------------------------------


def test_a_model_without_mlp_has_attention_alone() -> None:
    run = setup("model.mlp_ratio=0", "model.width=16", "model.num_heads=1", "model.head_width=16")
    model = run.model()
    assert not any("mlp" in name for name, _ in model.named_parameters())
    x = torch.randn(2, 5, 16)
    block, encoding = model.blocks[0], next(iter(model.encodings))
    pos = torch.arange(5)[None]
    normed = block.attention_norm(x)  # type: ignore[operator]
    values = normed @ block.qkv.weight.mT[:, 32:]  # type: ignore[operator, union-attr]
    first = x[:, 0] + values[:, 0] @ block.out.weight.mT  # type: ignore[operator, union-attr]
    whole = block(x, pos, None, encoding)
    assert torch.allclose(whole[:, 0], first, atol=1e-6), "the first token sees itself alone"
    assert torch.allclose(block(x, pos, None, encoding, 3), whole[:, 3:], atol=1e-6)


def dropping(dropout: float) -> tuple[Transformer, Any]:
    run = setup(f"model.dropout={dropout}", "model.width=32", "model.num_heads=1")
    training = Training(run.model(), run.task, run.config.training, 0)
    return training.model, training.batch(0)


def test_dropout_acts_in_training_alone_and_leaves_the_mean() -> None:
    model, data = dropping(0.4)
    still, _ = dropping(0.0)
    still.load_state_dict(model.state_dict())
    assert torch.equal(logits(model.eval(), data), logits(still, data))
    model.train()
    torch.manual_seed(0)
    one, other = logits(model, data), logits(model, data)
    assert not torch.allclose(one, other)
    kept = (model.dropout(torch.ones(10_000)) != 0).float().mean()
    assert abs(kept - 0.6) < 0.03


def trained_state(folder: Path, *words: str) -> dict[str, torch.Tensor]:
    run = tiny(folder, *words)
    return {name: value.clone() for name, value in trained(run).model.state_dict().items()}


@pytest.mark.slow
def test_a_training_with_dropout_that_was_interrupted_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        "model.dropout=0.3",
        "training.packing=30",
        "training.random_offset=5",
        "trainer.checkpoint_every=7",
    )
    whole = trained_state(tmp_path / "whole", *words)
    steps = Training.training_step

    def interrupted(self: Training, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.global_step == 16:
            raise KeyboardInterrupt
        return steps(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "training_step", interrupted)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            trained_state(tmp_path / "parts", *words)
    assert list((tmp_path / "parts").glob("checkpoints/*/last.ckpt"))
    torch.rand(5)  # the state of the global generator must not matter
    again = trained_state(tmp_path / "parts", *words)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


# -- how it is tested ------------------------------------------------------------------------------


@pytest.mark.slow
def test_decoding_token_by_token_gives_the_same_accuracy_of_sequences(tmp_path: Path) -> None:
    words = ("method=alibi", "task=passkey", "evaluation.num_samples=64")
    forced, greedy = (
        ran(tmp_path, *words, f"evaluation.decoding={how}") for how in ("teacher_forced", "greedy")
    )
    assert forced.rows == greedy.rows
    assert any(0 < row.correct_prefix < 1 for row in greedy.rows)


@pytest.mark.slow
def test_what_greedy_decoding_finds_is_what_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run = setup("task=copy", "evaluation.num_samples=4", "evaluation.decoding=greedy")
    model = run.model()
    monkeypatch.setattr("posbench.core.evaluation.greedy", lambda model, data: data.where.numpy())
    rows, _ = run.evaluation.evaluate(model, None)
    assert all(row.sequence_accuracy == row.correct_prefix == 1 for row in rows)
    assert all(row.token_accuracy_teacher_forced < 1 for row in rows)


# -- the ceiling -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.oracle("ceiling", "identity: the runs at each length")
def test_the_ceiling_is_a_model_trained_at_each_length_in_the_mean(tmp_path: Path) -> None:
    words = (
        "task=copy",
        "training.length_scale=1",
        "training.min_length=2",
        "training.max_length=4",
    )
    words += ("evaluation.multiples=[1,1.5,2,3]", "evaluation.ladder=[]")
    found = ran(tmp_path, "method=rope_ceiling", *words, "extension.multiples=[1.5,2]")
    # A string of n symbols has 2n + 2 positions: 10, 14 (nearest to 15 with 16) and 20.
    assert [(row.test_length, row.multiple, row.aggregated) for row in found.rows] == [
        (4, 1.0, True),
        (6, 1.5, True),
        (9, 2.0, True),
    ]
    assert found.method_class == "ceiling"
    for row, spent in zip(found.rows, found.ceiling, strict=True):
        there = ran(
            tmp_path,
            "method=rope",
            "task=copy",
            "training.length_scale=1",
            "training.min_length=2",
            f"training.max_length={row.test_length}",
            "evaluation.multiples=[1]",
            "evaluation.ladder=[]",
        )
        assert there.training.hash == spent.hash, "the training is that of a run at this length"
        same = {"multiple": 1.0, "true_multiple": 1.0}
        assert there.rows == [row.model_copy(update=same)]
    assert len({spent.hash for spent in found.ceiling}) == 3


def test_a_ceiling_packs_as_many_sequences_and_keeps_what_the_longest_test_needs() -> None:
    words = (
        "protocol=cpu",
        "task=copy",
        "extension=ceiling",
        "training.packing=60",
        "training.random_offset=2",
    )
    run = setup(*words, "encoding=random_positions")
    n = next(n for n, multiple in run.lengths.multiples.items() if multiple == 4)
    there = run.at(n)
    assert (run.train_positions, there.train_positions) == (60, math.ceil(60 * (2 * n + 2) / 40))
    assert there.test_positions == run.test_positions and there.lengths.multiples == {n: 4}
    assert there.nodes["encoding"] == run.nodes["encoding"]


@pytest.mark.slow
def test_a_ceiling_is_no_method_whatever_its_encoding(tmp_path: Path) -> None:
    words = ("task=copy", "evaluation.multiples=[0.5,1,2]")
    found = ran(tmp_path, "encoding=random_positions", "extension=ceiling", *words)
    assert found.method_class == "ceiling"
    assert [row.multiple for row in found.rows] == [1.0, 2.0], (
        "nothing is extrapolated to shorter ones"
    )


@pytest.mark.slow
def test_a_length_at_which_a_ceiling_diverges_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def diverging(training: Training, *arguments: Any) -> Any:
        if training.settings.lengths[1] == longest:
            raise Diverged("the loss became nan")
        return fit(training, *arguments)

    words = ("encoding=rope", "extension=ceiling")
    lengths = [row.test_length for row in ran(tmp_path / "a", *words).rows]
    longest = max(lengths)
    monkeypatch.setattr(keeping, "fit", diverging)
    found = ran(tmp_path / "b", *words)
    assert [row.test_length for row in found.rows] == lengths[:-1]
    [left_out] = [json.loads(path.read_text()) for path in tmp_path.glob("b/**/diverged.json")]
    spent = [each.cpu_seconds for each in found.ceiling[1:]] + [left_out["cpu_seconds"]]
    assert found.evaluated.further_training_cpu_seconds == pytest.approx(sum(spent))
    assert "Left out: the loss became nan" in capsys.readouterr().out


@pytest.mark.slow
def test_an_audit_of_a_ceiling_is_of_the_model_at_each_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[int], int]] = []
    monkeypatch.setattr(
        "posbench.running.prepare.audit",
        lambda tests, model, *_: seen.append((list(tests.lengths.multiples), id(model))) or [],
    )
    ran(tmp_path, "method=rope_ceiling", "task=copy", "evaluation.multiples=[1,2]", "audit=2")
    assert [lengths for lengths, _ in seen] == [[8], [17]] and len(
        {model for _, model in seen}
    ) == 2


@pytest.mark.slow
def test_a_ceiling_costs_what_its_trainings_do(tmp_path: Path) -> None:
    words = ("task=copy", "evaluation.multiples=[1,2]")
    found = ran(tmp_path, "method=alibi", "extension=ceiling", *words)
    further = [spent.cpu_seconds for spent in found.ceiling[1:]]
    assert found.evaluated.further_training_cpu_seconds == pytest.approx(sum(further))
    assert found.method_class == "ceiling" and found.rows[0].untrained is None
