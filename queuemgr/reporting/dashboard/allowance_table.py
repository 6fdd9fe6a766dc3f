"""Allowances as bars with their forecasts, those nearest their end first. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from queuemgr.base.meters import meter_or_plain
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.remaining_work import RemainingWork
from queuemgr.scheduling.decision_input import Snapshot

SHOWN = 8


@dataclass(frozen=True, slots=True)
class AllowanceRow:
    """An allowance of one limit; `alarm` is what a person should know of it before it runs out, or empty."""

    limit: str
    status: AllowanceStatus
    alarm: str

    @property
    def share_used(self) -> float:
        return min(1.0, max(0, self.status.used) / self.status.most) if self.status.most else 1.0

    @property
    def share_reserved(self) -> float:
        free = 1.0 - self.share_used
        return min(free, self.status.reserved / self.status.most) if self.status.most else 0.0

    @property
    def texts(self) -> dict[str, str]:
        """Amounts in the meter's unit, by what they are of; empty for none, where that says nothing."""
        status, ahead = self.status, self.status.forecast
        meter = status.allowance.meter
        text = meter_or_plain(meter).text
        return {
            "used": text(status.used),
            "most": text(status.most),
            "reserved": text(status.reserved) if status.reserved else "",
            "waiting": text(ahead.waiting + ahead.never) if ahead and ahead.waiting + ahead.never else "",
            "hour": ahead.pace(meter) if ahead and ahead.per_hour else "",
        }

    @property
    def fullness(self) -> float:
        return self.share_used + self.share_reserved


@dataclass(frozen=True, slots=True)
class AllowanceTable:
    """The rows shown, how many are left out, and the alarms of all: which limit and allowance, and what."""

    shown: tuple[AllowanceRow, ...] = ()
    others: int = 0
    alarms: tuple[tuple[str, str], ...] = ()


def allowance_table(snapshot: Snapshot, remaining: RemainingWork, alarm_percent: int) -> AllowanceTable:
    rows = [
        AllowanceRow(
            limit, status, status.alarm(limit, snapshot.now) if status.runs_out_soon(alarm_percent) else ""
        )
        for limit, found in remaining.by_limit(snapshot)
        for status in found
    ]
    rows.sort(key=_nearest_end_first)
    alarms = tuple((f"{row.limit} {row.status.allowance.name}", row.alarm) for row in rows if row.alarm)
    return AllowanceTable(tuple(rows[:SHOWN]), max(0, len(rows) - SHOWN), alarms)


def _nearest_end_first(row: AllowanceRow) -> tuple[bool, float, str, str]:
    return not row.alarm, -row.fullness, row.limit, row.status.allowance.name
