"""The probe flow: one step in a phase of your choice that waits or burns, for load tests and health.

A probe writes its start and end to a trace file when told to, one JSON line each, and fails or dies on
request: the instrument every proof of the limits is measured with.
"""

from __future__ import annotations

import json
import os
import signal as signals
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from celery import shared_task

from queuemgr.base.errors import StepFailed
from queuemgr.flows.flow import PRIORITY_NAMES, Context, Flow, Phase, Step, register_flow
from queuemgr.flows.outcomes import Done
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.leased_task import LeasedTask, Work

TASK = "probe.run"

PHASES = (
    ("prep", 2, "pending", "prepping"),
    ("expensive", 0, "prepped", "analyzing"),
    ("wrap", 1, "analyzed", "wrapping"),
)
"""Name, rank (0 starts first), and the operator's words for waiting and running."""


def _in_phase(name: str) -> Callable[[Context], bool]:
    return lambda given: given.get("phase", "prep") == name


def _keys(given: Context) -> tuple[str, ...]:
    """`limit_key`, one or several with a space between, and `tenant`."""
    tenant = given.get("tenant")
    return (*str(given.get("limit_key", "")).split(), *([f"tenant:{tenant}"] if tenant else []))


def _step(phase: str) -> Step:
    return Step(
        name="probe",
        task=TASK,
        key=_keys,
        cost=lambda given: int(given.get("requests", 0)),
        weight=lambda given: int(given.get("weight", 1)),
        tokens=lambda given: dict(given.get("tokens", {})),
        needed=_in_phase(phase),
    )


PROBE = Flow(
    name="probe",
    phases=tuple(
        Phase(name, rank, waiting, running, (_step(name),))
        for name, rank, waiting, running in PHASES
    ),
)


def register() -> None:
    register_flow(PROBE)


@shared_task(base=LeasedTask, name=TASK)
def run(work: Work) -> Done:
    """Wait `seconds`, burn `cpu_ms`, then end as told: well, failing (`fail`), or dying (`die`).

    A probe with `requests` says that it sends them, as a paid step does.
    """
    given = work.inputs
    if requests := int(given.get("requests", 0)):
        work.spend(requests)
    trace(work, "start")
    try:
        _burn(float(given.get("cpu_ms", 0)))
        if seconds := float(given.get("seconds", 0)):
            work.signal.sleep(seconds)
        _end_as_told(given)
    finally:
        trace(work, "end")
    return Done()


def _burn(milliseconds: float) -> None:
    until = time.process_time() + milliseconds / 1000
    while time.process_time() < until:
        pass


def _end_as_told(given: dict[str, Any]) -> None:
    if given.get("die"):
        os.kill(os.getpid(), signals.SIGKILL)
    if kind := given.get("fail"):
        wait = given.get("retry_after")
        raise StepFailed(str(kind), "the probe was told to fail", retry_after=wait)


def trace(work: Work, event: str) -> None:
    """Append one line to the trace file; a single write of one line does not interleave."""
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
