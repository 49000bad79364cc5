"""Greedy decoding, token by token, beside the one pass of teacher forcing that tests rely on.

Up to the first wrong token both have seen the same prefix, so both must find the same first wrong
token, or none. That holds for whatever sees no later token and takes its scale from the whole
sequence; `audit=N` measures it.
"""

from __future__ import annotations

from posbench.evaluation import Evaluation
from posbench.extension import Extension
from posbench.records.record import AuditRow
from posbench.transformer import Transformer


def audit(
    evaluation: Evaluation, model: Transformer, extension: Extension | None, num_samples: int
) -> list[AuditRow]:
    """One row for each test length."""
    rows = []
    model.eval()
    for n in evaluation.lengths.multiples:
        count = wrong = prefixes = 0
        extended = evaluation.extend(model, extension, n)
        for batch in evaluation.batches(n, num_samples):
            forced = evaluation.predict(extended, model, batch)
            decoded = evaluation.decode(extended, model, batch)
            count += len(batch.tokens)
            wrong += int((decoded.sequences != forced.sequences).sum())
            prefixes += int((decoded.correct_prefix != forced.correct_prefix).sum())
        rows.append(
            AuditRow(
                test_length=n,
                num_samples=count,
                disagreements=wrong,
                prefix_disagreements=prefixes,
            )
        )
    return rows
