"""What workers stated when they started: limits, queues and retry policies, and the steps they know."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.base.config import queue_settings
from queuemgr.models import WorkerStatement
from queuemgr.models.workers import live_span

Values = Mapping[str, Any]
Statement = Mapping[str, Mapping[str, Values]]
"""All that a process states: field values by name of `limits`, `queues` and `policies`; and of each of
`flows` its steps, as `phase/step`."""


def digest_of(stated: Mapping[str, Any]) -> str:
    text = json.dumps(stated, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FleetStatements:
    """What workers state: those that run, and all that live or did until lately."""

    running: tuple[Statement, ...]
    lately: tuple[Statement, ...]

    def digests_of(self, kind: str, name: str) -> set[str]:
        """Of the values that workers lately stated of this name."""
        return {digest_of(values[name]) for each in self.lately if name in (values := each.get(kind, {}))}

    def knows(self, flow: str, phase: str, step: str) -> bool:
        """Whether a running worker has this step."""
        return any(f"{phase}/{step}" in each.get("flows", {}).get(flow, {}) for each in self.running)

    def flows(self) -> set[str]:
        """The flows that running workers have."""
        return {flow for each in self.running for flow in each.get("flows", {})}

    def phases(self) -> set[str]:
        """The phases of those flows."""
        flows = [steps for each in self.running for steps in each.get("flows", {}).values()]
        return {step.partition("/")[0] for steps in flows for step in steps}


class _Latest(NamedTuple):
    worker_id: int
    running: bool
    digest: str


def read_statements(now: datetime) -> FleetStatements:
    """Read what workers state. A worker of the same name replaces an earlier one, which is gone."""
    span = live_span(now)
    since = min(span.since, now - timedelta(seconds=queue_settings().rollback_seconds))
    rows = WorkerStatement.objects.filter(worker__seen_at__gt=since, worker__seen_at__lt=span.until)
    columns = rows.order_by("worker_id").values_list(
        "worker_id", "worker__name", "worker__seen_at", "worker__draining_at", "digest"
    )
    last = {
        name: _Latest(worker_id, seen_at > span.since and draining_at is None, digest)
        for worker_id, name, seen_at, draining_at, digest in columns
    }
    one_of = {latest.digest: latest.worker_id for latest in last.values()}
    chosen = WorkerStatement.objects.filter(worker__in=one_of.values())
    values = dict(chosen.values_list("digest", "values"))
    running = {latest.digest for latest in last.values() if latest.running}
    return FleetStatements(
        tuple(stated for digest, stated in values.items() if digest in running), tuple(values.values())
    )
