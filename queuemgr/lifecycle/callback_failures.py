"""Keeps the failures of flows' callbacks in rows, whichever process they happened in.

A row goes when the callback works again in the process that saw it fail, or the first time it works in a
new process; that of a callback nobody calls any more a day after its last failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from django.db import DatabaseError, transaction
from django.db.models import F

from queuemgr.base import process_state, sql
from queuemgr.base.db_connection import end_what_was_left, held
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.models import CallbackFailure

KEEP = timedelta(days=1)

WRITE_EVERY_SECONDS = 10.0
"""A callback that fails on every view of a page is written this often at most, by each process."""

WORKING_SECONDS = 60.0
"""After so long a callback that works deletes its row again: a restored backup may have brought it back."""

PERIODIC = frozenset({"backfill", "cleanup", "limits"})
"""Callbacks that every fleet calls: their first success in a process deletes the row an older one left."""


class _Seen:
    """What this process knows: when it last wrote each failing callback, and last saw which work."""

    def __init__(self) -> None:
        self.written: dict[tuple[str, str], float] = {}
        self.working: dict[tuple[str, str], float] = {}

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]


_seen = _Seen()
process_state.register(_seen.forget)


class DatabaseWatcher:
    """Writes failures into rows; what cannot be written is in the log all the same."""

    def began(self) -> Callable[[], bool]:
        return partial(end_what_was_left, held())

    def failed(self, failure: CallbackFailed) -> None:
        which, now = (failure.flow, failure.callback), time.monotonic()
        _seen.working.pop(which, None)
        if now - _seen.written.get(which, -WRITE_EVERY_SECONDS) < WRITE_EVERY_SECONDS:
            return
        try:
            with transaction.atomic():
                _write(failure, database_now())
        except DatabaseError:
            return
        _seen.written[which] = now

    def worked(self, flow: str, callback: str) -> None:
        which = (flow, callback)
        was_failing = _seen.written.pop(which, None) is not None
        if not was_failing and (callback not in PERIODIC or _known_to_work(which)):
            return
        _seen.working[which] = time.monotonic()
        try:
            with transaction.atomic():
                CallbackFailure.objects.filter(flow=flow[:32], callback=callback).delete()
        except DatabaseError:
            return

    def is_outage(self, error: BaseException) -> bool:
        return sql.is_away(error)


def _known_to_work(which: tuple[str, str]) -> bool:
    return time.monotonic() - _seen.working.get(which, -WORKING_SECONDS) < WORKING_SECONDS


def _write(failure: CallbackFailed, now: datetime) -> None:
    row, new = CallbackFailure.objects.get_or_create(
        flow=failure.flow[:32],
        callback=failure.callback,
        defaults={"problem": failure.problem, "since": now, "last_at": now},
    )
    if not new:
        CallbackFailure.objects.filter(pk=row.pk).update(
            problem=failure.problem, last_at=now, times=F("times") + 1
        )


def recent(now: datetime) -> list[CallbackFailure]:
    """Those that failed within `KEEP`."""
    return list(CallbackFailure.objects.filter(last_at__gt=now - KEEP))


def prune(now: datetime) -> int:
    return CallbackFailure.objects.filter(last_at__lte=now - KEEP).delete()[0]
