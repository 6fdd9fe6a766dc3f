"""Which alarms stand, since when, and what is to be sent of each.

Any process may look, two at once too: the database has one alert of each alarm that stands and one notice of
each of its changes for each destination, and whoever comes second changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from django.db import IntegrityError

from queuemgr.base import transaction
from queuemgr.base.config import alert_settings
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Alert, AlertNotice, AlertSilence, NoticeEvent
from queuemgr.models.alerts import MAX_CODE
from queuemgr.operations import alert_delivery
from queuemgr.reporting import dashboard
from queuemgr.reporting.dashboard.alarms import LEVELS, Alarm, all_alarms

MOST = 200
"""Alarms that are followed: what is beyond them is of less weight."""

TEST = "test"
"""The code of an alert that a person asked for, to see that it arrives."""

KEEP = timedelta(days=30)
"""How long an alert is kept once it is resolved."""


def follow() -> int:
    """Look at the dashboard and store what is new; returns how many alarms stand."""
    shown = dashboard.read()
    levels = LEVELS[: LEVELS.index(alert_settings().alert_level) + 1]
    standing = [alarm for alarm in all_alarms(shown) if alarm.level in levels][:MOST]
    keep(standing, database_now())
    return len(standing)


def keep(standing: Iterable[Alarm], now: datetime) -> None:
    """Store that these stand, and notices of what changed."""
    try:
        with transaction.atomic():
            silences = list(AlertSilence.objects.in_force(now).values_list("pattern", flat=True))
            notices = list(_notices(list(standing), silences, now))
            AlertNotice.objects.bulk_create(notices)
    except IntegrityError:
        return  # another process has just stored the same


def _notices(standing: Sequence[Alarm], silences: Sequence[str], now: datetime) -> Iterator[AlertNotice]:
    known = {row.code: row for row in Alert.objects.standing().select_for_update().order_by("pk")}
    after = timedelta(seconds=alert_settings().alert_after)
    for alarm in {_code(alarm): alarm for alarm in reversed(standing)}.values():
        code = _code(alarm)
        row = known.pop(code, None) or Alert(code=code, since=now)
        row.level, row.text, row.seen_at = alarm.level, _text(alarm.text, 500), now
        is_news = now - row.since >= after and row.reported != _reported(alarm)
        if is_news and not is_silenced(code, silences):
            event = NoticeEvent.CHANGED if row.reported else NoticeEvent.FIRING
            row.reported = _reported(alarm)
            yield from _stored(row, event, now)
        else:
            row.save()
    for row in known.values():
        if row.code == TEST:
            row.resolved_at = now
            yield from _stored(row, NoticeEvent.TEST, now)
        elif now - row.seen_at >= after:
            row.resolved_at = now
            yield from _stored(row, NoticeEvent.RESOLVED if row.reported else None, now)


def _stored(row: Alert, event: NoticeEvent | None, now: datetime) -> Iterator[AlertNotice]:
    row.changes += 1 if event else 0
    row.save()
    for destination in alert_delivery.destinations() if event else ():
        yield AlertNotice(
            alert=row, number=row.changes, destination=destination.name, event=str(event), level=row.level,
            text=row.text, at=now, due_at=now,
        )  # fmt: skip


def is_silenced(code: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(code, pattern) for pattern in patterns)


def _reported(alarm: Alarm) -> str:
    """What is sent anew when it changes: the figures in a sentence are not part of it."""
    return f"{alarm.level} {_text(alarm.fact, 480)}"


def _code(alarm: Alarm) -> str:
    return _text(alarm.code, MAX_CODE)


def _text(text: str, most: int) -> str:
    return str(masked(text))[:most]


def prune(now: datetime) -> int:
    """Delete what was resolved, and silences that ended, long ago; returns how many alerts."""
    AlertSilence.objects.filter(until__lt=now - KEEP).delete()
    return Alert.objects.filter(resolved_at__lt=now - KEEP).delete()[0]
