"""OCR by an endpoint as the queue runs it: what is reserved, booked and charged, and what is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.ocr_config import KEY, REQUESTS, requests_reserved
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.models import Attempt, Execution, Lease, State
from queuemgr.worker.leased_task import Work
from tests.integration.pipeline.ocr_fixtures import OcrDesk, charged, lose_leases, spent
from tests.integration.pipeline.steps.ocr_endpoint import Answer, VisionEndpoint, error, text

pytest.importorskip("pypdfium2")

pytestmark = pytest.mark.django_db(transaction=True)

MODEL = {"ocr_model": "m-1", "ocr_inflight": 4, "ocr_base_delay": 0.01, "ocr_max_delay": 0.05}


@pytest.fixture
def vision(monkeypatch: pytest.MonkeyPatch) -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        for name, value in {**MODEL, "ocr_base_url": endpoint.base_url}.items():
            monkeypatch.setenv(f"SLUICE_{name.upper()}", str(value))
        pipeline_settings.cache_clear()
        yield endpoint
    pipeline_settings.cache_clear()


@pytest.fixture
def desk(
    vision: VisionEndpoint, played: Callable[..., Any], settings: Any, tmp_path: Path
) -> OcrDesk:
    settings.MEDIA_ROOT = tmp_path / "files"
    settings.SLUICE_SCRATCH = tmp_path / "scratch"
    return OcrDesk(played(slots=8), vision)


# ---- what is reserved and charged


def test_a_request_a_page_and_some_are_reserved_and_the_rest_is_given_back(desk: OcrDesk) -> None:
    desk.lay("scan", pages=6)
    (grant,) = desk.begin()
    assert Lease.objects.get().cost == requests_reserved(pipeline_settings(), 6) > 6
    assert grant.limit_keys == KEY
    desk.end(grant, desk.run(grant))
    assert (charged(), len(desk.vision.asked)) == (6, 6)
    assert Document.objects.get().pages_by == {"ocr": 6}


def test_each_request_is_booked_before_it_is_sent(desk: OcrDesk) -> None:
    """A worker that dies at any moment has said at least as much as it sent."""
    short: list[tuple[int, int]] = []

    def usual(asked: Any) -> Any:
        sent, booked = len(desk.vision.asked), spent()
        if booked < sent:
            short.append((booked, sent))
        return text(f"page {asked.page}")

    desk.vision.usual = usual
    desk.lay("scan", pages=8)
    desk.once()
    assert short == []


def test_what_was_reserved_is_never_passed_however_often_pages_fail(desk: OcrDesk) -> None:
    """Six pages, three of them never to be read: second tries end with what is spare."""
    desk.vision.usual = lambda asked: error(503) if asked.page % 2 else text(f"page {asked.page}")
    desk.lay("scan", pages=7)
    desk.once()
    assert len(desk.vision.asked) == charged() <= requests_reserved(pipeline_settings(), 7)


def test_a_document_takes_a_token_for_each_page_it_has_at_the_endpoint(desk: OcrDesk) -> None:
    """Two documents of four places each do not fit in six; the second waits for the first."""
    desk.allow(REQUESTS, 6)
    desk.lay("one", pages=9)
    desk.lay("two", pages=9)
    (first,) = desk.begin()
    assert f"{REQUESTS}=4" in Lease.objects.get().tokens.split()
    assert desk.begin() == []
    desk.end(first, desk.run(first))
    assert [grant.key for grant in desk.begin()] == ["two"]
    assert desk.vision.most_at_once <= 4


def test_a_request_that_cannot_be_booked_is_not_sent_and_is_no_attempt(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7-11: no reservation, no call; and nothing is charged."""

    def away(work: Work, requests: int = 1) -> None:
        raise OperationalError("database is locked")

    desk.lay("scan", pages=3)
    with monkeypatch.context() as broken:
        broken.setattr(Work, "spend", away)
        (result,) = desk.once()
    assert isinstance(result, Snoozed) and "booking" in result.reason
    assert (desk.vision.asked, charged()) == ([], 0)
    assert Attempt.objects.get().outcome == "snoozed"


def test_a_failure_nobody_named_costs_what_was_booked(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("pipeline.tasks.ocr.raise_for_outage", broken)
    desk.lay("scan", pages=3)
    (result,) = desk.once()
    assert isinstance(result, Failed)
    assert (result.kind, result.cost, charged()) == ("unexpected", 3, 3)


def test_what_ocr_asked_and_used_is_in_the_document_failed_answers_and_attempts_too(
    desk: OcrDesk,
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 9}
    used_some = replace(text("x"), body=text("x").body | {"usage": usage})
    desk.vision.next_for[1] = [Answer({"error": {"message": "no"}, "usage": usage}, 503)]
    desk.vision.usual = lambda asked: (
        error(429, Retry_After="600") if asked.page == 3 else used_some
    )
    desk.lay("scan", pages=3)
    (result,) = desk.once()
    assert result.kind == "rate_limited"
    document = Document.objects.get()
    assert document.requests == len(desk.vision.asked)
    desk.vision.usual = lambda asked: used_some
    desk.let_wait_end()
    desk.once()
    document.refresh_from_db()
    assert document.pages_by == {"ocr": 3}
    assert document.requests == len(desk.vision.asked)
    used = len([asked for asked in desk.vision.asked if asked.page != 3]) + 1
    assert (document.prompt_tokens, document.completion_tokens) == (100 * used, 9 * used)


# ---- what an endpoint that fails comes to


def test_an_endpoint_that_is_away_fails_the_step_and_closes_its_limit(desk: OcrDesk) -> None:
    desk.vision.usual = lambda asked: error(429, Retry_After="600")
    desk.lay("scan", pages=5)
    (result,) = desk.once()
    assert (result.kind, result.limit) == ("rate_limited", KEY)
    assert 500 < result.retry_after <= 600
    waiting = Execution.objects.get()
    assert (waiting.state, Attempt.objects.get().outcome) == (State.WAITING, "retried")
    assert charged() == len(desk.vision.asked) <= 5
    desk.lay("other", pages=2)
    assert desk.begin() == [], "others under the limit wait too"


def test_a_refused_key_fails_the_step_with_the_status_and_without_the_key(desk: OcrDesk) -> None:
    desk.vision.usual = lambda asked: error(401, "who are you")
    desk.lay("scan", pages=5)
    (result,) = desk.once()
    assert (result.kind, result.limit) == ("http_error", KEY)
    assert Execution.objects.get().state == State.FAILED


def test_a_page_that_cannot_be_read_is_named_and_the_document_goes_on(desk: OcrDesk) -> None:
    """P7-13"""
    desk.vision.next_for[2] = [error(400, "no")]
    desk.lay("scan", pages=4)
    desk.once()
    document = Document.objects.get()
    assert document.pages_by == {"ocr": 3, "failed": 1}
    assert "page(s) 2:" in document.problem
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
    desk: OcrDesk, refusal: Answer, kind: str
) -> None:
    """The last pages of eight are refused: fewer than half, and yet none is lost for good."""
    desk.vision.next_for[8] = [replace(refusal, delay=0.5)]
    desk.lay("scan", pages=8)
    (result,) = desk.once()
    assert isinstance(result, Failed)
    assert (result.kind, result.limit) == (kind, KEY)
    (kept,) = desk.kept()
    assert kept.read_text().count('"page"') == 7


@pytest.mark.parametrize("kind", ["crashed", "over_reserved", "bad_request", "storage"])
def test_a_failure_that_is_not_the_documents_is_not_swallowed_for_the_text_there_is(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    result = _failing(desk, monkeypatch, StepFailed(kind, "not today"))
    assert isinstance(result, Failed) and result.kind == kind


@pytest.mark.parametrize("kind", ["encrypted", "damaged", "resource_limit", "no_pages"])
def test_a_document_with_some_text_goes_on_where_no_attempt_could_read_its_pictures(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    result = _failing(desk, monkeypatch, StepFailed(kind, "never"))
    assert isinstance(result, Done)
    assert Document.objects.get().pages_by == {"pypdf": 1, "failed": 2}


def _failing(desk: OcrDesk, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Result:
    """What the step ends with when reading raises this, of a document whose first page has text."""

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("pipeline.tasks.ocr.ocr", broken)
    desk.lay("scan", pages=3, read=1)
    (result,) = desk.once()
    return result


# ---- a retry


def test_a_retry_does_not_pay_again_for_pages_that_were_read(desk: OcrDesk) -> None:
    """Two pages are read, then the endpoint goes away; the next attempt asks for the others."""
    desk.vision.usual = lambda asked: text(f"page {asked.page}") if asked.page <= 2 else error(503)
    desk.lay("scan", pages=8)
    (result,) = desk.once()
    assert result.kind == "server_error"
    before = len(desk.vision.asked)
    desk.vision.usual = lambda asked: text(f"page {asked.page}")
    desk.let_wait_end()
    desk.once()
    again = [asked.page for asked in desk.vision.asked[before:]]
    assert sorted(again) == [3, 4, 5, 6, 7, 8]
    assert charged() == len(desk.vision.asked)
    document = Document.objects.get()
    assert document.pages_by == {"ocr": 8}
    assert desk.kept() == [], "what was kept for a retry is gone with the step"


def test_pages_read_before_a_worker_died_are_not_paid_again(desk: OcrDesk) -> None:
    """The lease is lost while page 6 is asked for; what was read is on disk, though page 2, for
    which all after it wait in order, never came."""
    desk.lay("scan", pages=6)
    (grant,) = desk.begin()

    def lost(asked: Any) -> Any:
        if asked.page == 6:
            lose_leases()
            return replace(error(503), delay=0.5)  # until the pages before it are through
        if asked.page == 2:
            return replace(error(503), delay=0.3)
        return text(f"page {asked.page}")

    desk.vision.usual = lost
    result = desk.run(grant)
    assert type(result).__name__ == "Interrupted"
    (kept,) = desk.kept()
    assert kept.read_text().count('"page"') == 4
    assert not Document.objects.get().text, "whoever lost its lease stores nothing"


@pytest.mark.parametrize(
    "ending", [Aborted("stop"), LeaseLost("gone"), OperationalError("away"), OSError("full")]
)
def test_whatever_ends_an_attempt_what_it_paid_for_is_kept_on_a_storage_that_is_no_disk(
    desk: OcrDesk, settings: Any, monkeypatch: pytest.MonkeyPatch, ending: Exception
) -> None:
    def broken(*_: object) -> None:
        raise ending

    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "tests.integration.ocr_desk.FarStorage"},
    }
    desk.lay("scan", pages=3)
    with monkeypatch.context() as away:
        away.setattr("pipeline.tasks.ocr.raise_for_outage", broken)
        desk.once()
    desk.let_wait_end()
    desk.once()
    assert sorted(desk.vision.pages()) == [1, 2, 3]
    assert Document.objects.get().pages_by == {"ocr": 3}


def test_pages_kept_that_cannot_be_removed_fail_nothing(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is over and stored by then; what is left is cleared by `files.cleanup`."""

    def broken(name: str) -> None:
        raise PermissionError(name)

    desk.lay("scan", pages=2)
    monkeypatch.setattr(files.default_storage, "delete", broken)
    (result,) = desk.once()
    assert isinstance(result, Done)
    assert Attempt.objects.get().outcome == "done"
    assert len(desk.kept()) == 1


def test_pages_kept_for_a_retry_that_never_came_are_cleared_after_a_month(
    desk: OcrDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.cleanup() == 0, "there is no folder of them yet"
    for name in ("old-1", "old-2", "young"):
        files.default_storage.save(f"{files.PARTS}/{name}.jsonl", ContentFile(b"x"))
    *old, young = desk.kept()
    for path in old:
        month_ago = time.time() - files.PART_DAYS * 24 * 3600 - 60
        os.utime(path, (month_ago, month_ago))
    monkeypatch.setattr(files, "PARTS_LOOKED_AT", 3)
    assert files.cleanup() == 2
    assert desk.kept() == [young]


def test_parts_are_looked_at_so_many_at_a_time_and_a_storage_without_lists_is_left_alone(
    desk: OcrDesk, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PARTS_LOOKED_AT", 2)
    for number in range(5):
        files.default_storage.save(f"{files.PARTS}/{number}.jsonl", ContentFile(b"x"))
    for path in desk.kept():
        os.utime(path, (1, 1))
    assert [files.cleanup(), len(desk.kept())] == [2, 3]
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "tests.integration.ocr_desk.FarStorage"},
    }
    assert files.cleanup() == 0
