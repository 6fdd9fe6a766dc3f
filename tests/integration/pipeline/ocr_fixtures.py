"""Scans that have come as far as OCR, and one played worker that does that step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage
from django.db import connection, transaction

from pipeline import tasks
from pipeline.models import FLOW, Document
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import NORMAL, NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Result
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import DailyUsage, Execution, Lease, Limit, LimitState
from queuemgr.scheduling import limit_rows, routes, wakeups
from queuemgr.worker.leased_task import Work, as_result
from tests.integration.pipeline.steps.ocr_endpoint import VisionEndpoint, numbered_pages


class FarStorage(Storage):
    """Files that have no path here, as those of an object store."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def _open(self, name: str, mode: str = "rb") -> ContentFile[bytes]:
        if name not in self.kept:
            raise FileNotFoundError(name)
        return ContentFile(self.kept[name], name)

    def _save(self, name: str, content: File[bytes]) -> str:
        self.kept[name] = content.read()
        return name

    def exists(self, name: str) -> bool:
        return name in self.kept

    def delete(self, name: str) -> None:
        self.kept.pop(name, None)

    def size(self, name: str) -> int:
        return len(self.kept[name])


class OcrDesk:
    def __init__(self, worker: Any, vision: VisionEndpoint) -> None:
        self.worker, self.vision = worker, vision

    def lay(self, key: str, pages: int, read: int = 0) -> Execution:
        """Have a scan of so many pages wait for OCR, as reading its text layer leaves it; the first
        `read` of them had text."""
        document = Document.objects.create(key=key, kind="file", source=key)
        document.pdf.save(f"pdf/{key}.pdf", ContentFile(numbered_pages(pages)))
        bare = range(read + 1, pages + 1)
        lines = "".join(
            f'{{"number": {n}, "text": "Gates", "source": "pypdf"}}\n' for n in range(1, read + 1)
        )
        lines += "".join(f'{{"number": {n}, "text": "", "source": "failed"}}\n' for n in bare)
        document.pages_file.save(f"pages/{key}.jsonl", ContentFile(lines.encode()))
        context = {"pages_without_text": list(bare)}
        place = get_flow(FLOW).at("prep", "ocr")
        kind = routes.kind_of(place, NORMAL, context, resumed=True)
        with transaction.atomic():  # nobody begins it before it has come so far
            enqueue_many(FLOW, [NewExecution(key, {})])
            Execution.objects.filter(key=key).update(
                phase="prep", step="ocr", context=context, route_id=routes.route_id(kind)
            )
            wakeups.post(limits=[wakeups.EVERYTHING])
        return Execution.objects.get(key=key)

    def begin(self) -> list[Grant]:
        """Every document whose OCR may start now; what follows one is left waiting."""
        dispatch()
        return [grant for grant in self.worker.begin_all() if grant.step == "ocr"]

    def run(self, grant: Grant, signal: AbortSignal | None = None) -> Result:
        """Do the step, and make of an exception what a worker makes of it."""
        signal = signal or AbortSignal()
        try:
            return tasks.ocr_step.run(Work(grant, signal)) or Done()
        except Exception as error:
            return as_result(error, signal)

    def end(self, grant: Grant, result: Result) -> None:
        self.worker.end(grant, result, next_too=False)

    def once(self) -> list[Result]:
        """Run whatever may start now, one after another."""
        results = []
        for grant in self.begin():
            results.append(self.run(grant))
            self.end(grant, results[-1])
        return results

    def allow(self, name: str, count: int) -> None:
        """Let so many run at once under this limit."""
        limit_rows.sync()
        Limit.objects.filter(name=name).update(max_running=count)
        wakeups.post(limits=[wakeups.EVERYTHING])

    def let_wait_end(self) -> None:
        """As if the time had come that executions and open breakers wait for."""
        Execution.objects.update(run_after=database_now())
        LimitState.objects.update(open_until=None)
        wakeups.post(limits=[wakeups.EVERYTHING])

    def kept(self) -> list[Path]:
        """The files of pages kept for a retry."""
        return sorted(Path(settings.MEDIA_ROOT).glob("ocr/*"))


def charged() -> int:
    return sum(DailyUsage.objects.filter(limit="fleet").values_list("spent", flat=True))


def spent() -> int:
    """Requests booked by the one lease there is; asked in a thread of its own."""
    try:
        return Lease.objects.get().spent
    finally:
        connection.close()


def lose_leases() -> None:
    """As if their time had passed; asked in a thread of its own."""
    try:
        Lease.objects.all().delete()
    finally:
        connection.close()
