"""Questions about a model of one's own: does its configuration take effect, what helps, how far."""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import transformers
from small_models import MODELS, family, gemma3, llama, saved

from posbench.base.errors import ConfigError
from posbench.boards import answers
from posbench.extensions.direct import Direct
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.yarn import YaRN
from posbench.pretrained import advise, layer_kinds, published, rope_settings, serving, verify
from posbench.pretrained.advise import Advice, AdviceSettings
from posbench.pretrained.configured import Configured
from posbench.pretrained.loading import Files, refuse_giants
from posbench.pretrained.model_file import WITHOUT_POSITIONS
from posbench.pretrained.proof import mounted_and_proved, spread
from posbench.pretrained.published import HostRows, OneFactor
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.request import extension_at, settings_of
from posbench.pretrained.servers import Recipe, ServedModel
from posbench.pretrained.verify import Verification, VerifySettings
from posbench.records import files, tables
from posbench.showing.table import number

pytestmark = pytest.mark.filterwarnings("ignore")

POSITIONS = 300
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": POSITIONS,
}


UNTOLD = {"rope_type": "default", "rope_theta": 10000.0}


@pytest.fixture(scope="module", autouse=True)
def _fitted_once() -> Iterator[None]:
    """The published records are read and fitted once for all tests, which takes seconds."""
    with patch.object(HostRows, "all_of", functools.cache(HostRows.all_of)):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(llama(positions=POSITIONS), tmp_path_factory.mktemp("models") / "tiny")


# -- verify ----------------------------------------------------------------------------------------


def verified(net: Any, **settings: Any) -> Verification:
    given = {"model": Path("it"), "dtype": "float64", **settings}
    return Verification.of(net, VerifySettings(**given))


def numbers(found: Verification) -> list[dict[str, float]]:
    return [
        layer_kinds.numbers_of(kind.form, found.length) for kind, _ in found.kinds() if kind.name
    ]


def test_yarn_of_a_configuration_is_found_with_its_numbers() -> None:
    net = llama(YARN | {"beta_fast": 3.0}, positions=4 * POSITIONS)
    found = verified(net)
    assert (found.trained, found.length) == (POSITIONS, 4 * POSITIONS)
    [mine] = numbers(found)
    assert mine["factor"] == 4 and mine["beta_fast"] == 3 and mine["trained length"] == POSITIONS
    assert mine["cosine and sine times"] == pytest.approx(0.1 * math.log(4) + 1)
    assert found.off[0] < 1e-5 and found.off[1] < 1e-4  # transformers has angles in float32
    [(kind, layers)] = found.kinds()
    assert layers == [0, 1] and kind.changes and kind.frequencies.count == 4
    own = kind.form.own
    same = Configured(YaRN(3.0), POSITIONS)
    published = Configured(YaRN(), POSITIONS)
    assert found.difference(own, same) == 0 == kind.turned_unlike(same)
    assert kind.turned_unlike(Configured(Direct(), POSITIONS)) == pytest.approx(1 - 1 / 4)
    assert found.difference(own, published) > 1e-3  # other pairs are slowed
    assert found.difference(own, None) > 1e-2
    assert found.answer(found.kinds()).startswith("yarn takes effect in 2 of 2 rotary layers")


@pytest.mark.slow
def test_settings_beside_a_model_are_those_that_count() -> None:
    net = llama(positions=POSITIONS)
    before = net.config.to_dict()
    found = verified(net, rope_parameters={**YARN, "rope_theta": 10000.0, "beta": 3})
    [mine] = numbers(found)
    assert mine["factor"] == 4 and mine["beta_fast"] == 32
    assert list(found.judged.remarks()) == [
        "beta is not read with rope_type yarn: did you mean beta_slow?"
    ]
    assert net.config.to_dict() == before
    assert numbers(verified(net)) == []


@pytest.mark.slow
def test_a_base_that_was_dropped_or_raised_is_told() -> None:
    net = llama({"rope_theta": 1e6}, positions=POSITIONS)
    with pytest.raises(verify.ConfigError, match='write "rope_theta": 1e\\+06'):
        verified(net, rope_parameters=YARN)
    raised = verified(
        net, rope_parameters={"rope_type": "default", "rope_theta": 5e6}, length=2 * POSITIONS
    )
    [said] = raised.judged.remarks()
    assert f"NTK sets {1e6 * 2 ** (4 / 3):,.0f}" in said
    assert "the base is 5,000,000" in raised.answer(raised.kinds())


@pytest.mark.slow
def test_a_factor_that_is_not_read_takes_no_effect() -> None:
    net = llama(positions=POSITIONS)
    found = verified(net, rope_parameters={**UNTOLD, "factor": 4.0})
    assert list(found.judged.remarks()) == ["factor is not read with rope_type default."]
    assert found.answer(found.kinds()).startswith("No extension is set")


@pytest.mark.slow
def test_only_some_layers_are_changed_where_the_configuration_says_so() -> None:
    found = verified(gemma3({"rope_type": "linear", "factor": 4.0}, positions=POSITIONS))
    assert [(kind.name, kind.changes, layers) for kind, layers in found.kinds()] == [
        (None, False, [0]),
        ("pi", True, [1]),
    ]
    assert found.answer(found.kinds()).startswith("pi takes effect in 1 of 2 rotary layers")


@pytest.mark.slow
def test_verify_answers_on_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = json.dumps(YARN | {"rope_theta": 10000.0})
    assert verify.main([f"model={folder}", f"rope_parameters={given}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Trained for 300 positions, by its max_position_embeddings, served up")
    assert out.splitlines()[-2].startswith("yarn takes effect in 2 of 2 rotary layers")
    assert out.splitlines()[-1] == "No problem was found."
    # The name that most files still have.
    assert verify.main([f"model={folder}", f"rope_scaling={given}"]) == 0
    assert capsys.readouterr().out == out
    short = "max_position_embeddings=600"
    assert verify.main([f"model={folder}", f"rope_parameters={given}", short]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Problems: the factor 4 of yarn makes 1200 of 300 positions, and 600 are served."
    )
    refused = {
        f"rope_parameters={YARN}": "is no JSON",
        'rope_parameters={"factor": 4}': "rope_type= in rope_parameters: choose one of default",
        'rope_parameters={"factor": 2, "factor": 8}': "factor is in it twice",
        "rope_parameters=[1]": "is no JSON object",
        'rope_parameters={"rope_type": "yarn", "rope_theta": 1}': "have no factor, which rope_type "
        'yarn needs: write "factor": ...',
        'rope_parameters={"rope_type": "yarn", "rope_theta": 1, "factr": 4}': "have no factor, "
        "which rope_type yarn needs: did you mean factor where you wrote factr?",
        'rope_parameters={"rope_type": "yarn", "factor": 4}': 'write "rope_theta": 10000 beside',
        'rope_parameters={"rope_type": "yarn", "rope_theta": "a", "factor": 4}': "rope_theta in "
        "rope_parameters is a number, got 'a'",
        'rope_parameters={"rope_type": "yarn", "rope_theta": 1, "factor": Infinity}': "factor in "
        "rope_parameters is a number above 0, got inf",
        'rope_parameters={"rope_type": "linear", "rope_theta": 1, "factor": 0}': "above 0, got 0",
        "lenght=1": "lenght=1: did you mean length?",
        "length=-1": "length must be greater than or equal to 0",
        "length=32K": "length must be a valid integer, got '32K': write 32768",
    }
    for word, said in refused.items():
        assert verify.main([f"model={folder}", word]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert said in error, error
    assert verify.main(["length=5"]) == 1
    assert "model= is missing" in capsys.readouterr().err
    assert verify.main([]) == 1


@pytest.mark.slow
def test_verify_needs_no_tokenizer_and_says_where_the_trained_length_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    llama(positions=POSITIONS).save_pretrained(tmp_path)
    assert verify.main([f"model={tmp_path}"]) == 0
    first = "Trained for 300 positions, by its max_position_embeddings, served up to 300."
    out = capsys.readouterr().out
    assert out.startswith(first)
    unless = ", unless its max_position_embeddings was raised: then give train_positions=N."
    assert f"served as it was trained{unless}\n" in out
    assert verify.main([f"model={tmp_path}", "train_positions=300"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Trained for 300 positions, served up to 300.")
    assert "served as it was trained.\n" in out
    assert verify.main([f"model={tmp_path}", "max_position_embeddings=450"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "No extension is set, and the model is served beyond what it was trained for.",
        "Problems: 450 positions are served, 1.5 times those of training, and no extension takes "
        "effect.",
    ]


def test_a_rule_of_config_json_that_is_none_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = shutil.copytree(folder, tmp_path / "yran")
    config = json.loads((copied / "config.json").read_text())
    config["rope_parameters"] = YARN | {"rope_type": "yran"}
    (copied / "config.json").write_text(json.dumps(config))
    assert verify.main([f"model={copied}"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "rope_type=yran in " in error and "did you mean yarn?" in error


def test_a_misspelt_setting_is_refused_before_the_model_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Files, "load", lambda *_: pytest.fail("it was loaded"))
    for given in ({"rope_type": "yarn", "factr": 4, "rope_theta": 1e4}, YARN):
        assert verify.main([f"model={folder}", f"rope_parameters={json.dumps(given)}"]) == 1
        assert "rope_parameters have no " in capsys.readouterr().err


LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 2.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": POSITIONS,
}
NTK_BASE = 10_000 * 2 ** (4 / 3)  # of four pairs


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({"rope_parameters": YARN | UNTOLD | {"rope_type": "yarn"}}, []),
        ({"rope_parameters": YARN | UNTOLD}, ["not read with rope_type default"]),
        ({"rope_parameters": UNTOLD | {"rope_theta": 5e6}}, ["the base is 5,000,000, not the 10,"]),
        ({"rope_parameters": UNTOLD | {"rope_theta": NTK_BASE}, "length": 600}, []),
        (
            {"rope_parameters": {**UNTOLD, "rope_type": "linear", "factor": 2.0}, "length": 900},
            ["the factor 2 of pi makes 600 of 300 positions, and 900 are served"],
        ),
        (
            {
                "rope_parameters": {**UNTOLD, "rope_type": "yarn", "factor": 2.0},
                "max_position_embeddings": 600,
            },
            ["yarn begins at 600 positions, and the model was trained for 300"],
        ),
        (
            {"rope_parameters": {**UNTOLD, "rope_type": "linear", "factor": 1.0}},
            ["linear takes no effect"],
        ),
        (
            {"max_position_embeddings": 1200},
            ["1200 positions are served, 4 times those of training, and no extension takes effect"],
        ),
        (
            {"max_position_embeddings": 450},
            ["450 positions are served, 1.5 times those of training, and no extension takes"],
        ),
        ({"max_position_embeddings": 375}, []),  # as Qwen 3 has room for what is generated
        ({"rope_parameters": UNTOLD | LLAMA_3, "length": 1200}, []),  # as Llama 3.1
        (
            {"rope_parameters": UNTOLD | LLAMA_3, "length": 1300},
            ["the factor 2 of llama3 makes 600 of 300 positions, and 1300 are served"],
        ),
        ({"train_positions": 75}, ["300 positions are served, 4 times those of training"]),
    ],
)
def test_problems_are_named_and_only_those(given: dict[str, Any], problems: list[str]) -> None:
    found = verified(llama(positions=POSITIONS), **given).problems
    assert len(found) == len(problems), found
    assert all(said in each for said, each in zip(problems, found, strict=True)), found


def test_the_example_of_the_help_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"'(rope_parameters=.*)'", verify.__doc__ or "")
    assert example == f"rope_parameters={rope_settings.EXAMPLE}"
    settings = settings_of(VerifySettings, [f"model={folder}", example], "help")
    rope_settings.refuse_early(Files(folder), settings.rope_parameters)


def test_a_model_may_be_served_at_less_than_its_own_factor_is_for() -> None:
    assert not verified(llama(YARN, positions=4 * POSITIONS), length=2 * POSITIONS).problems


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"rope_type": "yarn", "factor": math.inf}, "factor in rope_parameters is a number above"),
        ({"rope_type": "yarn", "factor": 10**400}, "factor in rope_parameters is a number above"),
        ({"rope_theta": 10**400}, "rope_theta in rope_parameters is a number, got 1000"),
        ({"rope_type": "longrope", "factor": 4, "short_factor": 5}, "short_factor in rope_"),
        ({"partial_rotary_factor": "a"}, "partial_rotary_factor in rope_parameters is a number"),
    ],
)
def test_a_value_that_no_setting_of_a_folder_can_have_is_one_sentence(
    folder: Path, rule: dict[str, Any], said: str, tmp_path: Path
) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    config = json.loads((copied / "config.json").read_text())
    given = {"long_factor": [1.0], "short_factor": [1.0], "original_max_position_embeddings": 300}
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4} | given | rule
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=said):
        rope_settings.refuse_early(Files(copied), {})


@pytest.mark.parametrize("name", ["GPTJ", "Mpt", "GPT2"])
def test_a_family_that_is_not_supported_has_the_reason_of_a_run(name: str) -> None:
    sizes: dict[str, Any] = {"vocab_size": 40, "n_embd": 32, "n_layer": 1, "n_head": 4}
    if name == "Mpt":
        sizes = {"vocab_size": 40, "d_model": 32, "n_layers": 1, "n_heads": 4}
    elif name == "GPTJ":
        sizes["rotary_dim"] = 8
    config = getattr(transformers, f"{name}Config")(**sizes)
    net = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(CannotMount) as run:
        mounted_and_proved(net)
    with pytest.raises(CannotMount) as mine:
        verified(net)
    assert str(mine.value) == str(run.value)
    wanted = "has no rotary positions" if name == "GPT2" else "attention in code of its own"
    assert wanted in str(mine.value)


def test_a_model_with_parameters_for_each_kind_of_layer_is_given_both() -> None:
    with pytest.raises(verify.ConfigError, match="for each of sliding_attention and full"):
        verified(gemma3(positions=POSITIONS), rope_parameters=YARN | {"rope_theta": 1e6})


# -- advise ----------------------------------------------------------------------------------------

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", autouse=True)
def _published_read_once() -> Iterator[None]:
    """Nearly each advice reads what is published about real models."""
    reading, known = files.records, dict[Any, Any]()

    def read(folder: Any) -> Any:
        if not Path(folder).is_relative_to(ROOT / "results"):
            return reading(folder)
        if folder not in known:
            known[folder] = reading(folder)
        return known[folder]

    with patch.object(files, "records", read):
        yield


@pytest.fixture(scope="module")
def hosts() -> dict[str, HostRows]:
    return HostRows.all_of(ROOT / "results" / "main")


def advice(hosts: dict[str, HostRows], base: float = 5e5, **settings: Any) -> Advice:
    given = AdviceSettings(**{"target": 16384, **settings})
    return Advice(given, ServedModel(8192, base, 64, given.target), hosts, ROOT / "results")


@pytest.mark.slow
def test_the_host_is_the_one_of_which_a_like_share_turns(hosts: dict[str, Any]) -> None:
    llama3 = ServedModel(8192, 5e5, 64, 16384)
    assert llama3.share == pytest.approx(math.log(8192 / (2 * math.pi)) / math.log(5e5))
    assert advice(hosts).like == "rope_short_base"
    assert advice(hosts, base=1e30).like == "rope"
    assert ServedModel(40, 10_000, 8, 80).share == pytest.approx(published.HOSTS["rope"], abs=0.005)


@pytest.mark.slow
def test_gains_are_those_of_the_board(hosts: dict[str, Any]) -> None:
    """The mean over tasks of the difference of cells at a length."""
    rows = hosts["rope"]
    cells = rows.fitted.cell_means("4x")
    expected = float((cells.loc["rope_yarn"] - cells.loc["rope"]).mean())
    line = rows.gains(4.0).loc["yarn"]
    assert line["difference"] == pytest.approx(expected) and line["common"] == 12
    assert line["low"] < expected < line["high"]
    published = pd.read_csv(ROOT / "results/main/leaderboard.csv")
    passkey = published[(published["task"] == "passkey") & (published["multiple"] == 4)]
    score = float(passkey.loc[passkey["method"] == "rope_yarn", "score"].iloc[0])
    [name] = [each for each in cells if "passkey" in str(each)]
    assert cells.loc["rope_yarn", name] == pytest.approx(score, abs=0.02)


@pytest.mark.slow
def test_what_may_be_chosen_follows_from_what_can_be_computed(hosts: dict[str, Any]) -> None:
    by_setting = set(advice(hosts).candidates())
    assert {"yarn", "dynamic_ntk", "llama3", "pi"} <= by_setting
    assert not {"self_extend", "rerope", "dca", "log_n"} & by_setting
    everything = set(advice(hosts, how="attention", cache=False).candidates())
    assert by_setting < everything and {"self_extend", "rerope", "dca"} <= everything


@pytest.mark.slow
def test_what_is_left_out_is_named_with_the_words_that_let_it_in(hosts: dict[str, Any]) -> None:
    [said] = advice(hosts).left_out()
    words = {
        name: group.rstrip(").").rpartition(": ")[2]
        for names, group in re.findall(r"([\w, ]+) \((.*?\)\.?)", said.removeprefix("Left out: "))
        for name in names.strip().split(", ")
    }
    assert words["log_n"] == "how=attention"
    assert words["self_extend"] == words["rerope"] == words["dca"] == "how=attention cache=false"
    assert said in list(advice(hosts).lines())
    for each in set(words.values()):
        given = dict(word.split("=") for word in each.split())
        let_in = {name for name in words if words[name] == each}
        assert let_in <= set(advice(hosts, **given).candidates())
    assert list(advice(hosts, how="attention", cache=False).left_out()) == []


@pytest.mark.slow
def test_the_advice_says_when_nothing_is_shown(hosts: dict[str, Any]) -> None:
    for length, settings in ((16384, {}), (32768, {"how": "attention", "cache": False})):
        mine = advice(hosts, 1e30, target=length, **settings)
        said = list(mine.lines())
        names = list(mine.candidates())
        gains = mine.hosts["rope"].gains(mine.multiple).loc[names]
        best = str(gains["difference"].idxmax())
        shown = gains.loc[best, "low"] > 0
        assert said[0].startswith(f"Take {best}," if shown else f"{best} has the highest mean")
        assert any(line.startswith("Measure next: posbench pretrained") for line in said)
        [words] = [line for line in said if line.startswith("Measure next: ")]
        [names] = re.findall(r"extension=direct,(\S+)", words)
        served = next((line.split()[2] for line in said if line.startswith("To serve ")), best)
        assert {served, best} <= {*names.split(",")} and served == names.split(",")[0]
        readings = 12 * (1 + len(names.split(",")))
        assert f"That is {readings} readings of a text, half of them of {length} tokens." in str(
            said
        )
        assert sum("is shown to gain anything" in line for line in said) == (not shown)


@pytest.mark.slow
@pytest.mark.parametrize("trained", [4096, 8192])
def test_a_beta_that_is_not_the_published_one_is_named(hosts: dict[str, Any], trained: int) -> None:
    """At 4,096 positions it is 32.03."""
    model = ServedModel(trained, 5e5, 64, 4 * trained)
    said = [*Advice(AdviceSettings(target=model.target), model, hosts, ROOT / "results").lines()]
    assert any('"rope_type": "yarn"' in each for each in said)
    named = any(each.startswith("beta_fast is the one that posbench") for each in said)
    assert named is (trained != 4096)


@pytest.mark.slow
def test_a_width_of_heads_that_nobody_gave_is_said_to_be_assumed(hosts: dict[str, Any]) -> None:
    """NTK's base depends on it: 500,000 * 2 ** (64 / 63) of 128 channels, and 32 / 31 of 64."""
    _, _, first, assumed, *_ = advice(hosts, 5e5).lines()
    assert "turn within 8192 positions" in first
    assert assumed.startswith("This assumes 128 rotated channels per head")
    words = {"trained": 8192, "base": 5e5, "target": 16384, "channels": 64}
    narrow = advise.Advice.of(AdviceSettings(**words, results=ROOT / "results"))
    assert narrow.model.pairs == 32
    assert not any(each.startswith("This assumes") for each in narrow.lines())


def test_a_bound_next_to_zero_shows_its_side() -> None:
    line = pd.Series({"difference": 0.2, "low": -0.004, "high": 0.39})
    assert published.interval(line) == "+.20 (-.004 to .39)"
    assert published.interval(line.replace(-0.004, 0.0)) == "+.20 (.00 to .39)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "given"),
    [
        (1e30, {}),
        (5e5, {}),
        (5e5, {"how": "attention", "cache": False}),
        (5e5, {"how": "attention"}),
        (1e30, {"cache": False}),
    ],
)
def test_the_settings_are_of_the_row_that_the_first_sentence_names(
    hosts: dict[str, Any], base: float, given: dict[str, Any]
) -> None:
    mine = advice(hosts, base, target=32768, **given)
    said = list(mine.lines())
    gains = mine.hosts[mine.like].gains(mine.multiple).loc[list(mine.candidates())]
    best = str(gains["difference"].idxmax())
    [name] = [each.split()[2] for each in said if each.startswith("To serve ")]
    why = f"{best} needs an attention of its own"
    if name == best:
        assert f"The settings below serve {best}, by configuration alone" in said[0]
        assert not any(why in each for each in said)
    else:
        assert f"{why}, so the settings below are of {name}, the first row" in said[0]
        assert any(each.startswith(f"{why}, which posbench's mounted model has") for each in said)
        lacking = gains[gains["difference"] > gains.loc[name, "difference"]].index
        built = [Recipe.of(mine.model, mine.judged[str(each)][0]) for each in lacking]
        assert built and all(each == Recipe() for each in built)


NUMBER = r"[-+]?\.?\d+\.?\d*"


@pytest.mark.slow
def test_what_one_factor_costs_is_that_of_the_boards() -> None:
    """The board of small models has the same difference, and an interval of other draws."""
    facts = answers.Facts(ROOT)
    board = facts.section("served", "One scale")
    for extension, factor, wanted in (("yarn", 4, 4.5), ("pi", 2, 1.5), ("llama3", 8, 100.0)):
        small, real = OneFactor(ROOT / "results", "rope").lines(extension, wanted)
        assert f"a factor of {factor} for all lengths" in small
        served, follows = f"{extension}_served_{factor}", f"rope_{extension}"
        theirs = re.findall(NUMBER, board.less(f"rope_{served}", follows, 1).replace("95 %", ""))
        mine = re.findall(NUMBER, small.partition("at 1x by")[2].partition(" tasks")[0])
        assert [float(each) for each in mine] == pytest.approx(
            [float(each) for each in theirs], abs=0.03
        )
        assert float(mine[0]) == float(theirs[0]) and mine[-1] == theirs[-1] == "6"
        gemma = facts.added("pretrained_served", "gemma", served, 512)
        cost = f"{number(gemma.mean, 3)} ±{number(gemma.half_width, 3)}"
        assert f"{cost} at 512 tokens of gemma" in real
    _, real = OneFactor(ROOT / "results", "rope").lines("yarn", 2)
    assert " at 8192 tokens of smollm2" in real and "12288" not in real, "beyond 1x it is no cost"
    [said] = OneFactor(ROOT / "results", "rope").lines("mrrope_pro", 4)
    assert said.startswith("What one factor of mrrope_pro costs there was not measured")
    [said] = OneFactor(ROOT / "docs", "rope").lines("yarn", 4)
    assert "is in results/served of the repository" in said
    # sqrt(8) is as far from 2 as from 4, and below it 2 is nearer.
    assert [published.nearest_factor(each) for each in (1.1, 2.8, 8**0.5, 2.9, 1e3)] == [
        *(2, 2, 4, 4, 8)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yarn", "pi", "llama3", "ntk", "mrrope_pro"])
def test_settings_to_serve_are_what_they_are_called(name: str) -> None:
    mine = ServedModel(POSITIONS, 10_000.0, 4, 2 * POSITIONS)
    extension = extension_at(name, POSITIONS, 2 * POSITIONS)
    recipe = Recipe.of(mine, extension)
    found = verified(llama(positions=POSITIONS), rope_parameters=recipe.parameters)
    [(kind, _)] = found.kinds()
    if name == "ntk":  # the slowest pair is divided by the factor
        slowest = kind.frequencies.theta()[-1]
        assert kind.name is None and float(slowest) == pytest.approx(10_000**-0.75 / 2, rel=1e-4)
    else:
        assert kind.name == ("longrope" if name == "mrrope_pro" else name)
        assert numbers(found)[0]["factor"] == 2
    # A run prints what it has tried on the mounted model, and it is the same.
    with mounted_and_proved(llama(positions=POSITIONS)) as mounted:
        tried: Any = serving.overrides(mounted, extension, 2 * POSITIONS)
    assert tried["rope_parameters"] == recipe.parameters
    lines = list(recipe.lines(2 * POSITIONS))
    assert [line.partition(":")[0] for line in lines] == [
        *("transformers", "vLLM", "SGLang", "llama.cpp")
    ]


def test_yarn_has_the_turns_that_were_measured_in_every_server() -> None:
    """.535 of the power of 8,192 / 2 pi: 46.41, and the published 32 at 4,096."""
    mine = ServedModel(8192, 500_000.0, 64, 32768)
    recipe = Recipe.of(mine, extension_at("yarn", 8192, 32768))
    turns = (8192 / (2 * math.pi)) ** 0.535
    assert (recipe.parameters or {})["beta_fast"] == pytest.approx(turns, abs=0.01)
    said = re.compile(rf"""['"]beta_fast['"]: {turns:.2f}""")
    assert sum(bool(said.search(line)) for line in recipe.lines(32768)) == 3
    assert f"--yarn-beta-fast {turns:.2f} --yarn-beta-slow 1" in recipe.llama_cpp


def test_dynamic_ntk_is_served_with_the_base_that_it_has_at_the_longest_length() -> None:
    """It stretches by 2 * 4 - 1 = 7 where NTK does by 4, and of 64 pairs the last is b^(-63/64)."""
    mine = ServedModel(8192, 500_000.0, 64, 32768)
    for name, stretch in (("ntk", 4), ("dynamic_ntk", 7)):
        given = mine.parameters(extension_at(name, 8192, 32768)) or {}
        assert given["rope_theta"] == pytest.approx(500_000 * stretch ** (64 / 63))


def test_lists_of_divisors_are_written_once() -> None:
    mine = ServedModel(8192, 500_000.0, 64, 32768)
    lines = list(Recipe.of(mine, extension_at("mrrope_pro", 8192, 32768)).lines(32768))
    assert ["long_factor" in line for line in lines] == [True, False, False, False]
    assert "--hf-overrides '{...}', as for transformers, with" in lines[1]
    # Transformers reads attention_factor, and vLLM and SGLang two other names.
    magnitude = 0.1 * math.log(4) + 1
    assert f"'attention_factor': {magnitude:.8f}"[:-3] in lines[0]
    for line in lines[1:3]:
        assert f'"short_mscale": {magnitude:.6g} and "long_mscale": {magnitude:.6g}' in line
    assert not any("mscale" in line for line in Recipe.of(mine, YaRN()).lines(32768))


def test_no_server_has_self_extend() -> None:
    """llama-server had its flags until October 2024."""
    recipe = Recipe.of(ServedModel(4096, 10_000.0, 64, 16384), SelfExtend(1024))
    assert recipe == Recipe() and not recipe.by_configuration


def told(path: Path) -> tuple[int, float, int]:
    found = advise.model_file(path)
    return found.trained, found.base, found.pairs


def test_a_model_keeps_what_no_extension_changes(tmp_path: Path) -> None:
    """The share that turns, and the rotation of its layers with windows."""
    turned = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    near = {"rope_type": "default", "rope_theta": 10_000.0}
    text = {"max_position_embeddings": 300, "head_dim": 16}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(text | {"rope_parameters": turned}))
    found = advise.model_file(tmp_path)
    assert found.pairs == 4
    mine = ServedModel(300, 1e4, 4, 600, found.rope)
    given = mine.parameters(YaRN()) or {}
    assert given["partial_rotary_factor"] == 0.5 and given["factor"] == 2
    rope = {"full_attention": turned | {"rope_theta": 1e6}, "sliding_attention": near}
    config.write_text(json.dumps(text | {"rope_parameters": rope}))
    found = advise.model_file(tmp_path)
    assert (found.base, found.pairs) == (1e6, 4)
    mine = ServedModel(300, 1e6, 4, 600, found.rope)
    given = mine.parameters(YaRN()) or {}
    assert given["sliding_attention"] == near and given["full_attention"]["factor"] == 2
    assert "--rope-scale 2 " in Recipe.of(mine, YaRN()).llama_cpp


def test_of_two_blocks_advice_takes_the_one_that_transformers_takes(tmp_path: Path) -> None:
    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
    default = {"rope_type": "default", "rope_theta": 5e5}
    both = {"rope_scaling": linear, "rope_parameters": default}
    text = {"model_type": "llama", "max_position_embeddings": 300, "head_dim": 16}
    (tmp_path / "config.json").write_text(json.dumps(text | both))
    found = advise.model_file(tmp_path)
    assert (found.base, found.rope) == (1e4, linear)
    transformers = pytest.importorskip("transformers")
    assert transformers.AutoConfig.from_pretrained(tmp_path).rope_parameters == linear


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"max_position_embeddings": "abc"}',
        '{"rope_parameters": 3}',
        '{"hidden_size": null}',
        '{"rope_theta": [1]}',
        '{"text_config": 7}',
        '{"head_dim": Infinity}',
    ],
)
def test_a_configuration_of_another_kind_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    assert advise.main([f"model={tmp_path}", "target=16384"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"posbench: model={tmp_path} has no config.json that can be read (")
    assert error.endswith("): give trained= and base=\n") and error.count("\n") == 1


def test_advise_reads_a_configuration_and_refuses_what_it_cannot(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(folder) == (POSITIONS, 10_000.0, 4)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"text_config": {"rope_parameters": YARN, "rope_theta": 5}}))
    assert told(tmp_path) == (POSITIONS, 5.0, 0)
    refused = {
        ("target=600",): "trained= is missing and base= is missing: give the positions of",
        ("target=600", "trained=5", "base=10000"): "trained must be greater than or equal to 7",
        ("target=600", "trained=300", "base=0"): "base must be greater than 1, got '0'",
        ("target=600", "trained=300", "base=5", "channels=0"): "channels must be greater than 0",
        ("trained=300", "base=10000", "target=300"): "target=300 is within the 300 positions",
        ("trained=300", "base=10000", "target=600", f"results={tmp_path}"): "has no records",
        ("trained=300",): "target= is missing",
        ("trained=300", "base=10000", "target=300001"): "is more than 1,000 times the 300",
        ("trained=300", "trained=400", "base=10000", "target=600"): "trained=400 set the same",
        ("target=600", "model=/nowhere"): "model=/nowhere is no folder with a config.json",
    }
    for words, said in refused.items():
        assert advise.main([*words]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_advise_outside_of_a_clone_takes_the_records_that_posbench_came_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trained=8192", "base=500000", "target=32768"]
    assert advise.main(words) == 0
    there = capsys.readouterr().out
    assert "In results/served, a factor" in there and "of the repository" not in there
    monkeypatch.chdir(tmp_path)
    assert advise.main(words) == 0  # its folder is in a clone
    assert capsys.readouterr().out == there
    alone = tmp_path / "published"
    alone.symlink_to(files.shipped())
    monkeypatch.setattr(files, "shipped", lambda: alone)
    assert advise.main(words) == 0
    told = capsys.readouterr().out
    assert "Retrieval has two tasks of results/extensions, which are not here." in told
    assert "is in results/served of the repository: name results/" in told


def test_advise_reads_the_head_of_a_gguf_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    writer = gguf.GGUFWriter(tmp_path / "it.gguf", "llama")
    writer.add_context_length(POSITIONS)
    writer.add_rope_freq_base(50_000.0)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_rope_scaling_orig_ctx_len(POSITIONS // 4)
    for tensor in ("rope_factors_long.weight", "rope_factors_short.weight"):
        writer.add_tensor(tensor, np.ones(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert told(tmp_path / "it.gguf") == (POSITIONS // 4, 50_000.0, 4)
    found = advise.model_file(tmp_path / "it.gguf")
    assert (found.rule, found.reaches) == ("longrope", POSITIONS), "as Phi 3 with 128,000"
    whole = (tmp_path / "it.gguf").read_bytes()
    counts = np.array([2**60], "<u8").tobytes()
    told_of = {
        b"GGUF": "is no GGUF file that can be read",
        whole[: len(whole) // 2]: "it ends before what its head counts",
        whole[:16] + counts + whole[24:]: "is no GGUF file that can be read",  # so many settings
        endless(b"llama.context_length", 9, 0, 2**60): "it ends before what its head counts",
        endless(b"llama.block_count", 4, 2**31): "block_count: 2147483648 in its head",
    }
    for content, said in told_of.items():
        (tmp_path / "bad.gguf").write_bytes(content)
        assert advise.main([f"model={tmp_path / 'bad.gguf'}", "target=600"]) == 1
        assert said in capsys.readouterr().err


def endless(name: bytes, kind: int, *values: int) -> bytes:
    """A GGUF file of one setting: of kind 4 a number, of kind 9 the type and length of a list."""
    size, of = struct.pack("<Q", len(name)), struct.pack("<I", kind)
    value = struct.pack({1: "<I", 2: "<IQ"}[len(values)], *values)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + size + name + of + value


LLAMA = {
    "model_type": "llama",
    "max_position_embeddings": 4 * POSITIONS,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 10_000.0,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rope", "target", "said"),
    [
        (YARN, 900, "rope_type yarn already, and is configured for 1200 positions: nothing has to"),
        (YARN, 1600, "target=1600 would replace that, and the records say nothing of two ext"),
        (YARN, 1600, "give trained=300, the positions before it, to replace it"),
        ({"rope_type": "linear", "factor": 4.0}, 1600, "give trained=N, the positions before it"),
        ({"rope_type": "dynamic", "factor": 4.0}, 1600, "give trained=1200, the positions before"),
    ],
)
def test_a_model_with_an_extension_of_its_own_is_not_advised_as_if_it_had_none(
    rope: dict[str, Any], target: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"rope_scaling": rope}))
    words = [f"model={tmp_path}", f"results={ROOT / 'results'}"]
    assert advise.main([*words, f"target={target}"]) == 1
    assert said in capsys.readouterr().err
    assert advise.main([*words, "target=2400", "trained=1200"]) == 0
    kind = rope["rope_type"]
    assert (
        f"The model has rope_type {kind}, which these settings replace" in capsys.readouterr().out
    )


def test_a_configuration_that_asks_for_too_much_is_refused_before_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of so many layers transformers makes a list."""
    giant = LLAMA | {"model_type": "gemma3_text", "num_hidden_layers": 2_000_000_000}
    (tmp_path / "config.json").write_text(json.dumps(giant))
    given = json.dumps(YARN | {"rope_theta": 1e4})
    for answer, words in (
        (advise.main, ["target=2400"]),
        (verify.main, [f"rope_parameters={given}"]),
    ):
        assert answer([f"model={tmp_path}", *words]) == 1
        said = f"posbench: model={tmp_path} has num_hidden_layers: 2000000000 in its config.json"
        assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # One rotation for each kind of layer, and none for those that see all keys.
        ({"rope_parameters": {"full_attention": None, "sliding_attention": UNTOLD}}, "turns its"),
        ({"rope_parameters": UNTOLD | {"rope_type": "proportional"}}, "measure extensions with"),
        (
            {"rope_theta": float("inf")},
            "has rope_theta: inf in its config.json, which is not at most",
        ),
        ({"head_dim": 10**9}, "1000000000 channels in a head are of no model"),
    ],
)
def test_a_rotation_that_settings_cannot_give_has_a_sentence(
    config: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_none = {"max_position_embeddings": 1200, "rope_theta": 1e4, "head_dim": 16}
    (tmp_path / "config.json").write_text(json.dumps(of_none | config))
    words = [f"model={tmp_path}", "target=2400", f"results={ROOT / 'results'}"]
    assert advise.main(words) == 1
    assert said in capsys.readouterr().err


def printed_for_transformers(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The settings for 2,400 positions that advice prints for transformers."""
    words = [f"model={folder}", "target=2400", f"results={ROOT / 'results'}"]
    assert advise.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    [line] = [each for each in lines if "from_pretrained(MODEL" in each]
    given: dict[str, Any] = ast.literal_eval(line.partition("MODEL, **")[2].removesuffix(")"))
    return given


def test_a_model_with_embeddings_for_each_layer_is_no_giant(tmp_path: Path) -> None:
    """Gemma 3n has 262,144 words in each."""
    config = LLAMA | {"vocab_size_per_layer_input": 262_144, "layer_sizes": [16_384, 32_768]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    refuse_giants(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 262_144}))
    with pytest.raises(ConfigError, match="num_hidden_layers: 262144"):
        refuse_giants(tmp_path)


@pytest.mark.slow
def test_what_advice_prints_reaches_the_block_and_the_width_that_it_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Qwen2.5-VL's file has no block, and transformers makes one; Mixtral's width is null."""
    sizes = {"num_hidden_layers": 2, "intermediate_size": 64, "num_key_value_heads": 2}
    vision = LLAMA | sizes | {"model_type": "qwen2_5_vl", "rope_scaling": None}
    mixtral = LLAMA | sizes | {"model_type": "mixtral", "head_dim": None}
    for config, inside in ((vision, "text_config"), (mixtral, "")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        given = printed_for_transformers(tmp_path, capsys)
        assert (inside in given) == bool(inside)
        mine = given[inside] if inside else given
        served = transformers.AutoConfig.from_pretrained(tmp_path, **given).get_text_config()
        assert served.max_position_embeddings == 2400
        assert served.rope_parameters["rope_type"] == mine["rope_parameters"]["rope_type"]
        if config is mixtral:
            assert mine["head_dim"] == served.head_dim == 16


@pytest.mark.slow
def test_windows_within_the_trained_length_need_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"model={tmp_path}", "target=2400", f"results={ROOT / 'results'}"]
    config = tmp_path / "config.json"
    every = LLAMA | {"model_type": "mistral", "sliding_window": 128}
    config.write_text(json.dumps(every))
    assert advise.main(words) == 1
    said = "has windows of 128 in all its layers with rotary positions, within the 1200"
    assert said in capsys.readouterr().err
    config.write_text(json.dumps(every | {"sliding_window": None}))
    assert advise.main(words) == 0
    assert "To serve " in capsys.readouterr().out
    kinds = ["sliding_attention", "full_attention"]
    some = LLAMA | {"model_type": "gemma2", "sliding_window": 128, "layer_types": kinds}
    config.write_text(json.dumps(some | {"num_hidden_layers": 2}))
    assert advise.main(words) == 0
    out = capsys.readouterr().out
    assert "Its layers with windows of 128 share their rotation with the others" in out
    assert "To serve " not in out and "the layers with windows, which need no extension" in out


@pytest.mark.parametrize("kind", WITHOUT_POSITIONS)
def test_layers_without_positions_have_no_distance_to_stretch(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as Command R7B: RoPE in windows of 4,096, and no positions where all keys are seen."""
    kinds = ["sliding_attention", "full_attention"]
    given = {"sliding_window": 128, "attention_chunk_size": 128, "layer_types": kinds}
    if kind == "llama4_text":
        given["layer_types"] = ["chunked_attention", "full_attention"]
    config = {"model_type": kind, "max_position_embeddings": 1200, "num_hidden_layers": 2} | given
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = [f"model={tmp_path}", f"results={ROOT / 'results'}"]
    assert advise.main([*words, "target=2400"]) == 1
    error = capsys.readouterr().err
    assert "has windows of 128 in all its layers with rotary positions, within the 1200" in error
    assert "extension=log_n" in error


def test_families_without_positions_in_some_layers_are_those_that_were_mounted() -> None:
    """Where the layers that turn have windows, as tests/MOUNTS.md has it."""
    rows = re.findall(r"(?m)^\| (\w+) \| ([^|]+) \|", (ROOT / "tests" / "MOUNTS.md").read_text())
    found = {
        name
        for name, layers in rows
        if "no position" in layers and re.search("windows|chunks", layers)
    }
    assert found == {*WITHOUT_POSITIONS}


@pytest.mark.slow
def test_older_names_of_a_configuration_are_read_as_transformers_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gemma 3 as it was published: two bases by other names, in the block of the text."""
    text = LLAMA | {
        "model_type": "gemma3_text",
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": None,
        "sliding_window": 64,
        "num_hidden_layers": 6,
    }
    whole = {"model_type": "gemma3", "text_config": text}
    for config, inside in ((text, ""), (whole, "text_config")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        given = printed_for_transformers(tmp_path, capsys)
        assert (inside in given) == bool(inside)
        mine = (given[inside] if inside else given)["rope_parameters"]
        assert mine["sliding_attention"] == {"rope_type": "default", "rope_theta": 1e4}
        assert mine["full_attention"]["rope_theta"] == 1e6
        served = transformers.AutoConfig.from_pretrained(tmp_path, **given).get_text_config()
        assert served.rope_parameters["full_attention"] == mine["full_attention"]
        assert served.max_position_embeddings == 2400 and served.sliding_window == 64
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_positions": 1024}))
    assert advise.main([f"model={tmp_path}", "target=2048"]) == 1
    assert "has no rope_parameters in its config.json" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gemma3", "llama"])
def test_what_is_printed_to_serve_is_tried_with_a_rotation_for_each_kind_of_layer(
    kind: str,
) -> None:
    with mounted_and_proved(MODELS[kind]()) as mounted:
        trained = mounted.train_positions
        extension = extension_at("yarn", trained, 2 * trained)
        found: Any = serving.overrides(mounted, extension, 2 * trained)
        assert found["max_position_embeddings"] == 2 * trained
        rope = found["rope_parameters"]
        assert rope.get("full_attention", rope)["factor"] == 2
        if kind == "gemma3":
            assert rope["sliding_attention"]["rope_type"] == "default"
        said = serving.overrides(mounted, SelfExtend(4), 2 * trained)
        assert said.startswith("neither transformers nor vLLM has SelfExtend")  # type: ignore[union-attr]
        assert serving.overrides(mounted, Direct(), 2 * trained) == {
            "max_position_embeddings": 2 * trained
        }
        assert "nothing has to be set" in serving.overrides(mounted, Direct(), trained)


def test_a_width_that_a_configuration_leaves_empty_is_given_with_the_parameters() -> None:
    """Of Mixtral, whose null transformers multiplies."""
    net = family("Mixtral", max_position_embeddings=POSITIONS)
    net.config.head_dim = None
    width = net.config.hidden_size // net.config.num_attention_heads
    assert serving.left_empty(net.config) == {"head_dim": width}
    assert serving.left_empty(llama().config) == {}


def test_spread_positions_are_whole_beyond_what_float32_counts() -> None:
    found = spread(2**24 + 6)
    assert found[0] == 0 and found[-1] == 2**24 + 5 and len(found) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rope", "more", "length"),
    [
        ({"rope_type": "linear", "factor": 4.0}, {"train_positions": 75}, POSITIONS),
        ({"rope_type": "dynamic", "factor": 4.0}, {}, 4 * POSITIONS),
    ],
)
def test_a_factor_without_an_original_length_is_one_of_the_trained_length(
    rope: dict[str, Any], more: dict[str, int], length: int
) -> None:
    found = verified(llama(rope, positions=POSITIONS), **more)
    assert found.length == length and not found.problems


@pytest.mark.slow
def test_a_model_that_answers_nothing_at_1x_is_told(hosts: dict[str, Any], folder: Path) -> None:
    with pytest.raises(ConfigError, match="has no records: measure the model first"):
        list(advice(hosts, record=ROOT / "docs").record_lines())
    record = ROOT / "results" / "pretrained"
    [said] = advice(hosts, record=record).record_lines()
    assert said.startswith("At 1x the model answers") and "0%" not in said
    # Answers of this model alone, and no shares of likelihoods.
    served = ROOT / "results" / "pretrained_served"
    frame = tables.table(files.records(served))
    alone = frame[(frame["multiple"] == 1) & (frame["extension"] == "direct")]
    asked = alone[alone["task"] == "passkey"]
    assert 0 < len(asked) < len(alone)
    [said] = advice(hosts, record=served).record_lines()
    assert said.startswith(
        f"At 1x the model answers {asked['score'].mean():.0%} of {len(asked)} in"
    )
    [said] = advice(hosts, record=served, model=folder).record_lines()
    assert said == f"{served} has no answers of {folder} at 1x without an extension."
