"""The mutants of tests/mutants are still mutants of this code. Trying them takes an hour: `python
-m tests.mutants`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.mutants.__main__ import occurrences

HERE = Path(__file__).parent
MUTANTS = [
    pytest.param(mutant, id=f"{path.stem}-{index}")
    for path in sorted((HERE / "mutants").glob("*.yaml"))
    for index, mutant in enumerate(yaml.safe_load(path.read_text("utf-8")))
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_a_mutant_changes_is_there_exactly_once(mutant: dict[str, str]) -> None:
    text = (HERE.parent / mutant["path"]).read_text("utf-8")
    assert len(occurrences(mutant["old"], text)) == 1, f"{mutant['path']}: {mutant['old']!r}"
    assert mutant["old"] != mutant["new"]
    for word in mutant["tests"].split():
        assert not word.endswith(".py") or (HERE.parent / word).exists()
