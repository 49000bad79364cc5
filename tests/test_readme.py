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

from posbench import elsewhere, results
from posbench.composing.folders import own_names
from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension
from posbench.showing.numbers import number
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
        elsewhere.encoding("ropee")(num_heads=4, head_width=16, trained=128)
    trained = elsewhere.encoding("rope")(num_heads=4, head_width=16, trained=128)
    with pytest.raises(ConfigError, match=r"extension=yarnn is unknown: did you mean yarn\?"):
        elsewhere.extension("yarnn")().extend(trained, tested=512)


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert (
        links
        and [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
        == []
    )


def test_every_setting_the_readme_shows_is_one() -> None:
    from posbench.check.subject import composed

    commands = re.findall(r"^python -m posbench ([^#\n]*)", README, re.M)
    for command in commands:
        words = [
            word.strip("'")
            for word in command.split()
            if not word.startswith("-") and "mine" not in word
        ]
        if "--config-dir" not in command and "-m" not in command.split():
            composed(*words)


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
    text = " ".join(README.split())

    def shown(*names: str) -> tuple[str, ...]:
        return tuple(number(means[host, name]) for host in hosts for name in names)

    [found] = re.findall(
        r"ReRoPE scores (\S+) and Self-Extend (\S+) at a short .*?, (\S+) and (\S+) at base",
        text,
    )
    assert found == shown("rerope", "self_extend")
    [found] = re.findall(
        r"frequencies, `yarn_turns` is best at the short base with (\S+); at base 10,000 four are "
        r"within \.01 of each other, among them `yarn` with (\S+)\. The model .*? scores (\S+) "
        r"and (\S+)\. W",
        text,
    )
    stretching = [
        name for name in means["rope"].index if all(_stretches(part) for part in name.split("+"))
    ]
    assert len(stretching) > 12
    short, usual = (means[host][stretching].sort_values() for host in hosts)
    best = usual[usual > usual.max() - 0.01].index
    assert short.idxmax() == "yarn_turns" and len(best) == 4 and "yarn" in best
    assert found == (number(short.max()), number(usual["yarn"]), *shown("direct"))
    [(count, least)] = re.findall(r"None of (\d+) extensions .*? all are at (\S+) or less\.", text)
    assert int(count) == means["rope"].size - 1 == means["rope_short_base"].size - 1
    [found] = re.findall(r"queries and keys are normalised.*?, YaRN scores (\S+) \(base", text)
    normalised = everything[everything["method"] == "rope_qk_norm_yarn"]
    assert normalised.groupby("task")["seed"].nunique().eq(3).sum() == 12
    assert found == number(normalised[normalised["multiple"] == 8]["value"].mean())
    hopeless = far[far["task"].isin(["copy", "reverse", "selective_copy", "sort"])]
    by_row = hopeless.groupby(["task", "encoding", "extension"])["value"].mean()
    assert by_row.max() <= float(least)
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
    solved = at_1x[at_1x["extension"] == "direct"]["solved"].mean()
    learned = at_1x[at_1x["extension"] == "direct"].groupby("task")["solved"].sum()
    assert learned[learned < 3].to_dict() == {
        "key_value_retrieval": 0,
        "suffix_lookup": 0,
        "sort": 1,
        "repeat_token": 2,
    }
    assert 0.7 < solved < 0.8 and "a quarter of its trainings have not learned" in text
    [found] = re.findall(r"time: (\d+) trainings, (\S+) tests of them", text)
    tests = table.drop_duplicates(["training_hash", "extension"])
    assert found == (str(tests["training_hash"].nunique()), f"{len(tests):,}")


def _stretches(extension: str) -> bool:
    """Whether an extension by itself changes frequencies, or a temperature with them."""
    target = yaml.safe_load((ROOT / f"conf/extension/{extension}.yaml").read_text())["_target_"]
    return issubclass(locate(target), FrequencyExtension)  # type: ignore[arg-type]


def test_what_the_readme_quotes_stands_on_the_pages() -> None:
    pages = ("pretrained/predicting.md", "pretrained/leaderboard.md", "replications/claims.md")
    text = " ".join("".join((ROOT / "results" / page).read_text() for page in pages).split())
    quoted = re.findall(r"<!-- quoted -->(.*?)<!-- end -->", README, re.S)
    assert quoted and all(" ".join(each.split()) in text for each in quoted)
