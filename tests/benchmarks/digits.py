"""Do two kinds of CPU give the same weights if their libraries keep to one instruction set?

    python tests/benchmarks/digits.py            two short trainings under each setting
    python tests/benchmarks/digits.py --write    and put this kind of CPU into DIGITS.md

A record repeats bit for bit on a CPU of one kind, because torch and its libraries choose their code
by the CPU. Each setting forbids newer instructions to some of them. It must be in the environment
before torch is loaded, so every training is a process. The digest is that of all weights after 60
steps of protocol cpu. The cost is the CPU time of a step, as a multiple of that without a setting;
both are the least of three, measured in turn. A setting is worth having if two kinds of CPU agree
under it, and if a step costs at most 15 % more. Nothing is set by default before that is known.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).with_name("DIGITS.md")
STEPS = 60
TIMES = 3
RUNS = ("rope on copy", "fox on passkey")
SETTINGS: dict[str, dict[str, str]] = {
    "none": {},
    "ATen": {"ATEN_CPU_CAPABILITY": "avx2"},
    "all to AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "AVX2",
    },
    "MKL compatible": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "COMPATIBLE",
    },
}
ASKED = {name for settings in SETTINGS.values() for name in settings}
HEADS = ("kind of CPU", "setting", *(f"digest, {run}" for run in RUNS), "step, ratio")


def train(run: str) -> tuple[str, float]:
    """The digest of the trained weights, and CPU seconds of the steps."""
    import torch

    from posbench.config.compose import composing
    from posbench.core.scoring import loss
    from posbench.core.training import Training
    from posbench.running.subject import setup

    torch.set_num_threads(1)
    method, _, task = run.partition(" on ")
    with composing():
        made = setup("protocol=cpu", f"method={method}", f"task={task}")
    torch.manual_seed(0)
    training = Training(made.model().train(), made.task, made.config.training, 0)
    optimizer = training.configure_optimizers()["optimizer"]
    begun = time.process_time()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss(training.model, training.batch(step)).backward()
        optimizer.step()
    seconds = time.process_time() - begun
    digest = hashlib.sha256()
    for name, weight in sorted(training.model.state_dict().items()):
        digest.update(name.encode() + weight.numpy().tobytes())
    return digest.hexdigest()[:12], seconds


def apart(run: str, settings: dict[str, str]) -> tuple[str, float]:
    """The same in a process with these settings."""
    clean = {key: value for key, value in os.environ.items() if key not in ASKED}
    words = [sys.executable, __file__, "--train", run]
    found = subprocess.run(words, env=clean | settings, check=True, capture_output=True, text=True)
    digest, seconds = json.loads(found.stdout.splitlines()[-1])
    return digest, seconds


def measured() -> list[tuple[str, ...]]:
    """A line of the table for each setting."""
    from posbench.config.provenance import cpu

    lines = []
    for name, settings in SETTINGS.items():
        digests: list[str] = []
        least, usual = 0.0, 0.0
        for run in RUNS:
            pairs = [(apart(run, {}), apart(run, settings)) for _ in range(TIMES)]
            found = {digest for _, (digest, _) in pairs}
            digests.append(found.pop() if len(found) == 1 else "differs from process to process")
            usual += min(seconds for (_, seconds), _ in pairs)
            least += min(seconds for _, (_, seconds) in pairs)
        lines.append((cpu(), name, *digests, f"{least / usual:.2f}"))
        print(" | ".join(lines[-1]), flush=True)
    return lines


def page(lines: list[tuple[str, ...]]) -> str:
    """The page with these lines in the place of older ones of the same kind of CPU."""
    kept = []
    if PAGE.exists():
        rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| ")][2:]
        cells = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]
        kept = [row for row in cells if row[0] != lines[0][0]]
    table = [HEADS, ("---",) * len(HEADS), *sorted({*kept, *lines})]
    what = (__doc__ or "").partition("\n\n")[0], (__doc__ or "").rpartition("\n\n")[2].strip()
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table)
    set_by = "\n".join(
        f"- {name}: {' '.join(f'`{key}={value}`' for key, value in settings.items())}"
        for name, settings in SETTINGS.items()
        if settings
    )
    title, why = what
    return (
        f"# {title}\n\n{why}\n\n{rows}\n\n{set_by}\n\n"
        "Written by `python tests/benchmarks/digits.py --write`, a kind of CPU at a time.\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="put the result into DIGITS.md")
    asked = parser.parse_args()
    if asked.train:
        print(json.dumps(train(asked.train)))
    else:
        text = page(measured())
        if asked.write:
            PAGE.write_text(text)
