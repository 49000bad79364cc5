"""All that is to be measured on a GPU, in one command, with the table last.

    python tests/benchmarks/gpu.py                     on a machine with CUDA: about an hour
    python tests/benchmarks/gpu.py --only replicas graph          some of it
    python tests/benchmarks/gpu.py --write             and write tests/benchmarks/GPU.md
    python tests/benchmarks/gpu.py --device cpu --tiny            that the commands pass: a minute

Each part that fails is a row with what it says, and the others go on. Times are those of the clock
around synchronised work, the median of several.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from speed import HEAD, ROOT, Row
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from posbench.checks.attention_paths import moved
from posbench.config.compose import composing
from posbench.core.attention import attend, dense
from posbench.core.scoring import Inputs, loss
from posbench.core.training import Training
from posbench.records import files
from posbench.running.replicas.forward import ReplicaBatch
from posbench.running.replicas.trainings import Replicas
from posbench.running.setup import Setup
from posbench.running.subject import Subject, call, setup
from posbench.sweeping.requests import request

PAGE = Path(__file__).parent / "GPU.md"
BOARD_RATE = 1e14
"""Operations a second for the estimate: a tenth of what a GPU of 10^15 has in bfloat16."""
TINY = (
    "model.width=32",
    "model.num_layers=2",
    "model.num_heads=2",
    "model.head_width=16",
    "training.length_scale=0.5",
    "training.batch_size=4",
    "training.steps=4",
    "training.steps_scale=1",
    "training.validate_every=4",
    "training.validation_samples=8",
    "evaluation.num_samples=8",
    "evaluation.ladder=[]",
)


@dataclass(frozen=True)
class Place:
    """Where to measure, and how much."""

    device: torch.device
    tiny: bool
    results: Path

    @property
    def words(self) -> tuple[str, ...]:
        """Those of a run of protocol=gpu here."""
        accelerator = "gpu" if self.device.type == "cuda" else self.device.type
        return ("protocol=gpu", f"trainer.accelerator={accelerator}", *(TINY if self.tiny else ()))

    @property
    def rounds(self) -> int:
        return 2 if self.tiny else 20

    def seconds(self, work: Callable[[], object]) -> float:
        """The median time of some work, after two rounds that do not count."""
        found = []
        for _ in range(2 + self.rounds):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            found.append(time.perf_counter() - start)
        return statistics.median(found[2:])

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def mixed(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)

    def run(self, *words: str) -> Setup:
        return setup(*self.words, *words)

    def training(self, *words: str) -> Training:
        run = self.run(*words)
        settings = run.config.training
        return Training(run.model().to(self.device), run.task, settings, run.config.seed)


# -- parts -----------------------------------------------------------------------------------------


def suite(place: Place) -> Iterator[Row]:
    """`suite`: tests/test_on_device.py: every encoding and every extension gives on this device
    what it gives on the CPU; and of the conformance suite the fused paths beside the dense one.
    """
    where = ["--device", place.device.type]
    where += ["-k", "rope] or yarn] or records"] if place.tiny else []
    commands = {"on the device": ["tests/test_on_device.py", *where]}
    if not place.tiny:
        commands["conformance"] = ["tests/test_conformance.py", "-k", "fused_path"]
    for name, words in commands.items():
        command = [sys.executable, "-m", "pytest", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        lines = done.stdout.strip().splitlines()
        failed = [line for line in lines if line.startswith("FAILED")]
        yield Row(
            f"suite, {name}",
            lines[-1].strip("= ") if lines else done.stderr[-200:],
            "; ".join(failed[:5]),
            None,
            "all pass",
            done.returncode == 0,
        )


def one_step(training: Training, data: Inputs, place: Place) -> Callable[[], None]:
    optimizer = training.configure_optimizers()["optimizer"]

    def step() -> None:
        optimizer.zero_grad()
        with place.mixed():
            lost = loss(training.model, data)
        lost.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), training.settings.gradient_clip)
        optimizer.step()

    return step


def replicas(place: Place) -> Iterator[Row]:
    """`replicas`: R trainings that differ in their seed alone in step, beside R one at a time: runs
    an hour, of steps alone.
    """
    alone = place.training("task=copy")
    single = place.seconds(one_step(alone, alone.batch(0).to(place.device), place))
    for count in (2,) if place.tiny else (4, 8, 16, 32):
        several = [place.training("task=copy", f"seed={seed}") for seed in range(count)]
        together = Replicas(several)
        optimizer = together.configure_optimizers()["optimizer"]
        data = together.batch(0).to(place.device)

        def step(
            together: Replicas = together, data: ReplicaBatch = data, own: Any = optimizer
        ) -> None:
            own.zero_grad()
            with place.mixed():
                lost = together.training_step(data, 0)["loss"]
            lost.backward()
            together.configure_gradient_clipping(own)
            own.step()

        took = place.seconds(step)
        ratio = count * single / took
        yield Row(
            f"replicas, {count} at a time",
            f"{1000 * took:.1f} ms a step of all",
            f"{1000 * single:.1f} ms a step of one",
            ratio,
            "at least 8 times the runs an hour",
            None if place.tiny else ratio >= 8,
        )


def operations(work: Callable[[], object]) -> float:
    """Floating-point operations of matrix products and attention, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def utilisation(place: Place) -> Iterator[Row]:
    """`utilisation`: operations a second of a step, beside those of a large matrix product in
    bfloat16 on the same device.
    """
    size = 256 if place.tiny else 8192
    a = torch.randn(size, size, device=place.device, dtype=torch.bfloat16)
    most = 2 * size**3 / place.seconds(lambda: a @ a)
    for encoding in ("rope",) if place.tiny else ("rope", "t5", "fire", "fox"):
        training = place.training(f"encoding={encoding}", "task=copy")
        step = one_step(training, training.batch(0).to(place.device), place)
        reached = operations(step) / place.seconds(step)
        yield Row(
            f"utilisation, {encoding}",
            f"{reached / 1e12:.3g} TFLOP/s",
            f"{most / 1e12:.3g} TFLOP/s",
            reached / most,
        )


def graph(place: Place) -> Iterator[Row]:
    """`graph`: a step as one CUDA graph, beside the same step launched kernel by kernel; both on
    one batch, and with a loss of fixed shape.
    """
    training = place.training("task=copy")
    model, data = training.model, ReplicaBatch.of([training.batch(0)]).to(place.device)
    tokens, pos, segments, labels = (
        each[0] for each in (data.tokens, data.pos, data.segments, data.labels)
    )
    capturable = place.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, capturable=capturable)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        with place.mixed():
            logits = model(tokens, pos, segments, None, data.first)
            lost = F.cross_entropy(logits.flatten(0, 1), labels[:, data.first :].flatten())
        lost.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    eager = place.seconds(step)
    if not capturable:
        yield Row("graph", "there is none on this device", f"{1000 * eager:.1f} ms a step", None)
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    replayed = place.seconds(captured.replay)
    yield Row("graph", f"{1000 * replayed:.2f} ms", f"{1000 * eager:.2f} ms", replayed / eager)


def precision(place: Place) -> Iterator[Row]:
    """`precision`: logits of a model in bf16-mixed beside those in float32, at the training length
    and at eight times its positions: the root of the mean square of their difference over that of
    their spread.
    """
    for encoding in ("rope", "alibi") if place.tiny else ("rope", "alibi", "t5", "fire", "learned"):
        run = place.run(f"encoding={encoding}", "task=copy")
        model = run.model().to(place.device).eval()
        for times in (1, 8):
            n = min(run.train_positions * times, run.test_positions)
            tokens = torch.randint(8, 20, (2, n), device=place.device)
            pos = torch.arange(n, device=place.device)[None]
            with torch.inference_mode():
                exact = model(tokens, pos)
                with place.mixed():
                    found = model(tokens, pos).float()
            share = float((found - exact).square().mean().sqrt() / exact.std())
            yield Row(
                f"precision, {encoding} at {times}x", f"{share:.2%}", "", None, "5 %", share < 0.05
            )


def paths(place: Place) -> Iterator[Row]:
    """`paths`: attention as a training runs it, in bfloat16, beside the dense reference in float32
    on the same device: time, and the largest difference of an output.
    """
    n = 64 if place.tiny else 4096
    names = ("rope", "alibi") if place.tiny else ("rope", "alibi", "t5", "fire", "fox", "cope")
    for name in names:
        layer = next(Subject(f"encoding={name}").layers(f"evaluation.longest={n // 8}"))
        layer = layer.float().to(place.device)
        given = moved(call(n, dtype=torch.float32), device=place.device.type)
        with torch.inference_mode():
            half = moved(given, dtype=torch.bfloat16)
            fast = place.seconds(lambda: attend(layer.encode(half)))  # noqa: B023
            slow = place.seconds(lambda: dense(layer.encode(given)))  # noqa: B023
            plan = layer.encode(half)
            off = (attend(plan).float() - dense(layer.encode(given))).abs().max().item()
        yield Row(
            f"paths, {name}: {plan.path}",
            f"{1000 * fast:.2f} ms, off by {off:.1e}",
            f"{1000 * slow:.2f} ms",
            fast / slow,
            "off by at most .05",
            off < 0.05,
        )


@dataclass(frozen=True)
class Asked:
    """What board=gpu asks for; each of its parts has the same seeds."""

    runs: int
    setups: list[Setup]  # one a task
    trained: int  # trainings of a task
    tested: int  # runs of a task

    @classmethod
    def now(cls) -> Self:
        asked = request(["board=gpu"])
        assert asked.board is not None
        parts = asked.board.parts.values()
        seeds, encodings = (
            len(next(iter(parts)).seeds),
            {name for p in parts for name in p.encodings},
        )
        words = ("protocol=gpu", "trainer.accelerator=cpu")
        setups = [setup(*words, f"task={task}") for task in asked.board.all_tasks]
        return cls(len(asked.runs), setups, seeds * len(encodings), len(asked.runs) // len(setups))

    @property
    def trainings(self) -> int:
        return self.trained * len(self.setups)

    @property
    def steps(self) -> int:
        return self.trained * sum(run.config.training.total_steps for run in self.setups)


def estimate(place: Place) -> Iterator[Row]:
    """`estimate`: operations of board=gpu, counted on the meta device for RoPE and, of the tests,
    for whole sequences; the hours are what they take at 10^14 a second, a tenth of the bfloat16
    rate of a large GPU. No GPU is needed, and nothing is run.
    """
    asked, trained, tested = Asked.now(), 0.0, 0.0
    for run in asked.setups:
        model, settings = run.model().to("meta"), run.config.training
        training = Training(model, run.task, settings, 0)
        each = [operations(partial(by_shape, model, training.batch(step))) for step in range(8)]
        trained += asked.trained * statistics.mean(each) * settings.total_steps
        for n in run.lengths.multiples:
            shape = run.config.evaluation.num_samples, run.task.num_positions(n)
            tokens = torch.zeros(shape, dtype=torch.long, device="meta")
            with torch.no_grad():
                tested += asked.tested * operations(partial(model, tokens, tokens[:1]))
    whole = trained + tested
    yield Row(
        "estimate, board=gpu",
        f"{asked.runs} runs on {asked.trainings} trainings: {whole:.2g} operations, "
        f"{tested / whole:.0%} of them in tests; "
        f"**{whole / BOARD_RATE / 3600:.1f} hours** at 10^14 a second",
        f"{asked.steps:,} steps: {asked.steps * 0.01 / 3600:.0f} hours if each took 10 ms, one "
        "training at a time",
        None,
    )


def by_shape(model: nn.Module, data: Inputs) -> None:
    """A step of a model on the meta device; all places go through its head."""
    tokens, pos, segments = (each.to("meta") for each in (data.tokens, data.pos, data.segments))
    logits: Tensor = model(tokens, pos, segments, None, data.first)
    logits.sum().backward()


def records(place: Place) -> Iterator[Row]:
    """`records`: the first records of protocol=gpu, made by a sweep as anybody would make them, and
    the hours that board=gpu takes at the speed of their trainings, one at a time.
    """
    words = (*place.words, "method=rope,rope_yarn", "task=copy", f"results_dir={place.results}")
    command = [sys.executable, "-m", "posbench", "-m", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip().splitlines()[-4:]
    if done.returncode:
        raise RuntimeError(" ".join(said))
    for record in files.records(place.results):
        training = record.training
        step = training.wall_seconds / (training.steps or 1)
        scores = ", ".join(f"{row.multiple:g}x {row.score:.2f}" for row in record.rows[:8])
        yield Row(
            f"records, {record.method.label}",
            f"{training.wall_seconds:.0f} s for {training.steps:,} steps on {training.device}",
            scores,
            None,
        )
    if not place.tiny:
        hours = step * Asked.now().steps / 3600
        yield Row("records, board=gpu at this speed", f"{hours:.1f} hours of training", "", None)


# -- the page --------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Place], Iterator[Row]]] = {
    each.__name__: each
    for each in (estimate, precision, paths, graph, utilisation, replicas, suite, records)
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="sizes at which a CPU takes a minute")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--results", type=Path, default=ROOT / "results/local")
    parser.add_argument("--write", action="store_true", help="write GPU.md beside this file")
    chosen = parser.parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU: --device cpu --tiny shows that the commands pass")
    torch.set_num_threads(1)
    place = Place(torch.device(chosen.device), chosen.tiny, chosen.results.resolve())
    rows, failed = [], False
    for name in chosen.only:
        print(f"{name} ...", flush=True)
        try:
            with composing():
                for row in PARTS[name](place):
                    rows.append(row)
                    print(row, flush=True)
        except Exception as error:  # the others are worth having
            failed = True
            said = " ".join(str(error).split())[:300].replace("|", "/")
            rows.append(Row(name, f"{type(error).__name__}: {said}", "", None, "", False))
            print(rows[-1], flush=True)
    named = torch.cuda.get_device_name() if chosen.device == "cuda" else "the CPU"
    sizes = ", at sizes that say nothing of speed" * chosen.tiny
    about = "\n".join("- " + " ".join((PARTS[name].__doc__ or "").split()) for name in chosen.only)
    text = f"""# protocol=gpu, measured on {named}{sizes}

Written by `python tests/benchmarks/gpu.py --write`, torch {torch.__version__}.

{HEAD}{chr(10).join(map(str, rows))}

{about}
"""
    if chosen.write:
        PAGE.write_text(text, "utf-8")
    print(f"\n{text}")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
