"""Records and code in one file: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from making import audits_of, changed, record, save

from posbench.base.errors import ConfigError, PosbenchError
from posbench.config.building import build
from posbench.records import files, lines, published
from posbench.sharing import bundle
from posbench.sharing.command import main as results_command

ROOT = Path(__file__).parent.parent


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "encoding").mkdir(parents=True)
    (folder / "encoding/decay.yaml").write_text("_target_: decay.Decay\n")
    (folder / "decay.py").write_text("raise RuntimeError('was run')\n")
    (folder / "notes.txt").write_text("not sent\n")
    for hidden in (".venv/lib", "runs/.hydra"):
        (folder / hidden).mkdir(parents=True)
        (folder / hidden / "config.yaml").write_text("not: sent\n")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for seed in (0, 1):
        for task in ("copy", "sort"):
            save(tmp_path / "local", record("decay", {1: 1.0, 2: 0.5, 8: 0.1}, seed, task=task))
    save(tmp_path / "local", record("rope", seed=0))
    return tmp_path / "local"


def test_what_goes_in_comes_out_and_the_same_gives_the_same_bytes(
    source: Path, mine: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("a.tar.gz", "b.tar.gz")]
    for path in paths:
        manifest = bundle.write(files.records(source), [], mine, path)
    assert manifest["records"] == 5 and manifest["methods"] == ["decay", "rope"]
    assert manifest["code"] == ["decay.py", "encoding/decay.yaml"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found = bundle.unpack(paths[0], tmp_path / "out")
    published.publish(files.records(source), [], tmp_path / "published")
    assert found.records == files.records(tmp_path / "published")
    assert found.code == ["own/decay.py", "own/encoding/decay.yaml"] and found.own is not None
    assert {path.name for path in found.own.rglob("*.*")} == {"decay.yaml", "decay.py"}


def test_records_without_meaning_are_sent_only_if_their_protocol_is_named(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(source, record("decay", protocol="smoke"))
    save(source, record("tried", protocol="smoke"))

    def bundled(name: str, *words: str) -> list[str]:
        path = tmp_path / f"{name}.tar.gz"
        assert results_command(["bundle", str(path), "--from", str(source), *words]) == 0
        return [each.protocol.name for each in bundle.unpack(path, tmp_path / name).records]

    assert bundled("whole", "--method", "decay") == ["cpu"] * 4
    assert "Left out: 1 record of smoke, whose numbers mean nothing." in capsys.readouterr().out
    assert bundled("named", "--method", "decay", "--protocol", "smoke") == ["smoke"]
    words = ["bundle", str(tmp_path / "y.tar.gz"), "--from", str(source), "--method", "tried"]
    assert results_command(words) == 1
    assert results_command(["bundle", str(tmp_path), "--from", str(source)]) == 1
    assert f"{tmp_path} is a folder: name a file" in (said := capsys.readouterr().err)
    assert "all that is there is of protocol smoke, whose numbers" in said


def test_a_bundle_holds_the_audits_of_its_records_alone(source: Path, tmp_path: Path) -> None:
    """Whoever sends one method says nothing of the others."""
    found = files.records(source)
    (sent,) = [each for each in found if each.method.name == "rope"]
    bundle.write([sent], audits_of(*found), None, tmp_path / "a.tar.gz")
    bundle.unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    (line,) = (tmp_path / "out/published/audits.jsonl").read_text().splitlines()
    assert json.loads(line)["method"] == "rope"


def test_what_it_would_add_is_said_row_by_row(source: Path, tmp_path: Path) -> None:
    made = files.records(source)
    folder = tmp_path / "published"
    published.publish([each for each in made if each.method.name == "rope"], [], folder)
    worse = [changed(each, {"rows.0.score": 0.0}) for each in made if each.task.name == "sort"]
    published.publish(worse, [], folder)
    assert list(bundle.added(made, folder)) == [
        "decay, cpu: 2 tasks, 2 seeds; of its runs 2 new, 2 in the place of others, "
        "0 there already",
        "rope, cpu: 1 task, 1 seed; of its runs 0 new, 0 in the place of others, 1 there already",
    ]
    assert " 4 new, " in next(bundle.added(made, tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ({"training.cpu_seconds": 1.0, "evaluated.commit": None}, True),
        ({"gate": 0.0}, False),
        ({"method_class": "fine-tuned"}, False),
        ({"rows.0.score": 0.0}, False),
        ({"evaluated.source_hash": "1"}, False),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_a_run_is_there_already_only_if_its_record_says_the_same(
    values: dict[str, object], same: bool, tmp_path: Path
) -> None:
    published.publish([record()], [], tmp_path)
    (line,) = bundle.added([changed(record(), values)], tmp_path)
    assert f"{int(not same)} in the place of others, {int(same)} there already" in line


def test_what_it_would_add_is_what_publishing_adds(source: Path, tmp_path: Path) -> None:
    """The same settings under another name are another row."""
    (made,) = [each for each in files.records(source) if each.method.name == "rope"]
    published.publish([made], [], tmp_path / "published")
    renamed = changed(made, {"method.name": "rope_of_mine"})
    (line,) = bundle.added([renamed], tmp_path / "published")
    assert " 1 new, " in line
    published.publish([renamed], [], tmp_path / "published")
    assert len(files.records(tmp_path / "published")) == 2


def test_two_published_runs_of_one_name_are_both_kept(tmp_path: Path) -> None:
    one = record("rope", seed=0)
    found = [one, changed(one, {"method.hash": "0" * 16})]
    assert published.unpublish(found, [], tmp_path) == 2
    assert {each.method.hash for each in files.records(tmp_path)} == {
        each.method.hash for each in found
    }


def test_code_of_others_is_not_run_before_it_was_read(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.tar.gz"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    assert results_command([*words, "--method", "decay"]) == 0
    assert "4 records of decay" in capsys.readouterr().out
    assert results_command(["accept", str(path), "--to", str(tmp_path / "published")]) == 0
    said = capsys.readouterr()
    assert "of its runs 4 new" in said.out and not said.err
    assert "own/decay.py" in said.out and "--run-code" in said.out
    assert results_command(["accept", str(path), "--show"]) == 0
    shown = "--- own/decay.py\nraise RuntimeError('was run')\n\n--- own/encoding/decay.yaml\n"
    assert shown in capsys.readouterr().out
    assert not (tmp_path / "published").exists()
    words = ["accept", str(path), "--to", str(tmp_path / "published")]
    assert results_command([*words, "--write"]) == 1, "it asks for what is not done"
    said = capsys.readouterr()
    assert said.out.endswith("\nNothing was written: no record was repeated.\n")
    assert results_command([*words, "--run-code"]) == 1, "its numbers are made up"
    said = capsys.readouterr()
    assert "python -m posbench --config-dir own " in said.out
    assert f"find their files after: tar -xzf {path} own\n" in said.out


def test_a_bundle_without_the_code_of_its_records_says_so(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bundle", str(tmp_path / "mine.tar.gz"), "--from", str(source)]
    assert results_command(words) == 0
    without = "The code of nowhere.Encoding, nowhere.Extension, nowhere.Task is not in it"
    assert without in capsys.readouterr().out
    assert results_command([*words, "--config-dir", str(mine)]) == 0
    assert "Your files in it: decay.py" in (said := capsys.readouterr().out) and without in said
    ours = tmp_path / "ours"
    parts = ("config.encoding", "config.extension", "config.task")
    for name in ("posbench.encodings.nope.NoPE", "decay.Decay"):
        save(ours, changed(record(), {part: {"_target_": name} for part in parts}))
        words = ["bundle", str(tmp_path / "ours.tar.gz"), "--from", str(ours)]
        assert results_command([*words, "--config-dir", str(mine)]) == 0
        assert "is not in it" not in capsys.readouterr().out


def test_a_bundle_has_the_files_of_its_records_and_no_others(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever sends one method sends nothing of the others."""
    written = {
        "decay.py": "from parts import curves\nfrom parts.more.deep import NAME\n",
        "parts/__init__.py": '"""Unlike other, and secret."""\n__all__ = ["named"]\n',
        "parts/curves.py": "from . import sums\nfrom .more import deep\nUNLIKE = 'secret'\n",
        "parts/sums.py": "\ufeffimport_module('.near', __package__)\n",
        "parts/other.py": "",
        "parts/named.py": "",
        "parts/near.py": "",
        "parts/more/__init__.py": "",
        "parts/more/deep.py": "import importlib\nimportlib.import_module('called')\n",
        "called.py": "from ..above import nothing\n",
        "encoding/decay.yaml": "# unlike secret\ndefaults: [base_of_decay.yaml]\nof: decay.Decay\n",
        "encoding/base_of_decay.yaml": "slope: 1\n",
        "method/decay_pi.yaml": "encoding: decay\n",
        "secret.py": "import decay\n",
        "encoding/secret.yaml": "_target_: secret.Secret\n",
    }
    for name, text in written.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
    path = tmp_path / "mine.tar.gz"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    assert results_command([*words, "--method", "decay"]) == 0
    left = {"parts/other.py", "method/decay_pi.yaml", "secret.py", "encoding/secret.yaml"}
    sent = sorted({*written} - left)
    said = capsys.readouterr().out
    assert f"Your files in it: {', '.join(sent)}. They are those" in said
    found = bundle.unpack(path, tmp_path / "out")
    assert found.code == [f"own/{name}" for name in sent]
    node = {"_target_": "secret.Secret"}
    save(source, changed(record("hidden"), {"config.encoding": node}))
    assert results_command([*words, "--method", "hidden"]) == 0
    code = sorted({"secret.py", *(each for each in sent if each.endswith(".py"))})
    assert f"Your files in it: {', '.join(code)}. They" in (said := capsys.readouterr().out)
    assert "The code of nowhere.Extension, nowhere.Task is not in it" in said


def test_a_bundle_drops_no_folder_of_ones_own(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = tmp_path / "mine.tar.gz", tmp_path / "other"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    assert results_command([*words, "--config-dir", str(other)]) == 1
    assert capsys.readouterr().err == (
        "posbench: --config-dir is given 2 times, and a bundle holds one folder: put what is in "
        f"{mine} and {other} into one\n"
    )
    assert not path.exists()


def test_code_that_is_not_utf_8_is_named_and_nothing_is_written(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latin = mine / "latin.py"
    (mine / "decay.py").write_text("import latin\n")
    latin.write_bytes("# coding: latin-1\nNAME = 'décroissance'\n".encode("latin-1"))
    path = tmp_path / "mine.tar.gz"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    assert results_command(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"posbench: {latin} is not text in UTF-8") and said.count("\n") == 1
    assert "save it in that encoding" in said and not path.exists()


HIDDEN = (
    b"# -*- coding: raw_unicode_escape -*-\n# The paper: \\u000aimport os; os.system('touch ran')\n"
)
"""Python reads the second line as code, which no terminal shows."""


def test_code_that_another_encoding_would_read_otherwise_is_neither_sent_nor_taken(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "hidden.py").write_bytes(HIDDEN)
    (mine / "decay.py").write_text("from hidden import *\n")
    path = tmp_path / "mine.tar.gz"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    assert results_command(words) == 1 and not path.exists()
    wrong = "hidden.py is not Python in UTF-8 (it declares the encoding raw_unicode_escape): save"
    assert wrong in capsys.readouterr().err
    bundled(path, [*packed(), ("own/hidden.py", HIDDEN)])
    assert results_command(["accept", str(path), "--to", str(tmp_path / "to"), "--show"]) == 1
    said = capsys.readouterr()
    assert wrong in said.err and "import os" not in said.out


def archive(path: Path, content: Mapping[str, str | bytes], link: str = "") -> Path:
    with gzip.open(path, "wb") as zipped, tarfile.open(fileobj=zipped, mode="w") as made:
        for name, each in content.items():
            data = each.encode() if isinstance(each, str) else each
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
        if link:
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            made.addfile(entry)
    return path


def damaged(good: Path, path: Path) -> Path:
    """The same file with a byte of its compressed data changed, so that zlib cannot read it."""
    data = bytearray(good.read_bytes())
    data[12] ^= 0xFF
    path.write_bytes(data)
    return path


def test_a_record_cannot_have_anything_called_but_methods_and_tasks(tmp_path: Path) -> None:
    """A command of a stranger's record names classes; those of others are not called."""
    written = tmp_path / "written"
    path = {"_target_": "pathlib.Path", "_args_": [str(written)]}
    for group, node, said in (
        ("task", {"_target_": "pathlib.Path.write_text", "_args_": [path, "harm"]}, "pathlib.Path"),
        ("task", {"_target_": "subprocess.Popen", "args": ["touch", str(written)]}, "subprocess"),
        ("task", {"_target_": "posbench.tasks.copy.Copy", "num_symbols": path}, "pathlib"),
        ("encoding", {"_target_": "posbench.encodings.nope.NoPE.mro"}, "named 'posbench.*NoPE"),
    ):
        with pytest.raises(ConfigError, match=rf"^{group}.* {said}('| is no module)"):
            build(node, group)
    assert not written.exists()


def test_what_is_no_bundle_is_refused_with_a_sentence(source: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.tar.gz"
    bundle.write(files.records(source), [], None, good)
    with tarfile.open(good) as opened:
        content = {
            each.name: opened.extractfile(each).read()  # type: ignore[union-attr]
            for each in opened.getmembers()
        }
    other = tmp_path / "other.tar.gz"
    cases: list[tuple[Path, str]] = [
        (tmp_path / "nowhere.tar.gz", "there is no file"),
        (tmp_path, "there is no file"),
        (
            archive(other, {"../evil.py": "x"}),
            "holds ../evil.py, which has a name that leads elsewhere",
        ),
        (archive(tmp_path / "dot.tar.gz", {".": ""}), "holds ., which "),
        (damaged(good, tmp_path / "damaged.tar.gz"), "is not a readable bundle"),
    ]
    for path, said in cases:
        with pytest.raises(PosbenchError, match=said):
            bundle.unpack(path, tmp_path / "out")
    for change, said in (
        ({"own/../../evil.py": "x"}, "which has a name that leads elsewhere"),
        ({"elsewhere/x.py": "x"}, "holds elsewhere/x.py"),
        ({"own/new.py": "x"}, "is damaged, or was changed by hand"),
        ({"bundle.json": "{}"}, "has no bundle.json that can be read"),
        (
            {"bundle.json": content["bundle.json"].replace(b'"format": 2', b'"format": 9')},
            "format '9'",
        ),
    ):
        with pytest.raises(PosbenchError, match=said):
            bundle.unpack(archive(other, content | change), tmp_path / "out")
    with pytest.raises(PosbenchError, match=r"holds own/link\.py, which is no plain file"):
        bundle.unpack(archive(other, content, link="own/link.py"), tmp_path / "out")
    whole = good.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PosbenchError, match="is not a readable bundle"):
        bundle.unpack(other, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(bundle.unpack(good, tmp_path / "out").records) == 5


@pytest.mark.parametrize(
    "place", [{"task.name": "../../../evil"}, {"task.hash": "../../..", "task.changed": ["a=1"]}]
)
def test_a_record_whose_name_leads_elsewhere_is_refused(
    place: dict[str, object], source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As somebody writes it who wants files of his own outside of the folder of records."""
    (made,) = [each for each in files.records(source) if each.method.name == "rope"]
    update = {each.removeprefix("task."): value for each, value in place.items()}
    evil = made.model_copy(update={"task": made.task.model_copy(update=update)})
    (text,) = lines.contents([evil]).values()
    name = "records/copy.jsonl.gz"
    held = [(f"published/{name}", lines.encoded(text, name))]
    path = bundled(tmp_path / "evil.tar.gz", held)
    before = set(tmp_path.rglob("*"))
    words = ["accept", str(path), "--to", str(tmp_path / "a/b/c"), "--write"]
    assert results_command(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"posbench: {path} holds what cannot be read: ")
    assert "cannot be the name of a file" in said and said.count("\n") == 1
    assert set(tmp_path.rglob("*")) == before


def test_an_audit_whose_name_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    names = {"protocol": "cpu", "task": "../../../evil", "method": "rope", "seed": 0}
    audit = names | {"source_hash": "0", "evaluation_hash": "0", "rows": []}
    (tmp_path / "audits.jsonl").write_text(json.dumps(audit) + "\n")
    (said,) = files.read_folder(tmp_path).unreadable
    assert "task: " in said and "cannot be the name of a file" in said


@pytest.mark.slow
def test_records_of_pretrained_models_are_neither_sent_nor_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bundle that was made before they were refused is packed here by its own function."""
    served, path = ROOT / "results/pretrained_served", tmp_path / "served.tar.gz"
    bundle.write(files.records(served), [], None, path)
    assert bundle.unpack(path, tmp_path / "out").records
    said = "a bundle has no weights, so nobody could repeat its records of gemma-3-270m-q4_k_m-"
    for words in (
        ["bundle", str(tmp_path / "x.tar.gz"), "--from", str(served)],
        ["accept", str(path), "--to", str(tmp_path / "taken")],
        ["accept", str(path), "--to", str(tmp_path / "taken"), "--run-code", "--write"],
    ):
        assert results_command(words) == 1
        assert said in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "served.tar.gz"]


def test_nothing_to_send_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bundle", str(tmp_path / "x.tar.gz"), "--from", str(tmp_path), "--method", "decayy"]
    assert results_command(words) == 1
    said = f"no records in {tmp_path}: name a folder that holds records/"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x.tar.gz").exists()


# -- archives of strangers -------------------------------------------------------------------------


def bundled(path: Path, content: list[tuple[tarfile.TarInfo | str, bytes]]) -> Path:
    """An archive with these members and a manifest whose hash is right for their names."""
    held = {
        each.name if isinstance(each, tarfile.TarInfo) else each: data for each, data in content
    }
    manifest = json.dumps({"format": bundle.FORMAT, "hash": bundle.hash_of(held)}).encode()
    with gzip.open(path, "wb") as zipped, tarfile.open(fileobj=zipped, mode="w") as made:
        for each, data in [*content, ("bundle.json", manifest)]:
            entry = tarfile.TarInfo(each) if isinstance(each, str) else each
            entry.size = len(data) if entry.isreg() else entry.size
            made.addfile(entry, io.BytesIO(data))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, **values: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in values.items():
        setattr(made, key, value)
    return made


def packed() -> list[tuple[tarfile.TarInfo | str, bytes]]:
    held = lines.contents([record()])
    return [(f"published/{name}", lines.encoded(text, name)) for name, text in held.items()]


TWICE = r"is there twice, as a file or a folder"
ELSEWHERE = "has a name that leads elsewhere, or is hidden"
UNLIKE = "is no file of a bundle"
FOLDER = "is in a folder that is called like a file"
LONG = "has a name that cannot be printed, or is longer than 200 bytes"
NO_FILE = "which is no plain file"


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (["own/enc.py", "own/./enc.py"], ELSEWHERE),
        (["own/enc.py", "own//enc.py"], ELSEWHERE),
        (["own/enc.py", "own/enc.py"], TWICE),
        (["own/enc.py", "own/ENC.py"], TWICE),
        (["own/\u00e9.py", "own/e\u0301.py"], TWICE),
        (["own/\ufb01.py", "own/fi.py"], TWICE),
        (["own/a.py", "own/a.py/b.py"], TWICE),
        (["own/a.py/b.py", "own/A.py"], FOLDER),
        (["own/evil.py/__init__.py"], FOLDER),
        (["own/Enc.YAML/x.yaml"], FOLDER),
        (["own/../../evil.py"], ELSEWHERE),
        (["/var/tmp/evil.py"], UNLIKE),
        (["own/.hydra/config.yaml"], ELSEWHERE),
        (["own/.py"], ELSEWHERE),
        (["own"], UNLIKE),
        (["published"], UNLIKE),
        (["own/x.pth"], UNLIKE),
        (["own/Z.PY"], UNLIKE),
        (["own/x.pyc"], UNLIKE),
        (["own/x.py\n"], LONG),
        (["published/evil.py"], UNLIKE),
        (["published/leaderboard.html"], UNLIKE),
        (["published/records/copy.jsonl"], UNLIKE),
        (["published/shared.jsonl"], UNLIKE),
        (["published/about.md"], UNLIKE),
        (["published/records/cpu/seed=0.json"], UNLIKE),
        (["own/\x1b[2K\x1b[1A\x1b]0;hi\x07z.py"], LONG),
        (["own/\u202eyp.x.py"], LONG),
        (["own/a\udcff.py"], LONG),
        ([f"own/{'a' * 5000}.py"], "a header that no bundle has"),
        ([f"own/{'a' * 300}.py"], LONG),
        ([f"own/{'d/' * 3000}a.py"], "a header that no bundle has"),
        ([entry("own/l.py", tarfile.SYMTYPE, linkname="/etc/passwd")], NO_FILE),
        ([entry("own/l.py", tarfile.LNKTYPE, linkname="published/audits.jsonl")], NO_FILE),
        ([entry("own/l.py", tarfile.FIFOTYPE)], NO_FILE),
        ([entry("own/l.py", tarfile.CHRTYPE, devmajor=1, devminor=5)], NO_FILE),
        ([entry("own/d", tarfile.DIRTYPE)], NO_FILE),
        ([entry("own/x.py", pax_headers={"path": "own/a\x00b.py"})], LONG),
        ([entry("own/x.py", pax_headers={"path": "../../x.py"})], ELSEWHERE),
        ([entry("own/x.py", pax_headers={"size": str(2**60)})], "is not a readable bundle"),
        (
            [
                entry(
                    "own/x.py",
                    pax_headers={
                        "GNU.sparse.major": "0",
                        "GNU.sparse.map": "0,1",
                        "GNU.sparse.size": str(2**50),
                    },
                )
            ],
            NO_FILE,
        ),
        ([entry("own/x.py", pax_headers={"comment": "a" * 5000})], "a header that no bundle has"),
    ],
)
def test_a_member_that_no_bundle_has_is_a_sentence_and_nothing_is_unpacked(
    added: list[tarfile.TarInfo | str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = bundled(tmp_path / "x.tar.gz", [*packed(), *((each, b"x = 1\n") for each in added)])
    with pytest.raises(PosbenchError, match=said):
        bundle.unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert results_command(["accept", str(path), "--to", str(tmp_path / "to")]) == 1
    written = capsys.readouterr().err
    assert written.count("\n") == 1 and written[:-1].isprintable() and len(written) < 700
    assert not (tmp_path / "to").exists()


def raw(path: Path, *parts: bytes) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as zipped:
        for part in parts:
            zipped.write(part)
    return path


def header(name: str, kind: bytes, size: int) -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    return made.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.slow
def test_a_bomb_is_defused_before_it_is_unpacked(tmp_path: Path) -> None:
    """Whatever a small file announces: reading ends at the first byte too many."""
    zeros, ours = bytes(1 << 20), "published/records/a.jsonl.gz"
    many = b"".join(header(f"own/{number}.py", tarfile.REGTYPE, 0) for number in range(10_001))
    empty = header("own/a.py", tarfile.REGTYPE, 0)
    cases = {
        "a file": ([header(ours, tarfile.REGTYPE, 3 << 30), *[zeros] * 100], "more than 64 MB"),
        "a header": ([header("x", tarfile.XHDTYPE, 2 << 30), *[zeros] * 3], "a header that no"),
        "headers": ([*[header("x", tarfile.XHDTYPE, 0)] * 3000, empty], "a header that no"),
        "a name": ([header("x", tarfile.GNUTYPE_LONGNAME, 1 << 30), zeros], NO_FILE),
        "a global header": ([header("x", tarfile.XGLTYPE, 10), zeros], NO_FILE),
        "files": ([many], "holds more than 10,000 files"),
        "less than nothing": ([header(ours, tarfile.REGTYPE, -512)], NO_FILE),
    }
    for name, (parts, said) in cases.items():
        path = raw(tmp_path / "bomb.tar.gz", *parts, bytes(1024))
        tracemalloc.start()
        with pytest.raises(PosbenchError, match=said):
            bundle.unpack(path, tmp_path / "out")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 2.5 * bundle.LARGEST, name
        assert path.stat().st_size < 2_000_000 and not (tmp_path / "out").exists(), name


@pytest.mark.slow
def test_records_that_unpack_to_gigabytes_are_refused_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is small, and so is all that the archive unpacks to."""
    monkeypatch.setattr(bundle, "LINES", 30_000_000)
    zeros = gzip.compress(bytes(20_000_000))
    for names, refused in (("a", False), ("ab", True)):
        held = [(f"published/records/{name}.jsonl.gz", zeros) for name in names]
        path = bundled(tmp_path / f"{names}.tar.gz", held)
        said = "unpacks to more than 30 MB" if refused else "line 1 is not read"
        with pytest.raises(PosbenchError, match=said):
            bundle.unpack(path, tmp_path / names)
        assert (tmp_path / names).exists() is not refused
    cut = [("published/records/a.jsonl.gz", zeros[:-9])]
    with pytest.raises(PosbenchError, match="is not a readable bundle"):
        bundle.unpack(bundled(tmp_path / "cut.tar.gz", cut), tmp_path / "cut")


def test_a_bundle_of_an_earlier_version_is_named_as_such(tmp_path: Path) -> None:
    held = {"bundle.json": '{"format": 1, "hash": "0"}', "published/shared.jsonl": ""}
    path = archive(tmp_path / "old.tar.gz", held)
    with pytest.raises(PosbenchError, match=f"format '1', this posbench reads {bundle.FORMAT}"):
        bundle.unpack(path, tmp_path / "out")


def test_as_many_files_as_a_bundle_can_have_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MOST", 3)
    path = bundled(tmp_path / "x.tar.gz", [*packed(), *((f"own/{n}.py", b"") for n in range(5))])
    with pytest.raises(PosbenchError, match="holds more than 3 files"):
        bundle.unpack(path, tmp_path / "out")


@pytest.mark.fault("a bundle that is a pipe, a device or a folder", times=3)
def test_a_bundle_that_is_no_file_is_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(PosbenchError, match=f"there is no file {path}"):
            bundle.unpack(path, tmp_path / "out")


def test_what_is_shown_for_review_is_what_would_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import os\nif True:\n\tNAME = 'é'  # \x1b[2K\x1b[1A hidden \u202e\rharmless\n"
    code += "\u3164\ufe0f\U000e0101 = 1\n"  # a name without ink
    path = bundled(tmp_path / "x.tar.gz", [*packed(), ("own/enc.py", code.encode())])
    assert results_command(["accept", str(path), "--to", str(tmp_path / "to"), "--show"]) == 0
    said = capsys.readouterr().out
    assert (
        "--- own/enc.py\nimport os\nif True:\n\tNAME = 'é'  # "
        r"\x1b[2K\x1b[1A hidden \u202e\rharmless"
        "\n\\u3164\\ufe0f\\U000e0101 = 1\n"
    ) in said
    assert "\x1b" not in said and "\r" not in said and "\u202e" not in said and "\u3164" not in said
    found = bundle.unpack(path, tmp_path / "out")
    assert found.own is not None
    assert (found.own / "enc.py").read_bytes() == code.encode()
    assert found.code == ["own/enc.py"]


def test_a_folder_with_names_that_nobody_accepts_is_not_sent(
    source: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.tar.gz"
    words = ["bundle", str(path), "--from", str(source), "--config-dir", str(mine)]
    (tmp_path / "id_rsa").write_text("private")
    (mine / "decay.py").write_text("import_module('a\\x1bb', 'Decay', 'linked')\n")
    for name, said in (("a\x1bb.py", LONG), ("Decay.py", TWICE), ("linked.py", "it is a link")):
        if name == "linked.py":
            (mine / name).symlink_to(tmp_path / "id_rsa")
        else:
            (mine / name).write_text("")
        assert results_command(words) == 1, name
        written = capsys.readouterr().err
        assert said in written and written.count("\n") == 1 and written[:-1].isprintable()
        (mine / name).unlink()
    assert not path.exists()
    assert results_command(words) == 0


def test_a_run_that_is_in_a_bundle_twice_is_refused(tmp_path: Path) -> None:
    """One of the two could be repeated, and the other be kept."""
    held = dict(packed())
    (name,) = (each for each in held if str(each).startswith("published/records/"))
    held[name] *= 2
    path = bundled(tmp_path / "x.tar.gz", [*held.items()])
    with pytest.raises(PosbenchError, match="holds a run 2 times: have it made again"):
        bundle.unpack(path, tmp_path / "out")
