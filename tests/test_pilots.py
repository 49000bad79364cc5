"""Tasks and protocol have what the panels of results/pilots decided."""

from __future__ import annotations

import re

import pytest
from offered import CONF

from posbench.running.subject import setup

CHOICES = (CONF.parent / "results/pilots/choices.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"^## ", CHOICES.split(f"## {title}", 1)[1], flags=re.MULTILINE)[0]


@pytest.mark.slow
def test_tasks_are_trained_for_the_steps_that_were_decided() -> None:
    rows = [line.split(" | ") for line in section("Steps").splitlines() if line.startswith("| ")]
    decided = {cells[0].strip("| "): int(cells[-1].strip(" |")) for cells in rows[2:]}
    assert len(decided) == 12
    for task, steps in decided.items():
        assert (
            setup("protocol=cpu", f"task={task}", "method=rope").config.training.total_steps
            == steps
        )


def test_the_protocol_has_the_heads_and_the_rate_that_were_decided() -> None:
    config = setup("protocol=cpu", "task=copy", "method=rope").config
    assert (
        config.model.num_heads
        == {"two": 2, "four": 4}[re.search(r"\*\*(\w+) heads", section("Heads"))[1]]
    )
    rate = re.search(r"every row is trained at ([\d.]+)\*\*", section("Learning rates"))[1]
    assert config.training.learning_rate == float(rate)


def test_no_later_task_is_learned_by_fewer_than_two_rows() -> None:
    """A row has learned a task if its cell begins with steps; what is left to run may decide."""
    lines = section("Learnability").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    tasks = {name: cells for name, *cells in rows[2:]}
    assert len(tasks) >= 6
    for cells in tasks.values():
        learned = sum(cell[0].isdigit() for cell in cells[:-1])
        assert learned == int(cells[-1])
        assert learned + cells.count("not run") >= 2
