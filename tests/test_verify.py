"""Published numbers are made again by their commands: what is the same is exact, what is not is
named, and records of earlier code are carried over only where a sample of their stratum agrees.

A few runs of seconds, made once for all tests; each test publishes those that it needs.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import audits_of, changed, record, save

from posbench.base.errors import PosbenchError
from posbench.boards import command as leaderboard
from posbench.config import provenance
from posbench.config.compose import compose, composing
from posbench.config.record_command import Command
from posbench.records import files, published
from posbench.records.record import Audit, Record
from posbench.running.console import Console
from posbench.running.run import train_and_record
from posbench.running.run_spec import RunSpec
from posbench.sharing import bundle
from posbench.sharing.command import main as results_command
from posbench.sharing.verify import (
    OF_ANOTHER_CPU,
    Kind,
    Repeater,
    Repetition,
    Today,
    Verdict,
    differences,
    restamp,
    verify,
)

ROOT = Path(__file__).parents[1]
SMALL = ("protocol=smoke", "task=copy_small", "training.steps=4", "training.validate_every=2")
METHODS = ("rope", "rope_pi", "alibi")
OLD = "0123456789abcdef"


def made(folder: Path, *words: str) -> None:
    """The run of `python -m posbench WORDS`, in this process."""
    with composing():
        composed = compose(*SMALL, *words).but(results_dir=str(folder), logger={})
        train_and_record(RunSpec.of(composed), Console())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of one's own, with the weights that repeating a run would find there."""
    folder = tmp_path_factory.mktemp("own")
    for method in METHODS:
        made(folder, f"method={method}")
    return folder


@pytest.fixture
def scratch(own: Path, tmp_path: Path) -> Path:
    """A folder to repeat runs in, where their trainings are made already but no records are."""
    shutil.copytree(own / "checkpoints", tmp_path / "scratch" / "checkpoints")
    return tmp_path / "scratch"


@pytest.fixture
def folder(own: Path, tmp_path: Path) -> Path:
    """All of them, published."""
    published.publish(files.records(own), [], tmp_path / "all")
    return tmp_path / "all"


@pytest.fixture(scope="module")
def repeated(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the run of alibi has been repeated; to look at, not to write to."""
    folder = tmp_path_factory.mktemp("repeated")
    shutil.copytree(own / "checkpoints", folder / "checkpoints")
    made(folder, "method=alibi")
    return folder


Repeat = Callable[[dict[str, Any]], tuple[Repetition, str]]


@pytest.fixture
def repeat(own: Path, repeated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Repeat:
    """Repeats the record of alibi as if it said other values: what came of it, and was printed."""

    def seen(values: dict[str, Any]) -> tuple[Repetition, str]:
        published.publish([changed(by_method(own)["alibi"], values)], [], tmp_path / "all")
        capsys.readouterr()
        return verify(tmp_path / "all", 1, scratch=repeated), capsys.readouterr().out

    return seen


def rewritten(folder: Path, change: Callable[[Record], Record]) -> None:
    published.write([change(each) for each in files.records(folder)], [], folder)


def of_method(name: str, values: dict[str, Any]) -> Callable[[Record], Record]:
    return lambda found: changed(found, values) if found.method.name == name else found


def by_method(folder: Path) -> dict[str, Record]:
    return {each.method.name: each for each in files.records(folder)}


def verdicts(out: str) -> dict[str, str]:
    """Method -> what was said of its repetition."""
    lines = [line for line in out.splitlines() if ": python -m posbench " in line]
    said = [line.partition(": ")[2].rpartition(": python -m posbench ") for line in lines]
    return {command.partition("method=")[2].split()[0]: verdict for verdict, _, command in said}


# -- repeating -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_published_is_made_again_exactly(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With trainings and all, by the command."""
    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl.gz")}
    assert results_command(["verify", str(folder), "--in", str(tmp_path / "a b, c=d")]) == 0
    out = capsys.readouterr().out
    assert verdicts(out) == dict.fromkeys(METHODS, "exact")
    assert "Repeating 3 of 3 records, from 3 of 3 strata." in out and "3 of 3 exact." in out
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl.gz")} == before
    capsys.readouterr()
    assert verify(folder, 12, scratch=tmp_path / "a b, c=d").agreed
    assert capsys.readouterr().out.count("Complete already") == 3, "it goes on where it stopped"


def test_a_folder_that_is_a_file_is_refused_before_a_record_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.write_text("")
    assert results_command(["verify", str(tmp_path), "--in", str(there)]) == 1
    said = capsys.readouterr()
    assert "Repeating" not in said.out and f"{there} is a file, and a folder is" in said.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rows.2.loss": 0.5}, "rows.loss.2: "),
        ({"rows.1.token_accuracy_teacher_forced": 1.0}, "rows.token_accuracy_teacher_forced.1: "),
        ({"rows.0.sequence_accuracy": 1 / 16}, "rows.sequence_accuracy.0: 0.0 was 0.0625"),
        ({"rows.0.score": 0.75}, "rows.score.0: 0.0 was 0.75"),
        ({"views.0.loss.0": 9.0}, "views.loss.0.0: "),
        ({"rows.0.num_samples": 17}, "rows.num_samples.0: 16 was 17"),
        ({"training.curve.validation_loss": [1.0, 2.0]}, "training.curve.validation_loss.0: "),
        ({"training.parameters": 7}, "training.parameters: "),
        ({"solved_step": 2}, "solved_step: None was 2"),
        ({"diverged": "the loss became nan"}, "diverged: None was the loss became nan"),
    ],
)
def test_a_number_that_was_altered_is_found_and_named(
    repeat: Repeat, values: dict[str, Any], named: str
) -> None:
    seen, out = repeat(values)
    assert not seen.agreed and "0 of 1 exact, 1 different." in out
    assert verdicts(out)["alibi"].startswith(named), out


def test_what_a_record_is_called_is_compared_with_what_its_command_makes(
    own: Path, repeat: Repeat
) -> None:
    """The numbers are those of a run of alibi, and are said to be those of something else."""
    made = by_method(own)["alibi"]
    mine = {"name": "mine", "encoding": "mine", "hash": "f" * 16}
    claims = {f"method.{name}": value for name, value in mine.items()}
    seen, out = repeat(claims | {"gate": 0.0, "seed": 7})
    assert not seen.agreed
    assert verdicts(out)["alibi"].split("; ") == [
        f"gate: {made.gate} was 0.0",
        "method.encoding: alibi was mine",
        f"method.hash: {made.method.hash} was {'f' * 16}",
        "method.name: alibi was mine",
        "seed: 0 was 7",
    ]


@pytest.mark.slow
def test_only_what_was_altered_is_said(
    folder: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(folder, of_method("rope", {"rows.0.loss": 0.5}))
    assert results_command(["verify", str(folder), "--in", str(scratch)]) == 1
    said = verdicts(capsys.readouterr().out)
    assert said.pop("rope").startswith("rows.loss.0: ") and set(said.values()) == {"exact"}


@pytest.mark.slow
def test_timings_commits_and_digits_that_are_not_kept_make_no_difference(
    folder: Path, scratch: Path
) -> None:
    other = {
        "training.cpu_seconds": 1e6,
        "training.commit": "another",
        "training.versions.numpy": "0.1",
        "evaluated.evaluation_cpu_seconds": 1e6,
        "evaluated.commit": None,
    }
    rewritten(folder, lambda each: changed(each, other))
    assert verify(folder, 12, scratch=scratch).agreed


@pytest.mark.slow
@pytest.mark.parametrize("part", ["training", "evaluated"])
def test_a_record_of_another_version_of_torch_is_not_compared(
    own: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    here = by_method(own)["rope"]
    for version, compared in (("1.4.2", False), (_other_patch(), True)):
        target = tmp_path / version
        published.publish([changed(here, {f"{part}.versions.torch": version})], [], target)
        assert verify(target, 1, scratch=scratch).agreed is compared
        said = verdicts(capsys.readouterr().out)["rope"]
        today = provenance.versions()["torch"]
        expected = f"not compared (torch {version} there, {today} here)"
        assert said == ("exact" if compared else expected)
    assert (scratch / "records").exists(), "the second was made"


def _other_patch() -> str:
    return f"{provenance.minor(provenance.versions()['torch'])}.99+other"


def test_a_record_of_another_machine_is_not_compared(
    own: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = {"training.device": "a GPU", "evaluated.device": "a GPU"}
    published.publish([changed(by_method(own)["rope"], elsewhere)], [], tmp_path / "all")
    assert not verify(tmp_path / "all", 1, scratch=scratch).agreed
    assert "not compared (made on a GPU, this is " in verdicts(capsys.readouterr().out)["rope"]


@pytest.mark.parametrize("part", ["training", "evaluated"])
def test_of_a_cpu_of_another_kind_it_is_said_by_how_much_scores_differ(
    own: Path, repeated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    """And where nothing differs, it is exact all the same."""
    made = changed(by_method(own)["alibi"], {f"{part}.cpu": "Zilog z80"})
    assert [row.score for row in made.rows] == [0.0] * 8
    published.publish([made], [], tmp_path / "same")
    assert verify(tmp_path / "same", 1, scratch=repeated).agreed
    other = changed(made, {"rows.1.score": 0.5, "rows.3.score": 0.25, "rows.2.loss": 0.5})
    published.publish([other], [], tmp_path / "other")
    capsys.readouterr()
    assert results_command(["verify", str(tmp_path / "other"), "--in", str(repeated)]) == 1
    out = capsys.readouterr().out
    assert verdicts(out)["alibi"] == (
        f"rounded otherwise (made on Zilog z80, this is {provenance.cpu()}: scores differ by .094 "
        "on average, .500 at most)"
    )
    assert "0 of 1 exact, 1 rounded otherwise." in out


@pytest.mark.slow
def test_rounding_is_no_excuse_where_all_scores_are_higher_than_here(
    own: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of eight lengths one is raised: by .40, .48 and .44 here, so by .05, .06 and .055."""
    for each, score in zip(by_method(own).values(), (0.40, 0.48, 0.44), strict=True):
        assert [row.score for row in each.rows] == [0.0] * 8
        forged = changed(each, {"training.cpu": "Zilog z80", "rows.1.score": score})
        published.publish([forged], [], tmp_path / "all")
    seen = verify(tmp_path / "all", 3, scratch=scratch)
    assert seen.higher.mean == pytest.approx(0.055)
    out = capsys.readouterr().out
    assert "Published scores are .06 ±.01 higher than those made here (mean of 3 records)" in out


@pytest.mark.parametrize(
    ("higher", "leans"),
    [
        ((0.05, 0.06, 0.055), True),
        ((-0.05, -0.06, -0.055), True),
        ((0.05, -0.06, 0.02), False),
        ((0.05, 0.06), False),  # two say nothing
        ((), False),
    ],
)
def test_differences_by_rounding_lean_where_their_interval_leaves_out_0(
    higher: tuple[float, ...], leans: bool
) -> None:
    exact = Verdict(Kind.EXACT)
    found = [exact, *(Verdict(Kind.ROUNDED, "made on another", each) for each in higher)]
    seen = Repetition({("one",): found}, len(found), [])
    assert seen.leans is seen.disagreed is leans


@pytest.mark.parametrize(
    "values",
    [
        {"gate": 0.0},
        {"seed": 7},
        {"method.encoding": "mine"},
        {"training.parameters": 7},
        {"training.settings_hash": "f00"},
        {"training.train_length": 9},
        {"training.steps": 9},
        {"training.multiplications": 9},
        {"rows.1.num_samples": 1},
        {"rows.1.multiple": 1.3},
        {"rows.1.chance": 0.25},
        {"rows.1.test_length": 999},
    ],
)
def test_no_cpu_explains_that_a_record_says_it_is_something_else(
    repeat: Repeat, values: dict[str, Any]
) -> None:
    seen, out = repeat({"training.cpu": "Zilog z80", "rows.1.score": 0.5} | values)
    assert seen.disagreed and "0 of 1 exact, 1 different." in out


def test_what_else_differs_on_another_cpu_is_named_where_the_scores_do_not(repeat: Repeat) -> None:
    _, out = repeat({"training.cpu": "Zilog z80", "rows.2.loss": 0.5})
    said = verdicts(out)["alibi"]
    assert ": the scores are the same, but not all else: rows.loss.2: " in said


@pytest.mark.parametrize("cpu", [None, provenance.cpu()])
def test_a_difference_is_put_down_to_the_cpu_only_where_it_may_be_another(
    repeat: Repeat, cpu: str | None
) -> None:
    seen, out = repeat({"training.cpu": cpu, "evaluated.cpu": cpu, "rows.2.loss": 0.5})
    assert not seen.agreed
    assert "1 different." in out and (OF_ANOTHER_CPU in out) is (cpu is None)


def test_a_record_that_does_not_name_its_cpu_is_compared(repeat: Repeat) -> None:
    assert repeat({"training.cpu": None, "evaluated.cpu": None})[0].agreed


@pytest.mark.parametrize(
    ("trained", "tested", "said"),
    [
        (64, 64, "made with 64 threads, this machine has 1 core"),
        (2, None, "trained with 2 threads and tested with 1"),
        (None, 3, "trained with 1 thread and tested with 3"),
    ],
)
def test_a_record_whose_sums_cannot_be_split_so_here_is_not_compared(
    own: Path,
    scratch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trained: int | None,
    tested: int | None,
    said: str,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    values = {"training.threads": trained, "evaluated.threads": tested}
    published.publish([changed(by_method(own)["rope"], values)], [], tmp_path / "all")
    assert not verify(tmp_path / "all", 1, scratch=scratch).agreed
    assert verdicts(capsys.readouterr().out)["rope"] == f"not compared ({said})"


@pytest.mark.parametrize("count", [None, 1, 2])
def test_a_record_is_repeated_with_as_many_threads_as_made_it(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    before = changed(
        by_method(own)["rope"], {"training.threads": count, "evaluated.threads": count}
    )
    published.publish([before], [], tmp_path / "all")
    asked: list[int] = []

    def made(spec: RunSpec, console: Console) -> None:
        asked.append(spec.composed.content["trainer"]["threads"])
        files.write(before, spec.path)

    monkeypatch.setattr("posbench.sharing.verify.train_and_record", made)
    assert verify(tmp_path / "all", 1, scratch=tmp_path / "scratch").agreed
    assert asked == [count or 1]


def test_a_record_that_was_trained_in_step_with_others_is_compared_but_for_rounding(
    repeat: Repeat,
) -> None:
    in_step = {"training.replicas": 4}
    assert repeat(in_step)[0].agreed
    seen, out = repeat(in_step | {"rows.1.score": 0.5})
    said = verdicts(out)["alibi"]
    assert seen.disagreed
    assert said.startswith("rounded otherwise (trained in step with 3 others: scores differ by ")


def test_a_record_of_before_multiplications_were_counted_is_compared_without_them(
    repeat: Repeat,
) -> None:
    assert repeat({"training.multiplications": None})[0].agreed


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (RecursionError("maximum recursion depth exceeded"), "what was given is nested too"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory does not hold"),
        (TypeError("no such thing"), "TypeError: no such thing"),
    ],
)
def test_whatever_a_command_raises_ends_its_own_record_alone(
    own: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    said: str,
) -> None:
    def made(spec: RunSpec, console: Console) -> None:
        raise raised

    monkeypatch.setattr("posbench.sharing.verify.train_and_record", made)
    seen = verify(own, 2, scratch=tmp_path / "scratch")
    assert seen.counts[Kind.FAILED] == seen.drawn == 2
    assert f": cannot be repeated ({said}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_command_that_says_nothing_any_more_is_named_and_stops_no_others(
    folder: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "python -m posbench protocol=smoke method={} seed=0"
    rewritten(folder, of_method("rope", {"command": command.format("gone")}))
    illegal = "python -m posbench protocol=smoke task=passkey encoding=nope extension=pi seed=0"
    rewritten(folder, of_method("rope_pi", {"command": illegal}))
    assert not verify(folder, 12, scratch=scratch).agreed
    lines = capsys.readouterr().out.splitlines()
    (of_nope,) = [line for line in lines if line.endswith(f": {illegal}")]
    said = verdicts("\n".join(line for line in lines if line != of_nope))
    assert said["gone"].startswith("cannot be repeated (method=gone is unknown")
    assert ": cannot be repeated (extension pi cannot extend encoding nope" in of_nope
    assert said["alibi"] == "exact" and len(said) == 2
    assert results_command(["verify", str(folder), "--in", str(scratch)]) == 1
    assert "1 of 3 exact, 2 cannot be repeated." in capsys.readouterr().out


def test_a_folder_without_records_and_a_sample_of_none_are_one_sentence(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([str(tmp_path / "none")], [str(folder), "--sample", "0"]):
        assert results_command(["verify", *words]) == 1
        error = capsys.readouterr().err
        assert error.startswith("posbench: ") and error.count("\n") == 1
    with pytest.raises(PosbenchError, match="name a folder that holds records/"):
        verify(tmp_path / "none", 1)


# -- what others have sent -------------------------------------------------------------------------

SHELL = "torch.utils.collect_env.run"


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (
            f"encoding.host={{_target_: {SHELL}, command: touch MARK}}",
            "its command holds 'encoding",
        ),
        (f"task.x=\\${{oc.decode:{SHELL}}}", "its command holds 'task.x="),
        ("encoding.base=${oc.env:SECRET}", "its command holds 'encoding.base=${oc.env:SECRET}'"),
        ("method=glob(*)", "its command holds 'method=glob(*)'"),
        ("experiment=../../x", "its command holds 'experiment=../../x'"),
        ("encoding=alibi", "its command is not as posbench writes it, which is python -m posbench"),
        ("training.steps=4", "its command is not as posbench writes it, which is python -m posb"),
        ("seed=007", "its command is not as posbench writes it, which is python -m posbench"),
    ],
)
def test_a_command_that_posbench_would_not_write_is_not_run(
    word: str,
    why: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bundle without any code, whose record would have a shell called; and a folder like it."""
    monkeypatch.setenv("SECRET", "0123456789abcdef")
    mark, scratch = tmp_path / "mark", tmp_path / "scratch"
    harm = word.replace("MARK", str(mark))

    def evil(each: Record) -> Record:
        parts = shlex.split(each.command)
        command = shlex.join([*parts, harm, f"extension.command=touch {mark}"])
        return changed(
            each,
            {"command": command if "_target_" in word else f"{each.command} {shlex.quote(harm)}"},
        )

    rewritten(folder, evil)
    path, target = tmp_path / "evil.tar.gz", tmp_path / "accepted"
    bundle.write(files.records(folder), [], None, path)
    capsys.readouterr()
    words = ["accept", str(path), "--to", str(target), "--write"]
    assert results_command(words) == 1
    out = capsys.readouterr().out
    assert "Repeating" not in out and "Nothing was written: no record was repeated.\n" in out
    assert results_command([*words, "--run-code"]) == 1
    assert results_command(["verify", str(folder), "--in", str(scratch)]) == 1
    said = capsys.readouterr()
    assert said.out.count("of 3: cannot be repeated (") == 6 and said.out.count(f"({why}") == 6
    assert "0123456789" not in said.out + said.err
    assert not mark.exists() and not target.exists() and not list(scratch.rglob("*"))


def test_what_is_repeated_is_drawn_anew_each_time_and_the_seed_is_said(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who knows what is drawn may invent all else."""
    path = tmp_path / "mine.tar.gz"
    bundle.write(files.records(own), [], None, path)
    drawn: list[int] = []

    def repeated(folder: Path, sample: int | None, seed: int, **_: Any) -> Repetition:
        drawn.append(seed)
        return Repetition({}, 3, [])

    monkeypatch.setattr("posbench.sharing.verify.verify", repeated)
    words = ["accept", str(path), "--to", str(tmp_path / "all"), "--run-code"]
    for _ in range(3):
        results_command(words)
    assert len(set(drawn)) == 3
    out = capsys.readouterr().out
    for seed in drawn:
        assert f"Drawn with --seed {seed}, which repeats this choice.\n" in out
    results_command([*words, "--seed", "7"])
    assert drawn[-1] == 7


PUBLISHED = ("main", "extensions", "replications")
COMMAND = re.compile(rb'"command":"([^"]*)"')


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_commands_of_published_records_are_as_posbench_writes_them(name: str) -> None:
    """Of all of them the words; a sample is composed."""
    packed = sorted((ROOT / "results" / name / "records").glob("*.jsonl.gz"))
    lines = [line for path in packed for line in gzip.decompress(path.read_bytes()).splitlines()]
    commands = [found.decode() for line in lines for found in COMMAND.findall(line)]
    assert len(commands) == len(lines) > 100
    for command in commands:
        Command.parse(command).refuse_others()
    for command in random.Random(0).sample(commands, 12):
        composed = compose(*Command.parse(command).words)
        assert str(RunSpec.of(composed).command) == command


@pytest.mark.slow
def test_of_a_bundle_one_of_each_method_and_task_is_repeated_whatever_code_they_share(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two bases of RoPE on two tasks are of the same classes, and one of the four is wrong. What
    the sender says of samples and audits is left out.
    """
    runs = tmp_path / "runs"
    for words in (["seed=1"], ["task.num_symbols=4"], ["encoding.base=500"]):
        made(runs, "method=rope", *words)
    forged = {"source_hash": "0", "evaluation_hash": "0", "verified": 384, "of": 384}
    there = [by_method(own)["rope"], *files.records(runs)]
    mine = [changed(each, {"carried_over": forged}) for each in there]
    path, target = tmp_path / "mine.tar.gz", tmp_path / "all"
    words = ["accept", str(path), "--to", str(target), "--run-code"]
    bundle.write(mine, audits_of(*mine), None, path)
    capsys.readouterr()
    assert results_command(words) == 0
    out = capsys.readouterr().out
    assert "Repeating 3 of 4 records, from 3 of 3 strata." in out and "None was" not in out
    missing = f"Nothing was written: --write is missing, which adds all to {target}"
    assert f"{missing} (3 of 4 records repeated)." in out
    assert results_command([*words, "--sample", "1", "--write"]) == 0
    out = capsys.readouterr().out
    (none,) = [line for line in out.splitlines() if line.startswith("None was repeated of rope")]
    assert none.count(" on copy_small") == 2, "one of the three was drawn"
    assert f"Added to {target}, with 1 of 4 records repeated: posbench board" in out
    stamps = [each.accepted for each in files.records(target)]
    assert [(each.verified, each.of) for each in stamps if each] == [(1, 4)] * 4
    assert sum(each.repeated for each in stamps if each) == 1, "and it says which"
    assert all(each.carried_over is None for each in files.records(target))
    assert not (target / "audits.jsonl").exists()
    wrong = [changed(each, {"rows.0.loss": 0.5}) if each.method.changed else each for each in mine]
    bundle.write(wrong, [], None, path)
    assert results_command([*words, "--write"]) == 1
    out = capsys.readouterr().out
    why = "2 of 3 exact, 1 different"
    assert f"{why}.\n" in out and out.splitlines()[-1] == (
        f"Nothing was written: {why}, and all that are drawn must be exact."
    )
    assert {each.rows[0].loss for each in files.records(target)}.isdisjoint({0.5})


@pytest.mark.slow
def test_what_could_not_be_compared_disagrees_with_nothing_but_is_not_accepted(
    folder: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of three is of a GPU, then all of them: nothing bears those out."""
    on_gpu = {"training.device": "a GPU", "evaluated.device": "a GPU"}
    rewritten(folder, of_method("rope", on_gpu))
    words = ["verify", str(folder), "--in", str(scratch)]
    seen = verify(folder, 12, scratch=scratch)
    assert (seen.counts[Kind.EXACT], seen.counts[Kind.NOT_COMPARED]) == (2, 1)
    assert (seen.counts[Kind.DIFFERENT], seen.counts[Kind.FAILED]) == (0, 0)
    assert not seen.agreed and not seen.disagreed
    capsys.readouterr()
    assert results_command(words) == 0
    assert "2 of 3 exact, 1 not compared." in capsys.readouterr().out
    rewritten(folder, lambda each: changed(each, on_gpu))
    assert results_command(words) == 1
    assert "0 of 3 exact, 3 not compared." in capsys.readouterr().out
    path, target = tmp_path / "mine.tar.gz", tmp_path / "accepted"
    bundle.write(files.records(folder), [], None, path)
    words = ["accept", str(path), "--to", str(target), "--run-code", "--write"]
    assert results_command(words) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Nothing was written: 0 of 3 exact, 3 not compared, and all that are drawn must be exact."
    )
    assert not target.exists()


# -- carrying over ---------------------------------------------------------------------------------


def older(values: dict[str, Any]) -> Callable[[Record], Record]:
    """Records as code of other hashes made them."""
    return lambda each: changed(each, values)


@pytest.mark.slow
def test_a_stratum_whose_sample_agrees_is_carried_over_and_says_how_many_were_repeated(
    folder: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test code of all three has changed, and the training code of one of them."""
    today = by_method(folder)
    rewritten(folder, older({"evaluated.source_hash": OLD}))
    rewritten(folder, of_method("alibi", {"training.source_hash": OLD}))
    before = by_method(folder)
    words = ["verify", str(folder), "--restamp", "--sample", "12", "--in", str(scratch)]
    assert results_command(words) == 0
    assert "Carried over 3 of 3 records of earlier code." in capsys.readouterr().out
    after = by_method(folder)
    for method, found in after.items():
        assert found.training.source_hash == today[method].training.source_hash
        assert found.evaluated.source_hash == today[method].evaluated.source_hash
        stamp, old = found.carried_over, before[method]
        assert stamp is not None
        assert stamp.source_hash == old.training.source_hash
        assert stamp.evaluation_hash == old.evaluated.source_hash == OLD
        assert (stamp.verified, stamp.of) == (1, 1), "alibi and rope differ, and so do extensions"
        unstamped = changed(found, {"carried_over": None})
        kept = {
            "training.source_hash": old.training.source_hash,
            "evaluated.source_hash": old.evaluated.source_hash,
        }
        assert changed(unstamped, kept) == old, "nothing else has changed"
    assert leaderboard.main([str(folder)], emit=lambda line: None) == 0
    said = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert "3 records were made by earlier code. A sample of 3 of 3 was repeated" in said
    assert "come from other code" not in said
    capsys.readouterr()
    assert restamp(folder, 12, scratch=scratch).agreed
    assert "every record is of today's code already" in capsys.readouterr().out


@pytest.mark.slow
def test_one_that_was_repeated_speaks_for_its_stratum(
    own: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds whose training code changed alike; one of them is drawn."""
    made(scratch, "method=alibi", "seed=1")
    found = [by_method(own)["alibi"], *files.records(scratch)]
    assert len(found) == 2
    changes = older({"training.source_hash": OLD})
    published.publish([changes(each) for each in found], [], tmp_path / "all")
    assert restamp(tmp_path / "all", 1, scratch=scratch).agreed
    assert "Repeating 1 of 2 records, from 1 of 1 strata." in capsys.readouterr().out
    stamps = [each.carried_over for each in files.records(tmp_path / "all")]
    assert [(stamp.verified, stamp.of) for stamp in stamps if stamp] == [(1, 2), (1, 2)]


@pytest.mark.slow
def test_carrying_over_reads_each_published_record_before_and_after(
    folder: Path, scratch: Path, validated: list[str]
) -> None:
    """A record that is published meanwhile is not lost; a third look would tell nothing."""
    rewritten(folder, older({"training.source_hash": OLD}))
    validated.clear()
    assert restamp(folder, 1, scratch=scratch).agreed
    assert len([where for where in validated if where.startswith(str(folder))]) == 2 * len(METHODS)


def test_what_is_published_meanwhile_is_not_lost(
    folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new run, one that took the place of an old one, and the audits of all."""
    rewritten(folder, older({"training.source_hash": OLD}))
    before = by_method(folder)
    published.publish([], audits_of(*before.values()), folder)
    anew = changed(before["alibi"], {"rows.0.loss": 0.5})
    another = changed(before["alibi"], {"seed": 9})

    def meanwhile(_: Repeater, record: Record) -> Verdict:
        if record == before["alibi"]:
            published.publish([anew, another], audits_of(another), folder)
        return Verdict(Kind.EXACT)

    monkeypatch.setattr(Repeater, "verdict", meanwhile)
    assert restamp(folder, 12, scratch=scratch).agreed
    out = capsys.readouterr().out
    assert "Carried over 2 of 3 records of earlier code." in out
    assert "Left alone 1 record that another process published anew meanwhile." in out
    held = files.read_folder(folder).whole()
    assert len(held.records) == 4 and anew in held.records and another in held.records
    assert {each.method.name for each in held.records if each.carried_over} == {"rope", "rope_pi"}
    assert {audit.key for audit in held.audits} == {Audit.key_of(each) for each in held.records}


@pytest.mark.slow
def test_a_stratum_that_disagrees_stays_as_it_was(
    folder: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(folder, older({"evaluated.source_hash": OLD}))
    rewritten(folder, of_method("alibi", {"training.source_hash": OLD, "rows.0.loss": 0.5}))
    before = by_method(folder)
    assert not restamp(folder, 12, scratch=scratch).agreed
    out = capsys.readouterr().out
    assert "Carried over 2 of 3 records of earlier code." in out
    assert "2 of 3 exact, 1 different." in out
    after = by_method(folder)
    assert after["alibi"] == before["alibi"] and after["alibi"].carried_over is None
    assert after["rope"].carried_over and after["rope_pi"].carried_over


def test_a_stratum_that_could_not_be_compared_stays_as_it_was(
    own: Path, scratch: Path, tmp_path: Path
) -> None:
    strange = {"training.source_hash": OLD, "training.versions.torch": "1.4.2"}
    published.publish([changed(by_method(own)["rope"], strange)], [], tmp_path / "all")
    [before] = files.records(tmp_path / "all")
    assert not restamp(tmp_path / "all", 1, scratch=scratch).agreed
    assert files.records(tmp_path / "all") == [before]


@pytest.mark.slow
def test_a_stratum_of_which_none_was_drawn_stays_as_it_was(
    folder: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(folder, older({"training.source_hash": OLD}))
    rewritten(folder, of_method("rope_pi", {"evaluated.source_hash": OLD}))
    assert restamp(folder, 1, scratch=scratch).agreed
    assert "from 1 of 3 strata" in capsys.readouterr().out
    carried = [each for each in files.records(folder) if each.carried_over]
    assert len(carried) == 1


def test_records_that_are_not_published_are_not_carried_over_but_named(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither alone nor beside published ones; nothing is repeated before that is said."""
    found = [older({"training.source_hash": OLD})(each) for each in files.records(own)]
    (path,) = save(tmp_path, found[0])
    for there in ([], found[1:]):
        published.publish(there, [], tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*.json*")}
        assert results_command(["verify", str(tmp_path), "--restamp"]) == 1
        out, error = capsys.readouterr()
        assert out == "" and error.count("\n") == 1
        assert error.startswith("posbench: --restamp carries published records over, and ")
        assert f"holds 1 record as runs write them, such as {path}" in error
        assert f"publish --from {tmp_path} --to FOLDER" in error
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.json*")} == before


# -- strata ----------------------------------------------------------------------------------------


def today(training: str, evaluation: str, **values: Any) -> Today:
    """A record of hashes "0", and what the code of today would give it."""
    return Today(changed(record(), values), training, evaluation)


def test_code_that_is_the_same_is_told_apart_by_its_hashes_and_the_hardware() -> None:
    one = today("0", "0")
    assert not one.changed and one.stratum == ("0", "0", "cpu", "cpu")
    on_gpu = Today(changed(record(), {"training.device": "a GPU"}), "0", "0")
    assert on_gpu.stratum != one.stratum
    known = Today(changed(record(), {"training.cpu": "AuthenticAMD avx2"}), "0", "0")
    assert known.stratum == ("0", "0", "cpu (AuthenticAMD avx2)", "cpu")
    for count, shown in ((1, "cpu"), (4, "cpu (4 threads)")):
        of_threads = Today(changed(record(), {"evaluated.threads": count}), "0", "0")
        assert of_threads.stratum == ("0", "0", "cpu", shown)
    both = {"training.cpu": "AuthenticAMD avx2", "training.threads": 4}
    assert Today(changed(record(), both), "0", "0").stratum[2] == (
        "cpu (AuthenticAMD avx2, 4 threads)"
    )
    on_gpu = changed(record(), {"training.device": "a GPU", "training.threads": 4})
    assert Today(on_gpu, "0", "0").stratum[2] == "a GPU"


def test_code_that_changed_is_told_apart_by_what_changed() -> None:
    assert today("1", "0").changed and today("0", "1").changed
    assert today("1", "0").stratum == ("0>1", "", "cpu", "cpu")
    assert today("0", "1").stratum == ("", "0>1", "cpu", "cpu")
    assert today("1", "2").stratum == ("0>1", "0>2", "cpu", "cpu")


def test_code_that_did_not_change_does_not_tell_apart_records_whose_other_code_did() -> None:
    other = changed(record("alibi"), {"training.source_hash": "another"})
    assert Today(other, "another", "1").stratum == today("0", "1").stratum


def test_today_knows_the_hashes_that_a_run_would_have(own: Path) -> None:
    for found in files.records(own):
        assert not Today.of(found).changed


# -- differences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
        ({"a": [1, {"b": None}]}, {"a": [2, {"b": 3}]}, ["a.0: 2 was 1", "a.1.b: 3 was None"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: [1, 2] was [1]"]),
        ({"a": 1}, {"b": 1}, ["a: None was 1", "b: 1 was None"]),
        ({"a": {"b": 1}}, {"a": None}, ["a: None was {'b': 1}"]),
        (1.0, 1, []),
    ],
)
def test_differences_are_named_by_their_place(old: Any, new: Any, said: list[str]) -> None:
    assert list(differences(old, new)) == said


# -- where a record was made -----------------------------------------------------------------------

OF_ONES_OWN = """
from posbench.core.encoding import PositionEncoding


class Turned(PositionEncoding):
    def encode(self, a):
        return a
"""


@pytest.mark.slow
def test_a_class_of_ones_own_is_no_changed_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a bundle of others, whose classes are nowhere before its folder is on the path."""
    mine = tmp_path / "mine"
    (mine / "encoding").mkdir(parents=True)
    (mine / "turned.py").write_text(OF_ONES_OWN)
    (mine / "encoding/turned.yaml").write_text("_target_: turned.Turned\n")
    with composing(mine):
        composed = compose(*SMALL, "encoding=turned")
        train_and_record(
            RunSpec.of(composed.but(results_dir=str(tmp_path / "runs"), logger={})), Console()
        )
    published.publish(files.records(tmp_path / "runs"), [], tmp_path / "all")
    provenance.known_hash.cache_clear()
    sys.modules.pop("turned", None)
    words = ["verify", str(tmp_path / "all"), "--restamp"]
    assert results_command([*words, "--config-dir", str(mine)]) == 0
    assert "every record is of today's code already" in capsys.readouterr().out


@pytest.mark.slow
def test_what_was_made_on_the_processor_is_repeated_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The protocol asks for a GPU; that a run was made without is in its record alone."""
    words = ("training.precision=32-true", "training.batch_size=8", "training.validation_samples=8")
    words += ("model.num_layers=1", "model.num_heads=1", "model.width=32")
    of_gpu = ("protocol=gpu", "task=copy_small", "training.steps=2", "training.validate_every=2")
    tests = ("evaluation.num_samples=8", "evaluation.multiples=[1,2]", "evaluation.ladder=[]")
    with composing():
        composed = compose(*of_gpu, *words, *tests)
        trainer = composed.content["trainer"] | {"accelerator": "cpu"}
        results_dir = str(tmp_path / "runs")
        train_and_record(
            RunSpec.of(composed.but(results_dir=results_dir, logger={}, trainer=trainer)), Console()
        )
    published.publish(files.records(tmp_path / "runs"), [], tmp_path / "all")
    capsys.readouterr()
    assert verify(tmp_path / "all", 1).agreed, capsys.readouterr().out
    assert "1 of 1 exact." in capsys.readouterr().out
