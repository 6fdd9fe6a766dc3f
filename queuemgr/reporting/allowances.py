"""What is used of the allowances of a limit, what is left, and when it begins anew or is refilled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.allowance import Allowance
from queuemgr.base.meters import meter_or_plain
from queuemgr.base.time_text import moment_text
from queuemgr.scheduling.decision_input import MeterUsage, Usage

ROUND = timedelta(milliseconds=50)
"""A rolling allowance that is full again sooner than this is full."""


@dataclass(frozen=True, slots=True)
class AllowanceStatus:
    """An allowance of one limit now. Amounts are in the smallest part of its meter.

    `used`: in its period, or of the burst of a rolling one. `reserved`: beyond that, by what runs, of a
    rolling one by what is about to begin. `resets_at`: when a calendar one begins anew (None: never).
    `full_at`: when a rolling one will have refilled; None when it is full. `may_exceed_by`: by how much what
    runs may yet exceed it; None while work runs that may use more of the meter than it reserved.
    """

    allowance: Allowance
    used: int
    reserved: int
    resets_at: datetime | None
    full_at: datetime | None
    may_exceed_by: int | None

    @property
    def most(self) -> int:
        """What may be used in a period, or of a rolling one at once."""
        return self.allowance.burst if self.allowance.rolling else self.allowance.amount

    @property
    def left(self) -> int:
        return max(0, self.most - self.used - self.reserved)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of a calendar one; a rolling one has some again in a moment."""
        return not self.left and not self.allowance.rolling

    @property
    def exceeded_by(self) -> int:
        return max(0, self.used + self.reserved - self.most)

    def as_data(self) -> dict[str, Any]:
        """With stable names, for commands and the API."""
        return {
            "allowance": str(self.allowance),
            "name": self.allowance.name,
            "meter": self.allowance.meter,
            "scale": meter_or_plain(self.allowance.meter).scale,
            "amount": self.most,
            "used": self.used,
            "reserved": self.reserved,
            "left": self.left,
            "resets_at": self.resets_at,
            "full_at": self.full_at,
            "may_exceed_by": self.may_exceed_by,
        }

    def text(self, now: datetime) -> str:
        """`usd 4.20 and 0.15 reserved of 20.00 per day, resets 2026-03-01 00:00 UTC`."""
        if not self.allowance.amount:
            return f"an allowance of {self.allowance.meter or 'something'} that this release does not know"
        text = meter_or_plain(self.allowance.meter).text
        held = f" and {text(self.reserved)} reserved" if self.reserved else ""
        used = f"{self.allowance.meter} {text(self.used)}{held} of {text(self.most)}{self._period()}"
        over = f", {text(self.exceeded_by)} too much" if self.exceeded_by else ""
        return f"{used}{over}{self._until(now)}"

    def _period(self) -> str:
        """Of a rolling one whose burst is not its amount, also how fast it refills."""
        allowance = self.allowance
        if not allowance.rolling:
            return f" per {allowance.period}" if self.resets_at else " in total"
        if allowance.burst == allowance.amount:
            return f" per {allowance.period}"
        return f" at once ({meter_or_plain(allowance.meter).text(allowance.amount)} per {allowance.period})"

    def _until(self, now: datetime) -> str:
        if self.resets_at:
            return f", resets {self.resets_at:%Y-%m-%d %H:%M} UTC"
        return f", full again {moment_text(self.full_at, now)}" if self.full_at else ""


def statuses(
    allowances: Iterable[Allowance], use: Usage, zone: str, now: datetime
) -> Iterator[AllowanceStatus]:
    """Those of one limit, with what is used of it; `zone`: where the days of its limit are."""
    for allowance in allowances:
        yield _status(allowance, use.meters.get(allowance.name, MeterUsage()), use.leases, zone, now)


def _status(
    allowance: Allowance, of_it: MeterUsage, running: int, zone: str, now: datetime
) -> AllowanceStatus:
    resets_at = full_at = None
    used = of_it.spent
    if allowance.rolling:
        ahead = of_it.clock - now.timestamp()
        used = allowance.level(ahead)
        ahead = min(ahead, allowance.farthest)
        full_at = now + timedelta(seconds=ahead) if ahead > ROUND.total_seconds() else None
    else:
        resets_at = allowance.period_at(now, zone).ends
    status = AllowanceStatus(allowance, used, of_it.reserved, resets_at, full_at, None)
    if running and not meter_or_plain(allowance.meter).strict:
        return status
    return replace(status, may_exceed_by=status.exceeded_by)
