"""What a retry keeps, how many there are, and that no error however odd leaves work running."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.core.management import call_command

from queuemgr.base.redaction import MESSAGE_LIMIT
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import retry_policy
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import HIGH
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, Execution, Lease, Outcome, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain
from queuemgr.scheduling import wakeups
from queuemgr.worker import housekeeping
from queuemgr.worker.application_code import as_result
from tests.integration.conftest import let_time_pass

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "admin")


def pass_time(seconds: float) -> None:
    """Let so much time pass for what is stored: every moment waited for is so much nearer."""
    for execution in Execution.objects.waiting():
        Execution.objects.filter(pk=execution.pk).update(
            run_after=execution.run_after - timedelta(seconds=seconds)
        )
    wakeups.post(limits=[wakeups.EVERYTHING])


def fall_due() -> None:
    let_time_pass(Execution.objects.waiting())
    dispatch()


def lose(grant: Grant) -> None:
    """The worker of the lease sends no more heartbeats."""
    Lease.objects.filter(pk=grant.lease_id).update(expires_at=database_now() - timedelta(seconds=1))
    housekeeping.tick()


def failed_in_the_step(worker: Any, grant: Grant) -> None:
    worker.end(grant, Failed("network", "reset"), next_too=False)


def error_nobody_named(worker: Any, grant: Grant) -> None:
    worker.end(grant, as_result(KeyError("title"), AbortSignal()), next_too=False)


def crash(worker: Any, grant: Grant) -> None:
    lose(grant)


def by_the_admin(worker: Any, grant: Grant) -> None:
    worker.end(grant, Failed("not_found", "404"), next_too=False)
    assert executions.retry(Execution.objects.failed(), ANN) == 1


def by_command(worker: Any, grant: Grant) -> None:
    worker.end(grant, Failed("not_found", "404"), next_too=False)
    call_command("queue", "retry-failed")


@pytest.mark.parametrize("fail", [failed_in_the_step, error_nobody_named, crash, by_the_admin, by_command])
def test_a_retry_keeps_queue_priority_limit_key_payload_and_identity(
    fail: Callable[[Any, Grant], None], played: Played, probes: Probes, sent: list[Any]
) -> None:
    """Queue, priority, limit key, payload and identity of tries 2 and 3 are those of the first."""
    worker = played(slots=1)
    probes(1, priority=HIGH, phase="wrap", limit_key="tenant:a", trail="correlation-7")
    seen: list[tuple[Any, ...]] = []
    for number in range(3):
        (grant,) = worker.begin_all()
        lease = Lease.objects.get()
        seen.append(
            (grant.execution_id, grant.key, grant.queue, lease.priority, grant.limit_keys,
             grant.payload, lease.cost, sent[-1].queue)
        )  # fmt: skip
        if number < 2:
            fail(worker, grant)
            waiting = Execution.objects.select_related("route").get()
            if waiting.route:
                assert (waiting.route.phase, waiting.route.priority) == ("wrap", HIGH)
            fall_due()
    assert seen[0][2:5] == ("wrap.high", HIGH, "tenant:a")
    assert seen[0][5]["trail"] == "correlation-7"
    assert seen[1:] == [seen[0]] * 2
    assert Execution.objects.count() == 1


def test_retries_of_different_layers_do_not_multiply(played: Played, probes: Probes) -> None:
    """A step that always fails, swept, enqueued and delivered again, runs as often as its policy allows."""
    worker = played(slots=1)
    probes(1)
    calls, most = 0, retry_policy.POLICIES["network"].max_attempts
    for _ in range(2 * most):
        fall_due()
        housekeeping.tick()
        enqueue("probe", "p0")
        housekeeping.backfill()
        for grant in worker.begin_all():
            calls += 1
            worker.end(grant, Failed("network", "reset"))
            worker.end(grant, Failed("network", "reported twice"))
        assert worker.begin_all() == []
    assert calls == most
    assert Attempt.objects.count() == calls
    assert Execution.objects.get().state == State.FAILED


def test_each_error_kind_is_attempted_as_often_as_its_policy_says_and_then_fails(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    """`max_attempts` counts runs; the last of them leaves a final state with its error."""
    configure(retry_percent=100)
    kinds = [kind for kind in retry_policy.POLICIES if kind != "poison"]
    worker = played(slots=len(kinds))
    failing = dict(zip((e.pk for e in probes(len(kinds))), kinds, strict=True))
    number = 0
    while begun := worker.begin_all():
        number += 1
        for grant in begun:
            failed = Failed(failing[grant.execution_id], f"failure {number}")
            worker.end(grant, failed, next_too=False)
        fall_due()
    for pk, kind in failing.items():
        execution, most = Execution.objects.get(pk=pk), retry_policy.POLICIES[kind].max_attempts
        assert (execution.state, execution.error_kind) == (State.FAILED, kind)
        assert execution.error_message == f"failure {most}"
        assert execution.finished_at is not None
        outcomes = list(execution.attempts.order_by("pk").values_list("outcome", flat=True))
        assert outcomes == [Outcome.RETRIED] * (most - 1) + [Outcome.FAILED], kind
    assert not Lease.objects.exists()


class NeedsTwo(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


class CannotSay(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class HoldsSocket(Exception):
    def __init__(self, held: socket.socket) -> None:
        super().__init__("it holds a socket")
        self.held = held


@pytest.fixture
def odd_errors() -> Iterator[dict[str, Exception]]:
    request = httpx.Request("POST", "http://model.test/v1/chat/completions")
    with socket.socket() as held:
        yield {
            "needs two arguments": NeedsTwo("one", "two"),
            "holds a socket": HoldsSocket(held),
            "cannot be printed": CannotSay(),
            "ten megabytes": ValueError("x" * 10_000_000),
            "half a surrogate": ValueError("before \ud83d after \x00 end"),
            "a status error": httpx.HTTPStatusError(
                "500 from the model", request=request, response=httpx.Response(500)
            ),
        }


@pytest.mark.parametrize(
    "which",
    ["needs two arguments", "holds a socket", "cannot be printed", "ten megabytes",
     "half a surrogate", "a status error"],
)  # fmt: skip
def test_any_error_is_recorded_as_text_and_the_work_continues(
    which: str, odd_errors: dict[str, Exception], played: Played, probes: Probes
) -> None:
    """No error object leaves the process; its name and part of its message do."""
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    try:
        raise odd_errors[which]
    except Exception as error:
        worker.end(grant, as_result(error, AbortSignal()))
    execution, attempt = Execution.objects.get(), Attempt.objects.get()
    assert (execution.state, execution.error_kind) == (State.WAITING, "unexpected")
    assert attempt.outcome == Outcome.RETRIED
    for text in (execution.error_message, attempt.error_message):
        assert text.startswith(type(odd_errors[which]).__name__)
        assert len(text) <= MESSAGE_LIMIT
        assert text.encode().decode() == text


def test_running_out_of_time_is_a_failure_and_never_a_success() -> None:
    """A soft time limit that reaches us is an error like any other."""
    result = as_result(SoftTimeLimitExceeded(), AbortSignal())
    assert isinstance(result, Failed)
    assert "SoftTimeLimitExceeded" in result.message


@pytest.mark.parametrize("seconds", [5, 90, 3_600])
def test_a_retry_after_is_obeyed_while_its_slot_serves_others(
    seconds: int, played: Played, probes: Probes
) -> None:
    """Not a second early, no slot slept away, and the planned time is there to see."""
    worker = played(slots=1)
    probes(2)
    (first,) = worker.begin_all()
    (second,) = worker.end(first, Failed("rate_limited", "429", retry_after=seconds))
    assert second.key == "p1"
    waiting = Execution.objects.get(key="p0")
    assert f"not before {waiting.run_after:%Y-%m-%d %H:%M:%S} UTC (attempt 2 of 12 after rate_limited)" == (
        explain.reasons().of(waiting)
    )
    worker.end(second)
    pass_time(seconds - 2)
    housekeeping.tick()
    assert not Lease.objects.exists()
    pass_time(2 + retry_policy.POLICIES["rate_limited"].jitter)
    housekeeping.tick()
    assert Lease.objects.get().execution == waiting


@pytest.mark.parametrize("wait", [30, 90, 300, 100_000])
def test_delays_of_any_length_are_stored_and_published_once_each_when_due(
    wait: int, played: Played, probes: Probes, sent: list[Any]
) -> None:
    """A broker that holds messages not yet due redelivers them; ours gets none."""
    worker = played(slots=20)
    probes(20)
    for grant in worker.begin_all():
        worker.end(grant, Failed("rate_limited", "429", retry_after=wait), next_too=False)
    sent.clear()
    due = Execution.objects.order_by("run_after").values_list("run_after", flat=True)
    pass_time((due[0] - database_now()).total_seconds() - 20)
    for _ in range(5):
        housekeeping.tick()
    assert sent == []
    pass_time((due.last() - database_now()).total_seconds())
    for _ in range(5):
        housekeeping.tick()
    assert len(sent) == len({grant.execution_id for grant in sent}) == 20
    for grant in worker.begin_all():
        worker.end(grant, Done())
    assert Attempt.objects.filter(outcome=Outcome.DONE).count() == 20


def test_a_failure_is_stored_with_its_fingerprint_which_goes_when_the_error_goes(
    played: Any, probes: Any
) -> None:
    worker = played(slots=2)
    one, other = probes(2)
    by_key = {grant.key: grant for grant in worker.begin_all()}
    worker.end(by_key[one.key], Failed("not_found", "no paper 17 at http://a.example/17"))
    worker.end(by_key[other.key], Failed("network", "refused by 10.0.0.3"))
    one.refresh_from_db()
    other.refresh_from_db()
    assert one.error_fingerprint == fingerprint("not_found", "probe", "no paper 4 at http://b/c")
    assert (other.state, other.error_fingerprint) == (
        State.WAITING,
        fingerprint("network", "probe", "refused by 10.0.9.9"),
    )
    let_time_pass(Execution.objects.filter(pk=other.pk))
    dispatch()
    (grant,) = worker.begin_all()
    worker.end(grant, Done())
    other.refresh_from_db()
    assert (other.state, other.error_kind, other.error_fingerprint) == (State.DONE, "", "")
