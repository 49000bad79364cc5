"""Records as a data set: whole, described, and the same bytes each time."""

from __future__ import annotations

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


def test_parquet_holds_the_long_table(exported: Path) -> None:
    read = pd.read_parquet(exported / "out/dataset/data/cells.parquet")
    pd.testing.assert_frame_equal(read, results.load(exported / "local"), check_dtype=False)
    assert len(pd.read_parquet(exported / "out/dataset/data/views.parquet")) == 16


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
