"""Many pages at a failing endpoint, judged by an independent chaos mock. It judges by the
wall clock, so these tests really wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from llmock.chaos import ChaosSettings
from llmock.scenarios import Delay, Fail, Reply
from llmock.testing import LLMockServer
from llmock.verdict import Verdict, judge

from pipeline.steps.llm.client import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions, OcrResult, ocr
from pipeline.steps.ocr.page_map import Pacing
from pipeline.steps.ocr.vision import RemoteOptions
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.ocr_endpoint import numbered_pages
from tests.pdf_builder import written

pytest.importorskip("pypdfium2")

TEMPO = Pacing(inflight=32, window=64, max_retries=3, base_delay=0.2, max_delay=5.0)


@pytest.fixture
def mock() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        server.state.scenarios.add(Reply(text="Water rose.", times=None))
        yield server


def read(mock: LLMockServer, folder: Path, pages: int, timeout: float = 10.0) -> OcrResult:
    endpoint = Endpoint(mock.base_url(), "m", "sk-for-this-test", timeout)
    options = OcrOptions(remote=RemoteOptions(endpoint, TEMPO))
    return ocr(written(folder, numbered_pages(pages)), range(1, pages + 1), options, NEVER)


def verdict(mock: LLMockServer) -> Verdict:
    return judge(mock.state.journal.records(wait=30))


def test_the_verdict_is_clean_under_429_503_and_stalls_with_32_in_flight(
    mock: LLMockServer, tmp_path: Path
) -> None:
    """Whole documents respect Retry-After, in seconds and in milliseconds."""
    mock.state.scenarios.add(
        Fail(503, times=3),
        Fail(429, retry_after=1.5, times=2),
        Fail(500),
        Fail(503, retry_after=0.7),
        Delay(25.0, times=3),
    )
    found = read(mock, tmp_path, 48, timeout=20.0)  # a busy machine may stand still for 5 s
    judged = verdict(mock)
    judged.assert_ok(strict=True)
    assert [outcome.text for outcome in found.outcomes] == ["Water rose."] * 48
    assert judged.attempts == sum(outcome.attempts for outcome in found.outcomes) == 48 + 10


def test_a_page_is_read_in_the_end_despite_one_fault_after_another(
    mock: LLMockServer, tmp_path: Path
) -> None:
    mock.state.scenarios.add(Fail(503), Fail(429, retry_after=1.2), Fail(502))
    found = read(mock, tmp_path, 1)
    judged = verdict(mock)
    judged.assert_ok(strict=True)
    assert (judged.attempts, found.outcomes[0].text) == (4, "Water rose.")


def test_a_retry_after_of_one_page_delays_those_not_yet_sent(mock: LLMockServer, tmp_path: Path) -> None:
    """The wait applies to the endpoint, not to the page: the first of 80 pages gets a Retry-After."""
    mock.state.scenarios.add(Fail(429, retry_after=8), Delay(0.3, times=None))
    began = time.time()
    read(mock, tmp_path, 80)
    verdict(mock).assert_ok(strict=True)
    records = sorted(mock.state.journal.records(wait=30), key=lambda record: record.started_at)
    (throttled,) = [record for record in records if record.status == 429]
    # On a busy machine requests already sent reach the server late, and its answer reaches us late.
    during = [r for r in records if throttled.ended_at + 4 < r.started_at < throttled.ended_at + 7.9]
    assert (during, time.time() - began > 8) == ([], True)


def test_a_permanently_refused_request_is_sent_once(mock: LLMockServer, tmp_path: Path) -> None:
    mock.state.scenarios.add(Fail(400), Fail(422), Fail(413))
    found = read(mock, tmp_path, 12)
    judged = verdict(mock)
    judged.assert_ok(strict=True)
    assert (judged.attempts, len(found.failed)) == (12, 3)


@pytest.mark.slow_proof
def test_the_verdict_is_clean_where_one_request_in_five_fails_at_random(tmp_path: Path) -> None:
    chaos = ChaosSettings(error_rate_429=0.1, error_rate_503=0.1)
    with LLMockServer(chaos=chaos) as server:
        server.state.scenarios.add(Reply(text="Water rose.", times=None))
        found = read(server, tmp_path, 96)
        verdict(server).assert_ok()
    assert len(found.pages) > 80
