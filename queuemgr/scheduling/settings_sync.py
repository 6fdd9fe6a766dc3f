"""Writes what settings and code state of limits, queues, retry policies and schedules into their rows, and
audits it.

Every process of a fleet states values, and workers leave theirs beside their row. Which of them is in force
is decided by `statement_order`; a person's edit stays until another one is. The actor of an edit is the user
of the command line that gave the setting, or `settings` where it comes from the environment or from the code
of a release: no database knows who set it there.
"""

from __future__ import annotations

import getpass
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError

from queuemgr.base import sql, transaction
from queuemgr.base.allowance import allowances_in
from queuemgr.base.config import queue_settings
from queuemgr.base.limit_shorthand import restated, said_twice, without
from queuemgr.base.scheduler_lock import ROW_WAIT_MS, database_now, limit_row_waits
from queuemgr.models import LIMIT_FIELDS, AuditEntry, Limit, Queue, RetryPolicy, Schedule
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.statement_order import StatementOrder
from queuemgr.scheduling.worker_statements import (
    FleetStatements,
    Statement,
    Values,
    digest_of,
    read_statements,
)

logger = logging.getLogger(__name__)

SETTINGS = "settings"
CHANGED = "setting changed"
ACTIONS: Mapping[type[Any], str] = {
    Limit: "edit limit",
    Queue: "edit queue",
    RetryPolicy: "edit retry policy",
    Schedule: "edit schedule",
}

Row = Limit | Queue | RetryPolicy | Schedule


def as_made(stated: Mapping[str, Values], known: Collection[str]) -> dict[str, dict[str, Any]]:
    """The fields of rows to be made of stated values, by name and in its order: of all but the `known`."""
    missing = sorted(stated.keys() - set(known))
    now = database_now() if missing else None
    return {
        name: {
            **stated[name], "from_settings": dict(stated[name]), "statements": digest_of(stated[name]),
            "stated_at": now,
        }
        for name in missing
    }  # fmt: skip


def order_of(row: Row) -> StatementOrder:
    in_force = digest_of(row.from_settings)
    digests = tuple(row.statements.split())
    return StatementOrder(digests if in_force in digests else (*digests, in_force), in_force, row.stated_at)


def state(row: Row, values: Values, *, forced: Collection[str] = (), as_newest: bool = False) -> bool:
    """State these values of a row, as a process that starts; returns whether any was written.

    Fields in `forced` are written whatever is in force. With `as_newest` the values count as the newest: no
    other process states any.
    """
    digest = digest_of(values)
    if not forced and digest == digest_of(row.from_settings):
        return False
    return _state_locked(row, values, digest, forced=forced, as_newest=as_newest)


@transaction.atomic
def _state_locked(row: Row, values: Values, digest: str, *, forced: Collection[str], as_newest: bool) -> bool:
    locked = _locked(row)
    order, as_newest = order_of(locked), as_newest or bool(forced)
    if digest == order.in_force:
        return bool(forced) and _write(locked, values, order, forced=forced)
    if not as_newest and not order.takes_effect_at_start(digest):
        logger.warning(
            "%s: %s is stated here; %s replaced it, and stays until no worker has stated it for %g s",
            row, dict(values), locked.from_settings, queue_settings().rollback_seconds,
        )  # fmt: skip
        return False
    after = order.put_in_force(digest, database_now(), as_newest=as_newest)
    return _write(locked, values, after, forced=forced)


def follow_workers() -> int:
    """Have what live workers state in force where a newer statement has no worker any more, as after a
    rollback; returns how many rows changed."""
    now = database_now()
    statements = read_statements(now)
    changed = 0
    for row, stated in _rows_of(statements.running):
        chosen = _chosen(row, stated, statements)
        if chosen is not None or order_of(row).is_settled(statements.digests_of(*_kind_and_name(row)), now):
            changed += _follow_unless_locked(row, stated, statements, now)
    return changed


def _follow_unless_locked(
    row: Row, stated: Mapping[str, Values], statements: FleetStatements, now: datetime
) -> bool:
    """A row that somebody has locked is left to the next tick."""
    try:
        return _follow(row, stated, statements, now)
    except DatabaseError as error:
        if not sql.is_busy(error):
            raise
        logger.warning("%s is not written, %s", row, sql.trouble(error))
        return False


@transaction.atomic
def _follow(row: Row, stated: Mapping[str, Values], statements: FleetStatements, now: datetime) -> bool:
    limit_row_waits(ROW_WAIT_MS)
    locked = _locked(row)
    order = order_of(locked)
    chosen = _chosen(locked, stated, statements)
    if chosen is not None:
        why = "stated by the workers that are left"
        written = _write(locked, stated[chosen], order.put_in_force(chosen, now, as_newest=False), why=why)
        wakeups.post(limits=[wakeups.EVERYTHING])
        return written
    if order.is_settled(statements.digests_of(*_kind_and_name(row)), now):
        settled = order.put_in_force(order.in_force, now, as_newest=True)
        locked.statements = " ".join(settled.digests)
        locked.save(update_fields=["statements"])
    return False


def _chosen(row: Row, stated: Mapping[str, Values], statements: FleetStatements) -> str | None:
    return order_of(row).after_rollback(stated, statements.digests_of(*_kind_and_name(row)))


def _locked(row: Row) -> Row:
    """The row as it is now, locked until the end of the transaction."""
    found: Row = type(row)._default_manager.select_for_update().get(pk=row.pk)
    return found


def _write(
    row: Row, values: Values, order: StatementOrder, *, forced: Collection[str] = (), why: str = CHANGED
) -> bool:  # fmt: skip
    """Write the fields that are stated differently than before, or forced; a field that is stated no more
    gets its default unless a person set it."""
    before, defaults = row.from_settings, {f.name: f.get_default() for f in row._meta.concrete_fields}
    changed = {f: value for f, value in values.items() if f in forced or before.get(f, ...) != value}
    for field in before.keys() - values.keys():
        if getattr(row, field) == before[field]:
            changed[field] = defaults[field]
    if isinstance(row, Limit):
        changed |= _allowances(row, before, values, changed, alone="allowances" in forced)
    if not _fits(row, changed):  # with what a person set of the others
        changed |= _defaults(row, values) | dict(values)
    was = {field: getattr(row, field) for field in changed}
    _record(row, was, changed, why, forced=any(field in forced for field in changed))
    for field, value in changed.items():
        setattr(row, field, value)
    row.from_settings = dict(values)
    row.statements, row.stated_at = " ".join(order.digests), order.since
    row.save()
    return bool(changed)


def _allowances(
    row: Limit, before: Values, values: Values, changed: Values, *, alone: bool
) -> dict[str, Any]:
    """What becomes of a limit's allowances, which are stated one by one, and of what says the same in short.
    What only a newer release can read is left as it is. `alone`: whatever people made of them."""
    text = row.allowances
    if not all(each.known for each in allowances_in(text)):
        return {}
    if "allowances" in before or "allowances" in values:
        stated = values.get("allowances", "")
        text = stated if alone else restated(text, before.get("allowances", ""), stated)
    rate, budget = (changed.get(name, getattr(row, name)) for name in ("rate", "daily_budget"))
    out: dict[str, Any] = {}
    if twice := said_twice(text, rate, budget):
        if twice.field in changed:
            text = without(text, twice.allowance)
        else:
            out[twice.field] = LIMIT_FIELDS[twice.field].default
    return {**out, **({"allowances": text} if text != row.allowances or "allowances" in changed else {})}


def _fits(row: Row, changed: Values) -> bool:
    """Whether the constraints of its table allow the row with these fields."""
    tried = type(row)(
        **{f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields} | dict(changed)
    )
    try:
        tried.validate_constraints(exclude=["name", "kind", "phase"])
    except ValidationError:
        return False
    return True


def _defaults(row: Row, values: Values) -> dict[str, Any]:
    """The defaults of fields that take part in a constraint with stated ones, and are not stated."""
    fields = {"reserved_high", "ceiling", "base"} - values.keys()
    return {f.name: f.get_default() for f in row._meta.concrete_fields if f.name in fields}


def _record(row: Row, before: Values, after: Values, why: str, *, forced: bool) -> None:
    """Audit the values that differ, if any do. `forced`: given on a command line."""
    edited = {name: value for name, value in after.items() if before[name] != value}
    if isinstance(row, Schedule) and "payload" in edited:  # not everybody may read it
        before, edited = {**before, "payload": "as before"}, {**edited, "payload": "as the code states it"}
    if edited:
        AuditEntry.objects.create(
            actor=getpass.getuser() if forced else SETTINGS,
            source="command" if forced else SETTINGS,
            reason="given on the command line" if forced else why,
            action=ACTIONS[type(row)],
            target=str(row),
            before={name: before[name] for name in edited},
            after=edited,
        )


def _rows_of(statements: Collection[Statement]) -> Iterator[tuple[Row, dict[str, Values]]]:
    """Each row that these state, with the values they state of it by digest."""
    if not statements:
        return
    queries = (
        Limit.objects.all(), Queue.objects.all(), RetryPolicy.objects.filter(phase=""), _schedules(statements)
    )  # fmt: skip
    for row in (row for rows in queries for row in rows):
        kind, name = _kind_and_name(row)
        several = [values[name] for each in statements if name in (values := each.get(kind, {}))]
        if several:
            yield row, {digest_of(values): values for values in several}


def _schedules(statements: Collection[Statement]) -> Iterable[Schedule]:
    """Those that any of them states: a fleet may have thousands, and most releases state the same."""
    named = {name for each in statements for name in each.get("schedules", {})}
    return Schedule.objects.filter(name__in=named) if named else ()


def _kind_and_name(row: Row) -> tuple[str, str]:
    if isinstance(row, Schedule):
        return "schedules", row.name
    if isinstance(row, RetryPolicy):
        return "policies", row.kind
    return ("limits" if isinstance(row, Limit) else "queues"), row.name
