"""How to make each state of a fleet that `doctor` has something to say of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from queuemgr.base.config import WebhookSettings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import all_queues
from queuemgr.lifecycle import anomalies, unknown_steps
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.local.checks import fleet
from queuemgr.models import (
    AllowanceUsage,
    Attempt,
    Execution,
    Lease,
    Limit,
    PeriodicJob,
    Schedule,
    ScheduledRun,
    Webhook,
    Worker,
)
from queuemgr.operations import workers
from queuemgr.operations.controls import Actor
from tests.integration.local.misconfiguration import Make, Scene


def worker_elsewhere(scene: Scene) -> None:
    row = scene.fixture("make_worker")()
    Worker.objects.filter(pk=row.pk).update(broker="redis://elsewhere:6379/0")


def with_worker(scene: Scene, **given: Any) -> None:
    scene.fixture("make_worker")(**given)


def no_worker_for_wrap(scene: Scene) -> None:
    with_worker(scene, queues=[name for name in all_queues() if not name.startswith("wrap")])


def work_for_no_worker(scene: Scene) -> None:
    with_worker(scene, queues=["prep.high"])
    scene.fixture("probes")(3)


def work_of_another_release(scene: Scene) -> None:
    with_worker(scene)
    scene.patch.setattr(flow, "_flows", dict(flow._flows))
    flow.register_flow(replace(flow.get_flow("probe"), name="of-another-release"))
    scene.fixture("sent")
    enqueue("of-another-release", "p0")
    del flow._flows["of-another-release"]
    for lease in Lease.objects.all():
        unknown_steps.put_back(lease.pk)


def only_worker_drained(scene: Scene) -> None:
    with_worker(scene)
    workers.drain("w@test", Actor("ann", "command"))
    scene.fixture("probes")(2)


def no_tick(scene: Scene) -> None:
    with_worker(scene)
    PeriodicJob.objects.create(name="tick", ran_at=database_now() - timedelta(hours=1))


def no_prune(scene: Scene) -> None:
    with_worker(scene)
    PeriodicJob.objects.create(name="tick", ran_at=database_now())
    PeriodicJob.objects.create(name="prune", ran_at=database_now() - timedelta(days=1))


def endless_backfill(scene: Scene) -> None:
    with_worker(scene)
    began = database_now() - timedelta(minutes=10)
    PeriodicJob.objects.create(name="tick", ran_at=database_now())
    PeriodicJob.objects.create(name="seed", ran_at=began, running_since=began)


def allowance_of(dollars: int, used: int) -> Make:
    def make(scene: Scene) -> None:
        Limit.objects.create(name="openai:gpt", allowances=f"{max(dollars, used)} usd in total")
        starts = datetime(1970, 1, 1, tzinfo=UTC)
        AllowanceUsage.objects.create(
            limit="openai:gpt", allowance="usd/total", starts_at=starts, spent=used * 1_000_000
        )

    return make


def allowance_waited_for(scene: Scene) -> None:
    with_worker(scene, slots=1)
    Limit.objects.create(name="openai:gpt", allowances="0.0003 usd in total")
    scene.fixture("probes")(4, limit_key="openai:gpt", uses={"usd": "0.0001"})
    now = database_now()
    Attempt.objects.create(
        lease_id=uuid4(), execution=Execution.objects.first(), phase="prep", step="probe", priority=1,
        uses="usd=100", cost=0, limit_keys="openai:gpt", leased_at=now, started_at=now, ended_at=now,
        outcome="done",
    )  # fmt: skip


def a_schedule(**fields: Any) -> Schedule:
    now = database_now()
    return Schedule.objects.create(
        name="nightly", flow="probe", timing="every 5m from start", planned_for="every 5m from start",
        created_at=now, anchor_at=now, decided_at=now, **fields,
    )  # fmt: skip


def schedule_late(scene: Scene) -> None:
    a_schedule(next_due_at=database_now() - timedelta(hours=1))


def schedule_skipping(scene: Scene) -> None:
    row, now = a_schedule(next_due_at=database_now() + timedelta(hours=1)), database_now()
    for minutes in (5, 10, 15):
        ScheduledRun.objects.create(
            schedule=row, due_at=now - timedelta(minutes=minutes), decided_at=now, outcome="skipped",
            reason="the run of 2026-11-28 06:00:00 UTC had not ended",
        )  # fmt: skip


def a_webhook(**fields: Any) -> Callable[[Scene], object]:
    made = {"name": "ops", "url": "https://hooks.example/", **fields}
    return lambda scene: Webhook.objects.create(created_at=database_now(), **made)


def webhook_paused(scene: Scene) -> None:
    why = "10 deliveries in a row failed"
    a_webhook(paused_at=database_now(), paused_by="webhooks", pause_reason=why)(scene)


def lease_expired(scene: Scene) -> None:
    worker = scene.fixture("played")(slots=1)
    scene.fixture("probes")(1)
    worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(minutes=5))


def lease_not_begun(scene: Scene) -> None:
    scene.fixture("played")(slots=1)
    scene.fixture("probes")(1)
    dispatch()
    Lease.objects.update(leased_at=database_now() - timedelta(seconds=40))


def leases_not_begun_lately(scene: Scene) -> None:
    with_worker(scene)
    anomalies.count(anomalies.LEASE_EXPIRED_UNSTARTED, 7, database_now())


FLEETS: dict[str, Make] = {
    "work and no worker": lambda scene: scene.fixture("probes")(2),
    "no worker, and nothing to do": lambda scene: None,
    "work in a queue without a worker": work_for_no_worker,
    "work whose only worker is drained": only_worker_drained,
    "work of a task that no worker has": work_of_another_release,
    "a queue without a worker, and nothing to do": no_worker_for_wrap,
    "a worker of another broker": worker_elsewhere,
    "no beat and no periodic jobs": no_tick,
    "a periodic job that does not run, beside a tick that does": no_prune,
    "a periodic job that does not end": endless_backfill,
    "an allowance that is used up": allowance_of(0, used=1),
    "an allowance that is nearly used up": allowance_of(100, used=92),
    "an allowance that what waits will use up": allowance_waited_for,
    "a schedule that nobody looks at": schedule_late,
    "a schedule whose runs are all left out": schedule_skipping,
    "webhooks in a phase that there is not": lambda scene: scene.patch.setattr(
        fleet, "webhook_settings", lambda: WebhookSettings(webhook_phase="wrapp")
    ),
    "a webhook that was paused": webhook_paused,
    "a webhook whose deliveries fail": a_webhook(failed_in_row=3),
    "leases that nobody ends": lease_expired,
    "a lease that no worker begins": lease_not_begun,
    "leases that no worker began lately": leases_not_begun_lately,
}
