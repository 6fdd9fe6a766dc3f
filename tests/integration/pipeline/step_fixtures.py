"""A fake worker that runs steps of the papers flow for real, and a storage without local paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage
from django.db import transaction

from pipeline import tasks
from pipeline.models import FLOW
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import NORMAL, NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Result
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution
from queuemgr.scheduling import routes, wakeups
from queuemgr.worker.application_code import as_result
from queuemgr.worker.work import Work
from tests.usage_rows import requests_spent


def run_step(grant: Grant, signal: AbortSignal | None = None) -> Result:
    """Run the step of a lease, and convert an exception as a worker does."""
    signal = signal or AbortSignal()
    step = getattr(tasks, f"{grant.step}_step")
    try:
        return step.run(Work(grant, signal)) or Done()
    except Exception as error:
        return as_result(error, signal)


class StepRunner:
    """Runs one step of documents that have reached it; the steps after it are left waiting."""

    phase = step = ""

    def __init__(self, worker: Any) -> None:
        self.worker = worker

    def enqueue(self, key: str, context: Mapping[str, Any]) -> Execution:
        """Have a document wait for this step."""
        kind = routes.kind_of(get_flow(FLOW).at(self.phase, self.step), NORMAL, context, resumed=True)
        with transaction.atomic():  # nothing starts it before it has reached the step
            enqueue_many(FLOW, [NewExecution(key, {})])
            Execution.objects.filter(key=key).update(
                phase=self.phase, step=self.step, context=context, route_id=routes.ids_of([kind])[kind]
            )
            wakeups.post(limits=[wakeups.EVERYTHING])
        return Execution.objects.get(key=key)

    def begin(self) -> list[Grant]:
        """Begin every lease that may start now."""
        dispatch()
        return [grant for grant in self.worker.begin_all() if grant.step == self.step]

    def run(self, grant: Grant, signal: AbortSignal | None = None) -> Result:
        return run_step(grant, signal)

    def end(self, grant: Grant, result: Result) -> None:
        self.worker.end(grant, result, next_too=False)

    def once(self) -> list[Result]:
        """Run whatever may start now, one after another."""
        results = []
        for grant in self.begin():
            results.append(self.run(grant))
            self.end(grant, results[-1])
        return results


def charged() -> int:
    """Requests charged to the fleet's budget."""
    return requests_spent("fleet")


class RemoteStorage(Storage):
    """Files without a local path, as on an object store."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        if name not in self.files:
            raise FileNotFoundError(name)
        return ContentFile(self.files[name], name)

    def _save(self, name: str, content: File[bytes]) -> str:
        self.files[name] = content.read()
        return name

    def exists(self, name: str) -> bool:
        return name in self.files

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def size(self, name: str) -> int:
        return len(self.files[name])
