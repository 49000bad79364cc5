"""What a test is made of: sequences of its own, positions of its own, and what extensions are told
of both lengths.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension
from posbench.core.row import Row
from posbench.core.scoring import inputs
from posbench.core.streams import stream_seed
from posbench.core.task import EOS
from posbench.core.training import Training
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup


def small(*words: str) -> Setup:
    sizes = ("task=copy", "evaluation.num_samples=50", "model.width=16", "model.num_heads=2")
    sizes += ("model.head_width=8",)
    return setup(*sizes, "training.validation_samples=50", *words)


def training(made: Setup) -> Training:
    return Training(made.model(), made.task, made.config.training, made.config.seed)


def rows_of(tokens: np.ndarray | torch.Tensor) -> set[tuple[int, ...]]:
    return {tuple(row) for row in tokens.tolist()}


# -- sequences -------------------------------------------------------------------------------------


def test_no_sequence_of_a_test_is_one_of_validation_or_training() -> None:
    made = small()
    tests = {
        n: rows_of(batch.tokens[:, :-1])
        for n in made.lengths.multiples
        for batch in made.evaluation.batches(n)
    }
    assert len(tests) == 8 and all(len(rows) == 50 for rows in tests.values())
    trainer = training(made)
    [(_, held_out)] = trainer.validation()
    seen = [held_out, *(trainer.batch(step) for step in range(100))]
    for rows in tests.values():
        assert not any(rows & rows_of(batch.tokens) for batch in seen)


def test_every_seed_is_tested_on_sequences_of_its_own() -> None:
    [[one], [other], [again]] = (
        small(*words).evaluation.batches(16)
        for words in (("seed=0",), ("seed=1",), ("seed=0", "method=alibi"))
    )
    assert not rows_of(one.tokens) & rows_of(other.tokens)
    assert np.array_equal(one.tokens, again.tokens)


# -- positions -------------------------------------------------------------------------------------

DRAWN = ("method=random_positions", "encoding.largest=400")


def test_positions_of_a_test_are_drawn_from_a_stream_of_their_own() -> None:
    made, n = small(*DRAWN), 16
    tests, encodings = made.evaluation, made.model().encodings
    [batch] = tests.batches(n)
    pos, total = tests.inputs(batch, made.model()).pos, made.task.total_length(n)
    for step in range(200):
        for purpose in ("train", "validation", "test"):
            drawn = inputs(batch, encodings, stream_seed(0, purpose, "positions", step))
            assert torch.equal(drawn.pos, pos) == ((purpose, step) == ("test", total))


def test_every_step_and_every_seed_trains_at_positions_of_its_own() -> None:
    fixed = "training.min_length=16", "training.max_length=16"
    trainers = [training(small(*DRAWN, *fixed, f"seed={seed}")) for seed in (0, 1)]
    found = [trainer.batch(step).pos for trainer in trainers for step in range(5)]
    assert len({tuple(pos[0].tolist()) for pos in found}) == 10


# -- what an extension is told ---------------------------------------------------------------------


class Told(Extension):
    """Changes nothing and remembers the lengths it is given."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        self.spans.append((train_positions, test_positions))
        return stack

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return encoding


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("method=rope",), 0),
        (("method=learned", "training.random_offset=7"), 7),
        (("method=shape", "encoding.max_shift=9"), 9),
        # Position 21, the last of 22, goes as far as 2 (21 + 9 + 1/2) = 61, the last of 62.
        (("method=cape", "encoding.max_shift=9.0", "encoding.max_scaling=2.0"), 40),
    ],
)
def test_an_extension_is_told_the_largest_position_of_training_and_of_each_test(
    words: tuple[str, ...], more: int
) -> None:
    """A shift of all positions belongs to training alone: SHAPE and CAPE draw none at a test."""
    made, told = small(*words, "evaluation.multiples=[1,2]"), Told()
    made.evaluation.evaluate(made.model(), told)
    n, alone = made.train_length, made.task.num_positions
    # Of each length it is told three times: for how far it reaches, for the answers, and for the
    # parameters that they use.
    longer = 2 * n + 1  # of 2 n' + 2 positions, twice those of n
    assert alone(longer) == 2 * alone(n)
    assert set(told.spans) == {(alone(n) + more, alone(n)), (alone(n) + more, alone(longer))}
    assert len(told.spans) == 6


# -- right and wrong -------------------------------------------------------------------------------


class Endless(torch.nn.Module):
    """Stands for a model: it copies without a mistake, and says `token` where its copy ends."""

    num_heads, head_width, width = 2, 8, 16

    def __init__(self, made: Setup, token: int) -> None:
        super().__init__()
        self.encodings = made.model().encodings
        self.vocab_size, self.token, self.n = made.task.vocab_size, token, made.train_length
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(
        self,
        tokens: torch.Tensor,
        pos: torch.Tensor,
        segments: torch.Tensor,
        where: torch.Tensor,
        first: int = 0,
    ) -> torch.Tensor:
        # SEP predicts the first symbol; the last of the copy predicts the end.
        said = torch.full_like(tokens, self.token)
        said[:, self.n + 1 :] = tokens[:, 1 : -self.n]
        said[:, 2 * self.n + 1 :] = self.token
        return 9.0 * torch.nn.functional.one_hot(said[where], self.vocab_size)


@pytest.mark.parametrize("decoding", ["teacher_forced", "greedy"])
def test_who_never_ends_solves_nothing(decoding: str) -> None:
    made = small(
        f"evaluation.decoding={decoding}", "evaluation.multiples=[1]", "evaluation.ladder=[]"
    )

    def row(token: int) -> Row:
        [found], _ = made.evaluation.evaluate(Endless(made, token), None)  # type: ignore[arg-type]
        return found

    endless, perfect, n = row(EOS + 1), row(EOS), made.train_length
    assert (endless.score, endless.sequence_accuracy) == (0.0, 0.0)
    assert endless.sequence_accuracy_without_end == 1.0
    assert endless.correct_prefix == pytest.approx(n / (n + 1))
    assert endless.token_accuracy_teacher_forced == pytest.approx(n / (n + 1))
    assert (perfect.score, perfect.sequence_accuracy, perfect.correct_prefix) == (1.0, 1.0, 1.0)


# -- what trained weights depend on ----------------------------------------------------------------


def test_another_version_of_a_task_is_trained_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = small()
    settings = made.config.training
    before = SharedTraining(made, settings).hash
    assert SharedTraining(small(), settings).hash == before
    monkeypatch.setattr(type(made.task), "version", made.task.version + 1)
    assert SharedTraining(small(), settings).hash != before


@pytest.mark.parametrize(
    "word",
    ["seed=1", "task.num_symbols=20", "model.dropout=0.1", "training.steps=7", "encoding.base=500"],
)
def test_weights_are_shared_by_no_two_trainings_that_differ(word: str) -> None:
    one, other = small("method=rope"), small("method=rope", word)
    assert (
        SharedTraining(one, one.config.training).hash
        != SharedTraining(other, other.config.training).hash
    )


def test_what_is_off_in_the_model_is_no_setting_of_a_training() -> None:
    """So that a training keeps its hash where a setting of the model is added."""
    plain, off = small("method=rope"), small("method=rope", "model.qk_norm=false")
    settings = SharedTraining(plain, plain.config.training).dependencies
    assert not {"qk_norm", "output_gate", "short_conv"} & settings["model"].keys()
    assert SharedTraining(off, off.config.training).dependencies == settings
    asked = small("method=rope_qk_norm")
    chosen = SharedTraining(asked, asked.config.training).dependencies
    assert chosen == settings | {"model": settings["model"] | {"qk_norm": True}}


def test_weights_are_shared_by_runs_that_differ_in_their_tests_alone() -> None:
    one, other = small("method=rope"), small("method=rope_ntk", "evaluation.num_samples=7")
    assert (
        SharedTraining(one, one.config.training).hash
        == SharedTraining(other, other.config.training).hash
    )
