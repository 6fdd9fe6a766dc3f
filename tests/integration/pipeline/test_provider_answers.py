"""What the endpoints of models say is left of their limits: heeded by every worker that asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from queuemgr.base.provider_left import from_text
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import LimitState
from queuemgr.reporting import explain
from queuemgr.scheduling import limit_rows
from tests.fake_llm import FakeLlm
from tests.integration.pipeline.analyse_fixtures import SHORT, AnalyseRunner, served_model
from tests.integration.pipeline.ocr_fixtures import OcrRunner
from tests.integration.pipeline.steps.ocr_endpoint import VisionEndpoint, text

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip


@pytest.fixture
def model(set_settings: Callable[..., None]) -> Iterator[FakeLlm]:
    with served_model(set_settings) as model:
        limit_rows.sync()
        yield model


def waits() -> list[str]:
    dispatch()
    return [stopped.text for stopped in explain.what_stops_work()]


def known(limit: str) -> Any:
    return from_text(LimitState.objects.get(name=limit).provider_left)


def test_papers_wait_for_what_the_model_says_is_left(model: FakeLlm, played: Callable[..., Any]) -> None:
    model.headers = {"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "6m0s"}
    runner = AnalyseRunner(played(slots=1))
    for key in ("a", "b", "c"):
        runner.add(key, SHORT)
    runner.once()
    assert len(model.requests) == 1
    assert runner.once() == []
    assert any(why.startswith("llm:chat tokens: 7 left by the provider until ") for why in waits())


def test_a_429_about_tokens_throttles_tokens_as_long_as_the_model_asks(
    model: FakeLlm, played: Callable[..., Any]
) -> None:
    model.refuse(429, "Rate limit reached on tokens per min", type="tokens", code="rate_limit_exceeded")
    model.headers = {"Retry-After-Ms": "60000"}
    runner = AnalyseRunner(played(slots=1))
    runner.add("a", SHORT)
    runner.once()
    assert LimitState.objects.get(name="llm:chat").open_until is None, "what uses no tokens continues"
    assert known("llm:chat")["tokens"].reason == "429, Retry-After 60 s"
    assert len(model.requests) == 1


def test_pages_wait_for_what_the_vision_endpoint_says_is_left(
    played: Callable[..., Any], set_settings: Callable[..., None]
) -> None:
    pytest.importorskip("pypdfium2")
    left = {"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "6m0s"}
    with VisionEndpoint().serving() as vision:
        vision.usual = lambda request: replace(text(f"page {request.page}"), headers=left)
        set_settings(ocr_base_url=vision.base_url, ocr_model="m-1")
        limit_rows.sync()
        runner = OcrRunner(played(slots=1), vision)
        runner.add("a", 1)
        runner.once()
        assert set(known("llm:ocr")) == {"tokens"}
