"""What posbench composes, beside what Hydra composes of the same words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posbench.base.errors import ConfigError, PosbenchError
from posbench.config import board, folders
from posbench.config.compose import by_hydra, compose, composing
from posbench.config.composition_rules import NoSetting, composed
from posbench.config.identity import identify
from posbench.config.methods import methods
from posbench.config.option_files import NotOurs, OptionFiles
from posbench.config.record_command import Command
from posbench.records import files

Words = tuple[str, ...]
RESULTS = Path(__file__).parents[1] / "results"


def ours(*words: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """The content, and the choices in their order; Hydra is not asked."""
    content, choices = composed(words, OptionFiles(folders.searched()))
    return content, list(choices.items())


def theirs(*words: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    found = by_hydra(*words)
    choices = [pair for pair in found.choices.items() if not pair[0].startswith("hydra/")]
    return dict(found.content), choices


def of_methods() -> Iterator[Words]:
    """Each method, on one task after the other under one protocol after the other."""
    tasks, protocols = folders.own_names("task"), folders.own_names("protocol")
    for place, name in enumerate(sorted(methods())):
        yield (
            f"method={name}",
            f"task={tasks[place % len(tasks)]}",
            f"protocol={protocols[place % len(protocols)]}",
        )


def of_options() -> Iterator[Words]:
    for group in ("encoding", "extension", "experiment", "task", "protocol", "logger"):
        yield from ((f"{group}={name}",) for name in folders.own_names(group))


def of_boards() -> Iterator[Words]:
    """One run of each part of a board."""
    for name in folders.own_names("board"):
        for rows in board.load(name, ()).parts.values():
            yield (*rows.words[-1], f"seed={rows.seeds[0]}", "definition=0123")


MANY: list[Words] = [*of_methods(), *of_options(), *of_boards()]
WRITTEN = """
method=ssmax encoding@encoding.host=alibi
method=ssmax encoding@encoding.host=tupe encoding@encoding.host.host=t5
extension=both extension@extension.second=sliding_window
extension=yarn_tuned extension@extension.make=by_parts
+encoding@encoding.other=alibi method=rope
encoding=sink method=rope encoding@encoding.host=alibi
method=rope_ntk extension=yarn encoding.base=500
experiment=kazemnejad2023_copy_cpu method=t5 training.steps=3
experiment=jelassi2024_copy_4_cpu task=copy
board=main
~logger
~logger=csv
~training.stop_at
~training.steps
~training.steps=1000
+encoding.foo=1
++encoding.base=3
+a.b.c=1
+training.learning_rate=[1,2]
+task.more={a:{b:1}}
++task={a:1}
training={steps:3}
training.steps={a:3}
training=5
training.learning_rate=[1e-3,3e-3]
evaluation.multiples=[]
encoding.base=${model.width}
encoding='rope'
results_dir=
seed=abc
force=no
training.steps='1000'
task.num_symbols=1e3
encoding=rope_chunked_nope encoding.layers.0.chunk=3
training.precision=null
""".strip().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("words", [tuple(shlex.split(line)) for line in WRITTEN], ids=" ".join)
def test_words_compose_what_hydra_composes_of_them(words: Words) -> None:
    assert_same(words)


@pytest.mark.slow
@pytest.mark.parametrize("words", MANY[::29], ids=" ".join)
def test_choices_compose_what_hydra_composes_of_them(words: Words) -> None:
    assert ours(*words) == theirs(*words)


@pytest.mark.slow
def test_every_choice_composes_what_hydra_composes_of_it() -> None:
    assert [words for words in MANY if ours(*words) != theirs(*words)] == []


def assert_same(words: Words) -> None:
    """Both compose the same, or both refuse it."""
    try:
        expected: object = theirs(*words)
    except Exception:
        expected = None
    try:
        found: object = ours(*words)
    except PosbenchError:
        found = None
    assert found == expected


# -- folders of the user ---------------------------------------------------------------------------

OWN = {
    "encoding/wrapped.yaml": (
        "defaults:\n  - /encoding@host: mood\n  - _self_\n_target_: a.B\nhost:\n  strength: 2\n"
    ),
    "encoding/mood.yaml": "_target_: a.Mood\nstrength: 1e-3\nlist: [1, {a: 2}]\n",
    "encoding/empty.yaml": "# nothing yet\n",
    "extension/two.yaml": (
        "defaults:\n  - /extension@first: ntk\n  - /extension@second: yarn\n_target_: a.Two\n"
    ),
    "method/mine.yaml": (
        "# @package _global_\ndefaults:\n  - override /encoding: wrapped\n"
        "  - override /extension: two\nmodel:\n  qk_norm: true\n"
    ),
    "method/nested.yaml": (
        "# @package _global_\ndefaults:\n  - mine\n  - override /encoding@encoding.host: alibi\n"
    ),
    "task/odd.yaml": "# @package _global_\ntask:\n  _target_: a.Odd\ntraining:\n  max_length: 7\n",
    "protocol/longer.yaml": "# @package _global_\ndefaults: [cpu]\ntraining: {steps: 9}\n",
    "experiment/both.yaml": (
        "# @package _global_\ndefaults:\n  - override /protocol: longer\n  - override /task: odd\n"
        "  - override /encoding: mood\ntask: {more: null}\n"
    ),
    "other/group.yaml": "# @package evaluation\nlongest: 5\n",
    "stray/encoding.yaml": "base: 3\n",
}


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    for name, content in OWN.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(content)
    with composing(tmp_path / "mine"):
        yield tmp_path / "mine"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "encoding=wrapped",
        "encoding=wrapped encoding@encoding.host=alibi",
        "encoding=mood encoding.strength=3",
        "encoding=empty",
        "method=mine",
        "method=mine extension@extension.first=pi",
        "method=nested",
        "task=odd protocol=longer",
        "experiment=both",
        "experiment=both method=mine",
        "+other=group",
        "+stray@task.inside=encoding",
    ],
)
def test_files_of_the_user_compose_what_hydra_composes_of_them(line: str, mine: Path) -> None:
    assert ours(*line.split()) == theirs(*line.split())


def test_a_file_of_the_user_that_sets_what_is_the_users_own_is_refused(mine: Path) -> None:
    (mine / "task/bad.yaml").write_text("# @package _global_\nresults_dir: elsewhere\n")
    for each in (ours, theirs):
        with pytest.raises(ConfigError, match=r"bad\.yaml sets results_dir, which is the user's"):
            each("task=bad")


# -- what is left to Hydra, and mistakes -----------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["encoding=ropee", "logger=null", "hydra.job.name=x", "task=[copy,sort]"]
)
def test_what_is_not_ours_is_left_to_hydra(line: str) -> None:
    with pytest.raises(NotOurs):
        ours(line)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("training.stpes=3", "training.stpes"),
        ("training.steps.x=3", "training.steps.x"),
        ("~training.foo", "training.foo"),
        ("training={stpes:3}", "training"),
        ("encoding@encoding.host=alibi", "encoding@encoding.host"),
        ("metod=rope", "metod"),
    ],
)
def test_a_setting_that_is_not_there_is_named(line: str, key: str) -> None:
    with pytest.raises(NoSetting) as refused:
        compose(line)
    assert refused.value.key == key


def test_a_word_that_cannot_be_is_refused_before_hydra_is_asked() -> None:
    for line, said in {
        "seed=0,1": r"seed=0,1 lists several values: posbench sweep",
        "+seed=3": r"\+seed adds a setting that is there: write seed=VALUE",
        "~training.steps=5": r"is not what is there, 1000: write ~training.steps",
    }.items():
        with pytest.raises(ConfigError, match=said):
            compose(line)


# -- names of published records --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["main", "replications"])
def test_the_command_of_each_published_record_has_its_names_and_hashes(folder: str) -> None:
    seen: set[Words] = set()
    for record in files.read_folder(RESULTS / folder).records:
        words = tuple(
            word for word in Command.parse(record.command).words if not word.startswith("seed=")
        )
        if words in seen:
            continue
        seen.add(words)
        found = identify(compose(*words))
        assert found.words == words
        assert found.protocol == record.protocol
        assert found.task == record.task
        assert found.method.hash == record.method.hash
        assert found.method.label == record.method.label
    assert len(seen) > 50


# -- each file once --------------------------------------------------------------------------------


def test_a_file_is_read_once_and_what_is_composed_of_it_is_not_shared_with_a_cfg() -> None:
    one = compose("method=rope_yarn")
    assert compose("method=rope_yarn", "seed=3").content["encoding"] is one.content["encoding"]
    cfg = one.cfg()
    cfg.extension._target_ = "changed"
    assert compose("method=rope_yarn").content["extension"]["_target_"].endswith("YaRN")
    assert OptionFiles().read("encoding/rope") is OptionFiles().read("encoding/rope")
