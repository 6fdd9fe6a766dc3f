"""What is sent of the dashboard's alarms, what waits to be sent, and what is silenced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from queuemgr.base.alert_destinations import destinations_in
from queuemgr.base.config import alert_settings
from queuemgr.models import Alert, AlertNotice, AlertSilence

SHOWN = 50


def destinations() -> list[dict[str, str]]:
    """Those this process knows, without their addresses."""
    known = destinations_in(alert_settings().alert_destinations.get_secret_value())
    return [{"destination": each.name, "kind": each.kind.value, "place": each.place} for each in known]


def standing() -> list[dict[str, Any]]:
    """Alerts that stand, the newest first, each with how its messages went."""
    rows = list(Alert.objects.standing()[:SHOWN])
    return [_shown(row, notices_of([row])) for row in rows]


def notices_of(rows: Sequence[Alert]) -> list[AlertNotice]:
    return list(AlertNotice.objects.filter(alert__in=rows).order_by("-pk")[: SHOWN * len(rows)])


def _shown(row: Alert, notices: Sequence[AlertNotice]) -> dict[str, Any]:
    return {
        "id": row.pk, "alert": row.code, "level": row.level, "text": row.text, "since": row.since,
        "reported": bool(row.reported), "notices": [notice_shown(each) for each in notices],
    }  # fmt: skip


def notice_shown(notice: AlertNotice) -> dict[str, Any]:
    state = "sent" if notice.sent_at else "waiting" if notice.due_at else "given up"
    return {
        "destination": notice.destination, "event": notice.event, "state": state,
        "attempts": notice.attempts, "sent_at": notice.sent_at, "problem": notice.problem,
    }  # fmt: skip


def silences(now: datetime) -> list[dict[str, Any]]:
    return [
        {
            "id": row.pk, "pattern": row.pattern, "until": row.until, "by": row.by, "reason": row.reason,
        }
        for row in AlertSilence.objects.in_force(now)[:SHOWN]
    ]  # fmt: skip
