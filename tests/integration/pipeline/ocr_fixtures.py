"""Scans that have reached OCR, and a fake worker that runs that step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.db import connection

from pipeline.models import Document
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Execution, Lease, Limit, LimitState
from queuemgr.scheduling import limit_rows, wakeups
from tests.integration.pipeline.step_fixtures import StepRunner
from tests.integration.pipeline.steps.ocr_endpoint import VisionEndpoint, numbered_pages


class OcrRunner(StepRunner):
    phase, step = "prep", "ocr"

    def __init__(self, worker: Any, vision: VisionEndpoint) -> None:
        super().__init__(worker)
        self.vision = vision

    def add(self, key: str, pages: int, read: int = 0) -> Execution:
        """Have a scan of `pages` pages wait for OCR; the first `read` of them have a text layer."""
        document = Document.objects.create(key=key, kind="file", source=key)
        document.pdf.save(f"pdf/{key}.pdf", ContentFile(numbered_pages(pages)))
        bare = range(read + 1, pages + 1)
        lines = "".join(
            f'{{"number": {n}, "text": "Gates", "source": "pypdf"}}\n' for n in range(1, read + 1)
        )
        lines += "".join(f'{{"number": {n}, "text": "", "source": "failed"}}\n' for n in bare)
        document.pages_file.save(f"pages/{key}.jsonl", ContentFile(lines.encode()))
        return self.enqueue(key, {"pages_without_text": list(bare)})

    def allow(self, name: str, count: int) -> None:
        """Set `max_running` of this limit."""
        limit_rows.sync()
        Limit.objects.filter(name=name).update(max_running=count)
        wakeups.post(limits=[wakeups.EVERYTHING])

    def let_wait_end(self) -> None:
        """Let the waits of executions and open breakers end now."""
        Execution.objects.update(run_after=database_now())
        LimitState.objects.update(open_until=None)
        wakeups.post(limits=[wakeups.EVERYTHING])

    def checkpoints(self) -> list[Path]:
        """The files with the pages read so far."""
        return sorted(Path(settings.MEDIA_ROOT).glob("ocr/*"))


def spent() -> int:
    """Requests charged to the only lease; called in another thread."""
    try:
        return Lease.objects.get().spent
    finally:
        connection.close()


def lose_leases() -> None:
    """Delete all leases; called in another thread."""
    try:
        Lease.objects.all().delete()
    finally:
        connection.close()
