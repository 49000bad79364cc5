"""No position encoding: order is known only through the causal mask."""

from posbench.core.encoding import PositionEncoding


class NoPE(PositionEncoding):
    """There is no position signal at all; order is known only from the causal mask.

    No position signal at all (arXiv 2203.16634, 2305.19466).

    Under a causal mask order can still be recovered, because a query sees as many keys as its
    index. Beyond the training length nothing is undefined, but attention spreads over more keys
    than it was trained on.
    """
