"""Rows for every page of the admin, hostile ones among them, and the addresses of those pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import RequestFactory
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django_celery_results.models import GroupResult, TaskResult

from pipeline.models import Document
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, Outcome, RunOutcome, ScheduledRun, State, Worker
from queuemgr.operations import controls, schedules, webhooks
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD
from tests.usage_rows import spend_requests

HOSTILE = "<script>alert(1)</script>"
LONG = "a-name-without-a-place-to-break-it-" * 6

NAMED = (
    "index", "bulk_new", "failures", "schedule_timeline", "costs", "password_change", "queuemgr_limit_add",
    "queuemgr_execution_enqueue", "step_times", "alerts", "alert_silence",
    "queuemgr_retrypolicy_add", "queuemgr_webhook_add", "auth_user_add", "auth_group_add",
)  # fmt: skip
"""Pages that are neither a list nor a row's own."""


def make_rows() -> None:
    """A superuser `sam`, and something to be seen on each page."""
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    Group.objects.create(name="night shift")
    by, now = Actor("sam", "command", HOSTILE), timezone.now()
    for key in ("doc:failed", f"doc:{LONG}", f"doc:{HOSTILE}"):
        enqueue("probe", key, {"limit_key": "host:a.example:443"})
    failed = Execution.objects.get(key="doc:failed")
    Execution.objects.filter(pk=failed.pk).update(
        state=State.FAILED, finished_at=now, route=None, error_kind="not_pdf", error_message=LONG,
        payload={"url": LONG}, context={"title": HOSTILE},
    )  # fmt: skip
    Attempt.objects.create(
        lease_id=uuid4(), execution=failed, phase=failed.phase, step=failed.step, priority=1, cost=0,
        worker="w@test", leased_at=now, started_at=now, ended_at=now + timedelta(seconds=2),
        outcome=Outcome.FAILED, error_kind="not_pdf", error_message=LONG,
        limit_keys="host:a.example:443",
    )  # fmt: skip
    controls.pause("prep.low", by)
    controls.edit_limit("host:*", by, max_running=2, rate="1/3s burst 2", daily_budget=9)
    schedule = schedules.create(LONG[:200], "probe", "every 5m", by, payload={"title": HOSTILE})
    ScheduledRun.objects.create(
        schedule=schedule, due_at=now, decided_at=now, outcome=RunOutcome.SKIPPED, reason=HOSTILE
    )
    webhooks.add("told", f"https://hooks.example/{LONG}", by, description=HOSTILE)
    spend_requests("phase:wrap", 3)
    Worker.objects.create(
        name="w@test", host="test", pid=1, queues=["prep.high"], slots=8, started_at=now, seen_at=now
    )
    Document.objects.create(
        key="doi:10.1/x", kind="doi", source="x", title=LONG, enqueued=True, year=1999,
        lookups=[{"source": "crossref", "status": HOSTILE}], pages_by={"text": 12},
        analysis={"summary": LONG, "keywords": [HOSTILE], "contributions": ["one"]},
    )  # fmt: skip
    TaskResult.objects.create(task_id=str(uuid4()), task_name="prune", result=HOSTILE, traceback=LONG)
    GroupResult.objects.create(group_id=str(uuid4()), result=HOSTILE)


def addresses() -> Iterator[str]:
    """Every list and, where it has a row, one row's own page; and the named pages there are."""
    request = RequestFactory().get("/")
    request.user = User.objects.get(username="sam")
    for name in NAMED:
        yield from _address(name)
    for model, model_admin in admin.site._registry.items():
        named = f"{model._meta.app_label}_{model._meta.model_name}"
        yield from _address(f"{named}_changelist")
        row: Any = model_admin.get_queryset(request).last()
        if row is not None:
            yield from _address(f"{named}_change", row.pk)


def _address(name: str, *args: Any) -> Iterator[str]:
    try:
        yield reverse(f"admin:{name}", args=args)
    except NoReverseMatch:
        return
