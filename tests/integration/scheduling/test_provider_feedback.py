"""What answers of a provider say is left: for the whole fleet, until the reset; it loosens nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queuemgr import LeaseLost, Work
from queuemgr.base.provider_left import from_text
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AuditEntry, Lease, LimitState
from queuemgr.operations import controls
from queuemgr.reporting import explain, stats
from queuemgr.scheduling import provider_limits, wakeups
from queuemgr.worker.observed_limits import with_meter
from tests.integration.scheduling.limited_work import ANN, MODEL, Played, Probes, allow, leased

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]

HOST = "host:api.example.org:443"


def headers(tokens: int, *, requests: int = 500, reset: str = "60s") -> dict[str, str]:
    return {
        "x-ratelimit-remaining-tokens": str(tokens), "x-ratelimit-reset-tokens": reset,
        "x-ratelimit-remaining-requests": str(requests), "x-ratelimit-reset-requests": reset,
    }  # fmt: skip


def work_of(grant: Any) -> Work:
    return Work(grant, AbortSignal())


def reasons() -> list[str]:
    return [stopped.text for stopped in explain.what_stops_work()]


def test_no_start_is_expected_to_use_more_than_an_answer_left(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(1, limit_key=MODEL, uses={"tokens": 100}, prefix="first")
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(350))
    worker.end(grant, next_too=False)
    probes(9, limit_key=MODEL, uses={"tokens": 100})
    assert leased() == 3, "of 350"
    (text,) = reasons()
    assert text.startswith(f"{MODEL} tokens: 50 left by the provider until ")
    probes(2, limit_key=MODEL, prefix="free")
    assert leased() == 5, "what uses no tokens starts"


def test_what_ran_when_it_was_answered_counts_until_it_has_been_answered_itself(
    played: Played, probes: Probes
) -> None:
    worker = played(slots=9)
    probes(3, limit_key=MODEL, uses={"tokens": 100}, prefix="first")
    first, second, third = worker.begin_all()
    work_of(first).observe(headers(350))
    worker.end(first, next_too=False)
    probes(9, limit_key=MODEL, uses={"tokens": 100})
    assert leased() == 3, "the two that run may not have been counted: one more of 350"
    work_of(second).observe(headers(250))
    worker.end(second, next_too=False)
    dispatch()
    assert leased() == 2, "250 left, of which those two that have not been answered use 200"
    worker.end(third, next_too=False)  # without a word: it counts as it was charged
    dispatch()
    assert leased() == 1


def test_what_is_left_ends_at_the_reset(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(1, limit_key=MODEL, uses={"tokens": 100}, prefix="first")
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(0))
    worker.end(grant, next_too=False)
    probes(2, limit_key=MODEL, uses={"tokens": 100})
    assert leased() == 0
    let_reset(MODEL)
    assert leased() == 2


def let_reset(limit: str) -> None:
    """As if its reset had come."""
    state, past = LimitState.objects.get(name=limit), time.time() - 1
    known = {
        meter: left.__class__(tuple(a._replace(resets=past) for a in left.answers), left.ended)
        for meter, left in from_text(state.provider_left).items()
    }
    LimitState.objects.filter(pk=state.pk).update(provider_left=provider_limits.as_text(known))
    wakeups.post(limits=[limit])
    dispatch()


def test_an_answer_never_loosens_what_people_allow(played: Played, probes: Probes) -> None:
    allow("200 tokens/day")
    worker = played(slots=9)
    probes(1, limit_key=MODEL, uses={"tokens": 100}, prefix="first")
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(1_000_000))
    worker.end(grant, next_too=False)
    probes(9, limit_key=MODEL, uses={"tokens": 100})
    assert leased() == 1


def test_it_is_about_the_limit_that_has_an_allowance_of_the_meter_and_else_about_all_services(
    played: Played, probes: Probes
) -> None:
    allow("100,000 tokens/day")
    worker = played(slots=9)
    probes(1, limit_key=f"{HOST} {MODEL} tenant:acme", uses={"tokens": 100}, requests=1)
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(50, requests=7))
    known = {state.name: set(from_text(state.provider_left)) for state in LimitState.objects.all()}
    assert {name: meters for name, meters in known.items() if meters} == {
        MODEL: {"tokens", "requests"}, HOST: {"requests"},
    }  # fmt: skip
    work_of(grant).observe(headers(50), limit="host:other")
    assert set(from_text(LimitState.objects.get(name="host:other").provider_left)) == {"tokens", "requests"}


def test_only_a_running_lease_tells(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    worker.end(grant, next_too=False)
    with pytest.raises(LeaseLost):
        work_of(grant).observe(headers(0))
    assert not LimitState.objects.exclude(provider_left="").exists()


def test_a_late_answer_does_not_undo_a_newer_one(played: Played, probes: Probes) -> None:
    worker = played(slots=2)
    probes(2, limit_key=MODEL, uses={"tokens": 100})
    first, second = worker.begin_all()
    now = time.monotonic()
    work_of(first).observe(headers(5), sent=now)
    work_of(second).observe(headers(90_000), sent=now - 30)
    (answer,) = from_text(text_of(MODEL))["tokens"].answers
    assert answer.remaining == 5


def text_of(limit: str) -> str:
    return LimitState.objects.get(name=limit).provider_left


def test_a_429_about_tokens_throttles_tokens_and_not_the_host(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(1, limit_key=HOST, uses={"tokens": 100}, prefix="first")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("rate_limited", "429", retry_after=60, meter="tokens"), next_too=False)
    probes(2, limit_key=HOST, uses={"tokens": 100})
    probes(3, limit_key=HOST, prefix="free")
    assert leased() == 3
    assert LimitState.objects.get(name=HOST).open_until is None
    assert any("tokens: throttled until" in text and "Retry-After 60 s" in text for text in reasons())


@pytest.mark.parametrize(
    ("tokens", "requests", "meter"), [(0, 9, "tokens"), (99, 9, "tokens"), (100, 9, ""), (0, 0, "")]
)
def test_a_429_is_about_the_meter_of_which_the_answer_left_too_little(
    tokens: int, requests: int, meter: str, played: Played, probes: Probes
) -> None:
    worker = played(slots=1)
    probes(1, limit_key=HOST, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    work = work_of(grant)
    work.observe(headers(tokens, requests=requests))
    failed = Failed("rate_limited", "429", retry_after=60)
    assert with_meter(failed, work.usage.lacking) == Failed(
        "rate_limited", "429", retry_after=60, meter=meter
    )
    done = with_meter(Done(service_result=failed), work.usage.lacking)
    assert isinstance(done, Done) and done.service_result and done.service_result.meter == meter
    for other in (Failed("network", "away", retry_after=60), Failed("rate_limited", "429", limit="host:b")):
        assert with_meter(other, work.usage.lacking) == other


def test_a_person_may_forget_it_and_that_is_recorded(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(1, limit_key=MODEL, uses={"tokens": 100}, prefix="first")
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(0))
    worker.end(grant, next_too=False)
    probes(2, limit_key=MODEL, uses={"tokens": 100})
    assert controls.reset_breakers([MODEL], ANN) == [MODEL]
    assert leased() == 2
    assert AuditEntry.objects.get().before["is"].split("; ")[1].startswith("tokens: 0 left")


def test_it_is_shown_with_the_limit(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(350, requests=7, reset="2m"))
    shown = next(limit for limit in stats.limits() if limit["limit"] == MODEL)["provider"]
    assert [(each["meter"], each["left"]) for each in shown] == [("requests", 7), ("tokens", 250)], (
        "what runs may use 100 more"
    )
    assert shown[0]["until"] > datetime.now(UTC) + timedelta(seconds=100)


def test_what_is_over_is_pruned(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(350))
    assert provider_limits.prune(database_now(), 10) == 0
    assert provider_limits.prune(database_now() + timedelta(seconds=61), 10) == 1
    assert text_of(MODEL) == ""


def test_tokens_of_prompts_and_of_answers_count_as_tokens_unless_they_are_meters(
    played: Played, probes: Probes
) -> None:
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    kinds = {"input": 900, "output": 80}
    work_of(grant).observe({f"anthropic-ratelimit-{k}-tokens-remaining": str(n) for k, n in kinds.items()})
    (known,) = from_text(text_of(MODEL)).items()
    assert (known[0], known[1].answers[0].remaining) == ("tokens", 80)


def test_an_answer_takes_no_more_statements_than_it_needs(
    played: Played, probes: Probes, django_assert_num_queries: Any
) -> None:
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 100})
    (grant,) = worker.begin_all()
    work_of(grant).observe(headers(350))
    with django_assert_num_queries(5, exact=False):
        work_of(grant).observe(headers(340))
    assert Lease.objects.get().answered
    assert len(from_text(text_of(MODEL))["tokens"].answers) == 2
