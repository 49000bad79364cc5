"""The table of bad inputs, and what is answered to them.

Every input is given to the command's own `main`, in a folder of its own. At first torch cannot be
imported, which tells the refusals that come before that takes its seconds. A run that is not
refused ends where it would begin to train.

    python tests/support/refusals.py WORDS ...   the answers of `posbench WORDS`, as JSON
    python tests/support/refusals.py             those to all of INPUTS
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MODULES = {
    "posbench": "posbench.application",
    "leaderboard": "posbench.boards.command",
    "results": "posbench.sharing.command",
    "status": "posbench.sweeping.status",
    "catalogue": "posbench.explain.catalogue",
    "check": "posbench.checks.command",
    "claims": "posbench.boards.claims.page",
    "compare": "posbench.boards.compare.command",
    "explain": "posbench.explain.command",
    "tasks": "posbench.explain.samples",
    "pretrained": "posbench.pretrained.command",
    "export": "posbench.pretrained.export",
    "dashboard": "posbench.sharing.dashboard",
}
BROKEN_LIST = "- a\n- b\n"
MINE = "_target_: my_module.Mine\n"
RAISING = """from posbench.encodings.nope import NoPE


class Mine(NoPE):
    def encode(self, a):
        return a.plus(a.gap)
"""
RECORD = "results/local/records/smoke/passkey/rope/seed=0.json"
MOOD = {"mine/encoding/mood.yaml": "_target_: mood.Mood\n"}


@dataclass(frozen=True)
class Input:
    """A command line, and the files that it is about."""

    command: str
    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def _lines(command: str, *lines: str, files: Mapping[str, str] | None = None) -> list[Input]:
    return [Input(command, tuple(line.split()), files or {}) for line in lines]


def _own(content: str, module: str = "", name: str = "mine") -> Input:
    """An encoding of one's own, with this YAML and this module."""
    files = {f"mine/encoding/{name}.yaml": content, "mine/my_module.py": module}
    return Input("posbench", ("--config-dir", "mine", f"encoding={name}"), files)


NEEDY = """from posbench.encodings.nope import NoPE


class Mine(NoPE):
    def __init__(self, num_heads, model_width, strength):
        super().__init__()
"""
UNSET = {
    "mine/task/mine.yaml": """# @package _global_
task:
  _target_: my_module.Mine
training:
  min_length: 1
  max_length: 20
"""
}


INPUTS: list[Input] = [
    *_lines(
        "posbench",
        "method=ropee",
        "logger=csvv",
        "encoding=3",
        "experiment=nope",
        "board=mian",
        "board=main",
        "-m seed=range(0)",
        "~experiment",
        "~board",
        "training.stpes=10",
        "training.steps=0",
        "training.steps=ten",
        "training.stop_at=2",
        "training.learning_rate=[]",
        "training.learning_rate=[1e-3,1e-3]",
        "training.decay=exponential",
        "training.loss_on=prompt",
        "training.max_length=0",
        "training.min_length=99",
        "training.num_examples=3",
        "training.beta1=1.5",
        "training.packing=3",
        "evaluation.multiples=[1,2,2]",
        "evaluation.multiples=[1,-2]",
        "evaluation.ladder=[32,16]",
        "results_dir=",
        "model.dropout=1",
        "model.embedding_std=0",
        "model.rotary_share=2",
        "task.key_length=0",
        "train_positions=64",
        "protocol=gpu",
        "encoding.base=1",
        "method=abacus task=passkey",
        "method=learned evaluation.longest=8 encoding.num_rows=9",
        "method=rope method=alibi",
        "seed=1 seed=2",
        "method=rope encoding=alibi",
        "method=rope_yarn extension=ntk",
        "-m method=rope,alibi encoding=rope",
        "task=passkey.yaml",
        "mine.yaml",
        "method= rope",
        "method = rope",
        "method =rope",
        "method=RoPE",
        "help",
        "seed=range(3)",
        "method=rope,,alibi",
        "+seed=3",
        "--method rope",
        "--seed=3",
        "--tasks list",
        "--frobnicate",
        "--cfg jobb",
        "method=rope --config-dir",
        "-m seed=range(0) method=rope",
        "encoding.base=inf",
        "method=rope_ntk extension.scale=-inf",
        "method=rope_ntk extension.scale=true",
        "training.learning_rate={a:1}",
        "model.qk_norm=1",
        "training.steps='1000'",
        "seed='3'",
        "seed=1.5",
        "training.batch_size=100000000",
        "training.num_examples=100000000000",
        "evaluation.num_samples=100000000000",
        "model.width=1000000000000",
        "training.length_scale=1e9",
        "evaluation.longest=1e12 evaluation.ladder=[]",
        "training.max_length=${training.min_lenth}",
    ),
    Input(
        "posbench",
        ("--config-dir", "mine", "encoding=mine"),
        {"mine/encoding/mine.yml": "_target_: posbench.encodings.nope.NoPE\n"},
    ),
    _own("_target_: posbench.encodings.rope.RoPE\nhead_width: 32\nbase: .nan\nlayout: half\n"),
    _own("_target_: nowhere_at_all.Mine\n"),
    _own(MINE),
    _own(MINE, "import nowhere_at_all\n"),
    _own(MINE, "class Mine:\n    pass\n"),
    _own(MINE, "def broken(:\n"),
    _own("strength: 1\n"),
    _own("strength: [1\n"),
    _own(MINE, RAISING),
    _own(MINE, NEEDY),
    _own(MINE, NEEDY.replace("Mine", "Mien")),
    Input("posbench", ("--config-dir", "mine", "encoding=mine"), {"mine/encoding/mine.yml": MINE}),
    Input("check", ("mine/encoding/mine.yaml",), {"mine/encoding/mine.yml": MINE}),
    Input("posbench", ("--config-dir", "mine", "task=mine"), UNSET),
    Input("catalogue", ("--config-dir", "mine", "encoding=mine"), _own(MINE, RAISING).files),
    _own(BROKEN_LIST),
    _own("just words\n"),
    _own("# nothing yet\n"),
    _own(MINE, name="rope"),
    _own(MINE, name="1"),
    _own(MINE, name="null"),
    Input(
        "posbench",
        ("--config-dir", "mine", "encoding=dice"),
        {"mine/encoding/dice.yaml": "_target_: random.Dice\n", "mine/random.py": ""},
    ),
    *(
        Input(
            "posbench",
            ("--config-dir", "mine", "encoding=mine"),
            {"mine/encoding/mine.yaml": f"_target_: {taken}.Mine\n", f"mine/{taken}.py": ""},
        )
        for taken in ("torch", "posbench")
    ),
    Input("posbench", ("--config-dir", "mine/encoding", "encoding=mood"), MOOD),
    Input("check", ("mine/encoding/rope.yaml",), {"mine/encoding/rope.yaml": MINE}),
    Input("check", ("mine/decay.yaml",), {"mine/decay.yaml": BROKEN_LIST}),
    Input("check", ("mine/decay.yaml",), {"mine/decay.yaml": ""}),
    *_lines(
        "check",
        "nothing.yaml",
        "encoding=ropee",
        "encoding=rope encoding.bse=3",
        "protocol=cpu",
        "--config-dir nowhere method=rope",
    ),
    *_lines("check", "", "rope", "encoding=rope encoding=alibi", "encoding=rope encoding.base=nan"),
    *_lines("status", "method=ropee", "--config-dir nowhere method=rope", "board=mian"),
    *_lines(
        "status", "method=rope method=alibi", "method=rope --seed 3", "method=rope encoding=t5"
    ),
    *_lines("catalogue", "nothing", "encoding=ropee", "--config-dir nowhere rope"),
    *_lines("catalogue", "RoPE", "task=copy", "--output"),
    *_lines(
        "tasks",
        "",
        "passky",
        "passkey --n 0",
        "passkey --n x",
        "passkey --n 8 --seed -1",
        "passkey --n 8 --count 0",
        "copy --n 999999999",
        "copy --n 100 --count 999999999",
        "passkey --n 8 training.steps=nan",
    ),
    *_lines(
        "compare",
        "",
        "nothing.yaml",
        "method=rope --quik",
        "method=rope method=alibi",
        "method=rope seed=x",
        "method=rope --board nothing",
        "method=rope --against nowhere",
        "method=rope encoding.base=nan --no-training",
    ),
    *_lines(
        "explain",
        "",
        "method=ropee",
        "method=rope,alibi,fire",
        "method=rope seed=-1",
        "method=rope training.steps=nan",
    ),
    *_lines(
        "leaderboard",
        "nowhere",
        "--board mian results/local",
        "--config-dir nowhere results/local",
        "results/local",
        "a b",
        "--bord main",
        "nowhere --latex",
    ),
    Input("leaderboard", ("afile",), {"afile": "some text"}),
    Input("leaderboard", (), {RECORD: "not JSON"}),
    Input("leaderboard", (), {RECORD: "{}"}),
    Input("leaderboard", (), {RECORD: "[]"}),
    Input("leaderboard", (), {RECORD: '{"schema_version": 99}'}),
    *_lines("results", "publish --task passkey", "verify nowhere", "publish --to /proc/x"),
    *_lines(
        "results",
        "",
        "colums",
        "bundle",
        "bundle x.tar.gz --method nothere",
        "unpack nowhere",
        "accept nowhere.tar.gz",
        "export nowhere --to x",
        "publish --to x --metod rope",
    ),
    *_lines("claims", "nowhere", "", "a b"),
    *_lines(
        "pretrained",
        "extension=yarnn model=nowhere",
        "model=nowhere",
        "model=nowhere lengths=[1,nan]",
        "model=nowhere lengths=[1] tokens=[5]",
        "model=nowhere questions=0",
        "modle=x",
        "--model x",
        "recipe=nowhere.yaml",
    ),
    *_lines("export", "method=rope", "method=ropee to=x", "method=rope to=x seed=nan", "--to x"),
    *_lines("dashboard", "--preview nowhere", "--saev"),
    *_lines(
        "posbench",
        "method=${oc.env:HOME}",
        "method=../rope",
        "method=rope/",
        "task=.",
        "encoding={a:1}",
        "encoding.base=${seed}",
        "results_dir=[a,b]",
        "+hydra.run.dir=x",
        "hydra.job.chdir=maybe",
        "-m hydra/launcher=nope",
        "--config-path x",
    ),
    Input("posbench", ("",)),
    Input("posbench", ("--config-dir", "", "method=rope")),
    _own("_target_: posbench.encodings.nope.NoPE\nx: &a [*a]\n"),
    _own("_target_: posbench.encodings.nope.NoPE\nx: !!binary aGVsbG8=\n"),
    _own("_target_: posbench.encodings.nope.NoPE\ntrue: 3\n"),
    _own("_target_: posbench.encodings.nope.NoPE\nnull: 3\n"),
    _own("defaults: [mine]\n"),
    _own("# @package _global_\nforce: true\n"),
    *_lines("tasks", "passkey --n -5", "passkey --n nan", "passkey copy --n 8"),
    *_lines("tasks", "passkey seed=1", "passkey encoding=alibi"),
    Input("posbench", (f"training.steps={10**22}",)),
    Input("posbench", (f"training.random_offset={10**22}",)),
    *_lines("check", "task=copy task.foo=3", "/etc/passwd"),
    *_lines("catalogue", "rope,alibi", "../rope"),
    *_lines("explain", "task=passkey,copy", "method=rope length=0"),
    *_lines("status", "board=main part=zzz", "seed=range(a)"),
    *_lines("compare", "method=rope --board ../main", "task=copy"),
    Input("compare", ("method=rope", "--against", "")),
    Input("leaderboard", ("--latex", "", "x")),
    *_lines("results", "verify nowhere --seed -1", "verify nowhere --sample -1", "columns x"),
    Input("results", ("publish", "--to", "")),
    Input("claims", ("x",), {"x/claims.yaml": "- {id: 2020-13-45}\n"}),
    *_lines("pretrained", "model=/dev/null extension=yarn", "recipe=/dev/zero"),
    *_lines("pretrained", "scala=2", "plan", "seed"),
    Input("pretrained", ("recipe=r.yaml",), {"r.yaml": "model: &a [*a]\n"}),
    Input("export", ("method=rope", "to=")),
]


@dataclass
class Answer:
    """What came of an input."""

    status: int
    said: str
    left: tuple[str, ...]
    torch: bool = False


class _TorchAsked(BaseException):
    """torch is about to be imported."""


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Meanwhile importing torch raises; looking for it, as libraries do, does not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "torch.py").write_text("import builtins\nraise builtins.TorchAsked\n")
        builtins.TorchAsked = _TorchAsked  # type: ignore[attr-defined]
        sys.path.insert(0, folder)
        yield
        sys.path.remove(folder)
        importlib.invalidate_caches()


def answer(given: Input) -> Answer:
    """Give the input to its command in a folder of its own."""
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    os.environ.pop("HYDRA_FULL_ERROR", None)
    before, modules, here = list(sys.path), set(sys.modules), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path, content in given.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
        held = _files(folder)
        said = io.StringIO()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = _called(given)
        finally:
            os.chdir(here)
            sys.path[:] = before
            for module in set(sys.modules) - modules:
                if str(getattr(sys.modules[module], "__file__", None)).startswith(name):
                    del sys.modules[module]
        left = tuple(sorted(_files(folder) - held))
        text = said.getvalue().replace(str(folder), "FOLDER").strip()
    return Answer(status, text, left)


def _without_training() -> None:
    from posbench.running import run

    def accepted(*_: Any) -> None:
        print("accepted")

    run.Run.make = accepted  # type: ignore[method-assign]


def _called(given: Input) -> int:
    main = importlib.import_module(MODULES[given.command]).main
    try:
        if given.command != "posbench":
            return int(main(list(given.words)))
        sys.argv = ["posbench", *given.words]
        return int(main())
    except SystemExit as ended:
        return int(ended.code or 0) if not isinstance(ended.code, str) else 1
    except Exception as error:  # what a table of refusals must not hold
        print(f"Traceback: {type(error).__name__}: {error}")
        return -1


def _files(folder: Path) -> set[str]:
    held = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)) for path in held if path.is_file()}


def answers(inputs: Sequence[Input]) -> list[Answer]:
    """Those that come before torch is imported, and then the others."""
    import hydra._internal.hydra  # noqa: F401  (what Hydra imports by itself is no refusal)

    logging.disable(logging.WARNING)
    found: dict[int, Answer] = {}
    with _without_torch():
        for index, given in enumerate(inputs):
            with contextlib.suppress(_TorchAsked):
                found[index] = answer(given)
    left = [index for index in range(len(inputs)) if index not in found]
    if left:
        _without_training()
    for index in left:
        found[index] = answer(inputs[index])
        found[index].torch = True
    return [found[index] for index in range(len(inputs))]


def in_a_process(*lines: str) -> list[Answer]:
    """The answers of a new process, which has not imported torch: to these lines, or to INPUTS."""
    words = [sys.executable, __file__, *lines]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return [Answer(**each) for each in json.loads(done.stdout)]


if __name__ == "__main__":
    asked = sys.argv[1:]  # before a command takes its own words for them
    given = _lines("posbench", *asked) if asked else INPUTS
    print(json.dumps([asdict(each) for each in answers(given)]))
