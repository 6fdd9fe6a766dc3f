"""What batches call when they complete, and what has become of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queuemgr.models import Batch, BatchCallback, BatchEvent, Execution


@dataclass(frozen=True, slots=True)
class CallbackState:
    """A callback, and once it has fired the state of its execution, whose id is None where retention has
    deleted it."""

    event: str
    flow: str
    key: str
    fired: datetime | None
    state: str
    execution_id: int | None

    def __str__(self) -> str:
        """As `shop.report/batch:3:on_success running`."""
        return f"{self.flow}/{self.key} {self.state}"


def callbacks_of(batch: Batch) -> list[CallbackState]:
    """Those of this batch in the order in which they fire, in two statements."""
    rows = sorted(batch.callbacks.all(), key=lambda row: BatchEvent.values.index(row.event))
    there: dict[tuple[str, str], Execution] = {}
    if fired := [row for row in rows if row.fired_at]:
        found = Execution.objects.filter(
            flow__in={row.flow for row in fired}, key__in={row.key for row in fired}
        )
        there = {(e.flow, e.key): e for e in found.only("flow", "key", "state", "phase")}
    return [_state(row, there.get((row.flow, row.key))) for row in rows]


def _state(row: BatchCallback, execution: Execution | None) -> CallbackState:
    waits = "has not fired" if row.fired_at is None else "deleted"
    return CallbackState(
        event=row.event, flow=row.flow, key=row.key, fired=row.fired_at,
        state=execution.state if execution else waits, execution_id=execution.pk if execution else None,
    )  # fmt: skip
