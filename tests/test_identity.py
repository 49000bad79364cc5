"""What a run is called: one name for one content, whatever stands inside an encoding or an
extension.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError
from posbench.config.compose import compose, composing
from posbench.config.identity import SECTIONS, Identity, identify
from posbench.config.methods import methods
from posbench.config.provenance import without_places
from posbench.config.record_command import Command
from posbench.config.words import quoted
from posbench.core.settings import checked
from posbench.running.run_spec import RunSpec


def identity(*overrides: str) -> Identity:
    return identify(compose(*overrides))


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("method=rope_yarn", "rope_yarn"),
        ("method=rope extension=yarn", "rope_yarn"),
        ("method=rope extension=yarn_tuned", "rope_yarn_tuned"),
        ("encoding=rope_short_base extension=yarn_tuned", "rope_short_base+yarn_tuned"),
        ("encoding=rope_short_base extension=pi_fine_tuned", "rope_short_base+pi_fine_tuned"),
        ("encoding=rope_short_base extension=direct_continued", "rope_short_base+direct_continued"),
        ("encoding=rope_short_base extension=pose", "rope_short_base+pose"),
        (
            "extension=yarn_fine_tuned extension@extension.extension=llama3",
            "rope+yarn_fine_tuned-llama3",
        ),
        ("encoding=rope_short_base extension=both", "rope_short_base+yarn+log_n"),
        ("extension=both extension@extension.second=sliding_window", "rope+yarn+sliding_window"),
        ("method=ssmax encoding@encoding.host=alibi", "ssmax-alibi"),
        ("method=rope extension=pi extension.scale=2", "rope_pi (extension.scale=2)"),
        ("method=rope_qk_norm", "rope_qk_norm"),
        ("method=rope model.qk_norm=true", "rope_qk_norm"),
        ("method=rope_qk_norm model.qk_norm=false", "rope"),
        ("method=rope_qk_norm encoding.base=500", "rope_qk_norm (encoding.base=500)"),
        ("method=rope_qk_norm extension=pi", "rope_pi (model.qk_norm=true)"),
        ("method=alibi model.short_conv=3", "alibi (model.short_conv=3)"),
        ("method=rope_yarn_tuned extension.budget=8", "rope_yarn_tuned (extension.budget=8)"),
    ],
)
def test_a_row_is_named_after_what_was_chosen(words: str, label: str) -> None:
    assert identity(*words.split()).method.label == label


@pytest.mark.parametrize("inner", ["pi", "ntk", "yarn"])
def test_no_two_of_an_extension_its_tuned_and_its_fine_tuned_form_share_a_folder(
    inner: str,
) -> None:
    names = [inner, f"{inner}_fine_tuned", *(["yarn_tuned"] if inner == "yarn" else [])]
    found = [identity("encoding=rope_short_base", f"extension={name}").method for name in names]
    assert (
        len({method.slug for method in found})
        == len({method.hash for method in found})
        == len(names)
    )


@pytest.mark.parametrize("setting", ["a'b", "a&b", "f(x)", "#x", "a b", "[1,2]", "$x", "*"])
def test_a_command_gives_a_shell_the_settings_that_were_given(setting: str) -> None:
    command = Command("posbench", (f"encoding.name={setting}", "seed=0"))
    assert shlex.split(str(command))[3:] == [*command.words]
    assert Command.parse(str(command)) == command


def test_the_command_of_a_nested_choice_gives_that_choice_again() -> None:
    words = (
        "extension=yarn_fine_tuned",
        "extension@extension.extension=llama3",
        "extension.steps=0.2",
    )
    first = identity(*words)
    again = identity(*first.command(0).words)
    assert again.method == first.method


def changed_by(word: str) -> set[str]:
    """The parts of a run that get another name, and with it another hash, from a setting."""
    plain, other = identity("method=rope"), identity("method=rope", word)
    parts = ("protocol", "task", "method")
    found = {part for part in parts if getattr(plain, part).hash != getattr(other, part).hash}
    for part in parts:
        names = getattr(plain, part), getattr(other, part)
        assert (names[0].slug != names[1].slug) == (part in found)
        assert (names[0].label != names[1].label) == (part in found)
    return found


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("model.width=32", "protocol"),
        ("training.batch_size=7", "protocol"),
        ("training.length_scale=2.5", "protocol"),
        ("evaluation.num_samples=7", "protocol"),
        ("evaluation.multiples=[1,3]", "protocol"),
        ("evaluation.ladder=[20]", "protocol"),
        ("evaluation.longest=9", "protocol"),
        ("evaluation.decoding=greedy", "protocol"),
        ("task.key_length=2", "task"),
        ("training.min_length=5", "task"),
        ("training.max_length=20", "task"),
        ("training.steps=7", "task"),
        ("encoding.base=500", "method"),
        ("model.qk_norm=true", "method"),
        ("model.output_gate=true", "method"),
        ("model.short_conv=3", "method"),
    ],
)
def test_runs_that_differ_in_a_setting_are_not_averaged(word: str, part: str) -> None:
    """They are told apart by the hash of the part that the setting belongs to, and by it alone."""
    assert changed_by(word) == {part}


@pytest.mark.parametrize("word", ["seed=3", "trainer.checkpoint_every=7", "results_dir=elsewhere"])
def test_what_changes_no_result_changes_no_name(word: str) -> None:
    assert changed_by(word) == set()


# -- what a method asks of the model ---------------------------------------------------------------


def test_a_method_that_asks_something_of_the_model_stays_on_the_board_of_its_protocol() -> None:
    plain, asking = identity("method=rope"), identity("method=rope_qk_norm")
    assert asking.protocol == plain.protocol and asking.task == plain.task
    assert asking.method.changed == () and asking.method.hash != plain.method.hash
    assert (plain.method.base, asking.method.base) == ("rope", "rope-qk_norm")
    assert methods()["rope_qk_norm"].base == asking.method.base


def test_what_is_off_is_no_part_of_a_method() -> None:
    """Methods without such settings have the hash that they had before there were any."""
    parts = compose("method=rope_ntk").content
    content = {name: without_places(parts[name]) for name in ("encoding", "extension")}
    assert identity("method=rope_ntk").method.hash == content_hash(content)
    off = ("model.qk_norm=false", "model.output_gate=false", "model.short_conv=0")
    assert identity("method=rope_ntk", *off) == identity("method=rope_ntk")


def test_a_setting_that_is_turned_off_is_told() -> None:
    found = identity("method=fox_pro", "model.output_gate=false").method
    assert found.label == "fox_pro (model.output_gate=false)" and found.base == "fox_pro-qk_norm"
    assert found.encoding_changed == ("model.output_gate=false",)


def test_the_same_settings_make_the_same_method_however_they_are_chosen() -> None:
    row, by_hand = identity("method=rope_qk_norm"), identity("method=rope", "model.qk_norm=true")
    assert (row.method, row.words) == (by_hand.method, by_hand.words)


@pytest.mark.parametrize("text", ["a, ü", "it's", "1", "null", "plain", "[a"])
def test_a_text_of_a_class_of_ones_own_is_repeated_by_the_words_of_its_record(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding/decay.yaml").write_text("_target_: decay.Decay\nkind: other\n")
    with composing(tmp_path):
        given = f"encoding.kind={quoted(text)}"
        words = identify(compose("protocol=smoke", "encoding=decay", given)).words
        assert compose(*words).content["encoding"]["kind"] == text


def test_an_encoding_of_ones_own_does_not_go_by_the_name_of_a_method(tmp_path: Path) -> None:
    """The records of two runs by one name would take each other's place."""
    for group in ("encoding", "method"):
        (tmp_path / group).mkdir()
    for name in ("rope_yarn", "decay", "plain"):
        (tmp_path / f"encoding/{name}.yaml").write_text("_target_: decay.Decay\nrate: 0.1\n")
    method = "# @package _global_\ndefaults: [override /encoding: {}, override /extension: {}]\n"
    (tmp_path / "method/decay.yaml").write_text(method.format("decay", "log_n"))
    (tmp_path / "method/plain.yaml").write_text(method.format("plain", "direct"))
    with composing(tmp_path):
        names = {
            encoding: identify(compose("protocol=smoke", f"encoding={encoding}"))
            for encoding in ("rope_yarn", "decay", "plain")
        }
    assert {encoding: found.method.label for encoding, found in names.items()} == {
        "rope_yarn": "rope_yarn+direct",
        "decay": "decay+direct",
        "plain": "plain",
    }
    assert "encoding=rope_yarn extension=direct" in str(names["rope_yarn"].command(0))
    assert "method=plain" in names["plain"].words


def test_a_method_of_ones_own_is_found_by_all_that_it_asks(tmp_path: Path) -> None:
    """Two rows of one encoding differ in what they ask of the model alone."""
    text = (
        "# @package _global_\n"
        "defaults: [override /encoding: rope, override /extension: direct]\n"
        "model: {short_conv: SIZE}\n"
    )
    (tmp_path / "method").mkdir()
    for name, size in (("a_short", "3"), ("b_shorter", "2")):
        (tmp_path / f"method/{name}.yaml").write_text(text.replace("SIZE", size))
    with composing(tmp_path):
        assert identity("method=rope", "model.short_conv=2").method.name == "b_shorter"
        assert identity("method=b_shorter").method.changed == ()
        # A file beside them that Hydra alone can read stops no other run.
        other = text.replace("override /encoding: rope", "override /encoding: rope.yaml")
        (tmp_path / "method/c_other.yaml").write_text(other.replace("SIZE", "5"))
    with composing(tmp_path):
        assert identity("method=rope", "model.short_conv=7").method.name == "rope"


@pytest.mark.parametrize(
    "words",
    [
        ("method=fox_pro",),
        ("method=rope_qk_norm", "extension=pi"),
        ("method=fox_pro", "model.output_gate=false"),
        ("method=alibi", "model.short_conv=3"),
    ],
)
def test_the_command_of_a_method_with_settings_of_the_model_gives_it_again(
    words: tuple[str, ...],
) -> None:
    first = identity(*words)
    again = identity(*first.command(0).words)
    assert again.method == first.method


# -- one number, one form --------------------------------------------------------------------------


ONE_FORM = [
    ("method=rope training.gradient_clip=1", "method=rope"),
    ("method=rope training.gradient_clip=1.0", "method=rope"),
    ("method=rope evaluation.longest=8.0", "method=rope"),
    ("method=rope model.dropout=0.0", "method=rope"),
    ("method=rope model.dropout=-0.0", "method=rope"),
    ("method=rope_yarn extension.beta_slow=1.0", "method=rope_yarn"),
    ("method=rope encoding.base=10000.0", "method=rope"),
    ("method=rope encoding.base=500.0", "method=rope encoding.base=500"),
    ("method=rope encoding.base=5e2", "method=rope encoding.base=500"),
    ("method=rope_pi extension.scale=2.0", "method=rope_pi extension.scale=2"),
    ("method=rope training.learning_rate=[0.003]", "method=rope"),
    ("method=rope training.learning_rate=[1e-3]", "method=rope training.learning_rate=0.001"),
    (
        "method=rope training.learning_rate=[3e-3,1e-3]",
        "method=rope training.learning_rate=[0.001,0.003]",
    ),
    ("method=rope training.steps=1_000", "method=rope training.steps=1000"),
    ("method=rope evaluation.multiples=[8,1,2]", "method=rope evaluation.multiples=[1,2.0,8]"),
    ("method=rope evaluation.multiples=[8,6,4,3,2,1.5,1.25,1.0]", "method=rope"),
]


@pytest.mark.parametrize(("words", "same"), ONE_FORM, ids=[words for words, _ in ONE_FORM])
def test_a_number_has_one_name_one_path_and_one_hash_however_it_is_written(
    words: str, same: str
) -> None:
    one, other = (RunSpec.of(compose(*each.split())) for each in (words, same))
    assert one.identity == other.identity
    assert (one.path, one.fingerprint) == (other.path, other.fingerprint)
    # JSON tells 1 and 1.0 apart, as `==` does not: of this the hashes of trainings are made.
    sections = [
        json.dumps({name: each.composed.content[name] for name in SECTIONS})
        for each in (one, other)
    ]
    assert sections[0] == sections[1]


def test_a_number_that_differs_in_value_is_named() -> None:
    found = identity("method=rope", "training.gradient_clip=2.0", "encoding.base=500.5")
    assert found.protocol.label == "cpu (training.gradient_clip=2)"
    assert found.method.label == "rope (encoding.base=500.5)"
    assert found.protocol.hash == identity("training.gradient_clip=2").protocol.hash


def test_a_command_in_another_form_is_repeated_in_the_form_of_its_record() -> None:
    found = identity("method=rope", "encoding.base=500.0", "evaluation.multiples=[2.0,1]")
    assert set(found.words) > {"evaluation.multiples=[1, 2]", "encoding.base=500"}


def test_a_fraction_where_an_integer_is_meant_stays_to_be_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.steps must be an integer"):
        checked(RunSpec.of(compose("training.steps=1e3")).composed.cfg())


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    "setting",
    [
        "method=rope_ntk extension.scale={}",
        "encoding.base={}",
        "training.weight_decay={}",
        "training.learning_rate=[1e-3,{}]",
        "evaluation.multiples=[1,{}]",
        "evaluation.ladder=[16,{}]",
        "model.embedding_std={}",
        "task.num_symbols={}",
        "method=rope_longrope extension.long_factors=[1,{}]",
    ],
)
def test_what_is_infinite_or_no_number_is_refused_wherever_it_stands(
    setting: str, number: str
) -> None:
    words = setting.format(number).split()
    place = words[-1].partition("=")[0]
    with pytest.raises(ConfigError, match=rf"{place}(\.1)? must be a finite number, got -?\w+"):
        compose(*words)


def test_a_file_of_ones_own_cannot_hold_what_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "encoding").mkdir()
    text = "_target_: posbench.encodings.rope.RoPE\nhead_width: 32\nbase: .inf\nlayout: half\n"
    (tmp_path / "encoding/mine.yaml").write_text(text)
    with composing(tmp_path), pytest.raises(ConfigError, match=r"encoding\.base must be a finite"):
        compose("encoding=mine")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("model.qk_norm=1", r"model\.qk_norm must be a valid boolean, got 1"),
        ("force=1", r"force must be a valid boolean, got 1"),
        ("force=no", r"force must be a valid boolean, got 'no'"),
        ("model.dropout=true", r"model\.dropout must be a number, got true"),
        ("model.width=true", r"model\.width must be a number, got true"),
        ("training.steps='1000'", r"training\.steps must be a number, not a text"),
        ("training.learning_rate='1e-3'", r"training\.learning_rate must be positive"),
        ("seed='3'", r"seed must be a number, not a text"),
    ],
)
def test_only_a_number_is_a_number_and_only_true_is_true(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked(compose(word).cfg())
