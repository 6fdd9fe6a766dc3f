"""Making many executions that failed, and carrying bulk actions out in the test's own thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import ActionState, BulkAction, Execution, State
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkRequest, chunk
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.controls import Actor

ANN = Actor("ann", "admin", "proxy mended")
"""Who starts actions; `a_person` makes her account."""

FAILED = {"state": "failed"}

ANY_NUMBER = bulk.COUNTED + 1
"""Confirms whatever there is."""


def some_failed(
    count: int, kind: str = "network", message: str = "refused", fingerprint: str = "", prefix: str = "f"
) -> list[Execution]:
    """So many probes that failed alike, by ascending id."""
    enqueue_many("probe", [NewExecution(f"{prefix}{n}") for n in range(count)])
    rows = Execution.objects.filter(key__regex=rf"^{prefix}\d+$", state=State.WAITING)
    ids = list(rows.order_by("pk").values_list("pk", flat=True))
    fail(ids, error_kind=kind, error_message=message, error_fingerprint=fingerprint)
    return list(Execution.objects.filter(pk__in=ids).order_by("pk"))


def fail(ids: list[int], **columns: Any) -> None:
    Execution.objects.filter(pk__in=ids).update(
        state=State.FAILED, finished_at=timezone.now(), route=None, **columns
    )


def a_person(name: str = "ann") -> User:
    """An account that may do anything, made once."""
    return User.objects.get_or_create(username=name, defaults={"is_staff": True, "is_superuser": True})[0]


def started(name: str = "retry", filters: Mapping[str, Any] | None = None, **more: Any) -> BulkAction:
    a_person()
    request = BulkRequest(name, FAILED if filters is None else filters, **more)
    return bulk.begin(request, ANN, ANY_NUMBER)


def carried_out(action: BulkAction, rows: int = chunk.ROWS) -> BulkAction:
    """Chunk after chunk to its end; for actions without a rate."""
    while bulk.get_or_error(action.pk).state == ActionState.RUNNING:
        chunk.change_next(action.pk, rows)
    return bulk.get_or_error(action.pk)


def counts(action: BulkAction) -> tuple[int, int, int]:
    fresh = bulk.get_or_error(action.pk)
    return fresh.changed, fresh.skipped, fresh.failed


def run_all() -> int:
    return bulk_runner.run(seconds=30)
