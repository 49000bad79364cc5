"""The trainers of others in examples/, with tiny settings: they learn, and an extension counts. The
notebook runs cell by cell.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from posbench.boards.compare import command as compare_command

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "python.ipynb"
NEEDED = {"hf_trainer": ("transformers", "accelerate")}
CHANCE = {"nanogpt": math.log(256), "lit_module": math.log(26), "hf_trainer": math.log(256)}
STEPS = {"nanogpt": 40, "lit_module": 120, "hf_trainer": 12}


def example(name: str) -> ModuleType:
    for library in NEEDED.get(name, ()):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"examples/{name}.py needs {library}, which is not installed")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == CHANCE.keys()
    assert [*EXAMPLES.glob("*.ipynb")] == [NOTEBOOK]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANCE)
def test_an_encoding_learns_in_the_trainer_and_is_extended_with_the_same_weights(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--steps", str(STEPS[name])]
    found = example(name).main([*words, "--encoding", "rope", "--extension", "yarn"])
    short, *_, longer, extended = found.values()
    assert short < CHANCE[name] - 0.2
    assert longer != extended and all(map(math.isfinite, found.values()))
    assert f"loss at 1x: {short:.3f}" in capsys.readouterr().out
    found = example(name).main([*words, "--encoding", "alibi", "--extension", "direct"])
    short, *_, longer, extended = found.values()
    assert short < CHANCE[name] - 0.2 and longer == extended


def shown(source: str, space: dict[str, Any], folder: Path) -> Any:
    """What Jupyter would show below a cell: the value of its last line."""
    if source.startswith("%%writefile "):
        first, text = source.split("\n", 1)
        (folder / first.split()[1]).write_text(text)
        return None
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        exec(source, space)
        return None
    exec(compile(ast.Module(before, []), "cell", "exec"), space)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space)


@pytest.mark.slow
def test_the_notebook_runs_cell_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an empty folder; only what `compare` would train, for minutes, is not trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow_decay", raising=False)
    compared: list[list[str]] = []
    monkeypatch.setattr(compare_command, "compared", compared.append)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    codes = [each for each in cells if each["cell_type"] == "code"]
    assert not [each for each in codes if each["outputs"]], "outputs are not committed"
    space: dict[str, Any] = {"__name__": "__main__"}
    found = [shown("".join(each["source"]), space, tmp_path) for each in codes]
    frames = [each for each in found if isinstance(each, pd.DataFrame)]
    encodings, promises, means, loaded = frames
    assert encodings.loc["alibi", "formula"] == r"B_{ij} = -m_h\,(i - j)"
    assert {*promises["verdict"]} == {"ok"} and len(promises) > 15
    assert means.shape == (2, 8) and len(loaded) == 5
    assert len(space["runs"]) == 32, "two rows, two seeds, eight lengths"
    assert any(hasattr(each, "savefig") for each in found)
    path = tmp_path / "encoding/slow_decay.yaml"
    assert compared == [[str(path), "--quick"]] and path.exists()
    out = capsys.readouterr().out
    assert "base=10000, layout='half'" in out and "step 10/20" not in out
