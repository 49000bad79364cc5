"""What the command line answers: one sentence for a mistake, help without torch, a run that says
what it does, and a name and a folder for whatever was changed.

A run that has to be `python -m posbench` itself is a subprocess; the others are forked from a
process that has torch imported already.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from offered import CONF
from processes import finished, record, succeeded

from posbench import cli
from posbench.config.folders import own_names
from posbench.records.record import Record
from posbench.sharing.agreement import comparable

Answered = Callable[..., tuple[int | None, str, str]]
GROUPS = ("method", "encoding", "extension", "task", "protocol", "experiment", "board")


def command(
    folder: Path, *arguments: str, module: str = "posbench", without: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE ARGUMENTS`, on request where a package cannot be imported."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("HYDRA_", "WANDB_"))
    }
    if without:
        stubs = folder / f"without_{without}"
        stubs.mkdir(parents=True, exist_ok=True)
        # Not an ImportError for torch: nobody may try it and go on.
        error = "SystemExit" if without == "torch" else "ImportError"
        (stubs / f"{without}.py").write_text(f"raise {error}('{without} was imported')\n")
        earlier = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(stubs), *([earlier] if earlier else [])])
    words = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def sentence(status: int | None, out: str, err: str) -> str:
    """The only thing a mistake prints."""
    assert status == 1, out + err
    assert out == ""
    assert err.startswith("posbench: ") and err.endswith("\n") and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


def offered(text: str, group: str) -> set[str]:
    """What `--help` lists of a group."""
    (block,) = re.findall(rf"^{group}: .*\n((?:  .*\n)+)", text, re.M)
    return set(re.split(r",?\s+", block.strip()))


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mistake_ends_the_command_without_torch(tmp_path: Path) -> None:
    answer = command(tmp_path, "method=ropee", without="torch")
    said = sentence(answer.returncode, answer.stdout, answer.stderr)
    assert "method=ropee is unknown: did you mean rope?" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("word", ["protocol=smoke", pytest.param("board", marks=pytest.mark.slow)])
def test_the_folder_above_a_clone_is_refused(tmp_path: Path, word: str) -> None:
    """There the clone itself goes for the package, and hashes of source would lack some of it."""
    (tmp_path / "posbench").mkdir()
    seen = [sys.executable, "-c", "import posbench; print(posbench.__file__)"]
    found = subprocess.run(seen, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    if found.strip() != "None":
        pytest.skip("posbench is installed where every folder finds it")
    answer = command(tmp_path, word)
    said = sentence(answer.returncode, answer.stdout, answer.stderr)
    assert f"the folder {tmp_path / 'posbench'} hides the package" in said
    assert not (tmp_path / "results").exists()


RUNS = ("run", "sweep")
HELP, SETTINGS = "python -m posbench --help", "python -m posbench --cfg job"
MISTAKES = [  # the command, what the answer names of it, and what would do
    ("protocol=cpuu", "protocol=cpuu", "cpu?"),
    ("logger=wandbb", "logger=wandbb", ", ".join(own_names("logger"))),
    ("method=rope_ntkk", "method=rope_ntkk", f"rope_ntk? `{HELP}`"),
    ("task=pass_key", "task=pass_key", f"passkey? `{HELP}`"),
    ("task=copié", "task=copié", "copy?"),
    ("extension=zzzz", "extension=zzzz", HELP),
    ("encoding=null", "encoding=null", HELP),
    ("-m method=rope,alibii", "method=alibii", "alibi?"),
    ("-m method=glob(zz*)", "method=glob(zz*)", HELP),
    ("method=[rope,alibi]", "method=[rope,alibi]", "-m method=rope,alibi"),
    ("~task", "~task", "task=NAME"),
    ("~encoding", "~encoding", "encoding=NAME"),
    ("+method=rope", "+method=rope", "write method=rope"),
    ("=3", "=3", "key=value"),
    ("rope", "rope is", "method=rope or encoding=rope"),
    ("ropy", "'ropy'", "key=value"),
    ("metod=rope", "metod", f"method? `{SETTINGS}`"),
    ("sede=1", "sede", SETTINGS),
    ("steps=10", "steps", f"training.steps? `{SETTINGS}`"),
    ("trainng.steps=10", "trainng.steps", "training.steps?"),
    ("+training.stpes=10", "training.stpes", "training.steps?"),
    ("+trainer.lrr=3", "trainer.lrr", "accelerator, threads, checkpoint_every"),
    ("+encoding.foo=1", "'foo'", "head_width, base, layout"),
    ("task.vocab_size=0", "task.vocab_size", "key_length, num_symbols, num_filler"),
    ("method=rope_ntk extension.scal=4", "extension.scal ", "extension.scale?"),
    ("method=rope extension.scale=4", "extension.scale", "extension=NAME"),
    ("-m method=rope,alibi extension.scale=4", "extension.scale", "extension=NAME"),
    ("method=ssmax encoding@encoding.hots=alibi", "encoding.hots", "encoding@encoding.host?"),
    ("method=ssmax encoding.host=alibi", "'alibi'", "encoding@encoding.host=alibi"),
    ("method=ssmax encoding.host.base=ten", "encoding.host.base", "a number"),
    ("method=alibi extension=ntk", "ntk cannot extend encoding alibi", "rope, "),
    ("~training.steps", "training.steps", "leave out ~training.steps"),
    ("~training", "training", "leave out ~training"),
    ("~training.foo", "training.foo", SETTINGS),
    ("training=5", "training=5", "one setting of it"),
    ("training.steps=1e3", "training.steps", "without a point or an exponent"),
    ("training.steps=null", "training.steps", "a valid integer"),
    ("training.stop_at=never", "'never'", "a valid number"),
    ("training.precision=half", "'half'", "32-true"),
    ("training.learning_rate=-1", "-1", "must be positive"),
    ("training.learning_rate=nan", "training.learning_rate", "finite"),
    ("evaluation.multiples=2", "evaluation.multiples", "a valid list"),
    ("evaluation.multiples=[a]", "evaluation.multiples.0", "a valid number"),
    ("evaluation.multiples=[2]", "evaluation.multiples", "must contain 1"),
    ("evaluation.longest=4", "evaluation.longest=4", "raise it to 8"),
    ("evaluation.ladder=[8]", "evaluation.ladder=[8.0]", "above evaluation.longest=8"),
    ("force=maybe", "'maybe'", "a valid boolean"),
    ("seed=abc", "'abc'", "a valid integer"),
    ("seed=0,1", "seed=0,1", "posbench sweep makes a run of each"),
    ("seed=[1,2]", "[1, 2]", "seed=1,2 or 'seed=range(3)'"),
    ("-m seed=1-3", "'1-3'", "seed=1,2 or 'seed=range(3)'"),
    ("plan_only=true", "plan_only=true", "begin with posbench sweep"),
    ("part=encodings", "part=encodings", "write posbench sweep board=NAME part=encodings"),
    ("trainer.replicas=0", "trainer.replicas", "greater than or equal to 1"),
    ("trainer.accelerator=tpu", "trainer.accelerator", "'auto', 'cpu', 'gpu'"),
    ("model.head_width=0", "model.head_width", "greater than or equal to 1"),
    ("task.num_symbols=0", "task.num_symbols", "at least 2"),
    ("task.num_symbols=2.5", "2.5", "integer"),
    ("encoding.base=ten", "'ten'", "number"),
    ("encoding.layout=other", "'other'", "half, interleaved"),
    ("method=rope_ntk extension.scale=0.5", "0.5", "at least 1"),
    ("method=rope_ntk extension.scale=four", "'four'", "a number or null"),
    ("results_dir=/proc/nowhere", "/proc/nowhere", "name another folder"),
    ("results_dir=2024", "results_dir=2024", "write ./ before a name"),
    ("-m results_dir=null seed=0,1", "results_dir=null", "write ./ before a name"),
    ("results_dir=out/${seed}", "results_dir=out/${seed}", "write the name itself"),
    ("encoding.base=100000000000000000000", "encoding.base", "as 1e20"),
    ("encoding.base=${positions:a}", "encoding.base: ${positions:a}", "${positions:share,at_most}"),
    ("encoding.base=${turns:}", "encoding.base: ${turns:}", "as ${turns:share}"),
    ("encoding.base=${steepness:0}", "encoding.base: ${steepness:0}", "as ${steepness:bias}"),
    ("job=null", "job is filled in by a sweep", "leave it out"),
    ("job.runs=3", "job is filled in by a sweep", "leave it out"),
    ("method=rope encoding@encoding.host=t5", "nothing here has a part", "leave it out"),
    ("method=ssmax encoding@encoding.host=rope_nope", "encoding.host", "encoding@encoding.host="),
    ("-m hydra.launcher.n_jobs=2 seed=0,1", "hydra.launcher.n_jobs", "hydra/launcher=cores"),
    ("--config-dir a --config-dir b encoding=x", "2 folders", "put your files into one"),
    ("--config-dir nowhere encoding=x", "nowhere", "a folder: give one"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "named", "legal"), MISTAKES, ids=[each[0] for each in MISTAKES])
def test_a_mistake_is_one_sentence_that_names_it_and_what_is_legal(
    words: str, named: str, legal: str, answered: Answered, tmp_path: Path
) -> None:
    said = sentence(*answered(*words.split()))
    assert named in said and legal in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("swep method=rope", "swep is no command: did you mean sweep? `posbench --help` lists"),
        ("bases", "bases is no key=value: write board=bases"),
        ("encoding=yarn", "encoding=yarn is unknown: did you mean extension=yarn?"),
        ("--config-dir mine method=own", "method=own is unknown: did you mean encoding=own?"),
        ("records zo", "zo is unknown: did you mean zoo? Choose one of publish, "),
    ],
)
def test_a_name_in_the_wrong_place_is_named_in_the_right_one(
    words: str, said: str, tmp_path: Path, answered: Answered
) -> None:
    file = tmp_path / "mine/encoding/own.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("_target_: posbench.encodings.nope.NoPE\n")
    assert said in sentence(*answered(*words.split()))


@pytest.mark.slow
@pytest.mark.parametrize("words", [("encoding=my_own",), ("-m", "encoding=my_own,rope")])
def test_a_file_of_ones_own_whose_folder_was_not_named_is_pointed_to(
    words: tuple[str, ...], answered: Answered, tmp_path: Path
) -> None:
    answer = sentence(*answered(*words))
    assert answer.endswith("; a file of your own is found with --config-dir FOLDER\n")
    (tmp_path / "mine/encoding").mkdir(parents=True)
    (tmp_path / "mine/encoding/my_own.yaml").touch()
    found = "my_own is unknown: mine/encoding/my_own.yaml is found with --config-dir mine\n"
    assert sentence(*answered(*words)).endswith(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("_target_: nowhere_at_all.Mine", "cannot be imported, No module named 'nowhere_at_all'"),
        ("_target_: my_module.Mine", "my_module.py has nothing, it is empty): correct _target_"),
        ("_target_: my_wreck.Mine", "cannot be imported: ModuleNotFoundError in "),
        ("_target_: Mine", "_target_ Mine names no class: write MODULE.CLASS, as decay.Square"),
        ("strength: 1", "encoding has no _target_: name the class"),
        ("encoding: {_target_: my_module.Mine}", "add '# @package _global_' as its first line"),
        ("strength: [1", "mine.yaml cannot be read: expected ',' or ']'"),
    ],
)
def test_a_file_of_ones_own_that_makes_no_object_is_one_sentence(
    content: str, said: str, tmp_path: Path, answered: Answered
) -> None:
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding/mine.yaml").write_text(content + "\n")
    (tmp_path / "my_module.py").touch()
    (tmp_path / "my_wreck.py").write_text("import nowhere_at_all\n")
    assert said in sentence(*answered("--config-dir", str(tmp_path), "encoding=mine"))


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["steps", "min_length"])
def test_what_the_yaml_of_a_task_lacks_is_said_with_what_to_add_where(
    missing: str, tmp_path: Path, answered: Answered
) -> None:
    (tmp_path / "task").mkdir()
    settings = {"min_length": 1, "max_length": 20, "steps": 4000}
    lines = [f"  {key}: {value}" for key, value in settings.items() if key != missing]
    text = "\n".join(["# @package _global_", "training:", *lines, ""])
    (tmp_path / "task/kth.yaml").write_text(text)
    said = sentence(*answered("--config-dir", str(tmp_path), "task=kth"))
    assert f"training.{missing} " in said and f"`{missing}: {settings[missing]}`" in said
    assert "task/kth.yaml" in said and "'# @package _global_'" in said


def test_a_yml_of_ones_own_is_named_where_its_yaml_is_chosen(
    tmp_path: Path, answered: Answered
) -> None:
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding/mine.yml").write_text("_target_: my_module.Mine\n")
    said = sentence(*answered("--config-dir", str(tmp_path), "encoding=mine"))
    assert f"{tmp_path}/encoding/mine.yml is not found, because Hydra reads *.yaml alone" in said
    assert said.endswith(": rename it to mine.yaml\n")


@pytest.mark.slow
def test_a_choice_in_a_folder_of_its_own_is_refused_as_its_name_is_no_name_of_a_file(
    tmp_path: Path, answered: Answered
) -> None:
    (tmp_path / "encoding/deep").mkdir(parents=True)
    (tmp_path / "encoding/deep/mine.yaml").write_text("_target_: posbench.encodings.nope.NoPE\n")
    said = sentence(*answered("--config-dir", str(tmp_path), "encoding=deep/mine"))
    assert said.startswith("posbench: 'deep/mine' cannot be the name of a file")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_protocol_for_a_gpu_is_refused_without_one(tmp_path: Path) -> None:
    answer = finished(tmp_path, "protocol=gpu")
    said = sentence(answer.status, answer.out, answer.err)
    assert "GPU" in said and "protocol=cpu" in said


# -- without torch ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_help_lists_everything_in_conf_and_does_not_import_torch(tmp_path: Path) -> None:
    answer = command(tmp_path, "--help", without="torch")
    assert (answer.returncode, answer.stderr) == (0, "")
    for group in GROUPS:
        assert set(own_names(group)) == offered(answer.stdout, group)
    for command_of_its_own in cli.COMMANDS:
        assert command_of_its_own in RUNS or f"\nposbench {command_of_its_own} " in answer.stdout
    _, found, chosen = answer.stdout.partition("== What can be chosen")
    assert found and max(map(len, chosen.splitlines())) < 110 and "$" not in answer.stdout
    assert {
        path.name for path in CONF.iterdir() if path.is_dir() and list(path.glob("*.yaml"))
    } <= {*GROUPS, "logger"}


@pytest.mark.slow
def test_printing_the_settings_does_not_import_torch(tmp_path: Path) -> None:
    answer = command(tmp_path, "--cfg", "job", without="torch")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "num_symbols" in answer.stdout and "learning_rate" in answer.stdout


# -- a run, again, by force, and with another method -----------------------------------------------


@dataclass
class Told:
    out: str
    written: float  # when the record was
    record: dict


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Told]]:
    """`method=rope_ntk` for the first time, again and by force; then the method without
    extension.
    """
    folder = tmp_path_factory.mktemp("smoke")
    path = folder / "results/local/records/smoke/passkey/rope_ntk/seed=0.json"
    told = {}
    for name, words in (
        ("first", ["method=rope_ntk"]),
        ("again", ["method=rope_ntk"]),
        ("force", ["method=rope_ntk", "force=true"]),
        ("rope", ["method=rope"]),
    ):
        out = succeeded(folder, "protocol=smoke", *words).out
        told[name] = Told(out, path.stat().st_mtime_ns, json.loads(path.read_text()))
    return folder, told


Smoke = tuple[Path, dict[str, Told]]


@pytest.mark.slow
def test_a_run_announces_itself_in_one_line_and_ends_with_the_table_and_the_next_command(
    smoke: Smoke,
) -> None:
    lines = smoke[1]["first"].out.splitlines()
    path = "results/local/records/smoke/passkey/rope_ntk/seed=0.json"
    assert (
        lines[0] == f"posbench: rope_ntk on passkey, protocol smoke, seed 0, on cpu; record: {path}"
    )
    (title,) = (index for index, line in enumerate(lines) if line == "sequence accuracy on passkey")
    assert all(line.startswith("  step ") for line in lines[1:title]), (
        "only progress before the table"
    )
    heading = [cell.strip() for cell in lines[title + 2].strip("┃").split("┃")]
    assert heading == ["length", "n", "tokens", "rope_ntk", "rope (same weights)", "gained"]
    assert sum(line.startswith("│") for line in lines) == 8
    assert lines[-3].endswith(f"Record: {path}")
    assert lines[-2] == "Leaderboard: posbench board"
    assert lines[-1].endswith("its accuracies mean nothing.")
    assert lines[-4].startswith("Area from 1x to 8x, corrected for chance: rope_ntk ")
    assert lines[-5].startswith("The gate of the task is 0.95 at 1x: ")
    assert lines[-6].startswith("└")


def scores(out: str) -> str:
    """The table in what a run has said, and what it comes to."""
    return out[out.find("sequence accuracy on passkey") : out.rfind("x).")]


def test_a_complete_run_is_not_repeated_and_shows_its_scores_again(smoke: Smoke) -> None:
    _, told = smoke
    assert told["again"].out.startswith("Complete already: ") and "force=true" in told["again"].out
    assert scores(told["again"].out) == scores(told["first"].out) != ""
    assert told["again"].written == told["first"].written


def test_force_repeats_the_run_and_gives_the_same_record(smoke: Smoke) -> None:
    _, told = smoke
    assert "step 20/20" in told["force"].out
    assert told["force"].written > told["first"].written
    records = [Record.model_validate(told[name].record) for name in ("force", "first")]
    assert comparable(records[0]) == comparable(records[1])
    assert records[0].training.hash == records[1].training.hash


def test_methods_that_differ_in_the_extension_share_their_weights(smoke: Smoke) -> None:
    folder, told = smoke
    assert "the weights are shared" in told["rope"].out and "step " not in told["rope"].out
    assert "same weights)" not in told["rope"].out, (
        "nothing to compare a method without extension with"
    )
    assert len(list((folder / "results/local/checkpoints").iterdir())) == 1
    assert record(folder, "rope")["training"] == record(folder, "rope_ntk")["training"]


@pytest.mark.slow
def test_the_leaderboard_needs_no_torch(smoke: Smoke) -> None:
    answer = command(smoke[0], "board", without="torch")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "rope_ntk" in answer.stdout
    assert all(
        (smoke[0] / "results/local" / f"leaderboard.{ending}").exists()
        for ending in ("md", "html", "csv")
    )


def test_nothing_is_written_outside_the_results(smoke: Smoke) -> None:
    of_tests = {"command.out", "command.err", "without_torch"}
    assert {path.name for path in smoke[0].iterdir()} - of_tests == {"results"}
    assert [path.name for path in (smoke[0] / "results").iterdir()] == ["local"]


# -- settings, sweeps, a method of one's own -------------------------------------------------------


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("changed")
    said = {
        name: succeeded(folder, "protocol=smoke", "method=rope", override).out
        for name, override in (("base", "encoding.base=500"), ("yarn", "extension=yarn"))
    }
    return folder, said


def test_a_changed_setting_is_part_of_the_name_and_has_a_folder_of_its_own(
    changed: tuple[Path, dict],
) -> None:
    folder, said = changed
    assert said["base"].startswith("posbench: rope (encoding.base=500) on passkey, ")
    (path,) = folder.glob("results/local/records/smoke/passkey/rope-*/seed=0.json")
    content = json.loads(path.read_text())
    assert (content["method"]["name"], content["method"]["changed"]) == (
        "rope",
        ["encoding.base=500"],
    )
    assert "method=rope encoding.base=500" in content["command"]
    assert len(list((folder / "results/local/checkpoints").iterdir())) == 2, (
        "other weights than with another base"
    )


def test_an_extension_can_be_chosen_for_a_method(changed: tuple[Path, dict]) -> None:
    folder, said = changed
    assert "rope (same weights)" in said["yarn"]
    path = (
        folder / "results/local/records/smoke/passkey/rope_yarn/seed=0.json"
    )  # the row that composes the same pair
    content = json.loads(path.read_text())
    assert (content["method"]["name"], content["method"]["changed"]) == ("rope_yarn", [])
    assert (content["method"]["encoding"], content["method"]["extension"]) == ("rope", "yarn")


def test_the_recorded_command_repeats_the_run(changed: tuple[Path, dict]) -> None:
    folder, _ = changed
    for path in folder.glob("results/local/records/smoke/passkey/*/seed=0.json"):
        words = json.loads(path.read_text())["command"].split()
        assert words[:3] == ["python", "-m", "posbench"]
        again = succeeded(folder, *words[3:])
        assert again.out.startswith(f"Complete already: {path.relative_to(folder)} ")


def test_a_sweep_with_one_illegal_run_does_the_others_and_names_it(tmp_path: Path) -> None:
    sweep = finished(tmp_path, "-m", "protocol=smoke", "method=alibi,rope", "extension=pi")
    assert (sweep.status, sweep.err) == (0, "")
    assert "alibi+pi, not on passkey: the extension cannot extend it: PI needs freq" in sweep.out
    (path,) = (tmp_path / "results").rglob("seed=0.json")
    assert json.loads(path.read_text())["method"]["encoding"] == "rope"


def test_a_sweep_of_nothing_but_illegal_runs_is_a_mistake(tmp_path: Path) -> None:
    sweep = finished(tmp_path, "-m", "protocol=smoke", "method=alibi,nope", "extension=pi")
    assert sweep.status == 1
    assert sweep.err == "posbench: none of these methods applies to any of these tasks\n"


@pytest.fixture
def my_conf(tmp_path: Path) -> Path:
    folder = tmp_path / "my_conf"
    for name, text in (
        (
            "mine_encoding.py",
            "from posbench.core.encoding import PositionEncoding\n\n\n"
            "class Mine(PositionEncoding):\n"
            "    def __init__(self, strength: float) -> None:\n"
            "        super().__init__()\n"
            "        self.strength = strength\n\n"
            "    def embed(self, x, pos):\n"
            "        return x + self.strength * pos[..., None].to(x.dtype).sin()\n",
        ),
        ("encoding/mine.yaml", "_target_: mine_encoding.Mine\nstrength: 0.5\n"),
        (
            "method/mine.yaml",
            "# @package _global_\ndefaults:\n  - override /encoding: mine\n  - override "
            "/extension: direct\n",
        ),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.slow
def test_an_encoding_of_ones_own_runs_from_its_folder_and_wandb_is_not_needed(
    tmp_path: Path, my_conf: Path
) -> None:
    words = ["--config-dir", my_conf.name, "protocol=smoke", "method=mine", "logger=csv"]
    answer = command(tmp_path, *words, without="wandb")
    assert (answer.returncode, answer.stderr) == (0, ""), answer.stderr
    assert answer.stdout.startswith("posbench: mine on passkey, protocol smoke, ")
    assert record(tmp_path, "mine")["method"]["name"] == "mine"


@pytest.mark.slow
def test_an_encoding_of_ones_own_is_listed_beside_the_others(tmp_path: Path, my_conf: Path) -> None:
    answer = command(tmp_path, "--config-dir", my_conf.name, "--help", without="torch")
    assert answer.returncode == 0
    assert offered(answer.stdout, "method") == {*own_names("method"), "mine"}
