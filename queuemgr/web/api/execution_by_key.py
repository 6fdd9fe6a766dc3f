"""An execution by its flow and key: not below `/executions/`, where a key may look like an action."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from queuemgr.models import Execution
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import requires
from queuemgr.web.api.executions import ExecutionOut

router = Router(tags=["executions"])


@router.get(
    "/flows/{flow}/executions/{path:key}", response=ExecutionOut, **requires("read", "view_execution")
)
def show_execution_by_key(request: HttpRequest, flow: schemas.Name, key: schemas.Name) -> Any:
    """One execution, by the flow and the key it was enqueued with."""
    return schemas.get_or_404(Execution, f"no execution is {flow}/{key}", flow=flow, key=key)
