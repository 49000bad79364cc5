"""Source code: real text, the Python files of a package that is installed anyway.

What more context gives or takes is measured on the same bytes at every length. A curve of
perplexity by length, as in arXiv 2108.12409 or 2306.15595, mostly has other tokens at each.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError
from posbench.core.streams import stream_seed
from posbench.core.task import FIRST_SYMBOL, Answers, Batch, PairedTask, assemble, require

PACKAGE, VERSION = "sympy", "1.14.0"
"""PyTorch depends on it, it is Python alone, and its files are the same on every machine."""
BYTES = 256
HELD_OUT = 15
"""Of a hundred files, how many no training sees."""
REMEDY = f"pip install {PACKAGE}=={VERSION} -c constraints.txt"


class SourceCode(PairedTask):
    r"""Windows of n bytes of source code, the files of SymPy, where each byte is a symbol.

    A training window begins anywhere in any training file, each place with the same probability,
    and all of its bytes are to be predicted. EOS is not, because a window ends anywhere. The prompt
    is empty.

    Examples, n = 9 and n = 6, where _ is a blank:
        BOS SEP r e t u r n _ x + EOS
        BOS SEP ) : / x = 1 EOS

    A test has files that no training sees. It asks for the last `targets` bytes of a window alone,
    and these are the same at every length: only what comes before them grows, to the front. So two
    lengths differ by their context and by nothing else. A file serves if it has `longest` bytes at
    least, the longest window of all. Each such file gives one window before any gives a second, and
    the place where a window ends is drawn uniformly.

    What counts is the loss $\ell$, in nats a byte, that of all targets. The score is the share
    of a byte's 8 bits that is saved, $1 - \ell / \ln 256$, clipped to -1 and 1. The gate is what
    the last three bytes tell: a table of what followed them in the training files, mixed with
    those of two, one and no byte, has 1.56 nats a byte.

    `corpus` is the hash of the paths and contents of all files, and another hash is another task.
    15 of a hundred files are held out, by the hash of their path. Validation takes other places
    of the same files as the test, so nothing should be chosen by it that the test judges.
    """

    measure = "share of 8 bits a byte saved"
    gate = 0.72
    vocab_size = FIRST_SYMBOL + BYTES

    def __init__(
        self, corpus: str = "0c4b762d4e7e0640", targets: int = 64, longest: int = 4096
    ) -> None:
        require(
            1 <= targets <= longest,
            "task.targets is how many bytes a test asks for, at least 1 and at most "
            f"task.longest={longest}; got {targets}",
        )
        self.corpus, self.targets, self.longest_window = corpus, targets, longest

    @functools.cached_property
    def files(self) -> Corpus:
        """The files, once they are needed; ConfigError unless they are those of `corpus`, and one
        of those that are held out is long enough.
        """
        found = installed()
        if found.hash != self.corpus:
            raise ConfigError(
                f"the Python files of {PACKAGE} that are installed have the hash {found.hash}, and "
                f"this task is made of those with task.corpus={self.corpus}: {REMEDY}, or give "
                f"task.corpus={found.hash}, which is another task"
            )
        most = found.sizes[found.held_out].max(initial=0)
        require(
            self.longest_window <= most,
            f"task.longest={self.longest_window} is more than the bytes of any file that is held "
            f"out, at most {most}: lower it",
        )
        return found

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        self.total_length(n)
        return self._batch(self.files.anywhere(rng, n, batch_size))

    def tests(self, n: int, trained: int, num_samples: int, *stream: str | int) -> list[Batch]:
        """One batch, whose last bytes are those of every other length of the same stream."""
        self.total_length(n)
        windows = self.files.before(*self._drawn(num_samples, *stream), n)
        batch = self._batch(windows)
        asked = batch.answer.copy()
        asked[:, : -1 - self.targets] = False
        return [replace(batch, answer=asked)]

    def texts(self, num_samples: int, *stream: str | int) -> list[str]:
        """The path of the file that each window of a test is from."""
        return [self.files.paths[file] for file in self._drawn(num_samples, *stream)[0]]

    def _drawn(self, num_samples: int, *stream: str | int) -> tuple[np.ndarray, np.ndarray]:
        """The files of the windows of a test, and the places where these end, [samples] each.

        The first are the same whatever their number.
        """
        sizes, held_out = self.files.sizes, self.files.held_out
        long = held_out[sizes[held_out] >= self.longest_window]
        rng, rounds = np.random.default_rng(stream_seed(*stream)), -(-num_samples // len(long))
        drawn = [(rng.permutation(long), rng.random(len(long))) for _ in range(rounds)]
        files, shares = (np.concatenate(part)[:num_samples] for part in zip(*drawn, strict=True))
        spare = sizes[files] - self.longest_window
        return files, self.longest_window + (shares * (spare + 1)).astype(int)

    def _batch(self, windows: np.ndarray) -> Batch:
        """Sequences of windows, [batch, n] of bytes; all of these are asked for, EOS is not."""
        x, empty = FIRST_SYMBOL + windows.astype(np.int64), np.zeros((len(windows), 0), int)
        batch = assemble(empty, x, np.ones_like(x, bool), np.full_like(x, -1))
        asked = batch.answer.copy()
        asked[:, -1] = False
        return replace(batch, answer=asked)

    def total_length(self, n: int) -> int:
        require(
            n <= self.longest_window,
            f"n={n} is more than task.longest={self.longest_window}, the bytes of the longest "
            "window: raise that, or test shorter lengths (evaluation.multiples)",
        )
        return n + 3

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        return 0.0

    def max_distance(self, n: int) -> int:
        # From the last byte but one to the first: all of the window may be of use.
        return max(n - 2, 0)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of 8 bits that is saved: 0 for a guess, below it for worse ones."""
        return float(np.clip(1 - answers.mean_loss / np.log(BYTES), -1, 1))


# -- the files of the package ----------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The Python files of a package, sorted by their paths; `text` is one after another."""

    paths: tuple[str, ...]  # from the folder of the package on
    text: np.ndarray  # uint8
    sizes: np.ndarray  # of the files, in bytes
    hash: str

    @classmethod
    def of(cls, folder: Path) -> Corpus:
        """All files below a folder whose names end in .py."""
        found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
        texts = {path: found[path].read_bytes() for path in sorted(found)}
        digests = [[path, hashlib.sha256(text).hexdigest()] for path, text in texts.items()]
        return cls(
            tuple(texts),
            np.frombuffer(b"".join(texts.values()), np.uint8),
            np.array([len(text) for text in texts.values()]),
            content_hash(digests),
        )

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where in `text` each file begins."""
        return np.cumsum(self.sizes) - self.sizes

    @functools.cached_property
    def _is_held_out(self) -> np.ndarray:
        return np.array([stream_seed(PACKAGE, path) % 100 < HELD_OUT for path in self.paths])

    @property
    def training(self) -> np.ndarray:
        """The files of training, by their places among `paths`."""
        return np.flatnonzero(~self._is_held_out)

    @property
    def held_out(self) -> np.ndarray:
        """The files of tests, likewise."""
        return np.flatnonzero(self._is_held_out)

    def anywhere(self, rng: np.random.Generator, n: int, count: int) -> np.ndarray:
        """Windows of training files, [count, n]: each place has the same probability."""
        places = np.maximum(self.sizes[self.training] - n + 1, 0)
        ends = places.cumsum()
        drawn = rng.integers(0, ends[-1], count)
        index = np.searchsorted(ends, drawn, side="right")
        begins = self.starts[self.training][index] + drawn - (ends - places)[index]
        return self.text[begins[:, None] + np.arange(n)]

    def before(self, files: Sequence[int] | np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
        """The n bytes of each file before a place in it, [files, n]."""
        begins = self.starts[np.asarray(files)] + ends - n
        return self.text[begins[:, None] + np.arange(n)]


@functools.cache
def installed() -> Corpus:
    """The files of the installed package, read once in a process; it is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ConfigError(
            f"this task is made of the Python files of {PACKAGE}, which is not installed: {REMEDY}"
        )
    return Corpus.of(Path(found.origin).parent)
