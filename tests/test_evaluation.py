"""What a test measures, by hand, and the short way to the answers against the long one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import names

from posbench.conformance import Subject
from posbench.evaluation import REACH_EDGES, Answers, binned
from posbench.scoring import inputs, logits


def answers(*right: str) -> Answers:
    """Sequences as texts: `.` not asked, `r` right, `w` wrong; in capitals, the end of a sequence."""
    marks = np.array([list(text) for text in right])
    ends, lower = np.char.isupper(marks), np.char.lower(marks)
    return Answers(marks != ".", lower == "r", np.zeros(marks.shape, np.float32), ends)


def test_a_sequence_is_right_if_all_that_was_asked_is() -> None:
    assert answers("..rrr", "..rwr", "..rrw", "wwwww").sequences.tolist() == [True, False, False, False]


def test_without_the_end_it_may_be_wrong() -> None:
    found = answers("..rrW", "..wrR", "r.r.W", "r.r.R", "r.w.R", "..rrw").without_end
    assert found.tolist() == [True, False, True, True, False, False]


def test_the_correct_prefix_ends_at_the_first_wrong_token() -> None:
    found = answers(".rrrr", ".rrwr", ".wrrr", "rr.wr").correct_prefix
    assert found.tolist() == [1.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("encoding", names("encoding"))
def test_the_last_layer_of_the_answers_alone_gives_what_all_of_it_does(encoding: str) -> None:
    """Asked at the end, as the task does, and from the second token on, where a fused kernel takes over."""
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
    view = binned("distance", reach, REACH_EDGES, right, np.array([1.0, 3.0, 5.0, 7.0, 9.0]))
    assert view == {
        "by": "distance",
        "above": [0.0, 0.25, 0.75, 16.0],
        "up_to": [0.25, 0.5, 1.0, None],
        "num_tokens": [2, 1, 1, 1],
        "token_accuracy_teacher_forced": [0.5, 1.0, 1.0, 0.0],
        "loss": [2.0, 5.0, 7.0, 9.0],
    }
    assert binned("depth", np.zeros(1), (0.0, 0.5, 1.0), np.ones(1), np.ones(1))["above"] == [0.0]  # type: ignore[index]
    assert binned("depth", np.zeros(0), (0.0, 1.0), np.zeros(0), np.zeros(0)) is None
