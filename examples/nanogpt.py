"""A small GPT in plain PyTorch, with an encoding of posbench in its attention.

    python examples/nanogpt.py --encoding rope --extension yarn --steps 300

It learns to continue Python's own source, byte by byte, and is then tested on longer pieces: as it
was trained, and extended. Its weights are the same in both.
"""

import argparse
import inspect

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import posbench

WIDTH, HEADS, LAYERS, TRAINED = 64, 4, 2, 64


class Block(nn.Module):
    def __init__(self, encoding: str) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.position = getattr(posbench, encoding)(HEADS, WIDTH // HEADS, TRAINED)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(y).chunk(3, -1))
        x = x + self.out(self.position(q, k, v, y).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, encoding: str) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(256, WIDTH), nn.Linear(WIDTH, 256)
        self.blocks = nn.ModuleList(Block(encoding) for _ in range(LAYERS))

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.blocks[0].position.embed(self.embed(tokens[:, :-1]))
        for block in self.blocks:
            x = block(x)
        return cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoding", default="rope")
    parser.add_argument("--extension", default="yarn")
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    text = torch.tensor(list(inspect.getsource(argparse).encode()))
    pieces = text.unfold(0, 4 * TRAINED + 1, 1)
    training, held_out = pieces[: -len(pieces) // 10], pieces[-len(pieces) // 10 :: 97]
    model = GPT(chosen.encoding)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(chosen.steps):
        batch = training[torch.randint(len(training), (16,)), : TRAINED + 1]
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()
    found = {}
    with torch.no_grad():
        for multiple in (1, 2, 4):
            found[f"{multiple}x"] = model.loss(held_out[:, : multiple * TRAINED + 1]).item()
        for block in model.blocks:
            block.position = getattr(posbench, chosen.extension)().extend(
                block.position, tested=4 * TRAINED
            )
        found["4x, extended"] = model.loss(held_out).item()
    for name, loss in found.items():
        print(f"loss at {name}: {loss:.3f}")
    return found


if __name__ == "__main__":
    main()
