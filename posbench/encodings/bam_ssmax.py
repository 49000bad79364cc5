"""Scalable softmax of the whole score: a bias of the host grows with the number of keys too."""

from __future__ import annotations

from dataclasses import replace

from posbench.core.attention import Attention, Plan
from posbench.encodings.ssmax import SSMax


class SSMaxWithBias(SSMax):
    r"""Scalable softmax, whose temperature multiplies the bias as well as the content score.

    Weights $n_i^{s_h (z_{ij} + B_{ij})} / \sum_k n_i^{s_h (z_{ik} + B_{ik})}$: scalable softmax
    (arXiv 2501.19399) as a drop-in for the softmax, after any bias, which is how the code of BAM
    (arXiv 2505.22842) has it.

    $s_h$, its start and what counts as a key are those of `SSMax`, which leaves B as it is. Beyond
    the training length the bias gets steeper with the content: what a distance costs grows with
    $\ln n_i$, and so does what a good match is worth, so that the two stay in proportion.
    """

    def encode(self, a: Attention) -> Plan:
        return super().encode(replace(a, scales_bias=True))
