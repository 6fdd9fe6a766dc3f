"""The analysis run by the queue with leases, breakers and retries, judged by an
independent chaos mock. It judges by the wall clock, so these tests really wait."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from llmock.scenarios import Delay, Fail, Match, Reply
from llmock.testing import LLMockServer

from queuemgr.flows import retry_policy
from queuemgr.models import Execution, State
from tests.fake_llm import GOOD
from tests.integration.pipeline.analyse_fixtures import SHORT, AnalyseRunner, long_paper, outcomes
from tests.integration.pipeline.step_fixtures import charged

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip

QUICK = {"rate_limited": (12, 0.2), "server_error": (6, 0.2), "timeout": (4, 0.2)}
"""Attempts and seconds of the first backoff: the policies' attempts, with shorter backoff."""


@pytest.fixture
def mock() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture
def runner(
    mock: LLMockServer,
    played: Callable[..., Any],
    set_settings: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> AnalyseRunner:
    set_settings(
        llm_base_url=mock.base_url(), llm_model="m-1", llm_timeout=10.0,
        llm_context_tokens=4_100, llm_max_tokens=200, breaker_seconds=0.5,
    )  # fmt: skip
    for kind, (tries, base) in QUICK.items():
        monkeypatch.setitem(retry_policy.POLICIES, kind, retry_policy.Policy(tries, base, 30, 0.1))
    return AnalyseRunner(played(slots=8))


def to_the_end(runner: AnalyseRunner, seconds: float = 60) -> None:
    """Run what may start until nothing is left to analyse."""
    ends = time.monotonic() + seconds
    unfinished = Execution.objects.filter(step="analyse").exclude(state=State.FAILED)
    while unfinished.exists():
        assert time.monotonic() < ends, outcomes()
        if not runner.once():
            time.sleep(0.05)


def verdict(mock: LLMockServer) -> dict[str, Any]:
    mock.state.journal.records(wait=30)
    return dict(httpx.get(f"{mock.url}/_llmock/verdict").json())


def test_the_verdict_is_clean_under_429_503_and_stalls(runner: AnalyseRunner, mock: LLMockServer) -> None:
    """Retry-After is respected, backoff grows, and timeouts are retried."""
    mock.state.scenarios.add(
        Fail(429, retry_after=1.0),
        Fail(503),
        Fail(503),
        Fail(429, retry_after=0.7),
        Fail(503, retry_after=1.0),
        Reply(text=json.dumps(GOOD)),
    )
    runner.add("short", SHORT)
    to_the_end(runner)
    found = verdict(mock)
    assert (found["findings"], found["attempts"], found["faults_injected"]) == ([], 6, 5)
    assert outcomes() == [("retried", 1)] * 5 + [("done", 1)]


def test_a_stalled_answer_is_given_up_on_and_asked_for_again(
    runner: AnalyseRunner, mock: LLMockServer
) -> None:
    mock.state.scenarios.add(Delay(15.0), Reply(text=json.dumps(GOOD), times=2))
    runner.add("short", SHORT)
    to_the_end(runner)
    assert verdict(mock)["findings"] == []
    assert outcomes() == [("retried", 1), ("done", 1)]


def test_a_broken_answer_is_retried_with_a_changed_request_never_the_same_one(
    runner: AnalyseRunner, mock: LLMockServer
) -> None:
    mock.state.scenarios.add(
        Reply(text='{"title": "Slui', finish_reason="length"),
        Reply(text=json.dumps(GOOD)),
        Reply(text="no JSON at all"),
        Reply(text=json.dumps(GOOD)),
    )
    runner.add("one", SHORT)
    to_the_end(runner)
    runner.add("two", SHORT)
    to_the_end(runner)
    found = verdict(mock)
    assert (found["findings"], found["calls"]) == ([], 4)
    assert outcomes() == [("done", 2), ("done", 2)]


def test_what_is_refused_for_good_is_not_asked_again(runner: AnalyseRunner, mock: LLMockServer) -> None:
    """Quota is last: it opens the endpoint's breaker for the day."""
    refusals = (400, None), (401, None), (403, None), (429, "insufficient_quota")
    for number, (status, code) in enumerate(refusals):
        mock.state.scenarios.add(Fail(status, code=code))
        runner.add(f"paper-{number}", SHORT.replace("leaks", f"leaks {number}"))
        to_the_end(runner)
    found = verdict(mock)
    assert (found["errors"], found["attempts"]) == (0, 4)
    kinds = list(Execution.objects.order_by("pk").values_list("error_kind", flat=True))
    assert kinds == ["bad_request", "http_error", "http_error", "quota"]
    assert charged() == 4


def test_the_verdict_is_clean_for_a_long_paper_in_chunks(runner: AnalyseRunner, mock: LLMockServer) -> None:
    mock.state.scenarios.add(Fail(429, retry_after=1.0, match=Match(path="*")), Fail(503, retry_after=0.5))
    mock.state.scenarios.add(Reply(text=json.dumps(GOOD), times=None))
    runner.add("long", long_paper())
    to_the_end(runner)
    assert verdict(mock)["errors"] == 0
    assert charged() == len(mock.state.journal.records(wait=30))
    assert outcomes()[-1][0] == "done"
