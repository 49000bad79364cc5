"""Sending in, from end to end: what somebody makes, sends, and somebody else reviews and takes. The
workflow of pull requests looks at bundles and runs nothing of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from making import changed, record, save
from processes import finished

from posbench.records import files
from posbench.sharing import bundle

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
DECAY = """
from posbench.encoding import PositionEncoding


class Decay(PositionEncoding):
    def encode(self, a):
        return a.plus(lambda rows: -a.distance(rows).clamp(min=0).to(a.q.dtype).sqrt()[:, None])
"""


def called(folder: Path, *words: str) -> tuple[int | None, str]:
    """`posbench WORDS` in a process of its own: its exit status, and all that it says."""
    done = finished(folder, *words)
    assert "Traceback" not in done.err, done.err
    return done.status, done.out + done.err


@pytest.mark.slow
def test_a_method_is_sent_reviewed_and_taken(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "mine/encoding").mkdir(parents=True)
    (here / "mine/decay.py").write_text(DECAY)
    (here / "mine/encoding/decay.yaml").write_text("_target_: decay.Decay\n")
    there.mkdir()
    small = ["protocol=smoke", "task=copy"]
    status, said = called(
        here, "sweep", "--config-dir", "mine", "encoding=decay", "seed=0,1", *small
    )
    assert status == 0, said
    path = there / "decay.tar.gz"
    words = ["--config-dir", "mine", "--method", "decay", "--protocol", "smoke"]
    status, said = called(here, "records", "bundle", str(path), *words)
    assert status == 0 and "2 records of decay" in said
    assert "decay.py, encoding/decay.yaml" in said

    accept = ["records", "accept", path.name, "--to", "taken"]
    status, said = called(there, *accept)
    assert status == 0 and "of its runs 2 new" in said and "own/decay.py" in said
    status, said = called(there, *accept, "--show")
    assert status == 0 and DECAY.strip() in said, "the review is of the code itself"
    status, said = called(there, *accept, "--write")
    assert status == 1 and said.endswith("Nothing was written: no record was repeated.\n")
    assert not (there / "taken").exists()
    status, said = called(there, *accept, "--run-code", "--write")
    assert status == 0, said
    assert "1 of 1 exact" in said and "Added to taken, with 1 of 2 records repeated" in said
    taken = files.records(there / "taken")
    assert sorted(each.accepted.repeated for each in taken if each.accepted) == [False, True]
    assert [each.accepted.of for each in taken if each.accepted] == [2, 2]
    status, said = called(there, *accept)
    assert status == 0 and "of its runs 0 new, 0 in the place of others, 2 there already" in said
    status, said = called(there, "board", "taken")
    assert status == 0 and "decay" in (there / "taken/leaderboard.md").read_text()

    found = bundle.unpack(path, tmp_path / "unpacked")
    better = [changed(each, {"rows.0.score": 1.0}) for each in found.records]
    bundle.write(better, [], found.own, path)
    before = (there / "taken/records/copy.jsonl.gz").read_bytes()
    status, said = called(there, *accept, "--run-code", "--write")
    assert status == 1 and "rows.score.0: " in said and "Nothing was written: 0 of 1 exact" in said
    assert (there / "taken/records/copy.jsonl.gz").read_bytes() == before


# -- pull requests ---------------------------------------------------------------------------------


def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((GITHUB / "workflows/bundle.yml").read_text())
    return found


def test_the_workflow_may_write_nothing_and_runs_the_code_of_the_branch_that_is_asked() -> None:
    made = workflow()
    assert made[True] == {"pull_request": {"paths": ["bundles/**"]}}, "`on` is true in YAML"
    assert made["permissions"] == {"contents": "read"}
    (job,) = made["jobs"].values()
    assert not {"permissions", "secrets", "env"} & job.keys()
    base, sent, *rest = job["steps"]
    for step in (base, sent):
        assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", step["uses"])
        assert step["with"]["persist-credentials"] is False
    assert "base.sha" in base["with"]["ref"] and "path" not in base["with"]
    assert (sent["with"]["path"], sent["with"]["sparse-checkout"]) == ("sent", "bundles")
    for step in rest:
        assert "uses" not in step and "${{" not in step["run"], "no text of strangers in a shell"
        assert "--run-code" not in step["run"] and "secrets" not in json.dumps(step)
    targets = re.findall(r"^([^:\s]+):", (ROOT / "Makefile").read_text(), re.M)
    assert rest[0]["run"].startswith("make .venv/.installed ") and "$(VENV)/.installed" in targets


def looked(folder: Path) -> tuple[int, str]:
    """What the last step of the workflow says, where the branch is installed."""
    step = workflow()["jobs"]["look"]["steps"][-1]["run"]
    command = folder / ".venv/bin/posbench"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m posbench "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_workflow_shows_what_is_in_bundles_and_runs_nothing_of_them(tmp_path: Path) -> None:
    sent = tmp_path / "sent/bundles"
    sent.mkdir(parents=True)
    status, said = looked(tmp_path)
    assert status == 1 and "There is no bundle: put the file" in said
    mine, mark = tmp_path / "mine", tmp_path / "was_run"
    (mine / "encoding").mkdir(parents=True)
    (mine / "encoding/decay.yaml").write_text("_target_: decay.Decay\n")
    (mine / "decay.py").write_text(f"open({str(mark)!r}, 'w')\n# ::warning::of a stranger\n")
    save(tmp_path / "local", record("decay"))
    held = files.records(tmp_path / "local")
    bundle.write(held, [], mine, sent / "it is $(touch was_run) mine.tar.gz")
    status, said = looked(tmp_path)
    assert status == 0, said
    assert "decay, cpu: 1 task, 1 seed; of its runs 1 new" in said and "--- own/decay.py" in said
    assert not mark.exists() and not (tmp_path / "results").exists()
    lines = said.splitlines()
    (stop,) = [place for place, line in enumerate(lines) if line.startswith("::stop-commands::")]
    mark_of_log = lines[stop].removeprefix("::stop-commands::")
    assert stop < lines.index("# ::warning::of a stranger") < lines.index(f"::{mark_of_log}::")
    (sent / "another.tar.gz").write_bytes(b"no bundle")
    status, said = looked(tmp_path)
    assert status == 1 and "another.tar.gz is not a readable bundle" in said
    assert "of its runs 1 new" in said, "one that is wrong hides no other"
    marks = [line for line in said.splitlines() if line.startswith("::")]
    assert len(marks) == 2, "the log takes commands again"


def test_the_template_names_commands_and_files_that_are_there() -> None:
    text = (GITHUB / "pull_request_template.md").read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    named = [word for line in re.findall(r"`make ([a-z ]+)`", text) for word in line.split()]
    assert len(named) > 3 and {*named} <= {*targets}
    pages = re.findall(r"[\w/]+\.md", text)
    assert len(pages) > 1 and all((ROOT / page).is_file() for page in pages)
