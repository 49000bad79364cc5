"""Greedy decoding against teacher forcing: equal where they must be, told apart where they are
not.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from offered import thinned
from small_runs import TINY, ran

from posbench.base.disk import write_json
from posbench.base.errors import PosbenchError
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.remarks import remarks
from posbench.config.compose import compose, composing
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.evaluation import greedy
from posbench.core.scoring import inputs
from posbench.records import files
from posbench.records.record import Audit, AuditRow
from posbench.running import prepare as preparing
from posbench.running import run
from posbench.running.audit import audit
from posbench.running.make import make
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.subject import Subject


def disagreements(run: Setup, model, extension=None, num_samples: int = 64) -> int:
    rows = audit(run.evaluation, model, extension, num_samples)
    return sum(row.prefix_disagreements for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", thinned("encoding"))
def test_decoding_token_by_token_changes_nothing(encoding: str) -> None:
    """With weights as they are drawn: some first tokens are right by chance."""
    subject = Subject(f"encoding={encoding}")
    assert disagreements(subject.made(), subject.model(), num_samples=8) == 0


class SeesTheLength(PositionEncoding):
    """What an extension must not do: its scale is that of the tokens at hand, not of the whole
    sequence.
    """

    def encode(self, a: Attention) -> Attention:
        return a.plus(lambda rows: -40.0 / a.num_queries * a.distance(rows).to(a.q.dtype)[:, None])


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_audit_counts_while_the_record_is_as_it_was(tmp_path: Path) -> None:
    record = ran(tmp_path, "method=rope", "audit=4")
    [audit] = files.read_folder(tmp_path).audits
    assert audit.key == Audit.key_of(record)
    rows = [AuditRow(test_length=8, num_samples=1500, disagreements=2, prefix_disagreements=3)]
    said = remarks(MeasuredRuns.of([]), [audit.model_copy(update={"rows": rows})])[-1]
    assert "1,500 sequences of 1 method were" in said
    assert "disagree on 2 of them, and on the correct prefix of 3" in said
    path = files.audit_path(files.path_of(record, tmp_path))
    write_json(json.loads(path.read_text()) | {"source_hash": "old"}, path)
    assert files.read_folder(tmp_path).audits == []


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The words of a run of a second."""
    with composing():
        yield (*TINY, "training.steps=2", f"results_dir={tmp_path}")


@pytest.mark.slow
def test_a_run_whose_audit_disagrees_is_recorded_and_refused(
    quick: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete but for the audit, or not made yet."""
    rows = [AuditRow(test_length=8, num_samples=4, disagreements=2, prefix_disagreements=1)]
    monkeypatch.setattr(preparing, "audit", lambda *_: rows)
    make(RunSpec.of(compose(*quick)), io.StringIO())
    for words in ((), ("method=alibi",)):
        audited = RunSpec.of(compose(*quick, *words, "audit=4"))
        with pytest.raises(PosbenchError, match=r"the audit failed: .* disagree on 2 at n=8, so"):
            make(audited, said := io.StringIO())
        announced = (
            f"{audited.path} (force=true repeats it, and logs it again). Its audit is made now."
        )
        assert (announced in said.getvalue()) == (not words)
        assert audited.record() is not None


@pytest.mark.slow
def test_a_run_is_complete_with_the_audit_that_is_asked_for(quick: tuple[str, ...]) -> None:
    asked = {count: RunSpec.of(compose(*quick, f"audit={count}")) for count in (0, 2, 4)}
    make(asked[0], io.StringIO())
    assert [asked[count].is_complete for count in (0, 2, 4)] == [True, False, False]
    make(asked[2], io.StringIO())
    assert [asked[count].is_complete for count in (0, 2, 4)] == [True, True, False]
    path = files.audit_path(asked[2].path)
    whole = json.loads(path.read_text())
    rows = [row | {"disagreements": 1} for row in whole["rows"]]
    for changed in ({"rows": rows}, {"evaluation_hash": "old"}):
        write_json(whole | changed, path)
        assert not asked[2].is_complete and asked[0].is_complete


@pytest.mark.slow
def test_a_run_that_is_complete_is_not_made_again(
    quick: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, said = RunSpec.of(compose(*quick)), io.StringIO()
    make(spec, io.StringIO())
    monkeypatch.delattr(run, "train_and_record")
    make(spec, said)
    first, *table = said.getvalue().splitlines()
    assert first == f"Complete already: {spec.path} (force=true repeats it, and logs it again)."
    assert "sequence accuracy on passkey" in table[0]
