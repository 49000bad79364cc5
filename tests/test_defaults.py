"""One rule for all defaults: what a published setting means at its own training length, it means at
ours. conf/defaults.yaml says what that is, and why where it is not so.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import yaml

from posbench.conf import reference as page
from posbench.conf.reference import (
    BOARD_POSITIONS,
    PublishedSetting,
    calculated,
    defaults,
    settings,
)
from posbench.config import families
from posbench.config.folders import own_names

NEAR = 0.01
"""How far apart two meanings may be that are the same: resolvers round."""


def knobs(file: str) -> dict[str, Any]:
    """The settings that a YAML of a search tries."""
    return dict(page.numbers(yaml.safe_load(families.text(f"{file}.yaml")).get("knobs", {})))


def is_other(file: str, setting: str) -> bool:
    """Whether a setting is listed as a number that no training length changes."""
    return any(
        setting in entry["settings"] and file in entry.get("of", [file])
        for entry in page.table()["others"]
    )


def holds(each: PublishedSetting, file: str, positions: int) -> bool:
    """Whether the value of a file means at that length what was published, within rounding."""
    low, high = sorted(unrounded(each, file, positions))
    between = sorted(each.meaning(value, positions) for value in (low, high))
    meant = each.published_meanings()
    wide = NEAR * max(map(abs, (*meant, *between)))
    return between[0] - wide <= max(meant) and min(meant) <= between[1] + wide


def unrounded(each: PublishedSetting, file: str, positions: int) -> tuple[float, float]:
    """Between what values the one of the file was, before it was rounded or kept within 1."""
    value = each.here(file, positions)
    text = str(page.written_settings(file)[each.setting])
    if text.startswith("${positions:"):
        return (1e-9 if value == 1 else value - 0.5), value + 0.5
    if text.startswith("${rate:") and value == 1:
        return value, 1e9
    if each.unset is not None and value == round(value):
        return value - 1, value + 1
    return value, value


FILES = [f"{group}/{name}" for group in ("encoding", "extension") for name in own_names(group)]
DEFAULTS = [(each, file) for each in defaults() for file in each.of]
HELD = [(each, file) for each, file in DEFAULTS if each.exception is None]
EXCEPTIONS = [(each, file) for each, file in DEFAULTS if each.exception is not None]
TUNED = [file for file in FILES if knobs(file)]
LENGTHS = (BOARD_POSITIONS, 160, 512, 2048)


def called(cases: list[tuple[PublishedSetting, str]]) -> list[str]:
    return [f"{file}.{each.setting}" for each, file in cases]


def one(file: str, setting: str) -> PublishedSetting:
    (found,) = [each for each, of in DEFAULTS if of == file and each.setting == setting]
    return found


# -- nothing is forgotten --------------------------------------------------------------------------


@pytest.mark.slow
def test_every_numeric_setting_has_an_entry_or_is_of_another_kind() -> None:
    for file in FILES:
        scaled = [each.setting for each, of in DEFAULTS if of == file]
        assert len(set(scaled)) == len(scaled), f"{file}: two entries for one setting"
        for setting in page.written_settings(file):
            assert (setting in scaled) != is_other(file, setting), (file, setting)
        assert set(scaled) <= page.written_settings(file).keys(), f"{file}: no such setting"


def test_the_settings_of_a_file_are_found_where_they_stand() -> None:
    assert page.written_settings("encoding/rope_window_nope") == {
        "window": "${positions:0.25}", "base": 10000,
    }  # fmt: skip
    assert page.written_settings("extension/self_extend").keys() == {"window", "group"}
    assert page.written_settings("extension/rerope_tuned").keys() == {"budget", "multiple"}
    assert knobs("extension/dca_tuned").keys() == {"largest", "window"}
    assert page.written_settings("extension/pose").keys() == {"steps", "multiple", "learning_rate"}


def test_every_kind_that_is_listed_occurs() -> None:
    for entry in page.table()["others"]:
        for setting in entry["settings"]:
            where = entry.get("of", FILES)
            assert any(setting in page.written_settings(file) for file in where), setting


def test_what_is_fixed_in_classes_belongs_to_files() -> None:
    assert {entry["of"] for entry in page.table()["fixed"]} <= set(FILES)


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("each", "file"), HELD, ids=called(HELD))
def test_a_default_means_what_was_published(each: PublishedSetting, file: str) -> None:
    meant = each.published_meanings()
    assert meant, "say at what training length, or why ours is what it is"
    for positions in LENGTHS:
        assert holds(each, file, positions), (positions, each.here(file, positions), meant)


@pytest.mark.parametrize(("each", "file"), EXCEPTIONS, ids=called(EXCEPTIONS))
def test_an_exception_is_one(each: PublishedSetting, file: str) -> None:
    if each.published_meanings():
        assert not holds(each, file, BOARD_POSITIONS), "it keeps the rule: no exception is needed"


@pytest.mark.parametrize(
    ("file", "setting", "wrong"),
    [
        ("encoding/alibi", "steepness", 8),
        ("encoding/alibi", "steepness", "${steepness:3}"),
        ("encoding/fire", "threshold", "${positions:0.5}"),
        ("encoding/fire", "init_c", 0.1),
        ("encoding/deberta", "clip", "${positions:0.25}"),
        ("encoding/sandwich", "base", 10000),
        ("encoding/scale_invariant", "tau", 10),
        ("encoding/rope_short_base", "base", "${base_for_turns:0.65}"),
        ("encoding/sliding_window", "window", "${positions:0.75}"),
        ("extension/yarn", "beta_fast", 2),
        ("extension/giraffe_truncated", "turns", 2),
        ("extension/streaming_llm", "sinks", 4),
        ("extension/self_extend", "window", "${positions:0.0625}"),
    ],
)
def test_a_wrong_default_is_found(
    file: str, setting: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = one(file, setting)
    assert holds(each, file, BOARD_POSITIONS)
    changed = {**page.written_settings(file), setting: wrong}
    monkeypatch.setattr(page, "written_settings", lambda of: changed)
    assert not holds(each, file, BOARD_POSITIONS)


def test_an_exception_without_its_reason_is_found() -> None:
    bare = dataclasses.replace(one("encoding/t5", "max_distance"), exception=None)
    assert not holds(bare, "encoding/t5", BOARD_POSITIONS)


def test_rounding_is_forgiven_and_no_more() -> None:
    """A quarter of 42 is 10 or 11; a share of a position is one position, and never two."""
    window = one("encoding/xpos", "scale_base")
    assert all(holds(window, "encoding/xpos", positions) for positions in range(20, 60))
    tiny = one("extension/string", "window")
    assert tiny.here("extension/string", BOARD_POSITIONS) == 1


# -- what the settings come to ---------------------------------------------------------------------


def test_defaults_at_the_length_of_the_board() -> None:
    def here(file: str, setting: str) -> object:
        return settings(file, BOARD_POSITIONS)[setting]

    assert here("encoding/alibi", "steepness") == pytest.approx(math.log2(20), abs=1e-4)
    assert (here("encoding/t5", "num_buckets"), here("encoding/t5", "max_distance")) == (20, 40)
    assert here("encoding/t5_quarter", "num_buckets") == 8
    assert here("encoding/t5_quarter", "max_distance") == 10
    assert here("encoding/random_positions_published", "largest") == 2048
    assert here("extension/yarn", "beta_fast") == 2.69
    assert here("encoding/fire", "init_c") == 1


def test_published_values_come_back_at_the_published_lengths() -> None:
    for file, setting, positions, published in (
        ("encoding/alibi", "steepness", 512, 8),
        ("encoding/t5_quarter", "max_distance", 512, 128),
        ("encoding/t5_quarter", "num_buckets", 512, 32),
        ("encoding/t5", "num_buckets", 512, 32),
        ("encoding/fire", "init_c", 2048, 0.1),
        ("encoding/sandwich", "base", 512, 10000),
        ("encoding/scale_invariant", "tau", 4096, 10),
        ("extension/streaming_llm", "sinks", 4096, 4),
        ("extension/yarn", "beta_fast", 4096, 32),
        ("extension/string", "window", 128000, 128),
    ):
        assert settings(file, positions)[setting] == pytest.approx(published, rel=1e-3), file


@pytest.mark.parametrize("file", TUNED)
def test_a_search_scales_as_its_default_does(file: str) -> None:
    """Its values lie around the default at every length."""
    made = file.removesuffix("_tuned")
    for positions in LENGTHS:
        tried = page.resolved(knobs(file), positions)
        for setting, values in tried.items():
            default = settings(made, positions)[setting]
            if default is None:
                default = one(made, setting).here(made, positions)
            assert min(values) <= default <= max(values), (setting, positions)


# -- the page --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_entry_is_on_the_page_with_its_exception() -> None:
    sections = dict(zip(("encoding", "extension"), page.scaled().split("\n## ")[1:3], strict=True))
    for each, file in DEFAULTS:
        group, _, name = file.partition("/")
        (row,) = [
            line
            for line in sections[group].splitlines()
            if line.startswith(f"| `{each.setting}` of ") and f"`{name}`" in line.split(" | ")[0]
        ]
        assert each.means in row and row.endswith(f"| {each.exception or ''} |")


@pytest.mark.slow
def test_every_row_has_the_cells_of_its_table() -> None:
    for block in page.scaled().split("\n\n"):
        assert len({line.count("|") for line in block.splitlines() if line[0] == "|"}) <= 1, block


def test_expressions_know_arithmetic_and_nothing_else() -> None:
    assert calculated("log(value) / L", value=math.e, L=2) == 0.5
    with pytest.raises(NameError):
        calculated("open('x')")
