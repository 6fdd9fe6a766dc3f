"""A fake worker that runs the fetch step for real, and fakes the step before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.intake import key_of
from pipeline.models import FLOW, Document
from pipeline.steps.identify import host_key, identify
from queuemgr.flows.outcomes import Done, Result
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, Execution, Lease, State
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline.step_fixtures import run_step

MANY = 50
"""More runs of the step than any test needs."""


class Fetching:
    """Runs the fetch step of documents; later steps are never run."""

    def __init__(self, worker: Any, files: Path) -> None:
        self._worker, self.files = worker, files
        self.asked_under: list[str] = []

    def put(self, url: str, *others: str, landing: bool = False, **payload: Any) -> Document:
        """A document found at `url`, and at `others`."""
        rest = [{"url": other, "source": "test", "landing": False} for other in others]
        document, _ = Document.objects.update_or_create(
            key=key_of(identify(url)),
            defaults={"kind": "url", "source": url, "pdf_url": url, "other_urls": rest},
        )
        enqueue(FLOW, document.key, {"kind": "url", **payload})
        found = Done({"host_key": host_key(url), "landing": landing})
        self.work(Execution.objects.get(key=document.key).pk, found)
        return document

    def work(self, execution: int, resolved: Result | None = None) -> Execution:
        """Run the step until this execution waits, has finished the step, or has failed."""
        dispatch()
        grants = [g for g in self._worker.begin_all() if g.execution_id == execution]
        while grants:
            grant = grants.pop()
            if grant.step == "extract":
                break
            result = resolved if grant.step == "resolve" else self._run(grant)
            grants += self._worker.end(grant, result)
        return Execution.objects.get(pk=execution)

    def forget(self) -> None:
        """Delete the executions, but not the documents."""
        Lease.objects.all().delete()
        Execution.objects.all().delete()

    def again(self, execution: Execution) -> Execution:
        """Like `work`, after the backoff has passed."""
        let_time_pass(Execution.objects.filter(pk=execution.pk))
        return self.work(execution.pk)

    def _run(self, grant: Grant) -> Result:
        self.asked_under.append(grant.limit_keys)
        assert len(self.asked_under) < MANY, f"it goes round and round: {self.asked_under[-4:]}"
        return run_step(grant)

    def stored(self) -> list[str]:
        """Every file on the storage."""
        return sorted(str(f.relative_to(self.files)) for f in self.files.rglob("*") if f.is_file())


def execution_of(document: Document) -> Execution:
    return Execution.objects.get(key=document.key)


def is_fetched(document: Document) -> bool:
    """Whether the step is done."""
    execution = execution_of(document)
    return execution.step == "extract" and execution.state in (State.LEASED, State.RUNNING)


def outcomes() -> list[str]:
    """The outcomes of the runs of the step, in order."""
    return list(Attempt.objects.filter(step="fetch").order_by("pk").values_list("outcome", flat=True))
