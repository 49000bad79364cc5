"""A few rows of a board in a README, and their picture, which no version of a library changes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from making import record

from posbench.base.errors import PosbenchError
from posbench.boards import opening
from posbench.boards.excerpt import excerpts
from posbench.boards.labels import short_names
from posbench.boards.measured import Measured
from posbench.boards.parts import Part
from posbench.boards.ranking import standings_without_board
from posbench.config import board as definition
from posbench.config.board import Rows
from posbench.records import tables

README = """# A project

<!-- board FOLDER: direct pi of rope at 1 2 -->
what stood here
<!-- end of board -->

More.
"""
SVG = "{http://www.w3.org/2000/svg}"


def table(*extensions: str, seeds: tuple[int, ...] = (0, 1, 2)) -> pd.DataFrame:
    """Two tasks; PI has .5 and .3 at 2x on them, and direct nothing, whatever the seed."""
    at_twice = {"direct": (0.0, 0.0), "pi": (0.5, 0.3)}
    return tables.table(
        [
            record(
                f"rope_{extension}",
                {1: 1.0, 2: at_twice[extension][place]},
                seed,
                task=task,
                encoding="rope",
                extension=extension,
            )
            for extension in extensions
            for place, task in enumerate(("copy", "passkey"))
            for seed in seeds
        ]
    )


def asked(folder: Path, known: pd.DataFrame, text: str = README) -> tuple[str, str]:
    """The README, and the picture."""
    readme = folder / "README.md"
    readme.write_text(text.replace("FOLDER", str(folder)))
    board = definition.load("main")
    measured = Measured.of(known)
    made = excerpts(readme, folder, measured, board, standings_without_board(board, measured))
    return made[readme], made.get(folder / "excerpt.svg", "")


def test_rows_are_means_over_tasks_and_the_best_stands_first(tmp_path: Path) -> None:
    readme, _ = asked(tmp_path, table("direct", "pi"))
    assert "what stood here" not in readme and readme.endswith("-->\n\nMore.\n")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \S* ?\| (\S+)", readme, re.M)
    assert [(name, twice) for name, _, twice in rows] == [("pi", ".40"), ("direct", ".00")]


def test_scores_are_corrected_for_chance_and_not_below_0(tmp_path: Path) -> None:
    known = table("direct", "pi").assign(chance=0.2)
    readme, _ = asked(tmp_path, known)
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \S* ?\| (\S+)", readme, re.M)
    assert rows == [("pi", "1.00", ".25"), ("direct", "1.00", ".00")]


def test_a_row_that_lacks_a_task_is_named(tmp_path: Path) -> None:
    known = table("direct", "pi")
    lacking = known[~((known["extension"] == "pi") & (known["task"] == "passkey"))]
    with pytest.raises(PosbenchError, match="no runs of rope with pi on passkey"):
        asked(tmp_path, lacking)


def test_runs_of_other_protocols_and_seeds_without_all_tasks_do_not_count(tmp_path: Path) -> None:
    whole, more = table("direct", "pi"), table("direct", "pi", seeds=(3,)).assign(score=0.0)
    part = more[more["task"] == "copy"]
    wide = table("direct", "pi").assign(protocol="cpu_wide", protocol_hash="wide", score=0.0)
    assert asked(tmp_path, pd.concat([whole, part, wide])) == asked(tmp_path, whole)


def test_a_length_that_a_task_lacks_is_named(tmp_path: Path) -> None:
    known = table("direct", "pi")
    lacking = known[~((known["task"] == "copy") & (known["multiple"] == 2))]
    with pytest.raises(
        PosbenchError, match="not every seed of rope with direct was tested at 2x on all"
    ):
        asked(tmp_path, lacking)


def test_two_versions_of_a_task_have_no_mean_in_common(tmp_path: Path) -> None:
    known = table("direct", "pi")
    newer = known[known["task"] == "copy"].assign(task_version=2, score=0.0)
    with pytest.raises(PosbenchError, match="rope with direct are of several versions or settings"):
        asked(tmp_path, pd.concat([known, newer]))


def test_a_readme_without_a_comment_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(PosbenchError, match=r"no comment that asks for a board of .*: write <!"):
        asked(tmp_path, table("direct"), "# A project")


def test_a_comment_in_other_words_is_told_which_there_are(tmp_path: Path) -> None:
    other = README.replace("direct pi of rope at 1 2", "the best ten")
    with pytest.raises(PosbenchError, match=r"asks for 'the best ten' of .*, or ROWS by group"):
        asked(tmp_path, table("direct", "pi"), other)


def test_names_may_have_hyphens(tmp_path: Path) -> None:
    """An encoding with what it turns on in the model, and an extension with the one inside it."""
    names = {"direct": "yarn_tuned-by_parts", "pi": "yarn+sliding_window"}
    known = table("direct", "pi").assign(encoding="rope-qk_norm")
    known = known.assign(extension=known["extension"].map(names))
    words = f"{' '.join(names.values())} of rope-qk_norm at 1 2"
    readme, _ = asked(tmp_path, known, README.replace("direct pi of rope at 1 2", words))
    assert re.findall(r"^\| `(\S+)` \|", readme, re.M) == list(names.values())[::-1]


def test_the_picture_is_of_the_first_comment(tmp_path: Path) -> None:
    alone, picture = asked(tmp_path, table("direct", "pi"), README)
    twice = README + README.replace("direct pi of", "direct of")
    readme, same = asked(tmp_path, table("direct", "pi"), twice)
    assert readme.startswith(alone) and readme.count("| `direct` |") == 2
    assert same == picture and readme.count("| `pi` |") == 1


GROUPS = """
<!-- board FOLDER: rope_direct rope_pi by group -->
<!-- end of board -->
"""


def test_a_length_that_is_no_number_is_no_request(tmp_path: Path) -> None:
    with pytest.raises(PosbenchError, match=r"asks for 'direct pi of rope at 1 \. 2'"):
        asked(tmp_path, table("direct", "pi"), README.replace("at 1 2", "at 1 . 2"))


def test_rows_by_group_have_their_overall_and_the_largest_stands_first(tmp_path: Path) -> None:
    """Areas from 1x to 2x: half of what is lost at 2x."""
    readme, picture = asked(tmp_path, table("direct", "pi"), GROUPS)
    cells = [line.split(" | ") for line in readme.splitlines() if line.startswith("|")]
    assert cells[0][1:4] == ["overall", "copy", "passkey"], "two tasks give no interval over tasks"
    assert [tuple(row[:4]) for row in cells[2:]] == [
        ("| `rope_pi`", ".70", ".75", ".65"),
        ("| `rope_direct`", ".50", ".50", ".50"),
    ]
    assert picture == ""


def test_rows_by_group_stand_on_the_tasks_that_all_of_them_have(tmp_path: Path) -> None:
    known = table("direct", "pi")
    lacking = known[~((known["extension"] == "pi") & (known["task"] == "passkey"))]
    readme, _ = asked(tmp_path, lacking, GROUPS)
    assert "| method | overall (1 of 2 tasks) | copy |" in readme
    alone = known[known["extension"] == "direct"]
    with pytest.raises(PosbenchError, match="no section of the board has rope_direct, rope_pi on"):
        asked(tmp_path, alone, GROUPS)


def test_each_comment_is_filled_and_those_of_other_folders_stay(tmp_path: Path) -> None:
    other = "\n<!-- board elsewhere: ntk of rope at 1 -->\nas it was\n<!-- end of board -->\n"
    readme, picture = asked(tmp_path, table("direct", "pi"), README + other + GROUPS)
    assert "| `pi` |" in readme and "| `rope_pi` |" in readme and "\nas it was\n" in readme
    assert picture


def test_the_picture_is_a_file_of_its_own_with_a_curve_and_a_band_each(tmp_path: Path) -> None:
    _, picture = asked(tmp_path, table("direct", "pi"))
    found = ElementTree.fromstring(picture)
    kinds = [each.get("class") for each in found.iter(f"{SVG}path")]
    assert [kinds.count(kind) for kind in ("curve c0", "curve c1", "band c0", "band c1")] == [1] * 4
    assert [each.text for each in found.iter(f"{SVG}text")][-2:] == ["pi", "direct"]
    assert "prefers-color-scheme: dark" in picture
    _, single = asked(tmp_path, table("direct", "pi", seeds=(0, 1)))
    assert "band c0" not in single.partition("</style>")[2], "two seeds have no interval"


def test_a_curve_goes_through_its_scores() -> None:
    """From the left edge at 1x to the right at 4x, and half way up at a half."""
    drawn = opening.drawn({"a<b": pd.Series({1.0: 1.0, 2.0: 0.5, 4.0: 0.0})}, "all", alone=True)
    (path,) = re.findall(r'<path class="curve c0" d="M([^"]*)"', drawn)
    points = [tuple(map(float, point.split())) for point in path.split("L")]
    left, right = opening.LEFT, opening.WIDTH - opening.RIGHT
    top, bottom = opening.TOP, opening.HEIGHT - opening.BOTTOM
    assert points == [(left, top), ((left + right) / 2, (top + bottom) / 2), (right, bottom)]
    assert ">a&lt;b</text>" in drawn


def test_ten_curves_are_told_apart(tmp_path: Path) -> None:
    """Each has a colour and dashes that no other has, and the picture says whose bands it has."""
    names = [f"pi{place}" for place in range(11)]
    one = table("pi")
    known = pd.concat([one.assign(extension=name) for name in names])
    words = README.replace("direct pi of", f"{' '.join(names[:10])} of")
    _, picture = asked(tmp_path, known, words)
    style, _, drawn = picture.partition("</style>")
    looks = re.findall(r'class="curve (c\d+)"', drawn)
    assert len(set(looks)) == 10
    for scheme in style.split("@media")[:2]:
        colours = re.findall(r"--c\d: (#\w+);", scheme)
        assert len(set(colours)) == len(colours) >= 8
    assert set(re.findall(r"\.(c\d) \{ stroke: var", style)) == set(looks)
    assert "3 bands: 95 % over seeds" in drawn and drawn.count('class="band') == 3
    with pytest.raises(PosbenchError, match="10 curves apart, and its first comment names 11"):
        asked(tmp_path, known, README.replace("direct pi of", f"{' '.join(names)} of"))


def test_a_band_is_half_an_interval_above_and_below() -> None:
    curve, half = pd.Series({1.0: 0.5, 2.0: 0.5}), pd.Series({1.0: 0.25, 2.0: 0.25})
    drawn = opening.drawn({"rope": curve}, "all", {"rope": half})
    (path,) = re.findall(r'<path class="band c0" d="M([^"]*)Z"', drawn)
    heights = [float(point.split()[1]) for point in path.split("L")]
    quarter = (opening.HEIGHT - opening.TOP - opening.BOTTOM) / 4
    assert heights == [opening.TOP + quarter] * 2 + [opening.TOP + 3 * quarter] * 2


def section(tasks: str, protocol: str = "cpu", complete: int = 2, of: str = "") -> Any:
    """A section, of the extensions of one encoding if there is one."""
    runs = pd.DataFrame({"protocol_name": protocol, "task_name": tasks.split()})
    rows = Rows(
        encodings=(of,) if of else ("nope", "rope"), extensions=("direct", "pi"), seeds=(0,)
    )
    return SimpleNamespace(part=Part("", rows, runs), complete=["row"] * complete)


def test_a_page_opens_with_the_sections_that_have_the_same_and_the_most_tasks() -> None:
    under_way, whole, other = section("a"), section("a b"), section("b a")
    wide, empty = section("a b c", "cpu_wide"), section("a b c", complete=0)
    assert opening.alike([under_way, whole, wide, other, empty]) == [whole, other]
    assert opening.alike([under_way]) == [under_way]
    assert opening.alike([empty]) == opening.alike([]) == []


def test_extensions_of_another_encoding_are_not_drawn_beside_those_of_the_first() -> None:
    short, encodings, base = (
        section("a", of="rope_short_base"),
        section("a"),
        section("a", of="rope"),
    )
    tuned = section("a", of="rope_short_base")
    assert opening.alike([short, encodings, base, tuned]) == [short, encodings, tuned]
    assert opening.alike([encodings, short, base]) == [encodings, short, base]
    assert opening.plain(encodings) == opening.plain(base) == ""
    base.complete.append("rope")
    assert opening.plain(base) == "rope"


def test_the_model_that_all_rows_have_is_not_repeated() -> None:
    assert short_names(["pi@a", "yarn@a"]) == ["pi", "yarn"]
    assert short_names(["pi@a", "yarn@b", "rope"]) == ["pi@a", "yarn@b", "rope"]
