"""A clock that a test moves: the queue's, and that of `django.utils.timezone.now`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from unittest import mock

from django.utils import timezone

from queuemgr.base import scheduler_lock


class Clock:
    """How far the time of this test is from the real one."""

    def __init__(self) -> None:
        self.ahead = timedelta()
        self._real_now = timezone.now

    def now(self) -> datetime:
        return self._real_now() + self.ahead

    def advance(self, by: timedelta | None = None, **units: float) -> None:
        """Move it on, as `advance(hours=2)` or `advance(timedelta(hours=2))`."""
        self._set(self.ahead + (by or timedelta(**units)))

    def move_to(self, when: datetime) -> None:
        """Set it to this time, which must have a time zone; it runs on from there."""
        self._set(when - self._real_now())

    def _set(self, ahead: timedelta) -> None:
        self.ahead = scheduler_lock.clock.ahead = ahead


@contextmanager
def clock(at: datetime | None = None) -> Iterator[Clock]:
    """A clock to be moved inside the block; afterwards the real one holds again."""
    made = Clock()
    try:
        with mock.patch("django.utils.timezone.now", made.now):
            if at is not None:
                made.move_to(at)
            yield made
    finally:
        scheduler_lock.clock.ahead = timedelta()
