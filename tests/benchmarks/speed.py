"""What posbench itself costs, beside what would have to be paid without it.

    python tests/benchmarks/speed.py                  all of it: half an hour on two cores
    python tests/benchmarks/speed.py --only skip start          some of it
    python tests/benchmarks/speed.py --write          and write tests/benchmarks/SPEED.md
    python tests/benchmarks/speed.py --write --only cores       only the rows of it

Each row is a ratio of two things measured in turn, A B A B, so that a busy machine disturbs both
alike. Times are CPU time, but for `cores`, which is about the clock. Prints a table; asserts
nothing, and says of each bar whether it is met.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

import full_size
import lightning as L
import torch
import torch.nn.functional as F
from browser import Page, browsing
from browser import found as browser
from torch import Tensor, nn

from posbench.config.compose import compose, composing
from posbench.config.folders import own_names
from posbench.core.scoring import Inputs, loss
from posbench.core.streams import stream_seed
from posbench.core.training import Batches, Training, fit
from posbench.records import files
from posbench.records.record import Record
from posbench.running.console import Console
from posbench.running.prepare import quiet
from posbench.running.replicas.trainings import Replicas
from posbench.running.run import train_and_record
from posbench.running.run_spec import RunSpec
from posbench.running.subject import setup

ROOT = Path(__file__).parent.parent.parent
PAGE = Path(__file__).parent / "SPEED.md"
HEAD = "| what | found | beside it | ratio | bar | met |\n| --- | --- | --- | ---: | --- | --- |\n"
ROUNDS = 7


@dataclass(frozen=True)
class Row:
    """A line of the table; `met` is None where there is no bar."""

    what: str
    found: str
    beside: str
    ratio: float | None
    bar: str = ""
    met: bool | None = None

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.2g}"
        ratio = f"{self.ratio:.2f}" if self.ratio and self.ratio >= 0.1 else ratio
        met = {None: "", True: "yes", False: "**no**"}[self.met]
        cells = (self.what, self.found, self.beside, ratio, self.bar, met)
        return f"| {' | '.join(cells)} |"


# -- commands --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spent:
    """What a command took, with all its children."""

    cpu: float
    wall: float
    out: str


def spent(*words: str, code: str = "", at: Path = ROOT) -> Spent:
    """A command of posbench, or some code, in a process of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    said = ["-c", code] if code else ["-m", "posbench", *words]
    done = subprocess.run(
        [sys.executable, *said],
        cwd=at,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)[:200]}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(cpu, wall, done.stdout)


def least(several: list[Spent]) -> float:
    """The CPU seconds of the least disturbed."""
    return min(each.cpu for each in several)


SMALL = ("protocol=smoke", "training.steps=2", "training.validate_every=2", "evaluation.ladder=[]")
METHODS, TASKS, SEEDS = 100, ("copy", "passkey"), 25


def completed(folder: Path) -> tuple[str, ...]:
    """The words of 5,000 runs, all of which have records: copies of one that was really made."""
    with composing():
        methods = own_names("method")[:METHODS]
        words = ("protocol=smoke", f"results_dir={folder}")
        first = RunSpec.of(compose("method=rope", "task=copy", *words))
        train_and_record(first, Console(io.StringIO()))
        made = files.read(first.path)
        for task in TASKS:
            for method in methods:
                spec = RunSpec.of(compose(f"method={method}", f"task={task}", *words))
                text = json.dumps(as_if_made(made, spec).as_json(), indent=1)
                for seed in range(SEEDS):
                    path = spec.path.with_name(f"seed={seed}.json")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text.replace('\n "seed": 0,', f'\n "seed": {seed},'))
    asked_for = (f"method={','.join(methods)}", f"task={','.join(TASKS)}", f"seed=range({SEEDS})")
    return (*asked_for, *words)


def as_if_made(record: Record, spec: RunSpec) -> Record:
    """The record under the names and hashes of another run."""
    fingerprint, identity = spec.fingerprint, spec.identity
    training = record.training.model_copy(update={"source_hash": fingerprint.training})
    evaluated = record.evaluated.model_copy(update={"source_hash": fingerprint.evaluation})
    names = {"protocol": identity.protocol, "task": identity.task, "method": identity.method}
    own = {"task_version": fingerprint.task_version, "command": str(spec.command)}
    return record.model_copy(update=names | own | {"training": training, "evaluated": evaluated})


def skip() -> Iterator[Row]:
    """`skip`: a sweep of 5,000 runs, 100 methods on 2 tasks with 25 seeds, all of which are
    complete, beside as many starts of a command that says of one run that it is complete.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = completed(Path(folder))
        one = ("method=rope", "task=copy", *words[3:])
        pairs = [(spent("-m", *words), spent(*one)) for _ in range(2)]
        for sweep, single in pairs:
            assert "5,000 were complete" in sweep.out, sweep.out
            assert "Complete already" in single.out, single.out
    ours, theirs = least([each[0] for each in pairs]), least([each[1] for each in pairs])
    yield Row(
        "skip",
        f"{ours:.1f} s: {1000 * ours / 5000:.1f} ms a run; {unhurried(ours):.1f} s if quiet",
        f"{theirs:.2f} s for one run, 5,000 times",
        ours / (5000 * theirs),
        "30 s",
        unhurried(ours) <= 30,
    )


LOADED = """
import os, sys
os.environ['LOADED'] = '1'
sys.argv = ['posbench', *{words!r}]
from posbench.cli import main
main()
heavy = [name for name in ('torch', 'lightning', 'pandas', 'matplotlib') if name in sys.modules]
print('loaded:', ' '.join(heavy) or 'none')
"""


def start() -> Iterator[Row]:
    """`start`: the answer of a single run whose record is there, beside importing what a run that
    is to be made imports.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ("method=rope", "task=copy", *SMALL, f"results_dir={folder}")
        spent(*words)
        imports = "import lightning, torch, posbench.running.run"
        pairs = [(spent(*words), spent(code=imports)) for _ in range(3)]
        assert all("Complete already" in each.out for each, _ in pairs)
        loaded = spent(code=LOADED.format(words=words)).out.rpartition("loaded: ")[2].strip()
    ours, theirs = (
        statistics.median(each.cpu for each in side) for side in zip(*pairs, strict=True)
    )
    yield Row(
        "start",
        f"{ours:.2f} s, {unhurried(ours):.2f} s if quiet; of torch, lightning, pandas and "
        f"matplotlib it imports {loaded}",
        f"{theirs:.2f} s",
        ours / theirs,
        "1.5 s, without lightning",
        unhurried(ours) <= 1.5 and "lightning" not in loaded,
    )


def plan() -> Iterator[Row]:
    """`plan` and `board`: `board=main plan_only=true` in an empty results folder, beside importing
    what a run imports; and what the plan says that the board costs, by the records in results/.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ("board=main", "plan_only=true", f"results_dir={folder}")
        imports = "import lightning, torch, posbench.running.run"
        pairs = [(spent("-m", *words), spent(code=imports)) for _ in range(2)]
    said = pairs[0][0].out
    ours, theirs = (least([each[side] for each in pairs]) for side in (0, 1))
    runs, trainings = re.search(r"([\d,]+) runs on ([\d,]+) trainings", said).groups()  # type: ignore[union-attr]
    each = 1000 * ours / int(runs.replace(",", ""))
    yield Row(
        "plan",
        f"{ours:.1f} s: {runs} runs planned on {trainings} trainings, {each:.1f} ms a run",
        f"{theirs:.1f} s to import",
        ours / theirs,
    )
    [cost] = [line for line in said.splitlines() if line.startswith(("About", "No record"))]
    cost = cost.removeprefix("About ").rstrip(".")
    yield Row(
        "board",
        cost.replace(" of CPU time on the machines of the records: ", " of CPU: "),
        "by earlier records",
        None,
    )


def leaderboard() -> Iterator[Row]:
    """`leaderboard`: all pages of a main board of records that were never run, about as many as it
    asks for, beside importing what makes them.
    """
    with tempfile.TemporaryDirectory() as folder:
        count = full_size.write(Path(folder), num_seeds=5)
        made = f"from posbench.boards import command; command.main([{folder!r}])"
        imports = "import posbench.boards.command, scipy.stats"
        pairs = [(spent(code=made), spent(code=imports)) for _ in range(2)]
    ours, theirs = (least([each[side] for each in pairs]) for side in (0, 1))
    yield Row(
        "leaderboard",
        f"{ours:.1f} s: {count:,} records; {unhurried(ours):.1f} s if quiet",
        f"{theirs:.1f} s to import",
        ours / theirs,
        "10 s",
        unhurried(ours) <= 10,
    )


# -- a page in a browser ---------------------------------------------------------------------------

DRAWN = "new Promise(then => requestAnimationFrame(() => requestAnimationFrame(() => then(1))))"


OPEN_A_ROW = "document.querySelector('.ranked tbody tr button').click()"


def opened() -> Iterator[Row]:
    """`opened`: the page of such a main board in a headless browser, by the clock: from asking for
    it until it is drawn, beside an empty page; then until a row is open, and until the table is
    filtered by a name that is typed. The least of three.
    """
    if browser() is None:
        return
    with tempfile.TemporaryDirectory() as folder, browsing(Path(folder, "profile")) as page:
        full_size.write(Path(folder), num_seeds=5)
        spent(code=f"from posbench.boards import command; command.main([{folder!r}])")
        board, empty = Path(folder, "leaderboard.html"), Path(folder, "empty.html")
        empty.write_text("<!doctype html><title>empty</title>")
        took: dict[str, list[float]] = {name: [] for name in ("empty", "drawn", "row", "typed")}
        for _ in range(3):
            took["empty"].append(until_drawn(page, lambda: page.open(empty)))
            took["drawn"].append(until_drawn(page, lambda: page.open(board)))
            took["row"].append(until_drawn(page, lambda: page.run(OPEN_A_ROW)))
            took["typed"].append(until_drawn(page, lambda: page.press("/", *"rope")))
        least = {name: min(seconds) for name, seconds in took.items()}
        rows = page.run("document.querySelectorAll('.ranked tr[data-r]').length")
        yield Row(
            "opened",
            f"{least['drawn']:.2f} s, {unhurried(least['drawn']):.2f} s if quiet: {rows} rows, "
            f"{board.stat().st_size / 1e6:.2f} MB; a row {least['row']:.2f} s, "
            f"a filter {least['typed']:.2f} s",
            f"{least['empty']:.2f} s",
            least["drawn"] / least["empty"],
            "2 s",
            unhurried(least["drawn"]) <= 2,
        )


def until_drawn(page: Page, act: Callable[[], object]) -> float:
    """Seconds by the clock until what is done can be seen."""
    start = time.monotonic()
    act()
    page.run(DRAWN)
    return time.monotonic() - start


# -- two workers -----------------------------------------------------------------------------------

STEPS = 250


def cores(trainings: int = 40) -> Iterator[Row]:
    """`cores`: a sweep of trainings of 250 steps on copy with two workers of joblib, beside one
    process, by the clock. How far the CPU time alone lets two workers come is twice the CPU time of
    one process over that of the sweep with two.
    """
    short = (
        "protocol=cpu",
        "method=rope,alibi,t5,nope",
        "task=copy",
        f"seed=range({trainings // 4})",
        f"training.steps={STEPS}",
        f"training.validate_every={STEPS}",
        "evaluation.ladder=[]",
    )
    two = ("hydra/launcher=cores", "hydra.launcher.n_jobs=2")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        both = []
        for name, words in (("two", two), ("one", ())):
            found = spent("-m", *short, *words, f"results_dir={folder}/{name}")
            assert f"{trainings} done in" in found.out, found.out
            both.append(found)
    parallel, serial = both
    ratio = serial.wall / parallel.wall
    yield Row(
        "cores",
        f"{trainings} trainings: {parallel.wall:.0f} s by the clock, {parallel.cpu:.0f} s of CPU; "
        f"{2 * serial.cpu / parallel.cpu:.2f} times as fast at most, by CPU time",
        f"{serial.wall:.0f} s by the clock, {serial.cpu:.0f} s of CPU; {before:.1f} other "
        f"processes wanted the {len(os.sched_getaffinity(0))} cores",
        ratio,
        "at least 1.8",
        ratio >= 1.8,
    )


# -- steps -----------------------------------------------------------------------------------------


def trainings(*words: str, count: int = 1) -> list[Training]:
    """Trainings of RoPE under the cpu protocol that differ in their seed."""
    made = [setup("protocol=cpu", "encoding=rope", *words, f"seed={i}") for i in range(count)]
    return [Training(run.model(), run.task, run.config.training, run.config.seed) for run in made]


class Stopwatch(L.Callback):
    """CPU seconds from the end of one step to that of another, of a training by Lightning."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.at: dict[int, float] = {}

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.at[trainer.global_step] = time.process_time()

    @property
    def seconds(self) -> float:
        return self.at[self.last] - self.at[self.first]


def by_trainer(training: Training, folder: Path, count: int) -> float:
    """CPU seconds of a step by Lightning, validation and the first steps left out."""
    watch = Stopwatch(8, count - 8)
    fit(training, folder / "last.ckpt", "cpu", 10**9, [], [watch], lambda point: None)
    return watch.seconds / (count - 16)


def bare(training: Training, count: int) -> float:
    """CPU seconds of a step by a loop that does what Lightning does, and no more."""
    training.train()
    configured = training.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    settings, batches, start = training.settings, Batches(training), 0.0
    losses = []
    for first in range(0, count, Batches.AT_ONCE):
        if first == Batches.AT_ONCE:
            start = time.process_time()
        for step, data in enumerate(batches.made(range(first, first + Batches.AT_ONCE)), first):
            torch.manual_seed(stream_seed(training.seed, "train", "step", step))
            optimizer.zero_grad()
            lost = loss(training.model, data)
            lost.backward()
            nn.utils.clip_grad_norm_(training.model.parameters(), settings.gradient_clip)
            optimizer.step()
            schedule.step()
            losses.append(lost.detach())
    return (time.process_time() - start) / (count - Batches.AT_ONCE)


def pace() -> tuple[float, float]:
    """Milliseconds of a step of NoPE on copy: now, and in GENERATORS.md on a quiet machine."""
    page = (Path(__file__).parent / "GENERATORS.md").read_text("utf-8")
    [(batch, step)] = re.findall(r"^\| copy \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \|", page, re.M)
    with composing():
        took = [bare(trainings("task=copy", "encoding=nope")[0], 48) for _ in range(3)]
    return 1000 * statistics.median(took), float(batch) + float(step)


def machine() -> Iterator[Row]:
    """`machine`: a training step on copy, beside the same in GENERATORS.md, which was written on a
    quiet machine. Processes that share a core also cost each other CPU time: bars in seconds are
    held against seconds divided by this. Ratios need no such thing.
    """
    found, usual = pace()
    yield Row(
        "machine",
        f"{found:.1f} ms; {os.getloadavg()[0]:.1f} processes wanted "
        f"{len(os.sched_getaffinity(0))} cores",
        f"{usual:.1f} ms",
        found / usual,
    )


def unhurried(seconds: float) -> float:
    """As on a quiet machine."""
    found, usual = pace()
    return seconds * usual / found


def trainer() -> Iterator[Row]:
    """`trainer`: a step of a training by Lightning's Trainer, beside the same step in a bare loop:
    the same batches, loss, clipping, optimiser and schedule. Validation is left out of both.
    """
    quiet()
    count = 96
    for task in ("copy", "passkey", "key_value_retrieval"):
        ours, theirs = [], []
        words = (f"task={task}", f"training.steps={count}", f"training.validate_every={count}")
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                ours.append(by_trainer(trainings(*words)[0], Path(folder), count))
            theirs.append(bare(trainings(*words)[0], count))
        found, beside = statistics.median(ours), statistics.median(theirs)
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        yield Row(
            f"trainer, {task}",
            f"{1000 * found:.2f} ms a step",
            f"{1000 * beside:.2f} ms",
            ratio,
            "at most 1.05",
            ratio <= 1.05,
        )


class Library(nn.Module):
    """A transformer of x-transformers of the same shape, which takes what ours takes."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        from x_transformers import Decoder, TransformerWrapper

        ours = training.model
        self.inside = TransformerWrapper(
            num_tokens=ours.embedding.num_embeddings,
            max_seq_len=1024,
            use_abs_pos_emb=False,
            attn_layers=Decoder(
                dim=ours.width,
                depth=len(ours.blocks),
                heads=ours.num_heads,
                attn_dim_head=ours.head_width,
                ff_mult=ours.blocks[0].mlp_ratio,
                rotary_pos_emb=True,
                rotary_emb_dim=ours.head_width,
                attn_flash=True,
            ),
        )

    def loss(self, data: Inputs) -> Tensor:
        """As `scoring.loss`."""
        return F.cross_entropy(self.inside(data.tokens)[data.where], data.labels)


def stepping(model: nn.Module, of: Callable[[Inputs], Tensor], training: Training) -> Any:
    """A function that makes some steps of a model and returns their CPU seconds."""
    settings = training.settings
    training.model, ours = model, training.model  # whose optimiser it is
    configured = training.configure_optimizers()
    training.model = ours
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]

    def steps(batches: list[Inputs]) -> float:
        model.train()
        start = time.process_time()
        for data in batches:
            optimizer.zero_grad()
            of(data).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimizer.step()
            schedule.step()
        return time.process_time() - start

    return steps


def library() -> Iterator[Row]:
    """`library`: RoPE beside a decoder of x-transformers of the same width, depth, heads and MLP,
    with rotary embeddings and fused attention, on the same batches under the same optimiser. A
    step, and the CPU seconds of the steps until the score at the training length is at the gate,
    looked at every 50 steps; the mean of three seeds that were solved by both.
    """
    for task in ("passkey", "copy"):
        each_step, ends, missed = [], [], 0
        for seed in range(3):
            run = setup("protocol=cpu", "encoding=rope", f"task={task}", f"seed={seed}")
            training = Training(run.model(), run.task, run.config.training, seed)
            torch.manual_seed(seed)
            other = Library(training)
            sides: list[tuple[nn.Module, Any]] = [
                (model, stepping(model, of, training))
                for model, of in (
                    (training.model, partial(loss, training.model)),
                    (other, other.loss),
                )
            ]
            validation = training.validation()
            total, solved = [0.0, 0.0], [False, False]
            for first in range(0, training.settings.total_steps, 50):
                batches = [training.batch(step) for step in range(first, first + 50)]
                took = [steps(batches) for _, steps in sides]
                each_step.append([1000 * seconds / len(batches) for seconds in took])
                for side, (model, _) in enumerate(sides):
                    if not solved[side]:
                        total[side] += took[side]
                        solved[side] = score(model, run.task, validation) >= run.task.gate
                if all(solved):
                    break
            if all(solved):
                ends.append(total)
            else:
                missed += 1
        found, beside = (statistics.median(side) for side in zip(*each_step, strict=True))
        ratio = statistics.median(ours / theirs for ours, theirs in each_step)
        yield Row(f"library, a step on {task}", f"{found:.1f} ms", f"{beside:.1f} ms", ratio)
        ours, theirs = (statistics.mean(each) for each in zip(*ends, strict=True))
        without = f" ({missed} of 3 seeds not solved by both)" * bool(missed)
        yield Row(
            f"library, to solved on {task}",
            f"{ours:.1f} s of CPU{without}",
            f"{theirs:.1f} s",
            ours / theirs,
        )


@torch.inference_mode()
def score(model: nn.Module, task: Any, validation: list[Any]) -> float:
    """The share of validation sequences that are right."""
    model.eval()
    right = []
    for _, data in validation:
        if isinstance(model, Library):
            found = model.inside(data.tokens)[data.where]
        else:
            found = model(data.tokens, data.pos, data.segments, data.where, data.first)
        wrong = torch.zeros_like(data.where)
        wrong[data.where] = found.argmax(-1) != data.labels
        right.append(~wrong.any(1))
    return torch.cat(right).float().mean().item()


def replicas() -> Iterator[Row]:
    """`replicas`: trainings that differ in their seed alone, made in step, beside the same one by
    one; a step of all of them, in loops without Lightning.
    """
    for count in (2, 8):
        ours, theirs = [], []
        several, singles = trainings("task=copy", count=count), trainings("task=copy", count=count)
        padded, own_tokens = 0, 0
        together = Replicas(several)
        optimizer = together.configure_optimizers()["optimizer"]
        one_by_one = [each.configure_optimizers()["optimizer"] for each in singles]
        for round_ in range(ROUNDS):
            steps = range(round_ * 8, round_ * 8 + 8)
            start = time.process_time()
            for step in steps:
                optimizer.zero_grad()
                data = together.batch(step)
                padded += data.tokens.numel()
                together.training_step(data, step)["loss"].backward()
                together.configure_gradient_clipping(optimizer)
                optimizer.step()
            ours.append((time.process_time() - start) / len(steps))
            start = time.process_time()
            for training, own in zip(singles, one_by_one, strict=True):
                clip = training.settings.gradient_clip
                for data in Batches(training).made(steps):
                    own_tokens += data.tokens.numel()
                    own.zero_grad()
                    loss(training.model, data).backward()
                    nn.utils.clip_grad_norm_(training.model.parameters(), clip)
                    own.step()
            theirs.append((time.process_time() - start) / len(steps))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        yield Row(
            f"replicas, {count} at a time",
            f"{1000 * statistics.median(ours):.1f} ms a step of all, of {padded / own_tokens:.2f} "
            "times as many tokens: batches are padded to the longest",
            f"{1000 * statistics.median(theirs):.1f} ms",
            ratio,
            "at most 1 on the CPU",
            ratio <= 1,
        )


# -- the page --------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    each.__name__: each
    for each in (machine, skip, start, plan, leaderboard, opened, cores, trainer, library, replicas)
}
"""By the first word of their rows, but for `board`, which the plan tells."""


def described(part: Callable[[], Iterator[Row]]) -> str:
    return "- " + " ".join((part.__doc__ or "").split())


WHY = """
Where a bar is missed:

- `cores`: the two are measured one after the other, and on a machine that others use the same
  work costs more CPU time in one minute than in the next; the row says how far that alone lets two
  workers come. Each of them also imports what a training needs.
- `trainer`: Lightning calls some two hundred hooks, contexts and counters in each step, none of
  which stands out: half a millisecond of a quiet core, whatever the step. Against a step of 9 ms
  that is more than a twentieth, and less where sequences are longer.
- `replicas`: lengths are drawn for each seed, and the batches made in step are padded to the
  longest; the rows say how many tokens that adds. What is left is the price of `torch.vmap`, a
  fifth of a step of this size. On the CPU, leave `trainer.replicas=1`, as it is.
"""


def page(rows: dict[str, str]) -> str:
    order = [*PARTS, "board"]
    listed = sorted(rows.items(), key=lambda row: order.index(row[0].partition(",")[0]))
    about = "\n".join(map(described, PARTS.values()))
    return f"""# What posbench itself costs

Written by `python tests/benchmarks/speed.py --write`, one thread a process, CPU time but where it
says otherwise. Each ratio is of two things measured in turn; below 1 the left one is cheaper.

{HEAD}{chr(10).join(text for _, text in listed)}

{about}
{WHY}"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--write", action="store_true", help="write SPEED.md beside this file")
    parser.add_argument("--trainings", type=int, default=40, help="of cores, a multiple of 4")
    chosen = parser.parse_args(arguments)
    parts = {**PARTS, "cores": partial(cores, chosen.trainings)}
    torch.set_num_threads(1)
    rows: dict[str, str] = {}
    if chosen.write and PAGE.exists():
        known = re.findall(r"^(\| ([a-z][^|]*?) \|.*)$", PAGE.read_text("utf-8"), re.M)
        kept = {what: text for text, what in known if what != "what"}
        rows = {what: text for what, text in kept.items() if of_part(what) not in chosen.only}
    print(HEAD, end="")
    for name in chosen.only:
        with composing():
            for row in parts[name]():
                rows[row.what] = str(row)
                print(row, flush=True)
    if chosen.write:
        PAGE.write_text(page(rows), "utf-8")


def of_part(what: str) -> str:
    """The part that makes a row."""
    first = what.partition(",")[0]
    return "plan" if first == "board" else first


if __name__ == "__main__":
    main()
