"""What asks for a person's attention, in sentences, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from queuemgr.reporting.dashboard.budget_burndown import Budgets
from queuemgr.reporting.dashboard.limit_bars import Limits, Whys
from queuemgr.reporting.dashboard.phase_table import PhaseRow
from queuemgr.reporting.dashboard.reconciliation import SumCheck
from queuemgr.reporting.dashboard.trends import ALL, Window
from queuemgr.reporting.dashboard.worker_table import Workers
from queuemgr.scheduling.admission import Snapshot

SHOWN = 6

Level = Literal["bad", "warn", "note"]
_ORDER: dict[str, int] = {"bad": 0, "warn": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Alarm:
    """One sentence; `about` names the part of the board that tells more."""

    level: Level
    text: str
    about: str


def alarms(
    seen: Snapshot,
    phases: Sequence[PhaseRow],
    limits: Limits,
    whys: Whys,
    workers: Workers,
    budgets: Budgets,
    hour: Window,
    failed: int,
    checks: Sequence[SumCheck],
) -> tuple[Alarm, ...]:
    """At most `SHOWN` of them; `failed`: executions that stand failed."""
    found = [
        *_of_checks(checks),
        *_of_workers(phases, whys, workers),
        *_of_pauses(seen),
        *_of_limits(limits),
        *_of_budgets(budgets),
        *_of_waits(phases),
        *_of_failures(hour, failed),
    ]
    return tuple(sorted(found, key=lambda alarm: _ORDER[alarm.level])[:SHOWN])


def _of_checks(checks: Sequence[SumCheck]) -> Iterator[Alarm]:
    for check in checks:
        if not check.is_right:
            text = (
                f"The numbers do not add up: {check.name.lower()} are off by {check.difference:+,}"
            )
            yield Alarm("bad", text, "reconciliation")


def _of_workers(phases: Sequence[PhaseRow], whys: Whys, workers: Workers) -> Iterator[Alarm]:
    waiting = sum(row.waiting for row in phases)
    if waiting and not workers.live:
        yield Alarm("bad", f"No worker is live, and {waiting:,} executions wait", "workers")
    elif waiting:
        unserved = [why for why in whys.shown if why.text.startswith("no live worker")]
        yield from (
            Alarm("bad", f"{why.waiting:,} wait: {why.text}", "workers") for why in unserved
        )
    if workers.gone:
        noun = "worker gives" if workers.gone == 1 else "workers give"
        yield Alarm("warn", f"{workers.gone:,} {noun} no sign of life", "workers")


def _of_pauses(seen: Snapshot) -> Iterator[Alarm]:
    for reason in seen.paused_queues.values():
        yield Alarm("warn", reason.text, "queues")
    for name, rule in seen.rules.items():
        if rule.paused:
            yield Alarm("warn", f"{name} {rule.paused}", "limits")


def _of_limits(limits: Limits) -> Iterator[Alarm]:
    open_breakers = [bar for bar in limits.shown if bar.open_until]
    for bar in open_breakers[:2]:
        yield Alarm("warn", f"{bar.name} {bar.breaker_text}", "limits")
    if len(open_breakers) > 2:
        yield Alarm("warn", f"{len(open_breakers) - 2:,} more breakers are open", "limits")
    for bar in limits.shown:
        if bar.over:
            yield Alarm("note", f"{bar.name} is over its cap by {bar.over:,} and drains", "limits")


def _of_budgets(budgets: Budgets) -> Iterator[Alarm]:
    for budget in budgets.shown:
        if budget.is_spent:
            resets = f", resets {budget.resets_at:%-d %b %H:%M} UTC" if budget.resets_at else ""
            yield Alarm("warn", f"The budget of {budget.limit} is spent{resets}", "budget")
        elif budget.ends_at:
            text = f"The budget of {budget.limit} will be spent about {budget.ends_at:%H:%M} UTC"
            yield Alarm("note", text, "budget")


def _of_waits(phases: Sequence[PhaseRow]) -> Iterator[Alarm]:
    for row in phases:
        for cell in row.cells:
            if cell.is_overdue:
                text = f"Work in {cell.queue} waited longer than its bound and goes first"
                yield Alarm("note", text, "queues")


def _of_failures(hour: Window, failed: int) -> Iterator[Alarm]:
    lately = hour.speeds[ALL].failed
    if lately:
        yield Alarm("note", f"{lately:,} failed for good in the last hour", "failures")
    elif failed:
        yield Alarm("note", f"{failed:,} failed, kept until a person decides", "failures")
