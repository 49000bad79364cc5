"""One function makes objects: whatever a node says, nothing is called but methods, tasks, loggers.

Each attack would leave a file behind, or a module that nobody asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import pytest
import torch
from omegaconf import OmegaConf

from posbench.base.errors import ConfigError
from posbench.config import blame, folders
from posbench.config.building import BASES, build, class_of
from posbench.config.compose import compose, composing
from posbench.core.encoding import PositionEncoding
from posbench.encodings.nope import NoPE
from posbench.running.subject import call

Answered = Callable[..., tuple[int | None, str, str]]

SHELL = "torch.utils.collect_env.run"
"""Any command of a shell, in a package that is always there."""
GOOD: dict[str, dict[str, Any]] = {
    "encoding": {"_target_": "posbench.encodings.nope.NoPE"},
    "extension": {"_target_": "posbench.extensions.direct.Direct"},
    "task": {"_target_": "posbench.tasks.passkey.Passkey", "num_symbols": 16},
    "logger": {"_target_": "lightning.pytorch.loggers.CSVLogger", "save_dir": "x"},
}


@pytest.mark.parametrize("group", BASES)
def test_a_node_of_each_group_is_built(group: str) -> None:
    bases = [
        f"{cls.__module__}.{cls.__qualname__}" for cls in type(build(GOOD[group], group)).mro()
    ]
    assert BASES[group] in bases


def test_nodes_inside_are_built_the_same_way_and_lists_stay_lists() -> None:
    outer = {"_target_": "posbench.encodings.ssmax.SSMax", "num_heads": 2, "length": 8}
    assert isinstance(build(outer | {"host": GOOD["encoding"]}, "encoding").host, NoPE)
    tuned = build(
        {
            "_target_": "posbench.extensions.tuned.Tuned",
            "make": {"_target_": "posbench.extensions.abf.ABF", "_partial_": True},
            "knobs": {"factor": [2, 4]},
        },
        "extension",
    )
    assert tuned.knobs == {"factor": [2, 4]} and type(tuned.knobs["factor"]) is list
    assert tuned.make.keywords == {} and tuned.make.func is type(tuned.extension)


TARGETS = {
    "a function of torch that asks a shell": SHELL,
    "a module that acts when it is imported": "antigravity.fly",
    "a function of Python": "os.system",
    "a builtin": "builtins.exec",
    "a class that starts programs": "subprocess.Popen",
    "a class of no kind": "pathlib.Path",
    "Hydra's own": "hydra.utils.instantiate",
    "a function of posbench": "posbench.config.source_hash.located",
    "a class of posbench that is no method": "posbench.base.disk.Path",
    "another class of posbench": "posbench.config.record_command.Command",
    "a module as a name": "posbench.config.modules.ast",
    "what a module of posbench imports": "posbench.config.building.importlib.import_module",
    "what every module has": "posbench.core.attention.__builtins__.exec",
    "its loader": "posbench.core.attention.__loader__",
    "a module that runs posbench": "posbench.__main__.main",
    "a method of a class": "posbench.encodings.nope.NoPE.load_state_dict",
    "the classes below a class": "posbench.encodings.nope.NoPE.__subclasses__",
    "a class of Lightning that is no logger": "lightning.pytorch.Trainer",
    "what a module of loggers imports": "lightning.pytorch.loggers.wandb.os.system",
    "what is resolved again": f"${{oc.decode:{SHELL}}}",
    "a part that is resolved again": "posbench.${oc.decode:disk}.atomically",
    "letters that look the same": "\uff50osbench.encodings.nope.NoPE",
    "a line after the name": "posbench.encodings.nope.NoPE\nx",
    "no module": ".system",
    "a path": "../evil.Mine",
    "an empty part": "posbench..NoPE",
}


@pytest.mark.parametrize("group", BASES)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_is_no_class_of_its_kind_is_neither_imported_nor_called(
    target: str, group: str, tmp_path: Path
) -> None:
    sys.modules.pop("antigravity", None)
    mark = tmp_path / "mark"
    evil = {"_target_": target, "command": f"touch {mark}", "args": ["touch", str(mark)]}
    hidden = [
        evil,
        GOOD[group] | {"num_symbols": evil},
        GOOD[group] | {"layers": [GOOD["encoding"], evil]},
        GOOD[group] | {"deep": {"deeper": [[evil]]}},
        GOOD[group] | {"make": evil | {"_partial_": True}},
        {"_target_": "posbench.encodings.ssmax.SSMax", "num_heads": 2, "length": 8, "host": evil},
        {"_target_": "posbench.extensions.both.Both", "first": evil, "second": evil},
    ]
    for node in hidden:
        with pytest.raises(ConfigError, match=rf"^{group}") as refused:
            build(node, group)
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
    assert not mark.exists() and "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("group", "node", "said"),
    [
        ("encoding", {"_target_": "antigravity.fly"}, "antigravity is no module of posbench, nor"),
        ("encoding", {"_target_": "sys.exit"}, "sys is no module of posbench, nor of a folder"),
        ("encoding", GOOD["task"], "Passkey must subclass posbench.encoding.PositionEncoding"),
        ("extension", GOOD["logger"], "lightning.pytorch.loggers is no module of posbench"),
        ("logger", GOOD["encoding"], "posbench.encodings.nope.NoPE must subclass "),
        ("task", {"_target_": "posbench.tasks.nowhere.X"}, "No module named 'posbench.tasks.now"),
        (
            "task",
            {"_target_": "posbench.tasks.copy.Copi"},
            "posbench.tasks.copy has no Copi (tasks/copy.py has Copy; did you mean Copy?)",
        ),
        ("task", {"_target_": ["a.b"]}, "_target_ ['a.b'] names no class: write MODULE.CLASS"),
        ("task", GOOD["task"] | {"_args_": [3]}, "'_args_' is no setting"),
        ("task", GOOD["task"] | {"_convert_": "all"}, "'_convert_' is no setting"),
        ("task", GOOD["task"] | {"_partial_": True}, "_partial_ makes no task: leave it out"),
        ("task", GOOD["task"] | {3: 4}, "3 is no setting"),
        ("task", GOOD["task"] | {"${x}": 4}, "is not resolved again: write the value itself"),
        (
            "encoding",
            {"_target_": "posbench.encodings.alibi.ALiBi"},
            "ALiBi needs num_heads, whi",
        ),
        ("encoding", GOOD["encoding"] | {"x": 1}, "NoPE has no setting 'x'; it takes none"),
    ],
)
def test_the_sentence_says_what_was_expected(group: str, node: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build(node, group)
    assert str(refused.value).startswith(group) and said in str(refused.value)


# -- folders of others -----------------------------------------------------------------------------

ENCODING = "from posbench.encodings.nope import NoPE\nclass Mine(NoPE):\n    pass\n"


def test_a_class_of_ones_own_is_imported_from_a_folder_that_was_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_nobody.py").write_text("raise SystemExit('was imported')\n")
    (tmp_path / "mine/package").mkdir(parents=True)
    (tmp_path / "mine/of_builder.py").write_text(ENCODING)
    (tmp_path / "mine/package/inside.py").write_text(ENCODING)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="named_by_nobody is no module of posbench, nor of a"):
        class_of("named_by_nobody.Mine", "encoding")
    with pytest.raises(ConfigError, match="No module named 'of_builder'"):
        class_of("of_builder.Mine", "encoding")
    with folders.importable([tmp_path / "mine"]):
        for target in ("of_builder.Mine", "package.inside.Mine"):
            assert isinstance(build({"_target_": target}, "encoding"), NoPE)
        with pytest.raises(
            ConfigError, match=r"has no Mien \(.*mine/of_builder.py has Mine; did you mean"
        ):
            class_of("of_builder.Mien", "encoding")
        with pytest.raises(ConfigError, match=r"of_builder\.NoPE is no module of posbench"):
            class_of("of_builder.NoPE.mro", "encoding")
    with pytest.raises(ConfigError, match="is no module of posbench"):
        class_of("of_builder.Mine", "encoding")


def test_a_folder_that_holds_an_environment_names_nothing_of_that(tmp_path: Path) -> None:
    site = tmp_path / ".venv/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (site / "installed_there.py").write_text("raise SystemExit('was imported')\n")
    with folders.importable([tmp_path]), pytest.raises(ConfigError, match=r"^encoding: "):
        class_of("installed_there.Mine", "encoding")


@pytest.mark.parametrize("name", ["colorsys", "posbench", "posbench/tasks"])
def test_a_module_with_the_name_of_another_is_not_taken_for_it(name: str, tmp_path: Path) -> None:
    """The other is found first, or has been imported."""
    __import__("colorsys")
    file = tmp_path / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit('was imported')\n")
    with folders.importable([tmp_path]), pytest.raises(ConfigError, match=r"^encoding: "):
        class_of(f"{name.replace('/', '.')}.Mine", "encoding")


GLOBAL = "# @package _global_\n"
TASK = "task: {_target_: posbench.tasks.passkey.Passkey, num_symbols: 16}\n"
LENGTHS = "training: {min_length: 8, max_length: 20, steps: 5}\n"
CALLBACK = f"{{_target_: {SHELL}, command: touch MARK}}"
FILES: dict[str, tuple[dict[str, str], str, str]] = {
    "callbacks": (
        {"task/evil.yaml": GLOBAL + TASK + LENGTHS + f"hydra: {{callbacks: {{x: {CALLBACK}}}}}\n"},
        "task=evil",
        "task/evil.yaml sets hydra, which is the user's own",
    ),
    "callbacks by an anchor and a merge": (
        {
            "task/evil.yaml": GLOBAL + TASK + LENGTHS + f"a: &a {{hydra: {{callbacks: {{x: "
            f"{CALLBACK}}}}}}}\n<<: *a\n"
        },
        "task=evil",
        "task/evil.yaml sets hydra, ",
    ),
    "callbacks by a quoted key": (
        {
            "task/evil.yaml": GLOBAL
            + TASK
            + LENGTHS
            + f'"hy\\x64ra": {{callbacks: {{x: {CALLBACK}}}}}\n'
        },
        "task=evil",
        "task/evil.yaml sets hydra, ",
    ),
    "callbacks by a package": (
        {"encoding/evil.yaml": f"# @package hydra.callbacks\nx: {CALLBACK}\n"},
        "encoding=evil",
        "encoding/evil.yaml sets hydra.callbacks.x, ",
    ),
    "callbacks by a package below the whole": (
        {"encoding/evil.yaml": f"# @package _global_.hydra.callbacks\nx: {CALLBACK}\n"},
        "encoding=evil",
        "encoding/evil.yaml sets hydra.callbacks.x, ",
    ),
    "callbacks by a choice elsewhere": (
        {
            "encoding/evil.yaml": "defaults: ['/encoding/x@hydra.callbacks.x': more]\n"
            "_target_: posbench.encodings.nope.NoPE\n",
            "encoding/x/more.yaml": f"_target_: {SHELL}\ncommand: touch MARK\n",
        },
        "encoding=evil",
        "'/encoding/x@hydra.callbacks.x' in its defaults",
    ),
    "callbacks by a choice of everything": (
        {
            "encoding/evil.yaml": "defaults: ['/encoding@_global_': more]\n"
            "_target_: posbench.encodings.nope.NoPE\n",
            "encoding/more.yaml": f"hydra: {{callbacks: {{x: {CALLBACK}}}}}\n",
        },
        "encoding=evil",
        "'/encoding@_global_', for example hydra, in its defaults",
    ),
    "callbacks by a file without a group": (
        {
            "task/evil.yaml": GLOBAL + "defaults: [/more]\n" + TASK + LENGTHS,
            "more.yaml": f"hydra: {{callbacks: {{x: {CALLBACK}}}}}\n",
        },
        "task=evil",
        "more.yaml sets hydra, ",
    ),
    "a launcher in the place of Hydra's": (
        {"hydra/launcher/basic.yaml": f"_target_: {SHELL}\ncommand: touch MARK\n"},
        "task=copy",
        "hydra/launcher/basic.yaml is not read, because Hydra calls what it names",
    ),
    "a launcher by a choice": (
        {"task/evil.yaml": GLOBAL + "defaults: [override /hydra/launcher: x]\n" + TASK + LENGTHS},
        "task=evil",
        "'override /hydra/launcher' in its defaults",
    ),
    "a logger": (
        {"task/evil.yaml": GLOBAL + TASK + LENGTHS + f"logger: {CALLBACK}\n"},
        "task=evil",
        "task/evil.yaml sets logger, which is the user's own, as it says where curves are sent",
    ),
    "a logger by a choice": (
        {"experiment/evil.yaml": GLOBAL + "defaults: [override /logger: wandb]\n"},
        "experiment=evil",
        "'override /logger' in its defaults",
    ),
    "a folder to write in": (
        {"protocol/evil.yaml": GLOBAL + "defaults: [cpu]\nresults_dir: MARK\n"},
        "protocol=evil",
        "protocol/evil.yaml sets results_dir, ",
    ),
    "a job": (
        {"experiment/evil.yaml": GLOBAL + "job: {sweep: x, runs: [[task=copy]]}\n"},
        "experiment=evil",
        "experiment/evil.yaml sets job, ",
    ),
    "a key in the record": (
        {"task/evil.yaml": GLOBAL + TASK + LENGTHS + "definition: ${oc.env:SECRET_KEY}\n"},
        "task=evil",
        "task/evil.yaml sets definition, ",
    ),
    "a key in a setting": (
        {"encoding/evil.yaml": "_target_: posbench.encodings.nope.NoPE\nx: ${oc.env:SECRET_KEY}\n"},
        "encoding=evil",
        "encoding.x: ${oc.env:SECRET_KEY} is not read, because a record shows its settings",
    ),
    "a key behind two functions": (
        {
            "encoding/evil.yaml": "_target_: posbench.encodings.nope.NoPE\n"
            "x: \"${oc.decode:'${oc.env:SECRET_KEY}'}\"\n"
        },
        "encoding=evil",
        "is not read, because a record shows its settings to others",
    ),
    "a path of the machine": (
        {"encoding/evil.yaml": "_target_: posbench.encodings.nope.NoPE\nx: ${hydra:runtime.cwd}\n"},
        "encoding=evil",
        "${hydra:runtime.cwd} is not read",
    ),
    "a file outside": (
        {
            "encoding/evil.yaml": "defaults: ['/encoding@host': ../../outside]\n"
            "_target_: posbench.encodings.ssmax.SSMax\n",
            "../outside.yaml": "_target_: posbench.encodings.nope.NoPE\n",
        },
        "encoding=evil",
        "leads out of ",
    ),
    "a tag of Python": (
        {"encoding/evil.yaml": "_target_: !!python/object/apply:os.system ['touch MARK']\n"},
        "encoding=evil",
        "could not determine a constructor for the tag",
    ),
    "an escaped interpolation": (
        {"encoding/evil.yaml": f"_target_: '\\${{oc.decode:{SHELL}}}'\ncommand: touch MARK\n"},
        "encoding=evil",
        "is not resolved again: write the value itself",
    ),
    "an escaped interpolation inside": (
        {
            "encoding/evil.yaml": "_target_: posbench.encodings.ssmax.SSMax\nnum_heads: 2\n"
            f"length: 8\nhost: {{_target_: '\\${{oc.decode:{SHELL}}}', command: touch MARK}}\n"
        },
        "encoding=evil",
        "encoding.host._target_ holds ",
    ),
    "a target that the text hides": (
        {
            "encoding/evil.yaml": '"_targ\\x65t_": colorsys.Mine\n',
            "colorsys.py": "open('MARK', 'w')\n",
        },
        "encoding=evil",
        "because Python takes another module than ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("files", "word", "said"), FILES.values(), ids=FILES)
def test_yaml_of_others_calls_nothing_reads_nothing_and_sets_nothing_of_the_users(
    files: dict[str, str],
    word: str,
    said: str,
    answered: Answered,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    __import__("colorsys")
    monkeypatch.setenv("SECRET_KEY", "0123456789abcdef")
    mark = tmp_path / "mark"
    for name, text in files.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("MARK", str(mark)))
    words = [word] if word.startswith("protocol=") else ["protocol=smoke", word]
    for several in ([], ["-m"]):
        status, out, err = answered("--config-dir", "mine", *several, *words)
        assert status == 1 and err.startswith("posbench: ") and err.count("\n") == 1, err
        assert said in (out + err if several else err)
        assert "0123456789" not in out + err and not mark.exists()
        assert several or not (tmp_path / "results").exists()


def test_hydra_itself_may_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH_OF_MINE", "there")
    with composing():
        words = ["hydra.sweep.dir='${oc.env:SCRATCH_OF_MINE}'", "hydra.run.dir='${oc.env:NO,here}'"]
        cfg = hydra.compose("config", words, return_hydra_config=True)
        assert (cfg.hydra.sweep.dir, cfg.hydra.run.dir) == ("there", "here")
        with pytest.raises(Exception, match="is not read, because a record shows its settings"):
            OmegaConf.to_container(compose("results_dir='${oc.env:HOME}'").cfg(), resolve=True)


def test_two_usual_mistakes_are_told_with_what_to_do() -> None:
    def of(act: Callable[[], object]) -> str:
        with pytest.raises(AttributeError) as caught:
            act()
        return blame.told(caught.value)

    a = call(4)
    assert of(lambda: a.distence).endswith("no attribute 'distence': did you mean distance?")
    assert of(lambda: a.zzz).endswith("no attribute 'zzz'")
    unmade = PositionEncoding.__new__(PositionEncoding)
    said = of(lambda: setattr(unmade, "slope", torch.nn.Parameter(torch.ones(1))))
    assert said.endswith("before Module.__init__() call: call super().__init__() first")
    assert of(lambda: [*unmade.parameters()]).endswith(": call super().__init__() first")

    class Unlisted:
        def __dir__(self) -> list[str]:
            raise ValueError

    assert of(lambda: Unlisted().zzz).endswith("no attribute 'zzz'")  # type: ignore[attr-defined]
