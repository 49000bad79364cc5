"""What evaluating one long sequence costs with each encoding, and with extensions that attend in
parts: peak memory of the process, and CPU seconds.

    python tests/benchmarks/memory.py      16,384 tokens, 4 heads, width 64, 2 layers, batch 1
    python tests/benchmarks/memory.py --tokens 4096 fire rope_dca    some of them, another length
    python tests/benchmarks/memory.py --write              and write tests/benchmarks/MEMORY.md
    python tests/benchmarks/memory.py --write xpos         only that row of it

Each is measured in a process of its own, forked before the model is built; on a GPU the
peak is that of the memory torch allocated. Prints a table; asserts nothing. The table is a
measurement of one machine on one day, and so none of the pages that `make pages` writes.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import time
from pathlib import Path

import torch

from posbench.base.errors import PosbenchError
from posbench.config.compose import composing
from posbench.config.folders import own_names
from posbench.core.encoding import Draw
from posbench.running.setup import Setup
from posbench.running.subject import Subject

MIB = 2**20
PAGE = Path(__file__).parent / "MEMORY.md"
EXTENDED = (
    "rope_jet_long",
    "rope_jet_long_freq",
    "rope_lampe",
    "rope_self_extend",
    "rope_self_extend_logistic",
    "rope_dpe",
    "rope_dynamic_ntk_stale",
    "rope_window_nope_widen",
    "rope_dca",
    "learned_table_interpolation",
    "learned_table_interpolation_ratio",
    "learned_table_interpolation_half_pixels",
)
"""Methods, each an encoding with an extension."""


def measure(run: Setup, tokens: int) -> tuple[float, float, str]:
    """MiB at the peak, CPU seconds (GPU: wall), and the path that attention took."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    model = run.model().eval().to(device)
    extended = run.extension.extend(model.encodings, run.train_positions, tokens)
    model = model.with_encodings(extended)
    start = clock()
    with torch.inference_mode():
        generator = torch.Generator().manual_seed(0)
        pos = model.encodings.positions(torch.arange(tokens)[None], Draw(1, generator)).to(device)
        sequence = torch.randint(8, 20, (1, tokens), generator=generator).to(device)
        segments = (torch.arange(tokens) >= tokens // 2).long()[None].to(device)
        where = torch.zeros(1, tokens, dtype=torch.bool, device=device)
        where[:, -1] = True
        paths = []
        for encoding in model.encodings:
            original = encoding.encode
            encoding.encode = lambda a, encode=original: paths.append(encode(a)) or paths[-1]  # type: ignore
        assert bool(torch.isfinite(model(sequence, pos, segments, where)).all())
    seconds = clock() - start
    peak = (
        torch.cuda.max_memory_allocated()
        if device.type == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    return peak / MIB, seconds, ", ".join(dict.fromkeys(plan.path for plan in paths))


def forked(run: Setup, tokens: int) -> tuple[float, float, str]:
    """`measure` in a child process, so that its peak is its own."""
    if torch.cuda.is_available():  # CUDA does not survive a fork
        torch.cuda.reset_peak_memory_stats()
        return measure(run, tokens)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            try:
                peak, seconds, path = measure(run, tokens)
            except PosbenchError as error:  # so many tokens are refused
                peak, seconds, path = float("nan"), float("nan"), f"none: {error}"
            os.write(write, f"{peak} {seconds} {path}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        words = pipe.read().split(maxsplit=2)
    if os.waitpid(child, 0)[1] != 0:
        return float("nan"), float("nan"), "failed"
    return float(words[0]), float(words[1]), words[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="encodings or methods; default: all encodings")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    with composing():
        for name in chosen.names or (*own_names("encoding"), *EXTENDED):
            words = (
                "protocol=cpu",
                "model.width=64",
                "model.num_heads=4",
                "model.head_width=16",
                "evaluation.ladder=[]",
                "trainer.accelerator=auto",
            )
            group = "encoding" if name in own_names("encoding") else "method"
            subject = Subject(f"{group}={name}")
            trained = subject.made("protocol=cpu").train_positions
            run = subject.made(*words, f"evaluation.longest={chosen.tokens / trained + 1}")
            peak, seconds, path = forked(run, chosen.tokens)
            measured = (
                "\N{EN DASH} | \N{EN DASH}" if math.isnan(peak) else f"{peak:,.0f} | {seconds:.1f}"
            )
            rows[name] = f"| {name} | {path} | {measured} |"
            print(rows[name], flush=True)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, one thread"
    kind = (
        "allocated on the GPU"
        if torch.cuda.is_available()
        else "of the process, libraries included"
    )
    head = f"""# Memory at {chosen.tokens:,} tokens

One forward pass, 2 layers, 4 heads, width 64, batch 1, float32, on {device}; peak {kind}.
Written by `python tests/benchmarks/memory.py --write`. Seconds depend on the machine
and on what else it does.

| encoding or method | path | peak, MiB | seconds |
| --- | --- | --- | --- |
"""
    if chosen.write:
        before = re.findall(r"^(\| (\w+) \|.*)$", PAGE.read_text("utf-8"), re.M)
        kept = {
            name: row for row, name in before if name in own_names("encoding") or name in EXTENDED
        }
        found = (kept if chosen.names else {}) | rows
        order = sorted(found, key=lambda name: (name not in own_names("encoding"), name))
        PAGE.write_text(head + "\n".join(found[name] for name in order) + "\n", "utf-8")


if __name__ == "__main__":
    main()
