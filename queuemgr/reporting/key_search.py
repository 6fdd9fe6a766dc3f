"""Finding executions by key along the unique index on flow and key, which has the flow first."""

from __future__ import annotations

from typing import TypeVar

from django.db import connection
from django.db.models import QuerySet

from queuemgr.base.loose_index_scan import loose_index_scan
from queuemgr.models import Execution, ExecutionQuerySet

LAST_CHARACTER = "\U0010ffff"


Rows = TypeVar("Rows", bound=QuerySet[Execution])


def with_key_from(executions: Rows, beginning: str) -> Rows:
    """Those whose key begins so.

    SQLite uses no index for LIKE but compares text by bytes, so there a range says the same.
    """
    begins = (
        {"key__gte": beginning, "key__lt": beginning + LAST_CHARACTER}
        if connection.vendor == "sqlite"
        else {"key__startswith": beginning}
    )
    return executions.filter(flow__in=_flows(), **begins)


def with_key(key: str) -> ExecutionQuerySet:
    """The execution of this key in each flow that has one."""
    return Execution.objects.filter(flow__in=_flows(), key=key)


def _flows() -> list[str]:
    return loose_index_scan(Execution, "flow")["flow"]
