"""Holding a database connection only while it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections


@contextmanager
def database() -> Iterator[None]:
    """Close this thread's connections when the block ends, so that it waits without holding one.

    A connection in a transaction stays open: the transaction is not this block's to end.
    """
    try:
        yield
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
