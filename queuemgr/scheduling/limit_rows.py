"""The rows of limits and queues, and how settings get into them.

Every process decides by the rows. A setting is written into its row when its value changed since it was
last written, so an operator's edit survives restarts and a changed environment still takes effect: the
latest change wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from django.core.exceptions import ValidationError

from queuemgr.base import transaction
from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import BadResult, CallbackFailed
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases, queue_name
from queuemgr.models import Limit, Queue
from queuemgr.scheduling import retry_policies, wakeups
from queuemgr.scheduling.claims import FLEET, rule_name
from queuemgr.scheduling.phase_settings import phase_caps
from queuemgr.scheduling.settings_sync import record_settings_change, write_changed

LIMIT_FIELDS = (
    "max_running", "reserved_high", "rate", "daily_budget", "budget_zone", "reserved_for_high_percent",
    "blocked_for_low_percent", "share", "breaker_after",
)  # fmt: skip
"""The fields of a limit that a person may set."""


Limits = Mapping[str, Mapping[str, Any]]
"""Field values of limits, by name."""


def from_settings(config: QueueSettings) -> Limits:
    """Field values of the limits that the settings and the flows define, by name. Flows may define fields
    of the same limit, and of those the settings define: the last one counts, field by field."""
    limits: dict[str, dict[str, Any]] = {
        FLEET: {
            "max_running": config.max_workers,
            "reserved_high": config.high_priority_reserved if config.max_workers > 1 else 0,
            "daily_budget": config.daily_budget or None,
            "reserved_for_high_percent": config.budget_reserved_for_high_percent,
        },
        "tenant:*": {"max_running": 0},
        **{name: {"max_running": tokens} for name, tokens in _tokens(config).items()},
    }
    for phase, cap in phase_caps().items():
        limits[f"phase:{phase}"] = {"max_running": cap}
    for flow in all_flows():
        with suppress(CallbackFailed):  # reported; the rows it made so far stay
            for name, values in callbacks.limits(flow, _check).items():
                limits[name] = _merged(limits.get(name, {}), values)
    return limits


def _merged(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a flow defines over those of the settings; a reserve it says nothing of fits its cap, and
    of a budget it states nothing is reserved unless it says so."""
    merged = {**settings, **values}
    if "daily_budget" in values and "reserved_for_high_percent" in settings:
        merged["reserved_for_high_percent"] = values.get("reserved_for_high_percent", 0)
    cap = merged.get("max_running")
    if cap and "reserved_high" not in values and merged.get("reserved_high", 0) >= cap:
        merged["reserved_high"] = cap - 1
    return merged


def is_stated(name: str) -> bool:
    """Whether the settings or a flow of this release define the limit, so that `sync` makes its row; true
    while a flow's limits cannot be read."""
    if name in from_settings(queue_settings()):
        return True
    try:
        return any(name in callbacks.limits(flow, _check) for flow in all_flows())
    except CallbackFailed:
        return Limit.objects.filter(name=name).exclude(from_settings={}).exists()


def _check(name: str, values: Mapping[str, Any]) -> None:
    """Raise `BadResult` for a limit of a flow that no row can hold."""
    unknown = sorted(set(values) - set(LIMIT_FIELDS))
    if unknown:
        raise BadResult(f"returned {name!r} with no such field: {', '.join(map(str, unknown))}")
    try:
        row = Limit(name=name, **values)
        row.clean_fields()
        row.clean()
    except ValidationError as error:
        raise BadResult(f"returned {name!r} with {'; '.join(error.messages)}") from None


LOW_RESOURCE = {"cpu": 1, "io": 2, "memory": 2}
"""Tokens on a small machine, unless a setting gives the number."""


def _tokens(config: QueueSettings) -> dict[str, int]:
    tokens = {"cpu": config.cpu_tokens, "io": config.io_tokens, "memory": config.memory_tokens}
    if not config.low_resource:
        return tokens
    return {name: number or LOW_RESOURCE[name] for name, number in tokens.items()}


def ensure() -> None:
    """Insert the missing rows of queues, limits and retry policies, and leave the others as they are.

    For commands and pages: their process may know other settings than the fleet, whose rows these are.
    """
    sync(update=False)


def stated() -> Limits:
    """`from_settings` of this process. It calls the flows' `limits`, code of applications that may take its
    time: not to be called in a transaction, nor in the thread of the heartbeat."""
    return from_settings(queue_settings())


def sync(forced: Collection[str] = (), *, update: bool = True, limits: Limits | None = None) -> None:
    """Insert the rows of queues, limits and retry policies, and write into them the settings that changed.

    Settings in `forced` (given on this command line) are written whatever an operator had set; `limits` are
    those of `stated` if it was called before. For the processes of a fleet; see `ensure` for others.
    """
    limits = stated() if limits is None else limits
    with transaction.atomic():
        for phase in all_phases():
            for priority in PRIORITIES:
                _make_queue(phase, PRIORITIES[priority], update=update)
        places = _fields_of_settings()
        forced_fields = {places[name] for name in forced if name in places}
        for name, values in limits.items():
            made = {**values, "from_settings": dict(values)}
            limit, _ = Limit.objects.get_or_create(name=name, defaults=made)
            if update and write_changed(
                "edit limit", limit, values, {field for row, field in forced_fields if row == name}
            ):
                wakeups.post(limits=[wakeups.EVERYTHING])
            if limit.pause_only:
                limit.pause_only = False
                limit.save(update_fields=["pause_only"])
        follow_patterns()
        retry_policies.sync(update=update)


def _make_queue(phase: str, priority: int, *, update: bool) -> None:
    """Insert the row of a queue; its cap follows the setting until a person sets another."""
    name, cap = queue_name(phase, priority), queue_settings().max_pending
    queue, _ = Queue.objects.get_or_create(
        name=name,
        defaults={
            "phase": phase, "priority": priority, "max_pending": cap, "max_pending_from_settings": cap,
        },
    )  # fmt: skip
    if update and queue.max_pending_from_settings != cap:
        values = ({"max_pending": queue.max_pending}, {"max_pending": cap})
        record_settings_change("edit queue", name, *values, forced=False)
        queue.max_pending = queue.max_pending_from_settings = cap
        queue.save()


_FIELD_OF_SETTING = {
    "max_workers": (FLEET, "max_running"),
    "high_priority_reserved": (FLEET, "reserved_high"),
    "daily_budget": (FLEET, "daily_budget"),
    "budget_reserved_for_high_percent": (FLEET, "reserved_for_high_percent"),
    "cpu_tokens": ("cpu", "max_running"),
    "io_tokens": ("io", "max_running"),
    "memory_tokens": ("memory", "max_running"),
}
"""Which field of which limit a setting of the queue sets."""


def _fields_of_settings() -> dict[str, tuple[str, str]]:
    """Which field of which limit each setting sets: the queue's, the phases' and the flows' settings."""
    fields = {f"max_{phase}": (f"phase:{phase}", "max_running") for phase in all_phases()}
    for flow in all_flows():
        fields |= {name: (limit, "max_running") for name, limit in flow.limit_settings.items()}
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
