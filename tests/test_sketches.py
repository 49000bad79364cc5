"""Sketches: what a page without torch shows of each method is what the catalogue measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from posbench.boards import page_data
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.config.identity import identify
from posbench.explain import sketches


def test_every_row_has_a_sketch_and_none_is_left_over() -> None:
    known, rows = page_data.sketches(), sketches.rows()
    assert set(own_names("method")) < set(rows)
    assert set(known) == set(rows), "run `python -m posbench.catalogue.sketches`"
    for name, line in known.items():
        assert len(line["map"]) == sketches.CELLS * (sketches.CELLS + 1) // 2, name
        assert {len(curve) for curve in line["curves"]} == {len(line["distances"])}, name
        assert json.loads(sketches.text([line])) == line


@pytest.mark.parametrize("name", ["rope_short_base", "rope_short_base+yarn+log_n", "rope_yarn"])
def test_a_row_is_named_as_records_name_it(name: str) -> None:
    assert identify(compose(*sketches.rows()[name])).method.label == name


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["rope", "alibi", "rope_sliding_window", "cope", "rope_short_base+yarn"]
)
def test_a_sketch_is_what_is_measured_today(name: str) -> None:
    kept, made = page_data.sketches()[name], sketches.sketch(name, sketches.rows()[name])
    for key in ("quantity", "distances", "trained", "path", "keys"):
        assert made[key] == kept[key]
    one, other = (np.array(line["curves"], float) for line in (kept, made))
    np.testing.assert_allclose(one, other, rtol=2e-2, atol=1e-2)
    letters = [[sketches.LEVELS.index(letter) for letter in line["map"]] for line in (kept, made)]
    assert np.abs(np.subtract(*letters)).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("rope", "yes"),
        ("alibi", "yes"),  # of which the bias is added, and no part of a key
        ("rope_yarn", "at one scale"),
        ("rope_dynamic_ntk", "at one scale"),
        ("path", "no keys"),
        ("xpos_block_causal", "no"),  # keys are scaled by the block that asks
    ],
)
def test_whether_keys_can_be_cached(name: str, keys: str) -> None:
    assert sketches.sketch(name)["keys"] == keys


def test_a_map_shows_where_attention_goes() -> None:
    """All of it on the token itself is darkest on the diagonal and white elsewhere."""
    size = sketches.MAP
    letters = sketches._map(np.eye(size) * np.arange(1, size + 1)[:, None])
    places = list(zip(*np.tril_indices(sketches.CELLS), strict=True))
    last = dict(zip(places, letters, strict=True))
    assert last[sketches.CELLS - 1, sketches.CELLS - 1] == sketches.LEVELS[-1]
    assert {letter for (query, key), letter in last.items() if key < query} == {"0"}


def test_check_notices_rows_that_are_drawn_otherwise_and_rows_that_are_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = {"rope": "0", "alibi": "1"}
    monkeypatch.setattr(sketches, "files", lambda package: tmp_path)
    monkeypatch.setattr(sketches, "rows", lambda: dict.fromkeys(drawn, ()))
    monkeypatch.setattr(sketches, "sketch", lambda name, _: {"method": name, "map": drawn[name]})
    path = tmp_path / sketches.FILE
    assert sketches.main([]) == 0
    whole = path.read_text()
    assert [json.loads(line)["method"] for line in whole.splitlines()] == ["alibi", "rope"]
    assert sketches.main(["--check"]) == 0
    capsys.readouterr()
    drawn["rope"] = "2"
    assert sketches.main(["--check", "alibi"]) == 0
    assert sketches.main(["--check"]) == 1
    again = "run `python -m posbench.catalogue.sketches rope`"
    assert capsys.readouterr().err == f"posbench: regenerating changes {sketches.FILE}: {again}\n"
    assert path.read_text() == whole, "--check wrote something"
    assert sketches.main(["rope"]) == 0 == sketches.main(["--check"])
    del drawn["alibi"]
    assert sketches.main(["--check"]) == 1
    assert sketches.main([]) == 0 == sketches.main(["--check"])
    assert "alibi" not in path.read_text()
