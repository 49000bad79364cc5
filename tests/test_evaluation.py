"""What a test measures, by hand, and the short way to the answers against the long one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import names

from posbench.conformance import Subject
from posbench.evaluation import Answers, answer_logits
from posbench.scoring import inputs, logits


def answers(*right: str) -> Answers:
    """Sequences as texts: `.` not asked, `r` right, `w` wrong."""
    marks = np.array([list(text) for text in right])
    return Answers(marks != ".", marks == "r", np.zeros(marks.shape, np.float32))


def test_a_sequence_is_right_if_all_that_was_asked_is() -> None:
    assert answers("..rrr", "..rwr", "..rrw", "wwwww").sequences.tolist() == [True, False, False, False]


def test_without_the_end_the_last_token_asked_for_may_be_wrong() -> None:
    assert answers("..rrw", "..wrr", "r.r.w", "r.r.r", "r.w.r").without_end.tolist() == [True, False, True, True, False]


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
    for each in (data, replace(data, where=early)):
        torch.testing.assert_close(answer_logits(model, each), logits(model, each), rtol=1e-9, atol=1e-10)
