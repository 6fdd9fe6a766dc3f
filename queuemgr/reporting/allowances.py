"""What is used of the allowances of a limit, what is left, and when it begins anew or is refilled. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from queuemgr.base.allowance import Allowance
from queuemgr.base.limit_shorthand import RATE
from queuemgr.base.meters import meter_or_plain
from queuemgr.base.provider_left import Left
from queuemgr.base.time_text import moment_text
from queuemgr.reporting.allowance_forecast import Forecast
from queuemgr.reporting.estimate_ranges import about
from queuemgr.scheduling.decision_input import MeterUsage, Usage, provider_text

ROUND = timedelta(milliseconds=50)
"""A rolling allowance that is full again sooner than this is full."""


@dataclass(frozen=True, slots=True)
class AllowanceStatus:
    """An allowance of one limit now. Amounts are in the smallest part of its meter.

    `used`: in its period, or of the burst of a rolling one. `reserved`: beyond that, by what runs, of a
    rolling one by what is about to begin. `resets_at`: when a calendar one begins anew (None: never).
    `full_at`: when a rolling one will have refilled; None when it is full. `may_exceed_by`: by how much what
    runs may yet exceed it; None while work runs that may use more of the meter than it reserved. `forecast`:
    what becomes of it, where that was asked for.
    """

    allowance: Allowance
    used: int
    reserved: int
    resets_at: datetime | None
    full_at: datetime | None
    may_exceed_by: int | None
    forecast: Forecast | None = None

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

    def runs_out_soon(self, percent: int) -> bool:
        """Whether a person should know of a calendar one before it runs out: so many percent of it are used
        or reserved, or what waits will use it up before it begins anew."""
        if self.allowance.rolling or not self.allowance.amount:
            return False
        if (self.used + self.reserved) * 100 >= self.most * percent:
            return True
        ends = self.forecast and self.forecast.runs_out_at
        return bool(ends and (self.resets_at is None or ends < self.resets_at))

    @property
    def exceeded_by(self) -> int:
        return max(0, self.used + self.reserved - self.most)

    def as_data(self, now: datetime) -> dict[str, Any]:
        """With stable names, for commands and the API."""
        figures = {name: figure.of(self) for name, figure in FIGURES.items()}
        return {**figures, "forecast": self.forecast and self.forecast.as_data(now)}

    def alarm(self, limit: str, now: datetime) -> str:
        """What a person should know of it before it runs out, in a sentence."""
        text, of = meter_or_plain(self.allowance.meter).text, f"{self.allowance.name} of {limit}"
        resets = f", begins anew {moment_text(self.resets_at, now)}" if self.resets_at else ""
        if self.is_spent:
            return f"The allowance {of} is used up{resets}"
        ahead = self.forecast
        if ahead and ahead.runs_out_at:
            waits = f"{text(ahead.waiting)} wait for it, {text(self.left)} are left"
            return f"The allowance {of} will run out about {about(ahead.runs_out_at, 'budget', now)}: {waits}"
        used = 100 * (self.used + self.reserved) // self.most
        return f"{used} % of the allowance {of} are used or reserved{resets}"

    def in_words(self, now: datetime) -> dict[str, Any]:
        """As data, with what people read of it."""
        data = self.as_data(now) | {"text": self.text(now)}
        if data["forecast"]:
            data["forecast"]["text"] = self.forecast_text(now)
        return data

    def forecast_text(self, now: datetime) -> str:
        """What becomes of it; empty where nothing waits that would use it."""
        ahead = self.forecast
        return ahead.text(self.allowance.meter, now) if ahead and (ahead.waiting or ahead.never) else ""

    def text(self, now: datetime) -> str:
        """`usd 4.20 and 0.15 reserved of 20.00 per day, resets 2026-03-01 00:00 UTC`."""
        if not self.allowance.known:
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
            return f" per {allowance.each}"
        return f" at once ({meter_or_plain(allowance.meter).text(allowance.amount)} per {allowance.each})"

    def _until(self, now: datetime) -> str:
        if self.resets_at:
            return f", resets {self.resets_at:%Y-%m-%d %H:%M} UTC"
        return f", full again {moment_text(self.full_at, now)}" if self.full_at else ""


class Figure(NamedTuple):
    """A figure of an allowance: its type, what it means, and how to tell it."""

    type: Any
    meaning: str
    of: Callable[[AllowanceStatus], Any]


FIGURES: Mapping[str, Figure] = {
    "allowance": Figure(str, "as it is stated", lambda status: str(status.allowance)),
    "name": Figure(
        str, "what tells it from the others of the limit, as `usd/day`", lambda status: status.allowance.name
    ),
    "meter": Figure(str, "what it counts", lambda status: status.allowance.meter),
    "scale": Figure(
        int,
        "how many of the amounts below make one of the meter's unit: 1,000,000 of dollars",
        lambda status: meter_or_plain(status.allowance.meter).scale,
    ),
    "amount": Figure(int, "what may be used in a period, of a rolling one at once", attrgetter("most")),
    "used": Figure(int, "used in its period, of a rolling one what has not refilled", attrgetter("used")),
    "reserved": Figure(
        int, "reserved by what runs, of a rolling one by what is about to start", attrgetter("reserved")
    ),
    "left": Figure(int, "what is left", attrgetter("left")),
    "resets_at": Figure(
        datetime | None,
        "when its period ends; null for a rolling one, and for one in total",
        attrgetter("resets_at"),
    ),
    "full_at": Figure(
        datetime | None, "when a rolling one has refilled; null when it is full", attrgetter("full_at")
    ),
    "may_exceed_by": Figure(
        int | None,
        "by how much what runs may yet exceed it; null while that is not known: a step may use more tokens "
        "than it reserved",
        attrgetter("may_exceed_by"),
    ),
}
"""What commands and the API show of an allowance, each declared once: schema and documentation are made of
it."""


def statuses(
    allowances: Iterable[Allowance], use: Usage, zone: str, now: datetime
) -> Iterator[AllowanceStatus]:
    """Those of one limit, with what is used of it; `zone`: where the days of its limit are."""
    for allowance in allowances:
        if allowance.name == RATE:
            continue  # shown as a rate
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


def left_by_provider(meter: str, left: Left, now: datetime) -> dict[str, Any]:
    """With stable names: what a provider's answers left of a meter, less what runs may yet use of it."""
    return {
        "meter": meter,
        "scale": meter_or_plain(meter).scale,
        "left": max(0, left.amount),
        "until": datetime.fromtimestamp(left.until, UTC),
        "reason": left.reason,
        "text": provider_text(meter, left, now),
    }
