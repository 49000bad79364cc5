"""A check that cannot fail proves nothing: each is shown an encoding that breaks the promise it is
about.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hydra.core.global_hydra import GlobalHydra
from wrong import ENCODINGS, EXTENSIONS, TASKS, Wrong

from posbench.base.errors import PosbenchError
from posbench.checks import (
    command,
    conformance,
    conformance_of_extensions,
    conformance_of_tasks,
)
from posbench.config.blame import place
from posbench.config.compose import composing
from posbench.config.folders import importable
from posbench.core.task import Task
from posbench.running.subject import Broken, Subject

FINE = Wrong(
    "nothing",
    """
    class Fine(PositionEncoding):
        def __init__(self, strength, period):
            super().__init__()
            self.strength, self.period = strength, period
            self.wave = nn.Parameter(torch.zeros(()))  # which hides the period at the beginning

        def encode(self, a):
            def bias(rows):
                far = a.distance(rows)[:, None].to(a.q.dtype).clamp(min=0)
                return self.wave * (far / self.period).sin() - self.strength * far

            return a.plus(bias)
    """,
    "",
    "strength: 0.1\nperiod: 8",
)


@pytest.fixture(autouse=True)
def _no_wrong_class_of_another_test() -> None:
    """Several tests write the same class, each into a folder of its own."""
    for name in [each for each in sys.modules if each.startswith("wrong_")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all encodings that break a promise, and one that keeps them."""
    folder = tmp_path_factory.mktemp("folder")
    for mistake in (*ENCODINGS, FINE):
        mistake.write(folder)
    return folder


@pytest.fixture(scope="module")
def upon_folder(folder: Path) -> Any:
    """What it has composed is composed once for all checks."""
    with composing(folder):
        found = GlobalHydra.instance().hydra
    assert found is not None
    return found


def broken(name: str, encoding: str, folder: Path, upon_folder: Any) -> PosbenchError:
    """What the check of that name says of an encoding in the folder."""
    (checked,) = (function for function in conformance.SUITE.checks if function.__name__ == name)
    GlobalHydra.instance().clear()
    GlobalHydra.instance().initialize(upon_folder)
    with importable([folder]), pytest.raises(PosbenchError) as caught:
        checked(Subject(f"encoding={encoding.lower()}"))
    return caught.value


OF_CLASSES = [
    ("calls_return_what_attention_takes", "Flat"),
    ("outputs_are_finite", "Logarithm"),
    ("two_calls_are_equal", "Noisy"),
    ("mixed_precision_runs", "Stubborn"),
    ("a_prefix_gives_alone_what_it_gives_within_the_whole", "Averaged"),
    ("positions_are_taken_as_they_come", "Counting"),
    ("positions_are_taken_as_they_come", "Keeping"),
    ("positions_are_taken_as_they_come", "FirstRow"),
    *(
        ("positions_are_taken_as_they_come", counting)
        for counting in (
            "Gated",
            "Asking",
            "Unlike",
            "Learning",
            "Fading",
            "Spinning",
            "Window",
            "Starting",
            "Between",
            "Odd",
            "Scaling",
            "Renumbered",
            "Excused",
            "Swelling",
            "Centred",
            "Known",
        )
    ),
    ("counts_tokens_is_as_declared", "Counted"),
    ("fused_path_equals_the_dense_reference", "RowsForgotten"),
    ("fused_path_stays_within_tolerance_at_8x", "Rounded"),
    ("fused_path_stays_within_tolerance_at_8x", "Hasty"),
    ("any_block_size_gives_the_same", "BlockCounted"),
    ("float_positions_are_accepted_iff_declared", "Truncating"),
    ("state_dict_round_trips", "Forgetful"),
    ("every_setting_of_the_model_changes_an_output", "Normalising"),
    ("inputs_are_left_alone", "Overwriting"),
    ("inputs_are_left_alone", "Moving"),
    ("two_calls_are_equal", "Seeding"),
    ("two_calls_are_equal", "Remembering"),
    ("training_and_test_are_the_same", "Switching"),
    ("no_output_depends_on_a_later_token", "Spread"),
    ("no_output_depends_on_a_later_token", "Prophet"),
    ("finite_under_decreasing_positions", "Logarithm"),
    ("relative_is_as_declared", "Absolute"),
    ("every_parameter_gets_a_gradient", "Idle"),
    ("two_constructions_are_equal", "Dicing"),
    ("every_numeric_setting_changes_an_output", "Deaf"),
    ("mixed_precision_runs", "Double"),
    ("no_tensor_is_made_on_another_device", "Rooted"),
    ("handles_are_as_declared", "Misspelt"),
    ("handles_are_as_declared", "Hollow"),
    ("handles_are_as_declared", "Boasting"),
    ("max_positions_is_as_declared", "Clamping"),
    ("max_positions_is_as_declared", "Tabled"),
]


@pytest.mark.parametrize(("name", "wrong"), OF_CLASSES, ids=[wrong for _, wrong in OF_CLASSES])
def test_a_mistake_that_people_make_is_found_by_the_check_that_is_about_it(
    folder: Path, upon_folder: Any, name: str, wrong: str
) -> None:
    (mistake,) = (each for each in ENCODINGS if each.name == wrong)
    said = broken(name, wrong, folder, upon_folder)
    assert mistake.said in str(said)
    assert place(said, []) or wrong != "Tabled"


def verdict_of(body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of an encoding with this class body about the positions given, "" if nothing."""
    head = "import torch\nfrom torch import nn\nfrom posbench.encodings.fox import FoX\n"
    (folder / "own_counting.py").write_text(head + textwrap.dedent(body))
    (folder / "encoding").mkdir(exist_ok=True)
    settings = "num_heads: ${model.num_heads}\nmodel_width: ${model.width}\n"
    text = f"_target_: own_counting.Own\n{settings if 'FoX)' in body else ''}"
    (folder / "encoding" / "own.yaml").write_text(text)
    monkeypatch.delitem(sys.modules, "own_counting", raising=False)
    (checked,) = (
        each
        for each in conformance.SUITE.checks
        if each.__name__ == "positions_are_taken_as_they_come"
    )
    with composing(folder):
        try:
            checked(Subject("encoding=own"))
        except PosbenchError as error:
            return str(error)
    return ""


FORGETS = """
    class Own(PositionEncoding):
        {declared}

        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(32, 2)

        def encode(self, a):
            passed = nn.functional.logsigmoid(self.gate(a.x)).mT.cumsum(-1)
            return a.plus(lambda rows: passed[..., rows, None] - passed[..., None, :])
"""


@pytest.mark.slow
def test_a_class_that_counts_tokens_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What sums over the tokens between is told how to declare it, and is then taken as it is."""
    base = "    from posbench.core.encoding import PositionEncoding\n"
    said = verdict_of(base + FORGETS.format(declared="pass"), tmp_path, monkeypatch)
    assert "says so: counts_tokens = True" in said
    declared = FORGETS.format(declared="counts_tokens = True")
    assert verdict_of(base + declared, tmp_path, monkeypatch) == ""
    # What is derived from one of posbench's own that count need not declare it again.
    assert verdict_of("    class Own(FoX):\n        pass\n", tmp_path, monkeypatch) == ""
    denied = "    class Own(FoX):\n        counts_tokens = False\n"
    assert "says so: counts_tokens = True" in verdict_of(denied, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", TASKS, ids=[each.name for each in TASKS])
def test_a_task_with_a_mistake_is_told_so_once_with_its_line(
    tmp_path: Path, wrong: Wrong, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(wrong.write(tmp_path))]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert wrong.said in line and f"wrong_{wrong.name.lower()}.py, line 6)" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [*EXTENSIONS, *(pytest.param(each, marks=pytest.mark.slow) for each in ENCODINGS)],
    ids=[each.name for each in (*EXTENSIONS, *ENCODINGS)],
)
def test_the_command_finds_each_mistake(
    tmp_path: Path, wrong: Wrong, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(wrong.write(tmp_path))]) == 1
    said = capsys.readouterr()
    assert wrong.said in said.out + said.err


def test_every_check_but_one_is_shown_something_broken() -> None:
    """That the transformer's own weights start equal cannot be broken from inside an encoding."""
    shown = {name for name, _ in OF_CLASSES} | {"the_weights_of_the_rest_start_the_same"}
    assert shown == {function.__name__ for function in conformance.SUITE.checks}


@pytest.mark.slow
def test_the_command_checks_a_yaml_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(folder / "encoding" / "fine.yaml")]) == 0
    out, number = capsys.readouterr().out, len(conformance.SUITE.checks)
    assert out.count("  ok  ") == number
    assert "  note    untrained and between equal tokens, the score " in out
    assert out.endswith(f"{number} of {number} promises kept by encoding=fine.\n")


def test_a_name_is_answered_with_the_file_that_is_called_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert command.main(["fine"]) == 1
    assert capsys.readouterr().err.endswith(f": give {folder.name}/encoding/fine.yaml\n")


@pytest.mark.slow
@pytest.mark.parametrize("word", ["fine.yaml", "./fine.yaml", "../encoding/fine.yaml"])
def test_the_command_checks_a_file_of_the_folder_that_it_is_given_in(
    folder: Path, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder / "encoding")
    monkeypatch.setattr(command, "_suite", lambda kind: replace(conformance.SUITE, others=()))
    assert command.main([word]) == 0
    assert capsys.readouterr().out.endswith("promises kept by encoding=fine.\n")


def test_the_folder_around_a_group_is_named_wherever_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder / "encoding")
    assert command.main(["--config-dir", ".", "encoding=fine"]) == 1
    assert capsys.readouterr().err.endswith(f"give the folder around it, --config-dir {folder}\n")


@pytest.mark.slow
def test_the_command_explains_what_is_broken(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--config-dir", str(folder), "encoding=idle"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert "every parameter gets a gradient" in line and "hidden by a clamp" in line


GATE = """
import torch
from torch import nn

from posbench.core.encoding import PositionEncoding


class Gate(PositionEncoding):
    def __init__(self, num_heads, model_width, spread=2.0):
        super().__init__()
        self.gate, self.spread = nn.Linear(model_width, num_heads), spread

    def encode(self, a):
        x = a.x.to(self.gate.weight.dtype)
        gate = self.spread * self.gate(x).sigmoid().mT[..., None].to(a.q.dtype)
        return a.plus(lambda rows: -gate[..., rows, :] * a.distance(rows)[:, None].clamp(min=0))
"""
GATE_SIZES = "_target_: own_gate.Gate\nnum_heads: ${model.num_heads}\nmodel_width: ${model.width}\n"


@pytest.fixture
def said_of_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What the command says of a class of one's own, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine/encoding").mkdir(parents=True)

    def said(code: str, yaml: str, module: str = "own_gate", suffix: str = "yaml") -> str:
        (tmp_path / f"mine/{module}.py").write_text(code)
        (tmp_path / f"mine/encoding/gate.{suffix}").write_text(yaml)
        monkeypatch.delitem(sys.modules, module, raising=False)
        command.main(["mine/encoding/gate.yaml"])
        captured = capsys.readouterr()
        return captured.out + captured.err

    return said


WRONG_SIGN = """
from posbench.encoding import PositionEncoding


class Gate(PositionEncoding):
    def encode(self, a):
        return a.plus(lambda rows: a.distance(rows).clamp(min=0).to(a.q.dtype).sqrt()[:, None])
"""


@pytest.mark.slow
def test_a_wrong_sign_is_noted_even_if_it_costs_a_promise(
    said_of_own: Callable[..., str],
) -> None:
    said = said_of_own(WRONG_SIGN, "_target_: own_gate.Gate\n")
    assert "  FAILED  fused path stays within tolerance at 8x: " in said
    assert "the score rises with the distance" in said and "turn the sign" in said


def test_a_constant_size_is_named_with_its_line_and_what_to_write(
    said_of_own: Callable[..., str],
) -> None:
    yaml = "_target_: own_gate.Gate\nnum_heads: 2\nmodel_width: 64\nspread: 1.0\n"
    said = said_of_own(GATE, yaml)
    assert (
        "RuntimeError in mine/own_gate.py, line 15: mat1 and mat2 shapes cannot be multiplied"
        in said
    )
    assert (
        "A likely cause: mine/encoding/gate.yaml, line 3: model_width: 64 is a constant, and the "
        "check uses a model whose model.width is 32: write model_width: ${model.width}\n" in said
    )


@pytest.mark.slow
def test_a_setting_that_the_yaml_leaves_out_is_named(
    said_of_own: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_suite", lambda kind: replace(conformance.SUITE, others=()))
    noted = (
        "  note    spread is a setting of Gate that mine/encoding/gate.yaml does not name: write "
        "spread: 2.0 there"
    )
    assert noted in said_of_own(GATE, GATE_SIZES)
    assert "is a setting of" not in said_of_own(GATE, f"{GATE_SIZES}spread: 1.0\n")


def test_arguments_that_a_class_needs_are_named_with_what_to_write(
    said_of_own: Callable[..., str],
) -> None:
    assert said_of_own(GATE, "_target_: own_gate.Gate\n") == (
        "posbench: encoding: Gate needs num_heads and model_width, which its YAML does not name: "
        "settings of the class come from there, so write `num_heads: ${model.num_heads}` and "
        "`model_width: ${model.width}` beside its _target_\n"
    )


@pytest.mark.parametrize(
    ("code", "held"),
    [
        (GATE.replace("class Gate", "class Gates"), "has Gates; did you mean Gates?"),
        ("", "has nothing, it is empty"),
        ("number = 3\n", "has no class"),
    ],
)
def test_a_module_without_the_class_says_what_it_has(
    code: str, held: str, said_of_own: Callable[..., str]
) -> None:
    said = said_of_own(code, "_target_: own_lacks.Gate\n", "own_lacks")
    assert f"own_lacks has no Gate (mine/own_lacks.py {held})" in said


def test_a_yml_beside_a_missing_yaml_is_named(said_of_own: Callable[..., str]) -> None:
    assert said_of_own(GATE, GATE_SIZES, suffix="yml") == (
        "posbench: mine/encoding/gate.yaml is not there, and mine/encoding/gate.yml is not found, "
        "because Hydra reads *.yaml alone: rename it to gate.yaml\n"
    )


@pytest.mark.slow
def test_what_goes_backward_twice_is_called_a_cache_at_the_line_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (saving,) = (each for each in ENCODINGS if each.name == "Saving")
    path = saving.write(tmp_path)
    lines = (tmp_path / "wrong_saving.py").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "self.saved[n] = " in text)
    assert command.main([str(path)]) == 1
    assert (
        f"FAILED  fused path equals the dense reference: what {tmp_path}/wrong_saving.py, line "
        f"{line} makes is kept from an earlier call, as in a cache" in capsys.readouterr().out
    )


@pytest.mark.slow
def test_an_error_of_mixed_precision_names_the_line_of_the_class_and_not_of_torch(
    said_of_own: Callable[..., str],
) -> None:
    said = said_of_own(
        GATE.replace("a.x.to(self.gate.weight.dtype)", "a.x"), f"{GATE_SIZES}spread: 1.0\n"
    )
    (line,) = [line for line in said.splitlines() if "FAILED" in line]
    assert "RuntimeError in mine/own_gate.py, line 15" in line and "queries may be bfloat16" in line


@pytest.mark.slow
def test_what_is_not_asked_is_said_with_the_reason_and_all_lines_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spread,) = (each for each in ENCODINGS if each.name == "Spread")
    sys.modules.pop("wrong_spread", None)  # of another folder, by another test
    assert command.main([str(spread.write(tmp_path))]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    kinds = Counter(line.split()[0] for line in lines)
    number = len(conformance.SUITE.checks)
    assert kinds.pop("note") == 1  # no promise: what its scores do with the distance
    assert sum(kinds.values()) == number and kinds["FAILED"] == 1 and kinds["--"] == 4
    reason = "“no output depends on a later token” failed"
    assert f"  --      relative is as declared: not asked, because {reason}" in lines
    assert last == (
        f"{number - 5} of {number} promises kept by encoding=spread; 1 failed; 4 were not asked, "
        f"because {reason}."
    )


@pytest.mark.slow
def test_a_right_extension_keeps_its_promises_on_a_host_with_a_setting() -> None:
    for host in (
        ("encoding=rope", "encoding.layout=interleaved"),
        ("encoding=partial_rope", "encoding.share=0.5"),
    ):
        it = conformance_of_extensions.ExtendedSubject("extension=yarn", *host)
        conformance_of_extensions.every_numeric_setting_changes_an_output(it)


def test_a_guess_that_is_nearly_always_right_is_no_chance_of_half() -> None:
    class Constant:
        score = Task.score

        def chance(self, n: int) -> float:
            return 0.5

    bits = (np.random.default_rng(0).random((4000, 1)) < 0.98).astype(int)
    batch = SimpleNamespace(tokens=bits, answer=np.ones((4000, 1), bool))
    asked: Any = SimpleNamespace(task=Constant(), batches={1: batch})
    with pytest.raises(Broken, match=r"is right in 0\.9"):
        conformance_of_tasks.chance_is_as_declared(asked)


@pytest.mark.slow
def test_what_has_no_meaning_for_a_class_is_not_counted_as_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["extension=pi_fine_tuned"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    lines = [line for line in lines if not line.startswith("  note ")]
    assert (
        "  --      is identity is as declared: not asked, because its training changes"
        in "\n".join(lines)
    )
    kept, number = map(int, re.findall(r"^(\d+) of (\d+)", last)[0])
    assert kept == sum(line.startswith("  ok") for line in lines) < number == len(lines)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing.yaml"], "nothing.yaml is not a file"),
        (["mine/encoding/nothing.yml"], "mine/encoding/nothing.yml is not found, because Hydra"),
        (["decay"], "decay is neither a YAML file nor key=value: give the path of its YAML, as mi"),
        (["rope"], "rope is neither a YAML file nor key=value: give encoding=rope or method=rope"),
        (
            ["encoding=rope", "encoding=nope"],
            "encoding=rope and encoding=nope set the same: leave one out",
        ),
        (["encoding=rope", "a.file=b.yaml"], "a.file is not a setting"),
        (["encoding=nothing"], "encoding=nothing is unknown: `python -m posbench --help`"),
        (["--config-dir", "nowhere", "method=rope"], "nowhere is not a folder"),
        (["encoding=ropee"], "encoding=ropee is unknown: did you mean rope?"),
        (["encoding=rope", "encoding.bse=3"], "encoding.bse is not a setting: did you mean enc"),
        (["encoding=rope", "encoding.base=x"], "encoding.base must be a number"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"posbench: {sentence}")


@pytest.mark.parametrize("name", ["nan", "grün"])
def test_a_file_whose_name_is_not_read_as_one_is_told_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"mine/encoding/{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("_target_: posbench.encodings.nope.NoPE\n")
    assert command.main([str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}.yaml cannot be chosen, because encoding={name} is not read as a name" in line
