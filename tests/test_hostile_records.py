"""Records that are broken, or that somebody wrote to do harm: each is named, the rest is shown."""

from __future__ import annotations

import base64
import csv
import errno
import functools
import gzip
import hashlib
import html
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boards import contents, seeds
from latex2mathml.converter import convert
from making import altered, changed, record, save, view
from markdown_it import MarkdownIt
from markdown_it.token import Token

import posbench
from posbench.base import disk
from posbench.base.errors import ConfigError, PosbenchError, Unwritable
from posbench.boards import command as leaderboard
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.page import about
from posbench.config.compose import compose, composing
from posbench.config.identity import identify
from posbench.config.names import as_file_name, as_text, in_a_line
from posbench.config.record_command import Command
from posbench.records import files, published
from posbench.records.record import Record
from posbench.sharing import dataset
from posbench.showing.pages import inline, mathml, policy
from posbench.showing.table import Line, Table, code, paragraph, plain

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
    "a part missing": (
        lambda: json.dumps(GOOD | {"config": {**GOOD["config"], "evaluation": None}}),
        "is no valid record (config: lacks evaluation): ",
    ),
    **{
        f"settings of which {place} is {value!r:.20}": (
            lambda place=place, value=value: with_values(**{f"config__{place}": value}),
            reason,
        )
        for place, value, reason in (
            ("model", None, "model is no section of settings"),
            ("model", {"loops": "x"}, "model.loops is no whole number"),
            ("training", 5, "training is no section of settings"),
            ("sources", 5, "sources is no section of settings"),
            ("sources", {"training": 5}, "sources names no modules"),
            ("sources", {"training": ".".join(["a"] * 5000)}, "sources names no modules"),
            ("nested", functools.reduce(lambda below, _: [below], range(900), 1), "64 deep"),
        )
    },
    "a step beyond all tables": (lambda: with_values(solved_step=10**60), "solved_step"),
    "seconds below 0": (lambda: with_values(training__cpu_seconds=-1.0), "training.cpu_seconds"),
    "no replica": (lambda: with_values(training__replicas=0), "training.replicas"),
    "sums by text of a length without a test": (
        lambda: with_values(
            by_text={
                "names": ["a"],
                "tests": [{"test_length": 9999, "tokens": [1], "nats": [1.0], "right": [1]}],
            }
        ),
        "by_text has a length that was not tested",
    ),
    "multiplications beyond all tables": (
        lambda: with_values(training__multiplications=10**60),
        "multiplications",
    ),
    "a command of another program": (
        lambda: with_values(command="rm -r posbench"),
        "is no valid record (command: 'rm -r posbench' is no command python -m posbench WORDS",
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
        'method=rope" is no command python -m posbench WORDS',
    ),
    "not a number": (lambda: with_values(rows__0__score=float("nan")), "NaN is no number of JSON"),
    "infinite": (
        lambda: with_values(rows__1__multiple=2).replace('"multiple": 2,', '"multiple": 1e999,'),
        "multiple",
    ),
    "infinite settings": (
        lambda: with_values(config__encoding__base=2).replace('"base": 2', '"base": 1e999'),
        "has a number that is not finite",
    ),
    "a count beyond all tables": (lambda: with_values(rows__0__num_tokens=10**40), "num_tokens"),
    "a chance of 1": (lambda: with_values(rows__0__chance=1.0), "chance"),
    "a length twice": (
        lambda: with_values(rows__1__test_length=10),
        "a test length is there twice",
    ),
    "bins that do not fit": (binned, "unlike length"),
    "nested": (lambda: "[" * 200_000, "nested too deeply"),
    "huge": (lambda: " " * (files.LARGEST + 1), "bytes are more than it can have"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of good records alone."""
    folder = tmp_path_factory.mktemp("alone")
    save(folder, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    assert leaderboard.main([str(folder)], emit=lambda line: None) == 0
    return folder


@pytest.mark.slow
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


@pytest.mark.slow
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


# -- files that are none ---------------------------------------------------------------------------


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        before = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is a short one
        try:
            opened.bind(path.name)
        finally:
            os.chdir(before)


def _link_to(target: str) -> Callable[[Path], None]:
    def link(path: Path) -> None:
        (path.parent / "private").write_text(SECRET, encoding="utf-8")
        path.symlink_to(target)

    return link


SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----"
NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (_link_to("private"), "it is a link"),
    "a dead link": (lambda path: path.symlink_to("nowhere"), "it is a link"),
    "a link to itself": (lambda path: path.symlink_to(path), "it is a link"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is a link"),
    "a folder": (Path.mkdir, "it is a folder"),
    "a pipe": (os.mkfifo, "it is a pipe"),
    "a socket": (_socket, "it is a socket"),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff\xfe{}"), "can't decode byte 0xff"),
}


@pytest.mark.slow
@pytest.mark.fault("a record that is a link, a folder, a pipe, a socket, or not UTF-8", times=8)
def test_a_record_that_is_no_file_is_named_and_the_others_make_the_page(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    paths = {}
    for number, (name, (make, _)) in enumerate(NO_FILES.items()):
        paths[name] = files.record_path(tmp_path, "cpu", "copy", "rope", number)
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        make(paths[name])
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == len(NO_FILES) and SECRET not in said
    for name, (_, reason) in NO_FILES.items():
        [line] = [line for line in said.splitlines() if f"{paths[name]} " in line]
        assert line.startswith("posbench: left out: ") and reason in line, name
    assert contents(tmp_path) == contents(alone)


@pytest.mark.slow
@pytest.mark.fault("an about.md that is a link, a folder, a pipe, a socket, or not UTF-8", times=8)
def test_what_a_folder_says_of_itself_is_read_from_a_file_alone(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (name, (make, reason)) in enumerate(NO_FILES.items()):
        folder = tmp_path / str(number)
        save(folder, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
        make(folder / "about.md")
        paragraphs, [sentence] = about(folder)
        assert not paragraphs and f"{folder}/about.md is not read" in sentence, name
        assert reason in sentence, name
        if name not in ("a link", "a pipe", "not UTF-8"):  # a page and a site take seconds
            continue
        assert leaderboard.main([str(folder)], emit=lambda line: None) == 1, name
        said = capsys.readouterr().err
        assert said.startswith(f"posbench: left out: {folder}/about.md ") and reason in said, name
        assert said.count("\n") == 1 and contents(folder) == contents(alone), name
        made = dataset.write_site(files.read_folder(folder), folder, tmp_path / f"site {number}")
        assert not any(SECRET in path.read_text() for path in made), name


@pytest.mark.fault(
    "a file of published lines that is a link, a folder, a pipe or a socket", times=14
)
def test_published_lines_that_are_no_file_are_named_and_stop_nothing(tmp_path: Path) -> None:
    no_files = {name: made for name, made in NO_FILES.items() if name != "not UTF-8"}
    for number, (name, (make, reason)) in enumerate(no_files.items()):
        for file in ("records/sort.jsonl.gz", "audits.jsonl"):
            folder = tmp_path / f"{number}-{file[0]}"
            published.publish([record("rope")], [], folder)
            make(folder / file)
            held = files.read_folder(folder)
            assert [each.method.name for each in held.records] == ["rope"], name
            (said,) = held.unreadable
            assert said.startswith(f"{folder / file} cannot be read ") and reason in said, name


# -- where pages go --------------------------------------------------------------------------------

PAGES = ("leaderboard.csv", "leaderboard.html", "leaderboard.md", "runs.csv")


@pytest.mark.slow
@pytest.mark.fault("links where pages are written", times=4)
def test_a_page_takes_the_place_of_a_link_and_what_that_leads_to_stays(
    alone: Path, tmp_path: Path
) -> None:
    folder, others = tmp_path / "results", tmp_path / "others"
    others.mkdir()
    save(folder, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    for name in PAGES:
        (others / name).write_text("of somebody else\n")
        (folder / name).symlink_to(others / name)
    assert leaderboard.main([str(folder)], emit=lambda line: None) == 0
    assert contents(folder) == contents(alone)
    for name in PAGES:
        assert (others / name).read_text() == "of somebody else\n"
        assert not (folder / name).is_symlink()


def test_a_folder_of_pages_that_is_a_link_is_not_written_into(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "copy.md").write_text("of somebody else\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "results/tasks").symlink_to(other)
    with pytest.raises(Unwritable, match="results/tasks is a link, and nothing is written through"):
        disk.write_whole(tmp_path / "results/tasks/copy.md", "ours", tmp_path / "results")
    assert (other / "copy.md").read_text() == "of somebody else\n"
    disk.write_whole(tmp_path / "results/copy.md", "ours", tmp_path / "results")


def test_nothing_is_published_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/copy.jsonl.gz").write_text("of somebody else\n")
    (tmp_path / "to/records").mkdir(parents=True)
    (tmp_path / "to/records/copy.jsonl.gz").symlink_to(tmp_path / "other/copy.jsonl.gz")
    with pytest.raises(OSError, match="it is a link"):
        published.write([record()], [], tmp_path / "to")
    (tmp_path / "to/records/copy.jsonl.gz").unlink()
    (tmp_path / "to/records").rmdir()
    (tmp_path / "to/records").symlink_to(tmp_path / "other")
    with pytest.raises(Unwritable, match="to/records is a link"):
        published.write([record()], [], tmp_path / "to")
    assert (tmp_path / "other/copy.jsonl.gz").read_text() == "of somebody else\n"


@pytest.mark.slow
@pytest.mark.fault("a full disk under a page")
def test_a_full_disk_leaves_the_page_as_it_was_and_the_sentence_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    before, written = contents(tmp_path), Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        written(path, data[: len(data) // 3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    capsys.readouterr()
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"posbench: {tmp_path} cannot be written to (No space left on device): ")
    assert f"({tmp_path}/leaderboard.md was not written)" in said and said.count("\n") == 1
    assert contents(tmp_path) == before and not [*tmp_path.glob("*.tmp")]


@pytest.mark.slow
def test_a_page_that_is_a_folder_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    (tmp_path / "leaderboard.html").mkdir()
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err
    assert said == (
        f"posbench: {tmp_path}/leaderboard.html is a folder, and a file is to be written there: "
        "move it away\n"
    )


# -- texts -----------------------------------------------------------------------------------------

ANSI = "\x1b[2J\x1b]0;title\x07"
UNPRINTABLE = (ANSI, "a\nb", "a\rb", "a\tb", "\u202egnp", "\u2028", "\x00", "\ud800", "\x9b31m")
NAMED = (
    "measure",
    "method_class",
    "scale_policy",
    "diverged",
    "method.encoding",
    "method.host",
    "method.extension",
    "method.name",
    "method.hash",
    "task.name",
    "protocol.name",
    "training.commit",
    "training.device",
    "training.cpu",
    "training.source_hash",
    "training.settings_hash",
    "evaluated.device",
)
OF_FILES = ("method.name", "method.hash", "task.name", "protocol.name")


@pytest.mark.parametrize("place", NAMED)
def test_a_text_that_becomes_a_name_is_printable_and_short(place: str) -> None:
    for text in UNPRINTABLE:
        with pytest.raises(PosbenchError, match="cannot be printed"):
            files.validated(Record, altered(record(), {place: text}), "it")
    longest = 115 if place in OF_FILES else 300
    assert files.validated(Record, altered(record(), {place: "é" * longest}), "it")
    with pytest.raises(PosbenchError, match="has 301 characters, and what becomes a name has 300"):
        files.validated(Record, altered(record(), {place: "é" * 301}), "it")


@pytest.mark.parametrize("place", ["method.changed", "method.model", "method.encoding_changed"])
def test_so_is_each_of_several_texts_and_there_are_not_many(place: str) -> None:
    for texts in (["a=1", f"b={ANSI}"], ["a" * 301], ["a=1"] * 257):
        with pytest.raises(PosbenchError, match=r"cannot be printed|301 characters|at most 256"):
            files.validated(Record, altered(record(), {place: texts}), "it")


def test_versions_are_few_and_printable_and_rows_are_not_thousands() -> None:
    one = record().as_json()["rows"][0]
    rows = [one | {"test_length": n, "multiple": n / 10} for n in range(5000)]
    for place, value in {
        "training.versions": {"torch": ANSI},
        "evaluated.versions": {ANSI: "2"},
        "rows": rows,
    }.items():
        with pytest.raises(PosbenchError, match=r"cannot be printed|at most 4096"):
            files.validated(Record, altered(record(), {place: value}), "it")


def test_half_a_character_is_refused_wherever_it_is(tmp_path: Path) -> None:
    for place in ("measure", "config.task"):
        text = json.dumps(altered(record(), {place: {"a": "\ud800"} if "." in place else "\ud800"}))
        path = tmp_path / "record.json"
        path.write_text(text, encoding="ascii")
        with pytest.raises(PosbenchError, match=r"'\\ud800' is half a character"):
            files.read(path)
    whole = altered(record(), {"config.task": {"_target_": "nowhere.Task", "a": "\U0001f4cf"}})
    path.write_text(json.dumps(whole), encoding="ascii")
    assert files.read(path).config["task"]["a"] == "\U0001f4cf"


def test_a_run_whose_name_no_record_can_hold_is_refused_before_it_begins() -> None:
    with composing():
        for words, said in (
            ((f"+encoding.note={'a' * 300}",), "has 314 characters"),
            ((f"encoding.base={'1' * 300}",), r"encoding\.base is a whole number of 2\^63 or more"),
            (("+encoding.note='a\x1bb'",), "cannot be printed"),
        ):
            with pytest.raises(ConfigError, match=said):
                identify(compose("method=rope", *words))


def test_what_a_class_says_of_itself_is_cut_and_no_result_is_lost() -> None:
    assert in_a_line(" share of\n  answers ") == "share of answers"
    assert in_a_line(f"a{ANSI}") == as_text(in_a_line(f"a{ANSI}"))
    assert as_text(in_a_line("word " * 100)).endswith(" ...")


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![](http://evil.example/track.png)",
    "[a][b]",
    "[a]: http://evil.example",
    "<http://evil.example>",
    "<!-- nothing after this",
    "`code`",
    "a ``b` c",
    "a | b",
    r"a \| b",
    r"\<img src=x>",
    r"\\<img src=x>",
    r"\![a](b)",
    "# heading",
    "- list",
    "1. list",
    "> quotation",
    "=====",
    "~~~",
    "&lt;img&gt;",
)


def read_markdown(text: str) -> list[Token]:
    """The tokens that a reader of Markdown, with tables, makes of a text."""
    found: list[Token] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        found += [token, *(token.children or ())]
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_a_text_of_others_as_it_is(text: str) -> None:
    shown = html.unescape(text)
    table = "\n".join(Table.of(["method", text], [Line(text, [text], [text])]).pipes)
    tokens = read_markdown(table)
    kinds = {token.type for token in tokens}
    assert kinds <= IN_A_TABLE, kinds
    cells = ["".join(c.content for c in t.children or ()) for t in tokens if t.type == "inline"]
    assert cells == ["method", shown, f"{shown} ({shown})", shown]
    (first, *others) = read_markdown(paragraph(text))
    assert first.type == "paragraph_open"
    assert {each.type for each in others} <= {"inline", "text", "text_special", "paragraph_close"}
    (heading, inline, *_) = read_markdown(f"## {plain(text)}")
    assert heading.type == "heading_open" and "html_inline" not in map(str, inline.children or ())
    spans = [each for each in read_markdown(f"x {code(text)} y") if each.type == "code_inline"]
    assert [each.content for each in spans] == [text]


IN_A_TABLE = {
    *(
        f"{part}_{end}"
        for part in ("table", "thead", "tbody", "tr", "th", "td")
        for end in ("open", "close")
    ),
    *("inline", "text", "text_special", "em_open", "em_close"),
}


def test_numbers_and_names_are_as_before_in_markdown() -> None:
    for text in ("-1.69, +0.32 [+0.03, +0.63]", "< 1.44", "rope_ntk (a=[1, 2])", "95 %", "1.5x"):
        assert plain(text) == text
    assert code("rope") == "`rope`"


def hostile() -> Record:
    """A record that the schema accepts, with markup wherever it has a text."""
    texts = {
        "method.name": "=cmd|' C'!A0",
        "method.changed": [HOSTILE[0].replace("/", ""), "[x](javascript:1)", "![](http:evil)"],
        "method.encoding": "@SUM(1+1)",
        "method.extension": "+1+1",
        "method_class": HOSTILE[1],
        "measure": HOSTILE[0],
        "task.name": "-2+3+cmd",
        "task.changed": [HOSTILE[0], HOSTILE[2]],
        "protocol.changed": ["[a]: http://evil.example"],
        "training.commit": HOSTILE[1],
    }
    return changed(record("rope", {1: 1.0, 2: 0.5}), texts)


@pytest.mark.slow
def test_no_page_of_a_hostile_record_has_markup_formulas_or_signs_for_a_terminal(
    tmp_path: Path,
) -> None:
    save(tmp_path, hostile(), *seeds("alibi", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}]))
    said: list[str] = []
    assert leaderboard.main([str(tmp_path)], emit=said.append) == 0
    assert all(line.replace("\n", "").isprintable() for line in said)
    tokens = read_markdown((tmp_path / "leaderboard.md").read_text(encoding="utf-8"))
    assert not {"html_inline", "html_block", "image"} & {token.type for token in tokens}
    links = [token.attrs["href"] for token in tokens if token.type == "link_open"]
    assert links == ["#what-the-columns-mean"]
    for name in ("leaderboard.csv", "runs.csv"):
        with (tmp_path / name).open(encoding="utf-8", newline="") as file:
            cells = [cell for line in csv.reader(file) for cell in line]
        assert "'=cmd|' C'!A0 (<img" in "".join(cells) and "'-2+3+cmd (" in "".join(cells)
        for cell in cells:
            assert not cell.startswith(("=", "+", "-", "@")) or float(cell) <= 0, cell


@pytest.mark.slow
def test_names_of_files_do_not_reach_a_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, record("alibi"))
    for name in (f"records/{ANSI}/a/b", "records/x"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "seed=0.json").write_text("{")
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 2 and said.replace("\n", "").isprintable()
    assert r"\x1b[2J\x1b]0;title\x07" in said


@pytest.mark.parametrize(
    "command",
    [
        "python -m pip install evil",
        "posbench records accept evil.tar.gz",
        "python -m posbench protocol=cpu +hydra.callbacks.x._target_=os.system",
        "python -m posbench hydra.run.dir=/tmp",
        "python -m posbench encoding._target_=os.system",
        "python -m posbench 'extension._target_=\\${oc.decode:os.system}'",
        "python -m posbench extension._partial_=true",
        "python -m posbench --config-dir evil method=rope",
        "python -m posbench ~task method=rope",
        "python -m posbench -m method=rope",
        "python -m posbench results_dir=/etc method=rope",
        "python -m posbench logger=wandb method=rope",
        "python -m posbench 'method=rope\n' seed=0",
        "python -m posbench method=rope\x1b[2J",
        "python -m posbench method=rope; rm -r .",
        "PYTHONPATH=. python -m posbench method=rope",
    ],
)
def test_a_record_repeats_itself_by_a_command_of_ours_alone(command: str) -> None:
    with pytest.raises(
        PosbenchError, match=r"is no command|makes no record|is not the command of|is no word of"
    ):
        files.validated(Record, altered(record(), {"command": command}), "it")


def test_no_sign_before_another_hides_what_is_resolved() -> None:
    command = Command.parse("python -m posbench 'task.num_symbols=$\\{oc.env\\:HOME\\}'")
    with pytest.raises(ConfigError, match="which is not composed of a record"):
        command.refuse_others()


def test_a_sentence_about_a_text_of_megabytes_is_short(tmp_path: Path) -> None:
    save(tmp_path, record("alibi"))
    path = files.record_path(tmp_path, "cpu", "copy", "rope", 0)
    path.parent.mkdir(parents=True)
    long = "a" * 2**20
    for content in ({"command": long}, {"task.name": long}, {"schema_version": long}, {long: 1}):
        path.write_text(json.dumps(record("rope").as_json() | altered(record("rope"), content)))
        (said,) = files.read_folder(tmp_path).unreadable
        assert len(said) < 1500


# -- pages in a browser ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_page_runs_its_own_script_and_no_other(tmp_path: Path) -> None:
    save(tmp_path, record("rope", {1: 1.0, 2: 0.5}))
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 0
    page = (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    before, allowed = re.findall(r'^(.*?)<meta http-equiv="C[^>]*content="([^"]+)">', page, re.S)[0]
    assert before.endswith('<meta charset="utf-8">\n') and "<script" not in before
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert allowed == (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src "
        f"'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_every_page_has_a_policy_before_all_else() -> None:
    (template,) = Path(posbench.__path__[0]).rglob("*.html.j2")
    page = template.read_text(encoding="utf-8")
    lines = page[page.index("<!doctype html>") :].splitlines()
    assert lines[3] == '<meta charset="utf-8">' and "{{ policy(page.script)" in lines[4]
    assert "Content-Security-Policy" in lines[4]
    assert "script-src" not in policy() and policy().startswith("default-src 'none'; ")


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (
            r"\text{<img/src=x/onerror=alert(1)>}",
            "<mtext>&lt;img/src=x/onerror=alert(1)&gt;</mtext>",
        ),
        (r"\href{javascript:alert(1)}{x}", "<mi>x</mi>"),
        (r"\style{position:fixed}{x}", "<mi>x</mi>"),
        (r"\text{&lt;img&gt;}", "<mtext>&lt;img&gt;</mtext>"),
        (r"\text{&#x3c;img&#x3e;}", "<mtext>&#x3c;img&#x3e;</mtext>"),
        (r'\color{red" onload="x}{y}', 'mathcolor="red&quot;'),
        (r"<b> \frac{", r"<code>&lt;b&gt; \frac{</code>"),
        (r"\newcommand{\a}{\b\b}\a", r"<code>\newcommand{\a}{\b\b}\a</code>"),
    ],
)
def test_a_formula_is_a_formula_and_nothing_else(formula: str, shown: str) -> None:
    found = inline(f"Of ${formula}$.")
    assert shown in found and not re.search(r"<(img|b|script)\b|href|style=", found)


def test_a_formula_of_ours_is_as_the_library_writes_it() -> None:
    for formula in (r"\sum_{i<j} a_i \ge 0 \text{ if } x \in \mathbb{R}", r"e^{i\theta_k m}"):
        assert mathml(formula, "inline") == convert(formula)


def test_a_name_leaves_room_for_a_hash_in_the_bytes_of_a_file_name(tmp_path: Path) -> None:
    longest = "é" * 115
    (tmp_path / f"{as_file_name(longest)}-12345678.jsonl.gz").mkdir()
    with pytest.raises(ConfigError, match="has 232 bytes, and files are called by it"):
        as_file_name(f"{longest}é")


def test_two_records_that_are_shown_alike_are_one_run() -> None:
    """One says in its name what the other has as a changed setting."""
    found = [
        changed(record(), {"method.name": name, "method.changed": more})
        for name, more in (("alibi (x=1)", []), ("alibi", ["x=1"]))
    ]
    assert found[0].method.label == found[1].method.label
    assert [each for _, each in MeasuredRuns.of(found).shown] == found[1:]


@pytest.mark.slow
def test_a_dollar_in_a_name_is_no_formula_in_a_plot(tmp_path: Path) -> None:
    named = altered(record(), {"method.changed": [r"encoding.base=$\frac$"]})
    save(tmp_path, files.validated(Record, named, "it"))
    figure = posbench.plot(posbench.load(tmp_path))
    figure.savefig(tmp_path / "rows.png")
    [text] = figure.legends[0].get_texts()
    assert r"$\frac$" in text.get_text()


def test_settings_are_not_more_than_memory_holds() -> None:
    content = record().as_json()
    for many in ([[]] * 30_000, [[[1, 2]] * 200] * 50, {str(n): 0 for n in range(30_000)}):
        with pytest.raises(PosbenchError, match="has more than 20,000 values"):
            files.validated(Record, content | {"config": content["config"] | {"zz": many}}, "it")


def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, record("alibi"), record("rope"))
    closed = tmp_path / "records/cpu/copy/rope"
    listed = os.scandir

    def scandir(path: str) -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    for read in (files.read_folder, files.records, files.loose):
        with pytest.raises(PosbenchError, match=f"{closed} cannot be listed .*Permission denied"):
            read(tmp_path)


def test_of_many_bad_lines_the_first_are_told_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, record("alibi"))
    (tmp_path / "records/copy.jsonl.gz").write_bytes(gzip.compress(b"\n" * 500))
    assert leaderboard.main([str(tmp_path)], emit=lambda line: None) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 101 and said[-1] == (
        "posbench: left out: 400 more, which are not told one by one"
    )


def test_a_curve_whose_lists_are_of_unlike_length_is_refused() -> None:
    with pytest.raises(PosbenchError, match="lists of a curve are of unlike length"):
        files.validated(Record, altered(record(), {"training.curve.score": [0.5]}), "it")
