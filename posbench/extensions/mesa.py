"""Mesa-Extrapolation: the keys of earlier chunks climb a stair of distances."""

from __future__ import annotations

from torch import Tensor

from posbench.core.attention import Attention
from posbench.extensions.distances import Shrinking, below, chunks_back, counted, grouped, smallest
from posbench.extensions.regions import Region, from_the_first


class Mesa(Shrinking):
    r"""Within a query's own chunk distances stay; earlier positions are floor-divided, as on
    stairs.

    $d' = d$ for keys of the query's own chunk, else $(i - b) + \lceil b/E \rceil - \lfloor j/E
    \rfloor$, where b is the position at which its chunk begins (Stair PE of Mesa-Extrapolation,
    arXiv 2410.15859).

    Chunks are of `chunk` positions, counted from the first token. Keys of earlier chunks are
    grouped by `step` E, so that distances climb a stair; queries are not, unlike in `SelfExtend`.
    Published: steps of 20 to 200 and chunks of 512 up to the training length. Left out (null), E is
    the smallest with which no distance of the test is new, for each test length its own, and
    nothing changes at the training length.

    Where E divides b this is $N + \lceil (d - N)/E \rceil$ with N = i - b, the paper's formula;
    with one N for all queries it would be no difference of positions, and no two maps could give
    it. The authors' code takes the floor in its place: there a key of an earlier chunk is one
    nearer, unless E divides d - N. The code cuts chunks from the end of the prompt and lets all but
    the last see only the first chunk and themselves, to save memory: here every query is treated as
    one of a last chunk and sees all keys. Its temperature is left out.
    """

    def __init__(self, chunk: int, step: int | None = None) -> None:
        counted("chunk", chunk)
        counted("step", step)
        self.chunk = chunk
        self.factor = step

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        size, step = self.chunk, self.factor
        if step is None:
            below("chunk", size, train_positions)
            starts = range(0, test_positions, size)
            step = smallest(
                lambda e: max(min(size, test_positions - b) - 1 + -(-b // e) for b in starts[-2:]),
                train_positions,
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            begin = i - i % size
            return i - begin - (-begin) // step, grouped(j, step)

        return [Region(), Region(places, lambda a, rows: chunks_back(a, rows, size) >= 1)]
