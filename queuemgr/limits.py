"""The rows of limits and queues, and how settings reach them.

The rows are the truth every process decides by. A setting is written into its row when its value
changed since it was last written, so an operator's edit survives restarts and a changed environment
still takes effect: the latest change wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from queuemgr.admission import FLEET, Rule, Snapshot
from queuemgr.flow import PRIORITY_NAMES, all_phases, queue_name
from queuemgr.knobs import QueueKnobs, queue_knobs
from queuemgr.models import Limit, Queue
from queuemgr.snapshot import read_rules


def from_knobs(knobs: QueueKnobs) -> dict[str, dict[str, Any]]:
    """The limits the knobs state, by name."""
    limits: dict[str, dict[str, Any]] = {
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
    return limits


@transaction.atomic
def sync() -> None:
    """Make the rows there must be, and write into them the settings that changed."""
    for phase in all_phases():
        for priority in PRIORITY_NAMES:
            name = queue_name(phase, priority)
            Queue.objects.get_or_create(name=name, defaults={"phase": phase, "priority": priority})
    for name, figures in from_knobs(queue_knobs()).items():
        _write(name, figures)


def _write(name: str, figures: Mapping[str, Any]) -> None:
    limit, _ = Limit.objects.get_or_create(
        name=name, defaults={**figures, "from_settings": dict(figures)}
    )
    changed = {k: v for k, v in figures.items() if limit.from_settings.get(k, ...) != v}
    if not changed:
        return
    for field, value in changed.items():
        setattr(limit, field, value)
    limit.from_settings = dict(figures)
    limit.save()


def rule_of(name: str) -> Rule:
    """The rule in force for a limit's name, patterns included."""
    now = timezone.now()
    rules = dict(read_rules(now))
    return Snapshot(now, (), rules, {}, {}, {}, {}).rule(name)


def names() -> Iterable[str]:
    return Limit.objects.values_list("name", flat=True)
