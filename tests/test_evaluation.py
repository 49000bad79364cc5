"""What a test measures, by hand, and the short way to the answers against the long one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from offered import thinned

from posbench.base.errors import PosbenchError
from posbench.core import evaluation
from posbench.core.evaluation import RELATIVE_EDGES, Answered, binned
from posbench.core.scoring import Inputs, inputs, logits
from posbench.core.task import Answers, Batch
from posbench.core.transformer import Transformer
from posbench.running.subject import Subject, setup


def answers(*right: str) -> Answers:
    """Sequences as texts: `.` not asked, `r` right, `w` wrong; in capitals, the end of a
    sequence.
    """
    marks = np.array([list(text) for text in right])
    ends, lower = np.char.isupper(marks), np.char.lower(marks)
    return Answers(marks != ".", lower == "r", np.zeros(marks.shape, np.float32), ends)


def answered_so(batch: Batch, right: np.ndarray, losses: np.ndarray) -> Answered:
    """What was right of the tokens that a batch asks for, [tokens], and their losses."""
    asked = batch.answer[:, 1:]
    whole = np.zeros(asked.shape, bool), np.zeros(asked.shape, np.float32)
    for array, values in zip(whole, (right, losses), strict=True):
        array[asked] = values
    said = Answers(asked, *whole, np.zeros(asked.shape, bool))
    return Answered(batch, said, said)


def test_a_sequence_is_right_if_all_that_was_asked_is() -> None:
    assert answers("..rrr", "..rwr", "..rrw", "wwwww").sequences.tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_without_the_end_it_may_be_wrong() -> None:
    found = answers("..rrW", "..wrR", "r.r.W", "r.r.R", "r.w.R", "..rrw").without_end
    assert found.tolist() == [True, False, True, True, False, False]


def test_a_sequence_whose_only_error_is_its_end_is_wrong() -> None:
    found = answers("..rrW", "..rrR", "..wrR", "r.r.W", "r.r.R")
    assert found.sequences.tolist() == [False, True, False, False, True]
    assert found.correct_prefix.tolist() == [2 / 3, 1, 0, 2 / 3, 1]


def test_the_correct_prefix_ends_at_the_first_wrong_token() -> None:
    found = answers(".rrrr", ".rrwr", ".wrrr", "rr.wr").correct_prefix
    assert found.tolist() == [1.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("encoding", thinned("encoding"))
def test_the_last_layer_of_the_answers_alone_gives_what_all_of_it_does(encoding: str) -> None:
    """Asked at the end, as the task does, and from the second token on, where a fused kernel takes
    over.
    """
    subject = Subject(f"encoding={encoding}")
    run, model = subject.made(), subject.model()
    n = run.train_length
    data = inputs(run.task.batch(n, 5, 0, "test", n), model.encodings, 0)
    early = torch.arange(data.where.shape[1]).expand_as(data.where) >= 1
    for each in (data, replace(data, where=early, first=1)):
        whole = model(each.tokens, each.pos, each.segments)[each.where]
        torch.testing.assert_close(logits(model, each), whole, rtol=1e-9, atol=1e-10)


def test_what_is_right_is_counted_by_bins_and_bins_without_tokens_are_left_out() -> None:
    reach, right = np.array([0.1, 0.25, 0.3, 1.0, 20.0]), np.array([1, 0, 1, 1, 0])
    view = binned(reach, RELATIVE_EDGES, right, np.array([1.0, 3.0, 5.0, 7.0, 9.0]))
    assert view == {
        "above": [0.0, 0.25, 0.75, 16.0],
        "up_to": [0.25, 0.5, 1.0, None],
        "num_tokens": [2, 1, 1, 1],
        "token_accuracy_teacher_forced": [0.5, 1.0, 1.0, 0.0],
        "loss": [2.0, 5.0, 7.0, 9.0],
    }
    assert binned(np.zeros(1), (0.0, 0.5, 1.0), np.ones(1), np.ones(1))["above"] == [0.0]


def test_views_say_where_the_source_of_each_token_stands() -> None:
    """Two keys of two symbols, at the start and at the end of six symbols of filler; a model that
    errs on one place.
    """
    words = ("task.key_length=2", "training.min_length=2", "training.max_length=6")
    run = setup("protocol=cpu", "task=passkey", *words)
    tests = run.evaluation
    batch = run.task.batch(6, 400, 0, "test", 6)
    asked = batch.answer[:, 1:]
    right = (np.arange(asked.shape[1]) % 2 == 0)[None].repeat(400, 0)[asked]
    losses = np.arange(right.size, dtype=float)
    # In two batches, as where a test is of several lengths.
    half = right.size // 2
    halves = [
        answered_so(batch.part(slice(200)), right[:half], losses[:half]),
        answered_so(batch.part(slice(200, 400)), right[half:], losses[half:]),
    ]
    views = {view.by: view for view in tests._views(6, halves)}
    assert set(views) == {"distance", "depth"}
    rows, places = np.nonzero(asked)
    sources = batch.source[:, 1:][asked]
    depths = [
        (source - 1) / 8 for source in sources if source >= 0
    ]  # nine tokens of prompt: BOS stands before them
    assert min(depths) == 1 / 8 and max(depths) == 1.0
    for index, (low, high) in enumerate(
        zip(views["depth"].above, views["depth"].up_to, strict=True)
    ):
        here = [
            k for k, source in enumerate(sources) if source >= 0 and low < (source - 1) / 8 <= high
        ]
        assert views["depth"].num_tokens[index] == len(here)
        assert views["depth"].token_accuracy_teacher_forced[index] == pytest.approx(
            right[here].mean(), abs=1e-6
        )
        assert views["depth"].loss[index] == pytest.approx(losses[here].mean(), abs=1e-6)
    for index, (low, high) in enumerate(
        zip(views["distance"].above, views["distance"].up_to, strict=True)
    ):
        here = [
            k
            for k, source in enumerate(sources)
            if source >= 0 and low < (places[k] - source) / 8 <= high
        ]
        assert views["distance"].num_tokens[index] == len(here)
    assert sum(views["depth"].num_tokens) == 800 and len(rows) == 1200


def test_a_task_without_sources_is_looked_at_by_position() -> None:
    run = setup("protocol=cpu", "task=language", "training.min_length=8", "training.max_length=8")
    batch = run.task.batch(16, 10, 0, "test", 16)
    asked = batch.answer[:, 1:]
    losses = np.tile(np.arange(asked.shape[1], dtype=float), (10, 1))[asked]
    [view] = run.evaluation._views(16, [answered_so(batch, np.ones(losses.size), losses)])
    # 12 positions of training: BOS, SEP and ten symbols. The first symbol is predicted at the
    # second position.
    assert (view.by, view.above) == ("position", [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5])
    assert view.num_tokens == [20, 30, 30, 30, 30, 30, 10]
    assert view.loss[0] == pytest.approx(1.5)


def test_the_first_place_asked_for_is_that_of_any_sequence() -> None:
    """Queries of mqar stand at places of their own in each sequence."""
    run = setup("task=mqar", "encoding=nope")
    model = run.model().eval()
    data = inputs(run.task.batch(run.train_length, 32, 0, "test", 0), model.encodings, 0)
    firsts = [row.index(True) for row in data.where.tolist()]
    assert len(set(firsts)) > 1 and data.first == min(firsts)
    whole = model(data.tokens, data.pos)[data.where]
    torch.testing.assert_close(logits(model, data), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_whatever_is_decoded_scores_and_losses_of_tokens_are_of_teacher_forcing() -> None:
    """The score of language follows from losses, which decoding does not have."""
    words = ("task=language", "evaluation.multiples=[1,2]", "evaluation.ladder=[]")
    forced, greedy = (
        setup(*words, f"evaluation.decoding={decoding}")
        for decoding in ("teacher_forced", "greedy")
    )
    one, other = (run.evaluation.evaluate(run.model(), None)[0] for run in (forced, greedy))
    kept = ("score", "proficiency", "loss", "token_accuracy_teacher_forced")
    for row, decoded, n in zip(one, other, forced.lengths.multiples, strict=True):
        assert [getattr(row, name) for name in kept] == [getattr(decoded, name) for name in kept]
        [batch] = forced.evaluation.batches(n)
        model = forced.model().eval()
        data = forced.evaluation.inputs(batch, model)
        loss = torch.nn.functional.cross_entropy(logits(model, data), data.labels).item()
        guess = np.log(forced.task.num_symbols)
        explained = (guess - loss) / (guess - forced.task.least_loss(n))
        assert decoded.score == pytest.approx(max(explained, -1), rel=1e-4)


@pytest.mark.slow
def test_a_row_of_several_lengths_is_of_all_their_sequences() -> None:
    """By hand: every count with every symbol, each in a pass of its own."""
    run = setup("task=repeat_token", "evaluation.multiples=[1,2]", "evaluation.ladder=[]")
    model = run.model().eval()
    rows, _ = run.evaluation.evaluate(model, None)
    for row in rows:
        sequences = [
            batch.part(slice(index, index + 1))
            for batch in run.evaluation.batches(row.test_length)
            for index in range(len(batch.tokens))
        ]
        right, losses = [], []
        for each in sequences:
            data = inputs(each, model.encodings, 0)
            with torch.no_grad():
                said = logits(model, data)
            right += [(said.argmax(-1) == data.labels).tolist()]
            losses += torch.nn.functional.cross_entropy(
                said, data.labels, reduction="none"
            ).tolist()
        assert row.num_samples == len(sequences) and row.num_tokens == len(losses)
        assert row.sequence_accuracy == np.mean([all(each) for each in right]) == row.score
        assert row.token_accuracy_teacher_forced == pytest.approx(
            np.mean([said for each in right for said in each])
        )
        assert row.loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_an_extension_is_not_told_an_answer_that_is_a_count() -> None:
    """Every count of a test is repeated under one and the same scale, that of the longest."""
    run = setup("method=rope_pi", "task=repeat_token", "evaluation.multiples=[1,2]")
    model, tests = run.model().eval(), run.evaluation
    told: list[int] = []

    class Noting(type(run.extension)):  # type: ignore[misc]
        def extend(self, stack, trained, tested):  # type: ignore[no-untyped-def]
            told.append(tested)
            return super().extend(stack, trained, tested)

    for n in tests.lengths.multiples:
        told.clear()
        counts = {batch.tokens.shape[1] for batch in tests.batches(n)}
        tests.test(model, Noting(), n, 16)
        assert len(counts) > 1
        assert set(told) == {max(counts) - 1}, "the positions of the longest sequence"


@pytest.mark.fault("a test that memory does not hold")
@pytest.mark.parametrize("method", ["rope", "random_positions", "shape"])
@pytest.mark.parametrize("decoding", ["teacher_forced", "greedy"])
def test_what_memory_does_not_hold_is_tested_in_halves_with_the_same_answers(
    method: str, decoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions that an encoding draws stay those of the whole batch."""
    run = setup(f"method={method}", "task=copy_small", f"evaluation.decoding={decoding}")
    model, n = run.model().eval(), run.train_length
    (whole,) = run.evaluation.test(model, None, n, 10)
    inside = {name: getattr(evaluation, name) for name in ("answers", "decoded")}
    sizes = []

    def of_memory(name: str) -> Callable[..., Answers]:
        def asked(model: Transformer, data: Inputs, batch: Batch) -> Answers:
            sizes.append(len(batch.tokens))
            if len(batch.tokens) > 3:
                raise torch.OutOfMemoryError
            return inside[name](model, data, batch)

        return asked

    for name in inside:
        monkeypatch.setattr(evaluation, name, of_memory(name))
    with pytest.warns(UserWarning, match=r"10 sequences of \d+ tokens do not fit in the memory"):
        (halved,) = run.evaluation.test(model, None, n, 10)
    assert sizes[:7] == [10, 5, 2, 3, 5, 2, 3]
    for one, other in ((whole.forced, halved.forced), (whole.answers, halved.answers)):
        assert (one.right == other.right).all() and (one.asked == other.asked).all()
        assert np.allclose(one.losses, other.losses, atol=1e-5)


@pytest.mark.fault("one sequence that memory does not hold")
def test_a_sequence_that_memory_does_not_hold_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(*_: object) -> Answers:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(evaluation, "answers", nothing)
    run = setup("method=rope", "task=copy_small")
    with pytest.raises(PosbenchError, match=r"one sequence of \d+ tokens does not fit in the mem"):
        run.evaluation.test(run.model().eval(), None, run.train_length, 1)
