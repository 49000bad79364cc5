"""The hash of content, such as settings: what has the same is the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def content_hash(content: Any) -> str:
    """16 hexadecimal digits that change with the content; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
