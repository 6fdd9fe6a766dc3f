"""Which route an execution waits on: made when first needed, remembered by the process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from django.db import transaction

from queuemgr.errors import NeverFits
from queuemgr.flow import Context, Place
from queuemgr.models import Route


class RouteKey(NamedTuple):
    """All that admission needs to know of waiting work, but its age."""

    phase: str
    priority: int
    resumed: bool
    limit_key: str
    cost: int
    weight: int


def key_of(place: Place, priority: int, context: Context, *, resumed: bool) -> RouteKey:
    """The route of an execution that waits at `place`, by the rules its flow states there."""
    step = place.step
    return RouteKey(
        place.phase.name, priority, resumed, step.key(context), step.cost(context), step.weight
    )


_known: dict[RouteKey, int] = {}
MOST_KNOWN = 50_000


def route_id(key: RouteKey) -> int:
    """The id of the row of this route, made when new.

    Rows are never deleted, so it is remembered; but only once the transaction that may have made it
    has committed.
    """
    found = _known.get(key)
    if found is None:
        found = Route.objects.get_or_create(**key._asdict())[0].pk
        transaction.on_commit(partial(_remember, key, found))
    return found


def _remember(key: RouteKey, pk: int) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[key] = pk


def forget() -> None:
    """Forget every route, as a test that starts with an empty database must."""
    _known.clear()


def check_fits(key: RouteKey) -> None:
    """Raise `NeverFits` when no limit, however idle, could admit this; the setting is named."""
    from queuemgr.limits import rule_of

    names = ("fleet", f"phase:{key.phase}", *([key.limit_key] if key.limit_key else []))
    for name in names:
        rule = rule_of(name)
        if rule.max_running and key.weight > rule.max_running:
            raise NeverFits(
                f"weight {key.weight} is above max_running={rule.max_running} of limit {name!r}: "
                "raise that limit or lower the weight"
            )
        if rule.daily_budget is not None and key.cost > rule.daily_budget:
            raise NeverFits(
                f"cost {key.cost} is above daily_budget={rule.daily_budget} of limit {name!r}: "
                "raise that budget or lower the cost"
            )
