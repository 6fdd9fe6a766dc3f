"""The route an execution waits on: inserted when first needed, cached by the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from django.db import OperationalError
from django.utils import timezone

from queuemgr.base import own_connection, process_state, sql, sql_lists, transaction
from queuemgr.base.errors import NeverFits
from queuemgr.base.meters import meter_or_plain
from queuemgr.flows.flow import HIGH, Context, StepRef
from queuemgr.models import Route, RouteLimit
from queuemgr.scheduling import tenants
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.decision_input import rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.step_rules import needs_of


def kind_of(ref: StepRef, priority: int, context: Context, *, resumed: bool) -> RouteKind:
    """The kind of route of an execution that waits for this step, by the rules of its flow.

    Raises `RuleFailed`.
    """
    needs = needs_of(ref, context)
    return RouteKind(
        phase=ref.phase.name, priority=priority, resumed=resumed, is_async=ref.step.is_async,
        **needs._asdict(),
    )  # fmt: skip


_known: dict[RouteKind, int] = {}
MOST_KNOWN = 50_000


def ids_of(kinds: Iterable[RouteKind]) -> dict[RouteKind, int]:
    """The ids of the rows of these routes, which are inserted where they are new.

    Rows are never deleted, so ids are cached, but only once the transaction that may have inserted them has
    committed; and each use checks them, in one statement, against the rows: a database that was restored
    or emptied under a running process has given them to other routes.
    """
    wanted = set(kinds)
    ids = {kind: known for kind in wanted if (known := _known.get(kind)) is not None}
    if ids and not _are_stored(ids):
        _known.clear()
        ids = {}
    missing = sorted(wanted - ids.keys(), key=_key)  # in one order, or two transactions would deadlock
    found = {kind: pk for kind in missing if (pk := _find(kind)) is not None}
    return ids | _remembered(found) | _insert([kind for kind in missing if kind not in found])


def _find(kind: RouteKind) -> int | None:
    return Route.objects.filter(**vars(kind)).values_list("pk", flat=True).first()


def _insert(kinds: Sequence[RouteKind]) -> dict[RouteKind, int]:
    """Insert these beside the caller's transaction, if it is in one: whoever needs one of them, too, would
    wait for the end of that. Where that cannot be done, in it."""
    if not kinds:
        return {}
    if own_connection.is_needed():
        with suppress(OperationalError):
            with own_connection.transaction_apart():
                ids = {kind: _get_or_insert(kind) for kind in kinds}
            return _remembered(ids)
    return _remembered({kind: _get_or_insert(kind) for kind in kinds})


def _remembered(ids: dict[RouteKind, int]) -> dict[RouteKind, int]:
    """The same, cached from the caller's commit on."""
    for kind, pk in ids.items():
        transaction.on_commit(partial(_cache, kind, pk), robust=True)
    return ids


def _are_stored(ids: Mapping[RouteKind, int]) -> bool:
    """Whether each of these rows is that of its route."""
    among = sql_lists.among("bigint", ids.values())
    rows = sql.rows(_Row, f"{_ROWS} WHERE id {among.text}", among.values)
    stored = {row.id: row[1:] for row in rows}
    return all(stored.get(pk) == _key(kind) for kind, pk in ids.items())


def _key(kind: RouteKind) -> tuple[object, ...]:
    return tuple(vars(kind).values())


class _Row(NamedTuple):
    id: int
    phase: str
    priority: int
    resumed: bool
    limit_keys: str
    cost: int
    weight: int
    resources: str
    retrying: bool
    uses: str
    is_async: bool


_ROWS = f"SELECT {', '.join(_Row._fields)} FROM queuemgr_route"


@transaction.atomic
def _get_or_insert(kind: RouteKind) -> int:
    route, is_new = Route.objects.get_or_create(**vars(kind), defaults={"tenant": kind.tenant})
    if is_new:
        tenants.note_tenant(kind.tenant)
        names = kind.limit_keys.split()
        RouteLimit.objects.bulk_create(RouteLimit(route=route, name=name) for name in names)
    return route.pk


def _cache(kind: RouteKind, pk: int) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[kind] = pk


process_state.register(_known.clear)


def check_fits(kind: RouteKind) -> None:
    """Raise `NeverFits`, naming the limit, if it could not admit this even when idle."""
    rules = rules_of([name for name, _ in kind.claims], timezone.now())
    for name, weight in kind.claims:
        rule = rule_for(rules, name)
        reserved = 0 if kind.priority == HIGH else rule.reserved_high
        if rule.max_running and weight > rule.max_running - reserved:
            raise NeverFits(
                f"weight {weight} is above max_running={rule.max_running} of limit {name!r}"
                f"{_reserved(str(reserved or ''), 'reserved for high priority')}: "
                "raise that limit or lower the weight"
            )
        for allowance in rule.allowances:
            need = allowance.need(kind.amounts)
            usable = allowance.usable(kind.priority)
            if need > usable:
                text = meter_or_plain(allowance.meter).text
                most = allowance.burst if allowance.rolling else allowance.amount
                raise NeverFits(
                    f"{text(need)} {allowance.meter} is above the allowance {allowance} of limit {name!r}"
                    f"{_reserved(text(most - usable) if most > usable else '', _BETTER)}: "
                    "raise that allowance or lower the estimate"
                )


_BETTER = "reserved for higher priority"


def _reserved(number: str, how: str) -> str:
    return f" (of which {number} are {how})" if number else ""
