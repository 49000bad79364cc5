"""The README keeps its word: its recipe runs as printed, its names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from pydoc import locate

import pytest
import torch
import yaml

from posbench import results, standalone
from posbench.base.errors import ConfigError
from posbench.boards.measured import Measured
from posbench.boards.ranking import standings_of
from posbench.config import board as definition
from posbench.config.folders import own_names
from posbench.core.extension import FrequencyExtension
from posbench.records import files, tables
from posbench.showing.table import number, with_interval
from posbench.statistics.aggregates import Estimate
from posbench.statistics.measures import corrected_lines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_recipe_for_an_encoding_of_ones_own_runs_as_printed(tmp_path: Path) -> None:
    as_printed = r"```(?:python|yaml)\n((?:# @.*\n)?# (mine/\S+)\n.*?)```"
    for block, name in re.findall(as_printed, README, re.S):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
    found = re.findall(r"^python -m (posbench\S*) ([^#\n]*mine[^#\n]*)", README, re.M)
    commands = [each for each in found if each[0] != "posbench.compare"]  # which takes minutes
    assert [module for module, _ in commands] == [
        "posbench.check",
        "posbench",
        "posbench.catalogue",
        "posbench.check",
        "posbench",
        "posbench.check",
        "posbench.tasks",
        "posbench",
    ]
    for module, words in commands:
        smoke = ["protocol=smoke", "training.steps=5"]
        given = [*words.split(), *(smoke if module == "posbench" else [])]
        done = subprocess.run(
            [sys.executable, "-m", module, *given],
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
    """An extension whose settings are searched, or of the last layers alone, is the same one."""
    found = re.findall(r"(\d+) encodings, (\d+) extensions, (\d+) tasks", README)[0]
    repeated = [
        name
        for name in own_names("extension")
        if name.endswith(("_tuned", "_last")) and not name.endswith("_fine_tuned")
    ]
    extensions = len(own_names("extension")) - len(repeated)
    assert [int(number) for number in found] == [
        len(own_names("encoding")),
        extensions,
        len(own_names("task")),
    ]


def test_the_figures_of_the_first_screen_are_those_of_the_records() -> None:
    """The table is written by a command; these stand in sentences beside it."""
    everything = results.load(ROOT / "results/main")
    everything = everything[everything["protocol"] == "cpu"]
    everything = everything.assign(value=corrected_lines(everything).clip(min=0.0))
    table = everything
    hosts = ("rope_short_base", "rope")
    table = table[table["encoding"].isin(hosts) & (table["changed"] == "")]
    table = table[table["method_class"] == "zero-shot"]
    far = table[table["multiple"] == 8]
    means = far.groupby(["encoding", "extension"])["value"].mean()
    by_seed = far.groupby(["encoding", "extension", "seed"])["value"].mean()
    text = " ".join(README.split())

    def with_seeds(host: str, name: str) -> str:
        return with_interval(Estimate.over(by_seed[host, name].to_numpy()))

    [found] = re.findall(
        r"ReRoPE scores (\S+ ±\S+), Self-Extend (\S+ ±\S+) and DCA (\S+ ±\S+), YaRN (\S+ ±\S+) "
        r"and the model without an extension (\S+ ±\S+)\. ",
        text,
    )
    named = ("rerope", "self_extend", "dca", "yarn", "direct")
    assert found == tuple(with_seeds("rope_short_base", name) for name in named)
    rearranging = ("self_extend", "rerope", "leaky_rerope", "dca", "mesa")
    for host in hosts:
        assert set(means[host].nlargest(5).index) == set(rearranging)
    stretching = [
        name for name in means["rope"].index if all(_stretches(part) for part in name.split("+"))
    ]
    assert len(stretching) > 12
    best = [means[host][stretching].nlargest(4) for host in hosts]
    [found] = re.findall(
        r"best four are within \.01 of each other at either base \((\S+) to (\S+), and (\S+) to "
        r"(\S+)\); YaRN is among them, at the short base as its paper writes it \(`yarn_turns`\)",
        text,
    )
    assert found == tuple(number(bound) for each in best for bound in (each.min(), each.max()))
    assert all(round(each.max() - each.min(), 2) <= 0.01 for each in best)
    assert "yarn_turns" in best[0] and "yarn" in best[1]
    [found] = re.findall(r"has been run with YaRN alone \((\S+ ±\S+)\)", text)
    normalised = everything[everything["method"] == "rope_qk_norm_yarn"]
    assert normalised.groupby("task")["seed"].nunique().eq(3).sum() == 12
    each = normalised[normalised["multiple"] == 8].groupby("seed")["value"].mean()
    assert found == with_interval(Estimate.over(each.to_numpy()))
    [(least, most)] = re.findall(
        r"all are at (\S+) or less on these five tasks, so no row can score above (\S+)\.", text
    )
    failed = ["copy", "reverse", "selective_copy", "sort", "repeat_token"]
    hopeless = far[far["task"].isin(failed)]
    by_row = hopeless.groupby(["task", "encoding", "extension"])["value"].mean()
    assert by_row.max() <= float(least) and most == number(7 / 12)
    [found] = re.findall(
        r"10,000 `yarn` has (\S+) on passkey and (\S+) on key-value .*?, ReRoPE (\S+) and (\S+)\. ",
        text,
    )
    by_task = far[far["encoding"] == "rope"].groupby(["extension", "task"])["value"].mean()
    tasks = ("passkey", "key_value_retrieval")
    assert found == tuple(
        number(by_task[row, task]) for row in ("yarn", "rerope") for task in tasks
    )
    at_1x = table[(table["multiple"] == 1) & (table["encoding"] == "rope_short_base")]
    learned = at_1x[at_1x["extension"] == "direct"].groupby("task")["solved"].sum()
    assert learned[learned < 3].to_dict() == {
        "key_value_retrieval": 0,
        "suffix_lookup": 0,
        "sort": 1,
        "repeat_token": 2,
    }
    assert "lookup with none of three seeds, sort with one, repeat with two" in text
    said = r"time: (\d+) trainings, each tested without an extension and with (\d+)\."
    [found] = re.findall(said, text)
    tests = table.drop_duplicates(["training_hash", "extension"])
    count, plain = tests["training_hash"].nunique(), (tests["extension"] == "direct").sum()
    extended = len(tests) - plain
    assert plain == count and extended % count == 0
    assert found == (str(count), str(extended // count))


def test_what_is_said_of_encodings_is_what_the_board_has() -> None:
    board, measured = (
        definition.load("main"),
        Measured.of(tables.table(files.records(ROOT / "results/main"))),
    )
    standing = standings_of(board, measured)[0]
    text, summary = " ".join(README.split()), standing.summary
    first = set(standing.complete[:4])
    assert "The first four are encodings whose attention depends on what the tokens are" in text
    assert first == {"path", "fox", "cope", "wall"}
    tasks = summary["num_tasks"].max()
    seeds = standing.part.runs.groupby("task")["seed"].nunique()
    assert "on all tasks, with three of five seeds" in text
    assert seeds.min() == seeds.max() == 3
    assert "PaTH loses the first place without the two tasks of counting and stopping" in text
    groups = summary[list(board.groups)]
    assert "but none is first in every group of them" in text
    assert not (groups >= groups.max() - board.judged.equivalent).all(axis=1).any()
    findings = (ROOT / "results/main/findings.md").read_text()
    assert "winner is named: path has the largest mean, and loses it without locate." in findings
    for name, row in (("PaTH is", "path"), ("FoX", "fox")):
        low, high = map(number, summary.loc[row, ["seeds_low", "seeds_high"]])
        assert re.search(rf"{name} between {low} and {high}\b", text)
    assert tasks == len(board.all_tasks) == len(set(standing.part.runs["task"]))
    [(learned, overall)] = re.findall(
        r"has learned (\w+) of the twelve tasks and stands at (\S+)\. ", text
    )
    assert round(summary.loc["cable", "learned"] * tasks) == {"seven": 7}[learned]
    assert overall == number(summary.loc["cable", "overall"])
    runs = standing.part.runs
    reverse = runs[(runs["row"] == "fox") & (runs["task"] == "reverse")]
    assert not reverse["learned"].any() and "FoX has not learned to reverse" in text


def _stretches(extension: str) -> bool:
    """Whether an extension by itself changes frequencies, or a temperature with them."""
    target = yaml.safe_load((ROOT / f"conf/extension/{extension}.yaml").read_text())["_target_"]
    return issubclass(locate(target), FrequencyExtension)  # type: ignore[arg-type]


def test_what_the_readme_quotes_stands_on_the_pages() -> None:
    names = ("main/findings", "pretrained/predicting", "pretrained/leaderboard")
    pages = [f"{name}.md" for name in (*names, "replications/claims")]
    text = " ".join("".join((ROOT / "results" / page).read_text() for page in pages).split())
    quoted = re.findall(r"<!-- quoted -->(.*?)<!-- end -->", README, re.S)
    assert quoted and all(" ".join(each.split()) in text for each in quoted)
