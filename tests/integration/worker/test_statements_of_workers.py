"""What workers of several releases state of limits, queues and retry policies, and what is in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from queuemgr.base.errors import NameTaken
from queuemgr.flows.flow import all_error_kinds, all_queues
from queuemgr.models import AuditEntry, Limit, Queue, Worker, WorkerStatement
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows, retry_policies
from queuemgr.worker import housekeeping, process_identity, registration, worker_row

ANN = Actor("ann", "test")
NAME = "test:*"
OLD, NEW = {"max_running": 10}, {"max_running": 2}

pytestmark = pytest.mark.usefixtures("transactional_db", "sent")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Worker]:
    """Start a worker whose process is gone as soon as another of its name starts: `start("a", OLD)`."""
    pid = iter(range(4_200_000, 4_300_000))

    def started(name: str, stated: Mapping[str, Any] = OLD) -> Worker:
        gone = process_identity.ProcessIdentity("here", "a-boot", 1, next(pid), 1)
        with monkeypatch.context() as patch:
            patch.setattr(process_identity, "this_process", lambda: gone)
            return registration.register(name, all_queues(), 1, {NAME: stated})

    return started


def end(name: str, *, seconds_ago: float) -> None:
    """Have a worker's last heartbeat be so long ago."""
    Worker.objects.filter(name=name).update(seen_at=F("seen_at") - timedelta(seconds=seconds_ago))


def cap() -> int:
    return Limit.objects.get(name=NAME).max_running


def test_the_tick_has_older_limits_in_force_once_no_worker_of_the_newer_release_is_left(start: Any) -> None:
    start("a", OLD)
    start("b", NEW)
    start("a", OLD)
    housekeeping.tick()
    assert cap() == 2
    end("b", seconds_ago=40)
    housekeeping.tick()
    assert cap() == 2, "it may only be restarting"
    end("b", seconds_ago=25)
    housekeeping.tick()
    assert cap() == 10
    assert AuditEntry.objects.latest("pk").reason == "stated by the workers that are left"
    start("b", NEW)
    assert cap() == 2, "the newer release is back"


def test_a_worker_that_starts_again_under_its_name_has_its_earlier_limits_back_at_once(start: Any) -> None:
    """Code edited back on one machine: the process that stated the newer limit is gone for certain."""
    start("a", OLD)
    start("a", NEW)
    assert cap() == 2
    start("a", OLD)
    assert cap() == 10


@pytest.mark.parametrize("what", ["queue", "policy"])
def test_what_an_old_worker_states_of_queues_and_retry_policies_stays_replaced_too(
    what: str, start: Any, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(number: int) -> None:
        if what == "queue":
            configure(max_pending=number)
        else:
            kinds = {
                **all_error_kinds(),
                "network": replace(all_error_kinds()["network"], max_attempts=number),
            }
            monkeypatch.setattr(retry_policies, "all_error_kinds", lambda: kinds)

    def in_force() -> int:
        if what == "queue":
            return int(Queue.objects.get(name="prep.low").max_pending)
        return retry_policies.policy_for("network", "prep").max_attempts

    for number, name in ((3, "a"), (7, "b"), (3, "a")):
        release(number)
        start(name)
    assert in_force() == 7
    end("b", seconds_ago=61)
    housekeeping.tick()
    assert in_force() == 3


def test_a_worker_that_is_refused_its_name_changes_no_limit(start: Any) -> None:
    start("a", OLD)
    living = Worker.objects.filter(name="a")
    process = process_identity.this_process()
    living.update(
        host=process.host, boot_id=process.boot_id, pid_namespace=process.pid_namespace, pid=process.pid,
        process_started=process.started,
    )  # fmt: skip
    with pytest.raises(NameTaken):
        registration.register("a", all_queues(), 1, {NAME: NEW})
    assert cap() == 10


def test_an_edit_that_does_not_fit_what_a_new_release_states_gives_way(start: Any) -> None:
    start("a", {"max_running": 10, "rate": "5/s"})
    controls.edit_limit(NAME, ANN, reserved_high=5, breaker_after=3)
    start("a", {"max_running": 4})
    row = Limit.objects.get(name=NAME)
    assert (row.max_running, row.reserved_high, row.rate) == (4, 0, "")
    assert row.breaker_after == 3, "this edit fits"


def test_a_fleet_that_is_started_as_a_whole_has_the_limits_it_states(start: Any) -> None:
    start("a", OLD)
    start("b", NEW)
    limit_rows.sync(limits={NAME: OLD}, as_newest=True)
    assert cap() == 10


def test_what_a_worker_stated_goes_with_its_row(start: Any) -> None:
    start("a")
    assert WorkerStatement.objects.count() == 1
    worker_row.remove(Worker.objects.get().pk)
    assert not WorkerStatement.objects.exists()
