"""The chat client against an independent chaos mock, and a server with scripted wrong answers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from llmock.scenarios import Delay, Fail, Reply
from llmock.testing import LLMockServer
from llmock.verdict import judge

from pipeline.steps.llm.client import (
    Answer,
    AnswerTruncated,
    Endpoint,
    PromptTooLong,
    Usage,
    abortable,
    connected,
)
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.flows.flow import all_error_kinds, default_policy
from queuemgr.flows.retry_policy import retry_delay

KEY = "sk-test-0123456789abcdef"
MESSAGES = [{"role": "user", "content": "What does the paper say?"}]
GOOD = {
    "model": "m-1",
    "choices": [{"finish_reason": "stop", "message": {"content": "It says this."}}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 4},
}


class Liar:
    """A server with scripted answers that records its requests."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b""
        self.headers: dict[str, str] = {}
        self.drip = 0.0
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def say(self, body: object, status: int = 200, **headers: str) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def _handler(liar) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                liar.requests.append((dict(self.headers), json.loads(sent)))
                self.send_response_only(liar.status)
                for name, value in liar.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in liar.headers:
                    self.send_header("Content-Length", str(len(liar.body)))
                self.end_headers()
                self._write()

            def _write(self) -> None:
                if not liar.drip:
                    self.wfile.write(liar.body)
                    return
                try:
                    for byte in liar.body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(liar.drip)
                except OSError:
                    pass  # the client hung up, as it should

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def liar() -> Iterator[Liar]:
    made = Liar()
    thread = threading.Thread(target=made.server.serve_forever, args=[0.02])
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def mock() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


def endpoint(base_url: str, timeout: float = 5.0) -> Endpoint:
    return Endpoint(base_url=base_url, model="m-1", api_key=KEY, timeout=timeout)


def chat(endpoint: Endpoint, messages: list[dict[str, str]], signal: AbortSignal = NEVER) -> Answer:
    """The answer to one request."""

    async def ask() -> Answer:
        async with connected(endpoint, Usage()) as model:
            return await model.ask(messages, 100)

    signal.raise_if_aborted()
    return asyncio.run(abortable(ask(), signal))


def ask(base_url: str, timeout: float = 5.0, paper: str = "the paper") -> Answer:
    messages = [{"role": "user", "content": f"What does {paper} say?"}]
    return chat(endpoint(base_url, timeout), messages)


def failed(base_url: str, timeout: float = 5.0) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        ask(base_url, timeout)
    assert caught.value.kind in all_error_kinds()
    assert KEY not in caught.value.message
    return caught.value


# ---- a complete answer


def test_a_complete_answer_comes_with_what_it_cost(liar: Liar) -> None:
    liar.say(GOOD)
    assert ask(liar.base_url) == Answer("It says this.", "m-1", 11, 4)
    headers, body = liar.requests[0]
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert (body["max_tokens"], body["messages"]) == (100, MESSAGES)


def test_content_in_parts_is_put_together(liar: Liar) -> None:
    """Content may be a list of parts."""
    parts = [{"type": "text", "text": "It says "}, {"type": "text", "text": "this."}]
    liar.say({"choices": [{"finish_reason": "stop", "message": {"content": parts}}]})
    assert ask(liar.base_url).text == "It says this."


def test_the_key_shows_in_no_repr(liar: Liar) -> None:
    assert KEY not in repr(endpoint(liar.base_url))


def test_no_key_means_no_header(liar: Liar) -> None:
    liar.say(GOOD)
    chat(Endpoint(liar.base_url, "m-1"), MESSAGES)
    assert "Authorization" not in liar.requests[0][0]


# ---- an error by its status


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad_request"),
        (401, "http_error"),
        (402, "quota"),
        (403, "http_error"),
        (404, "bad_request"),
        (408, "server_error"),
        (422, "bad_request"),
        (429, "rate_limited"),
        (500, "server_error"),
        (503, "server_error"),
        (302, "http_error"),
    ],
)
def test_each_status_is_its_kind(liar: Liar, status: int, kind: str) -> None:
    liar.say({"error": {"message": "as scripted"}}, status)
    error = failed(liar.base_url)
    assert (error.kind, error.http_status) == (kind, status)
    assert "as scripted" in error.message
    assert len(liar.requests) == 1


def test_an_exhausted_account_is_not_a_rate_limit(liar: Liar) -> None:
    """429 with insufficient_quota lasts for the day."""
    liar.say({"error": {"code": "insufficient_quota", "message": "check your plan"}}, 429)
    assert failed(liar.base_url).kind == "quota"


def test_a_wait_in_seconds_or_milliseconds_or_as_a_date_is_kept(liar: Liar) -> None:
    """Retry-After as a date counts from the server's own clock."""
    liar.say({}, 429, Retry_After="7")
    assert failed(liar.base_url).retry_after == 7
    liar.say({}, 429, Retry_After="2", Retry_After_Ms="1500")
    assert failed(liar.base_url).retry_after == 1.5
    clock = datetime(2020, 1, 1, tzinfo=UTC)
    until = format_datetime(clock + timedelta(seconds=90), usegmt=True)
    liar.say({}, 503, Retry_After=until, Date=format_datetime(clock, usegmt=True))
    assert failed(liar.base_url).retry_after == 90
    liar.say({}, 429, Retry_After="3", Retry_After_Ms="inf")
    assert failed(liar.base_url).retry_after == 3
    liar.say({}, 429, Retry_After="soon")
    assert failed(liar.base_url).retry_after is None


def test_a_prompt_that_is_too_long_fails_with_the_numbers(liar: Liar) -> None:
    """The error states counted and allowed tokens."""
    message = "This model's maximum context length is 8192 tokens, you sent 9001."
    liar.say({"error": {"code": "context_length_exceeded", "message": message}}, 400)
    error = failed(liar.base_url)
    assert isinstance(error, PromptTooLong)
    assert error.kind == "too_long"
    assert "8192" in error.message and "9001" in error.message


def test_a_key_the_server_quotes_is_not_passed_on(liar: Liar) -> None:
    """No error contains the key."""
    liar.say({"error": {"message": f"Incorrect API key provided: {KEY}."}}, 401)
    assert "Incorrect API key provided: ***" in failed(liar.base_url).message


def test_only_an_excerpt_of_a_long_error_is_kept(liar: Liar) -> None:
    liar.say({"error": {"message": "x\x00\n" * 100_000}}, 500)
    message = failed(liar.base_url).message
    assert len(message) < 500
    assert "\x00" not in message and "\n" not in message


# ---- status 200 that is none


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, "rate_limited"),
        ({"error": {"code": 429, "message": "Model busy"}}, "rate_limited"),
        ({"error": {"type": "insufficient_quota", "message": "no money"}}, "quota"),
        ({"error": {"type": "invalid_request_error", "message": "no such field"}}, "bad_request"),
        ({"error": {"code": 503, "message": "overloaded"}}, "server_error"),
        ({"error": "Model busy, retry later"}, "server_error"),
        ({"error": {"message": "Computer says no"}}, "bad_answer"),
        ({**GOOD, "error": {"message": "Computer says no"}}, "bad_answer"),
        (b"<html>Sign in</html>", "bad_answer"),
        (b"", "bad_answer"),
        (b'{"choices": [{"mess', "bad_answer"),
        ([GOOD], "bad_answer"),
    ],
)
def test_the_body_decides_not_the_status(liar: Liar, body: object, kind: str) -> None:
    """Gateways send every error as 200."""
    liar.say(body)
    assert failed(liar.base_url).kind == kind


@pytest.mark.parametrize(
    ("choices", "kind"),
    [
        (None, "bad_answer"),
        ([], "bad_answer"),
        (["text"], "bad_answer"),
        ([{"message": None}], "bad_answer"),
        ([{"message": {"content": None}}], "bad_answer"),
        ([{"message": {"content": "  \n"}}], "bad_answer"),
        ([{"message": {"content": None, "tool_calls": [{"id": "1"}]}}], "bad_answer"),
        ([{"message": {"content": None, "refusal": "I cannot"}}], "content_filtered"),
        ([{"finish_reason": "content_filter", "message": {"content": "half"}}], "content_filtered"),
    ],
)
def test_an_answer_without_an_answer_is_no_success(liar: Liar, choices: object, kind: str) -> None:
    """Empty, null, refused and filtered answers are outcomes, not crashes."""
    liar.say({"choices": choices})
    assert failed(liar.base_url).kind == kind


@pytest.mark.parametrize("content", [None, "", "It says th", '{"title": "whole"}'])
def test_a_cut_off_answer_never_passes_as_complete(liar: Liar, content: str | None) -> None:
    """The finish reason is read before the content."""
    liar.say({"choices": [{"finish_reason": "length", "message": {"content": content}}]})
    error = failed(liar.base_url)
    assert isinstance(error, AnswerTruncated)
    assert (error.kind, "truncated" in error.message) == ("truncated", True)


def test_an_answer_without_end_is_not_read_to_the_end(liar: Liar) -> None:
    liar.say(b" " * (9 << 20))
    assert "sent more than" in failed(liar.base_url).message


# ---- the line


def test_a_refused_connection_is_the_network(liar: Liar) -> None:
    assert failed("http://127.0.0.1:9/v1").kind == "network"


def test_a_body_cut_short_is_the_network(liar: Liar) -> None:
    liar.say(json.dumps(GOOD).encode()[:20], Content_Length="500", Connection="close")
    assert failed(liar.base_url).kind == "network"


def test_a_server_that_drips_bytes_ends_at_the_time_limit(liar: Liar) -> None:
    """A timeout between two bytes does not bound the whole."""
    liar.say(GOOD)
    liar.drip = 0.1
    start = time.monotonic()
    assert failed(liar.base_url, timeout=0.5).kind == "timeout"
    assert time.monotonic() - start < 24


@pytest.mark.parametrize("base_url", ["ftp://127.0.0.1/v1", "127.0.0.1:80", "http://[::1", ""])
def test_an_invalid_address_is_a_configuration_error(base_url: str) -> None:
    assert failed(base_url).kind == "bad_request"


def test_an_abort_hangs_up_at_once(liar: Liar) -> None:
    liar.say(GOOD)
    liar.drip = 0.5
    signal = AbortSignal()
    threading.Timer(0.3, signal.abort, ["stop"]).start()
    start = time.monotonic()
    with pytest.raises(Aborted, match="stop"):
        chat(endpoint(liar.base_url, 60), MESSAGES, signal)
    assert time.monotonic() - start < 24


def test_nothing_is_sent_once_the_signal_is_set(liar: Liar) -> None:
    signal = AbortSignal()
    signal.abort("stop")
    with pytest.raises(Aborted):
        chat(endpoint(liar.base_url), MESSAGES, signal)
    assert liar.requests == []


# ---- judged by others


def with_retries(call: Callable[[], Answer]) -> Answer | StepFailed:
    """Retries like the queue, sleeping through the backoff."""
    for attempt in range(1, 20):
        try:
            return call()
        except StepFailed as error:
            policy = replace(default_policy(error.kind), jitter=0)
            delay = retry_delay(policy, attempt, retry_after=error.retry_after)
            if delay is None:
                return error
            time.sleep(delay)
    raise AssertionError("it never ended")


def test_an_independent_judge_finds_no_fault_with_client_and_policy(mock: LLMockServer) -> None:
    """Under the queue's policy waits are respected and nothing final is repeated."""
    mock.state.scenarios.add(
        Fail(429, retry_after=1.0), Fail(429, retry_after=0.3), Reply(text="It says this.")
    )
    answer = with_retries(lambda: ask(mock.base_url()))
    assert isinstance(answer, Answer) and answer.text == "It says this."
    for status, code in ((400, None), (401, None), (429, "insufficient_quota")):
        mock.state.scenarios.add(Fail(status, code=code))
        another = partial(ask, mock.base_url(), paper=f"paper {status} {code}")
        assert isinstance(with_retries(another), StepFailed)
    verdict = judge(mock.state.journal.records(wait=30))
    verdict.assert_ok()
    assert verdict.attempts == 6


def test_a_silent_server_is_given_up_on(mock: LLMockServer) -> None:
    mock.state.scenarios.add(Delay(1.5))
    assert failed(mock.base_url(), timeout=0.3).kind == "timeout"


def test_a_reply_the_mock_cuts_off_fails_as_cut_off(mock: LLMockServer) -> None:
    mock.state.scenarios.add(Reply(text="It says th", finish_reason="length"))
    assert isinstance(failed(mock.base_url()), AnswerTruncated)
