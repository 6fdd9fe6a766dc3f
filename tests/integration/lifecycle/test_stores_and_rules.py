"""What a store or a rule does to the transaction it is called in is undone, and refused with a sentence."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, OperationalError, connection, transaction

from queuemgr.base import sql
from queuemgr.base.errors import RuleFailed
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow as flows
from queuemgr.flows.flow import Flow, Phase, Step
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle import enqueue, finish, result_store
from queuemgr.lifecycle.finish import Finish, StoreRuns
from queuemgr.models import Attempt, Execution, State
from queuemgr.operations import placing
from tests.acceptance import hostile_stores as hostile

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]

SAID = {
    "set-rollback": "its store left the transaction it was called in fit only to be rolled back",
    "caught-inside": "its store left the transaction it was called in fit only to be rolled back",
    "caught-without-savepoint": "its store left the transaction it was called in fit only to be rolled back",
    "leaves-a-block-of-the-queue": "its store ended the transaction it was called in",
    "enters-two-blocks": "its store left a transaction open",
    "commits-by-driver": "its store ended the transaction it was called in",
    "coroutine": "its store returned a coroutine, so it has not run",
    "generator": "its store returned a generator, so it has not run",
    "map": "its store returned a map, so it has not run",
    "function": "its store returned a function, so it has not run",
    "bound-method": "its store returned a method, so it has not run",
}


@pytest.fixture
def odd_flow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Flow]]:
    monkeypatch.setattr(flows, "_flows", dict(flows._flows))

    def make(**rules: Any) -> Flow:
        step = Step("one", "odd.one", **rules)
        return flows.register_flow(Flow("odd", (Phase("only", 0, "waiting", "running", (step,)),)))

    yield make


def end_with(store: Callable[[], object], played: Played, probes: Probes) -> Attempt:
    """The attempt of a step that ends with this store, which writes a group first."""
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()

    def write_and() -> object:
        Group.objects.create(name="written")
        return store()

    finish.finish_with_store(Finish(grant.lease_id, Done(store=write_and)), StoreRuns())
    return Attempt.objects.get()


@pytest.mark.parametrize("what", SAID)
def test_a_store_whose_writes_are_not_committed_is_not_done_and_the_attempt_says_why(
    what: str, played: Played, probes: Probes
) -> None:
    attempt = end_with(hostile.LOSES_ITS_WRITES[what], played, probes)
    assert (attempt.outcome, attempt.error_kind) == ("retried", "unexpected")
    assert attempt.error_message.startswith(SAID[what])
    assert not connection.in_atomic_block and connection.get_autocommit()
    if what != "commits-by-driver":  # that kept what came before it
        assert not Group.objects.filter(name="written").exists()


def test_a_store_that_catches_an_error_which_the_database_lives_with_is_done(
    played: Played, probes: Probes
) -> None:
    """PostgreSQL ends a transaction at an error; within a savepoint, or on SQLite, it continues."""

    def store() -> None:
        with suppress(DatabaseError), transaction.atomic():
            Group.objects.create(name="written")

    assert end_with(store, played, probes).outcome == "done"
    assert Group.objects.get().name == "written"


def test_an_error_caught_below_django_is_seen_as_the_database_sees_it(played: Played, probes: Probes) -> None:
    def store() -> None:
        with suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    outcome = end_with(store, played, probes).outcome
    assert (outcome, Group.objects.exists()) in [("done", True), ("retried", False)]
    assert outcome == ("retried" if connection.vendor == "postgresql" else "done")


def test_a_store_that_took_long_is_named_with_what_waited_for_it(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(result_store, "SLOW_SECONDS", 0)
    attempt = end_with(lambda: time.sleep(0.11), played, probes)
    (said,) = [record.getMessage() for record in caplog.records if "its store took" in record.getMessage()]
    assert f"lease {attempt.lease_id}: probe/p0 step " in said
    waited = "; on SQLite all other writes waited" if connection.vendor == "sqlite" else ""
    assert re.search(rf": its store took 0\.[1-9] s{waited}$", said)


def the_disk_is_full() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
            )
        cursor.execute("PRAGMA max_page_count = 1")  # SQLite takes the pages there are
        Group.objects.bulk_create(Group(name=f"{n:0150}") for n in range(20_000))  # more than it has free


@pytest.fixture
def room_again() -> Iterator[None]:
    yield
    if connection.vendor == "sqlite":
        connection.cursor().execute("PRAGMA max_page_count = 1073741823")


def test_a_result_waits_for_a_database_that_can_store_nothing_just_now(
    played: Played, probes: Probes, room_again: None
) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    ending = Finish(grant.lease_id, Done(store=the_disk_is_full))
    with pytest.raises(OperationalError) as full:
        finish.finish_with_store(ending, StoreRuns())
    assert sql.is_away(full.value) and not Attempt.objects.exists()
    finish.finish_with_store(Finish(grant.lease_id, Done(store=lambda: None)), StoreRuns())
    assert Attempt.objects.get().outcome == "done"


@pytest.mark.parametrize("what", [name for name in hostile.AFTER_COMMIT if name not in hostile.FORKS])
def test_what_a_store_has_run_after_the_commit_fails_by_itself(
    what: str, played: Played, probes: Probes, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def store() -> None:
        transaction.on_commit(hostile.AFTER_COMMIT[what])
        transaction.on_commit(lambda: ran.append("the next"))

    assert end_with(store, played, probes).outcome == "done"
    assert (ran, Group.objects.get().name) == (["the next"], "written")
    assert not connection.in_atomic_block and connection.get_autocommit()
    assert ("on_commit failed" in caplog.text) == (what != "closes")


RULES: Mapping[str, Any] = {"key": "", "cost": 0, "weight": 1, "resources": {}, "needed": True}


def bad_rule(rule: str, what: str) -> dict[str, Any]:
    return {rule: lambda context: hostile.rule(what, context, RULES[rule])}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("what", [*hostile.RULES_LEAVE_OPEN, *hostile.RULE_VALUES])
def test_a_rule_that_leaves_a_transaction_open_is_refused_at_enqueue_and_by_actions(
    rule: str, what: str, odd_flow: Callable[..., Flow]
) -> None:
    odd_flow()
    enqueue.enqueue("odd", "before", {"nested": [1]})
    odd_flow(**bad_rule(rule, what))
    with pytest.raises(RuleFailed, match=f"^flow odd: {rule} of step one") as failed:
        enqueue.enqueue("odd", "after", {"nested": [1]})
    if what in hostile.RULES_LEAVE_OPEN:
        assert "left a transaction open, whose writes were rolled back" in str(failed.value)
    Execution.objects.update(state=State.FAILED, finished_at=database_now())
    assert [each.place for each in placing.ask(placing.to_retry(from_start=True), [pk()]).values()] == [None]
    assert not connection.in_atomic_block and connection.get_autocommit()
    assert not Group.objects.exists()


def pk() -> int:
    return Execution.objects.values_list("pk", flat=True).get()


@pytest.mark.parametrize("what", hostile.RULES_LEAVE_OPEN)
def test_a_rule_leaves_the_transaction_of_who_enqueues_as_it_was(
    what: str, odd_flow: Callable[..., Flow]
) -> None:
    odd_flow(**bad_rule("key", what))
    with transaction.atomic():
        Group.objects.create(name="of the caller")
        with suppress(RuleFailed, DatabaseError):
            enqueue.enqueue("odd", "after", {"nested": [1]})
        assert len(connection.atomic_blocks) == 1 and not connection.needs_rollback
    assert list(Group.objects.values_list("name", flat=True)) == ["of the caller"]


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_does_to_what_it_is_given_is_not_stored(rule: str, odd_flow: Callable[..., Flow]) -> None:
    odd_flow(**bad_rule(rule, "changes-its-context"))
    enqueue.enqueue("odd", "kept", {"nested": [1]})
    assert Execution.objects.get().payload == {"nested": [1]}
