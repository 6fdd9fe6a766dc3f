"""Unusable answers of a vision endpoint, each with its own error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.llm.client import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions, ocr
from pipeline.steps.ocr.page_map import Pacing
from pipeline.steps.ocr.vision import RemoteOptions
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.ocr_endpoint import Answer, VisionEndpoint, numbered_pages, plain, text
from tests.pdf_builder import written

pytest.importorskip("pypdfium2")

TEMPO = Pacing(inflight=2, window=4, max_retries=3, base_delay=0.01, max_delay=0.02)
LOOP = "and so on " * 100


@pytest.fixture
def vision() -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        yield endpoint


def line(vision: VisionEndpoint, folder: Path) -> dict[str, Any]:
    """The outcome of a document with one page."""
    remote = RemoteOptions(Endpoint(vision.base_url, "m", "", 10.0), TEMPO)
    pdf = written(folder, numbered_pages(1))
    (outcome,) = ocr(pdf, [1], OcrOptions(remote=remote), NEVER).outcomes
    return outcome.as_line()


def always(vision: VisionEndpoint, answer: Answer) -> None:
    vision.usual = lambda request: answer


ERROR = {"error": {"code": 429, "message": "Rate limit reached"}}
QUOTA = {"error": {"type": "insufficient_quota", "message": "You exceeded your quota"}}
BAD = {"error": {"type": "invalid_request_error", "message": "image too small"}}
CHOICE = {"finish_reason": "stop", "message": {"content": "text"}}


@pytest.mark.parametrize(
    ("body", "kind", "tries"),
    [
        (ERROR, "RateLimit", 4),
        (QUOTA, "HttpError", 1),
        (BAD, "HttpError", 1),
        (b"<html><h1>502</h1></html>", "ParseError", 3),
        (b"", "ParseError", 3),
        (json.dumps({"choices": [CHOICE]}).encode()[:-20], "ParseError", 3),
        ([CHOICE], "ParseError", 3),
        ({"choices": [CHOICE], **ERROR}, "RateLimit", 4),
    ],
)
def test_an_error_that_comes_with_status_200_is_read_as_what_it_is(
    body: Any, kind: str, tries: int, vision: VisionEndpoint, tmp_path: Path
) -> None:
    always(vision, Answer(body))
    found = line(vision, tmp_path)
    assert (found["status"], found["error_kind"]) == ("error", kind)
    assert (found["attempts"], len(vision.requests)) == (tries, tries)
    assert 0 < len(found["error_message"]) < 600


@pytest.mark.parametrize(
    ("answer", "message", "tries"),
    [
        (Answer({"model": "m"}), "has no choices", 3),
        (Answer({"choices": []}), "has no choices", 3),
        (Answer({"choices": [{"finish_reason": "stop", "message": None}]}), "is empty", 3),
        (plain(None), "is empty", 3),
        (plain("  \n"), "is empty", 3),
        (plain(None, tool_calls=[{"id": "1"}]), "called a tool", 3),
        (plain(None, refusal="I cannot read that."), "refused to answer", 1),
        (plain("half of", "content_filter"), "content filter", 1),
        (text(""), "no text was found", 1),
        (text("null"), "no text was found", 1),
    ],
)
def test_empty_null_refused_and_filtered_answers_are_distinguished_and_none_is_a_page(
    answer: Answer, message: str, tries: int, vision: VisionEndpoint, tmp_path: Path
) -> None:
    always(vision, answer)
    found = line(vision, tmp_path)
    assert (found["status"], found["error_kind"]) == ("error", "ParseError")
    assert message in found["error_message"]
    assert len(vision.requests) == tries


def test_content_in_parts_is_put_together(vision: VisionEndpoint, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Water "}, {"type": "text", "text": "rose."}]
    vision.next_for[1] = [plain(parts)]
    assert line(vision, tmp_path)["text"] == "Water rose."


@pytest.mark.parametrize("content", [None, "The text continues until it"])
def test_a_truncated_answer_is_named_and_asked_for_once_more_with_more_room(
    content: str | None, vision: VisionEndpoint, tmp_path: Path
) -> None:
    """Two different requests."""
    always(vision, plain(content, "length"))
    found = line(vision, tmp_path)
    assert "truncated" in found["error_message"]
    assert "16000" in found["error_message"]
    assert [request.body["max_tokens"] for request in vision.requests] == [8000, 16000]


def test_an_answer_truncated_in_circles_is_asked_for_warmer_and_no_longer(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    """Allenai/olmocr#278: more tokens would be filled with more of the same."""
    always(vision, plain(LOOP, "length"))
    found = line(vision, tmp_path)
    assert "repeating itself" in found["error_message"]
    sent = [(request.body["max_tokens"], request.body["temperature"]) for request in vision.requests]
    assert sent == [(8000, 0.0), (8000, 0.2), (8000, 0.5)]


def test_no_two_requests_after_an_unusable_answer_are_the_same(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.next_for[1] = [plain("---\nno end"), text(LOOP), text("Water rose.")]
    found = line(vision, tmp_path)
    assert (found["text"], found["attempts"]) == ("Water rose.", 3)
    assert [request.body["temperature"] for request in vision.requests] == [0.0, 0.2, 0.5]


def test_a_server_fault_is_answered_by_the_same_request(vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[1] = [Answer({"error": {"message": "overloaded"}}, 503)]
    assert line(vision, tmp_path)["status"] == "ok"
    assert vision.requests[0].body == vision.requests[1].body


def test_nul_and_forged_page_marks_do_not_get_into_the_text(vision: VisionEndpoint, tmp_path: Path) -> None:
    vision.next_for[1] = [text("Wa\x00ter\n[PAGE 7]\nrose \ud800.")]
    assert line(vision, tmp_path)["text"] == "Water\n(PAGE 7)\nrose \N{REPLACEMENT CHARACTER}."
