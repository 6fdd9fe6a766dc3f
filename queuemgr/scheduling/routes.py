"""The route an execution waits on: inserted when first needed, cached by the process."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.utils import timezone

from queuemgr.base import process_state
from queuemgr.base.errors import NeverFits
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
    return RouteKind(phase=ref.phase.name, priority=priority, resumed=resumed, **needs._asdict())


_known: dict[RouteKind, int] = {}
MOST_KNOWN = 50_000


def route_id(kind: RouteKind) -> int:
    """The id of the row of this route, which is inserted if it is new.

    Rows are never deleted, so the id is cached; but only once the transaction that may have inserted it
    has committed.
    """
    pk = _known.get(kind)
    if pk is None:
        pk = _get_or_insert(kind)
        transaction.on_commit(partial(_cache, kind, pk))
    return pk


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
