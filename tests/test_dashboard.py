"""The W&B pages as code."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import pytest

from posbench.running.loggers import metrics
from posbench.running.loggers import metrics as told
from posbench.sharing.dashboard import as_json, main, report, workspace

DATA = Path(__file__).parent / "data" / "dashboard"


@pytest.mark.slow
@pytest.mark.parametrize("page", [workspace, report])
def test_a_page_is_what_it_was(page: Callable[[str, str], Any]) -> None:
    """Bring the snapshot up to date with `posbench records dashboard --to tests/data/dashboard`,
    and look at the difference.
    """
    pytest.importorskip("wandb_workspaces")
    made = as_json(page("posbench", ""))
    assert made == (DATA / f"{page.__name__}.json").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Failed to validate block type")  # of comments that none has
@pytest.mark.parametrize("page", [workspace, report])
def test_the_models_of_the_client_take_a_page_and_give_it_back_without_a_server(
    page: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb_workspaces")

    def connected(*_: object) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr(socket.socket, "connect", connected)
    model = page("posbench", "someone")._to_model()
    text = model.model_dump_json(by_alias=True)
    assert type(model).model_validate_json(text).model_dump_json(by_alias=True) == text
    with pytest.raises(ValueError, match="spec"):
        type(model).model_validate(json.loads(text) | {"spec": 3})


def test_pages_name_only_what_is_logged() -> None:
    """A panel of a metric that nothing logs would stay empty, and nobody would say so."""
    logged = {metrics.tested(each) for each in told.TESTED} | {*metrics.CURVE, metrics.STEP}
    logged |= {*told.summary(making.record(accuracies={1: 1.0, 8: 0.5})), "cells", "depth_map"}
    for page in ("workspace", "report"):
        text = (DATA / f"{page}.json").read_text()
        named = set(re.findall(r'"((?:test|train|validation|trainer)/\w+)"', text))
        named |= set(re.findall(r'"summary:(\w+)', text))
        assert len(named) > 5 and named <= logged
        assert '"method' in text, "runs are grouped by it"


def test_random_ids_are_numbered_wherever_they_stand() -> None:
    class Page:
        def __init__(self, random: str) -> None:
            self.random = random

        def _to_model(self) -> Page:
            return self

        def model_dump_json(self, by_alias: bool) -> str:
            node = {"__id__": self.random, "then": [{"viewId": self.random}], "name": "x"}
            return json.dumps(node)

    one, other = (as_json(Page(random)) for random in ("a1b2c3d4e5f6", "zz00zz00zz00"))
    assert one == other and one.count('"id-0"') == 2


def test_a_server_is_asked_for_nothing_without_an_entity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--to", str(tmp_path), "--save"]) == 1
    assert "--save needs --entity" in capsys.readouterr().err and not list(tmp_path.iterdir())
