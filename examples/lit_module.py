"""A LightningModule with an encoding of posbench, trained on one of its tasks.

    python examples/lit_module.py --encoding alibi --extension direct --steps 300

It copies strings of 20 symbols, and is then asked for longer ones. The loss is that of answers.
`posbench tasks copy --n 8` prints what it is asked.
"""

import argparse

import lightning as L
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset

import posbench
from posbench.tasks.copy import Copy

WIDTH, HEADS, LAYERS, LENGTH = 64, 4, 2, 20


class Batches(IterableDataset):
    def __init__(self, n: int, count: int, stream: str) -> None:
        self.n, self.count, self.stream = n, count, stream

    def __iter__(self):
        for step in range(self.count):
            batch = Copy().batch(self.n, 32, 0, self.stream, step)
            yield torch.from_numpy(batch.tokens), torch.from_numpy(batch.answer)


class Copier(L.LightningModule):
    def __init__(self, encoding: str) -> None:
        super().__init__()
        task, trained = Copy(), Copy().num_positions(LENGTH)
        self.embed, self.head = (
            nn.Embedding(task.vocab_size, WIDTH),
            nn.Linear(WIDTH, task.vocab_size),
        )
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.positions = nn.ModuleList(
            getattr(posbench, encoding)(HEADS, WIDTH // HEADS, trained) for _ in range(LAYERS)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.positions[0].embed(self.embed(tokens))
        for qkv, norm, position in zip(self.qkv, self.norms, self.positions, strict=True):
            y = norm(x)
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in qkv(y).chunk(3, -1))
            x = x + position(q, k, v, y).transpose(1, 2).flatten(2)
        return self.head(x)

    def training_step(self, batch, _):
        tokens, answer = batch
        asked = answer[:, 1:]
        return cross_entropy(self(tokens[:, :-1])[asked], tokens[:, 1:][asked])

    def test_step(self, batch, index):
        self.log("loss", self.training_step(batch, index), batch_size=len(batch[0]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)

    def extend(self, extension: str, n: int) -> None:
        unbound, tested = getattr(posbench, extension)(), Copy().num_positions(n)
        self.positions = nn.ModuleList(unbound.extend(each, tested) for each in self.positions)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoding", default="rope")
    parser.add_argument("--extension", default="yarn")
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args(arguments)
    L.seed_everything(0, verbose=False)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = L.Trainer(
        max_steps=chosen.steps, accelerator="cpu", enable_model_summary=False, **quiet
    )
    model = Copier(chosen.encoding)
    trainer.fit(model, DataLoader(Batches(LENGTH, chosen.steps, "train"), batch_size=None))

    def loss(n: int) -> float:
        tests = DataLoader(Batches(n, 4, "test"), batch_size=None)
        return trainer.test(model, tests, verbose=False)[0]["loss"]

    found = {"1x": loss(LENGTH), "2x": loss(2 * LENGTH)}
    model.extend(chosen.extension, 2 * LENGTH)
    found["2x, extended"] = loss(2 * LENGTH)
    for name, value in found.items():
        print(f"loss at {name}: {value:.3f}")
    return found


if __name__ == "__main__":
    main()
