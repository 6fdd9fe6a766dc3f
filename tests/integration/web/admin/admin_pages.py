"""Opening the admin's pages and acting on their rows, as a browser would."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import LIMIT_FIELDS, Attempt, Execution, Limit, Outcome, State


def page(model: str, *args: Any, view: str = "changelist") -> str:
    return reverse(f"admin:queuemgr_{model}_{view}", args=args)


def act(client: Client, model: str, action: str, *rows: Any, **more: Any) -> Any:
    """Choose an action for these rows."""
    chosen = {"_selected_action": [row.pk for row in rows], "action": action}
    return client.post(page(model), {**chosen, **more}, follow=True)


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return response.content.decode()


def limit_form(limit: Limit | None = None, **changed: Any) -> dict[str, Any]:
    """What the form of a limit (none: a new one) posts, with these values changed."""
    row = limit or Limit()
    values = {name: getattr(row, name) for name in LIMIT_FIELDS}
    return {n: "" if v is None else v for n, v in {**values, "reason": "", **changed}.items()}


def a_failed(key: str, kind: str = "not_pdf", message: str = "it is a web page") -> Execution:
    enqueue("probe", key)
    execution = Execution.objects.get(key=key)
    Execution.objects.filter(pk=execution.pk).update(
        state=State.FAILED, finished_at=timezone.now(), route=None,
        error_kind=kind, error_message=message,
    )  # fmt: skip
    an_attempt(execution, error_kind=kind, error_message=message)
    return Execution.objects.get(pk=execution.pk)


def an_attempt(execution: Execution, outcome: str = Outcome.FAILED, **columns: Any) -> Attempt:
    now = timezone.now()
    return Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase=execution.phase, step=execution.step,
        priority=execution.priority, cost=0, worker="w@test", leased_at=now, started_at=now,
        ended_at=now + timedelta(seconds=2), outcome=outcome, **columns,
    )  # fmt: skip


def act_on_all(client: Client, action: str, query: str = "", **more: Any) -> Any:
    """Tick the first execution, then "select all across pages"."""
    first = Execution.objects.order_by("pk").values_list("pk", flat=True)[0]
    chosen = {"_selected_action": [first], "select_across": "1", "action": action, **more}
    return client.post(page("execution") + query, chosen, follow=True)


def queries_of(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        text_of(client.get(url))
    return [query["sql"] for query in captured.captured_queries]
