"""What ended attempts used of each meter: by execution, step, batch, tenant, flow, model, limit or day.

Counted from the rows of attempts when it is asked for, so nothing can drift. One statement finds where the
newest `MOST_ATTEMPTS` of the span begin, by the index on `ended_at`; a second one adds those up, and what is
older is said to be cut off. The text of amounts (`tokens=812 usd=3100`) is read by the database, as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.base.budget_day import day_of
from queuemgr.base.budget_day import zone as zone_named
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import REQUESTS, USD, meter_named, meter_or_plain
from queuemgr.base.queue_database import connection
from queuemgr.models import Batch, Execution
from queuemgr.reporting.amounts_sql import ATTEMPTS, SECONDS_ENDED, USES_ANY, each_amount, summed
from queuemgr.scheduling.claims import TENANT, tenant_of

MOST_ATTEMPTS = 500_000
"""Attempts that one report adds up, the newest of its span."""

MOST_GROUPS = 40_000
"""Groups the database hands over where Python joins them: as many quarters of an hour are in `LONGEST`."""

MOST_ROWS = 10_000
LONGEST = timedelta(days=366)

DEFAULT_SPAN = {"day": timedelta(days=30)}
A_DAY = timedelta(days=1)


class Dimension(NamedTuple):
    """What amounts are added up by: the SQL of a group, and whose amounts those of a group are."""

    group: str
    join: str = ""
    names: Callable[[str, str], Iterable[str]] | None = None
    """The names that a group (of a zone) counts for, where Python joins groups; None: its own."""


def _day_of(quarter: str, zone: str) -> Iterable[str]:
    """Of a quarter of an hour since 1970: days begin at one, in every zone."""
    return [day_of(datetime.fromtimestamp(int(quarter) * QUARTER, UTC), zone).isoformat()]


def _models_of(keys: str, _: str) -> Iterable[str]:
    """The limits among these that stand for a model, by their kind."""
    kinds = queue_settings().model_limits.replace(",", " ").split()
    return [key for key in keys.split() if key.partition(":")[0] in kinds] or [""]


QUARTER = 900
_EXECUTION = "JOIN queuemgr_execution e ON e.id = a.execution_id"

DIMENSIONS: Mapping[str, Dimension] = {
    "tenant": Dimension("a.limit_keys", names=lambda keys, _: [tenant_of(keys).removeprefix(TENANT)]),
    "flow": Dimension("e.flow", _EXECUTION),
    "step": Dimension("a.phase || '/' || a.step"),
    "model": Dimension("a.limit_keys", names=_models_of),
    "limit": Dimension("a.limit_keys", names=lambda keys, _: keys.split() or [""]),
    "day": Dimension(f"CAST({{seconds}} / {QUARTER} AS text)", names=_day_of),
    "batch": Dimension("COALESCE(CAST(e.batch_id AS text), '')", _EXECUTION),
    "execution": Dimension("CAST(a.execution_id AS text)"),
}


def may_see(by: str) -> tuple[str, ...]:
    """Permissions it takes to see who or what is in a report, beside that to see what is used."""
    return {"execution": ("view_execution",), "batch": ("view_batch",)}.get(by, ())


@dataclass
class Used:
    """What was used by one of what is added up by; `row` is the number of its execution or batch."""

    name: str
    attempts: int = 0
    amounts: Counter[str] = field(default_factory=Counter)
    row: int | None = None

    def as_data(self, by: str) -> dict[str, Any]:
        """Amounts are whole numbers of the smallest part of their meters."""
        number = {f"{by}_id": self.row} if self.row is not None else {}
        return {
            by: self.name,
            **number,
            "attempts": self.attempts,
            "used": dict(sorted(self.amounts.items())),
        }


@dataclass(frozen=True)
class Costs:
    """What was used since `since` and before `until`, the most of `ordered_by` first, days in their order.

    `cut_off_before`: attempts that ended before this are not in it, since there are too many; None: all are
    in it. `left_out`: how many are not among the `rows`, but in the `total`.
    """

    by: str
    since: datetime
    until: datetime
    zone: str
    meters: tuple[str, ...]
    ordered_by: str
    rows: tuple[Used, ...]
    total: Used
    left_out: int
    cut_off_before: datetime | None

    def as_data(self) -> dict[str, Any]:
        """With stable names. `scales`: how many parts of a meter make one of its unit."""
        return {
            "by": self.by, "since": self.since, "until": self.until, "zone": self.zone,
            "scales": {meter: meter_or_plain(meter).scale for meter in self.meters},
            "rows": [row.as_data(self.by) for row in self.rows],
            "left_out": self.left_out,
            "total": {"attempts": self.total.attempts, "used": dict(sorted(self.total.amounts.items()))},
            "cut_off_before": self.cut_off_before,
        }  # fmt: skip

    def as_cells(self) -> Iterator[list[Any]]:
        """A header and the rows, as numbers of the meters' units: for tables of numbers."""
        yield [self.by, "attempts", *self.meters]
        for row in self.rows:
            amounts = ((meter_or_plain(meter).scale, row.amounts[meter]) for meter in self.meters)
            yield [row.name, row.attempts, *(n / scale if scale > 1 else n for scale, n in amounts)]

    def notes(self) -> Iterator[str]:
        """What is not in the rows, in sentences."""
        if self.cut_off_before:
            yield (
                f"Only what ended since {self.cut_off_before:%Y-%m-%d %H:%M:%S} UTC: before are more than "
                f"{MOST_ATTEMPTS:,} attempts, or {LONGEST.days} days."
            )
        if self.left_out:
            yield f"{self.left_out:,} more are in the total, not in the rows."


def costs(
    by: str,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    meter: str = "",
    zone: str = "UTC",
    rows: int = 100,
) -> Costs:
    """What was used in this time; of one meter only if one is given. `zone`: where days are.

    Raises `BadInput` for what there is nothing by, for a span that ends before it begins and for a zone that
    is not known.
    """
    if by not in DIMENSIONS:
        raise BadInput(f"costs are not added up by {by!r:.40}; there are: {', '.join(DIMENSIONS)}")
    until = until or now
    since = since or until - DEFAULT_SPAN.get(by, A_DAY)
    if since >= until:
        raise BadInput(f"it begins {since:%Y-%m-%d %H:%M} and ends {until:%Y-%m-%d %H:%M}, which is no time")
    zone_named(zone)
    if meter:
        meter_named(meter)
    begins = _begins(max(since, until - LONGEST), until)
    found = _added_up(by, (begins, until), meter, zone, min(rows, MOST_ROWS))
    return Costs(
        by=by, since=since, until=until, zone=zone, meters=found.meters, ordered_by=found.ordered_by,
        rows=found.rows, total=found.total, left_out=found.left_out,
        cut_off_before=begins if begins > since else None,
    )  # fmt: skip


_BEGINS = """
    SELECT ended_at FROM queuemgr_attempt WHERE ended_at >= %s AND ended_at < %s
     ORDER BY ended_at DESC LIMIT 1 OFFSET %s
"""


class _EndedAt(NamedTuple):
    at: datetime


def _begins(since: datetime, until: datetime) -> datetime:
    """From when on no more than `MOST_ATTEMPTS` ended."""
    beyond = sql.rows(_EndedAt, _BEGINS, [since, until, MOST_ATTEMPTS])
    return beyond[0].at + timedelta(microseconds=1) if beyond else since


_USED = """
    WITH used AS (
        SELECT {group} AS name, m.key AS meter, {sum} AS amount
          FROM queuemgr_attempt a {join}, {amounts} m
         WHERE a.ended_at >= %s AND a.ended_at < %s AND {used}
         GROUP BY 1, 2
    ), ordered_by AS (
        SELECT meter FROM used
         ORDER BY CASE meter WHEN %s THEN 0 WHEN 'usd' THEN 1 WHEN 'requests' THEN 3 WHEN '' THEN 4
                  ELSE 2 END, meter
         LIMIT 1
    ), first AS (
        SELECT name FROM used GROUP BY name
         ORDER BY MAX(CASE WHEN meter = (SELECT meter FROM ordered_by) THEN amount ELSE 0 END) DESC, name
         LIMIT %s
    )
    SELECT 1 AS total, '' AS name, meter, SUM(amount), COUNT(*) FROM used GROUP BY meter
    UNION ALL
    SELECT 0, used.name, meter, amount, 1 FROM used JOIN first ON first.name = used.name
"""
"""Dollars come first, and requests last: of the others the first by name."""


class _Row(NamedTuple):
    is_total: int
    name: str
    meter: str
    amount: int
    groups: int


class _AddedUp(NamedTuple):
    meters: tuple[str, ...]
    ordered_by: str
    rows: tuple[Used, ...]
    total: Used
    left_out: int


def _added_up(by: str, span: tuple[datetime, datetime], meter: str, zone: str, most: int) -> _AddedUp:
    names = DIMENSIONS[by].names
    at_most = MOST_GROUPS if names else most
    total, groups, read = Used("total"), 0, list[_Row]()
    statement, values = _statement(DIMENSIONS[by], meter)
    for row in sql.rows(_Row, statement, [*span, *values, meter or USD, at_most]):
        if not row.is_total:
            read.append(row)
        elif row.meter == ATTEMPTS:
            total.attempts, groups = int(row.amount), row.groups
        else:
            total.amounts[row.meter] = int(row.amount)
    used = sorted(total.amounts, key=lambda name: (name != USD, name == REQUESTS, name))
    ordered_by = meter or next(iter(used), REQUESTS)
    found = _joined(read, names, zone)
    if by == "day":
        rows = sorted(found, key=lambda each: each.name)[-most:]
    else:
        rows = sorted(found, key=lambda each: (-each.amounts[ordered_by], each.name))[:most]
    left_out = len(found) - len(rows) + max(0, groups - at_most)
    _give_names(by, rows)
    shown = (meter,) if meter else tuple(used)
    for each in (*rows, total):
        each.amounts = Counter({name: each.amounts[name] for name in shown if each.amounts[name]})
    return _AddedUp(shown, ordered_by, tuple(rows), total, left_out)


def _statement(dimension: Dimension, meter: str) -> tuple[str, list[Any]]:
    """The statement that adds up by this what used this meter (none: any), and its values."""
    used, values = USES_ANY, list[Any]()
    if meter == REQUESTS:
        used = "a.cost > 0"
    elif meter:
        used, values = "' ' || a.uses LIKE %s ESCAPE '!'", [f"% {meter.replace('_', '!_')}=%"]
    group = dimension.group.format(seconds=SECONDS_ENDED[connection.vendor])
    total = summed("CAST(m.value AS numeric)")
    return _USED.format(group=group, join=dimension.join, sum=total, amounts=each_amount(), used=used), values


def _joined(rows: Iterable[_Row], names: Callable[[str, str], Iterable[str]] | None, zone: str) -> list[Used]:
    """The amounts by name: those of a group of the database count for each of its names."""
    found: dict[str, Used] = {}
    for row in rows:
        for name in [row.name] if names is None else names(row.name, zone):
            used = found.setdefault(name, Used(name))
            if row.meter == ATTEMPTS:
                used.attempts += int(row.amount)
            else:
                used.amounts[row.meter] += int(row.amount)
    return list(found.values())


def _give_names(by: str, rows: Iterable[Used]) -> None:
    """Executions and batches are added up by their numbers; what people know are their names."""
    if by not in ("execution", "batch"):
        return
    rows = [row for row in rows if row.name]
    numbers = [int(row.name) for row in rows]
    if by == "batch":
        names = dict(Batch.objects.filter(pk__in=numbers).values_list("pk", "name"))
    else:
        each = Execution.objects.only("flow", "key").in_bulk(numbers).items()
        names = {pk: str(execution) for pk, execution in each}
    for row in rows:
        row.row = int(row.name)
        row.name = names.get(row.row, row.name)
