"""Records as a data set: whole, described, and the same bytes each time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import making
import pandas as pd
import pytest
from boards import with_views

from posbench import results
from posbench.records import tables
from posbench.sharing import dataset
from posbench.sharing.command import main as results_command


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("export")
    making.save(folder / "local", *with_views())
    words = ["export", str(folder / "local"), "--to"]
    assert results_command([*words, str(folder / "out")]) == 0
    assert results_command([*words, str(folder / "again")]) == 0
    return folder


@pytest.mark.slow
def test_parquet_holds_the_long_table(exported: Path) -> None:
    read = pd.read_parquet(exported / "out/dataset/data/cells.parquet")
    pd.testing.assert_frame_equal(read, results.load(exported / "local"), check_dtype=False)
    assert len(pd.read_parquet(exported / "out/dataset/data/views.parquet")) == 16


@pytest.mark.slow
def test_what_other_records_had_is_taken_away(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    making.save(tmp_path / "with", *with_views())
    making.save(tmp_path / "without", making.record("rope"))
    for name in ("with", "without"):
        words = ["export", str(tmp_path / name), "--to", str(tmp_path / "out")]
        assert results_command(words) == 0
    kept = {path.name for path in (tmp_path / "out/dataset/data").iterdir()}
    assert kept == {"cells.parquet", "runs.parquet", "rows.parquet"}


@pytest.mark.slow
def test_the_card_names_every_file_and_every_column(exported: Path) -> None:
    import yaml

    card = (exported / "out/dataset/README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    files = {
        path.relative_to(exported / "out/dataset").as_posix()
        for path in (exported / "out/dataset/data").iterdir()
    }
    assert {each["data_files"] for each in front["configs"]} == files
    assert front["size_categories"] == ["n<1K"] and front["license"] == "apache-2.0"
    assert all(f"| `{name}` |" in card for name in tables.COLUMNS)
    assert "8 runs, 2 methods, 2 tasks, 2 seeds. Every run trains a small model from" in card


def test_runs_and_rows_are_those_of_the_board(exported: Path) -> None:
    folder = exported / "out/dataset/data"
    runs, rows = (pd.read_parquet(folder / f"{name}.parquet") for name in ("runs", "rows"))
    for name, frame in (("runs", runs), ("leaderboard", rows)):
        board = pd.read_csv(exported / f"out/site/{name}.csv")
        assert [*frame] == [*board] and len(frame) == len(board)
    assert len(runs) == 8 and {*rows["method"]} == {"alibi", "rope"}
    board = pd.read_csv(exported / "out/site/runs.csv")
    assert runs["area"].tolist() == pytest.approx(board["area"].tolist(), rel=1e-5, nan_ok=True)


def test_the_card_is_one_that_a_hub_reads(exported: Path) -> None:
    """By the library of the hub, which is there where transformers is."""
    hub = pytest.importorskip("huggingface_hub")
    data = hub.DatasetCard.load(exported / "out/dataset/README.md").data
    assert isinstance(data, hub.DatasetCardData)
    assert data.license == "apache-2.0" and data.pretty_name == "posbench results"
    assert {each["config_name"] for each in data.configs} >= {"cells", "runs", "rows"}
    assert [each["config_name"] for each in data.configs if each.get("default")] == ["cells"]
    space = hub.SpaceCard.load(exported / "out/site/README.md").data
    assert space.sdk == "static" and (exported / "out/site" / space.app_file).is_file()


def test_the_data_set_says_how_it_is_cited_and_deposited(exported: Path) -> None:
    """With what citation-file-format 1.2.0 and Zenodo require; those of the repository agree."""
    import yaml

    cited = yaml.safe_load((exported / "out/dataset/CITATION.cff").read_text())
    deposit = json.loads((exported / "out/dataset/.zenodo.json").read_text())
    own = yaml.safe_load((Path(__file__).parent.parent / "CITATION.cff").read_text())
    for key in ("cff-version", "authors", "version", "license"):
        assert cited[key] == own[key], key
    assert (own["type"], cited["type"], deposit["upload_type"]) == ("software", *["dataset"] * 2)
    assert cited["message"] and deposit["access_right"] == "open" and deposit["license"]
    assert deposit["creators"] == cited["authors"] and deposit["title"] == cited["title"]
    assert "8 runs, 2 methods" in deposit["description"] == cited["abstract"]


def test_the_site_is_one_page_that_has_no_link_to_what_is_not_pushed(exported: Path) -> None:
    site = exported / "out/site"
    names = {path.name for path in site.iterdir()}
    assert {"index.html", "runs.csv", "leaderboard.csv", "README.md"} <= names
    page = (site / "index.html").read_text()
    assert "leaderboard.html" not in names and "rope" in page
    linked = re.findall(r'(?:href|src)="([^"]*)"', page)
    elsewhere = [each for each in linked if not each.startswith(("#", "data:"))]
    assert {*elsewhere} <= names
    assert '"root":""' in page.replace(" ", ""), "nor to the code beside the folder"


def test_the_card_says_that_runs_of_pretrained_models_train_nothing() -> None:
    kinds = ["pretrained", "pretrained", "zero-shot"]
    alone, mixed = (
        dataset._trained(pd.DataFrame({"method_class": each})) for each in (kinds[:2], kinds)
    )
    assert alone == (
        "2 runs of class pretrained test a model that others have trained, and the seed of such a "
        "run is the number of a sample."
    )
    assert mixed.startswith(alone) and "Every other run trains a small model" in mixed


def test_the_same_records_give_the_same_bytes(exported: Path) -> None:
    for path in (exported / "out").rglob("*"):
        if path.is_file():
            other = exported / "again" / path.relative_to(exported / "out")
            assert path.read_bytes() == other.read_bytes(), path.name


def test_there_must_be_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results_command(["export", str(tmp_path), "--to", str(tmp_path / "out")]) == 1
    assert f"no records in {tmp_path}" in capsys.readouterr().err
    assert results_command(["export", str(tmp_path)]) == 1
    assert "--to is missing" in capsys.readouterr().err
