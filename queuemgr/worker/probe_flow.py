"""The probe flow: one step that sleeps or uses processor time, for load tests and health checks.

The payload names the phase. On request a probe fails, dies, or writes its start and end to a trace
file, one JSON line each; the tests and benchmarks of the limits are measured with it.
"""

from __future__ import annotations

import json
import os
import signal as signals
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from celery import shared_task

from queuemgr.base.errors import StepFailed
from queuemgr.flows.flow import PRIORITY_NAMES, Context, Flow, Phase, Step
from queuemgr.flows.outcomes import Done
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.leased_task import LeasedTask
from queuemgr.worker.work import Work

NAME, TASK = "probe", "probe.run"

NO_APPLICATION = (Phase("probe", rank=0, waiting="waiting", running="running", steps=()),)
"""Its phases where no other flow is registered."""


def _keys(context: Context) -> tuple[str, ...]:
    """The keys in `limit_key`, separated by spaces, and `tenant:<tenant>` when one is given."""
    tenant = context.get("tenant")
    return (*str(context.get("limit_key", "")).split(), *([f"tenant:{tenant}"] if tenant else []))


def _step(phase: str, default: str) -> Step:
    return Step(
        name=NAME,
        task=TASK,
        key=_keys,
        cost=lambda context: int(context.get("requests", 0)),
        weight=lambda context: int(context.get("weight", 1)),
        resources=lambda context: dict(context.get("resources", {})),
        uses=lambda context: dict(context.get("uses", {})),
        needed=lambda context: context.get("phase", default) == phase,
    )


def probe_flow(phases: Sequence[Phase]) -> Flow:
    """The flow with a probe in each of these phases; an execution that names none is in the first."""
    phases = phases or NO_APPLICATION
    default = phases[0].name
    return Flow(NAME, tuple(replace(phase, steps=(_step(phase.name, default),)) for phase in phases))


@shared_task(base=LeasedTask, name=TASK)
def run(work: Work) -> Done:
    """Use `cpu_ms` of processor time, sleep `seconds`, then succeed, fail (`fail`) or die (`die`).

    `requests` are recorded as sent, as a paid step does, and `spends` (by default `uses`) as used of meters.
    """
    inputs = work.inputs
    if requests := int(inputs.get("requests", 0)):
        work.record_requests(requests)
    trace(work, "start")
    try:
        until = time.process_time() + float(inputs.get("cpu_ms", 0)) / 1000
        while time.process_time() < until:
            pass
        if seconds := float(inputs.get("seconds", 0)):
            work.signal.sleep(seconds)
        work.spend(**dict(inputs.get("spends", inputs.get("uses", {}))))
        fail_or_die(inputs)
    finally:
        trace(work, "end")
    return Done()


def fail_or_die(inputs: dict[str, Any]) -> None:
    if inputs.get("die"):
        os.kill(os.getpid(), signals.SIGKILL)
    if kind := inputs.get("fail"):
        wait = inputs.get("retry_after")
        raise StepFailed(str(kind), "the payload asks the probe to fail", retry_after=wait)


def trace(work: Work, event: str) -> None:
    """Append one JSON line to the payload's trace file, in one write so that lines do not interleave."""
    path = work.inputs.get("trace")
    if not path:
        return
    line = {
        "key": work.key,
        "lease": str(work.grant.lease_id),
        "phase": work.grant.phase,
        "priority": PRIORITY_NAMES[work.grant.priority],
        "limit_key": work.grant.limit_keys,
        "event": event,
        "monotonic_ns": time.monotonic_ns(),
        "wall": datetime.now(UTC).isoformat(),
        "worker": f"{get_current_worker().name}/{os.getpid()}",
    }
    with Path(path).open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")
