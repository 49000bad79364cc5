"""Reading a text once for all that is asked of it.

Keys and values of the text are kept, as they were before any rotation, so that a question computes
its own tokens alone. They serve every extension that they were computed under: the length of the
whole sequence is known from the start, and with it every scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache

from posbench.pretrained.mounting import Mounted

CHUNK = 1024
"""Tokens at once where scores have to be held. Then no key after a chunk is scored, which halves
the work, and no more than a chunk is lost of the memory."""


@dataclass(frozen=True)
class Answer:
    """The model's reading of one answer: each token is predicted from the right ones before it."""

    right: list[bool]  # whether it is the likeliest
    log_likelihood: list[float]  # nats

    @property
    def exact(self) -> bool:
        """Whether greedy decoding gives the answer."""
        return all(self.right)


@torch.no_grad()
def answers(
    mounted: Mounted,
    shared: Sequence[int],
    asked: Sequence[tuple[list[int], list[int]]],
    length: int,
) -> list[Answer]:
    """The answers to all questions, each (question, answer) after the shared tokens alone.

    `length` counts the positions of the longest sequence: all are read under its encoding. Greedy
    decoding gives an answer exactly if every token of it is the likeliest after those before it, so
    one pass says both.
    """
    found = []
    with mounted.at(length):
        cache = _read(mounted, shared)
        for question, answer in asked:
            tokens = _row([*question, *answer[:-1]], mounted)
            logits = mounted.model(
                input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=len(answer)
            ).logits
            cache.crop(-tokens.shape[1])
            found.append(judged(logits[0], _row(answer, mounted)[0]))
    return found


@torch.no_grad()
def continuations(mounted: Mounted, tokens: Sequence[int], length: int) -> Answer:
    """Every token but the first, each after those before it."""
    found = []
    with mounted.at(length):
        for part, logits in _logits(mounted, tokens[:-1]):
            wanted = tokens[part.start + 1 : part.stop + 1]
            found.append(judged(logits[0], _row(wanted, mounted)[0]))
    return Answer(
        [each for part in found for each in part.right],
        [each for part in found for each in part.log_likelihood],
    )


def judged(logits: Tensor, wanted: Tensor) -> Answer:
    """Logits [tokens, vocabulary] against the tokens that should come."""
    logits = logits.float()
    picked = logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0]
    return Answer((logits.argmax(-1) == wanted).tolist(), picked.tolist())


def _read(mounted: Mounted, shared: Sequence[int]) -> DynamicCache:
    """The keys and values of the shared tokens."""
    cache = DynamicCache()  # of all tokens, also where the model has windows
    size = CHUNK if _holds_scores(mounted, shared) else len(shared)
    for part in _parts(len(shared), size):
        mounted.model(
            input_ids=_row(shared[part], mounted),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
    return cache


def _logits(mounted: Mounted, tokens: Sequence[int]) -> Iterator[tuple[slice, Tensor]]:
    """The logits of all tokens, chunk by chunk: those of a long text would not fit into memory."""
    cache = DynamicCache()
    for part in _parts(len(tokens), CHUNK):
        out = mounted.model(
            input_ids=_row(tokens[part], mounted), past_key_values=cache, use_cache=True
        )
        yield part, out.logits


def _holds_scores(mounted: Mounted, tokens: Sequence[int]) -> bool:
    """Whether some layer cannot be computed in a fused kernel, seen on two tokens."""
    mounted.paths.clear()
    mounted.model(input_ids=_row(tokens[:2], mounted), use_cache=False, logits_to_keep=1)
    return mounted.paths != {"fused"}


def _parts(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, max(size, 1))]


def _row(tokens: Sequence[int], mounted: Mounted) -> Tensor:
    return torch.tensor([list(tokens)], device=mounted.model.device)
