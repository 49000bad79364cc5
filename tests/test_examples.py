"""The trainers of others in examples/, with tiny settings: they learn, and an extension counts."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
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
