"""Greedy decoding, token by token, against the one pass of teacher forcing that every test relies on.

Up to the first wrong token both have seen the same prefix, so both must find the same first wrong token, or none. That
holds for whatever sees no later token and takes its scale from the whole sequence; `audit=N` measures it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from posbench.evaluation import Answers, Tests
from posbench.extension import Extension
from posbench.scoring import Inputs
from posbench.transformer import Transformer


def audited(tests: Tests, model: Transformer, extension: Extension | None, num_samples: int) -> list[dict[str, Any]]:
    """One row a test length: on how many sequences the two disagree, and on how many answers' correct prefix."""
    rows = []
    model.eval()
    device = next(model.parameters()).device
    for n in tests.lengths:
        batch, extended = tests.batch(n, num_samples), tests.extended(model, extension, n)
        forced = tests.answers(extended, model, batch, n)
        right = greedy(extended, tests.inputs(batch, model, n).to(device))
        decoded = Answers(forced.asked, right, np.zeros_like(forced.losses))
        rows.append(
            {
                "test_length": n,
                "num_samples": num_samples,
                "disagreements": int((decoded.sequences != forced.sequences).sum()),
                "prefix_disagreements": int((decoded.correct_prefix != forced.correct_prefix).sum()),
            }
        )
    return rows


@torch.inference_mode()
def greedy(model: Transformer, data: Inputs) -> np.ndarray:
    """Which tokens of the answers are right, [batch, n], where each is predicted from the prompt and those before it.

    The model is given prefixes, as if it were generating: the tokens it has chosen, and nothing of what comes after.
    """
    tokens, right = data.tokens.clone(), torch.zeros_like(data.where)
    labels = torch.zeros_like(data.tokens)
    labels[data.where] = data.labels
    for column in data.where.any(0).nonzero()[:, 0].tolist():
        asked, seen = data.where[:, column], slice(0, column + 1)
        last = torch.zeros_like(data.where[:, seen])
        last[:, -1] = asked
        chosen = model(tokens[:, seen], data.pos[:, seen], data.segments[:, seen], last).argmax(-1)
        right[asked, column] = chosen == labels[asked, column]
        if column + 1 < tokens.shape[1]:
            tokens[asked, column + 1] = chosen
    return right.cpu().numpy()
