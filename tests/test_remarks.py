"""Nothing is mixed, and what a reader must know is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from boards import lines, remarks, scores
from making import changed, record, save

from posbench.boards import remarks as remarking
from posbench.boards.measured_runs import MeasuredRuns
from posbench.config import provenance
from posbench.records import files
from posbench.records.record import Audit, AuditRow, Record

# -- nothing is mixed ------------------------------------------------------------------------------


@pytest.mark.slow
def test_protocols_are_never_mixed_not_even_under_one_name() -> None:
    found = [
        record("rope", {1: 1.0, 2: 0.2}),
        record("rope", {1: 1.0, 2: 0.8}, seed=1, protocol_hash="feedfeedfeedfeed"),
    ]
    far = lines(*found).query("multiple == 2")
    assert sorted(far["score"]) == [0.2, 0.8] and "cpu [feedfeed]" in set(far["protocol_name"])
    assert "Records of 2 protocols" in remarks(*found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"task_version": 2}, "copy, version 2"),
        ({"task.hash": "feedfeedfeedfeed"}, "copy [feedfeed]"),
    ],
)
def test_versions_and_settings_of_a_task_have_tables_of_their_own(
    change: dict[str, Any], name: str
) -> None:
    later = changed(record("rope", {1: 1.0, 2: 0.8}, seed=1), change)
    found = [record("rope", {1: 1.0, 2: 0.2}), later]
    far = lines(*found).query("multiple == 2")
    assert sorted(far["score"]) == [0.2, 0.8]
    assert far["task_name"].nunique() == 2 and name in set(far["task_name"])
    assert "several versions or settings" in remarks(*found)


@pytest.mark.slow
def test_one_name_for_two_methods_gives_two_rows_that_show_their_hash() -> None:
    found = [
        record("rope", {1: 1.0, 2: 0.2}, method_hash="aaaaaaaabbbbbbbb"),
        record("rope", {1: 1.0, 2: 0.8}, seed=1, method_hash="ccccccccdddddddd"),
    ]
    assert {name: by_length[2] for name, by_length in scores(*found).items()} == {
        "rope [cccccccc]": 0.8,
        "rope [aaaaaaaa]": 0.2,
    }
    assert "One name means methods of different settings" in remarks(*found)


@pytest.mark.slow
def test_one_method_under_two_names_gives_two_rows_and_a_remark() -> None:
    found = [
        record(method, {1: 1.0, 2: score}, method_hash="aaaaaaaabbbbbbbb")
        for method, score in (("rope", 0.2), ("mine", 0.8))
    ]
    assert set(scores(*found)) == {"rope", "mine"}
    assert "mine = rope" in remarks(*found)


@pytest.mark.slow
def test_rows_of_one_table_without_a_common_seed_are_named_with_their_seeds() -> None:
    there = [record("rope", {1: 1.0, 2: 0.2}), record("alibi", {1: 1.0, 2: 0.3})]
    mine = [record("mine", {1: 1.0, 2: 0.8}, seed=seed) for seed in (10, 11)]
    said = remarks(*there, *mine)
    assert (
        "no seed in common" in said and "On copy, seed 0: alibi, rope; seeds 10, 11: mine. " in said
    )
    assert "no seed in common" not in remarks(*there)
    assert "no seed in common" not in remarks(*there, *mine, record("mine", {1: 1.0, 2: 0.8}))


@pytest.mark.slow
def test_a_run_that_is_there_twice_counts_once_and_the_later_file_wins(tmp_path: Path) -> None:
    [path] = save(tmp_path, record("rope", {1: 1.0, 2: 0.2}))
    path.rename(
        path.with_suffix(".1a2b3c4d.json")
    )  # put aside by a change of settings that was changed back
    save(tmp_path, record("rope", {1: 1.0, 2: 0.8}))
    found = files.records(tmp_path)
    far = lines(*found).query("multiple == 2")
    assert far[["seeds", "score"]].to_numpy().tolist() == [[1, 0.8]]
    assert "1 record repeats a run" in remarks(*found)


@pytest.mark.slow
def test_seeds_trained_by_different_code_are_remarked_on() -> None:
    one, other = record(seed=0), record(seed=1)
    assert "different versions of the code" not in remarks(one, other)
    other = changed(other, {"training.source_hash": "1"})
    assert "different versions of the code (rope)" in remarks(one, other)


@pytest.mark.slow
def test_rows_of_one_training_from_two_machines_are_remarked_on() -> None:
    one = record("rope")
    near, far = (
        changed(
            record("rope_pi"),
            {
                "training.settings_hash": one.training.settings_hash,
                "training.curve.loss": [factor * loss for loss in one.training.curve.loss],
            },
        )
        for factor in (1.0004, 1.01)
    )
    assert one.training.hash == far.training.hash and one.training.curve.loss
    assert "different weights" not in remarks(one, near)
    assert "from different weights" in (said := remarks(one, far))
    assert f"({far.method.base} on copy, seed 0)" in said
    elsewhere = changed(far, {"training.settings_hash": "another"})
    assert "different weights" not in remarks(one, elsewhere)


@pytest.mark.slow
def test_records_of_older_training_code_are_remarked_on_where_the_code_is_installed() -> None:
    parts = {
        "task": {"_target_": "posbench.tasks.copy.Copy"},
        "encoding": {"_target_": "posbench.encodings.rotary.RoPE"},
        "extension": {"_target_": "posbench.extensions.direct.Direct"},
    }
    hashes = {
        "training.source_hash": provenance.training_hash(parts),
        "evaluated.source_hash": provenance.evaluation_hash(parts["extension"]),
    }
    current = changed(record(), {f"config.{part}": parts[part] for part in parts} | hashes)
    assert "other code" not in remarks(current)
    for field in hashes:
        old = changed(current, {field: "0"})
        assert "1 of 1 record comes from other code than this version's (rope)" in remarks(old)

    def with_task(target: str) -> str:
        return remarks(changed(current, {"config.task._target_": target}))

    moved = with_task("posbench.tasks.another_file.Copy")
    assert "other code" not in moved and "not at hand" not in moved
    assert "other code" in with_task("posbench.tasks.copy.BeforeItWasRenamed")
    foreign = with_task("of_ones_own.not_installed_here.Name")
    assert "other code" not in foreign and "add --config-dir FOLDER" in foreign
    # The class that is missing, be it the task's: the method may well be here.
    told = "1 record has classes whose code is not at hand, so whether it has changed is not known"
    assert f"{told}: of_ones_own.not_installed_here.Name. If" in foreign


@pytest.mark.slow
def test_the_smoke_protocol_is_said_to_mean_nothing() -> None:
    assert "smoke protocol" in remarks(record(protocol="smoke (training.steps=10)"))
    assert "smoke protocol" not in remarks(record(protocol="smokeless"))


# -- runs that diverged ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_diverged_and_was_repeated_is_not_spoken_of() -> None:
    failed = changed(record("rope", {1: 0.0, 2: 0.0}), {"diverged": "the loss became nan"})
    said = remarks(failed)
    assert "1 of 1 run diverged and counts" in said and "(rope on copy, seed 0)" in said
    assert "diverged" not in remarks(failed, record("rope", {1: 1.0}))


def test_a_run_that_diverged_says_nothing_of_the_others() -> None:
    failed = changed(record("nope", {1: 0.0, 2: 0.0}), {"diverged": "the loss became nan"})
    assert "1 of 2 runs diverged" in remarks(failed, record("rope"))


# -- what was checked ------------------------------------------------------------------------------


def carried(method: str, seed: int, verified: int, of: int, **before: str) -> Record:
    """A record of today's hashes "0" that had others: `training`, `evaluated`."""
    stamp = {
        "source_hash": before.get("training", "0"),
        "evaluation_hash": before.get("evaluated", "0"),
        "verified": verified,
        "of": of,
    }
    return changed(record(method, seed=seed), {"carried_over": stamp})


@pytest.mark.slow
def test_records_that_were_carried_over_are_counted_and_so_are_those_that_were_repeated() -> None:
    assert "carried over" not in remarks(record())
    one = [carried("rope", seed, verified=2, of=3, evaluated="old") for seed in range(3)]
    other = [carried("alibi", 0, verified=1, of=1, evaluated="older")]
    said = remarks(*one, *other)
    assert "4 records were made by earlier code. A sample of 3 of 4 was repeated" in said


def test_a_stratum_of_records_trained_by_unlike_code_is_counted_once() -> None:
    """The test code changed, and with it records of all encodings: they were one stratum."""
    rope, nope = (carried(name, 0, verified=1, of=2, evaluated="old") for name in ("rope", "nope"))
    unlike = {"training.source_hash": "1", "carried_over.source_hash": "1"}
    assert "A sample of 1 of 2 was repeated" in remarks(rope, changed(nope, unlike))


def audited(method: str, wrong: int) -> Audit:
    rows = [AuditRow(test_length=10, num_samples=8, disagreements=wrong, prefix_disagreements=1)]
    made = record(method)
    return Audit(
        protocol=made.protocol.slug,
        task=made.task.slug,
        method=made.method.slug,
        seed=0,
        source_hash="0",
        evaluation_hash="0",
        rows=rows * 2,
    )


def test_audits_are_summed_up() -> None:
    found = [record("rope"), record("alibi")]
    audits = [audited("rope", 0), audited("alibi", 3)]
    [said] = [line for line in remarking.remarks(MeasuredRuns.of(found), audits) if "Audit" in line]
    assert "32 sequences of 2 methods" in said and "disagree on 6 of them" in said
    assert said.endswith("on the correct prefix of 4.")
    assert "Audit" not in remarks(*found)
