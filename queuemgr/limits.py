"""The rows of limits and queues, and how settings reach them.

The rows are the truth every process decides by. A setting is written into its row when its value
changed since it was last written, so an operator's edit survives restarts and a changed environment
still takes effect: the latest change wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from queuemgr.admission import FLEET, Rule, Snapshot
from queuemgr.flow import PRIORITY_NAMES, all_flows, all_phases, queue_name
from queuemgr.knobs import QueueKnobs, queue_knobs
from queuemgr.models import Limit, Queue
from queuemgr.snapshot import read_rules


def from_knobs(knobs: QueueKnobs) -> Mapping[str, Mapping[str, Any]]:
    """The limits the knobs and the flows state, by name."""
    limits: dict[str, Mapping[str, Any]] = {
        FLEET: {
            "max_running": knobs.max_workers,
            "reserved_high": knobs.high_priority_reserved if knobs.max_workers > 1 else 0,
            "daily_budget": knobs.daily_budget or None,
        },
        "host:*": {"max_running": knobs.max_per_host},
        "resolver:*": {"max_running": knobs.max_per_resolver},
    }
    for phase in all_phases():
        limits[f"phase:{phase}"] = {"max_running": getattr(knobs, f"max_{phase}", 0)}
    for flow in all_flows():
        limits |= flow.limits()
    return limits


def sync(forced: Collection[str] = ()) -> None:
    """Make the rows there must be, and write into them the settings that changed.

    Knobs in `forced` (given on this command line) are written whatever an operator had set.
    """
    with transaction.atomic():
        for phase in all_phases():
            for priority in PRIORITY_NAMES:
                name = queue_name(phase, priority)
                Queue.objects.get_or_create(
                    name=name, defaults={"phase": phase, "priority": priority}
                )
        stated = from_knobs(queue_knobs())
        for name, figures in stated.items():
            _write(name, figures, _forced_figures(name, forced))


_FIGURES = {
    "max_workers": (FLEET, "max_running"),
    "high_priority_reserved": (FLEET, "reserved_high"),
    "daily_budget": (FLEET, "daily_budget"),
    "max_per_host": ("host:*", "max_running"),
    "max_per_resolver": ("resolver:*", "max_running"),
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
    for field, value in changed.items():
        setattr(limit, field, value)
    limit.from_settings = dict(figures)
    limit.save()


def rule_of(name: str) -> Rule:
    """The rule in force for a limit's name, patterns included."""
    now = timezone.now()
    rules, _ = read_rules(now)
    return Snapshot(now, (), rules, {}, {}, {}, {}).rule(name)
