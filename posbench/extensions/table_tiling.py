"""Trained rows over and over."""

from __future__ import annotations

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.extensions.combined_rows import Combined


class TableTiling(Extension):
    r"""The trained rows of a position table are repeated over and over.

    $P'_p = P_{p \bmod L}$: the trained rows over and over (Longformer, arXiv 2004.05150,
    section 5, from RoBERTa's 512 to 4096).

    Every row is one that was trained, and near neighbours are as they were except across a seam.
    Tokens L apart share a row, by design: the table cannot distinguish them. Longformer goes on to
    train.
    """

    needs = "rows"

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return Combined(encoding, lambda rows, pos: rows(pos % train_positions), None)
