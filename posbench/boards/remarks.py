"""What a reader must know before believing a number on the board, in sentences."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards.measured_runs import BOARD, METHOD, RUN, TASK, MeasuredRuns
from posbench.config.modules import reading_once
from posbench.config.provenance import targets
from posbench.config.source_hash import located
from posbench.records.record import Audit, CarriedOver, Record
from posbench.statistics.aggregates import FEWEST, is_pretrained

MANY = 12
"""Methods whose records are of earlier code: more of them are counted and not named."""


MORE_SEEDS = " Add seeds with posbench sweep and 'seed=range(3)'."
MORE_SAMPLES = " Add samples with texts=3."


def remarks(measured: MeasuredRuns, audits: Sequence[Audit] = ()) -> list[str]:
    """The sentences that apply to these records."""
    runs = measured.lengths.drop_duplicates(RUN, keep="last")
    repeats = len(measured.records) - len(runs)
    found = measured.latest
    ages = _ages(found)
    said = [
        _several_protocols(runs),
        *measured.meaningless,
        _few_seeds(runs, found),
        _no_common_seed(runs),
        _several_settings(runs),
        _one_label_several_methods(runs),
        _one_method_several_labels(runs),
        _mixed_code(runs),
        _mixed_weights(found),
        _diverged(found),
        _outdated(found, ages),
        _unknown_code(found, ages),
        _repeats(repeats),
        _carried_over(found),
        _audits(audits),
    ]
    return [sentence for sentence in said if sentence]


def _several_protocols(runs: pd.DataFrame) -> str:
    names = sorted(runs["protocol_name"].unique())
    if len(names) == 1:
        return ""
    listed = ", ".join(names)
    return (
        f"Records of {len(names)} protocols ({listed}) are shown apart: never compare across them."
    )


def _few_seeds(runs: pd.DataFrame, found: Sequence[Record]) -> str:
    seeds = runs.groupby([*BOARD, *TASK, *METHOD])["seed"].nunique()
    if not (few := int((seeds < FEWEST).sum())):
        return ""
    pretrained = runs["method_class"].map(is_pretrained).all()  # samples are their seeds
    one, advice = ("sample", MORE_SAMPLES) if pretrained else ("seed", MORE_SEEDS)
    said = (
        f"{few:,} of {len(seeds):,} pairs of method and task {agreeing(few, 'has', 'have')} one "
        f"{one} or two, and so no interval"
        if few < len(seeds)
        else f"No method has three {one}s on any task, so no task has an interval"
    )
    more = "" if any(record.definition for record in found) else advice
    return f"{said}; {one} noise is often larger than the difference between two methods.{more}"


def _no_common_seed(runs: pd.DataFrame) -> str:
    """Rows of one table may be of other commands, each with seeds of its own."""
    tasks: dict[str, list[str]] = {}
    for (*_, task), table in runs.groupby([*BOARD, "task_name"]):
        seeds = table.groupby("row")["seed"].agg(lambda column: tuple(sorted(set(column))))
        if set.intersection(*map(set, seeds)):
            continue
        rows = seeds.index.to_series().groupby(seeds).agg(list)
        said = "; ".join(
            f"{'seed' if len(of) == 1 else 'seeds'} {', '.join(map(str, of))}: "
            f"{', '.join(names) if len(names) <= MANY else f'{len(names)} rows'}"
            for of, names in rows.items()
        )
        tasks.setdefault(said, []).append(str(task))
    if not tasks:
        return ""
    where = ". ".join(f"On {', '.join(names)}, {said}" for said, names in tasks.items())
    return (
        "Some rows of a table have no seed in common, so that a part of their difference is that "
        f"of the seeds. {where}. Run all of them with the same, as seed=10."
    )


def _several_settings(runs: pd.DataFrame) -> str:
    ambiguous = runs[runs["task_name"] != runs["task"]]
    if ambiguous.empty:
        return ""
    names = ", ".join(sorted(set(ambiguous["task_name"])))
    return (
        f"A task appears in several versions or settings ({names}): each has a table of its own "
        "and counts as a task."
    )


def _one_label_several_methods(runs: pd.DataFrame) -> str:
    names = sorted(set(runs.loc[runs["row"] != runs["method"], "row"]))
    if not names:
        return ""
    return (
        "One name means methods of different settings, which have different hashes "
        f"({', '.join(names)}). A name changes its meaning when its YAML does: repeat the older "
        "runs."
    )


def _one_method_several_labels(runs: pd.DataFrame) -> str:
    names = runs.groupby([*BOARD, "method_hash"])["row"].agg(lambda column: sorted(set(column)))
    same = sorted({" = ".join(group) for group in names if len(group) > 1})
    if not same:
        return ""
    return f"The same settings appear under different names, a row each: {'; '.join(same)}."


def _mixed_code(runs: pd.DataFrame) -> str:
    sources = runs.groupby(["row", *BOARD, *TASK, *METHOD])["source_hash"].nunique()
    names = sorted({index[0] for index in sources[sources > 1].index})
    if not names:
        return ""
    return (
        f"Seeds in one row were trained by different versions of the code ({', '.join(names)}): "
        "repeat the older ones."
    )


def _mixed_weights(found: list[Record]) -> str:
    """Rows that extend one training compare extensions, unless each has weights of its own."""
    first: dict[str, Record] = {}
    mixed = {
        f"{record.method.base} on {record.task.label}, seed {record.seed}"
        for record in found
        if not first.setdefault(record.training.hash, record).training.made_weights_of(
            record.training
        )
    }
    if not mixed:
        return ""
    listed = "; ".join(sorted(mixed)) if len(mixed) <= MANY else counted(len(mixed), "training")
    return (
        "Rows of one training come from different weights, because another kind of processor "
        f"rounds differently ({listed}). A part of their difference is that of the weights: make "
        "all of them on one machine, in a results_dir without the others."
    )


def _diverged(found: list[Record]) -> str:
    runs = sorted(
        f"{each.method.label} on {each.task.label}, seed {each.seed}"
        for each in found
        if each.diverged
    )
    if not runs:
        return ""
    return (
        f"{len(runs):,} of {counted(len(found), 'run')} diverged and "
        f"{agreeing(len(runs), 'counts', 'count')} as 0 at every length ({'; '.join(runs)}): the "
        f"{agreeing(len(runs), 'record says', 'records say')} why."
    )


def _outdated(found: list[Record], ages: Sequence[bool | None]) -> str:
    old = [record for record, age in zip(found, ages, strict=True) if age]
    if not old:
        return ""
    names = sorted({record.method.label for record in old})
    listed = ", ".join(names) if len(names) <= MANY else f"{len(names)} methods"
    return (
        f"{len(old):,} of {counted(len(found), 'record')} {agreeing(len(old), 'comes', 'come')} "
        f"from other code than this version's ({listed}): run them again."
    )


def _unknown_code(found: list[Record], ages: Sequence[bool | None]) -> str:
    unknown = [record for record, age in zip(found, ages, strict=True) if age is None]
    if not unknown:
        return ""
    missing = sorted({target for record in unknown for target in _not_at_hand(record)})
    return (
        f"{counted(len(unknown), 'record')} {agreeing(len(unknown), 'has', 'have')} classes whose "
        "code is not at hand, so whether it has changed is not known: "
        f"{', '.join(missing)}. If it is in a folder of yours, add --config-dir FOLDER."
    )


def _repeats(count: int) -> str:
    if not count:
        return ""
    return (
        f"{counted(count, 'record')} {agreeing(count, 'repeats', 'repeat')} a run that is there "
        "already, with the same settings and seed: the last file by path is used."
    )


def _carried_over(found: list[Record]) -> str:
    carried = [(record, record.carried_over) for record in found if record.carried_over]
    if not carried:
        return ""
    # Counts are those of a stratum, which all its records name.
    strata = {_stratum(record, stamp): stamp for record, stamp in carried}.values()
    verified, of = sum(each.verified for each in strata), sum(each.of for each in strata)
    return (
        f"{counted(len(carried), 'record')} {agreeing(len(carried), 'was', 'were')} made by "
        f"earlier code. A sample of {verified:,} of {of:,} was repeated with the code whose hash "
        "is now recorded, and every number was the same."
    )


def _stratum(record: Record, stamp: CarriedOver) -> tuple[object, ...]:
    """What records had in common that were carried over together: see `posbench.sharing.verify`."""
    training, evaluated = record.training, record.evaluated
    changes = (
        (stamp.source_hash, training.source_hash),
        (stamp.evaluation_hash, evaluated.source_hash),
    )
    told = (pair if pair[0] != pair[1] else None for pair in changes)
    return (*told, training.hardware, evaluated.hardware, stamp.verified, stamp.of)


def _audits(audits: Sequence[Audit]) -> str:
    if not audits:
        return ""
    rows = [row for audit in audits for row in audit.rows]
    methods = len({audit.method for audit in audits})
    count = sum(row.num_samples for row in rows)
    wrong = sum(row.disagreements for row in rows)
    prefixes = sum(row.prefix_disagreements for row in rows)
    return (
        f"Audit: {count:,} sequences of {counted(methods, 'method')} were also decoded token by "
        f"token. Greedy decoding and teacher forcing disagree on {wrong} of them, and on the "
        f"correct prefix of {prefixes}."
    )


def _ages(found: Sequence[Record]) -> list[bool | None]:
    """Whether each is `outdated`; the seeds of a run have one answer, and it is asked once."""
    known: dict[tuple[str, ...], bool | None] = {}
    ages = []
    with reading_once():
        for record in found:
            run = (record.protocol.hash, record.task.hash, record.method.hash)
            key = (*run, record.training.source_hash, record.evaluated.source_hash)
            if key not in known:
                known[key] = outdated(record)
            ages.append(known[key])
    return ages


def outdated(record: Record) -> bool | None:
    """Whether the code that trained or tested this record has changed since.

    None where that cannot be told, because a module from outside the package is not at hand.
    """
    if missing := _not_at_hand(record):
        return True if any(target.startswith("posbench.") for target in missing) else None
    made_by = record.training.source_hash, record.evaluated.source_hash
    return made_by != record.source_hashes_today


def _not_at_hand(record: Record) -> list[str]:
    """The classes of a record's task and method that cannot be found here."""
    parts = (record.config[part] for part in ("task", "encoding", "extension"))
    return [target for part in parts for target in targets(part) if not _at_hand(target)]


@functools.cache
def _at_hand(target: str) -> bool:
    return located(target) is not None


# -- where numbers come from -----------------------------------------------------------------------

FIRST = 3
"""Versions, commits and devices that are named."""
HASH = 12
"""Digits of a commit."""


def origins(found: Sequence[Record]) -> str:
    """Where the numbers come from: commits, versions and devices, the most frequent first."""
    commits = _counted(str(record.training.commit or "unknown")[:HASH] for record in found)
    devices = _counted(record.training.hardware for record in found)
    versions = _counted(
        ", ".join(f"{name} {version}" for name, version in sorted(record.training.versions.items()))
        for record in found
    )
    records = counted(len(found), "record")
    return f"{records}; trained at commit {commits}; on {devices}; with {versions}."


def _counted(values: Iterator[str]) -> str:
    counts = pd.Series(list(values)).value_counts()
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rest = len(ordered) - FIRST
    more = f" and {counted(rest, 'other')}" if rest > 0 else ""
    return ", ".join(str(value) for value, _ in ordered[:FIRST]) + more
