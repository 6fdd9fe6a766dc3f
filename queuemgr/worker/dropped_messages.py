"""Messages of the broker that are dropped: counted, and logged without their text.

Nothing here needs kombu: every process that declares tasks imports this, and few of them are workers.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from queuemgr.base import process_state
from queuemgr.base.db_connection import database
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import anomalies

logger = logging.getLogger(__name__)

MOST_REASONS = 20
"""Lines that are logged at once: a reason may quote the name of a task."""

OTHER_REASONS = "for other reasons"

_unreported: Counter[str] = Counter()
_lock = threading.Lock()
process_state.register(_unreported.clear, in_forked_child=True)


def drop(why: str) -> None:
    """Note that a message is dropped; `why` is our own words, nothing of the message."""
    with _lock:
        known = why in _unreported or len(_unreported) < MOST_REASONS
        _unreported[why if known else OTHER_REASONS] += 1


def report() -> None:
    """Log and count what was dropped since the last call: a flood of messages is not a flood of lines."""
    with _lock:
        dropped = dict(_unreported)
        _unreported.clear()
    for why, times in dropped.items():
        logger.error("dropped %d messages of the broker: %s", times, why)
    if dropped:
        with database():
            anomalies.count(anomalies.MESSAGE_UNREADABLE, sum(dropped.values()), database_now())


def reject(message: Any, why: str) -> None:
    """Drop a message that was delivered, so that it is not delivered again."""
    drop(why)
    with suppress(Exception):  # such as one that needs no acknowledgement
        message.reject_log_error(logger, (OSError,))
