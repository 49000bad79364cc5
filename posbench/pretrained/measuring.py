"""How well a mounted model answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binomtest

from posbench.pretrained.mounting import Mounted
from posbench.pretrained.text_tasks import Sample, TextTask
from posbench.streams import stream_seed


@dataclass(frozen=True)
class Score:
    """What the answers to some samples come to."""

    exact: int  # samples whose whole answer greedy decoding gives
    samples: int
    log_likelihood: float  # of an answer's token, the mean, in nats

    @property
    def accuracy(self) -> float:
        return self.exact / self.samples

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of 95 percent for the accuracy over samples."""
        found = binomtest(self.exact, self.samples).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


def samples(
    task: TextTask, name: str, tokenizer: object, length: int, count: int, seed: int
) -> list[Sample]:
    """The same for every extension, with sources evenly from the start to the end."""
    rng = np.random.default_rng(stream_seed(seed, "pretrained", name, length))
    depths = np.linspace(0, 1, count) if count > 1 else [0.5]
    return [task.sample(tokenizer, length, float(depth), rng) for depth in depths]


@torch.no_grad()
def score(mounted: Mounted, asked: Sequence[Sample]) -> Score:
    """Answers under teacher forcing, one sequence at a time.

    Greedy decoding gives the answer exactly if every token of it is the likeliest after those
    before it, so one pass says both; the length is that of prompt and answer, as in decoding.
    """
    exact, likelihoods = 0, []
    for each in asked:
        tokens = torch.tensor([each.tokens], device=mounted.model.device)
        wanted = tokens[0, -len(each.answer) :]
        with mounted.at(tokens.shape[1] - 1):
            out = mounted.model(
                input_ids=tokens[:, :-1], use_cache=False, logits_to_keep=len(each.answer)
            )
        found = out.logits[0].float()
        exact += bool((found.argmax(-1) == wanted).all())
        picked = found.log_softmax(-1).gather(1, wanted[:, None])
        likelihoods.append(float(picked.mean()))
    return Score(exact, len(asked), float(np.mean(likelihoods)))
