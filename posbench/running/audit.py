"""Greedy decoding, token by token, beside the one pass of teacher forcing that tests rely on.

Up to the first wrong token both have seen the same prefix, so both must find the same first wrong
token, or none. That holds for whatever sees no later token and takes its scale from the whole
sequence; `audit=N` measures it.
"""

from __future__ import annotations

from pathlib import Path

from posbench.base.errors import PosbenchError
from posbench.core.evaluation import Evaluation
from posbench.core.extension import Extension
from posbench.core.transformer import Transformer
from posbench.records import files
from posbench.records.record import AuditRow


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


def refuse_disagreement(record: Path) -> None:
    """PosbenchError if the audit beside a record has found sequences that count as right or not by
    how they are decoded.
    """
    path = files.audit_path(record)
    rows = files.read_audit(path).rows if path.exists() else []
    # A sequence that differs mostly differs in its prefix as well.
    wrong = {row.test_length: max(row.disagreements, row.prefix_disagreements) for row in rows}
    if any(wrong.values()):
        where = ", ".join(f"{count} at n={n}" for n, count in wrong.items() if count)
        raise PosbenchError(
            f"the audit failed: greedy decoding and teacher forcing disagree on {where}, so the "
            f"scores of this record are not those of decoding: remove it ({record}). The encoding "
            "or extension depends on later tokens or on how many there are; `posbench check` with "
            "the same choices may say where"
        )
