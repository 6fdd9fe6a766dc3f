"""What needs a person's attention, in sentences, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from queuemgr.reporting.remedies import FAILURES, LIMIT, QUEUE, SCHEDULE, WORKER, Remedy, Thing

if TYPE_CHECKING:
    from queuemgr.reporting.dashboard import Dashboard

SHOWN = 6
ALLOWANCES = 2
"""Allowances that are named one by one."""

LEVELS = ("bad", "warn", "note")
WORKERS = Thing(WORKER)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One sentence; `level` is one of `LEVELS`, `about` names the part of the dashboard with the details,
    `thing` what has a page of its own; `remedy` is what can be done about it."""

    level: str
    text: str
    about: str
    thing: Thing | None = None
    remedy: Remedy | None = None


def alarms(shown: Dashboard) -> tuple[Alarm, ...]:
    """At most `SHOWN` of them."""
    sources = (
        _of_the_database,
        _of_checks,
        _of_callbacks,
        _of_periodic_jobs,
        _of_workers,
        _of_unknown_work,
        _of_schedules,
        _of_pauses,
        _of_limits,
        _of_allowances,
        _of_waits,
        _of_failures,
    )
    all_alarms = chain.from_iterable(source(shown) for source in sources)
    return tuple(sorted(all_alarms, key=lambda alarm: LEVELS.index(alarm.level))[:SHOWN])


def _of_the_database(shown: Dashboard) -> Iterator[Alarm]:
    if shown.held_lock:
        yield Alarm("bad", str(shown.held_lock), "queues")


def _of_checks(shown: Dashboard) -> Iterator[Alarm]:
    for check in shown.checks:
        if not check.is_right:
            text = f"The numbers do not add up: {check.name.lower()} are off by {check.difference:+,}"
            yield Alarm("bad", text, "reconciliation")


def _of_callbacks(shown: Dashboard) -> Iterator[Alarm]:
    for failure in shown.callback_failures:
        yield Alarm("bad", str(failure)[:300], "workers")


def _of_periodic_jobs(shown: Dashboard) -> Iterator[Alarm]:
    for trouble in shown.late_jobs if shown.workers.live else ():
        yield Alarm("bad", f"{str(trouble)[:1].upper()}{str(trouble)[1:]}", "workers")


def _of_workers(shown: Dashboard) -> Iterator[Alarm]:
    waiting, workers = shown.waiting, shown.workers
    if waiting and not workers.live:
        yield Alarm("bad", f"No worker is live, and {waiting:,} executions wait", "workers", WORKERS)
    elif waiting:
        for reason in shown.wait_reasons.shown:
            if reason.text.startswith("no live worker"):
                yield Alarm("bad", f"{reason.waiting:,} wait: {reason.text}", "workers", WORKERS)
        yield from _of_full_workers(shown)
    if workers.gone:
        noun = "worker gives" if workers.gone == 1 else "workers give"
        yield Alarm("warn", f"{workers.gone:,} {noun} no heartbeat", "workers", WORKERS)


def _of_full_workers(shown: Dashboard) -> Iterator[Alarm]:
    """More would run at once with more workers: no limit keeps it, only their slots."""
    workers, cap = shown.workers, shown.fleet.rule.max_running
    waiting = sum(each.waiting for each in shown.wait_reasons.shown if each.kind == "workers")
    if workers.live and workers.busy >= workers.slots and waiting and not 0 < cap <= workers.busy:
        of_fleet = f"the cap of the fleet is {cap:,}" if cap else "the fleet has no cap"
        text = f"All {workers.slots:,} worker slots are busy, and {waiting:,} wait for one; {of_fleet}"
        yield Alarm("warn", text, "workers", WORKERS)


def _of_unknown_work(shown: Dashboard) -> Iterator[Alarm]:
    for work in shown.unknown_work:
        yield Alarm("bad", str(work), "workers")


def _of_schedules(shown: Dashboard) -> Iterator[Alarm]:
    for trouble in shown.schedule_troubles:
        text = f"{trouble.text[:1].upper()}{trouble.text[1:]}"
        yield Alarm(trouble.level, text, "workers", Thing(SCHEDULE))


def _of_pauses(shown: Dashboard) -> Iterator[Alarm]:
    for name, reason in shown.snapshot.paused_queues.items():
        yield Alarm("warn", reason.text, "queues", Thing(QUEUE, name), Remedy(QUEUE, "resume", name))
    for name, rule in shown.snapshot.rules.items():
        if rule.paused:
            remedy = Remedy(LIMIT, "resume", name)
            yield Alarm("warn", f"{name} {rule.paused}", "limits", Thing(LIMIT, name), remedy)


def _of_limits(shown: Dashboard) -> Iterator[Alarm]:
    open_breakers = [bar for bar in shown.limits.shown if bar.open_until]
    for bar in open_breakers[:2]:
        thing, remedy = Thing(LIMIT, bar.name), Remedy(LIMIT, "unblock", bar.name)
        yield Alarm("warn", f"{bar.name} {bar.breaker.text(bar.now)}", "limits", thing, remedy)
    if len(open_breakers) > 2:
        yield Alarm("warn", f"{len(open_breakers) - 2:,} more breakers are open", "limits", Thing(LIMIT))
    for bar in shown.limits.shown:
        if bar.over:
            thing, remedy = Thing(LIMIT, bar.name), Remedy(LIMIT, "cap", bar.name)
            text = f"{bar.name} is over its cap by {bar.over:,} and drains"
            yield Alarm("note", text, "limits", thing, remedy)


def _of_allowances(shown: Dashboard) -> Iterator[Alarm]:
    alarms = shown.allowances.alarms
    for text in alarms[:ALLOWANCES]:
        yield Alarm("warn", text, "allowances")
    if (more := len(alarms) - ALLOWANCES) > 0:
        text = "1 more allowance runs out" if more == 1 else f"{more:,} more allowances run out"
        yield Alarm("warn", text, "allowances")


def _of_waits(shown: Dashboard) -> Iterator[Alarm]:
    for cell in shown.cells:
        if cell.is_overdue:
            text = f"Work in {cell.queue} waited longer than its bound and goes first"
            yield Alarm("note", text, "queues", Thing(QUEUE, cell.queue))


def _of_failures(shown: Dashboard) -> Iterator[Alarm]:
    lately, failed = shown.hour.failed, shown.counted.failed
    if lately:
        yield Alarm("note", f"{lately:,} failed for good in the last hour", "failures", Thing(FAILURES))
    elif failed:
        text = f"{failed:,} failed, retained until a person decides"
        yield Alarm("note", text, "failures", Thing(FAILURES))
