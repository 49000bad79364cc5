"""Named streams of randomness: a seed for each purpose, so that no use of chance moves another."""

import hashlib


def stream_seed(*names: str | int) -> int:
    """A 63-bit seed that is a pure function of the names, e.g. `stream_seed(seed, "train",
    step)`.
    """
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
