"""Settings of an extension chosen on a validation length, by the suite's own search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from posbench.base.disk import noted, write_json
from posbench.base.errors import ConfigError
from posbench.core.extension import Extension, Searched
from posbench.core.streams import stream_seed
from posbench.pretrained.measuring import Measurement, Perplexity
from posbench.pretrained.mounting import Mounted
from posbench.records.record import RecordedTrial, Search


def choose(
    searched: Searched,
    measured: Measurement,
    mounted: Mounted,
    lengths: list[int],
    texts: list[int],
    kept: Path,
) -> tuple[Extension, Search]:
    """The candidate with the least loss on texts of their own, and what all candidates came to.

    The loss is that of an answer's token, in nats. Losses are kept in a file one by one, so that a
    search that was stopped goes on.
    """
    trained = mounted.train_positions
    length = round(searched.multiple * trained)
    if length in lengths:
        raise ConfigError(
            f"extension.multiple={searched.multiple:g} chooses settings at {length} tokens, which "
            "is a test length: choose another multiple"
        )
    if isinstance(measured, Perplexity):
        _refuse_common_tokens(measured, length, max(lengths), max(texts) + 1)
    known: list[float | None] = noted(kept) or []
    asked = 0

    def loss(extension: Extension) -> float:
        nonlocal asked
        asked += 1
        if asked > len(known):
            found = [
                each.log_likelihood
                for text in texts
                for each in measured.found(mounted, extension, length, text, "validation")
            ]
            known.append(_finite(-float(np.mean(found))))
            write_json(known, kept)
        value = known[asked - 1]
        return float("nan") if value is None else value

    rng = np.random.default_rng(stream_seed(texts[0], "search"))
    trials = searched.trials(mounted.trained(length), trained, rng, loss)
    tried: list[Any] = [RecordedTrial(settings=each.settings, loss=each.loss) for each in trials]
    samples = len(texts) * len(measured.numbers(0))
    return trials[0].extension, Search(length=length, num_samples=samples, trials=tried)


def _refuse_common_tokens(measured: Perplexity, chosen: int, tested: int, texts: int) -> None:
    """Tests take stretches from the start of the file, and validation takes them from its end."""
    needed = texts * (chosen + tested - 2 * len(measured.before))
    if needed > len(measured.tokens):
        raise ConfigError(
            f"text={measured.file} has {len(measured.tokens)} tokens, and {needed} are needed, so "
            "that no test has tokens on which settings are chosen: give a longer file, fewer texts "
            "or shorter lengths"
        )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
