"""Which pages a child process reads; runs inside the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def wanted_pages(job: Mapping[str, Any], count: int) -> list[int]:
    """The requested pages (from 1) that exist; None requests all, up to `max_pages`."""
    if job["pages"] is None:
        return list(range(1, min(count, int(job["max_pages"])) + 1))
    return [page for page in job["pages"] if 1 <= page <= count]
