"""The traceback of an error as a row stores it: bounded, and with secrets masked."""

from __future__ import annotations

import traceback
from collections import deque

from queuemgr.base.redaction import storable, without_secrets

MAX_FRAMES = 30
MAX_CHARACTERS = 16_000


def traceback_of(error: BaseException) -> str:
    """The last frames of this error and of what it was raised from, oldest first, and its message last."""
    parts, size = deque[str](), 0
    for part in traceback.TracebackException.from_exception(error, limit=-MAX_FRAMES).format():
        parts.append(part)
        size += len(part)
        while size > 2 * MAX_CHARACTERS and len(parts) > 1:
            size -= len(parts.popleft())
    return as_stored("".join(parts))


def as_stored(text: str) -> str:
    """A traceback as a row holds it: its end, which says most."""
    text = storable(without_secrets(text))
    return text if len(text) <= MAX_CHARACTERS else "…" + text[-MAX_CHARACTERS + 1 :]
