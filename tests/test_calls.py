"""`import posbench`: the commands as functions give the records of the command line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pydoc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from processes import succeeded
from wrong import TASKS

import posbench
from posbench.base.errors import ConfigError, PosbenchError
from posbench.calls import written
from posbench.checks import command, conformance
from posbench.config.folders import own_names
from posbench.config.record_command import Command
from posbench.encodings.rope import RoPE
from posbench.position import Sizes
from posbench.records import files
from posbench.running.console import Console

TIMES = ("cpu_seconds", "gpu_seconds", "wall_seconds")
SMALL = {"protocol": "smoke"}
INSIDE_ITSELF: dict[str, object] = {}
INSIDE_ITSELF["model"] = INSIDE_ITSELF
MAIN = Path(__file__).parent.parent / "results" / "main"


def without_times(node: Any) -> Any:
    """A record without what a clock has told."""
    if isinstance(node, dict):
        return {k: without_times(v) for k, v in node.items() if not k.endswith(TIMES)}
    return [without_times(each) for each in node] if isinstance(node, list) else node


def record(folder: Path, method: str) -> str:
    [path] = folder.glob(f"results/local/records/*/*/{method}/seed=1.json")
    return json.dumps(without_times(json.loads(path.read_text())))


# -- what there is ---------------------------------------------------------------------------------


def test_the_package_names_what_there_is() -> None:
    names = dir(posbench)
    assert {"run", "check", "compare", "list_encodings", "load", "plot"} <= {*names}
    assert {*own_names("encoding"), *own_names("extension")} <= {*names}
    assert all(callable(getattr(posbench, name)) for name in posbench.__all__)


@pytest.mark.slow
def test_frames_have_every_name_with_what_the_reference_says() -> None:
    encodings, extensions = posbench.list_encodings(), posbench.list_extensions()
    tasks = posbench.list_tasks()
    for group, frame in (("encoding", encodings), ("extension", extensions), ("task", tasks)):
        assert sorted(frame.index) == sorted(own_names(group))
        assert (frame["what"] != "").all()
    assert encodings.loc["fox", ["source", "attention", "cacheable"]].tolist() == [
        "arXiv 2503.02130",
        "fused",
        "yes",
    ]
    assert encodings.loc["alibi", "formula"] == r"B_{ij} = -m_h\,(i - j)"
    assert extensions.loc["yarn", "served_by"] == "transformers and vLLM"
    assert extensions.loc["rerope", "served_by"] == "the mounted model only"
    assert extensions.loc["longrope", "formula"].count("`") == 0, "it begins within a formula"


def test_settings_are_in_the_signature() -> None:
    parameters = inspect.signature(posbench.rope).parameters
    assert parameters["base"].default == 10_000 and parameters["layout"].default == "half"
    assert "layout" in inspect.signature(RoPE).parameters, "and in that of the class"


@pytest.mark.slow
def test_help_shows_settings_sizes_and_the_formula() -> None:
    shown = pydoc.render_doc(posbench.rope, renderer=pydoc.plaintext)
    assert "*, base=10000, layout='half') -> posbench.position.Position" in shown
    assert r"e^{\,\mathrm{i}(i-j)\theta_m}" in shown
    for each in dataclasses.fields(Sizes):
        assert f"    {each.name}: " in shown, "every size is explained"
    assert "head_width:" not in pydoc.render_doc(posbench.yarn), "an extension has no sizes"


def test_classes_are_found_in_the_package() -> None:
    assert posbench.PosbenchError is PosbenchError and posbench.Sizes is Sizes
    assert {"PosbenchError", "Position", "Sizes"} <= {*dir(posbench)}


def test_importing_is_quick() -> None:
    """Neither torch nor pandas is imported before something asks for them."""
    code = (
        "import sys, posbench; dir(posbench); hasattr(posbench, 'ropee');"
        "print([name for name in ('torch', 'pandas', 'hydra') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- runs ------------------------------------------------------------------------------------------


def test_keywords_are_words() -> None:
    given = {"seed": range(2), "training": {"steps": 5, "stop_at": None}, "force": True}
    assert [*written(given)] == [
        "seed=0,1",
        "training.steps=5",
        "training.stop_at=null",
        "force=true",
    ]
    assert [*written({"evaluation": {"multiples": (1, 2)}})] == ["evaluation.multiples=[1,2]"]


@pytest.mark.slow
def test_a_run_has_the_record_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, but for times: alone and in a sweep."""
    cli, python, sweep = (tmp_path / name for name in ("cli", "python", "sweep"))
    for folder in (cli, python, sweep):
        folder.mkdir()
    words = ["protocol=smoke", "training.steps=12", "task=copy", "seed=1"]
    succeeded(cli, "method=rope_yarn", *words)
    monkeypatch.chdir(python)
    found = posbench.run(*words, method="rope_yarn", progress=False)
    assert record(python, "rope_yarn") == record(cli, "rope_yarn")
    monkeypatch.chdir(sweep)
    several = posbench.run(
        "method=rope,rope_yarn",
        **SMALL,
        training={"steps": 12},
        task="copy",
        seed=[1],
        progress=False,
    )
    assert record(sweep, "rope_yarn") == record(cli, "rope_yarn")
    same = several[several["method"] == "rope_yarn"].reset_index(drop=True)
    assert same["score"].tolist() == found["score"].tolist() and len(found) == 8
    assert {*several["method"]} == {"rope", "rope_yarn"}


@pytest.mark.slow
def test_what_is_complete_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = posbench.run(**SMALL, method="nope", progress=False)
    assert capsys.readouterr().out == ""
    again = posbench.run(**SMALL, method="nope")
    assert "Complete already" in capsys.readouterr().out
    assert first.equals(again)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["method=rope_yarnn"], "method=rope_yarnn is unknown: did you mean rope_yarn?"),
        (["method=rope", "encoding.bse=5"], "encoding.bse"),
        (["method=rope", "encoding.base=nan"], "encoding.base"),
        (["method=nope", "extension=yarn", "protocol=smoke"], "yarn"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(PosbenchError) as raised:
        posbench.run(*words)
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert raised.value._render_traceback_() == [str(raised.value)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: posbench.run(["method=rope"]), "words are texts, got ['method=rope']: give each"),
        (lambda: posbench.run(method=posbench.rope), "rope is an object, and settings are names"),
        (lambda: posbench.run(config_dir=5), "config_dir is a folder like conf/, got 5"),
        (lambda: posbench.run(**SMALL, training=5), "training=5 replaces a whole section: set"),
        (lambda: posbench.run(**SMALL, training={"steps": {}}), "training.steps is an empty mapp"),
        (lambda: posbench.run(**SMALL, training=INSIDE_ITSELF), "training is nested more than 8"),
        (lambda: posbench.run(**SMALL, results_dir="a\0b"), "'a\\x00b' has the character NUL"),
        (lambda: posbench.check("a\0b.yaml"), "'a\\x00b.yaml' has the character NUL"),
        (lambda: posbench.run(**SMALL, model=None), "model=null replaces a whole section: set"),
        (lambda: posbench.check(posbench.rope), 'such as "encoding=rope", got rope: give the'),
        (lambda: posbench.check(pd.DataFrame()), "posbench.difference(table, a, b)"),
        (lambda: posbench.compare(pd.DataFrame()), "posbench.difference(table, a, b)"),
        (lambda: posbench.compare("method=rope", quick=True, whole=True), "quick=True and whole="),
        (lambda: posbench.compare("method=rope", quick="no"), "quick is True or False, got 'no'"),
        (lambda: posbench.compare("method=rope", train=1), "train is True or False, got 1"),
        (lambda: posbench.compare("method=rope", board=3), "board is the name of a board, as"),
        (lambda: posbench.compare("method=rope", than=3), "than is the name of a row, as"),
        (lambda: posbench.compare("method=rope", against=""), "against is a folder of records"),
        (lambda: posbench.run(**SMALL, seed=range(10**7)), "seed has 10,000,000 values, and a"),
    ],
)
def test_what_is_no_word_is_one_sentence(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(PosbenchError) as raised:
        call()
    assert said in str(raised.value) and "--" not in str(raised.value)


def test_numbers_of_numpy_and_torch_are_those_of_python() -> None:
    for seeds in (np.arange(2), pd.Series([0, 1]), torch.arange(2), (each for each in (0, 1))):
        assert [*written({"seed": seeds})] == ["seed=0,1"]
    assert [*written({"encoding": {"base": np.float64(0.5)}})] == ["encoding.base=0.5"]


def test_a_path_is_one_text_and_a_text_is_what_the_command_line_has() -> None:
    assert [*written({"results_dir": Path("Läu fe,1's")})] == ["results_dir='Läu fe,1\\'s'"]
    assert [*written({"results_dir": "Läufe"})] == ["results_dir='Läufe'"]
    assert [*written({"seed": "1,2", "method": "glob(rope*)"})] == [
        "seed=1,2",
        "method=glob(rope*)",
    ]


@pytest.mark.slow
def test_records_are_where_a_path_says_however_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "Läu fe, (1)'s"
    posbench.run(**SMALL, results_dir=folder, progress=False)
    (record,) = files.records(folder)
    assert str(Command.parse(record.command)) == record.command


@pytest.mark.slow
def test_a_pair_that_cannot_be_is_a_warning_beside_those_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="alibi.yarn is not tested on copy: the extension cannot"):
        posbench.run(
            **SMALL,
            encoding=["rope", "alibi"],
            extension="yarn",
            task="copy",
            plan_only=True,
            progress=False,
        )


@pytest.mark.slow
@pytest.mark.parametrize("word", ["plan_only=true", "plan_only=True"])
def test_a_plan_that_is_asked_for_by_a_word_makes_nothing(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(posbench.calls, "carry_out", lambda *_: pytest.fail("it was made"))
    for seeds in (0, [0, 1]):
        posbench.run(word, method="rope", task="copy", seed=seeds, protocol="smoke", progress=False)
    assert not list(tmp_path.rglob("*.json"))


def test_what_only_the_command_line_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="hydra/launcher=joblib is for the command line"):
        posbench.run("hydra/launcher=joblib", method=["rope", "alibi"])
    with pytest.raises(ConfigError, match="seed is an empty list"):
        posbench.run(seed=[])


@pytest.mark.slow
def test_runs_that_fail_among_several_are_counted_in_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that diverges is recorded, so the table has it: at no length is anything right."""
    monkeypatch.chdir(tmp_path)
    rates = {"learning_rate": [1e9, 1e-3]}
    with pytest.warns(UserWarning, match="1 of 2 runs failed"):
        found = posbench.run(**SMALL, method="rope", training=rates, progress=False)
    assert len(found) == 16 and found["protocol"].nunique() == 2


# -- a class of the user ---------------------------------------------------------------------------

DECAY = """
from posbench.encoding import PositionEncoding


class SlowDecay(PositionEncoding):
    def __init__(self, strength: float = 0.5) -> None:
        super().__init__()
        self.strength = strength

    def encode(self, a):
        def bias(rows):
            distance = a.distance(rows).clamp(min=0).to(a.q.dtype)
            return -self.strength * distance.sqrt()[:, None]

        return a.plus(bias)
"""


@pytest.fixture
def own_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type:
    (tmp_path / "slow_decay_of_tests.py").write_text(DECAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow_decay_of_tests", raising=False)
    found: type = __import__("slow_decay_of_tests").SlowDecay
    return found


HELPED = """
from helper_of_tests import far
from posbench.encoding import PositionEncoding

SCALE = 1.0


class Helped(PositionEncoding):
    weight = 1.0

    def encode(self, a):
        return a.plus(lambda rows: -SCALE * self.weight * far(a.distance(rows)).to(a.q)[:, None])
"""
HELPER = "def far(distance):\n    return distance.clamp(min=0) + 0.5\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param("helped_of_tests.py", "-SCALE", "-0.1 * SCALE", marks=pytest.mark.slow),
        pytest.param("helped_of_tests.py", "SCALE = 1.0", "SCALE = 0.1", marks=pytest.mark.slow),
        pytest.param("helped_of_tests.py", "weight = 1.0", "weight = 0.1", marks=pytest.mark.slow),
        ("helper_of_tests.py", "+ 0.5", "** 2"),
    ],
)
def test_what_was_edited_runs_as_it_is_written_now_and_has_another_hash(
    file: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook goes on with a module that it has loaded; its hash is that of the file."""
    monkeypatch.chdir(tmp_path)
    for name in ("helped_of_tests", "helper_of_tests"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "helped_of_tests.py").write_text(HELPED)
    (tmp_path / "helper_of_tests.py").write_text(HELPER)
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding" / "helped.yaml").write_text("_target_: helped_of_tests.Helped\n")

    def made(**changed: Any) -> tuple[str, float]:
        words = {**SMALL, "task": "copy", "encoding": "helped", "config_dir": tmp_path}
        table = posbench.run(progress=False, **words, **changed)
        return table["source_hash"][0], table["loss"][0]

    first = made()
    loaded = sys.modules.get("helped_of_tests")
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace(old, new) + "# edited\n")
    second = made()
    assert second[0] != first[0] and second[1] != first[1]
    assert made() == second and made(force=True) == second
    assert sys.modules.get("helped_of_tests") is loaded, "what the notebook holds is as it was"
    (tmp_path / file).write_text(text)
    assert made() == first and made(force=True) == first


@pytest.mark.slow
def test_a_class_is_checked_as_it_is_written_now(
    own_class: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_suite", lambda kind: replace(conformance.SUITE, others=()))
    assert {*posbench.check(own_class)["verdict"]} == {"ok"}
    file = tmp_path / "slow_decay_of_tests.py"
    file.write_text(DECAY.replace("sqrt()[:, None]", "sqrt()[:, None] @ 1") + "# edited\n")
    assert "FAILED" in {*posbench.check(own_class)["verdict"]}


@pytest.mark.slow
def test_a_class_is_checked_as_its_yaml_would_be(own_class: type, tmp_path: Path) -> None:
    found = posbench.check(own_class)
    assert {*found["verdict"]} == {"ok"} and len(found) > 15, found
    assert "the score falls with the distance" in found.attrs["notes"][0]
    assert not (tmp_path / "encoding").exists(), "nothing is written beside the class"
    with pytest.raises(PosbenchError, match="SlowDecay has no setting strengh: did you mean stre"):
        posbench.check(own_class, strengh=1)


@pytest.mark.slow
def test_a_promise_that_is_broken_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat_of_tests.py").write_text(
        DECAY.replace("sqrt()[:, None]", "sqrt()[:, None] @ 1")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = posbench.check(__import__("flat_of_tests").SlowDecay)
    failed = found[found["verdict"] == "FAILED"]
    assert len(failed) and "flat_of_tests.py, line 13" in failed["why"].iloc[0]


@pytest.mark.slow
def test_a_score_that_is_no_number_is_no_bad_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (zero,) = (each for each in TASKS if each.name == "Zero")
    path = zero.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PosbenchError, match="gave nan, and a score is a share"):
        posbench.run(**SMALL, task=path.stem, config_dir=path.parents[1], progress=False)
    assert not [*tmp_path.rglob("seed=0.json")]


def test_a_class_inside_another_or_a_function_is_refused_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = "def made():\n" + "".join(f"    {line}\n" for line in DECAY.splitlines())
    (tmp_path / "nested_of_tests.py").write_text(f"{outer}    return SlowDecay\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = __import__("nested_of_tests").made()
    for call in posbench.check, posbench.compare:
        with pytest.raises(PosbenchError, match=r"made inside made, .* margin of nested_of_tests"):
            call(made)


def test_a_class_of_no_module_is_refused() -> None:
    with pytest.raises(PosbenchError, match="is no class that can be checked"):
        posbench.check(dict)
    with pytest.raises((PosbenchError, ConfigError), match="encoding=ropee is unknown"):
        posbench.check("encoding=ropee")


@pytest.mark.parametrize("call", [posbench.check, posbench.compare])
def test_a_class_of_a_notebook_is_refused_with_one_sentence(call: Callable[[type], Any]) -> None:
    """As Jupyter has it, which shows the sentence in the place of a traceback."""
    exec(DECAY, space := {"__name__": "__main__"})  # type: ignore[var-annotated]
    with pytest.raises(PosbenchError) as raised:
        call(space["SlowDecay"])
    said = str(raised.value)
    assert "write it into one, as slow_decay.py, and import it from there" in said
    assert "%%writefile slow_decay.py" in said
    assert raised.value._render_traceback_() == [said]  # type: ignore[attr-defined]


def test_in_a_notebook_lines_go_where_the_output_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There rich would show each by itself, and `progress=False` would hide nothing."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    Console().say("a line")
    assert capsys.readouterr().out == "a line\n"


@pytest.mark.slow
def test_a_class_is_compared_by_the_yaml_that_is_written_beside_it(
    own_class: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for said in ("Written: ", ""):  # once
        with pytest.raises(PosbenchError, match="none of its runs is complete"):
            posbench.compare(own_class, quick=True, train=False, against=MAIN)
        assert capsys.readouterr().out.startswith(said)
    [path] = (tmp_path / "encoding").glob("*.yaml")
    assert path.name == "slow_decay.yaml" and "strength: 0.5" in path.read_text()
