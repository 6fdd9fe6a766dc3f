"""How long after its due time a run may start, so that many of one minute do not start together. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta


def jitter_of(schedule: str, due_at: datetime, most: int) -> timedelta:
    """Up to `most` seconds: of one schedule and due time the same in every process."""
    if not most:
        return timedelta()
    digest = hashlib.sha256(f"{schedule}@{due_at.timestamp():.6f}".encode()).digest()
    return timedelta(seconds=most * int.from_bytes(digest[:7]) / 2**56)
