"""What tests of the pages of executions share: one that failed, its page, its buttons."""

from __future__ import annotations

from typing import Any

from django.test import Client

from queuemgr.flows.outcomes import Failed, Snoozed
from queuemgr.models import Execution
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from tests.integration.conftest import let_time_pass
from tests.integration.web.admin.admin_pages import page, text_of

ANN = Actor("ann", "command", "the server is back")


def own_page(execution: Execution) -> str:
    return page("execution", execution.pk, view="change")


def press(client: Client, execution: Execution, name: str, **typed: Any) -> str:
    """Press a button of an execution's own page; what comes back as text."""
    url = page("execution", execution.pk, view="action")
    return text_of(client.post(url, {"act": name, **typed}, follow=True))


def listed(client: Client, **query: Any) -> list[str]:
    rows = client.get(page("execution"), query).context["cl"].result_list
    return sorted(row.key for row in rows)


def a_failed_one(played: Any, probes: Any) -> Execution:
    """It waited, was tried twice, with a person's retry in between, and failed for good at host:a."""
    worker = played(slots=1, name="w@one")
    (execution,) = probes(1, limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Snoozed(60, "the host asked for a minute"), next_too=False)
    let_time_pass(Execution.objects.all())
    executions.cancel([execution], ANN)
    executions.retry([execution], ANN)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404 for page Seven"))
    return Execution.objects.get(pk=execution.pk)
