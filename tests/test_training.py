"""A training is given the sequences that its settings ask for, ends when they say, and keeps their
rate.
"""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import prepared, ran, tiny, trained

from posbench.base.errors import ConfigError, Diverged, Terminated
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.remarks import remarks
from posbench.config import provenance
from posbench.core.batches import everywhere, joined, packed, shifted, training_batch
from posbench.core.evaluation import Evaluation
from posbench.core.row import Row, View
from posbench.core.scoring import inputs
from posbench.core.settings import TrainingConfig
from posbench.core.task import BOS, FIRST_SYMBOL, Batch
from posbench.core.training import DECAYS, Batches, Training, fit
from posbench.extensions.finetuned import FineTuned
from posbench.records import files, tables
from posbench.running import checkpoints as keeping
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup
from posbench.running.train import multiplications
from posbench.tasks.copy import Copy
from posbench.tasks.repeat_token import repeated

# -- what a training is given ----------------------------------------------------------------------


def chosen(**settings: Any) -> TrainingConfig:
    return replace(TrainingConfig(min_length=2, max_length=7, steps=100, batch_size=4), **settings)


TASK = "copy"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(context=st.integers(1, 120), step=st.integers(0, 1000), seed=st.integers(0, 9))
def test_packed_rows_are_sequences_of_the_task_one_after_another(
    context: int, step: int, seed: int
) -> None:
    task = setup(f"task={TASK}").task
    batch = packed(task, chosen(packing=context), seed, step)
    assert batch.tokens.shape == (4, context + 1)
    starts = np.flatnonzero((batch.tokens == BOS).all(0)).tolist()
    assert starts[0] == 0 and (batch.tokens == BOS).sum() == 4 * len(starts)
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        part = batch.tokens[:, start:end]
        for n in range(2, 8):
            whole = task.batch(n, 4, seed, "train", step, index)
            if np.array_equal(whole.tokens[:, : part.shape[1]], part):
                assert end is None or whole.tokens.shape == part.shape
                assert np.array_equal(batch.answer[:, start:end], whole.answer[:, : part.shape[1]])
                assert np.array_equal(
                    batch.ids["coupled"][:, start:end], whole.ids["coupled"][:, : part.shape[1]]
                )
                break
        else:
            pytest.fail("a part of the row is no sequence of the stream")
    rows, places = np.nonzero(batch.source >= 0)
    sources = batch.source[rows, places]
    assert (batch.tokens[rows, sources] == batch.tokens[rows, places]).all(), (
        "a source is the token that is repeated"
    )
    assert (places - sources <= 8).all(), "and stands in the same sequence"


def test_the_sequences_of_a_packed_row_are_of_many_lengths() -> None:
    batch = packed(setup(f"task={TASK}").task, chosen(packing=500), 0, 0)
    starts = np.flatnonzero((batch.tokens == BOS).all(0))
    assert len(set(np.diff(starts).tolist())) == 6, "n from 2 to 7"


def test_indices_go_on_through_a_packed_row_and_training_knows_that_many_positions() -> None:
    run = setup("protocol=cpu", "task=copy", "training.packing=100")
    assert run.train_positions == 100
    data = Training(run.model(), run.task, run.config.training, 0).batch(0)
    assert data.tokens.shape == (64, 100) and data.pos[0].tolist() == list(range(100))
    assert setup("protocol=cpu", "task=copy").train_positions == 40


def test_an_answer_in_a_packed_row_may_not_be_predicted_from_what_comes_later() -> None:
    run = setup("task=copy", "training.packing=60", "model.width=16", "model.num_heads=1")
    model, batch = run.model().eval(), training_batch(run.task, run.config.training, 0, 0)
    data = inputs(batch, model.encodings, 0)
    before = model(data.tokens, data.pos)[:, :30]
    changed = data.tokens.clone()
    changed[:, 30:] = BOS
    assert torch.allclose(model(changed, data.pos)[:, :30], before, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(largest=st.integers(0, 50), seed=st.integers(0, 99))
def test_an_offset_is_one_number_for_a_sequence_and_within_bounds(largest: int, seed: int) -> None:
    task = setup("task=copy").task
    batch = task.batch(5, 64, 0, "train", 0)
    moved = shifted(batch, largest, np.random.default_rng(seed))
    offsets = moved.ids["index"] - np.arange(batch.tokens.shape[1])
    assert (offsets == offsets[:, :1]).all() and offsets.min() >= 0 and offsets.max() <= largest
    assert (
        np.array_equal(moved.tokens, batch.tokens) and moved.ids["coupled"] is batch.ids["coupled"]
    )
    if largest >= 20:
        assert len(np.unique(offsets)) > 10


def test_offsets_are_drawn_in_training_alone_and_the_largest_counts_as_trained() -> None:
    run = setup("protocol=cpu", "task=copy", "training.random_offset=30", "method=sinusoidal")
    training = Training(run.model(), run.task, run.config.training, 0)
    seen = torch.cat([training.batch(step).pos[:, 0] for step in range(5)])
    assert seen.min() < 5 and 25 < seen.max() <= 30 and len(seen.unique()) == 31
    [(_, held_out)], [batch] = training.validation(), run.evaluation.batches(16)
    assert (held_out.pos[:, 0] == 0).all()
    assert (run.evaluation.inputs(batch, training.model).pos[:, 0] == 0).all()
    assert (run.train_positions, run.evaluation.train_positions) == (40, 40 + 30)


def test_an_offset_trains_a_relative_encoding_on_no_further_distance() -> None:
    """So its extensions are not told so: a scale is of the distances that were seen."""
    words = ("protocol=cpu", "task=copy", "training.random_offset=30")
    rope, both = setup(*words, "method=rope"), setup(*words, "encoding=cape")
    assert (rope.shift, rope.evaluation.train_positions, both.shift) == (0, 40, 30)


def test_an_offset_of_ids_that_the_task_supplies_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"random_offset=5 shifts the index of a token, .* 'coup"):
        setup("method=coupling", "task=copy", "training.random_offset=5").model()


def test_a_context_that_holds_no_sequence_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"packing=39 does not hold one sequence of n=19, which has 40 tokens: raise",
    ):
        setup("protocol=cpu", "task=copy", "training.packing=39")
    assert setup("protocol=cpu", "task=copy", "training.packing=40").train_positions == 40


def test_fine_tuning_is_held_against_the_context_that_it_fills() -> None:
    words = (
        "protocol=cpu",
        "task=copy",
        "method=learned",
        "extension=direct_fine_tuned",
        "training.packing=60",
    )
    with pytest.raises(
        ConfigError, match=r"the encoding has 70 positions, but training, .* need 120: raise"
    ):
        short = ("evaluation.multiples=[1]", "evaluation.longest=1")
        trained(setup(*words, "encoding.num_rows=70", *short))


@pytest.mark.slow
def test_an_extension_is_fine_tuned_for_the_context_that_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    extend = FineTuned.extend
    monkeypatch.setattr(
        FineTuned,
        "extend",
        lambda self, stack, *spans: told.append(spans) or extend(self, stack, *spans),
    )
    run = tiny(tmp_path, "method=rope_pi_fine_tuned", "training.packing=40")
    before = trained(run)
    told.clear()
    prepared(run, before)
    assert told == [(40, 80)]


@pytest.mark.slow
def test_rows_of_a_table_that_an_offset_reaches_count_as_trained() -> None:
    def untrained(*words: str) -> float:
        run = setup(
            "protocol=cpu", "task=copy", "method=learned", "evaluation.num_samples=2", *words
        )
        rows, _ = run.evaluation.evaluate(run.model(), None)
        return next(row.untrained for row in rows if row.multiple == 4)

    # 160 positions are tested, 40 are seen in a training sequence: index 39 at most, and 39 + 30
    # with an offset
    assert untrained() == pytest.approx(120 / 160)
    assert untrained("training.random_offset=30") == pytest.approx(90 / 160)
    assert untrained("training.packing=60") == pytest.approx(100 / 160)


def test_the_loss_may_be_that_of_every_token() -> None:
    run = setup("task=passkey", "training.loss_on=all", "model.width=16", "model.num_heads=1")
    training = Training(run.model(), run.task, run.config.training, 0)
    data = training.batch(0)
    assert data.where.all() and data.first == 0 and len(data.labels) == data.tokens.numel()
    assert torch.equal(data.labels.view(data.tokens.shape)[:, :-1], data.tokens[:, 1:])
    [(_, held_out)] = training.validation()
    assert not held_out.where.all(), "validation asks for the answer alone"


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 5, 16])
def test_batches_made_in_a_row_are_those_of_their_steps(begun: int) -> None:
    run = setup("protocol=smoke", "encoding=random_positions", "task=copy", "training.steps=21")
    training = Training(run.model(), run.task, run.config.training, 3)
    training.trainer = SimpleNamespace(global_step=begun)  # type: ignore[assignment]
    given = list(Batches(training))
    assert len(given) == training.settings.total_steps - begun
    for step, batch in enumerate(given, begun):
        expected = training.batch(step)
        for name in ("tokens", "pos", "segments", "where", "labels", "first"):
            assert np.array_equal(getattr(batch, name), getattr(expected, name)), (
                f"{name} of step {step}"
            )


def test_few_examples_come_again_in_the_same_order() -> None:
    task = setup("task=copy").task
    few = [
        training_batch(task, chosen(num_examples=13), 0, step) for step in range(7)
    ]  # three batches of four
    for step in range(4):
        assert np.array_equal(few[step].tokens, few[step + 3].tokens)
    fresh = [training_batch(task, chosen(), 0, step) for step in range(7)]
    assert all(np.array_equal(few[step].tokens, fresh[step].tokens) for step in range(3))
    assert len({batch.tokens.tobytes() for batch in fresh}) == 7


def test_pieces_joined_keep_their_columns_and_move_their_sources() -> None:
    def piece(tokens: list[int], source: list[int]) -> Batch:
        row = np.array([tokens])
        return Batch(row, row > 9, np.array([source]), row * 0, {"within": row + 100})

    both = joined([piece([1, 10, 2], [-1, 0, -1]), piece([1, 11, 12], [-1, 0, 1])], 5)
    assert both.tokens.tolist() == [[1, 10, 2, 1, 11]] and both.source.tolist() == [
        [-1, 0, -1, -1, 3]
    ]
    assert both.ids["within"].tolist() == [[101, 110, 102, 101, 111]]
    assert everywhere(both).answer.tolist() == [[False, True, True, True, True]]


# -- when it ends, and at which rate ---------------------------------------------------------------


def test_the_rate_rises_stays_and_falls_as_it_is_told() -> None:
    for decay, halfway in (("linear", 0.5), ("cosine", 0.5)):
        assert [DECAYS[decay](left) for left in (1.0, 0.5, 0.0)] == pytest.approx(
            [1.0, halfway, 0.0]
        )
    assert DECAYS["cosine"](0.75) == pytest.approx((1 + math.sqrt(0.5)) / 2)
    run = setup("training.steps=100", "training.warmup_steps=9", "training.decay_fraction=0.4")
    training = Training(run.model(), run.task, run.config.training, 0)
    rate = training.configure_optimizers()["lr_scheduler"]["scheduler"].lr_lambdas[0]
    assert [rate(step) for step in (0, 4, 9, 59, 60, 80, 100)] == pytest.approx(
        [0.1, 0.5, 1, 1, 1, 0.5, 0]
    )


@pytest.mark.slow
def test_a_training_stops_at_the_first_point_that_reaches_the_score(tmp_path: Path) -> None:
    """With a score that every model has, and one that none reaches in twenty steps."""
    found = ran(tmp_path, "method=rope", "training.stop_at=0.0")
    assert found.training.steps == 10 and found.training.curve.step == [10]
    found = ran(tmp_path, "method=rope", "training.stop_at=0.99")
    assert found.training.steps == 20
    assert found.config["training"]["stop_at"] == 0.99


@pytest.mark.slow
def test_a_training_killed_after_it_was_stopped_is_kept_without_another(tmp_path: Path) -> None:
    run = tiny(tmp_path, "method=rope", "training.stop_at=0.0", "trainer.checkpoint_every=10")
    folder = tmp_path / "checkpoints" / SharedTraining(run, run.config.training).hash
    folder.mkdir(parents=True)
    training = Training(run.model(), run.task, run.config.training, 0)
    curve = fit(training, folder / "last.ckpt", "cpu", 10, [], [], lambda point: None)
    assert (folder / "last.ckpt").exists() and [point["step"] for point in curve.points] == [10]
    found = trained(run)
    assert list(found.log.points()) == curve.points
    for name, value in training.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name


def test_a_signal_after_the_last_look_at_a_step_still_stops_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning asks this hook after all callbacks, and leaves with status 0 by itself."""
    monkeypatch.setattr(
        Training,
        "on_train_batch_end",
        lambda *_: os.kill(os.getpid(), signal.SIGTERM),
        raising=False,
    )
    with pytest.raises(Terminated) as stopped:
        trained(tiny(tmp_path, "method=rope"))
    assert stopped.value.args == (signal.SIGTERM,)


@pytest.mark.slow
def test_a_list_of_rates_goes_with_fine_tuning(tmp_path: Path) -> None:
    found = ran(tmp_path, "method=rope_pi_fine_tuned", RATES, "extension.steps=0.5")
    assert found.training.learning_rate == 3e-3 and found.finetuning.steps == 10


@pytest.mark.slow
def test_fine_tuning_goes_on_to_its_end(tmp_path: Path) -> None:
    found = ran(tmp_path, "method=rope_pi_fine_tuned", "extension.steps=1", "training.stop_at=0.0")
    assert found.training.steps == 10
    assert found.finetuning.curve.step == [10, 20]


RATES = "training.learning_rate=[1e-9,3e-3,1e-4]"


@pytest.mark.slow
def test_of_several_rates_the_one_that_loses_least_in_distribution_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[int] = []
    predict = Evaluation.predict
    monkeypatch.setattr(
        Evaluation, "predict", lambda self, *a: tested.append(a[-1]) or predict(self, *a)
    )
    run = tiny(tmp_path, "method=rope", RATES)
    found = trained(run)
    assert not tested, "no test length has a part in the choice"
    lost = {each.learning_rate: each.loss for each in found.rates or []}
    assert list(lost) == [1e-9, 3e-3, 1e-4] and min(lost, key=lambda rate: lost[rate]) == 3e-3
    assert found.training.settings.learning_rate == 3e-3
    alone = trained(tiny(tmp_path, "method=rope", "training.learning_rate=3e-3"))
    assert alone.training.hash == found.training.hash, "the weights are those of a run at that rate"
    assert found.log.cpu_seconds > alone.log.cpu_seconds > 0, "and their cost is that of all"
    assert lost[3e-3] == alone.log.curve.validation_loss[-1]


@pytest.mark.slow
def test_the_record_says_which_rate_was_kept_and_what_the_others_lost(tmp_path: Path) -> None:
    found = ran(tmp_path, "method=rope", RATES).training
    assert found.learning_rate == 3e-3 and len(found.learning_rates) == 3
    plain = ran(tmp_path, "method=rope").training
    assert (plain.learning_rate, plain.learning_rates) == (3e-3, None)
    assert plain.hash == found.hash


@pytest.mark.slow
def test_a_rate_that_diverges_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def diverging(training: Training, *arguments: Any) -> Any:
        if training.settings.learning_rate > 1e-3:
            raise Diverged("the loss became nan")
        return fit(training, *arguments)

    monkeypatch.setattr(keeping, "fit", diverging)
    found = trained(tiny(tmp_path, "method=rope", RATES))
    assert found.training.settings.learning_rate == 1e-4
    assert [each.loss is None for each in found.rates or []] == [False, True, False]
    assert "Left out: the loss became nan" in capsys.readouterr().out
    with pytest.raises(
        Diverged, match=r"diverged at every learning rate of \[0.003, 0.5\]: lower them"
    ):
        trained(tiny(tmp_path, "method=rope", "training.learning_rate=[3e-3,0.5]"))


@pytest.mark.slow
def test_what_diverged_is_not_tried_again_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def diverging(training: Training, *arguments: Any) -> Any:
        tried.append(training.settings.learning_rate)
        raise Diverged("the loss became nan")

    monkeypatch.setattr(keeping, "fit", diverging)
    for _ in range(2):
        with pytest.raises(Diverged, match="the loss became nan"):
            trained(tiny(tmp_path, "method=rope"))
    assert len(tried) == 1
    run = tiny(tmp_path, "method=rope")
    run.config.force = True
    monkeypatch.setattr(keeping, "fit", fit)
    assert trained(run).log.curve.step
    again = trained(tiny(tmp_path, "method=rope"))
    assert again.log.curve.step, "and what was made since counts"
    assert not list(tmp_path.rglob("diverged.json")), "and nothing says that it diverged"


@pytest.mark.slow
def test_what_diverged_with_another_torch_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its record would say that it diverged with this one."""

    def diverging(training: Training, *arguments: Any) -> Any:
        raise Diverged("the loss became nan")

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "fit", diverging)
        with pytest.raises(Diverged):
            trained(tiny(tmp_path, "method=rope"))
        with pytest.raises(Diverged):
            trained(tiny(tmp_path, "method=rope"))
    patched = dict.fromkeys(provenance.COMPARED, "1.0.0")
    monkeypatch.setattr(keeping.provenance, "versions", lambda: patched)
    assert trained(tiny(tmp_path, "method=rope")).log.curve.step


@pytest.mark.slow
def test_a_run_that_diverges_at_every_rate_names_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(training: Training, *arguments: Any) -> Any:
        raise Diverged("the loss became nan")

    monkeypatch.setattr(keeping, "fit", diverging)
    with pytest.raises(Diverged):
        ran(tmp_path, "method=rope", RATES)
    (found,) = files.records(tmp_path)
    rates = found.training.learning_rates
    assert rates is not None and [each.loss for each in rates] == [None] * 3


@pytest.mark.slow
def test_a_run_that_diverges_is_recorded_as_one_in_which_nothing_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def diverging(training: Training, *arguments: Any) -> Any:
        raise Diverged("the loss became nan")

    ran(tmp_path, "method=rope", "seed=1")
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "fit", diverging)
        for words in (("method=rope", "audit=4"), ("method=rope_ntk",)):
            with pytest.raises(Diverged, match="the loss became nan"):
                ran(tmp_path, *words)
    found = files.records(tmp_path)
    failed = [record for record in found if record.diverged]
    assert [record.diverged for record in failed] == 2 * ["the loss became nan"]
    assert len(found) == 3 and not any(record.solved for record in failed)
    rows = tables.table(failed)
    assert set(rows["multiple"]) == set(tables.table(found[-1:])["multiple"])
    nothing = ["score", "sequence_accuracy", "sequence_accuracy_without_end", "correct_prefix"]
    assert (rows[nothing] == 0).all(axis=None) and rows["loss"].isna().all()
    said = [note for note in remarks(MeasuredRuns.of(found)) if "diverged" in note]
    assert (
        len(said) == 1 and "2 of 3 runs" in said[0] and "method=rope_ntk (shown) on tiny" in said[0]
    )
    capsys.readouterr()
    assert ran(tmp_path, "method=rope", "audit=4").diverged, "and it is not tried again"
    assert "Diverged: the loss became nan" in capsys.readouterr().out
    assert len(files.records(tmp_path)) == 3, "nor is there a model to be audited"


@pytest.mark.slow
def test_a_fine_tuning_that_diverges_costs_the_row_and_not_the_training_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(training: Training, *arguments: Any) -> Any:
        if training.settings.total_steps < 100:
            raise Diverged("the loss became nan")
        return fit(training, *arguments)

    monkeypatch.setattr(keeping, "fit", diverging)
    before = ran(tmp_path, "method=rope", "training.steps=100")
    with pytest.raises(Diverged):
        ran(tmp_path, "method=rope_pi_fine_tuned", "training.steps=100")
    failed = next(record for record in files.records(tmp_path) if record.diverged)
    assert failed.training.curve == before.training.curve and failed.training.steps == 100
    assert not failed.solved and {row.score for row in failed.rows} == {0.0}


@pytest.mark.slow
def test_a_loss_that_overflows_beyond_training_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Evaluation.evaluate

    def overflowing(tests: Evaluation, *arguments: Any) -> Any:
        rows, views = evaluate(tests, *arguments)
        lost = {"loss": math.nan, "score": math.nan}
        rows[-1] = Row.model_validate(dict(rows[-1]) | lost)
        views[-1] = View.model_validate(dict(views[-1]) | {"loss": [math.inf, *views[-1].loss[1:]]})
        return rows, views

    plain = ran(tmp_path / "a", "method=rope")
    monkeypatch.setattr(Evaluation, "evaluate", overflowing)
    record = ran(tmp_path / "b", "method=rope")
    assert record.rows[:-1] == plain.rows[:-1]
    assert record.rows[-1] == plain.rows[-1].model_copy(update={"loss": None, "score": -1.0})
    assert record.views[-1].loss == [None, *plain.views[-1].loss[1:]]
    assert tables.table([record])["loss"].isna().sum() == 1


# -- what is held out, and the gate ----------------------------------------------------------------


@pytest.mark.slow
def test_a_point_of_the_curve_is_of_every_length_that_is_held_out(tmp_path: Path) -> None:
    """By hand, with the weights at the end: each sequence in a pass of its own."""
    words = ("task=repeat_token", "training.max_length=36", "training.steps=3")
    run = setup(*words, "model.width=16", "model.num_heads=1")
    training = Training(run.model(), run.task, run.config.training, 0)
    curve = fit(training, tmp_path / "last.ckpt", "cpu", 100, [], [], lambda point: None)
    n, model = run.train_length, training.model.eval()
    held_out = training.validation()
    counts = [batch.tokens.shape[1] // 2 - 1 for batch, _ in held_out]
    assert n == 18 and counts == [16, 17, 18]
    right, losses = [], []
    for count in counts:
        for symbol in range(16):
            batch = repeated(np.array([FIRST_SYMBOL + symbol]), count)
            data = inputs(batch, model.encodings, 0)
            with torch.no_grad():
                said = model(data.tokens, data.pos)[data.where]
            right.append(bool((said.argmax(-1) == data.labels).all()))
            losses += torch.nn.functional.cross_entropy(
                said, data.labels, reduction="none"
            ).tolist()
    assert curve.points[-1]["validation_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert curve.points[-1]["score"] == np.mean(right)


@pytest.mark.slow
@pytest.mark.parametrize(("proficiency", "solved"), [(0.9, True), (0.89, False)])
def test_a_task_is_learned_at_its_own_gate_by_its_own_proficiency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proficiency: float, solved: bool
) -> None:
    monkeypatch.setattr(Copy, "gate", 0.9)
    monkeypatch.setattr(Copy, "proficiency", lambda self, batch, answers: proficiency)
    found = ran(tmp_path, "method=rope", "task=copy")
    assert found.gate == 0.9 and found.solved is solved
    assert found.solved_step == (10 if solved else None)
    assert found.training.curve.score == [proficiency] * 2
    assert [row.proficiency for row in found.rows] == [proficiency] * len(found.rows)
    assert {row.score for row in found.rows} == {0.0}


@pytest.mark.slow
def test_a_training_stops_by_proficiency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copy, "proficiency", lambda self, batch, answers: 0.6)
    run = setup("task=copy", "training.stop_at=0.5", "model.width=16", "model.num_heads=1")
    training = Training(run.model(), run.task, run.config.training, 0)
    curve = fit(training, tmp_path / "last.ckpt", "cpu", 100, [], [], lambda point: None)
    assert [point["step"] for point in curve.points] == [10]


# -- what a step costs -----------------------------------------------------------------------------


def counted(*words: str) -> int:
    """The multiplications of a step."""
    [shared] = SharedTraining.of(setup("task=kth_from_end", *words))
    return multiplications(shared.begin())


def by_hand(words: tuple[str, ...] = ()) -> int:
    """Forward and twice as much backward, matrix by matrix."""
    run = setup("task=kth_from_end", *words)
    model, training, task = run.config.model, run.config.training, run.task
    n, batch = training.lengths[1], training.batch_size
    width, channels = model.width, model.num_heads * model.head_width
    tokens = task.total_length(n) - 1
    asked = task.answer_length(n) + 1  # the end of the sequence too
    total = 0
    # The last layer has no more queries than are asked for, which come last.
    for queries in [*[tokens] * (model.num_layers - 1), asked]:
        total += tokens * 3 * channels * width
        total += 2 * queries * tokens * channels
        total += queries * (channels * width + 2 * model.mlp_ratio * width**2)
    return 3 * batch * (total + asked * width * task.vocab_size)


@pytest.mark.slow
def test_the_multiplications_of_a_step_are_those_of_its_matrices() -> None:
    assert counted("encoding=nope") == by_hand()
    larger = ("model.width=24", "model.num_layers=3", "model.num_heads=4", "training.batch_size=5")
    assert counted("encoding=nope", *larger) == by_hand(larger)
    longest = f"training.min_length={setup('task=kth_from_end').config.training.max_length}"
    assert counted("encoding=nope", longest) == by_hand(), "whatever the shorter lengths are"


@pytest.mark.slow
def test_fused_and_dense_attention_cost_the_same_multiplications() -> None:
    # One call, by rows, and explicit weights: all three have the same matrices.
    assert counted("encoding=t5") == counted("encoding=sink") == counted("encoding=rope")
    # Two channels of bias are further channels of the scores, never of the values.
    run = setup("task=kth_from_end")
    tokens = run.task.total_length(run.config.training.lengths[1]) - 1
    more = counted("encoding=fox") - counted("encoding=rope")
    heads, width, batch = (2, run.config.model.width, run.config.training.batch_size)
    asked = run.task.answer_length(run.config.training.lengths[1]) + 1
    bias = 2 * heads * tokens * (tokens + asked)
    gates = 2 * (heads * width) * tokens
    assert 0 < more <= 3 * batch * (bias + gates)


@pytest.mark.slow
def test_a_convolution_by_channel_is_charged_by_channel() -> None:
    # Torch charges the gradient of its weights as if all channels met: 64 times as much here.
    run = setup("task=kth_from_end")
    tokens = run.task.total_length(run.config.training.lengths[1]) - 1
    batch, channels = run.config.training.batch_size, 64
    one, three = (counted("encoding=path", f"encoding.kernel={k}") for k in (1, 3))
    padded = 3 * batch * run.config.model.num_layers * channels * 2 * tokens
    assert 0 < three - one <= padded


def test_counting_draws_nothing_and_leaves_no_gradient() -> None:
    [shared] = SharedTraining.of(setup("task=kth_from_end", "encoding=fox", "model.dropout=0.1"))
    training = shared.begin()
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    multiplications(training)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(weight.grad is None for weight in training.model.parameters())


@pytest.mark.slow
def test_a_record_has_the_multiplications_of_its_training(tmp_path: Path) -> None:
    made = ran(tmp_path, f"task={TASK}", "encoding=rope")
    [shared] = SharedTraining.of(tiny(tmp_path, f"task={TASK}", "encoding=rope"))
    assert made.training.multiplications == multiplications(shared.begin()) > 0
