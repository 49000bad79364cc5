"""What the model is given, token by token, and what it is asked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from posbench.core.encoding import EncodingStack
from posbench.core.scoring import Inputs, answers, inputs, loss
from posbench.core.task import EOS, FIRST_SYMBOL, MARK, Batch, assemble
from posbench.encodings.nope import NoPE
from posbench.tasks.copy import Copy

A, B, C = range(FIRST_SYMBOL, FIRST_SYMBOL + 3)
NONE = EncodingStack([NoPE()])


def induction() -> Batch:
    """BOS MARK B C SEP MARK B EOS, of which B and EOS are asked for."""
    prompt, answer = np.array([[MARK, B, C]]), np.array([[MARK, B]])
    return assemble(prompt, answer, np.array([[False, True]]), np.array([[-1, 1]]))


def test_a_token_comes_with_the_segment_of_itself_and_the_label_of_the_next() -> None:
    batch, data = induction(), inputs(induction(), NONE, 0)
    assert data.tokens.tolist() == [batch.tokens[0, :-1].tolist()]
    assert data.segments.tolist() == [[0, 0, 0, 0, 0, 1, 1]], "SEP is the last of the prompt"
    assert data.where.tolist() == [[False] * 5 + [True, True]]
    assert data.labels.tolist() == [B, EOS]
    assert data.first == 5
    assert data.pos.tolist() == [[0, 1, 2, 3, 4, 5, 6]]


def test_ids_of_the_task_are_those_of_the_input_tokens() -> None:
    encoding = NoPE()
    encoding.ids = "coupled"
    data = inputs(Copy().batch(2, 3, "ids"), EncodingStack([encoding]), 0)
    assert data.pos.tolist() == [[0, 1, 2, 3, 1, 2]] * 3, "BOS, a symbol each, SEP, their copies"


class Parrot(SimpleNamespace):
    """Stands for a model: sure of the tokens it is told to say."""

    def __call__(
        self, tokens: Tensor, pos: Tensor, segments: Tensor, where: Tensor, first: int
    ) -> Tensor:
        said = torch.tensor(self.words)[where]
        return 5.0 * torch.nn.functional.one_hot(said, FIRST_SYMBOL + 3).float()


def said(*words: list[int]) -> tuple[Parrot, Inputs, Batch]:
    """One copy of A B for each list of four words: two symbols, EOS, and what comes before."""
    x = np.array([[A, B]]).repeat(len(words), 0)
    batch = assemble(x, x, np.ones_like(x, bool), np.array([[0, 1]]).repeat(len(words), 0))
    rows = [[0, 0, 0, *row] for row in words]
    return Parrot(words=rows), inputs(batch, NONE, 0), batch


def test_a_sequence_is_right_if_every_symbol_and_its_end_are() -> None:
    found = answers(*said([A, B, EOS], [A, C, EOS], [A, B, A], [B, B, EOS]))  # type: ignore[arg-type]
    assert found.sequences.tolist() == [True, False, False, False]
    assert found.without_end.tolist() == [True, False, True, False]
    # BOS A B SEP A B EOS: three places before SEP, of which nothing is asked.
    assert found.asked.tolist() == [[False] * 3 + [True] * 3] * 4
    assert found.ends.tolist() == [[False] * 5 + [True]] * 4
    expected = [[1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]]
    assert found.right.astype(int).tolist() == [[0, 0, 0, *row] for row in expected]
    assert found.symbols.tolist() == [True, True, True, False, True, True, False, True]


def test_the_loss_is_the_mean_over_the_tokens_that_are_asked_for() -> None:
    model, data, batch = said([A, B, EOS], [A, C, EOS])
    # Logit 5 for what is said and 0 for the ten others.
    right, wrong = np.log(1 + 10 * np.exp(-5)), np.log(np.exp(5) + 10)
    found = answers(model, data, batch)  # type: ignore[arg-type]
    expected = [[0, 0, 0, right, right, right], [0, 0, 0, right, wrong, right]]
    np.testing.assert_allclose(found.losses, expected, rtol=1e-5)
    np.testing.assert_allclose(found.mean_loss, (5 * right + wrong) / 6, rtol=1e-5)
    np.testing.assert_allclose(
        loss(model, data).item(),
        (5 * right + wrong) / 6,
        rtol=1e-6,  # type: ignore[arg-type]
    )
