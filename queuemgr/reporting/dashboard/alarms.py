"""What needs a person's attention, in sentences, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from queuemgr.reporting.remedies import FAILURES, LIMIT, QUEUE, SCHEDULE, WORKER, Remedy, Thing

if TYPE_CHECKING:
    from queuemgr.reporting.dashboard import Dashboard

SHOWN = 6
OPEN_BREAKERS, ALLOWANCES = 2, 2
"""Those that are named one by one."""

LEVELS = ("bad", "warn", "note")
WORKERS = Thing(WORKER)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One sentence; `level` is one of `LEVELS`, `about` names the part of the dashboard with the details,
    `thing` what has a page of its own; `remedy` is what can be done about it.

    `kind` and `which` say which alarm it is while the figures in its sentence change; `fact` is what makes
    it another one, as the reason of a pause."""

    kind: str
    level: str
    text: str
    about: str
    thing: Thing | None = None
    remedy: Remedy | None = None
    which: str = ""
    fact: str = ""

    @property
    def code(self) -> str:
        """As `limit paused: host:a.example:443`."""
        which = self.which or (self.thing.name if self.thing else "")
        return f"{self.kind}: {which}" if which else self.kind


def alarms(shown: Dashboard) -> tuple[Alarm, ...]:
    """At most `SHOWN` of them."""
    return tuple(all_alarms(shown, OPEN_BREAKERS, ALLOWANCES)[:SHOWN])


def all_alarms(shown: Dashboard, breakers: int | None = None, allowances: int | None = None) -> list[Alarm]:
    """With at most so many of open breakers and of allowances one by one."""
    sources = (
        _of_the_database,
        _of_checks,
        _of_callbacks,
        _of_periodic_jobs,
        _of_workers,
        _of_unknown_work,
        _of_schedules,
        _of_pauses,
        partial(_of_limits, most=breakers),
        partial(_of_allowances, most=allowances),
        _of_waits,
        _of_failures,
    )
    found = chain.from_iterable(source(shown) for source in sources)
    return sorted(found, key=lambda alarm: LEVELS.index(alarm.level))


def _of_the_database(shown: Dashboard) -> Iterator[Alarm]:
    if shown.held_lock:
        yield Alarm("scheduler lock held", "bad", str(shown.held_lock), "queues")


def _of_checks(shown: Dashboard) -> Iterator[Alarm]:
    for check in shown.checks:
        if not check.is_right:
            text = f"The numbers do not add up: {check.name.lower()} are off by {check.difference:+,}"
            yield Alarm("numbers do not add up", "bad", text, "reconciliation", which=check.name)


def _of_callbacks(shown: Dashboard) -> Iterator[Alarm]:
    for failure in shown.callback_failures:
        which = f"{failure.flow} {failure.callback}"
        yield Alarm("callback fails", "bad", str(failure)[:300], "workers", which=which)


def _of_periodic_jobs(shown: Dashboard) -> Iterator[Alarm]:
    for trouble in shown.late_jobs if shown.workers.live else ():
        text = f"{str(trouble)[:1].upper()}{str(trouble)[1:]}"
        yield Alarm("periodic job", "bad", text, "workers", which=trouble.job)


def _of_workers(shown: Dashboard) -> Iterator[Alarm]:
    waiting, workers = shown.waiting, shown.workers
    if waiting and not workers.live:
        text = f"No worker is live, and {waiting:,} executions wait"
        yield Alarm("no worker", "bad", text, "workers", WORKERS)
    elif waiting:
        for reason in shown.wait_reasons.shown:
            if reason.text.startswith("no live worker"):
                text = f"{reason.waiting:,} wait: {reason.text}"
                yield Alarm("no worker", "bad", text, "workers", WORKERS, which=reason.text)
        yield from _of_full_workers(shown)
    if workers.gone:
        noun = "worker gives" if workers.gone == 1 else "workers give"
        yield Alarm("workers gone", "warn", f"{workers.gone:,} {noun} no heartbeat", "workers", WORKERS)


def _of_full_workers(shown: Dashboard) -> Iterator[Alarm]:
    """More would run at once with more workers: no limit keeps it, only their slots."""
    workers, cap = shown.workers, shown.fleet.rule.max_running
    waiting = sum(each.waiting for each in shown.wait_reasons.shown if each.kind == "workers")
    if workers.live and workers.busy >= workers.slots and waiting and not 0 < cap <= workers.busy:
        of_fleet = f"the cap of the fleet is {cap:,}" if cap else "the fleet has no cap"
        text = f"All {workers.slots:,} worker slots are busy, and {waiting:,} wait for one; {of_fleet}"
        yield Alarm("workers busy", "warn", text, "workers", WORKERS)


def _of_unknown_work(shown: Dashboard) -> Iterator[Alarm]:
    for work in shown.unknown_work:
        yield Alarm("step unknown", "bad", str(work), "workers", which=f"{work.flow} {work.step}")


def _of_schedules(shown: Dashboard) -> Iterator[Alarm]:
    for trouble in shown.schedule_troubles:
        text = f"{trouble.text[:1].upper()}{trouble.text[1:]}"
        yield Alarm("schedule", trouble.level, text, "workers", Thing(SCHEDULE), which=trouble.which)


def _of_pauses(shown: Dashboard) -> Iterator[Alarm]:
    for name, reason in shown.snapshot.paused_queues.items():
        remedy = Remedy(QUEUE, "resume", name)
        text = reason.text
        yield Alarm("queue paused", "warn", text, "queues", Thing(QUEUE, name), remedy, fact=text)
    for name, rule in shown.snapshot.rules.items():
        if rule.paused:
            remedy = Remedy(LIMIT, "resume", name)
            text, fact = f"{name} {rule.paused}", rule.paused
            yield Alarm("limit paused", "warn", text, "limits", Thing(LIMIT, name), remedy, fact=fact)


def _of_limits(shown: Dashboard, most: int | None) -> Iterator[Alarm]:
    open_breakers = [bar for bar in shown.limits.shown if bar.open_until]
    for bar in open_breakers[:most]:
        thing, remedy = Thing(LIMIT, bar.name), Remedy(LIMIT, "unblock", bar.name)
        text = f"{bar.name} {bar.breaker.text(bar.now)}"
        yield Alarm("breaker open", "warn", text, "limits", thing, remedy)
    if most is not None and len(open_breakers) > most:
        text = f"{len(open_breakers) - most:,} more breakers are open"
        yield Alarm("breakers open", "warn", text, "limits", Thing(LIMIT))
    for bar in shown.limits.shown:
        if bar.over:
            thing, remedy = Thing(LIMIT, bar.name), Remedy(LIMIT, "cap", bar.name)
            text = f"{bar.name} is over its cap by {bar.over:,} and drains"
            yield Alarm("limit over its cap", "note", text, "limits", thing, remedy)


def _of_allowances(shown: Dashboard, most: int | None) -> Iterator[Alarm]:
    alarms = shown.allowances.alarms
    for which, text in alarms[:most]:
        yield Alarm("allowance", "warn", text, "allowances", which=which)
    if most is not None and (more := len(alarms) - most) > 0:
        text = "1 more allowance runs out" if more == 1 else f"{more:,} more allowances run out"
        yield Alarm("allowances", "warn", text, "allowances")


def _of_waits(shown: Dashboard) -> Iterator[Alarm]:
    for cell in shown.cells:
        if cell.is_overdue:
            text = f"Work in {cell.queue} waited longer than its bound and goes first"
            yield Alarm("overdue work", "note", text, "queues", Thing(QUEUE, cell.queue))


def _of_failures(shown: Dashboard) -> Iterator[Alarm]:
    lately, failed = shown.hour.failed, shown.counted.failed
    if lately:
        text = f"{lately:,} failed for good in the last hour"
        yield Alarm("failed lately", "note", text, "failures", Thing(FAILURES))
    elif failed:
        text = f"{failed:,} failed, retained until a person decides"
        yield Alarm("failed", "note", text, "failures", Thing(FAILURES))
