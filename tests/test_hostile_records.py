"""Records that are broken, or that somebody wrote to do harm: each is named, the rest is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boards import contents, seeds
from making import altered, changed, record, save, view

from posbench.leaderboard import command as leaderboard
from posbench.records import files, published

EVIL = "</script><img src=x onerror=alert(1)>"
GOOD = record("rope", {1: 1.0, 2: 0.5}).as_json()


def with_values(**values: Any) -> str:
    places = {name.replace("__", "."): value for name, value in values.items()}
    content = altered(record("rope"), dict.fromkeys(places, 0))
    for place, value in places.items():
        *path, last = [int(word) if word.isdigit() else word for word in place.split(".")]
        part: Any = content
        for word in path:
            part = part[word]
        part[last] = value
    return json.dumps(content)


def binned() -> str:
    content = record("rope").as_json()
    made = view("depth", 10, (0.0, 0.5, 5, 1.0, 0.1), (0.5, 1.0, 5, 1.0, 0.1))
    content["views"] = [made.model_dump(mode="json") | {"loss": [0.1]}]
    return json.dumps(content)


BROKEN: dict[str, tuple[Callable[[], str], str]] = {
    "truncated": (lambda: json.dumps(GOOD)[:400], "not a readable record"),
    "empty": (lambda: "", "not a readable record"),
    "a part missing": (
        lambda: json.dumps(GOOD | {"config": {**GOOD["config"], "evaluation": None}}),
        "is no valid record (config: lacks evaluation): ",
    ),
    "a name that leads elsewhere": (
        lambda: with_values(task__name="../copy"),
        "is no valid record (task.name: '../copy' cannot be the name of a file",
    ),
    "a command of another program": (
        lambda: with_values(command="rm -r posbench"),
        "is no valid record (command: 'rm -r posbench' is no command python -m MODULE WORDS)",
    ),
    "a command of another module": (
        lambda: with_values(command="python -m pip install evil"),
        "'python -m pip install evil' makes no record: those that do are of posbench and ",
    ),
    **{
        f"a command with {word}": (
            lambda word=word: with_values(command=f"python -m posbench method=rope {word}"),
            "is not the command of a record, because of ",
        )
        for word in (
            "+hydra.callbacks.x._target_=torch.utils.collect_env.run",
            "hydra.run.dir=x",
            "hydra/launcher=slurm",
            "logger=wandb",
            "logger._target_=os.system",
            "results_dir=/tmp/x",
            "definition=0",
            "job.sweep=x",
            "trainer.threads=2",
            "++task.x=1",
            "~task",
            "--config-dir",
            "force=true",
        )
    },
    "a definition that is no hash": (
        lambda: with_values(definition="wandb key: hunter2"),
        "definition: string should match pattern",
    ),
    "a command with an open quotation mark": (
        lambda: with_values(command="python -m posbench 'method=rope"),
        'method=rope" is no command python -m MODULE WORDS)',
    ),
    "a list": (lambda: "[1, 2]", "record schema None"),
    "not a number": (lambda: with_values(rows__0__score=float("nan")), "NaN is no number of JSON"),
    "infinite": (
        lambda: with_values(rows__1__multiple=2).replace('"multiple": 2,', '"multiple": 1e999,'),
        "multiple",
    ),
    "a count beyond all tables": (lambda: with_values(rows__0__num_tokens=10**40), "num_tokens"),
    "a chance of 1": (lambda: with_values(rows__0__chance=1.0), "chance"),
    "a length twice": (
        lambda: with_values(rows__1__test_length=10),
        "a test length is there twice",
    ),
    "bins that do not fit": (binned, "unlike length"),
    "another schema": (lambda: with_values(schema_version=3), "record schema 3"),
    "a newer schema": (lambda: with_values(schema_version=99), "upgrade posbench"),
    "nested": (lambda: "[" * 200_000, "nested too deeply"),
    "huge": (lambda: " " * (files.LARGEST + 1), "bytes are more than it can have"),
    "something else": (lambda: "\x00\xff\x7fELF", "not a readable record"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of good records alone."""
    folder = tmp_path_factory.mktemp("alone")
    save(folder, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    assert leaderboard.main([str(folder)], emit=lambda line: None) == 0
    return folder


def test_each_broken_record_is_named_and_the_others_make_the_page(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    paths = {}
    for number, (name, (content, _)) in enumerate(BROKEN.items()):
        paths[name] = files.record_path(tmp_path, "cpu", "copy", "rope", number)
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_text(content(), encoding="utf-8")
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(BROKEN) and all(
        line.startswith("posbench: left out: ") for line in said
    )
    for name, (_, reason) in BROKEN.items():
        [line] = [line for line in said if f"{paths[name]} " in line]
        assert reason in line, name
    assert contents(tmp_path) == contents(alone)


def test_a_broken_line_of_published_records_is_named_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.publish(seeds("alibi", [{1: 1.0, 2: 0.5}]), [], tmp_path)
    path = tmp_path / "records/copy.jsonl"
    good = path.read_text(encoding="utf-8")
    bad = ("[" * 100_000, good.strip()[:-20], '{"loss": NaN}', "x" * (files.LARGEST + 1))
    path.write_text(good + "".join(f"{line}\n" for line in bad), encoding="utf-8")
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err.splitlines()
    assert [f"{path}, line {number} " in line for number, line in enumerate(said, start=2)] == [
        True
    ] * len(bad)
    assert "alibi" in (tmp_path / "leaderboard.html").read_text(encoding="utf-8")


def test_a_run_that_is_there_twice_is_remarked_upon_and_counts_once(tmp_path: Path) -> None:
    save(tmp_path, record("rope", {1: 1.0, 2: 0.5}))
    content = record("rope", {1: 1.0, 2: 0.7}).as_json()
    path = files.record_path(tmp_path, "cpu", "copy", "rope", 0).with_name("seed=0.0123.json")
    path.write_text(json.dumps(content), encoding="utf-8")
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    text, page, *_ = (each.decode() for each in contents(tmp_path))
    for shown in (text, page):
        assert "1 record repeats a run that is there already" in shown
    assert "1 remark" in page or "remarks" in page


def test_no_text_of_a_record_becomes_markup(tmp_path: Path) -> None:
    """Wherever the page shows what a record says: as text, and inside the data."""
    name = f"rope (a={EVIL})"
    made = record(name, {1: 1.0, 2: 0.5}, task=f"copy (b={EVIL})", protocol=f"cpu (c={EVIL})")
    evil = changed(
        made,
        {
            "command": f"python -m posbench 'task={EVIL}'",
            "measure": EVIL,
            "method_class": EVIL,
            "training.commit": EVIL,
            "training.device": EVIL,
            "training.versions": {EVIL: EVIL},
            "method.encoding": EVIL,
            "method.extension": EVIL,
            "config.encoding": {"_target_": f"posbench.encodings.rope.{EVIL}", EVIL: EVIL},
        },
    )
    save(tmp_path, evil)
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    page = (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2
    assert "&lt;img src=x" in page and "\\u003cimg src=x" in page
