"""Which route an execution waits on: made when first needed, remembered by the process."""

from __future__ import annotations

from functools import partial

from django.db import transaction

from queuemgr.base import process_state
from queuemgr.base.errors import NeverFits
from queuemgr.flows.flow import HIGH, Context, StepRef
from queuemgr.models import Route, RouteLimit
from queuemgr.scheduling import claims, tenants
from queuemgr.scheduling.claims import RouteKind


def kind_of(place: StepRef, priority: int, context: Context, *, resumed: bool) -> RouteKind:
    """The route of an execution that waits at `place`, by the rules its flow states there."""
    step = place.step
    return RouteKind(
        place.phase.name,
        priority,
        resumed,
        claims.as_text(step.key(context)),
        step.cost(context),
        step.weight(context),
        claims.tokens_as_text(step.tokens(context)),
    )


_known: dict[RouteKind, int] = {}
MOST_KNOWN = 50_000


def route_id(kind: RouteKind) -> int:
    """The id of the row of this route, made when new.

    Rows are never deleted, so it is remembered; but only once the transaction that may have made it
    has committed.
    """
    found = _known.get(kind)
    if found is None:
        found = _made(kind)
        transaction.on_commit(partial(_cache, kind, found))
    return found


@transaction.atomic
def _made(kind: RouteKind) -> int:
    tenant = kind.tenant
    route, made = Route.objects.get_or_create(**vars(kind), defaults={"tenant": tenant})
    if made:
        tenants.note_tenant(tenant)
        names = kind.limit_keys.split()
        RouteLimit.objects.bulk_create(RouteLimit(route=route, name=name) for name in names)
    return route.pk


def _cache(kind: RouteKind, pk: int) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[kind] = pk


process_state.register(_known.clear)


def check_fits(kind: RouteKind) -> None:
    """Raise `NeverFits` when no limit, however idle, could admit this; the setting is named."""
    from queuemgr.scheduling.limit_rows import rule_of

    for name, weight in kind.claims:
        rule = rule_of(name)
        reserved = 0 if kind.priority == HIGH else rule.reserved_high
        if rule.max_running and weight > rule.max_running - reserved:
            raise NeverFits(
                f"weight {weight} is above max_running={rule.max_running} of limit {name!r}"
                f"{_reserved(reserved, 'reserved for high priority')}: "
                "raise that limit or lower the weight"
            )
        if rule.daily_budget is not None and kind.cost > rule.usable_budget(kind.priority):
            raise NeverFits(
                f"cost {kind.cost} is above daily_budget={rule.daily_budget} of limit {name!r}"
                f"{_reserved(rule.daily_budget - rule.usable_budget(kind.priority), _BETTER)}: "
                "raise that budget or lower the cost"
            )


_BETTER = "reserved for higher priority"


def _reserved(number: int, how: str) -> str:
    return f" (of which {number} are {how})" if number else ""
