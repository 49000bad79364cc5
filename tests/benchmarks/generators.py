"""What making a batch costs beside the training step on it, for every task.

    python tests/benchmarks/generators.py [--write] [protocol=...]

Prints a table, and with --write puts it into GENERATORS.md; asserts nothing. The encoding is NoPE,
whose step is the cheapest. CPU time (GPU: wall time), the median of alternating measurements, over
lengths as they come in training and with as many batches made at once as there.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import hydra
import torch

from posbench.base.errors import ConfigError
from posbench.config.compose import register
from posbench.config.folders import own_names
from posbench.core.batches import training_batch
from posbench.core.scoring import loss
from posbench.core.training import Batches, Training
from posbench.running.subject import setup

ROUNDS, STEPS = 7, Batches.AT_ONCE
TARGET = Path(__file__).parent / "GENERATORS.md"


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    register()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    overrides = [word for word in arguments if word != "--write"] or ["protocol=cpu"]
    runs = {}
    with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
        for name in own_names("task"):
            try:
                run = setup(*overrides, "encoding=nope", f"task={name}")
            except ConfigError as error:  # a task may need other settings under another protocol
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            training = Training(run.model().to(device), run.task, run.config.training, 0)
            optimized = training.configure_optimizers()
            runs[name] = training, optimized["optimizer"], optimized["lr_scheduler"]["scheduler"]

    def measure(training: Training, optimizer: Any, scheduler: Any) -> tuple[float, float, float]:
        start = clock()
        batches = Batches(training).made(
            range(STEPS)
        )  # draws tokens, and makes tensors and positions of them
        made = clock()
        half = training.settings.precision.startswith("bf16")
        for data in batches:
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                lost = loss(training.model, data.to(device))
            lost.backward()
            torch.nn.utils.clip_grad_norm_(
                training.model.parameters(), training.settings.gradient_clip
            )
            optimizer.step()
            scheduler.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        stepped = clock()
        for step in range(STEPS):
            training_batch(training.task, training.settings, 0, step)
        drawn = clock()
        return (drawn - stepped) / STEPS, (made - start) / STEPS, (stepped - made) / STEPS

    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, parts in runs.items():
            times[name].append(measure(*parts))
    lines = ["| task | batch, ms | of which tokens | step, ms | batch, % of step |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, each in times.items():
        drawn, made, stepped = (statistics.median(values) for values in zip(*each, strict=True))
        lines.append(
            f"| {name} | {1000 * made:.2f} | {1000 * drawn:.2f} | {1000 * stepped:.1f} | "
            f"{100 * made / stepped:.1f} |"
        )
    table = "\n".join(lines)
    print(table)
    how, where = (
        " ".join(overrides),
        torch.cuda.get_device_name() if device.type == "cuda" else "one thread",
    )
    if "--write" in arguments:
        TARGET.write_text(
            "# What making a batch costs\n\nWritten by `python tests/benchmarks/generators.py "
            f"--write`, {how}, encoding nope, {where}.\nThe step is forward, backward, clipping, "
            f"optimiser and schedule; the batch is tokens, positions and\ntensors, made {STEPS} at "
            f"a time as in training.\n\n{table}\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
