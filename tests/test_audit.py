"""Greedy decoding against teacher forcing: equal where they must be, told apart where they are
not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from conftest import names

from posbench import results
from posbench.attention import Attention
from posbench.catalogue.conformance import Subject
from posbench.encoding import PositionEncoding
from posbench.evaluation import greedy
from posbench.leaderboard.remarks import remarks
from posbench.running.audit import audited
from posbench.running.setup import Setup
from posbench.scoring import inputs


def disagreements(run: Setup, model, extension=None, num_samples: int = 256) -> int:
    return sum(
        row["prefix_disagreements"] for row in audited(run.tests, model, extension, num_samples)
    )


@pytest.mark.parametrize("encoding", names("encoding"))
def test_decoding_token_by_token_changes_nothing(encoding: str) -> None:
    """With weights as they are drawn: some first tokens are right by chance."""
    subject = Subject(f"encoding={encoding}")
    assert disagreements(subject.made(), subject.model(), num_samples=24) == 0


class SeesTheLength(PositionEncoding):
    """What an extension must not do: its scale is that of the tokens at hand, not of the whole
    sequence.
    """

    def encode(self, a: Attention) -> Attention:
        return a.plus(lambda rows: -40.0 / a.num_queries * a.distance(rows).to(a.q.dtype)[:, None])


def test_a_scale_that_follows_the_tokens_at_hand_is_found_out() -> None:
    subject = Subject("encoding=nope")
    model = subject.model()
    leaking = model.with_encodings(
        model.encodings.replaced([SeesTheLength() for _ in model.encodings])
    )
    assert disagreements(subject.made(), model) == 0
    assert disagreements(subject.made(), leaking) > 0


def test_a_wrong_token_is_what_the_next_is_predicted_from() -> None:
    """Token by token by hand, on a task whose answer part also holds tokens that are given."""
    subject = Subject("encoding=alibi", "task=key_value_retrieval")
    run, model = subject.made(), subject.model()
    batch = run.task.batch(run.train_length, 1, 0, "test", run.train_length)
    data = inputs(batch, model.encodings, 0)
    found = greedy(model, data)
    tokens, expected = data.tokens.clone(), torch.zeros_like(data.where)
    for place in data.where[0].nonzero()[:, 0].tolist():
        chosen = model(tokens[:, : place + 1], data.pos[:, : place + 1])[0, -1].argmax()
        expected[0, place] = chosen == batch.tokens[0, place + 1]
        if place + 1 < tokens.shape[1]:
            tokens[0, place + 1] = chosen
    assert (found == expected.numpy()).all()
    assert not found[data.where.numpy()].all()


def test_an_audit_counts_while_it_is_of_the_record_beside_it(tmp_path: Path) -> None:
    known = {"source_hash": "a", "evaluation_hash": "b"}
    record = dict.fromkeys(results.PARTS) | {"schema": results.SCHEMA, "provenance": known}
    path = results.record_path(tmp_path, "cpu", "copy", "rope", 0)
    results.write(record, path)
    assert results.audits(tmp_path) == []
    rows = [{"num_samples": 1500, "disagreements": 2, "prefix_disagreements": 3}]
    audit = {"method": "rope", "rows": rows, **known}
    results.write(audit, results.audit_path(path))
    assert results.audits(tmp_path) == [audit]
    assert "1,500 sequences of 1 method were" in remarks([], results.table([]), [audit])[-1]
    assert (
        "disagree on 2 of them, and on the correct prefix of 3"
        in remarks([], results.table([]), [audit])[-1]
    )
    results.audit_path(path).write_text(json.dumps(audit | {"source_hash": "old"}))
    assert results.audits(tmp_path) == []
