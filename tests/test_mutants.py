"""The mutants of tests/mutants are still mutants of this code. Trying them takes an hour: `python
-m tests.mutants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants.__main__ import occurrences

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_what_a_mutant_changes_is_there_exactly_once() -> None:
    known = command.mutants()
    paths = {mutant["path"] for mutant in known}
    texts = {path: (ROOT / path).read_text("utf-8") for path in paths}
    found = {(each["path"], each["old"]): each for each in known}
    counts = {key: len(occurrences(each["old"], texts[key[0]])) for key, each in found.items()}
    assert {key: count for key, count in counts.items() if count != 1} == {}
    assert not [mutant for mutant in known if mutant["old"] == mutant["new"]]
    words = {word for mutant in known for word in mutant["tests"].split() if word.endswith(".py")}
    assert not [word for word in words if not (ROOT / word).exists()]


def test_the_table_gets_the_rows_that_it_lacks_and_loses_those_of_no_mutant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "code.py"
    code.write_text("x = a | b")
    mutant = {"path": str(code), "old": "a | b", "new": "c"}
    known = [{"method": name, **mutant} for name in ("rope", "alibi")]
    tried: list[str] = []

    def each(chosen: Sequence[dict[str, str]], seconds: float) -> Iterator[tuple[str, ...]]:
        for mutant in chosen:
            if mutant["method"] == "broken":
                raise SystemExit("its tests fail without any change")
            tried.append(mutant["method"])
            yield (*command.named(mutant), "caught")

    def call(*words: str) -> object:
        tried.clear()
        monkeypatch.setattr("sys.argv", ["mutants", *words])
        try:
            command.main()
        except SystemExit as ended:
            return ended.code
        return 0

    monkeypatch.setattr(command, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(command, "mutants", lambda: known)
    monkeypatch.setattr(command, "tried", each)
    said = f"{command.TABLE} is not of today for alibi, rope: run `{command.COMMAND}`"
    assert call("--check") == said and not tried
    assert not call("--write") and tried == ["rope", "alibi"]
    assert [row[0] for row in command.results()] == ["alibi", "rope"]
    assert not call("--check") and not call("--write") and not tried
    code.write_text("x = b")
    assert call("--check") == "rope: 'a | b' occurs 0 times, not once"
    code.write_text("x = a | b")
    assert not call("--write", "rope") and tried == ["rope"]
    known[0] = {**known[0], "new": "d"}
    assert "today for rope: run" in str(call("--check"))
    known.append({"method": "broken", "old": "x", "new": "y"})
    assert "without any change" in str(call("--write")) and tried == ["rope"]
    assert {row[:2] for row in command.results()} == {command.named(each) for each in known[:2]}
