"""The rows of limits and queues, and how settings reach them.

The rows are the truth every process decides by. A setting is written into its row when its value
changed since it was last written, so an operator's edit survives restarts and a changed environment
still takes effect: the latest change wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from queuemgr.base.config import QueueKnobs, queue_knobs
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases, queue_name
from queuemgr.models import Limit, Queue
from queuemgr.scheduling import retry_policies, wakeups
from queuemgr.scheduling.admission import FLEET, Rule, rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.settings_sync import record

FIGURES = (
    "max_running", "reserved_high", "rate", "daily_budget", "budget_zone", "kept_for_high",
    "kept_from_low", "share", "breaker_after",
)  # fmt: skip
"""The figures of a limit a person may set."""


def from_knobs(knobs: QueueKnobs) -> Mapping[str, Mapping[str, Any]]:
    """The limits the knobs and the flows state, by name."""
    limits: dict[str, Mapping[str, Any]] = {
        FLEET: {
            "max_running": knobs.max_workers,
            "reserved_high": knobs.high_priority_reserved if knobs.max_workers > 1 else 0,
            "daily_budget": knobs.daily_budget or None,
            "kept_for_high": knobs.budget_kept_for_high,
        },
        "host:*": {"max_running": knobs.max_per_host},
        "resolver:*": {"max_running": knobs.max_per_resolver},
        "tenant:*": {"max_running": 0},
        **{name: {"max_running": tokens} for name, tokens in _tokens(knobs).items()},
    }
    for phase in all_phases():
        limits[f"phase:{phase}"] = {"max_running": getattr(knobs, f"max_{phase}", 0)}
    for flow in all_flows():
        limits |= flow.limits()
    return limits


LOW_RESOURCE = {"cpu": 1, "io": 2, "memory": 2}
"""Tokens of a small machine, where no number is set."""


def _tokens(knobs: QueueKnobs) -> dict[str, int]:
    stated = {"cpu": knobs.cpu_tokens, "io": knobs.io_tokens, "memory": knobs.memory_tokens}
    if not knobs.low_resource:
        return stated
    return {name: tokens or LOW_RESOURCE[name] for name, tokens in stated.items()}


def sync(forced: Collection[str] = ()) -> None:
    """Make the rows there must be, and write into them the settings that changed.

    Knobs in `forced` (given on this command line) are written whatever an operator had set.
    """
    with transaction.atomic():
        for phase in all_phases():
            for priority in PRIORITIES:
                name = queue_name(phase, PRIORITIES[priority])
                _make_queue(name, phase, PRIORITIES[priority])
        stated = from_knobs(queue_knobs())
        for name, figures in stated.items():
            _write(name, figures, _forced_figures(name, forced))
        retry_policies.sync()


def _make_queue(name: str, phase: str, priority: int) -> None:
    """The row of a queue; its cap follows the knob until a person sets another."""
    stated = queue_knobs().max_pending
    queue, _ = Queue.objects.get_or_create(
        name=name,
        defaults={
            "phase": phase, "priority": priority, "max_pending": stated, "stated_max_pending": stated,
        },
    )  # fmt: skip
    if queue.stated_max_pending != stated:
        figures = ({"max_pending": queue.max_pending}, {"max_pending": stated})
        record("edit queue", name, *figures, forced=False)
        queue.max_pending = queue.stated_max_pending = stated
        queue.save()


_FIGURES = {
    "max_workers": (FLEET, "max_running"),
    "high_priority_reserved": (FLEET, "reserved_high"),
    "daily_budget": (FLEET, "daily_budget"),
    "max_per_host": ("host:*", "max_running"),
    "max_per_resolver": ("resolver:*", "max_running"),
    "budget_kept_for_high": (FLEET, "kept_for_high"),
    "cpu_tokens": ("cpu", "max_running"),
    "io_tokens": ("io", "max_running"),
    "memory_tokens": ("memory", "max_running"),
}
"""Which figure of which limit a knob states; `max_<phase>` is that phase's `max_running`."""


def _forced_figures(limit: str, knobs: Collection[str]) -> set[str]:
    places = [
        _FIGURES.get(knob, (f"phase:{knob.removeprefix('max_')}", "max_running")) for knob in knobs
    ]
    return {figure for name, figure in places if name == limit}


def _write(name: str, figures: Mapping[str, Any], forced: Collection[str]) -> None:
    limit, _ = Limit.objects.get_or_create(
        name=name, defaults={**figures, "from_settings": dict(figures)}
    )
    changed = {
        field: value
        for field, value in figures.items()
        if field in forced or limit.from_settings.get(field, ...) != value
    }
    if not changed:
        return
    before = {field: getattr(limit, field) for field in changed}
    record("edit limit", name, before, changed, forced=bool(set(changed) & set(forced)))
    for field, value in changed.items():
        setattr(limit, field, value)
    limit.from_settings = dict(figures)
    limit.save()
    wakeups.leave(limits=[wakeups.EVERYTHING])


def rule_of(name: str) -> Rule:
    """The rule in force for a limit's name, patterns included."""
    return rule_for(rules_of([name], timezone.now()), name)


def owner_among(names: Iterable[str]) -> Callable[[str], str | None]:
    """Tells the row whose figures a key obeys: its own, else the longest pattern that matches."""
    rows = frozenset(names)
    patterns = sorted((name for name in rows if name.endswith("*")), key=len, reverse=True)

    def owner(key: str) -> str | None:
        own = (key,) if key in rows else (p for p in patterns if key.startswith(p[:-1]))
        return next(iter(own), None)

    return owner


def new_limit(name: str) -> Limit:
    """A row to be, for a name that so far went by a pattern's figures, which it keeps. Not saved."""
    patterns = Limit.objects.filter(name__endswith="*")
    alike = [p for p in patterns if name.startswith(p.name[:-1])]
    pattern = max(alike, key=lambda limit: len(limit.name), default=None)
    figures = {figure: getattr(pattern, figure) for figure in FIGURES} if pattern else {}
    return Limit(name=name, **figures)
