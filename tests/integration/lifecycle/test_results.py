"""What a step returns is stored with its execution, and an unexpected error's traceback with its attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.base.redaction import register_secret
from queuemgr.base.traceback_text import MAX_CHARACTERS, traceback_of
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.flows.retry_policy import Policy
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import Attempt, Execution, Outcome, State
from queuemgr.worker.application_code import as_result
from tests.integration.conftest import let_time_pass

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]

VALUES = [
    0,
    1.5,
    True,
    "",
    "text with 'quotes' and \\ and ünïcode",
    [1, [2]],
    {"a": None},
    "null",
    "{}",
    [],
    {},
]


def begun(worker: Any) -> Any:
    dispatch()
    (grant,) = worker.begin_all()
    return grant


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_result_of_the_last_step_is_read_back_as_it_was_returned(
    played: Played, probes: Probes, value: Any
) -> None:
    worker, (execution,) = played(), probes(1)
    worker.end(begun(worker), Done(result=value), next_too=False)
    execution.refresh_from_db()
    assert (execution.state, execution.result) == (State.DONE, value)


def test_results_of_several_executions_ended_at_once_are_not_mixed_up(played: Played, probes: Probes) -> None:
    worker, executions = played(slots=4), probes(4)
    dispatch()
    grants = worker.begin_all()
    results = {grant.key: ["of", grant.key] for grant in grants[1:]}
    endings = [Finish(grant.lease_id, Done(result=results.get(grant.key))) for grant in grants]
    finish.finish_batch(endings, None)
    stored = dict(Execution.objects.values_list("key", "result"))
    assert stored == {e.key: results.get(e.key) for e in executions}


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_the_traceback_of_an_unexpected_error_is_stored_masked_with_its_attempt(
    played: Played, probes: Probes
) -> None:
    register_secret("a-secret-of-this-test")
    worker, _ = played(), probes(1)
    failed = as_result(raised("it holds a-secret-of-this-test and \x00 and \udc00"), AbortSignal())
    worker.end(begun(worker), failed, next_too=False)
    stored = Attempt.objects.get().traceback
    assert stored.startswith("Traceback (most recent call last):")
    assert "in raised" in stored
    assert "ValueError: it holds *** and" in stored


def test_a_traceback_keeps_its_end_however_long_its_message_is() -> None:
    kept = traceback_of(raised("x" * 10 * MAX_CHARACTERS + "the end"))
    assert len(kept) == MAX_CHARACTERS
    assert kept.endswith("the end\n")


def test_a_traceback_of_deep_recursion_and_a_long_chain_is_bounded() -> None:
    error = raised("first")
    for number in range(500):
        try:
            raise ValueError(f"number {number}") from error
        except ValueError as following:
            error = following
    kept = traceback_of(error)
    assert len(kept) <= MAX_CHARACTERS
    assert "number 499" in kept


def test_a_failure_with_a_policy_of_its_own_is_retried_by_that(played: Played, probes: Probes) -> None:
    worker, (execution,) = played(), probes(1)
    for _ in range(2):
        grant = begun(worker)
        worker.end(grant, Failed("not_found", "gone", policy=Policy(3, base=60, ceiling=60)), next_too=False)
        execution.refresh_from_db()
        assert execution.state == State.WAITING
        let_time_pass(Execution.objects.waiting())
    worker.end(
        begun(worker), Failed("not_found", "gone", policy=Policy(3, base=60, ceiling=60)), next_too=False
    )
    execution.refresh_from_db()
    assert execution.state == State.FAILED
    outcomes = Attempt.objects.order_by("pk").values_list("outcome", flat=True)
    assert list(outcomes) == [Outcome.RETRIED, Outcome.RETRIED, Outcome.FAILED]


def test_what_a_step_logged_is_stored_with_a_failed_attempt_only(played: Played, probes: Probes) -> None:
    worker, _ = played(slots=3), probes(3)
    dispatch()
    results = (Done(), Failed("timeout", "late", policy=Policy(1, 0, 0, 0, "")), Failed("timeout", "late"))
    endings = [
        Finish(grant.lease_id, result, log="a line")
        for grant, result in zip(worker.begin_all(), results, strict=True)
    ]
    finish.finish_batch(endings, None)
    finish.finish_batch(endings, None)  # whose leases are gone
    stored = dict(Attempt.objects.values_list("outcome", "log"))
    assert stored == {Outcome.DONE: None, Outcome.FAILED: "a line", Outcome.RETRIED: "a line"}
