"""Pages at a vision endpoint: order, bounds, retries, and the outcome of each answer."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.llm.client import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions, OcrResult, ocr, page_outcomes, raise_for_outage
from pipeline.steps.ocr.page_map import Pacing
from pipeline.steps.ocr.vision import RemoteOptions
from pipeline.steps.pdf.page_outcomes import PageOutcome
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.integration.pipeline.steps.ocr_endpoint import (
    Answer,
    VisionEndpoint,
    error,
    numbered_pages,
    plain,
    text,
)
from tests.pdf_builder import written

pytest.importorskip("pypdfium2")

KEY = "sk-ocr-0123456789abcdef"
QUICK = Pacing(inflight=8, window=16, max_retries=3, base_delay=0.02, max_delay=0.1)


@pytest.fixture
def vision() -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        yield endpoint


def options(vision: VisionEndpoint, pacing: Pacing = QUICK, **more: Any) -> OcrOptions:
    timeout = more.pop("timeout", 10.0)
    endpoint = Endpoint(vision.base_url, "m", KEY, timeout)
    return OcrOptions(remote=RemoteOptions(endpoint, pacing, **more))


def read(
    vision: VisionEndpoint, folder: Path, pages: int = 1, pacing: Pacing = QUICK, **more: Any
) -> OcrResult:
    pdf = written(folder, numbered_pages(pages))
    return ocr(pdf, range(1, pages + 1), options(vision, pacing, **more), NEVER)


def only(result: OcrResult) -> PageOutcome:
    (outcome,) = result.outcomes
    return outcome


# ---- order and bounds


def test_pages_come_out_in_order_however_long_each_takes(vision: VisionEndpoint, tmp_path: Path) -> None:
    rng = random.Random(7)
    vision.usual = lambda request: text(f"page {request.page}", delay=rng.uniform(0, 0.1))
    found = read(vision, tmp_path, 60)
    assert [outcome.page for outcome in found.outcomes] == list(range(1, 61))
    assert [outcome.text for outcome in found.outcomes] == [f"page {n}" for n in range(1, 61)]


def test_no_more_requests_are_under_way_than_allowed_and_that_many_are(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    """No answer is sent before `count` requests wait, or ten seconds have passed: on a busy machine
    rendering a page may take longer than any delay a test would choose."""
    as_many_as_may = threading.Event()

    def usual(request: Any) -> Answer:
        if vision.most_at_once >= QUICK.inflight:
            as_many_as_may.set()
        as_many_as_may.wait(10)
        return text(f"page {request.page}", delay=0.1)

    vision.usual = usual
    read(vision, tmp_path, 24, timeout=30.0)
    assert vision.most_at_once == QUICK.inflight


def test_nothing_is_sent_that_lies_a_window_ahead_of_the_oldest_page_unfinished(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    """The first page is slow; the window of 16 ends at page 16."""
    vision.next_for[1] = [text("late", delay=1.5)]
    beyond: list[int] = []

    def usual(request: Any) -> Answer:
        if request.page > 16 and time.monotonic() < vision.requests_for(1)[0].at + 1.4:
            beyond.append(request.page)
        return text(f"page {request.page}")

    vision.usual = usual
    found = read(vision, tmp_path, 40)
    assert beyond == []
    assert found.outcomes[0].text == "late"
    assert len(found.pages) == 40


def test_several_children_render_every_page_once_and_rotated_ones_too(
    vision: VisionEndpoint, tmp_path: Path, loop_stays_quiet: None
) -> None:
    vision.next_for[8] = [text("sideways", valid=False, rotation=90)]
    found = read(vision, tmp_path, 41, renderers=3)
    assert [outcome.text for outcome in found.outcomes] == [f"page {n}" for n in range(1, 42)]
    assert sorted(vision.pages()) == sorted([*range(1, 42), 8])
    assert [request.turned for request in vision.requests_for(8)] == [False, True]


def test_a_reader_that_stops_reading_stops_the_requests(vision: VisionEndpoint, tmp_path: Path) -> None:
    pdf = written(tmp_path, numbered_pages(60))

    async def read_five_and_wait() -> int:
        outcomes = page_outcomes(pdf, range(1, 61), options(vision), NEVER)
        async with aclosing(outcomes):
            for _ in range(5):
                await anext(outcomes)
            await asyncio.sleep(1.0)
            return max(vision.pages())

    assert asyncio.run(read_five_and_wait()) <= 5 + QUICK.window


def test_a_blank_page_is_never_sent(vision: VisionEndpoint, tmp_path: Path) -> None:
    pdf = written(tmp_path, numbered_pages(3, blank=(2,)))
    found = ocr(pdf, [1, 2, 3], options(vision), NEVER)
    assert sorted(vision.pages()) == [1, 3]
    assert found.blank == (2,)
    assert found.outcomes[1].as_line() == {
        "page": 2, "status": "ok", "attempts": 0, "text": "", "blank": True,
    }  # fmt: skip


def test_an_abort_ends_it_at_once_and_leaves_nothing_running(
    vision: VisionEndpoint, tmp_path: Path, loop_stays_quiet: None
) -> None:
    vision.usual = lambda request: text("late", delay=5.0)
    signal = AbortSignal()
    pdf = written(tmp_path, numbered_pages(30))

    async def aborted() -> float:
        asyncio.get_running_loop().call_later(1.0, signal.abort, "stop")
        async with aclosing(page_outcomes(pdf, range(1, 31), options(vision), signal)) as outcomes:
            with pytest.raises(Aborted):
                await anext(outcomes)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    asyncio.run(aborted())
    assert time.monotonic() - began < 12.0


# ---- what is sent


def test_a_request_names_the_model_and_shows_the_page_as_jpeg_1288_high(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    read(vision, tmp_path)
    (request,) = vision.requests
    assert (request.form, request.size) == ("jpeg", (401, 1288))
    assert request.body["model"] == "m"
    assert (request.body["max_tokens"], request.body["temperature"]) == (8000, 0)
    prompt = request.body["messages"][0]["content"][0]["text"]
    assert "rotation_correction" in prompt


def test_the_front_matter_is_no_part_of_the_text(vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[1] = [text("# Weirs\n\nWater rose.")]
    assert only(read(vision, tmp_path)).text == "# Weirs\n\nWater rose."


def test_a_rotated_page_is_rendered_upright_once_and_requested_again(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.next_for[1] = [text("sideways", valid=False, rotation=90), text("upright")]
    outcome = only(read(vision, tmp_path))
    assert (outcome.text, outcome.attempts) == ("upright", 2)
    assert [request.turned for request in vision.requests] == [False, True]


def test_a_page_the_model_never_finds_upright_is_not_rotated_endlessly(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.next_for[1] = [text(f"try {n}", valid=False, rotation=90) for n in range(9)]
    outcome = only(read(vision, tmp_path))
    assert (outcome.text, outcome.attempts) == ("try 1", 2)


# ---- retries


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408, 409, 425])
def test_transient_failures_are_retried(status: int, vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[1] = [error(status), error(status)]
    outcome = only(read(vision, tmp_path))
    assert (outcome.text, outcome.attempts) == ("page 1", 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_permanent_failures_are_not_retried(status: int, vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[1] = [error(status)]
    line = only(read(vision, tmp_path)).as_line()
    assert (line["error_kind"], line["http_status"], line["attempts"]) == ("HttpError", status, 1)


def test_a_page_is_tried_one_and_max_retries_times_at_most(vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.usual = lambda request: error(503)
    line = only(read(vision, tmp_path)).as_line()
    assert (line["error_kind"], line["http_status"], line["attempts"]) == ("HttpError", 503, 4)
    assert len(vision.requests) == 4


def test_an_answer_that_does_not_come_is_a_timeout_and_a_dead_port_a_network_error(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.usual = lambda request: text("late", delay=1.5)
    once = replace(QUICK, max_retries=0)
    slow = only(read(vision, tmp_path, pacing=once, timeout=0.5)).as_line()
    assert (slow["error_kind"], "http_status" in slow) == ("Timeout", False)
    endpoint = Endpoint("http://127.0.0.1:9/v1", "m")
    pdf = written(tmp_path, numbered_pages(1))
    dead = ocr(pdf, [1], OcrOptions(remote=RemoteOptions(endpoint, once)), NEVER)
    assert only(dead).as_line()["error_kind"] == "NetworkError"


@pytest.mark.parametrize("header", [{"Retry_After": "6"}, {"retry_after_ms": "6000"}])
def test_a_retry_after_holds_back_every_page_of_the_document(
    header: dict[str, str], vision: VisionEndpoint, tmp_path: Path
) -> None:
    """One page gets a Retry-After while others are running: no request is sent until then."""
    vision.usual = lambda request: text(f"page {request.page}", delay=0.2)
    vision.next_for[1] = [error(429, **header)]
    found = read(vision, tmp_path, 24)
    throttled_at = vision.requests_for(1)[0].at
    # On a busy machine requests already sent reach the server late, and its answer reaches us late.
    during = [a.page for a in vision.requests if throttled_at + 4 < a.at < throttled_at + 5.9]
    assert during == []
    assert len(found.pages) == 24


def test_a_wait_too_long_for_the_step_is_left_to_a_later_attempt(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.usual = lambda request: error(429, Retry_After="3600")
    found = read(vision, tmp_path, 30, max_wait=60.0)
    assert len(found.failed) == 30
    assert len(vision.requests) <= QUICK.inflight
    with pytest.raises(StepFailed) as caught:
        raise_for_outage(found, "llm:ocr")
    assert (caught.value.kind, caught.value.limit) == ("rate_limited", "llm:ocr")
    assert 3500 < (caught.value.retry_after or 0) <= 3600


def test_one_refusal_of_the_key_ends_the_requests_for_all_pages(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.usual = lambda request: error(401, f"bad key {KEY}")
    found = read(vision, tmp_path, 30)
    assert len(vision.requests) <= QUICK.inflight
    assert {failed.http_status for failed in found.failed.values()} == {401}
    assert all(KEY not in failed.message for failed in found.failed.values())


def test_a_few_failed_pages_are_no_outage(vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[2] = [error(503)] * 4
    found = read(vision, tmp_path, 5)
    raise_for_outage(found)
    assert list(found.failed) == [2]
    assert len(found.pages) == 4


# ---- requests are booked


def test_every_request_is_charged_before_it_is_sent(vision: VisionEndpoint, tmp_path: Path) -> None:
    booked: list[int] = []

    async def book() -> None:
        booked.append(len(vision.requests))

    vision.next_for[1] = [error(503), plain("", "length")]
    read(vision, tmp_path, before_request=book)
    assert booked == [0, 1, 2]


def test_retries_end_with_the_spare_requests_and_first_attempts_do_not(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.next_for.update({n: [error(503)] * 9 for n in (1, 2, 3)})
    found = read(vision, tmp_path, 10, spare=2)
    assert len(vision.requests) == 12
    assert sorted(found.failed) == [1, 2, 3]


def test_a_refused_charge_ends_the_run_and_not_just_a_page(vision: VisionEndpoint, tmp_path: Path) -> None:
    async def book() -> None:
        raise StepFailed("over_reserved", "no request is left")

    with pytest.raises(StepFailed, match="no request is left"):
        read(vision, tmp_path, 3, before_request=book)
    assert vision.requests == []
