"""What is decided before the board: by the rules, from trainings alone, or not at all."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

import pytest
from making import changed, record

from posbench.base.errors import PosbenchError
from posbench.config import board as definition
from posbench.config.board import Board
from posbench.pilots.command import PANELS, markdown
from posbench.pilots.heads import heads
from posbench.pilots.look import look
from posbench.pilots.newer import newer
from posbench.pilots.rates import rates
from posbench.pilots.steps import STEPS, chosen_steps, steps
from posbench.pilots.until_solved import until_solved
from posbench.records import files
from posbench.records.record import Record

WITHIN = {1: 1.0, 1.25: 0.9, 1.5: 0.8, 2: 0.7, 3: 0.6, 4: 0.5, 6: 0.4, 8: 0.3}


def of_panel(panel: Board, values: Callable[[str, str, str], dict[str, object]]) -> list[Record]:
    """A record of every run of a panel; `values` says by part, task and encoding what differs."""
    found = []
    for name, part in panel.parts.items():
        setting = f" ({part.settings[0]})" if part.settings else ""
        tasks = part.tasks or panel.all_tasks
        for task, encoding, seed in itertools.product(tasks, part.encodings, part.seeds):
            made = record(
                encoding,
                WITHIN,
                seed,
                protocol=f"{part.protocol or panel.protocol}{setting}",
                task=task,
                extension="direct",
            )
            config = made.config | dict(nested(setting) for setting in part.settings)
            found.append(changed(made, {"config": config} | values(name, task, encoding)))
    return found


def nested(setting: str) -> tuple[str, dict[str, object]]:
    """A setting of the command line, as the settings of a record hold it."""
    (section, key), value = setting.partition("=")[0].split("."), setting.partition("=")[2]
    return section, {key: float(value)}  # as the command line reads 6e-3, and YAML does not


def test_the_panels_of_heads_and_steps_have_no_test_beyond_training() -> None:
    """Their protocol measures 1x alone, and their rules do not even look at that."""
    from posbench.check.subject import setup

    run = setup("protocol=pilot", "task=copy", "method=rope")
    assert list(run.lengths.multiples.values()) == [1.0] and not run.config.evaluation.ladder
    assert run.config.training.total_steps == STEPS[-1]
    for name in ("heads", "steps"):
        assert definition.load(name).protocol == "pilot"
        assert ".rows" not in inspect.getsource(PANELS[name])


@pytest.mark.parametrize("name", ["heads", "steps"])
def test_they_come_out_the_same_whatever_the_tests_say(name: str) -> None:
    panel, choose = definition.load(name), PANELS[name]

    def values(part: str, task: str, encoding: str) -> dict[str, object]:
        return {"training.cpu_seconds": float(len(part + task + encoding)), "solved_step": 450}

    found = of_panel(panel, values)
    worse = [
        changed(each, {f"rows.{index}.score": 0.0 for index in range(len(each.rows))})
        for each in found
    ]
    assert choose(found, panel).markdown == choose(worse, panel).markdown


def test_the_heads_with_fewer_seconds_in_all_are_chosen() -> None:
    panel = definition.load("heads")

    def values(two: float, four: float) -> Callable[..., dict[str, object]]:
        return lambda part, task, encoding: {
            "training.cpu_seconds": two if part == "two heads" else four
        }

    assert heads(of_panel(panel, values(10, 9)), panel).decision.startswith("four heads")
    found = heads(of_panel(panel, values(10, 11)), panel)
    assert found.decision.startswith("two heads") and "two heads: 400 s" in found.decision
    assert len(found.table) == 5 * 4


@pytest.mark.parametrize(
    ("median", "chosen"), [(100, 1000), (500, 1000), (501, 2000), (1000, 2000), (1050, 4000)]
)
def test_steps_are_twice_the_median_rounded_up(median: float, chosen: int) -> None:
    assert chosen_steps(median) == chosen


def test_a_training_that_does_not_get_there_counts_as_the_most_steps() -> None:
    panel = definition.load("steps")

    def values(part: str, task: str, encoding: str) -> dict[str, object]:
        # Two of four encodings solve copy: the median lies between 300 and 4,000.
        if task == "copy" and encoding in ("nope", "alibi"):
            return {"solved_step": None}
        return {"solved_step": 300}

    table = steps(of_panel(panel, values), panel).table.set_index("task")
    assert table.loc["copy", "nope"] == 4000 and table.loc["copy", "median"] == 2150
    assert table.loc["copy", "steps"] == 4000 and set(table["steps"].drop("copy")) == {1000}


def test_one_rate_is_fair_if_the_order_at_the_best_rates_is_the_same() -> None:
    panel = definition.load("rates")
    of_part = {"rate 1.5e-3": 1.5e-3, "rate 3e-3": 3e-3, "rate 6e-3": 6e-3, "rate 1.2e-2": 1.2e-2}
    encodings = panel.parts["rate 3e-3"].encodings

    def values(reversed_at: str) -> Callable[..., dict[str, object]]:
        def each(part: str, task: str, encoding: str) -> dict[str, object]:
            place = encodings.index(encoding)
            level = (len(encodings) - place if part == reversed_at else place) / 10
            curve = {"step": [9], "loss": [1.0], "score": [1.0]}
            loss = 0.1 if part == "rate 6e-3" else 0.5
            return {
                "training.learning_rate": of_part[part],
                "training.curve": curve | {"validation_loss": [loss]},
                **{f"rows.{index}.score": level for index in range(8)},
            }

        return each

    same = rates(of_panel(panel, values("none")), panel)
    assert same.decision == "Rank correlation 1.00: every row is trained at 0.003"
    assert set(same.table["copy"]) == {"0.006"}, "the best by loss, whatever the area"
    other = rates(of_panel(panel, values("rate 6e-3")), panel)
    assert "-1.00: every row is trained at the better of 0.003 and 0.006" in other.decision


def test_the_order_at_equal_proficiency_is_held_against_that_at_equal_steps() -> None:
    panel = definition.load("until_solved")
    encodings = panel.parts["equal steps"].encodings

    def values(sign: int) -> Callable[[str, str, str], dict[str, object]]:
        def each(part: str, task: str, encoding: str) -> dict[str, object]:
            place = encodings.index(encoding)
            solved = part == "until solved"
            level = (4.5 + (sign if solved else 1) * (place - 3.5)) / 10
            return {
                "training.steps": 500 if solved else 4000,
                **{f"rows.{index}.score": level for index in range(8)},
            }

        return each

    same = until_solved(of_panel(panel, values(1)), panel)
    assert same.decision == "Rank correlation 1.00; nothing is decided by it"
    line = same.table.set_index("encoding").loc["nope"]
    assert line["mean steps, until solved"] == "500" and line["mean steps, equal steps"] == "4,000"
    chance = of_panel(panel, values(1))[0].rows[0].chance
    assert line["area, equal steps"] == pytest.approx((0.1 - chance) / (1 - chance), abs=2e-3)
    turned = until_solved(of_panel(panel, values(-1)), panel)
    assert turned.decision.startswith("Rank correlation -1.00")


def test_a_setting_that_is_the_protocols_own_is_not_in_the_name() -> None:
    """Four heads were the default when the panel ran: those records are called `pilot`."""
    panel = definition.load("heads")
    found = of_panel(panel, lambda *_: {})
    four = [
        changed(each, {"protocol.changed": []}) if each.config["model"]["num_heads"] == 4 else each
        for each in found
    ]
    assert heads(four, panel).decision == heads(found, panel).decision
    other = [changed(each, {"method.changed": ["encoding.base=7"]}) for each in found]
    with pytest.raises(PosbenchError, match="panel heads has no record of"):
        heads(other, panel)


def test_a_panel_that_is_not_complete_decides_nothing() -> None:
    panel = definition.load("heads")
    found = of_panel(panel, lambda *_: {})
    with pytest.raises(PosbenchError, match=r"panel heads has no record of \w+ on \w+, seed \d+"):
        heads(found[1:], panel)
    assert "Not complete yet: panel heads has no record of" in markdown(found[1:])


def test_tasks_and_protocol_have_what_the_panels_decided() -> None:
    """The decisions stand in the settings, not in the head of whoever reads the page."""
    from offered import CONF

    from posbench.check.subject import setup

    found = files.records(CONF.parent / "results/pilots")
    panel = definition.load("steps")
    decided = steps(found, panel).table.set_index("task")["steps"].astype(int).to_dict()
    trained = {
        task: setup("protocol=cpu", f"task={task}", "method=rope").config.training.total_steps
        for task in panel.all_tasks
    }
    assert trained == decided
    assert set(panel.all_tasks) == set(definition.load("main").all_tasks)
    won = heads(found, definition.load("heads")).decision.split(" (")[0]
    words = {"two heads": 2, "four heads": 4}
    assert setup("protocol=cpu", "task=copy", "method=rope").config.model.num_heads == words[won]


def test_newer_methods_are_shown_with_what_they_took_and_those_that_do_not_learn_are_named() -> (
    None
):
    panel = Board.model_validate(
        {
            "name": "newer",
            "tasks": ["passkey", "induction", "sort"],
            "parts": {
                "encodings": {
                    "encodings": ["wall", "bam"],
                    "tasks": ["passkey", "induction"],
                    "seeds": [100, 101],
                },
                "one task": {"encodings": ["cable"], "tasks": ["sort"], "seeds": [100]},
            },
        }
    )

    def values(part: str, task: str, encoding: str) -> dict[str, object]:
        unsolved = (task, encoding) in {("induction", "bam"), ("sort", "cable")}
        return {"solved_step": None if unsolved else 1250, "training.cpu_seconds": 7.4}

    found = of_panel(panel, values)
    shown = newer(found, panel)
    assert shown.decision == "Not solved with any seed: bam on induction, cable on sort"
    table = shown.table.set_index("row")
    assert list(table.columns) == ["passkey", "induction", "sort"]
    assert table.loc["wall", "induction"] == "1,250, 1,250 (7 s)"
    assert table.loc["bam", "induction"] == "never, never (7 s)"
    with pytest.raises(PosbenchError, match="newer has no record of wall on passkey, seed 100"):
        newer(found[1:], panel)


def test_rows_that_are_looked_at_have_their_scores_and_an_extension_is_not_taken_for_its_host() -> (
    None
):
    panel = Board.model_validate(
        {
            "name": "look",
            "tasks": ["copy"],
            "parts": {
                "encodings": {"encodings": ["rope"], "seeds": [100, 101]},
                "extensions": {"encodings": ["rope"], "extensions": ["pi"], "seeds": [100, 101]},
            },
        }
    )
    found = []
    for extension, scores in (("direct", (1.0, 0.8, 0.6, 0.4)), ("pi", (1.0, 0.2, 0.2, 0.0))):
        for seed, more in ((100, 0.0), (101, 0.1)):
            told = {m: score - more for m, score in zip((1, 2, 4, 8), scores, strict=True)}
            name = "rope" if extension == "direct" else f"rope_{extension}"
            told = {m: max(score, 0.0) for m, score in told.items()}
            found.append(record(name, told, seed, encoding="rope", extension=extension))
    table = look(found, panel).table.set_index("row")
    assert table.loc["rope"].tolist() == ["copy", ".95", ".75", ".55", ".35"]
    assert table.loc["rope_pi"].tolist() == ["copy", ".95", ".15", ".15", ".00"]
    with pytest.raises(PosbenchError, match="look has no record of rope with pi on copy, seed 100"):
        look(found[:2], panel)
    with pytest.raises(PosbenchError, match="look has no record of rope on copy, seed 100"):
        look(found[2:], panel)


def test_the_protocol_has_the_rate_that_the_panel_decided() -> None:
    from offered import CONF

    from posbench.check.subject import setup

    found = files.records(CONF.parent / "results/pilots")
    decision = rates(found, definition.load("rates")).decision
    rate = setup("protocol=cpu", "task=copy", "method=rope").config.training.learning_rate
    assert decision.endswith(f"every row is trained at {rate:g}")
