"""What a training step costs for each method, as a ratio to NoPE measured side by side, and what a
batch costs.

    python tests/benchmarks/step.py [task=...] [protocol=...]

Prints a table; asserts nothing. Times are CPU time (GPU: wall time around a synchronised step), the
median of alternating measurements, so that a busy machine disturbs all methods alike.
"""

from __future__ import annotations

import statistics
import sys
import time

import hydra
import torch

from posbench.config.compose import register
from posbench.config.folders import own_names
from posbench.core.scoring import loss
from posbench.core.training import Training
from posbench.running.subject import setup

ROUNDS, STEPS = 7, 5


def main(overrides: list[str]) -> None:
    torch.set_num_threads(1)
    register()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    given = (
        overrides
        if any(word.startswith("protocol=") for word in overrides)
        else ["protocol=cpu", *overrides]
    )
    runs = {}
    with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
        for name in own_names("encoding"):
            run = setup(*given, f"encoding={name}")
            training = Training(run.model().to(device), run.task, run.config.training, 0)
            runs[name] = training, torch.optim.AdamW(training.model.parameters())

    def measure(training: Training, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
        make = step = 0.0
        for index in range(STEPS):
            start = clock()
            data = training.batch(index).to(device)
            made = clock()
            optimizer.zero_grad()
            loss(training.model, data).backward()
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            make, step = make + made - start, step + clock() - made
        return make / STEPS, step / STEPS

    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, pair in runs.items():
            times[name].append(measure(*pair))
    steps = {name: statistics.median(step for _, step in each) for name, each in times.items()}
    print(f"{'encoding':<14} {'ms/step':>8} {'ratio to nope':>14} {'batch, % of step':>17}")
    for name, each in times.items():
        make = statistics.median(made for made, _ in each)
        print(
            f"{name:<14} {1000 * steps[name]:8.1f} {steps[name] / steps['nope']:14.2f} "
            f"{100 * make / steps[name]:17.1f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
