"""A report is written in three formats, replaces the one before it, and is safe from lost leases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from pipeline import intake
from pipeline.models import FLOW, Document
from queuemgr.flows.outcomes import Done, Interrupted
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Lease
from tests.integration.pipeline.step_fixtures import run_step

pytestmark = pytest.mark.django_db(transaction=True)

PAPER = Path(__file__).resolve().parents[3] / "samples" / "author-year.pdf"
FORMS = ("report_markdown", "report_json", "report_html")
OVERWRITES = "django.core.files.storage.FileSystemStorage"
KEEPS_BOTH = {"BACKEND": OVERWRITES, "OPTIONS": {"allow_overwrite": False}}


class Reporter:
    """A fake worker that runs the steps of one paper up to its report."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        enqueue_many(FLOW, [intake.parse_item(str(PAPER))])

    def begun(self) -> Grant:
        """The lease of its report step."""
        (grant,) = self.worker.begin_all()
        while grant.step != "report":
            (grant,) = self.worker.end(grant, run_step(grant))
        return grant


@pytest.fixture
def reporter(played: Callable[..., Any]) -> Reporter:
    return Reporter(played(slots=1))


def reports(settings: Any) -> dict[str, bytes]:
    """Every report on the storage."""
    return {p.name: p.read_bytes() for p in Path(settings.MEDIA_ROOT, "reports").iterdir()}


def read(document: Document, form: str) -> str:
    with getattr(document, form).open("rb") as stored:
        return str(stored.read().decode())


def test_a_report_has_three_formats_with_the_same_content(reporter: Reporter) -> None:
    grant = reporter.begun()
    references = [{"text": "[1] On seals.", "doi": "10.1000/182", "arxiv_id": ""}]
    lines = "".join(json.dumps(line) + "\n" for line in references)
    Document.objects.update(
        authors=["Ada Brook"], year=2024, licence="CC BY", doi="10.5555/1",
        lookups=[{"source": "crossref", "found": True}], prompt_tokens=9,
        references_file=default_storage.save("references/r.jsonl", ContentFile(lines.encode())),
    )  # fmt: skip
    reporter.worker.end(grant, run_step(grant))
    document = Document.objects.get()
    report = json.loads(read(document, "report_json"))
    assert report["references"]["list"] == references
    assert report["pages"]["read"] == [{"source": "pdfium", "numbers": [1, 2, 3, 4, 5], "reason": ""}]
    for form in ("report_markdown", "report_html"):
        text = read(document, form)
        for fact in ("Ada Brook", "CC BY", "10.5555/1", "crossref", "found: yes", "On seals."):
            assert fact in text, form
    assert "https://doi.org/10.1000/182" in read(document, "report_html")


@pytest.mark.parametrize("storage", ["replaces", "keeps both"])
def test_a_report_made_again_leaves_no_copy_of_the_one_before(
    storage: str, reporter: Reporter, settings: Any
) -> None:
    """Also on a storage that renames a file if its name is taken."""
    if storage == "keeps both":
        settings.STORAGES = {**settings.STORAGES, "default": KEEPS_BOTH}
    grant = reporter.begun()
    Document.objects.update(title="The first title")
    first = run_step(grant)
    assert isinstance(first, Done) and first.store
    first.store()
    Document.objects.update(title="The second title")
    reporter.worker.end(grant, run_step(grant))
    document = Document.objects.get()
    assert len(reports(settings)) == 3
    assert all("The second title" in read(document, form) for form in FORMS)


def test_a_lost_lease_harms_no_report_made_earlier(reporter: Reporter, settings: Any) -> None:
    grant = reporter.begun()
    first = run_step(grant)
    assert isinstance(first, Done) and first.store
    first.store()
    earlier, row = reports(settings), Document.objects.values().get()
    Document.objects.update(title="Another title")
    Lease.objects.all().delete()
    assert isinstance(run_step(grant), Interrupted)
    Document.objects.update(title=row["title"])
    assert reports(settings) == earlier and len(earlier) == 3
    assert Document.objects.values().get() == row
    assert not any(Path(settings.SLUICE_SCRATCH).iterdir())


def test_a_report_of_a_paper_whose_pages_and_references_are_gone_is_still_written(reporter: Reporter) -> None:
    grant = reporter.begun()
    default_storage.delete(Document.objects.get().pages_file.name)
    Document.objects.update(references_file="references/never-made.jsonl")
    reporter.worker.end(grant, run_step(grant))
    assert json.loads(read(Document.objects.get(), "report_json"))["pages"]["read"] == []
