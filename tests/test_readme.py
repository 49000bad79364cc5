"""The README keeps its word: its recipe runs as printed, its names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posbench import standalone
from posbench.base.errors import ConfigError
from posbench.boards import findings
from posbench.boards.measured import Measured
from posbench.boards.ranking import standings_of
from posbench.boards.tables import ranking
from posbench.config import board as definition
from posbench.config.folders import own_names
from posbench.records import files, tables
from posbench.showing.table import code, number

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_recipe_for_an_encoding_of_ones_own_runs_as_printed(tmp_path: Path) -> None:
    as_printed = r"```(?:python|yaml)\n((?:# @.*\n)?# (mine/\S+)\n.*?)```"
    for block, name in re.findall(as_printed, README, re.S):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
    found = re.findall(
        r"^(?:python -m )?posbench ((?:check|compare|tasks|explain catalogue) )?"
        r"([^#\n]*mine[^#\n]*)",
        README,
        re.M,
    )
    commands = [each for each in found if each[0] != "compare "]  # which takes minutes
    assert [command.strip() for command, _ in commands] == [
        "check",
        "",
        "explain catalogue",
        "check",
        "",
        "check",
        "tasks",
        "",
    ]
    for command, words in commands:
        smoke = ["protocol=smoke", "training.steps=5"]
        given = [*command.split(), *words.split(), *([] if command else smoke)]
        done = subprocess.run(
            [sys.executable, "-m", "posbench", *given],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("results/local/records/smoke/passkey-*/decay/seed=0.json"))
    assert (tmp_path / "results/catalogue/catalogue.html").exists()


def test_the_block_with_an_encoding_from_posbench_runs_as_printed() -> None:
    [block] = re.findall(r"```python\n# elsewhere.py\n(.*?)```", README, re.S)
    names: dict[str, object] = {}
    exec(block, names)
    trained = names["CausalSelfAttention"](64, 4, 128).position  # type: ignore[operator]
    longer = names["yarn"]().extend(trained, tested=512)  # type: ignore[operator]
    q, k, v = torch.randn(3, 1, 4, 20, 16)
    assert torch.equal(longer(q, k, v), longer(q, k, v))
    assert not torch.allclose(longer(q, k, v), trained(q, k, v))
    head = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert not torch.allclose(trained(q, k, v), head) and torch.allclose(
        trained(q, k, v, pos=torch.zeros(1, 20).long()), head, atol=1e-6
    )


def test_a_name_that_is_none_is_told_which_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"encoding=ropee is unknown: did you mean rope\?"):
        standalone.encoding("ropee")(num_heads=4, head_width=16, trained=128)
    trained = standalone.encoding("rope")(num_heads=4, head_width=16, trained=128)
    with pytest.raises(ConfigError, match=r"extension=yarnn is unknown: did you mean yarn\?"):
        standalone.extension("yarnn")().extend(trained, tested=512)


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert (
        links
        and [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
        == []
    )


def test_every_setting_the_readme_shows_is_one() -> None:
    from posbench.config.compose import compose

    commands = re.findall(r"^python -m posbench ([^#\n]*)", README, re.M)
    for command in commands:
        words = [
            word.strip("'")
            for word in command.split()
            if not word.startswith("-") and "mine" not in word
        ]
        if "--config-dir" not in command and "-m" not in command.split():
            compose(*words).cfg()


def test_the_numbers_of_the_first_lines_are_what_conf_holds() -> None:
    """An extension is the same one with settings that are searched, of the last layers alone, with
    one scale, or trained from the middle on; so is an encoding that is computed in blocks.
    """
    found = re.findall(r"(\d+) encodings, (\d+) extensions, (\d+) tasks", README)[0]
    repeated = [
        name
        for name in own_names("extension")
        if (name.endswith(("_tuned", "_last")) and not name.endswith("_fine_tuned"))
        or "_served_" in name
        or "_early" in name
    ]
    encodings = [name for name in own_names("encoding") if not name.endswith("_blocked")]
    extensions = len(own_names("extension")) - len(repeated)
    assert [int(number) for number in found] == [
        len(encodings),
        extensions,
        len(own_names("task")),
    ]


@pytest.mark.slow
def test_the_numbers_of_the_answer_are_those_of_the_board() -> None:
    measured = Measured.of(tables.table(files.records(ROOT / "results/main")))
    known = standings_of(definition.load("main"), measured)
    text = " ".join(README.split())
    [rows] = re.findall(r"((?:^\| `\w+` \|.*/12.*\n)+)", README, re.M)
    table = ranking(known[0], measured)
    at = [table.headings[1:].index(name) for name in SHOWN]
    cells = {row.name: [row.cells[place] for place in at] for row in table.rows}
    for line in rows.splitlines():
        name, *shown = line.strip("| ").split(" | ")
        assert shown == cells[name.strip("`")], name
    assert len(rows.splitlines()) <= 8
    for hosted in (each for each in known if each.part.is_of_a_host):
        *_, far = findings.answer(hosted, code)
        assert far.startswith("At 8x") and far in text
    summaries = {each.part.title: each.summary for each in known}
    conv = summaries["Settings of the model"].loc["nope_short_conv"]
    low, high = (number(conv[end]) for end in ("low", "high"))
    assert f"reaches {number(conv['reaches'])} (95 % {low} to {high}) on the four tasks" in text
    assert conv["tasks"] == 4 and not conv["placed"]
    first = known[0].summary
    same = int((first["placed"] & ~(first["p_holm"] < 0.05)).sum()) - 1
    assert f"{same} of {int(first['placed'].sum())} rows are not shown to differ" in text
    hard = first.loc["hard_alibi"]
    assert f"Hard ALiBi is there too: {number(hard['reaches'])} on six" in text


SHOWN = ["learned", "tasks", "reaches", "95 %", "less the first"]
