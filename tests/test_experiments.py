"""Experiments are what their papers did: settings, lengths and tests, in one choice that gives its
runs the names of all that it sets, and a command that repeats them.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from offered import CONF
from omegaconf import OmegaConf
from processes import succeeded

from posbench.base.errors import ConfigError
from posbench.config.compose import compose, composing
from posbench.config.folders import own_names
from posbench.config.identity import Identity, identify
from posbench.core.transformer import Transformer
from posbench.records import files, published
from posbench.running.console import Console
from posbench.running.run import train_and_record
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.sharing.command import main as results_command

Answered = Callable[..., tuple[int | None, str, str]]


@dataclass
class Paper:
    """What a paper says of one of its tasks, in its own terms."""

    task: str
    settings: dict[str, Any]
    trained: tuple[int, int]  # shortest and longest, in the paper's count of `tokens` or symbols
    tested: list[int]  # beside the longest of training, in the same count
    steps: int
    methods: list[str]
    count: Callable[[int], int] = field(default=lambda n: n)  # of n, as the paper counts
    batch: int = 64
    rates: tuple[float, ...] = (3e-5,)


KAZEMNEJAD = ["nope", "t5", "alibi", "partial_rope", "sinusoidal"]
UP_TO_40 = [21, 22, 24, 26, 28, 30, 32, 36, 40]
UP_TO_16 = [9, 10, 11, 12, 14, 16]
JELASSI = ["hard_alibi encoding.num_masked=8 encoding.shortest=0", "alibi", "nope", "partial_rope"]
RUOSS_RATES = (1e-4, 3e-4, 5e-4)
RUOSS = ["nope", "sinusoidal", "alibi", "rope", "learned", "transformer_xl"]
RUOSS += ["random_positions encoding.largest=2048"]
RUOSS += ["random_positions encoding.largest=2048 encoding@encoding.host=sinusoidal"]
UP_TO_500 = [50, 60, 80, 120, 200, 320, 500]
ZOOLOGY = (1e-4, 4.64e-4, 2.15e-3, 1e-2)


def kazemnejad(task: str, longest: int, tested: list[int], **other: Any) -> Paper:
    settings = other.pop("settings", {})
    return Paper(task, settings, (2, longest), tested, 40_000, KAZEMNEJAD, **other)


def ruoss(task: str, settings: dict[str, Any], **other: Any) -> Paper:
    trained = other.pop("trained", (1, 40))
    return Paper(
        task, settings, trained, UP_TO_500, 10**6, RUOSS, batch=128, rates=RUOSS_RATES, **other
    )


def lookup(task: str) -> Paper:
    """The symbols of the string; here n leaves out the key of 2 and the answer of 3."""
    strings = [40, 50, 60, 80, 100]
    count: Callable[[int], int] = lambda n: n + 5  # noqa: E731
    return Paper(task, {"num_symbols": 26}, (5, 30), strings, 2000, JELASSI, count, 8, (1e-5,))


def zoology(tokens: int, pairs: int, batch: int) -> Paper:
    """Its lengths are the tokens of a sequence, fixed."""
    return Paper(
        "mqar",
        {"num_pairs": pairs, "num_symbols": 8192 // 2},
        (tokens, tokens),
        [],
        64 * 100_000 // batch,
        ["learned"],
        lambda n: n + 4 * pairs + 3,
        batch,
        ZOOLOGY,
    )


def induction(steps: int, *methods: str) -> Paper:
    tested = [2**power for power in (6, 7, 9, 10, 11, 12, 13, 14)]
    count: Callable[[int], int] = lambda n: n + 7  # noqa: E731
    trained = (256, 256)
    settings = {"num_symbols": 16}
    return Paper("induction", settings, trained, tested, steps, [*methods], count, 8, (2e-4,))


PAPERS = {
    "kazemnejad2023_copy": kazemnejad("copy", 20, UP_TO_40, settings={"num_symbols": 100}),
    "kazemnejad2023_reverse": kazemnejad("reverse", 20, UP_TO_40, settings={"num_symbols": 100}),
    "kazemnejad2023_repeat_token": kazemnejad("repeat_token", 20, [24, 28, 32, 36]),
    "kazemnejad2023_sort": kazemnejad("sort", 8, UP_TO_16, settings={"num_symbols": 50}),
    "kazemnejad2023_addition": kazemnejad("addition", 8, UP_TO_16),
    "kazemnejad2023_parity": kazemnejad("parity", 8, UP_TO_16, count=lambda n: n + 1),
    "press2022_language": Paper(
        "language",
        {},
        (512, 512),
        [552, 612, 712, 812, 1012, 1512, 2512, 3512],
        20_000,
        ["sinusoidal", "rope", "t5", "alibi"],
        lambda n: n + 2,
        rates=(3e-4,),
    ),
    "jelassi2024_copy": Paper(
        "copy",
        {"num_symbols": 26},
        (5, 50),
        [100, 200, 400, 600, 800, 1000],
        2000,
        JELASSI,
        batch=8,
        rates=(1e-5,),
    ),
    "jelassi2024_prefix_lookup": lookup("prefix_lookup"),
    "jelassi2024_suffix_lookup": lookup("suffix_lookup"),
    "mamba2023_induction": induction(205_000, "sinusoidal"),
    "mamba2023_induction_rotary": induction(410_000, "rope", "xpos"),
    "zoology2024_mqar_64": zoology(64, 4, 512),
    "zoology2024_mqar_128": zoology(128, 8, 512),
    "zoology2024_mqar_256": zoology(256, 16, 256),
    "zoology2024_mqar_512": zoology(512, 64, 128),
    "ruoss2023_reverse": ruoss("reverse", {"num_symbols": 2}),
    "ruoss2023_sort": ruoss("sort", {"num_symbols": 5}),
    "ruoss2023_duplicate": ruoss("duplicate", {"num_symbols": 2}),
    "ruoss2023_parity": ruoss("parity", {}, count=lambda n: n + 1),
    "ruoss2023_missing_duplicate": ruoss(
        "missing_duplicate", {"num_symbols": 2}, trained=(2, 40), count=lambda n: 2 * n + 2
    ),
}
"""Each experiment of a paper at its full size."""

FIRST = {
    next(name for name in PAPERS if name.startswith(paper))
    for paper in ("kazemnejad", "press", "jelassi", "mamba", "zoology", "ruoss")
} | {"mamba2023_induction_rotary"}
MODELS = {  # layers, width, heads, width of a head, MLP
    "kazemnejad2023": (12, 768, 12, 64, 4),
    "press2022": (16, 1024, 8, 128, 4),
    "jelassi2024": (12, 1024, 16, 64, 4),
    "mamba2023": (2, 128, 8, 16, 0),
    "zoology2024": (2, 128, 1, 128, 0),
    "ruoss2023": (5, 64, 8, 8, 4),
}

SMALL = {  # the tested n
    "kazemnejad2023_copy_cpu": [20, *UP_TO_40],
    "kazemnejad2023_reverse_cpu": [20, *UP_TO_40],
    "kazemnejad2023_repeat_token_cpu": [20, 24, 28, 32, 36],
    "kazemnejad2023_sort_cpu": [8, *UP_TO_16],
    "kazemnejad2023_addition_cpu": [8, *UP_TO_16],
    "kazemnejad2023_parity_cpu": [7, 8, 9, 10, 11, 13, 15],
    "press2022_language_cpu": [62, 67, 75, 88, 100, 126, 190, 318, 446],
    "jelassi2024_copy_cpu": [16, 32, 64, 128, 192, 256, 320],
    "jelassi2024_prefix_lookup_cpu": [25, 35, 45, 55, 75, 95],
    "jelassi2024_suffix_lookup_cpu": [25, 35, 45, 55, 75, 95],
    "mamba2023_induction_cpu": [2**power - 7 for power in range(4, 11)],
    "zoology2024_mqar_64_cpu": [45],
    "zoology2024_mqar_128_cpu": [93],
    "ruoss2023_reverse_cpu": [10, 12, 15, 20, 30, 50, 80, 125],
    "ruoss2023_sort_cpu": [10, 12, 15, 20, 30, 50, 80, 125],
    "ruoss2023_duplicate_cpu": [10, 12, 15, 20, 30, 50, 80, 125],
    "ruoss2023_parity_cpu": [9, 11, 14, 19, 29, 49, 79, 124],
    "ruoss2023_missing_duplicate_cpu": [4, 5, 7, 9, 14, 24, 39, 62],
}
"""Each experiment at the size of a CPU."""

VARIANTS = {  # the experiment that it is but for one setting, and that setting
    "kazemnejad2023_copy_deeper_cpu": ("kazemnejad2023_copy_cpu", "model.num_layers", 4),
    "ruoss2023_reverse_longer_cpu": ("ruoss2023_reverse_cpu", "training.steps", 16_000),
    "kazemnejad2023_sort_longer_cpu": ("kazemnejad2023_sort_cpu", "training.steps", 16_000),
    "jelassi2024_copy_4_cpu": ("jelassi2024_copy_cpu", "task.num_symbols", 4),
}
ON_CPU = {  # of protocol cpu: the task with its settings, and the tested n
    "zhou2024_copy_unique_cpu": (("task=copy_unique",), [19, 24, 29, 39]),
    "zhou2024_copy_repeated_cpu": (("task=copy_small", "task.num_symbols=8"), [19, 24, 29, 39]),
    "cho2024_addition_cpu": (("task=addition",), [12, 15, 19, 25]),
    "chen2023_passkey_cpu": (("task=passkey",), [31, 51, 71, 151]),
    "chen2023_key_value_retrieval_cpu": (("task=key_value_retrieval",), [8, 15, 22, 49]),
}
"""Experiments for a CPU alone: at full size their papers have models that are not trained here."""


def called(*words: str) -> tuple[Setup, Identity]:
    """What `python -m posbench WORDS` sets up, and what it calls it."""
    composed = compose(*words)
    identity = identify(composed)  # first: it refuses what contradicts an experiment
    return Setup.of(composed.cfg()), identity


@functools.cache
def experiment(name: str) -> Setup:
    return Setup.of(compose(f"experiment={name}").cfg())


def model(name: str, *words: str) -> Transformer:
    """The model of an experiment with the encoding that the words choose, without its weights."""
    found = experiment(name)
    cfg = copy.deepcopy(found.composed)
    cfg.encoding = compose(*words).content["encoding"]
    with torch.device("meta"):
        return Setup(cfg, found.task).model()


def test_the_tables_have_every_experiment() -> None:
    assert sorted([*PAPERS, *SMALL, *VARIANTS, *ON_CPU]) == own_names("experiment")


# -- what the papers did ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPERS)
def test_an_experiment_has_the_settings_of_its_paper(name: str) -> None:
    paper, found = PAPERS[name], experiment(name)
    training, shaped = found.config.training, found.config.model
    assert {key: found.nodes["task"].get(key) for key in paper.settings} == paper.settings
    assert f".tasks.{paper.task.partition('_lookup')[0]}" in found.nodes["task"]["_target_"] or (
        paper.task.endswith("lookup") and found.nodes["task"]["_target_"].lower().endswith("lookup")
    )
    assert tuple(map(paper.count, training.lengths)) == paper.trained
    assert [paper.count(n) for n in found.lengths.multiples] == sorted(
        [paper.trained[1], *paper.tested]
    )
    assert training.total_steps == paper.steps
    assert training.batch_size == paper.batch
    rates = training.learning_rate
    assert tuple(rates if isinstance(rates, list) else [rates]) == paper.rates
    shape = (shaped.num_layers, shaped.width, shaped.num_heads)
    shape += (shaped.head_width, shaped.mlp_ratio)
    assert shape == MODELS[name.partition("_")[0]]


def test_repeating_is_tested_at_every_count_of_the_paper_and_none_beyond() -> None:
    found = experiment("kazemnejad2023_repeat_token")
    counts = {n for test in found.lengths.multiples for n in found.task.tested(test, 20)}
    assert set(range(20, 41)) <= counts and max(counts) == 40


@pytest.mark.parametrize("pairs", [4, 8, 16, 64])
def test_recall_has_the_vocabulary_and_the_tokens_of_the_paper(pairs: int) -> None:
    tokens = {4: 64, 8: 128, 16: 256, 64: 512}[pairs]
    task = experiment(f"zoology2024_mqar_{tokens}").task
    batch = task.batch(experiment(f"zoology2024_mqar_{tokens}").train_length, 2, "test")
    assert batch.tokens.shape == (2, tokens)
    symbols = 8 + 4096  # keys begin at 8, values follow
    keys, values = batch.tokens[:, 1 : 1 + 2 * pairs : 2], batch.tokens[:, 2 : 2 + 2 * pairs : 2]
    assert (keys < symbols).all() and (values >= symbols).all() and (values < 8 + 8192).all()


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name, paper in PAPERS.items()
        for place, method in enumerate(paper.methods)
        if place == 0 or name in FIRST  # the model is the same at all tasks of a paper
    ],
)
def test_the_models_of_a_paper_can_be_built(name: str, method: str) -> None:
    """Of the paper's shape."""
    chosen, *settings = method.split()
    words = [f"method={chosen}", *settings]
    if any("@" in word for word in settings):
        words[0] = f"encoding={chosen}"
    assert len(model(name, *words).blocks) == MODELS[name.partition("_")[0]][0]


@pytest.mark.parametrize(
    ("name", "method", "millions"),
    [  # of the papers, less the embeddings of their vocabularies; press: 16 layers of 12 width^2
        ("kazemnejad2023_copy", "nope", 12 * 12 * 768**2 / 1e6),
        ("press2022_language", "alibi", 16 * 12 * 1024**2 / 1e6),
        ("mamba2023_induction", "sinusoidal", 0.137),
    ],
)
def test_a_model_has_the_parameters_of_the_paper(name: str, method: str, millions: float) -> None:
    found = sum(parameter.numel() for parameter in model(name, f"method={method}").parameters())
    assert found / 1e6 == pytest.approx(millions, rel=0.03)


# -- at the size of a CPU --------------------------------------------------------------------------


def test_what_has_a_size_for_a_cpu() -> None:
    lacking = set(PAPERS) - {name.removesuffix("_cpu") for name in SMALL}
    assert lacking == {
        "zoology2024_mqar_256",
        "zoology2024_mqar_512",
        "mamba2023_induction_rotary",  # differs in its steps
    }


@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_for_a_cpu_is_small_and_has_the_task_of_its_paper(name: str) -> None:
    paper, found = PAPERS[name.removesuffix("_cpu")], experiment(name)
    config = found.config
    assert config.trainer.accelerator == "cpu"
    assert 64 <= config.model.width <= 128 and config.model.num_layers == 2
    assert config.training.total_steps <= 4000
    assert found.train_positions * config.training.batch_size <= 8192, "tokens of a step"
    assert not isinstance(config.training.learning_rate, list)
    full = experiment(name.removesuffix("_cpu"))
    assert type(found.task) is type(full.task)
    smaller = {"num_symbols"} if name.startswith("zoology") else set()
    for key in paper.settings.keys() - smaller:
        assert found.nodes["task"][key] == paper.settings[key]
    assert list(found.lengths.multiples) == SMALL[name]


def differing(one: Setup, other: Setup) -> dict[str, Any]:
    """The settings of the first that the second has otherwise, by their places."""
    mine, theirs = (
        {
            f"{part}.{key}": value
            for part in ("task", "model", "training", "evaluation", "trainer")
            for key, value in OmegaConf.to_container(each.composed[part], resolve=True).items()  # type: ignore[union-attr]
        }
        for each in (one, other)
    )
    assert mine.keys() == theirs.keys()
    return {place: value for place, value in mine.items() if theirs[place] != value}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_its_experiment_but_for_one_setting(name: str) -> None:
    origin, place, value = VARIANTS[name]
    assert differing(experiment(name), experiment(origin)) == {place: value}


@pytest.mark.parametrize("name", ON_CPU)
def test_an_experiment_of_protocol_cpu_has_tests_of_its_own(name: str) -> None:
    words, tested = ON_CPU[name]
    found, plain = experiment(name), called("protocol=cpu", *words)[0]
    own = {"evaluation.multiples", "evaluation.longest", "evaluation.ladder"}
    assert differing(found, plain).keys() <= own
    assert list(found.lengths.multiples) == tested != list(plain.lengths.multiples)


def test_unique_and_repeated_symbols_are_copied_at_the_same_lengths_and_as_long() -> None:
    one, other = (experiment(f"zhou2024_copy_{kind}_cpu") for kind in ("unique", "repeated"))
    assert one.config.training == other.config.training
    assert one.lengths.multiples == other.lengths.multiples


@pytest.mark.parametrize("name", SMALL)
def test_a_method_of_the_paper_can_be_built_for_a_cpu(name: str) -> None:
    method = PAPERS[name.removesuffix("_cpu")].methods[0].split()[0]
    assert len(model(name, f"method={method}").blocks) == 2


@pytest.mark.parametrize("name", own_names("experiment"))
def test_the_first_line_says_which_paper_and_the_next_what_is_tested_or_differs(name: str) -> None:
    text = (CONF / "experiment" / f"{name}.yaml").read_text()
    package, first, *rest = text.splitlines()
    assert package == "# @package _global_"
    assert re.match(r"# [A-Z]\w+ 20\d\d\b", first)
    assert re.search(r"^# arXiv \d{4}\.\d{5}$", text, re.M)
    assert "for a CPU" in first + rest[0] or not name.endswith("_cpu")
    said = re.search(r"Tested n:((?:\s|#|[\d,])+)\.", text)
    if said:
        numbers = re.findall(r"[\d,]*\d", said[1])
        tested = list(experiment(name).lengths.multiples)
        assert [int(number.replace(",", "")) for number in numbers] == tested


QUICK = ("training.steps=2", "training.validate_every=1", "training.validation_samples=4")
QUICK += ("evaluation.num_samples=4",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [("kazemnejad2023_sort_cpu", "t5"), ("zoology2024_mqar_64_cpu", "learned")],
)
def test_an_experiment_for_a_cpu_runs_and_is_repeated_by_its_command(
    name: str, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with composing():
        composed = compose(f"experiment={name}", f"method={method}", *QUICK)
        train_and_record(
            RunSpec.of(composed.but(results_dir=str(tmp_path / "own"), logger={})), Console()
        )
    (found,) = files.records(tmp_path / "own")
    assert found.command.startswith(f"python -m posbench experiment={name} method={method} ")
    assert [row.test_length for row in found.rows] == SMALL[name]
    published.publish([found], [], tmp_path / "all")
    status = results_command(["verify", str(tmp_path / "all"), "--in", str(tmp_path / "again")])
    out, err = capsys.readouterr()
    assert status == 0 and "1 of 1 exact." in out, err


@pytest.mark.slow
def test_the_command_line_runs_one(tmp_path: Path) -> None:
    out = succeeded(tmp_path, "experiment=kazemnejad2023_copy_cpu", *QUICK).out
    assert "on copy (task.num_symbols=100, training.steps=2), protocol kazemnejad2023_cpu" in out


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if place % 4 else ())
        for place, name in enumerate(own_names("experiment"))
    ],
)
def test_its_command_gives_the_same_run_and_so_do_its_settings_without_it(name: str) -> None:
    first, identity = called(f"experiment={name}", "method=rope", "seed=3")
    assert str(identity.command(3)) == f"python -m posbench experiment={name} method=rope seed=3"
    assert called(*identity.command(3).words)[1] == identity
    changes = [*identity.protocol.changed, *identity.task.changed]
    words = [f"protocol={identity.protocol.name}", f"task={identity.task.name}", *changes]
    spelled, same = called(*words, "method=rope", "seed=3")
    assert (same.protocol, same.task) == (identity.protocol, identity.task)
    assert spelled.settings == first.settings


def test_what_an_experiment_sets_stands_in_the_names() -> None:
    plain = called("protocol=zoology2024", "task=mqar", "method=learned")[1]
    one = called("experiment=zoology2024_mqar_64", "method=learned")[1]
    other = called("experiment=zoology2024_mqar_256", "method=learned")[1]
    assert one.task.label == "mqar (task.num_symbols=4096)"
    assert one.protocol == plain.protocol and one.method == plain.method
    assert len({plain.task.hash, one.task.hash, other.task.hash}) == 3
    assert other.protocol.label.startswith("zoology2024 (training.batch_size=256, ")
    assert other.protocol.hash != one.protocol.hash


def test_no_two_experiments_are_the_same() -> None:
    settings = {name: experiment(name).settings for name in own_names("experiment")}
    assert len({repr(each) for each in settings.values()}) == len(settings)


def test_what_the_user_sets_on_top_is_a_change_as_always() -> None:
    words = ("experiment=kazemnejad2023_sort", "method=rope")
    plain = called(*words)[1]
    found = called(*words, "training.steps=10", "model.width=64", "encoding.base=500")[1]
    assert set(found.task.changed) - set(plain.task.changed) == {"training.steps=10"}
    assert set(found.protocol.changed) - set(plain.protocol.changed) == {"model.width=64"}
    assert found.method.label == "rope (encoding.base=500)"
    assert str(found.command(0)) == (
        "python -m posbench experiment=kazemnejad2023_sort method=rope model.width=64 "
        "training.steps=10 encoding.base=500 seed=0"
    )
    assert called(*found.words)[1] == found


def test_what_the_user_sets_back_is_said_in_the_command() -> None:
    found = called("experiment=zoology2024_mqar_64", "task.num_symbols=16")[1]
    assert found.task.changed == () and "task.num_symbols=16" in found.words
    assert called(*found.words)[1] == found


def test_an_experiment_of_ones_own_may_set_the_method(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine.yaml").write_text(
        "# @package _global_\n"
        "defaults:\n  - override /task: copy\n  - override /method: alibi\n"
        "encoding:\n  steepness: 7\n"
    )
    with composing(tmp_path):
        found = called("experiment=mine")[1]
        assert (found.protocol.label, found.task.label) == ("cpu", "copy")
        assert found.method.label == "alibi (encoding.steepness=7)"
        assert str(found.command(0)) == "python -m posbench experiment=mine method=alibi seed=0"
        other = called("experiment=mine", "encoding.steepness=8")[1]
        assert called(*other.words)[1] == other != found


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("word", ["task=copy", "protocol=cpu"])
def test_another_task_or_protocol_is_refused(word: str, answered: Answered) -> None:
    group = word.partition("=")[0]
    own = {"task": "task=mqar", "protocol": "protocol=zoology2024"}[group]
    status, out, err = answered("experiment=zoology2024_mqar_64", word)
    assert (status, out) == (1, "")
    assert err == (
        f"posbench: experiment=zoology2024_mqar_64 chooses {own}, with settings for it: leave out "
        f"{word}, or the experiment\n"
    )
    with composing(), pytest.raises(ConfigError, match="chooses"):
        called("experiment=zoology2024_mqar_64", word)


def test_its_own_task_may_be_said_again() -> None:
    words = ("experiment=zoology2024_mqar_64", "task=mqar", "protocol=zoology2024")
    assert called(*words)[1] == called(words[0])[1]


def test_an_unknown_experiment_gets_its_sentence(answered: Answered) -> None:
    status, _, err = answered("experiment=zoology2024")
    assert status == 1
    assert err.startswith("posbench: experiment=zoology2024 is unknown: did you mean zoology2024_")
    assert err.endswith(" or protocol=zoology2024?\n")
