"""Long papers analysed in chunks, by a fake model."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.steps.analyse.analyse import AnalyseOptions, KnownLimits, Reschedule, analyse, chunk_tokens
from pipeline.steps.analyse.chunks import plan_chunks
from pipeline.steps.analyse.split_by_tokens import tokens_in
from pipeline.steps.llm.endpoint import Endpoint
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.fake_llm import GOOD, FakeLlm, Reply, completion, is_merge, text_of
from tests.papers import SECRET

SECTION = "We counted every gate on canal {n} near " + SECRET + " twice and found a leak in it.\n"
PAPER = "On leaks\n" + "".join(
    f"{n} Canal number {n}\n" + SECTION.format(n=n) * 60 for n in range(1, 9)
)  # about 9,200 tokens
SMALL = {"context_tokens": 4_100, "max_tokens": 200}  # room for 2,347 of them


@pytest.fixture
def model() -> Iterator[FakeLlm]:
    made = FakeLlm()
    made.reply = notes_then_analysis
    yield made
    made.close()


def notes_then_analysis(request: dict[str, Any]) -> Reply:
    if is_merge(request):
        return completion(GOOD)
    return completion("canals " + " ".join(sorted(set(re.findall(r"canal (\d)", text_of(request))))))


def by(model: FakeLlm, learnt: KnownLimits | None = None, **changes: Any) -> AnalyseOptions:
    endpoint = Endpoint(model.base_url, "m-1", "sk-key", timeout=10)
    options = AnalyseOptions(endpoint, **{**SMALL, **changes})
    learnt = learnt or KnownLimits(len(plan_chunks(PAPER, chunk_tokens(options)).chunks))
    return AnalyseOptions(endpoint, **{**SMALL, **changes}, known=learnt)


def failure(options: AnalyseOptions, paper: str = PAPER) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        analyse(paper, "", options, NEVER)
    assert SECRET not in caught.value.message
    return caught.value


def test_a_long_paper_is_read_whole_in_chunks_and_merged_by_one_last_request(model: FakeLlm) -> None:
    options = by(model)
    parts = options.known.chunks
    found = analyse(PAPER, "On leaks", options, NEVER)
    assert (found.analysis.title, parts > 3) == (GOOD["title"], True)
    assert options.usage.requests == len(model.requests) == parts + 1 < options.known.requests
    assert [is_merge(request) for request in model.requests] == [False] * parts + [True]
    notes = re.findall(r"Part (\d+):\ncanals ([\d ]+)", model.sent(parts + 1))
    assert [int(number) for number, _ in notes] == list(range(1, parts + 1)), "in order"
    assert {n for _, canals in notes for n in canals.split()} == set("12345678"), "nothing lost"
    assert SECRET not in model.sent(parts + 1), "the notes are merged, not the paper"
    assert "response_format" not in model.requests[0]
    assert "response_format" in model.requests[-1]


def test_tokens_are_summed_over_all_requests(model: FakeLlm) -> None:
    options = by(model)
    analyse(PAPER, "", options, NEVER)
    assert options.usage.prompt_tokens == 10 * options.usage.requests
    assert options.usage.completion_tokens == 5 * options.usage.requests


@pytest.mark.parametrize("inflight", [1, 3])
def test_only_so_many_chunks_are_requested_at_once(model: FakeLlm, inflight: int) -> None:
    """No answer is sent before `count` requests wait, or ten seconds have passed."""
    usual, as_many_as_may = model.reply, threading.Event()

    def reply(request: dict[str, Any]) -> Reply:
        if model.most_at_once >= inflight:
            as_many_as_may.set()
        as_many_as_may.wait(10)
        return usual(request)

    model.reply, model.seconds = reply, 0.05
    analyse(PAPER, "", by(model, chunks_inflight=inflight), NEVER)
    assert model.most_at_once == inflight


def test_the_first_failure_stops_the_chunks_not_yet_requested(model: FakeLlm) -> None:
    """Fail-fast: without one chunk's notes there is no analysis."""
    model.refuse(503, "overloaded")
    options = by(model, chunks_inflight=1)
    assert failure(options).kind == "server_error"
    assert len(model.requests) == options.usage.requests == 1


def test_a_rate_limit_met_by_a_chunk_keeps_its_wait(model: FakeLlm) -> None:
    model.headers = {"Retry-After": "7"}
    model.refuse(429, "slow down")
    error = failure(by(model, chunks_inflight=1))
    assert (error.kind, error.retry_after) == ("rate_limited", 7)


def test_truncated_notes_are_requested_once_more_and_never_merged(model: FakeLlm) -> None:
    model.answers.append(completion("canals of gold", "length"))
    options = by(model, chunks_inflight=1)
    analyse(PAPER, "", options, NEVER)
    first, second = model.requests[:2]
    assert second["max_tokens"] == 2 * first["max_tokens"]
    assert second["messages"] == first["messages"]
    assert "of gold" not in model.sent(len(model.requests))
    assert options.usage.requests == options.known.requests, "the one to spare was used"


def test_a_second_fault_ends_it_and_no_request_is_made_beyond_those_reserved(model: FakeLlm) -> None:
    model.reply = lambda request: completion("cut", "length") if not is_merge(request) else completion(GOOD)
    options = by(model, chunks_inflight=4)
    assert failure(options).kind == "truncated"
    assert len(model.requests) <= options.known.requests


def test_a_paper_longer_than_its_reservation_asks_for_more_before_anything_is_sent(model: FakeLlm) -> None:
    with pytest.raises(Reschedule) as caught:
        analyse(PAPER, "", by(model, KnownLimits()), NEVER)
    assert model.requests == []
    analyse(PAPER, "", by(model, KnownLimits.from_context(caught.value.context)), NEVER)


def test_more_chunks_than_allowed_are_refused_with_the_remedy(model: FakeLlm) -> None:
    error = failure(by(model, max_chunks=2))
    assert (error.kind, model.requests) == ("too_large", [])
    assert "at most 2" in error.message and "SLUICE_LLM_MAX_CHUNKS" in error.message


def test_more_chunks_than_can_be_merged_are_refused(model: FakeLlm) -> None:
    error = failure(by(model, max_chunks=1_000), PAPER * 7)
    assert (error.kind, model.requests) == ("too_large", [])


# ---- context overflow


ALLOWED = 1_500


def takes(tokens: int) -> Any:
    """A model that counts a tenth more tokens than we do, and accepts `tokens`."""

    def reply(request: dict[str, Any]) -> Reply:
        sent = int(1.1 * tokens_in(request["messages"][-1]["content"], 100_000))
        if sent > tokens:
            said_it = f"maximum context length is {tokens} tokens, you sent {sent}"
            return 400, {"error": {"code": "context_length_exceeded", "message": said_it}}
        return notes_then_analysis(request)

    return reply


@pytest.mark.parametrize("paper", [PAPER, PAPER[: len(PAPER) // 6]], ids=["in parts", "in one"])
def test_a_prompt_refused_for_its_length_is_asked_in_halves_once(model: FakeLlm, paper: str) -> None:
    """At most one adapted retry with smaller requests, and nothing of the paper is left out."""
    model.reply = takes(ALLOWED)
    options = by(model, chunks_inflight=1)
    with pytest.raises(Reschedule) as caught:
        analyse(paper, "", options, NEVER)
    assert str(ALLOWED) in caught.value.reason and "By our count" in caught.value.reason
    refused = len(model.sent(1))
    analyse(paper, "", by(model, KnownLimits.from_context(caught.value.context)), NEVER)
    assert all(len(model.sent(n)) < refused for n in range(2, len(model.requests) + 1))
    canals = set(re.findall(r"canal (\d)", paper))
    assert canals <= set(re.findall(r"\d", model.sent(len(model.requests))))


def test_a_second_refusal_is_final_and_gives_the_numbers(model: FakeLlm) -> None:
    """The error states counted and allowed tokens."""
    model.reply = takes(100)
    with pytest.raises(Reschedule) as caught:
        analyse(PAPER, "", by(model, chunks_inflight=1), NEVER)
    error = failure(by(model, KnownLimits.from_context(caught.value.context), chunks_inflight=1))
    assert (error.kind, len(model.requests)) == ("too_long", 2)
    assert re.search(r"you sent \d+.*By our count .* \d+ tokens, of 4100 allowed", error.message)


# ---- stopping


def test_an_abort_stops_all_running_chunks_at_once(model: FakeLlm, loop_stays_quiet: None) -> None:
    model.seconds = 60
    signal = AbortSignal()

    def abort_when_all_are_sent() -> None:
        while len(model.requests) < 4 and time.monotonic() - start < 30:
            time.sleep(0.01)
        signal.abort("stop")

    start = time.monotonic()
    threading.Thread(target=abort_when_all_are_sent).start()
    with pytest.raises(Aborted, match="stop"):
        analyse(PAPER, "", by(model, chunks_inflight=4), signal)
    assert time.monotonic() - start < 50
    assert len(model.requests) == 4


def test_an_error_of_the_charge_is_raised_and_nothing_is_sent_without_it(model: FakeLlm) -> None:

    def book(number: int) -> None:
        raise RuntimeError("the store is away")

    with pytest.raises(RuntimeError, match="away"):
        analyse(PAPER, "", by(model, before_request=book), NEVER)
    assert model.requests == []
