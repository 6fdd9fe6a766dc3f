"""The fleet, as the database knows it: workers, periodic jobs, leases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Sum

from queuemgr.base.config import queue_settings, webhook_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import CheckResult, all_phases, all_queues
from queuemgr.lifecycle.anomalies import LEASE_EXPIRED_UNSTARTED
from queuemgr.lifecycle.publish import broker_address
from queuemgr.models import ANOMALY, Execution, Lease, MinuteStats, PeriodicJob, Worker
from queuemgr.reporting import periodic_jobs as periodic_troubles
from queuemgr.reporting import schedules as schedule_report
from queuemgr.reporting import stall_check, worker_states
from queuemgr.reporting import webhooks as webhook_report
from queuemgr.reporting.queue_depths import queue_counts
from queuemgr.reporting.remaining_work import remaining_work
from queuemgr.reporting.unknown_work import unknown_work
from queuemgr.reporting.unserved_queues import served
from queuemgr.scheduling.snapshot import read_snapshot

START_ONE = "start `manage.py up`, `queue run` or `worker`"
START_SUCH = "start one with these in -Q"


def workers() -> Iterator[CheckResult]:
    """Whether a live worker takes the work of each queue: without one it matters once work waits there."""
    now = database_now()
    runs = stall_check.worker_runs(now)
    consumed = served(runs)
    waiting = {row["queue"]: row["due"] + row["leased"] for row in queue_counts(now)}
    lacking = {queue: count for queue, count in waiting.items() if count and queue not in consumed}
    idle = [queue for queue in all_queues() if queue not in consumed and queue not in lacking]
    consumers = worker_states.drained_consumers(now) if lacking else {}
    if drained := sorted({drain.name for queue in lacking for drain in consumers.get(queue, ())}):
        waits = f"{sum(lacking.values())} executions wait in {', '.join(lacking)}"
        what = f"drained by a person: {', '.join(drained)}; {waits}, and no other live worker takes them"
        yield CheckResult("bad", what, f"`queue worker resume {drained[0]}`, or start another worker")
        return
    if lacking and consumed:
        yield CheckResult("bad", f"no live worker consumes {', '.join(lacking)}, and "
                          f"{sum(lacking.values())} executions wait there", START_SUCH)  # fmt: skip
    elif lacking:
        yield CheckResult(
            "bad", f"no worker is alive, and {sum(lacking.values())} executions wait", START_ONE
        )
    elif not consumed:
        yield CheckResult("note", "no worker is alive", START_ONE)
    elif idle:
        yield CheckResult(
            "note", f"no live worker consumes {', '.join(idle)}; nothing waits there", START_SUCH
        )
    else:
        alive = sum(run.takes_work for run in runs)
        yield CheckResult("good", f"{alive} workers alive, every queue consumed")


def brokers() -> Iterator[CheckResult]:
    """Whether live workers take their messages from where this process sends them."""
    if not (ours := broker_address()):
        return  # said by the check of the broker
    alive = Worker.objects.running(database_now()).exclude(broker__in=("", ours))
    if apart := {row.name: row.broker for row in alive}:
        address = next(iter(apart.values()))
        what = f"this process sends messages to {ours}, and {', '.join(apart)} take them from {address}"
        yield CheckResult("note", what, ONE_BROKER)


ONE_BROKER = "give all processes the same Celery application and broker, unless both are names of one server"


def unknown_steps() -> Iterator[CheckResult]:
    """Whether work waits for a worker that has its step."""
    for work in unknown_work():
        yield CheckResult("bad", str(work), "start workers of the release that has it, or cancel the work")


def periodic_jobs() -> Iterator[CheckResult]:
    """Whether each runs on time, and none for too long; without workers it matters to nobody."""
    now = database_now()
    if not PeriodicJob.objects.filter(name="tick").exists() or not Worker.objects.exists():
        return
    found, alive = periodic_troubles.troubles(now), Worker.objects.available(now).exists()
    for trouble in found:
        yield CheckResult("bad" if alive else "note", str(trouble), trouble.remedy)
    if not found:
        yield CheckResult("good", "periodic jobs run on time")


def allowances() -> Iterator[CheckResult]:
    """Whether an allowance has run out or soon will: work waits then, which may be what is wanted."""
    now, percent = database_now(), queue_settings().allowance_alarm_percent
    snapshot = read_snapshot(now)
    for limit, found in remaining_work(snapshot.rules, now).by_limit(snapshot):
        for status in found:
            if status.runs_out_soon(percent):
                yield CheckResult("note", status.alarm(limit, now), RAISE_IT)


RAISE_IT = "what waits for it continues when it begins anew; `queue limit NAME --allowances` changes it"


def schedules() -> Iterator[CheckResult]:
    """Whether due times are looked at, and runs enqueued."""
    for trouble in schedule_report.troubles(database_now()):
        yield CheckResult(trouble.level, trouble.text, SEE_SCHEDULES)


SEE_SCHEDULES = "see `queue schedule list`; a flow must be known to the process that ticks"


def webhooks() -> Iterator[CheckResult]:
    """Whether deliveries of webhooks are accepted, and made where the settings say."""
    wanted, phases = webhook_settings().webhook_phase, all_phases()
    if wanted and wanted not in phases:
        yield CheckResult("bad", f"SLUICE_WEBHOOK_PHASE={wanted} is no phase: webhooks are sent from another",
                          f"name one of {', '.join(phases)}")  # fmt: skip
    for row in webhook_report.listed():
        if row["paused"]:
            yield CheckResult("note", f"webhook {row['webhook']} is {row['paused']}", SEE_WEBHOOKS)
        elif row["failed_in_row"]:
            failed = f"the last {row['failed_in_row']} deliveries of webhook {row['webhook']} failed"
            yield CheckResult("note", failed, SEE_WEBHOOKS)


SEE_WEBHOOKS = "see `queue webhook show`; when its receiver answers again, `queue webhook resume`"


def leases() -> Iterator[CheckResult]:
    now = database_now()
    expired = Lease.objects.expired(now - timedelta(seconds=60)).count()
    if expired:
        yield CheckResult("bad", f"{expired} leases expired over a minute ago and still exist",
                      "the tick does not run: see the line on periodic jobs")  # fmt: skip
    waiting = Execution.objects.waiting().exists()
    if waiting and not expired:
        yield CheckResult("good", "work is waiting; `queue stats` shows for what")
    yield from _never_begun(now)


def _never_begun(now: datetime) -> Iterator[CheckResult]:
    """Leases that were granted for a free slot, and that no worker took: their messages are lost or wait."""
    granted = Lease.objects.unstarted().filter(leased_at__lt=now - SOON, expires_at__gt=now)
    recent = MinuteStats.objects.by_minute().filter(minute__gte=now - LATELY, outcome=ANOMALY)
    of_this = recent.filter(error_kind=LEASE_EXPIRED_UNSTARTED).aggregate(Sum("attempts"))
    now_unbegun, lately = granted.count(), of_this["attempts__sum"] or 0
    if now_unbegun or lately:
        what = (
            f"{now_unbegun} leases were granted over {SOON.seconds} s ago and no worker has begun them; "
            f"{lately} expired so in the last {LATELY.seconds // 60} minutes"
        )
        yield CheckResult("bad" if now_unbegun else "note", what, SEE_MESSAGES)


SOON, LATELY = timedelta(seconds=30), timedelta(minutes=10)
SEE_MESSAGES = "their messages wait in the broker or are lost: see the lines on workers and on the broker"
