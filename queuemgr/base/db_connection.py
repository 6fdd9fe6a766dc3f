"""Holding a database connection only while it is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from queuemgr.base import process_state


class _Uses(threading.local):
    """How many `database` blocks this thread is in."""

    depth = 0


_uses = _Uses()
process_state.register(lambda: vars(_uses).clear(), in_forked_child=True)


@contextmanager
def database() -> Iterator[None]:
    """Close this thread's connections when the block ends, so that it waits without holding one.

    Blocks nest: an inner one leaves the connection to the outer one.
    """
    _uses.depth += 1
    try:
        yield
    finally:
        _uses.depth -= 1
        if not _uses.depth:
            close_connections()


def close_connections() -> None:
    """Close this thread's connections, but none in a transaction: that is not ours to end."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
