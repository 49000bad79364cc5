"""What making a batch costs beside the training step on it, for every task.

    python tests/benchmarks/generators.py [--write] [protocol=...]

Prints a table, and with --write puts it into GENERATORS.md; asserts nothing. The encoding is NoPE, whose step is the
cheapest. CPU time, the median of alternating measurements, over lengths as they come in training.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import hydra
import torch
from conftest import experiment, names

from posbench import resolvers
from posbench.batches import training_batch
from posbench.scoring import loss
from posbench.training import Training

ROUNDS, STEPS = 5, 6
TARGET = Path(__file__).parent / "GENERATORS.md"


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    resolvers.register()
    overrides = [word for word in arguments if word != "--write"] or ["protocol=cpu"]
    runs = {}
    with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
        for name in names("task"):
            run = experiment(*overrides, "encoding=nope", f"task={name}")
            training = Training(run.model(), run.task, run.config.training, 0)
            runs[name] = training, torch.optim.AdamW(training.model.parameters())

    def measure(training: Training, optimizer: torch.optim.Optimizer) -> tuple[float, float, float]:
        drawn = made = stepped = 0.0
        for index in range(STEPS):
            start = time.process_time()
            data = training.batch(index)  # draws tokens, and makes tensors and positions of them
            ready = time.process_time()
            training_batch(training.task, training.settings, 0, index)
            again = time.process_time()
            optimizer.zero_grad()
            loss(training.model, data).backward()
            optimizer.step()
            drawn, made = drawn + again - ready, made + ready - start
            stepped += time.process_time() - again
        return drawn / STEPS, made / STEPS, stepped / STEPS

    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, pair in runs.items():
            times[name].append(measure(*pair))
    lines = ["| task | batch, ms | of which tokens | step, ms | batch, % of step |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, each in times.items():
        drawn, made, stepped = (statistics.median(values) for values in zip(*each, strict=True))
        lines.append(
            f"| {name} | {1000 * made:.2f} | {1000 * drawn:.2f} | {1000 * stepped:.1f} | {100 * made / stepped:.1f} |"
        )
    table = "\n".join(lines)
    print(table)
    if "--write" in arguments:
        TARGET.write_text(
            "# What making a batch costs\n\n"
            f"Written by `python tests/benchmarks/generators.py --write`, {' '.join(overrides)}, encoding nope, one "
            "thread.\nThe step is forward, backward and optimiser; the batch is tokens, positions and tensors.\n\n"
            f"{table}\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
