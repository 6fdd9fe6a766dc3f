"""OCR by an endpoint, run by the queue: what is reserved and charged, and what is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.ocr_config import OCR_LIMIT, OCR_REQUESTS, requests_reserved
from pipeline.steps.pdf.drawing_time import OVER
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.models import Attempt, Execution, Lease, State
from queuemgr.worker.work import Work
from tests.integration.pipeline.ocr_fixtures import OcrRunner, lose_leases, spent
from tests.integration.pipeline.step_fixtures import charged
from tests.integration.pipeline.steps.ocr_endpoint import Answer, VisionEndpoint, error, text
from tests.pdf_builder import slow_to_draw

pytest.importorskip("pypdfium2")

pytestmark = pytest.mark.django_db(transaction=True)

MODEL = {"ocr_model": "m-1", "ocr_inflight": 4, "ocr_base_delay": 0.01, "ocr_max_delay": 0.05}


@pytest.fixture
def vision(set_settings: Callable[..., None]) -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        set_settings(**MODEL, ocr_base_url=endpoint.base_url)
        yield endpoint


@pytest.fixture
def runner(vision: VisionEndpoint, played: Callable[..., Any]) -> OcrRunner:
    return OcrRunner(played(slots=8), vision)


# ---- files that exhaust what draws them


def test_a_scan_too_slow_to_draw_ends_as_exceeding_its_limits(
    runner: OcrRunner, set_settings: Callable[..., None]
) -> None:
    """Its place is free after seconds, and no page of it is sent."""
    set_settings(page_seconds=0.5, document_seconds=0.9, ocr_renderers=1)
    execution = runner.add("bomb", pages=500)
    document = Document.objects.get()
    document.pdf.save("pdf/bomb.pdf", ContentFile(slow_to_draw(500)))
    runner.once()
    execution.refresh_from_db()
    assert (execution.state, execution.error_kind) == (State.FAILED, "resource_limit")
    assert OVER in execution.error_message
    assert runner.vision.requests == []


# ---- what is reserved and charged


def test_a_request_per_page_and_spares_are_reserved_and_the_unused_ones_refunded(runner: OcrRunner) -> None:
    runner.add("scan", pages=6)
    (grant,) = runner.begin()
    assert Lease.objects.get().cost == requests_reserved(pipeline_settings(), 6) > 6
    assert grant.limit_keys == OCR_LIMIT
    runner.end(grant, runner.run(grant))
    assert (charged(), len(runner.vision.requests)) == (6, 6)
    assert Document.objects.get().pages_by == {"ocr": 6}


def test_each_request_is_charged_before_it_is_sent(runner: OcrRunner) -> None:
    """A worker that dies at any moment has been charged for at least what it sent."""
    short: list[tuple[int, int]] = []

    def usual(request: Any) -> Any:
        sent, booked = len(runner.vision.requests), spent()
        if booked < sent:
            short.append((booked, sent))
        return text(f"page {request.page}")

    runner.vision.usual = usual
    runner.add("scan", pages=8)
    runner.once()
    assert short == []


def test_the_reservation_is_never_exceeded_however_often_pages_fail(runner: OcrRunner) -> None:
    """Seven pages, four of which always fail: retries end when the spare requests are used."""
    runner.vision.usual = lambda request: error(503) if request.page % 2 else text(f"page {request.page}")
    runner.add("scan", pages=7)
    runner.once()
    assert len(runner.vision.requests) == charged() <= requests_reserved(pipeline_settings(), 7)


def test_a_document_takes_a_share_for_each_page_it_has_at_the_endpoint(runner: OcrRunner) -> None:
    """Two documents of four shares each do not fit in six; the second waits for the first."""
    runner.allow(OCR_REQUESTS, 6)
    runner.add("one", pages=9)
    runner.add("two", pages=9)
    (first,) = runner.begin()
    assert f"{OCR_REQUESTS}=4" in Lease.objects.get().resources.split()
    assert runner.begin() == []
    runner.end(first, runner.run(first))
    assert [grant.key for grant in runner.begin()] == ["two"]
    assert runner.vision.most_at_once <= 4


def test_a_request_that_cannot_be_charged_is_not_sent_and_is_no_attempt(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reservation, no call; and nothing is charged."""

    def away(work: Work, requests: int = 1) -> None:
        raise OperationalError("database is locked")

    runner.add("scan", pages=3)
    with monkeypatch.context() as broken:
        broken.setattr(Work, "record_requests", away)
        (result,) = runner.once()
    assert isinstance(result, Snoozed) and "charge" in result.reason
    assert (runner.vision.requests, charged()) == ([], 0)
    assert Attempt.objects.get().outcome == "snoozed"


def test_an_unexpected_failure_costs_what_was_charged(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("pipeline.tasks.ocr.raise_for_outage", broken)
    runner.add("scan", pages=3)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert (result.kind, result.cost, charged()) == ("unexpected", 3, 3)


def test_requests_and_tokens_of_ocr_are_stored_with_the_document_failed_ones_too(runner: OcrRunner) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 9}
    used_some = replace(text("x"), body=text("x").body | {"usage": usage})
    runner.vision.next_for[1] = [Answer({"error": {"message": "no"}, "usage": usage}, 503)]
    runner.vision.usual = lambda request: error(429, Retry_After="600") if request.page == 3 else used_some
    runner.add("scan", pages=3)
    (result,) = runner.once()
    assert result.kind == "rate_limited"
    document = Document.objects.get()
    assert document.requests == len(runner.vision.requests)
    runner.vision.usual = lambda request: used_some
    runner.let_wait_end()
    runner.once()
    document.refresh_from_db()
    assert document.pages_by == {"ocr": 3}
    assert document.requests == len(runner.vision.requests)
    used = len([request for request in runner.vision.requests if request.page != 3]) + 1
    assert (document.prompt_tokens, document.completion_tokens) == (100 * used, 9 * used)


# ---- what an endpoint that fails comes to


def test_an_unreachable_endpoint_fails_the_step_and_opens_its_breaker(runner: OcrRunner) -> None:
    runner.vision.usual = lambda request: error(429, Retry_After="600")
    runner.add("scan", pages=5)
    (result,) = runner.once()
    assert (result.kind, result.limit) == ("rate_limited", OCR_LIMIT)
    assert 500 < result.retry_after <= 600
    waiting = Execution.objects.get()
    assert (waiting.state, Attempt.objects.get().outcome) == (State.WAITING, "retried")
    assert charged() == len(runner.vision.requests) <= 5
    runner.add("other", pages=2)
    assert runner.begin() == [], "others under the limit wait too"


def test_a_refused_key_fails_the_step_with_the_status_and_without_the_key(runner: OcrRunner) -> None:
    runner.vision.usual = lambda request: error(401, "who are you")
    runner.add("scan", pages=5)
    (result,) = runner.once()
    assert (result.kind, result.limit) == ("http_error", OCR_LIMIT)
    assert Execution.objects.get().state == State.FAILED


def test_an_unreadable_page_is_named_and_the_document_continues(runner: OcrRunner) -> None:
    runner.vision.next_for[2] = [error(400, "no")]
    runner.add("scan", pages=4)
    runner.once()
    document = Document.objects.get()
    assert document.pages_by == {"ocr": 3, "failed": 1}
    assert "Page 2 could not be read by OCR:" in document.problem
    with document.text.open() as read:
        assert read.read().count(b"page ") == 3


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (error(429, Retry_After="600"), "rate_limited"),
        (error(402, "no funds"), "quota"),
        (error(503, Retry_After="600"), "server_error"),
    ],
)
def test_one_refusal_that_passes_gives_up_no_page_and_keeps_what_was_read(
    runner: OcrRunner, refusal: Answer, kind: str
) -> None:
    """The last pages of eight are refused: fewer than half, and still none is lost for good."""
    runner.vision.next_for[8] = [replace(refusal, delay=0.5)]
    runner.add("scan", pages=8)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert (result.kind, result.limit) == (kind, OCR_LIMIT)
    (kept,) = runner.checkpoints()
    assert kept.read_text().count('"page"') == 7


@pytest.mark.parametrize("kind", ["crashed", "over_reserved", "bad_request", "storage"])
def test_a_failure_that_is_not_the_documents_is_not_swallowed_for_the_text_there_is(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    result = _failing(runner, monkeypatch, StepFailed(kind, "not today"))
    assert isinstance(result, Failed) and result.kind == kind


@pytest.mark.parametrize("kind", ["encrypted", "damaged", "resource_limit", "no_pages"])
def test_a_document_with_some_text_continues_where_no_attempt_could_read_its_pictures(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    result = _failing(runner, monkeypatch, StepFailed(kind, "never"))
    assert isinstance(result, Done)
    assert Document.objects.get().pages_by == {"pypdf": 1, "failed": 2}


def _failing(runner: OcrRunner, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Result:
    """The result if reading raises this error, for a document whose first page has text."""

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("pipeline.tasks.ocr.ocr", broken)
    runner.add("scan", pages=3, read=1)
    (result,) = runner.once()
    return result


# ---- a retry


def test_a_retry_does_not_pay_again_for_pages_that_were_read(runner: OcrRunner) -> None:
    """Two pages are read, then the endpoint fails; the next attempt requests the others."""
    runner.vision.usual = lambda request: text(f"page {request.page}") if request.page <= 2 else error(503)
    runner.add("scan", pages=8)
    (result,) = runner.once()
    assert result.kind == "server_error"
    before = len(runner.vision.requests)
    runner.vision.usual = lambda request: text(f"page {request.page}")
    runner.let_wait_end()
    runner.once()
    again = [request.page for request in runner.vision.requests[before:]]
    assert sorted(again) == [3, 4, 5, 6, 7, 8]
    assert charged() == len(runner.vision.requests)
    document = Document.objects.get()
    assert document.pages_by == {"ocr": 8}
    assert runner.checkpoints() == [], "what was kept for a retry is gone with the step"


def test_pages_read_before_a_worker_died_are_not_paid_again(runner: OcrRunner) -> None:
    """The lease is lost during page 6; the pages read are on disk, although page 2, which
    precedes them in order, was never read."""
    runner.add("scan", pages=6)
    (grant,) = runner.begin()

    def pages_kept() -> int:
        return sum(kept.read_text().count('"page"') for kept in runner.checkpoints())

    def lost(request: Any) -> Any:
        if request.page == 6:
            lose_leases()
            deadline = time.monotonic() + 20
            while pages_kept() < 4 and time.monotonic() < deadline:
                time.sleep(0.02)
            return error(503)
        if request.page == 2:
            return replace(error(503), delay=0.3)
        return text(f"page {request.page}")

    runner.vision.usual = lost
    result = runner.run(grant)
    assert type(result).__name__ == "Interrupted"
    assert pages_kept() == 4
    assert not Document.objects.get().text, "whoever lost its lease stores nothing"


@pytest.mark.parametrize(
    "ending", [Aborted("stop"), LeaseLost("gone"), OperationalError("away"), OSError("full")]
)
def test_whatever_ends_an_attempt_what_it_paid_for_is_kept_on_a_remote_storage(
    runner: OcrRunner, settings: Any, monkeypatch: pytest.MonkeyPatch, ending: Exception
) -> None:
    def broken(*_: object) -> None:
        raise ending

    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "tests.integration.pipeline.step_fixtures.RemoteStorage"},
    }
    runner.add("scan", pages=3)
    with monkeypatch.context() as away:
        away.setattr("pipeline.tasks.ocr.raise_for_outage", broken)
        runner.once()
    runner.let_wait_end()
    runner.once()
    assert sorted(runner.vision.pages()) == [1, 2, 3]
    assert Document.objects.get().pages_by == {"ocr": 3}


def test_a_checkpoint_that_cannot_be_removed_fails_nothing(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is finished and stored by then; `files.cleanup` removes the file later."""

    def broken(name: str) -> None:
        raise PermissionError(name)

    runner.add("scan", pages=2)
    monkeypatch.setattr(default_storage, "delete", broken)
    (result,) = runner.once()
    assert isinstance(result, Done)
    assert Attempt.objects.get().outcome == "done"
    assert len(runner.checkpoints()) == 1


def test_checkpoints_for_a_retry_that_never_came_are_removed_after_a_month(
    runner: OcrRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.cleanup() == 0, "there is no folder of them yet"
    for name in ("old-1", "old-2", "young"):
        default_storage.save(f"{files.OCR_CHECKPOINTS}/{name}.jsonl", ContentFile(b"x"))
    *old, young = runner.checkpoints()
    for path in old:
        month_ago = time.time() - files.CHECKPOINT_DAYS * 24 * 3600 - 60
        os.utime(path, (month_ago, month_ago))
    monkeypatch.setattr(files, "CHECKPOINTS_PER_CLEANUP", 3)
    assert files.cleanup() == 2
    assert runner.checkpoints() == [young]


def test_checkpoints_are_checked_by_samples_and_storages_that_cannot_list_are_skipped(
    runner: OcrRunner, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHECKPOINTS_PER_CLEANUP", 2)
    for number in range(5):
        default_storage.save(f"{files.OCR_CHECKPOINTS}/{number}.jsonl", ContentFile(b"x"))
    for path in runner.checkpoints():
        os.utime(path, (1, 1))
    assert [files.cleanup(), len(runner.checkpoints())] == [2, 3]
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "tests.integration.pipeline.step_fixtures.RemoteStorage"},
    }
    assert files.cleanup() == 0
