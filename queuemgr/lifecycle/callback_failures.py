"""Keeps the failures of flows' callbacks in rows, whichever process they happened in.

A row goes when the callback works again in the process that saw it fail, or the first time it works in a
new process; that of a callback nobody calls any more a day after its last failure.

One that did not end, or damaged its process, is left out for `AGAIN_AFTER`, by every worker and web server:
it took a process with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from functools import partial

from django.db import DatabaseError, connections
from django.db.models import F, QuerySet

from queuemgr.base import process_state, sql, transaction
from queuemgr.base.application_call import End, began
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import break_off, database
from queuemgr.base.redaction import describe_error
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.models import CallbackFailure

KEEP = timedelta(days=1)

logger = logging.getLogger(__name__)

AGAIN_AFTER = timedelta(minutes=10)
"""How long a callback that took its process with it is left out."""

READ_EVERY_SECONDS = 5.0
"""How long a process believes what it read of those to be left out."""

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
        self.left_out: dict[tuple[str, str], datetime] = {}
        self.left_out_at = -READ_EVERY_SECONDS

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]  # of this very class


_seen = _Seen()
process_state.register(_seen.forget, in_forked_child=True)


class DatabaseWatcher:
    """Writes failures into rows; what cannot be written is in the log all the same.

    `keep_process`, called before a callback, returns what puts back what that does to its whole process.
    `damage` says what cannot be put back."""

    def __init__(self, keep_process: Callable[[], Callable[[], object]], damage: Callable[[], str]) -> None:
        self._keep_process, self.damage = keep_process, damage

    def began(self) -> End:
        put_back, end = self._keep_process(), began()

        def ended(error: BaseException | None = None) -> str:
            put_back()  # first: what is left of the recursion limit may not do for more
            return end(error)

        return ended

    def seconds(self) -> float:
        return queue_settings().callback_seconds

    def letting_go(self) -> Callable[[], None]:
        return partial(break_off, connections.all())

    def hung(self, failure: CallbackFailed) -> None:
        """In a thread of its own, whose connection is closed again."""
        _record_to_leave_out(failure, database())

    def damaged(self, failure: CallbackFailed) -> None:
        """In its own thread, whose connection is open: another could not be opened."""
        _record_to_leave_out(failure, nullcontext())

    def why_left_out(self, flow: str, callback: str) -> str:
        if time.monotonic() - _seen.left_out_at >= READ_EVERY_SECONDS:
            _seen.left_out = _read_left_out()
            _seen.left_out_at = time.monotonic()
        again = _seen.left_out.get((flow, callback))
        return f"is not called before {again:%H:%M} UTC: it took its process with it" if again else ""

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
                _rows(flow, callback).delete()
        except DatabaseError:
            return

    def is_outage(self, error: BaseException) -> bool:
        """Not what another database of the application's raised, or a statement that made no sense: ours
        answers then."""
        return sql.is_away(error) and not _answers()


def _rows(flow: str, callback: str) -> QuerySet[CallbackFailure]:
    return CallbackFailure.objects.filter(flow=flow, callback=callback)


def _read_left_out() -> dict[tuple[str, str], datetime]:
    """Those that took a process with them lately, and when they are called again."""
    rows = CallbackFailure.objects.filter(hung_at__gt=database_now() - AGAIN_AFTER)
    return {(row.flow, row.callback): row.hung_at + AGAIN_AFTER for row in rows if row.hung_at}


def _answers() -> bool:
    try:
        return bool(sql.value("SELECT 1"))
    except DatabaseError:
        return False


def _record_to_leave_out(failure: CallbackFailed, connection: AbstractContextManager[None]) -> None:
    try:
        with connection, transaction.atomic():
            _write(failure, now := database_now())
            _rows(failure.flow, failure.callback).update(hung_at=now)
    except DatabaseError as error:
        logger.warning("%s: this could not be recorded (%s)", failure, describe_error(error))


def _known_to_work(which: tuple[str, str]) -> bool:
    return time.monotonic() - _seen.working.get(which, -WORKING_SECONDS) < WORKING_SECONDS


def _write(failure: CallbackFailed, now: datetime) -> None:
    row, new = CallbackFailure.objects.get_or_create(
        flow=failure.flow,
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
