"""The leaderboard: records in, `leaderboard.md`, `.html` and `.csv` out. Same records, same bytes.

`python -m posbench.leaderboard [FOLDER]` reads FOLDER/records (your own runs by default), writes the three
files into FOLDER and prints the tables. Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from posbench import provenance, results
from posbench.errors import PosbenchError

THRESHOLD = 0.95
"""Sequence accuracy from which a length counts as solved: the effective length is the largest such one."""
CONFIDENCE = 0.95

INTRODUCTION = """\
Sequence accuracy (every answer token and the end right) by test length, in multiples of the training length.
**Mean** averages the lengths beyond the training length over tasks and seeds; lengths in brackets are shown
but not averaged. ± is the half-width of the 95 % interval over seeds (Student's t); differences within the
intervals are not differences. **Solved** counts the seeds that learned the task at all (accuracy of at least
.95 at 1x): a row that did not learn says nothing about extrapolation. Unsolved seeds stay in every mean; the
solved-only mean stands beside it. **Effective** is the largest length with a mean accuracy of at least .95,
all shorter ones included."""


@dataclass
class Section:
    """One table: a protocol, and one task or all of them."""

    title: str
    anchor: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    curves: str = ""  # SVG


def build(table: pd.DataFrame, notes: list[str]) -> tuple[list[Section], pd.DataFrame]:
    """The sections of the board and the long table of means behind them."""
    sections: list[Section] = []
    summaries = []
    for (_, label), board in table.groupby(["protocol_hash", "protocol"], sort=False):
        tasks = [part for _, part in board.groupby(["task", "task_hash", "task_version"], sort=True)]
        colours = {method: index for index, method in enumerate(sorted(board["method"].unique()))}
        overall = []
        for part in tasks:
            section, summary, scores = _task_section(part, str(label), colours)
            sections.append(section)
            summaries.append(summary)
            overall.append(scores)
        if len(tasks) > 1:
            sections.insert(len(sections) - len(tasks), _overall_section(str(label), pd.concat(overall), len(tasks)))
    return sections, pd.concat(summaries, ignore_index=True)


def _task_section(
    part: pd.DataFrame, protocol: str, colours: dict[str, int]
) -> tuple[Section, pd.DataFrame, pd.DataFrame]:
    task = str(part["task"].iloc[0])
    part = part.sort_values(["method", "seed", "test_length"])
    multiples = part.drop_duplicates("test_length").sort_values("test_length")
    columns = [(float(m), bool(a)) for m, a in zip(multiples["multiple"], multiples["aggregated"], strict=True)]

    summaries, scores, rows = [], [], []
    for method, runs in part.groupby("method", sort=True):
        by_seed = runs.pivot_table(index="seed", columns="multiple", values="sequence_accuracy")
        beyond = [m for m, aggregated in columns if aggregated and m > 1 and m in by_seed]
        solved = runs.drop_duplicates("seed").set_index("seed")["solved"].astype(bool)
        first = runs.iloc[0]
        cells = {m: _mean_and_half(by_seed[m].to_numpy()) for m, _ in columns if m in by_seed}
        score = by_seed[beyond].mean(axis=1)
        scores.append(
            pd.DataFrame(
                {
                    "method": method,
                    "task": task,
                    "seed": score.index,
                    "score": score.to_numpy(),
                    "solved": solved.reindex(score.index).to_numpy(),
                    "class": first["class"],
                    "parameters": first["parameters"],
                    "cpu": runs.drop_duplicates("seed")
                    .set_index("seed")["train_cpu_seconds"]
                    .reindex(score.index)
                    .to_numpy(),
                    **{m: by_seed[m].to_numpy() for m in by_seed},
                }
            )
        )
        for m, (mean, half) in cells.items():
            summaries.append(
                {
                    "protocol": protocol,
                    "task": task,
                    "method": method,
                    "class": first["class"],
                    "multiple": m,
                    "seeds": len(by_seed),
                    "seeds_solved": int(solved.sum()),
                    "sequence_accuracy": mean,
                    "half_width_95": half,
                    "lowest": float(by_seed[m].min()),
                    "highest": float(by_seed[m].max()),
                    "token_accuracy": float(runs.loc[runs["multiple"] == m, "token_accuracy"].mean()),
                    "loss": float(runs.loc[runs["multiple"] == m, "loss"].mean()),
                    "parameters": int(first["parameters"]),
                    "train_cpu_seconds": float(runs.drop_duplicates("seed")["train_cpu_seconds"].mean()),
                }
            )
        steps = runs.drop_duplicates("seed")["solved_step"].dropna()
        only = score[solved.reindex(score.index)]
        rows.append(
            (
                -score.mean(),
                [
                    str(method),
                    _shown(*_mean_and_half(score.to_numpy())),
                    *(_shown(*cells[m]) if m in cells else "–" for m, _ in columns),
                    f"{int(solved.sum())}/{len(solved)}",
                    _number(only.mean()) if len(only) else "–",
                    _effective(cells, columns),
                    f"{steps.mean():.0f}" if len(steps) else "–",
                    f"{runs.drop_duplicates('seed')['train_cpu_seconds'].mean():.0f}",
                ],
            )
        )
    headings = [
        "method",
        "mean",
        *(_heading(m, aggregated) for m, aggregated in columns),
        "solved",
        "mean of solved",
        "effective",
        "steps to solved",
        "CPU s",
    ]
    lengths = part.drop_duplicates("test_length").sort_values("test_length")
    note = (
        f"Trained on n up to {part['train_length'].iloc[0]} "
        f"({part['train_positions'].iloc[0]} positions); tested at "
        + ", ".join(f"{n} ({t} tokens)" for n, t in zip(lengths["test_length"], lengths["total_length"], strict=True))
        + "."
    )
    ordered = [row for _, row in sorted(rows, key=lambda row: (row[0], row[1][0]))]
    title = f"{task}, protocol {protocol}"
    section = Section(title, _anchor(title), headings, ordered, [note])
    summary = pd.DataFrame(summaries)
    section.curves = _curves(summary, columns, colours)
    return section, summary, pd.concat(scores)


def _overall_section(protocol: str, scores: pd.DataFrame, num_tasks: int) -> Section:
    multiples = sorted(m for m in scores.columns if isinstance(m, float) and scores[m].notna().any())
    complete, incomplete = [], []
    for method, runs in scores.groupby("method", sort=True):
        per_seed = runs.groupby("seed")[["score", *multiples]].mean()
        every = runs.groupby("seed")["task"].nunique()
        tasks = runs["task"].nunique()
        paired = per_seed[every == num_tasks]  # seeds that were run on every task
        only = runs[runs["solved"].astype(bool)]["score"]
        mean, half = _mean_and_half(paired["score"].to_numpy()) if len(paired) else (np.nan, np.nan)
        row = [
            str(method),
            str(runs["class"].iloc[0]),
            _shown(mean, half) if len(paired) else f"{tasks} of {num_tasks} tasks",
            *(_number(paired[m].mean()) if len(paired) else "–" for m in multiples),
            f"{int(runs['solved'].sum())}/{len(runs)}",
            _number(only.mean()) if len(only) else "–",
            f"{int(runs['parameters'].max()):,}",
            f"{runs['cpu'].mean():.0f}",
        ]
        (complete if len(paired) else incomplete).append((-mean if len(paired) else 0.0, row))
    title = f"All {num_tasks} tasks, protocol {protocol}"
    ordered = [row for _, row in sorted(complete, key=lambda r: (r[0], r[1][0]))]
    ordered += [row for _, row in sorted(incomplete, key=lambda r: r[1][0])]
    headings = ["method", "class", "mean", *(f"{m:g}x" for m in multiples)]
    headings += ["solved", "mean of solved", "parameters", "CPU s"]
    notes = ["A row is a mean over tasks of unlike difficulty: look at each task before you choose."]
    if incomplete:
        notes.append("Rows without a mean lack some of the tasks; a mean over other tasks would not be comparable.")
    return Section(title, _anchor(title), headings, ordered, notes)


def remarks(found: list[results.Record], table: pd.DataFrame) -> list[str]:
    """What a reader must know before believing a number, a sentence each."""
    notes = []
    protocols = table.drop_duplicates("protocol_hash")["protocol"].tolist()
    if len(protocols) > 1:
        notes.append(
            f"Records of {len(protocols)} protocols ({', '.join(protocols)}) are shown apart: never compare across them."
        )
    if "smoke" in protocols:
        notes.append("The smoke protocol only proves that the code runs; its accuracies mean nothing.")
    seeds = table.groupby(["protocol_hash", "task_hash", "method"])["seed"].nunique()
    if (seeds == 1).any():
        few = int((seeds == 1).sum())
        notes.append(
            f"{few} of {len(seeds)} rows rest on one seed: they have no interval, and seed noise is often larger "
            "than the difference between two methods. Add seeds with -m 'seed=range(3)'."
        )
    tasks = table.groupby(["protocol_hash", "task"])["task_hash"].nunique()
    if (tasks > 1).any():
        notes.append("A task appears in several versions or settings: each is a table of its own.")
    old = [record for record in found if _outdated(record)]
    if old:
        names = sorted({record["method"]["label"] for record in old})
        notes.append(
            f"{len(old)} of {len(found)} records come from other training code than this version's "
            f"({', '.join(names)}): repeat them with force=true."
        )
    return notes


def _outdated(record: results.Record) -> bool:
    """Whether the modules that trained this record have changed since; False where they are not installed."""
    targets = [record["config"]["task"]["_target_"], *_targets(record["config"]["encoding"])]
    modules = [target.rpartition(".")[0] for target in targets]
    if any(provenance.module_file(module) is None for module in modules):
        return False
    return provenance.source_hash("posbench.training", *modules) != record["provenance"]["source_hash"]


def _targets(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [value for key, value in node.items() if key == "_target_"] + [
            target for value in node.values() for target in _targets(value)
        ]
    return [target for value in node for target in _targets(value)] if isinstance(node, list) else []


def _mean_and_half(values: np.ndarray) -> tuple[float, float]:
    """Mean and half-width of its interval over seeds; NaN where one seed allows none."""
    from scipy import stats

    mean = float(values.mean())
    if len(values) < 2:
        return mean, float("nan")
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return mean, float(half)


def _effective(cells: dict[float, tuple[float, float]], columns: list[tuple[float, bool]]) -> str:
    reached = "–"
    for multiple, _ in sorted(columns):
        if multiple not in cells or cells[multiple][0] < THRESHOLD:
            break
        reached = f"{multiple:g}x"
    return reached


def _shown(mean: float, half: float) -> str:
    return _number(mean) if np.isnan(half) else f"{_number(mean)} ±{_number(half)}"


def _number(value: float) -> str:
    """Two decimals without the leading zero: .93, 1.00."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0.") else text


def _heading(multiple: float, aggregated: bool) -> str:
    return f"{multiple:g}x" if aggregated else f"({multiple:g}x)"


def _anchor(title: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in title.lower())


# -- pictures and files ----------------------------------------------------------------------------------


def _curves(summary: pd.DataFrame, columns: list[tuple[float, bool]], colours: dict[str, int]) -> str:
    """Accuracy against length as SVG: one line a method, the training length marked."""
    import io

    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    palette = mpl.color_sequences["tab20"][0::2] + mpl.color_sequences["tab20"][1::2]
    dashes = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
    markers = "osD^vP*X"
    style = {"svg.hashsalt": "posbench", "svg.fonttype": "none", "font.size": 11, "font.family": "sans-serif"}
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(8.6, 3.8), layout="constrained")
        order = summary[summary["multiple"] > 1].groupby("method")["sequence_accuracy"].mean()
        for method in order.sort_values(ascending=False, kind="stable").index:
            line = summary[summary["method"] == method].sort_values("multiple")
            index = colours[method]
            half = line["half_width_95"].fillna(0.0)
            mean, x = line["sequence_accuracy"], line["multiple"]
            colour = palette[index % len(palette)]
            axes.fill_between(x, (mean - half).clip(0, 1), (mean + half).clip(0, 1), color=colour, alpha=0.12, lw=0)
            axes.plot(
                x,
                mean,
                label=method,
                color=colour,
                linestyle=dashes[index % len(dashes)],
                marker=markers[index % len(markers)],
                markersize=4.5,
                linewidth=1.8,
            )
        axes.axvline(1, color="0.6", linewidth=1, linestyle=":")
        axes.set_xscale("log", base=2)
        ticks = [m for m, _ in columns]
        axes.set_xticks(ticks, [f"{m:g}x" for m in ticks])
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("test length / training length")
        axes.set_ylabel("sequence accuracy")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False, fontsize=10)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    svg = out.getvalue()
    return svg[svg.index("<svg") :]


def markdown(sections: list[Section], notes: list[str]) -> str:
    lines = ["# posbench leaderboard", "", INTRODUCTION, ""]
    lines += [f"> {note}\n" for note in notes]
    for section in sections:
        lines += [f"## {section.title}", "", *(f"{note}\n" for note in section.notes)]
        lines.append("| " + " | ".join(section.headings) + " |")
        lines.append("| --- |" + " ---: |" * (len(section.headings) - 1))
        lines += ["| " + " | ".join(row) + " |" for row in section.rows]
        lines.append("")
    lines.append("Generated by `python -m posbench.leaderboard` from the records beside it; do not edit.")
    return "\n".join(lines) + "\n"


def html(sections: list[Section], notes: list[str]) -> str:
    import jinja2

    template = (Path(__file__).parent / "leaderboard.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    introduction = INTRODUCTION.replace("**", "")
    return environment.from_string(template).render(sections=sections, notes=notes, introduction=introduction)


def generate(folder: Path) -> tuple[dict[str, str], list[Section], list[str]]:
    """File name -> content, and what the terminal shows."""
    found = results.records(folder)
    if not found:
        hint = "run `python -m posbench` first"
        if folder != results.PUBLISHED and results.PUBLISHED.is_dir():
            hint += f", or read the published board with `python -m posbench.leaderboard {results.PUBLISHED}`"
        raise PosbenchError(f"no records in {folder}: {hint}")
    table = results.table(found)
    notes = remarks(found, table)
    sections, summary = build(table, notes)
    files = {
        "leaderboard.md": markdown(sections, notes),
        "leaderboard.html": html(sections, notes),
        "leaderboard.csv": summary.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
    }
    return files, sections, notes


def show(sections: list[Section], notes: list[str], emit: Callable[[str], None]) -> None:
    for section in sections:
        columns = list(zip(section.headings, *section.rows, strict=True))
        padded = []
        for index, column in enumerate(columns):
            width = max(map(len, column))
            padded.append([cell.rjust(width) if index else cell.ljust(width) for cell in column])
        emit(f"{section.title}\n")
        for line in zip(*padded, strict=True):
            emit("  " + "  ".join(line).rstrip())
        emit("")
    for note in notes:
        emit(f"Note: {note}")


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m posbench.leaderboard", description="Records in, leaderboard out.")
    parser.add_argument("folder", nargs="?", type=Path, default=results.LOCAL, help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if regenerating changes a file")
    chosen = parser.parse_args(arguments)
    try:
        files, sections, notes = generate(chosen.folder)
    except PosbenchError as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1
    if chosen.check:
        changed = [
            name
            for name, content in files.items()
            if not (path := chosen.folder / name).exists() or path.read_bytes() != content.encode()
        ]
        if changed:
            print(
                f"posbench: regenerating changes {', '.join(changed)} in {chosen.folder}: run "
                f"`python -m posbench.leaderboard {chosen.folder}` and commit the result",
                file=sys.stderr,
            )
            return 1
        emit(f"{chosen.folder}: up to date.")
        return 0
    for name, content in files.items():
        (chosen.folder / name).write_bytes(content.encode())
    show(sections, notes, emit)
    emit(f"Written: {', '.join(str(chosen.folder / name) for name in files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
