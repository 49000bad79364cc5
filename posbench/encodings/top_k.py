"""Top-k selection: a query attends to its best keys only."""

from __future__ import annotations

from posbench.core.selection import Selected


class TopK(Selected):
    r"""Each query attends to the few keys that score best and to its own, and to no others.

    $w_{ij} = \frac{e^{z_{ij}}}{\sum_{j' \in S_i} e^{z_{ij'}}}$ for $j \in S_i$ and 0 for other
    keys, where $S_i$ has i itself and the k - 1 largest of the scores $z_{ij}$, $j < i$, with
    `keys` k (Explicit Sparse Transformer, arXiv 1912.11637; top-k attention, arXiv 2106.06899).

    DeepSeek V3.2 (arXiv 2512.02556) and GLM-5 also attend to the k best keys, but choose them by
    the scores of a small indexer that is trained for it; here the scores choose among themselves.
    The papers keep the own key only if it is among the best. Here it always is one of the k, for
    normalisers count on it and masks keep it too; MoBA (arXiv 2502.13189) keeps its own block. Keys
    that tie with the last of the k are all kept.

    Beyond the training length a query still divides its weight among k keys, however many it could
    choose from: what is lost to many bad keys in a softmax is not lost here. A wrong key that
    scores well takes its share as before. Keys that are left out get no gradient, nor does the
    choice. A query that sees at most k keys has them all. A host with another normaliser keeps it,
    on the keys that are left; biases are part of z.
    """
