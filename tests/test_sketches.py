"""Sketches: what a page without torch shows of each method is what the catalogue measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from posbench.boards import measured_runs
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.config.identity import identify
from posbench.explain import sketches


def test_every_row_has_a_sketch_and_none_is_left_over() -> None:
    known, rows = measured_runs.sketches(), sketches.rows()
    assert set(own_names("method")) < set(rows)
    assert set(known) == set(rows), f"run `{sketches.COMMAND}`"
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
    kept, made = measured_runs.sketches()[name], sketches.sketch(name, sketches.rows()[name])
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


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["encoding=alibi"], ["the score falls with the distance: 5.66 at 0, "]),
        (
            ["encoding=nope"],
            [
                "is the same at every distance: 5.66 at 0,",
                "cope, nope, headscale and 6 other rows have",
            ],
        ),
        (["encoding=sinusoidal"], ["the product of the encodings rises and falls"]),
        (["encoding=sliding_window"], ["unseen at 38 (head 1)"]),
        (["method=rope_pi"], ["rope_pose, ", " have the same picture: if yours should differ"]),
    ],
)
def test_a_sketch_is_told_in_sentences(words: list[str], wanted: list[str]) -> None:
    said = " ".join(sketches.told(sketches.sketch("mine", words)))
    assert all(each in said for each in wanted), said


def test_a_wrong_sign_is_told() -> None:
    known = measured_runs.sketches()["alibi"]
    turned = known | {"curves": [[-value for value in curve] for curve in known["curves"]]}
    said = next(sketches.told(turned))
    assert said.startswith(
        "untrained and between equal tokens, the score rises with the distance: -5.66 at 0, "
    )
    assert said.endswith("; if far keys should count less, turn the sign")
    assert "sign" not in next(sketches.told(known))
    some = known | {"curves": [turned["curves"][0], *known["curves"][1:]]}
    said = next(sketches.told(some))
    assert "the score falls with the distance in 3 of 4 heads: 5.66" in said
    assert "(head 2); if" in said
    raised = [[8.0, *(0.1 * at for at in range(1, len(curve)))] for curve in known["curves"]]
    assert "rises with the distance" in next(sketches.told(known | {"curves": raised}))
    alone = [[5.0, *([None] * (len(curve) - 1))] for curve in known["curves"]]
    assert "is seen at no other distance: 5 at 0" in next(sketches.told(known | {"curves": alone}))


@pytest.mark.parametrize(("off", "same"), [(0.1, True), (2.0, False)])
def test_what_differs_by_a_hundredth_of_its_range_has_another_picture(
    off: float, same: bool
) -> None:
    """The scores of ALiBi's first head have a range of 37."""
    known = measured_runs.sketches()["alibi"]
    curves = np.array(known["curves"])
    curves[0, 20] -= off
    mine = known | {"method": "mine", "curves": curves.tolist()}
    assert ("alibi" in sketches.alike(mine)) == same
    assert "alibi" not in sketches.alike(known)  # a row is not like itself


def test_the_code_of_a_row_is_that_of_its_settings_and_classes() -> None:
    """Rows of one class with other settings differ, and a row is the same however it is named."""
    rope, base = sketches.code(["method=rope"]), sketches.code(["encoding=rope_short_base"])
    assert len({rope, base, sketches.code(["method=rope_pi"])}) == 3
    assert rope == sketches.code(["encoding=rope", "extension=direct"])
    assert rope == measured_runs.sketches()["rope"]["code"]


def test_only_rows_that_are_new_or_have_changed_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, drawn = {"rope": "a", "alibi": "b"}, []
    path = tmp_path / sketches.FILE

    def sketch(name: str, words: tuple[str, ...]) -> dict[str, str]:
        drawn.append(name)
        return {"method": name}

    def calls(*arguments: str) -> tuple[int, list[str], str]:
        drawn.clear()
        status = sketches.main([*arguments])
        return status, list(drawn), capsys.readouterr().err

    monkeypatch.setattr(sketches, "files", lambda package: tmp_path)
    monkeypatch.setattr(sketches, "rows", lambda: {name: (name,) for name in codes})
    monkeypatch.setattr(sketches, "code", lambda words: codes[words[0]])
    monkeypatch.setattr(sketches, "sketch", sketch)
    assert calls("--check")[0] == 1 and not path.exists()
    assert calls() == (0, ["rope", "alibi"], "")
    whole = path.read_text()
    assert [json.loads(line)["method"] for line in whole.splitlines()] == ["alibi", "rope"]
    assert calls("--check") == calls() == (0, [], "")
    assert calls("rope") == (0, ["rope"], "")
    codes["rope"] = "c"
    said = f"{sketches.FILE} is not of today for rope: run `{sketches.COMMAND}`"
    assert calls("--check") == (1, [], f"posbench: {said}\n")
    assert path.read_text() == whole, "--check wrote something"
    assert calls() == (0, ["rope"], "")
    del codes["alibi"]
    assert "of today for alibi: run" in calls("--check")[2]
    assert calls() == (0, [], "") and "alibi" not in path.read_text()
