"""Work that waits for a worker that has its step, as during a deploy or after one that removed a task."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Count

from queuemgr.lifecycle import unknown_steps
from queuemgr.models import Execution


class UnknownWork(NamedTuple):
    """Executions of one step that were offered to workers which do not have it."""

    flow: str
    step: str
    executions: int

    def __str__(self) -> str:
        return (
            f"{self.executions:,} executions wait for a worker that has step {self.step} of flow {self.flow}"
        )


def unknown_work() -> list[UnknownWork]:
    """By step, the most first."""
    waiting = Execution.objects.waiting().filter(error_kind=unknown_steps.KIND)
    counts = (
        waiting.order_by().values_list("flow", "step").annotate(n=Count("*")).order_by("-n", "flow", "step")
    )
    return [UnknownWork(*row) for row in counts]
