"""Named random streams: one seed per purpose, so that no use of chance affects another."""

import hashlib


def stream_seed(*names: str | int) -> int:
    """A 63-bit seed, a pure function of the names, e.g. `stream_seed(seed, "train", step)`."""
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
