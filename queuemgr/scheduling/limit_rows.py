"""The rows of limits and queues, and how settings get into them.

Every process decides by the rows. What settings and code state is written into its row when it changed, so
an operator's edit survives restarts and a changed environment still takes effect: the latest change wins.
Which of the values of several releases is the latest is decided in `settings_sync`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from django.core.exceptions import ValidationError

from queuemgr.base import transaction
from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.limit_shorthand import said_twice, without
from queuemgr.base.meters import MAX_AMOUNT
from queuemgr.base.safe_text import excerpt
from queuemgr.base.stated_allowances import in_normal_form
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import BadResult, CallbackFailed
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases, queue_name
from queuemgr.models import LIMIT_FIELDS, Limit, Queue
from queuemgr.scheduling import retry_policies, settings_sync, wakeups
from queuemgr.scheduling.claims import FLEET, rule_name
from queuemgr.scheduling.phase_settings import phase_caps
from queuemgr.scheduling.stated_fields import fields_of
from queuemgr.scheduling.worker_statements import Statement

Limits = Mapping[str, Mapping[str, Any]]
"""Field values of limits, by name."""


def from_settings(config: QueueSettings) -> Limits:
    """Field values of the limits that the settings and the flows define, by name. Flows may define fields
    of the same limit, and of those the settings define: the last one counts, field by field. What
    `SLUICE_LIMITS` says of one counts most."""
    limits: dict[str, dict[str, Any]] = {
        FLEET: {
            "max_running": config.max_workers,
            "reserved_high": config.high_priority_reserved if config.max_workers > 1 else 0,
            "daily_budget": config.daily_budget or None,
            "reserved_for_high_percent": config.budget_reserved_for_high_percent,
        },
        "tenant:*": {"max_running": 0},
        **{name: {"max_running": amount} for name, amount in _resources(config).items()},
    }
    for phase, cap in phase_caps().items():
        limits[f"phase:{phase}"] = {"max_running": cap}
    for flow in all_flows():
        with suppress(CallbackFailed):  # reported; the rows it made so far stay
            for name, values in callbacks.limits(flow, check).items():
                limits[name] = _merged(limits.get(name, {}), values)
    for name, fields in of_the_setting(config).items():
        limits[name] = _merged(limits.get(name, {}), fields)
    for fields in limits.values():
        if stated := fields.get("allowances"):
            fields["allowances"] = in_normal_form(stated)
    return limits


def of_the_setting(config: QueueSettings) -> Limits:
    """Those of `SLUICE_LIMITS`. Raises `ConfigurationError` for one that no row can hold."""
    limits = {name: fields_of(stated, f"SLUICE_LIMITS: {name!r}") for name, stated in config.limits.items()}
    for name, values in limits.items():
        try:
            check(name, values)
        except BadResult as error:
            raise ConfigurationError(f"SLUICE_LIMITS: {str(error).removeprefix('returned ')}") from None
    return limits


def _merged(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a flow defines over those of the settings; a reserve it says nothing of fits its cap, and
    of a budget it states nothing is reserved unless it says so."""
    merged = {**settings, **values}
    if "daily_budget" in values and "reserved_for_high_percent" in settings:
        merged["reserved_for_high_percent"] = values.get("reserved_for_high_percent", 0)
    merged |= _said_last(merged, values)
    cap = merged.get("max_running")
    if cap and "reserved_high" not in values and merged.get("reserved_high", 0) >= cap:
        merged["reserved_high"] = cap - 1
    return merged


def _said_last(merged: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What becomes of what these values say in other words than what they are put over."""
    text = merged.get("allowances", "")
    twice = said_twice(text, merged.get("rate", ""), merged.get("daily_budget"))
    if twice is None:
        return {}
    if twice.field in values:
        return {"allowances": without(text, twice.allowance)}
    return {twice.field: LIMIT_FIELDS[twice.field].default}


def is_stated(name: str) -> bool:
    """Whether the settings or a flow of this release define the limit, so that `sync` makes its row; true
    while a flow's limits cannot be read."""
    if name in from_settings(queue_settings()):
        return True
    try:
        return any(name in callbacks.limits(flow, check) for flow in all_flows())
    except CallbackFailed:
        return Limit.objects.filter(name=name).exclude(from_settings={}).exists()


def check(name: str, values: Mapping[str, Any]) -> None:
    """Raise `BadResult` for a limit of a flow that no row can hold."""
    unknown = sorted(set(values) - set(LIMIT_FIELDS))
    if unknown:
        raise BadResult(f"returned {name!r} with no such field: {', '.join(map(str, unknown))}")
    for field, value in values.items():
        if (isinstance(value, int) and abs(value) > MAX_AMOUNT) or isinstance(value, Mapping | list | tuple):
            raise BadResult(f"returned {name!r} with {field}={excerpt(value)}, which no row can hold")
    if name in RESOURCES and any(values.get(field) for field in OF_USE):
        raise BadResult(f"returned {name!r} with what work may use. {NOT_OF_A_RESOURCE}")
    try:
        row = Limit(name=name, **values)
        row.clean_fields()
        row.clean()
        row.validate_said_once()
    except ValidationError as error:
        problems = "; ".join(message[:LONGEST_PROBLEM] for message in error.messages)
        raise BadResult(f"returned {name!r} with {problems}") from None


LONGEST_PROBLEM = 200
"""Characters: Django quotes a value that is no number as it is."""


RESOURCES = ("cpu", "io", "memory")
OF_USE = ("daily_budget", "allowances")
"""Fields about what work uses, which is charged to keys, phases and the fleet."""
NOT_OF_A_RESOURCE = "A resource counts what runs, not what that uses: give it to a key, a phase or the fleet"

LOW_RESOURCE = {"cpu": 1, "io": 2, "memory": 2}
"""Resources on a small machine, unless a setting gives the number."""


def _resources(config: QueueSettings) -> dict[str, int]:
    resources = {"cpu": config.cpu_resources, "io": config.io_resources, "memory": config.memory_resources}
    if not config.low_resource:
        return resources
    return {name: number or LOW_RESOURCE[name] for name, number in resources.items()}


def ensure() -> None:
    """Insert the missing rows of queues, limits and retry policies, and leave the others as they are.

    For commands and pages: their process may know other settings than the fleet, whose rows these are.
    """
    sync(update=False)


def stated() -> Limits:
    """`from_settings` of this process. It calls the flows' `limits`, code of applications that may take its
    time: not to be called in a transaction, nor in the thread of the heartbeat."""
    return from_settings(queue_settings())


def statement(limits: Limits) -> Statement:
    """All that this process states; `limits` are those of `stated`."""
    cap = {"max_pending": queue_settings().max_pending}
    return {
        "limits": limits,
        "queues": {queue_name(phase, rank): cap for phase in all_phases() for rank in PRIORITIES.values()},
        "policies": retry_policies.stated(),
        "flows": {
            flow.name: {f"{at.phase.name}/{at.step.name}": 1 for at in flow.steps()} for flow in all_flows()
        },
    }


def sync(
    forced: Collection[str] = (), *, update: bool = True, limits: Limits | None = None,
    as_newest: bool = False,
) -> None:  # fmt: skip
    """Insert the rows of queues, limits and retry policies, and write into them what this process states and
    no release had before: see `settings_sync.state`.

    Settings in `forced` (given on this command line) are written whatever an operator had set; `limits` are
    those of `stated` if it was called before. With `as_newest` all of it is: where no worker states anything.
    For the processes of a fleet; see `ensure` for others.
    """
    states = statement(stated() if limits is None else limits)
    with transaction.atomic():
        _make_queues(states["queues"])
        _make_limits(states["limits"])
        retry_policies.make_missing()
        follow_patterns()
        if update:
            _state_all(states, forced, as_newest=as_newest)


def _make_queues(queues: Mapping[str, Mapping[str, Any]]) -> None:
    known = set(Queue.objects.filter(name__in=queues).values_list("name", flat=True))
    places = {
        queue_name(phase, rank): (phase, rank) for phase in all_phases() for rank in PRIORITIES.values()
    }
    made = settings_sync.as_made(queues, known)
    rows = [Queue(name=n, phase=places[n][0], priority=places[n][1], **fields) for n, fields in made.items()]
    Queue.objects.bulk_create(rows, ignore_conflicts=True)


def _make_limits(limits: Limits) -> None:
    known = dict(Limit.objects.filter(name__in=limits).values_list("name", "pause_only"))
    made = settings_sync.as_made(limits, known)
    Limit.objects.bulk_create([Limit(name=n, **made[n]) for n in made], ignore_conflicts=True)
    Limit.objects.filter(name__in=[name for name, pause_only in known.items() if pause_only]).update(
        pause_only=False
    )


def _state_all(states: Statement, forced: Collection[str], *, as_newest: bool) -> None:
    """Rows are locked in the order of their names: two workers may start at once."""
    places = _fields_of_settings()
    forced_fields = {places[name] for name in forced if name in places}
    changed = False
    for limit in Limit.objects.filter(name__in=states["limits"]).order_by("name"):
        fields = {field for row, field in forced_fields if row == limit.name}
        values = states["limits"][limit.name]
        changed |= settings_sync.state(limit, values, forced=fields, as_newest=as_newest)
    for queue in Queue.objects.filter(name__in=states["queues"]).order_by("name"):
        settings_sync.state(queue, states["queues"][queue.name], as_newest=as_newest)
    retry_policies.sync(as_newest=as_newest)
    if changed:
        wakeups.post(limits=[wakeups.EVERYTHING])


_FIELD_OF_SETTING = {
    "max_workers": (FLEET, "max_running"),
    "high_priority_reserved": (FLEET, "reserved_high"),
    "daily_budget": (FLEET, "daily_budget"),
    "budget_reserved_for_high_percent": (FLEET, "reserved_for_high_percent"),
    "cpu_resources": ("cpu", "max_running"),
    "io_resources": ("io", "max_running"),
    "memory_resources": ("memory", "max_running"),
}
"""Which field of which limit a setting of the queue sets."""


def _fields_of_settings() -> dict[str, tuple[str, str]]:
    """Which field of which limit each setting sets: the queue's, the phases' and the flows' settings."""
    fields = {f"max_{phase}": (f"phase:{phase}", "max_running") for phase in all_phases()}
    for flow in all_flows():
        fields |= {
            name: (place, "max_running") if isinstance(place, str) else place
            for name, place in flow.limit_settings.items()
        }
    return fields | _FIELD_OF_SETTING


def follow_patterns() -> None:
    """Give the rows that only hold a pause the values their patterns have now."""
    for limit in Limit.objects.filter(pause_only=True):
        values = _values_of(new_limit(limit.name))
        if values != _values_of(limit):
            Limit.objects.filter(pk=limit.pk, pause_only=True).update(**values)


def _values_of(limit: Limit) -> dict[str, Any]:
    return {field: getattr(limit, field) for field in LIMIT_FIELDS}


def new_limit(name: str) -> Limit:
    """A new row, not saved, with the values its pattern gave the name so far."""
    pattern = Limit.objects.filter(name=pattern_of(name)).first()
    return Limit(name=name, **_values_of(pattern) if pattern else {})


def pattern_of(name: str) -> str:
    """The longest pattern among the rows of limits that matches a name, or empty."""
    patterns = Limit.objects.filter(name__endswith="*").exclude(name=name).values_list("name", flat=True)
    return rule_name(name, list(patterns)) or ""
