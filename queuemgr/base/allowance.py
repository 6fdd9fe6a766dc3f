"""Allowances: how much of a meter a limit may use in a period, and the notation for it. Pure.

`30,000 tokens/minute` refills continuously (rolling), `20 usd/day in Europe/Berlin` begins anew at midnight
(calendar). Rolling allowances are kept by GCRA (ITU-T I.371) in the continuous form of a token bucket: what
is used refills evenly, and at most `burst` may be used at once after a pause. Seconds, minutes and hours are
rolling unless `calendar` is said, days, weeks and months calendar unless `rolling` is.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from queuemgr.base.budget_day import zone as zone_named
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import MAX_AMOUNT, STARTS, Amounts, Meter, meter_named, meter_or_plain
from queuemgr.base.rate import LONGEST_PERIOD, MAX_HOLD

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 30 * 86_400}
TOTAL = "total"
PERIODS = (*SECONDS, TOTAL)
CLOCKED = ("second", "minute", "hour")
"""Periods of a fixed length, which begin at the same moments in every time zone."""

SHORTEST = {"day": 22 * 3600, "week": 604_800 - 7200, "month": 28 * 86_400 - 7200}
"""Seconds, less than any such period lasts, clock changes included."""

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

EXAMPLES = (
    '"30,000 tokens/minute", "1 starts/3 seconds", "20 usd/day in Europe/Berlin", "500 usd/month from 15"'
)
LONGEST_ENTRY = 200
"""Characters of one allowance."""

MOST_OF_A_LIMIT = 20
"""Allowances a limit may have."""

LONGEST_DEBT = 3600.0
"""Seconds of refill that a rolling allowance may be overdrawn by, or ten times its burst if that is more.
A clock further ahead was left by a machine whose time has been set back since."""


LONGEST_WAIT = 3650 * 86_400.0
"""Seconds: what began under a larger allowance, before an edit, may take longer to refill than dates go."""


class Anchor(NamedTuple):
    """When a calendar period begins: the weekday (0: Monday) or the day of the month (1: the first; of a
    shorter month the last), and the minute of that day."""

    day: int = 0
    minute: int = 0


FIRST = Anchor()


class Option(NamedTuple):
    """A word that an allowance may have: what follows it, and what it means."""

    value: str
    meaning: str


KINDS = {
    "rolling": Option("", "refills evenly; without it so do seconds, minutes and hours"),
    "calendar": Option("", "begins anew with each period; without it so do days, weeks and months"),
}
OPTIONS = {
    "burst": Option("an amount", "of a rolling one: how much may be used at once; without it all of it"),
    "in": Option("a time zone", "of a calendar one: where its days are; without it that of the limit"),
    "from": Option("`06:00`, `tue 06:00`, `15 06:00`", "of a calendar one: when the period begins"),
    "high": Option("a percentage", "the last percent are for high priority alone"),
    "low": Option("a percentage", "low priority stops so many percent before the end"),
}
"""All that may be said of an allowance behind its amount, meter and period."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """At most `amount` of a meter in each period. `burst`: how much a rolling one may use at once.

    The last `high` percent are for high-priority work only; low-priority work stops `low` percent before the
    end. `zone` is where the days of a calendar period are (empty: that of the setting). Of one that is not
    `known`, only a newer release knows what it allows. The amount is that of `every` so many periods.
    """

    meter: str
    amount: int
    period: str
    rolling: bool = False
    burst: int = 0
    zone: str = ""
    anchor: Anchor = FIRST
    high: int = 0
    low: int = 0
    known: bool = True
    every: float = 1.0
    label: str = ""

    name: str = field(init=False, repr=False, compare=False)
    """`tokens/minute`, or its label: what distinguishes it from others of the same limit."""
    interval: float = field(init=False, repr=False, compare=False)
    """Seconds that a rolling one takes to refill the smallest part of its meter."""

    def __post_init__(self) -> None:
        """Each decision asks for these many times."""
        other = "" if self.rolling == _rolls(self.period) else f"/{self.kind}"
        each = self.each.replace(" ", "")
        object.__setattr__(self, "name", self.label or f"{self.meter}/{each}{other}")
        object.__setattr__(self, "interval", self.length / (self.amount or 1))

    @property
    def length(self) -> float:
        """Seconds of a rolling one's period; 0 of a total."""
        return self.every * SECONDS.get(self.period, 0)

    @property
    def each(self) -> str:
        """`minute`, `3 seconds`."""
        every = f"{self.every:.3f}".rstrip("0").rstrip(".")
        return self.period if self.every == 1 else f"{every} {self.period}s"

    @property
    def kind(self) -> str:
        return "rolling" if self.rolling else "calendar"

    @property
    def farthest(self) -> float:
        """Seconds its clock may be ahead of now: the burst, an overrun, and a start granted early."""
        full = self.burst * self.interval
        debt = 0.0 if self.meter == STARTS else max(10 * full, LONGEST_DEBT)
        return full + debt + MAX_HOLD

    def need(self, amounts: Amounts) -> int:
        """How much of it a start takes that uses these amounts: of starts one, whatever it uses."""
        return 1 if self.meter == STARTS else amounts.get(self.meter, 0)

    def usable(self, rank: int) -> int:
        """How much of a period, or of the burst, work of this priority may bring the total to."""
        most = self.burst if self.rolling else self.amount
        kept = {0: 0, 2: max(self.high, self.low)}.get(rank, self.high)
        return most - most * kept // 100

    def wait(self, ahead: float, pending: int, need: int, rank: int = 1) -> float:
        """Seconds until `need` more conform; 0 when they do now, infinite if they never will.

        `ahead`: seconds its clock is ahead of now. `pending`: what starts granted before will use that have
        not begun; they count as beginning now.
        """
        usable = self.usable(rank)
        if need > usable:
            return float("inf")
        full = min(max(ahead, 0.0), self.farthest)
        return min(max(0.0, full + (pending + need - usable) * self.interval), LONGEST_WAIT)

    def level(self, ahead: float) -> int:
        """How much of the burst is used, with the clock so many seconds ahead."""
        return round(min(max(ahead, 0.0), self.farthest) / self.interval)

    def period_at(self, moment: datetime, default_zone: str = "UTC") -> Period:
        """The calendar period of a moment."""
        if self.period == TOTAL:
            return Period(_EPOCH, None)
        if self.period in CLOCKED:
            seconds = SECONDS[self.period]
            start = _EPOCH + timedelta(seconds=(moment - _EPOCH) // timedelta(seconds=seconds) * seconds)
            return Period(start, start + timedelta(seconds=seconds))
        zone = self.zone or default_zone
        starts = _starts_near(moment.astimezone(zone_named(zone)).date(), self.period, self.anchor, zone)
        following = bisect_right(starts, moment)
        return Period(starts[following - 1], starts[following])

    def counted_at(self, moment: datetime, default_zone: str = "UTC") -> tuple[datetime, datetime]:
        """What was spent in periods that begin between these counts as spent in that of a moment.

        That is this period, and others only after an edit of its zone or beginning: those that overlap it,
        or what was spent on the day of the edit would be allowed again.
        """
        starts, ends = self.period_at(moment, default_zone)
        shortest = timedelta(seconds=SHORTEST.get(self.period, 1))
        return starts - shortest, ends or starts + shortest

    def __str__(self) -> str:
        """As it is written: `30,000 tokens/minute burst 10,000`."""
        meter = meter_or_plain(self.meter)
        each = " in total" if self.period == TOTAL else f"/{self.each}"
        parts = [f"{meter.text(self.amount)} {self.meter}{each}"]
        if self.rolling != _rolls(self.period):
            parts.append(self.kind)
        if self.rolling and self.burst != self.amount:
            parts.append(f"burst {meter.text(self.burst)}")
        if self.zone:
            parts.append(f"in {self.zone}")
        if self.anchor != FIRST:
            parts.append(f"from {_anchor_text(self.period, self.anchor)}")
        parts += [
            f"{name} {percent}%" for name, percent in (("high", self.high), ("low", self.low)) if percent
        ]
        return " ".join(parts)


class Period(NamedTuple):
    """From when until when, in UTC; without an end: for ever."""

    starts: datetime
    ends: datetime | None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1000)
def _starts_near(day: date, period: str, anchor: Anchor, zone: str) -> tuple[datetime, ...]:
    """The starts of periods around a local day, in order: the one before it and the one after among them."""
    at = time(*divmod(anchor.minute, 60), tzinfo=zone_named(zone))
    return tuple(
        sorted(datetime.combine(day, at).astimezone(UTC) for day in _days_near(day, period, anchor.day))
    )


def _days_near(day: date, period: str, anchor: int) -> Iterator[date]:
    if period == "day":
        yield from (day + timedelta(days=n) for n in (-1, 0, 1))
    elif period == "week":
        begun = day - timedelta(days=(day.weekday() - anchor) % 7)
        yield from (begun + timedelta(days=7 * n) for n in (-1, 0, 1))
    else:
        months = day.year * 12 + day.month - 1
        for month in (months - 1, months, months + 1):
            year, number = divmod(month, 12)
            last = calendar.monthrange(year, number + 1)[1]
            yield date(year, number + 1, min(max(anchor, 1), last))


def _anchor_text(period: str, anchor: Anchor) -> str:
    day = {"week": WEEKDAYS[anchor.day % 7], "month": str(max(anchor.day, 1))}.get(period, "")
    at = f"{anchor.minute // 60:02}:{anchor.minute % 60:02}" if anchor.minute or period == "day" else ""
    return f"{day} {at}".strip()


def _rolls(period: str) -> bool:
    return period in CLOCKED


ENTRY = re.compile(
    r"(?P<amount>[0-9][0-9,]{0,20}(?:\.[0-9]{1,9})?) (?P<meter>[a-z][a-z0-9_]{0,31})"
    r" ?(?:/|per|in|every|,)? ?(?:(?P<every>[0-9]{1,9}(?:\.[0-9]{1,3})?) ?)?"
    r"(?P<period>second|minute|hour|day|week|month|total)s?"
    r"(?P<options>(?: [^ ]{1,64}){0,16})"
)
_AT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY_OF_MONTH = re.compile(r"0?[1-9]|[12][0-9]|3[01]")


@lru_cache(maxsize=1000)
def parse_allowances(text: str) -> tuple[Allowance, ...]:
    """The allowances in a text, with `;` or a line end between them. Raises `BadInput` for one that cannot be
    read, with examples, for two of one meter, period and kind, and for more than `MOST_OF_A_LIMIT`."""
    entries = entries_of(text)
    if len(entries) > MOST_OF_A_LIMIT:
        raise BadInput(f"a limit has {MOST_OF_A_LIMIT} allowances at most, not {len(entries):,}")
    read = tuple(parse_allowance(entry) for entry in entries)
    names = [allowance.name for allowance in read]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadInput(f"{min(twice)} is said twice; a limit has one allowance for each meter and period")
    return read


def entries_of(text: str) -> list[str]:
    return [entry for line in text.splitlines() for entry in line.split(";") if entry.strip()]


def allowances_in(text: str) -> tuple[Allowance, ...]:
    """The allowances that a row has. One whose meter only a newer release knows allows nothing: processes of
    that one decide about work that uses it."""
    try:
        return parse_allowances(text) if text else ()
    except BadInput:
        entries = [entry for entry in text.split(";") if entry.strip()]
        return tuple(map(_or_nothing, entries[:MOST_OF_A_LIMIT]))


def _or_nothing(entry: str) -> Allowance:
    try:
        return parse_allowance(entry)
    except BadInput:
        match = ENTRY.match(" ".join(entry.split()))
        meter, period = (match["meter"], match["period"]) if match else ("", TOTAL)
        return Allowance(meter, 0, period, known=False)


@lru_cache(maxsize=1000)
def parse_allowance(text: str) -> Allowance:
    """One allowance. Raises `BadInput` quoting it."""
    shown = text.strip()[:LONGEST_ENTRY]
    match = ENTRY.fullmatch(" ".join(text.split())) if len(text) <= LONGEST_ENTRY else None
    if match is None:
        raise BadInput(f"allowance {shown!r} is not understood; write it like {EXAMPLES}")
    try:
        return _checked(
            _read(
                meter_named(match["meter"]), match["amount"], float(match["every"] or 1), match["period"],
                match["options"],
            )
        )  # fmt: skip
    except BadInput as error:
        raise BadInput(f"allowance {shown!r}: {error}") from None


def _read(meter: Meter, amount: str, every: float, period: str, options: str) -> Allowance:
    words = iter(options.split())
    said: dict[str, str] = {}
    for word in words:
        name = "kind" if word in KINDS else word
        if name in said:
            raise BadInput(f"{said[name] if name == 'kind' else word} and {word}: say one of them")
        if not (name == "kind" or name in OPTIONS):
            raise BadInput(f"{word!r} is not understood; there are {', '.join((*KINDS, *OPTIONS))}")
        said[name] = word if name == "kind" else next(words, "")
        if name == "from" and period in ("week", "month"):
            said["at"] = ""
            following = options.partition(f"from {said['from']}")[2].split()
            if following and _AT.fullmatch(following[0]):
                said["at"] = next(words)
    rolling = said.get("kind", "rolling" if _rolls(period) else "calendar") == "rolling"
    number = meter.amount(amount)
    return Allowance(
        meter=meter.name,
        amount=number,
        period=period,
        rolling=rolling,
        burst=meter.amount(said["burst"]) if "burst" in said else number if rolling else 0,
        zone=said.get("in", ""),
        anchor=_anchor(period, said["from"], said.get("at", "")) if "from" in said else FIRST,
        high=_percent(said.get("high", "0")),
        low=_percent(said.get("low", "0")),
        every=every,
    )


def _anchor(period: str, day: str, at: str) -> Anchor:
    if period == "day":
        return Anchor(0, _minute(day))
    minute = _minute(at) if at else 0
    if period == "week" and day.lower()[:3] in WEEKDAYS:
        return Anchor(WEEKDAYS.index(day.lower()[:3]), minute)
    if period == "month" and _DAY_OF_MONTH.fullmatch(day):
        return Anchor(int(day) if int(day) > 1 else 0, minute)
    raise BadInput(
        f"a {period} does not begin from {day!r}; write 06:00 for a day, tue for a week, 15 for a month"
    )


def _minute(text: str) -> int:
    match = _AT.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is no time of day; write it like 06:00")
    return int(match[1]) * 60 + int(match[2])


def _percent(text: str) -> int:
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 3 and int(digits) <= 100):
        raise BadInput(f"{text!r} is no percentage; write it like 10%")
    return int(digits)


def _checked(allowance: Allowance) -> Allowance:
    """Raises `BadInput` for what does not go together."""
    if allowance.amount < 1:
        raise BadInput("nothing at all may not be allowed: pause the limit instead")
    if allowance.meter == STARTS and not allowance.rolling:
        raise BadInput("starts are counted as they begin, so their allowances are rolling")
    if allowance.rolling and allowance.period == TOTAL:
        raise BadInput("a total does not refill, so it is not rolling")
    if not allowance.rolling and allowance.every != 1:
        raise BadInput("only a rolling allowance is of several periods: say rolling")
    if not allowance.every:
        raise BadInput("a period lasts longer than nothing")
    if allowance.rolling and not 1 <= allowance.burst <= MAX_AMOUNT:
        raise BadInput("a burst is at least 1")
    if allowance.rolling and allowance.burst * allowance.interval > LONGEST_PERIOD:
        raise BadInput(f"a burst takes longer to refill than {LONGEST_PERIOD // 86_400:,} days")
    if not allowance.rolling and allowance.burst:
        raise BadInput("only a rolling allowance has a burst")
    days = not (allowance.rolling or allowance.period in (*CLOCKED, TOTAL))
    if (allowance.zone or allowance.anchor != FIRST) and not days:
        raise BadInput("a time zone and a beginning are for calendar days, weeks and months")
    if allowance.zone:
        zone_named(allowance.zone)
    return allowance
