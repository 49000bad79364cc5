"""Is it the convolution, or our code? A decoder that shares no code of a model with posbench.

Blocks of `nn.LayerNorm`, `F.scaled_dot_product_attention` without positions, `nn.Conv1d` over four
tokens in place of `ShortConv`, and GELU, trained on the batches of posbench with a fixed number of
steps. Whether the convolution helps must not depend on whose layer it is. The table has the share
of 128 sequences in which every answer token is right, by length in multiples of the longest
training sequence.

`python results/parts/independent.py` trains six models in four minutes and writes independent.md.
"""

from __future__ import annotations

from pathlib import Path

import hydra
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.config.compose import register
from posbench.core.batches import training_batch
from posbench.core.evaluation import nearest
from posbench.core.task import Batch, Task
from posbench.running.setup import Setup
from posbench.running.subject import setup
from posbench.showing.table import number, pipes

WIDTH, HEADS, LAYERS = 64, 2, 2
SYMBOLS = 128
STEPS = {"induction_64": 900, "flip_flop": 900, "copy": 2200}
MULTIPLES = (1, 2, 4, 8)
SEED = 300  # of the batches, and not one of the panel


class Block(nn.Module):
    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in "ab")
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.conv = nn.Conv1d(3 * WIDTH, 3 * WIDTH, max(kernel, 1), groups=3 * WIDTH, bias=False)
        self.kernel = kernel
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.qkv(self.norms[0](x))
        if self.kernel:
            y = y + self.conv(F.pad(y.mT, (self.kernel - 1, 0))).mT
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in y.chunk(3, -1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


def decoder(kernel: int) -> nn.Sequential:
    blocks = [Block(kernel) for _ in range(LAYERS)]
    ends = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS, bias=False)
    return nn.Sequential(nn.Embedding(SYMBOLS, WIDTH), *blocks, *ends)


def asked(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, the tokens after them, and which of these are of the answer."""
    tokens = torch.as_tensor(batch.tokens).long()
    return tokens[:, :-1], tokens[:, 1:], torch.as_tensor(batch.answer)[:, 1:]


def trained(run: Setup, kernel: int, steps: int) -> nn.Sequential:
    torch.manual_seed(SEED)
    model = decoder(kernel)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        rate = 3e-3 * min(1, (step + 1) / 100, (steps - step) / (0.3 * steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, labels, answer = asked(training_batch(run.task, run.config.training, SEED, step))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs)[answer], labels[answer]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


@torch.no_grad()
def score(model: nn.Sequential, task: Task, n: int) -> str:
    inputs, labels, answer = asked(task.batch(n, 128, SEED, "test", n))
    right = (model(inputs).argmax(-1) == labels) | ~answer
    return number(float(right.all(1).float().mean()))


def main() -> None:
    torch.set_num_threads(1)
    register()
    rows = []
    for task, steps in STEPS.items():
        with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
            run = setup("protocol=learned", f"task={task}", "encoding=nope")
        longest = run.config.training.lengths[1]
        lengths = [nearest(run.task, longest, multiple) for multiple in MULTIPLES]
        for kernel in (0, 4):
            model = trained(run, kernel, steps)
            kind = f"{kernel} tokens" if kernel else "none"
            rows.append([task, kind, str(steps), *(score(model, run.task, n) for n in lengths)])
    columns = ["task", "convolution", "steps", *(f"{multiple}x" for multiple in MULTIPLES)]
    said = (__doc__ or "").split("\n\n")[1].replace("\n", " ")
    text = "\n".join(["# Is it the convolution, or our code?", "", said, "", *pipes(columns, rows)])
    made = "Written by `python results/parts/independent.py`; do not edit."
    Path(__file__).with_suffix(".md").write_text(f"{text}\n\n{made}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
