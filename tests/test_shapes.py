"""Before a run trains, its encoding is asked whether it returns what attention takes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from offered import thinned
from small_runs import TINY

from posbench.base.errors import PosbenchError
from posbench.config.compose import compose, composing
from posbench.running.before_training import refuse_wrong_shapes
from posbench.running.console import Console
from posbench.running.make import make
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.subject import Subject
from posbench.running.together import train_together

MISSHAPEN = {
    "Silent": ("encode", "pass", "encode returns None: return an Attention"),
    "Unmoved": ("embed", "pass", "embed returns None: return the embeddings"),
    "Nowhere": ("positions", "pass", r"positions returns None: return \[batch\|1, n\]"),
    "OfRows": ("encode", "return a.plus(lambda rows: -a.distance(rows)[0] / 9)", "a term returns"),
    "OfBatches": ("encode", "return a.plus(lambda rows: -a.distance(rows) / 9)", "a term returns"),
    "OfHeads": (
        "encode",
        "return a.plus(lambda rows: -a.distance(rows)[:, None].repeat(1, a.num_heads + 1, 1, 1))",
        "a term returns",
    ),
    "Numbers": (
        "encode",
        "return a.where(lambda rows: (a.distance(rows) + 1.0)[:, None])",
        "a mask returns torch.float32: return a boolean",
    ),
    "Misspelt": (
        "encod",
        "return a.plus(lambda rows: -a.distance(rows)[:, None])",
        "it has none of encode, embed, positions, so it would be trained without positions: did "
        "you mean encode for encod",
    ),
    "Ahead": (
        "encode",
        "return replace(a, v=a.v + a.v.mean(2, keepdim=True))",
        r"what is put out for a token changes with a later one \(by .*\), which it would predict",
    ),
    "AheadInLonger": (
        "encode",
        "return a if a.x.shape[1] < 16 else replace(a, v=a.v.roll(-1, 2))",
        r"what is put out .* of \d+ tokens with others from place \d+ on\), which it would predict",
    ),
    "Undefined": (
        "encode",
        "return a.plus(lambda rows: (a.distance(rows).log() * 0)[:, None])",
        "attention gives what is not finite before any training",
    ),
}
ARGUMENTS = {"encod": "a", "encode": "a", "embed": "x, pos", "positions": "ids, draw"}


@pytest.fixture
def misshapen(tmp_path: Path) -> Iterator[None]:
    folder = tmp_path / "mine"
    module = re.sub(r"\W", "_", tmp_path.name)  # Python would take the first of one name
    (folder / "encoding").mkdir(parents=True)
    lines = ["from dataclasses import replace"]
    lines += ["from posbench.core.encoding import PositionEncoding"]
    for name, (method, returns, _) in MISSHAPEN.items():
        lines += [f"class {name}(PositionEncoding):"]
        lines += [f"    def {method}(self, {ARGUMENTS[method]}):", f"        {returns}"]
        (folder / "encoding" / f"{name.lower()}.yaml").write_text(f"_target_: {module}.{name}\n")
    (folder / f"{module}.py").write_text("\n".join(lines))
    with composing(folder):
        yield


@pytest.mark.parametrize("name", MISSHAPEN)
def test_what_attention_would_not_take_is_refused_before_anything_is_written(
    misshapen: None, tmp_path: Path, name: str
) -> None:
    results = tmp_path / "results"
    spec = RunSpec.of(compose(*TINY, f"encoding={name.lower()}", f"results_dir={results}"))
    said = rf"^{name}: {MISSHAPEN[name][2]}.*; posbench check FILE, "
    with pytest.raises(PosbenchError, match=said):
        make(spec)
    assert not results.exists()


TASKS = {
    "total_length": (
        "return 2 * n + 2",
        r"a sequence of n=\d+ has (\d+) tokens .*is \d+; posbench check",
    ),
    "answer_length": ("return n + 1", r"an answer of n=(\d+) has \1 tokens, EOS left out, and ans"),
    "sample": ("pass", "sample returns None: return what posbench.task.assemble makes of prompt"),
}


@pytest.mark.parametrize("method", TASKS)
def test_a_task_that_draws_other_than_it_declares_is_refused(tmp_path: Path, method: str) -> None:
    returns, said = TASKS[method]
    (tmp_path / "mine/task").mkdir(parents=True)
    (tmp_path / "mine/task/odd.yaml").write_text(
        f"# @package _global_\ntask: {{_target_: odd_{method}.Odd}}\n"
        "training: {min_length: 4, max_length: 8, steps: 10}\n"
    )
    arguments = "n, batch_size, rng" if method == "sample" else "n"
    (tmp_path / f"mine/odd_{method}.py").write_text(
        "from posbench.tasks.copy import Copy\n\n\nclass Odd(Copy):\n"
        f"    def {method}(self, {arguments}):\n        {returns}\n"
    )
    with composing(tmp_path / "mine"):
        words = [word for word in TINY if not word.startswith("task=")]
        spec = RunSpec.of(compose(*words, "task=odd", f"results_dir={tmp_path}/results"))
        with pytest.raises(PosbenchError, match=f"^Odd: {said}"):
            make(spec)


UNTRAINED = """
import torch
from torch import nn

from posbench.core.encoding import PositionEncoding


class Constant(PositionEncoding):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))

    def encode(self, a):
        return a.plus(lambda rows: -self.slope.detach() * a.distance(rows)[:, None].to(a.q.dtype))
"""


def test_an_encoding_of_which_nothing_would_be_trained_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine/encoding").mkdir(parents=True)
    (tmp_path / "mine/encoding/constant.yaml").write_text("_target_: untrained.Constant\n")
    (tmp_path / "mine/untrained.py").write_text(UNTRAINED)
    with composing(tmp_path / "mine"):
        spec = RunSpec.of(compose(*TINY, "encoding=constant", f"results_dir={tmp_path}/results"))
        said = r"^Constant: nothing that it returns depends on its parameters \(slope\), so that no"
        with pytest.raises(PosbenchError, match=said):
            make(spec)


def test_trainings_in_step_are_asked_as_well(misshapen: None, tmp_path: Path) -> None:
    words = (*TINY, "encoding=ofrows", f"results_dir={tmp_path}", "trainer.replicas=2")
    said = io.StringIO()
    train_together([RunSpec.of(compose(*words, f"seed={seed}")) for seed in (0, 1)], Console(said))
    assert "seeds 0, 1" in said.getvalue()
    assert not list(tmp_path.rglob("model*"))


@pytest.mark.parametrize("name", thinned("encoding"))
def test_an_encoding_of_posbench_passes_and_draws_nothing_from_the_state_of_all(name: str) -> None:
    with composing():
        words = Subject(f"encoding={name}").words  # with a task that supplies its ids
        setup = Setup.of(compose("protocol=gpu", *words).cfg())
        before = torch.random.get_rng_state()
        refuse_wrong_shapes(setup)
        assert torch.equal(torch.random.get_rng_state(), before)
