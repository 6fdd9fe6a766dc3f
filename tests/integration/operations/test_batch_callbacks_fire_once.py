"""A callback of a batch fires once, whatever is retried and whoever acts at the same time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Batch, BatchCallback, Execution, Wakeup
from queuemgr.operations import executions
from tests.integration.operations.batch_fixtures import (
    ANN,
    BROKEN,
    EVENTS,
    calling,
    fired,
    is_complete,
    needs_two_connections,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]


def test_what_a_person_retries_fires_no_callback_again_and_may_fire_the_one_for_success(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=9)
    batch = calling(keys="a b")
    first, second = worker.begin_all()
    worker.end(first, BROKEN)
    worker.end(second)
    assert fired() == {"on_complete", "on_failure"}
    times = dict(BatchCallback.objects.values_list("event", "fired_at"))
    for callback in Execution.objects.filter(batch=None):  # so that one that came again would be seen
        Execution.objects.filter(pk=callback.pk).update(key=f"seen {callback.pk}")
    executions.retry(batch.executions.all(), ANN)
    assert is_complete(batch) is None
    grant = next(g for g in worker.begin_all() if g.key == first.key)
    worker.end(grant)
    assert is_complete(batch) is True
    assert fired() == {"on_success"}
    assert BatchCallback.objects.get(event="on_complete").fired_at == times["on_complete"]


def test_skipping_what_failed_says_to_continue_without_it(played: Callable[..., Any]) -> None:
    worker = played()
    batch = calling(keys="a")
    [grant] = worker.begin_all()
    worker.end(grant, BROKEN)
    assert is_complete(batch) is False
    executions.skip(batch.executions.all(), ANN)
    assert is_complete(batch) is True
    assert fired() == set(EVENTS)


def test_a_callback_is_one_row_for_each_batch_and_event_and_its_key_is_its_own() -> None:
    batch = calling()
    callback = batch.callbacks.first()
    assert callback is not None
    callback.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        callback.save()


@needs_two_connections
def test_members_that_end_at_once_fire_each_callback_once(
    played: Callable[..., Any], in_threads: Callable[..., list[Any]]
) -> None:
    """Ends, cancellations and skips of the last members, each in a transaction of its own, at one time."""
    worker = played(slots=24)
    for number in range(6):
        batch = calling(f"r{number}", " ".join(f"{number}.{n}" for n in range(8)))
        dispatch()
        grants = [grant for grant in worker.begin_all() if grant.key.startswith(f"{number}.")]
        left = batch.executions.exclude(pk__in=[grant.execution_id for grant in grants])
        acts: list[Callable[[], Any]] = [
            *(partial(_end, grant) for grant in grants), dispatch,
            *(partial(executions.skip, [member], ANN) for member in left),
        ]  # fmt: skip
        in_threads(len(acts), lambda n, acts=acts: acts[n]())
        dispatch()
        assert is_complete(batch) is True
        assert fired(batch.name) == {"on_complete", "on_success"}
        assert BatchCallback.objects.filter(batch=batch, fired_at__isnull=False).count() == 2
    assert not Wakeup.objects.exists()


def _end(grant: Grant) -> None:
    while True:
        with suppress(RowsBusy):  # as a worker does: it is left out, and ended with the next
            finish.finish_batch([Finish(grant.lease_id, Done())], None)
            return


@needs_two_connections
def test_a_row_that_somebody_holds_delays_only_its_own_batch(in_threads: Callable[..., list[Any]]) -> None:
    batch, other = calling("held", "a"), calling("other", "b")

    def act(number: int) -> None:
        executions.cancel(Execution.objects.filter(batch__isnull=False), ANN)
        assert fired("other") == {"on_complete", "on_failure"}
        assert fired("held") == set()

    with transaction.atomic():
        Batch.objects.select_for_update().get(pk=batch.pk)
        in_threads(1, act)
    dispatch()
    assert fired("held") == {"on_complete", "on_failure"}
    assert is_complete(other) is False


@needs_two_connections
def test_an_open_transaction_that_enqueued_the_key_of_a_callback_delays_only_its_batch(
    in_threads: Callable[..., list[Any]],
) -> None:
    calling("held", "a")
    calling("other", "b")

    def act(number: int) -> None:
        executions.cancel(Execution.objects.filter(batch__isnull=False), ANN)
        assert fired("other") == {"on_complete", "on_failure"}
        assert fired("held") == set()

    with transaction.atomic():
        enqueue_many("probe", [NewExecution("held:on_failure")])
        in_threads(1, act)
    dispatch()
    assert fired("held") == {"on_complete", "on_failure"}
    assert is_complete(Batch.objects.get(name="held")) is False
