"""What is installed is what was locked; and the built wheel works away from the source tree: in a
clean environment, from an empty directory.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
OF_TORCH = re.compile(r"(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==")
"""PyTorch and what it brings, whose files differ from index to index."""


def pins(name: str) -> list[str]:
    """The lines of a list of versions that name one."""
    lines = (ROOT / name).read_text().splitlines()
    return [line.removesuffix("\\").strip() for line in lines if not line.startswith("    ")]


def test_the_lock_has_all_pins_but_those_of_torch_and_a_hash_for_each() -> None:
    wanted = [pin for pin in pins("constraints.txt") if not OF_TORCH.match(pin)]
    assert sorted(pins("requirements.lock")) == sorted(wanted) and len(wanted) > 100
    text = (ROOT / "requirements.lock").read_text()
    one = r"[a-z0-9-]+==[^\\\n]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(f"(?:{one})+", text), "and names no place to fetch it from"


def test_what_is_pinned_is_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned: dict[str, list[str]] = {}
    for pin in map(Requirement, pins("constraints.txt")):
        [version] = pin.specifier
        pinned.setdefault(pin.name, []).append(version.version)
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for each in map(Requirement, asked):
        if each.name != "posbench":  # with extras of its own
            assert all(map(each.specifier.contains, pinned[each.name])), each


def test_an_index_for_torch_is_asked_for_torch_alone() -> None:
    words = ["--dry-run", "--always-make", "VENV=none", "TORCH_INDEX=https://torch.example"]
    command = ["make", *words, "none/.installed"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [line] = [line for line in said.splitlines() if "torch.example" in line]
    assert line.endswith("install --index-url https://torch.example torch -c constraints.txt")
    assert "extra-index-url" not in said


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment of its own that holds the wheel and sees the requirements, but not the
    editable posbench.
    """
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # A plain path is searched, but its own .pth files, that of the editable install among them, are
    # not obeyed.
    (Path(place) / "requirements.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
        check=True,
    )
    return python


@pytest.mark.slow
def test_the_wheel_holds_code_and_configuration_and_nothing_else(wheel: Path) -> None:
    held = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("posbench-")]
    plugin = "hydra_plugins/posbench_sweeper/"
    assert all(name.startswith(("posbench/", plugin)) for name in held)
    assert {f"{plugin}__init__.py", f"{plugin}_slurm.py"} <= set(held)
    for folder, pattern, inside in (
        ("conf", "**/*.yaml", "conf"),
        ("tasks", "*.py", "tasks"),
        ("posbench", "**/*.py", ""),
    ):
        for path in (ROOT / folder).glob(pattern):
            name = Path("posbench", inside, path.relative_to(ROOT / folder)).as_posix()
            name = name.replace("posbench/sweeping/plugin/", plugin)
            assert name in held, f"{name} is not in the wheel"
    assert {
        "posbench/py.typed",
        *(path.relative_to(ROOT).as_posix() for path in (ROOT / "posbench").rglob("*.j2")),
        *(f"posbench/boards/leaderboard.{kind}" for kind in ("css", "js")),
        "posbench/explain/sketches.jsonl",
    } <= set(held)


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_directory(python: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [python, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = run("-c", "import posbench; print(posbench.__file__)")
    assert str(ROOT) not in where
    run("-m", "posbench", "protocol=smoke", "method=rope_ntk")
    assert (tmp_path / "results/local/records/smoke/passkey/rope_ntk/seed=0.json").exists()
    assert "rope_ntk" in run("-m", "posbench", "board")
    assert (tmp_path / "results/local/leaderboard.html").exists()

    conf = tmp_path / "my_conf"
    for folder in ("encoding", "method"):
        (conf / folder).mkdir(parents=True)
    (conf / "mine.py").write_text(
        "from posbench.encoding import PositionEncoding\n\n\nclass Mine(PositionEncoding):\n    "
        "pass\n"
    )
    (conf / "encoding" / "mine.yaml").write_text("_target_: mine.Mine\n")
    (conf / "method" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /encoding: mine\n"
    )
    run("-m", "posbench", "--config-dir", "my_conf", "method=mine", "protocol=smoke")
    assert (tmp_path / "results/local/records/smoke/passkey/mine/seed=0.json").exists()
