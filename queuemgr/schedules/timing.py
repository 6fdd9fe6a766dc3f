"""When a schedule is due: `cron("0 3 * * *", zone="Europe/Berlin")`, `every(minutes=5)`, `once(at)`. Pure.

Each is a value that can be written as a text, and read again: `cron 0 3 * * * in Europe/Berlin except 12-25`,
`every 5m from start`, `once 2026-12-01T03:00:00+00:00`. Commands, pages and the API take that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
from typing import TypeVar

from cronsim import CronSim, CronSimError

from queuemgr.base.budget_day import zone as zone_of
from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt

FROM_START, FROM_END = "from start", "from end"
LONGEST_PERIOD = 3660 * 86_400
"""Seconds of the longest interval: ten years."""

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
LONGEST_TEXT = 500

UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True)
class Cron:
    """At the times of a cron expression, as local time of a zone. Made by `cron`."""

    expression: str
    zone: str = "UTC"
    exclude: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"cron {self.expression} in {self.zone}{_except(self.exclude)}"

    @property
    def recurs_through_the_day(self) -> bool:
        """Whether it follows elapsed time, as `*/5 * * * *` and `0 * * * *` do: its minute or hour begins
        with a star. Any other is at times of the clock, as `30 2 * * *`."""
        minute, hour, *_ = self.expression.split()
        return minute.startswith("*") or hour.startswith("*")


@dataclass(frozen=True)
class Every:
    """Again after so many seconds, counted from one due time to the next or from the end of a run. Made by
    `every`."""

    seconds: int
    measured: str = FROM_START
    zone: str = "UTC"
    exclude: tuple[str, ...] = ()

    def __str__(self) -> str:
        unit = next(name for name, size in UNITS.items() if self.seconds % size == 0)
        where = f" in {self.zone}" if self.exclude else ""
        return f"every {self.seconds // UNITS[unit]}{unit} {self.measured}{where}{_except(self.exclude)}"


@dataclass(frozen=True)
class Once:
    """At one moment. Made by `once`."""

    at: datetime

    def __str__(self) -> str:
        return f"once {self.at.astimezone(UTC).isoformat()}"


Timing = Cron | Every | Once


def cron(expression: str, *, zone: str = "UTC", exclude: Iterable[str] = ()) -> Cron:
    """At the times of a cron expression of five fields, or `@daily` and the like, in an IANA time zone.

    `exclude` are days on which it is not due: `2026-12-24`, `12-25` of every year, `2026-12-24/2027-01-06`,
    `12-24/01-06` of every year, `sat`. Raises `ConfigurationError` for what is not valid, and for what is
    never due.
    """
    if not isinstance(expression, str):
        raise ConfigurationError(f"cron({excerpt(expression)}): give the expression as a text: '*/5 * * * *'")
    fields = SHORTHANDS.get(expression.strip().lower(), expression).split()
    if len(fields) != 5:
        raise ConfigurationError(
            f"cron {expression!r} has {len(fields)} fields; write minute, hour, day of the month, month and "
            "day of the week, as '30 3 * * mon-fri', or @daily; for seconds use every(seconds=…)"
        )
    try:
        if next(CronSim(" ".join(fields), datetime(2000, 1, 1)), None) is None:  # noqa: DTZ001  # local time
            raise ConfigurationError(f"cron {expression!r} is never due")
    except CronSimError as error:
        raise ConfigurationError(f"cron {expression!r}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    once_each = (",".join(dict.fromkeys(field.split(","))) for field in fields)  # it is read again and again
    return _checked(Cron(" ".join(once_each), _zone(zone), _exclusions(exclude)))


def every(
    *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0,
    measured: str = FROM_START, zone: str = "UTC", exclude: Iterable[str] = (),
) -> Every:  # fmt: skip
    """Again after so long, in whole seconds; the first time so long after the schedule came into force.

    `measured` is `"from start"`, from one due time to the next, or `"from end"`, from the end of a run to the
    next due time. `exclude` are days as in `cron`, in `zone`. Raises `ConfigurationError`.
    """
    try:
        total = days * 86_400 + hours * 3600 + minutes * 60 + seconds
        whole = int(total)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError("every(…) takes numbers of days, hours, minutes and seconds") from None
    if whole != total or not 1 <= whole <= LONGEST_PERIOD:
        raise ConfigurationError(f"every {total:g} s: give whole seconds, from 1 s to ten years")
    if measured not in (FROM_START, FROM_END):
        raise ConfigurationError(f"every: measured={measured!r} is neither {FROM_START!r} nor {FROM_END!r}")
    return _checked(Every(whole, measured, _zone(zone), _exclusions(exclude)))


def once(at: datetime) -> Once:
    """At one moment, which has a time zone. Raises `ConfigurationError`."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise ConfigurationError(f"once({excerpt(at)}): give a datetime with a time zone")
    if not MINYEAR + 1 < at.year < MAXYEAR - 1:  # each zone can show it
        raise ConfigurationError(f"once({at!s:.60}) is out of the range of times")
    return Once(at.astimezone(UTC))


_TEXT = re.compile(
    r"(?P<kind>cron|every|once)\s+(?P<what>.*?)"
    r"(?:\s+in\s+(?P<zone>\S+))?(?:\s+except\s+(?P<exclude>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_PERIOD = re.compile(
    r"(?P<number>\d{1,12})\s*(?P<unit>[dhms])[a-z]*(?:\s+(?P<measured>from start|from end))?", re.IGNORECASE
)


def parse(text: str) -> Timing:
    """The timing that a text says, as `str` of it does. Raises `BadInput`."""
    match = _TEXT.fullmatch(text.strip()) if len(text) <= LONGEST_TEXT else None
    if match is None:
        raise BadInput(
            f"timing {text[:80]!r}: write 'cron 30 3 * * * in Europe/Berlin', 'every 5m from start', "
            "'every 1h from end' or 'once 2026-12-01T03:00:00+00:00'; days are left out as in "
            "'cron @daily except 12-25,sat'"
        )
    exclude = [day for day in (match["exclude"] or "").replace(",", " ").split() if day]
    try:
        return _parsed(match["kind"].lower(), match["what"], match["zone"] or "UTC", exclude)
    except ConfigurationError as error:
        raise BadInput(str(error)) from None


def _parsed(kind: str, what: str, zone: str, exclude: list[str]) -> Timing:
    if kind == "cron":
        return cron(what, zone=zone, exclude=exclude)
    if kind == "once":
        try:
            return once(datetime.fromisoformat(what))
        except ValueError:
            raise BadInput(f"once {what[:60]!r} is no time; write one as 2026-12-01T03:00:00+00:00") from None
    period = _PERIOD.fullmatch(what)
    if period is None:
        raise BadInput(f"every {what[:60]!r}: write a number and d, h, m or s, as 'every 5m from start'")
    seconds = int(period["number"]) * UNITS[period["unit"].lower()]
    measured = (period["measured"] or FROM_START).lower()
    return every(seconds=seconds, measured=measured, zone=zone, exclude=exclude)


def is_excluded(timing: Cron | Every, day: date) -> bool:
    """Whether nothing is due on this local day."""
    return any(_excludes(text, day) for text in timing.exclude)


def _excludes(text: str, day: date) -> bool:
    if text in WEEKDAYS:
        return day.weekday() == WEEKDAYS.index(text)
    if "/" in text:
        first, _, last = text.partition("/")
        if len(first) > 5:
            return first <= day.isoformat() <= last
        own = f"{day:%m-%d}"
        return first <= own <= last if first <= last else own >= first or own <= last
    return text in (day.isoformat(), f"{day:%m-%d}")


Made = TypeVar("Made", Cron, Every)


def _checked(timing: Made) -> Made:
    if len(str(timing)) > LONGEST_TEXT:
        raise ConfigurationError(f"{str(timing)[:60]}…: its text has over {LONGEST_TEXT} characters")
    return timing


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except (BadInput, TypeError) as error:
        raise ConfigurationError(str(error)) from None
    return name


def _exclusions(days: Iterable[str]) -> tuple[str, ...]:
    if isinstance(days, str):
        raise ConfigurationError(f"exclude={days!r} is a text; write a list: [{days!r}]")
    return tuple(_exclusion(day) for day in days)


def _exclusion(text: str) -> str:
    """The day or days as they are stored. Raises `ConfigurationError`."""
    day = str(text).strip().lower()
    first, slash, last = day.partition("/")
    try:
        if day in WEEKDAYS:
            return day
        if not slash:
            return _day(day)
        if len(_day(first)) == len(_day(last)) and (len(first) == 5 or _day(first) <= _day(last)):
            return f"{_day(first)}/{_day(last)}"
    except ValueError:
        pass
    raise ConfigurationError(
        f"exclude {text!r} is none of 2026-12-24, 12-25, 2026-12-24/2027-01-06, 12-24/01-06 and a weekday "
        "such as sat"
    )


def _day(text: str) -> str:
    """A date, or a day of every year, as it is stored. Raises `ValueError`."""
    if len(text) > 5:
        return str(date.fromisoformat(text))
    return f"{date.fromisoformat(f'2000-{text}'):%m-%d}"


def _except(days: tuple[str, ...]) -> str:
    return f" except {','.join(days)}" if days else ""
