"""Keys of Redis that hold something else than what kombu keeps under them.

Whoever can write to the broker can put a text where a queue should be. Then every worker that reads it fails,
and fails again when it is started anew. All that is there is a hint, so what is of the wrong type is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from celery import Celery
from kombu.transport.redis import Channel
from kombu.utils.encoding import bytes_to_str

from queuemgr.base.safe_text import safe_text

logger = logging.getLogger(__name__)

EXCHANGES = ("celery.pidbox", "reply.celery.pidbox", "celeryev")
"""Those of remote control and of events, besides one for each queue."""

PARTS_OF_A_BINDING = 3


def mend(app: Celery) -> int:
    """Remove what is of the wrong type; returns how many keys."""
    mended = 0
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        if not isinstance(channel, Channel):
            return 0
        queues = sorted(app.amqp.queues)
        with channel.conn_or_acquire() as client:
            for key, expected in _keys(channel, queues):
                mended += _mend(client, key, expected, channel.sep)
    if mended:
        logger.error("removed %d keys of the broker that were of the wrong type", mended)
    return mended


def _keys(channel: Any, queues: list[str]) -> Iterator[tuple[str, str]]:
    """Each key and the type of what is under it, as Redis calls it."""
    yield channel.unacked_key, "hash"
    yield channel.unacked_index_key, "zset"
    yield channel.unacked_mutex_key, "string"
    yield channel.keyprefix_binding_deadlines, "zset"
    for name in queues:
        yield from ((channel._q_for_pri(name, priority), "list") for priority in channel.priority_steps)
    for name in (*queues, *EXCHANGES):
        yield channel.keyprefix_queue % (name,), "set"
        yield channel.keyprefix_binding_permanent % (name,), "set"


def _mend(client: Any, key: str, expected: str, separator: str) -> int:
    found = bytes_to_str(client.type(key))
    if found not in (expected, "none"):
        client.delete(key)
        logger.warning("the broker's key %s was a %s", safe_text(key), found)
        return 1
    if expected != "set" or found == "none":
        return 0
    odd = [each for each in client.smembers(key) if not _is_binding(each, separator)]
    return int(client.srem(key, *odd)) if odd else 0


def _is_binding(member: Any, separator: str) -> bool:
    try:
        return len(bytes_to_str(member).split(separator)) == PARTS_OF_A_BINDING
    except UnicodeDecodeError:
        return False
