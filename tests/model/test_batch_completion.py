"""Batches in batches against the real database, beside a plain model of when each completes and what it
calls.

Members end in any order, at once, with decisions or none after them; are cancelled, skipped, lost, retried,
and added by members that run. After every decision each callback has fired if its time has ever come: once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from queuemgr.base import process_state
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import FINAL, Batch, BatchCallback, BatchEvent, Execution, Lease, State, Wakeup, Worker
from queuemgr.operations import batches, executions
from queuemgr.operations.controls import Actor
from queuemgr.worker import housekeeping
from tests.model.empty_fleet import OLD_FIRST
from tests.private_servers import MODEL_EXAMPLES

ANN = Actor("ann", "test", "because")
WHICH = st.integers(0, 99)
ENDS: tuple[Result, ...] = (
    Done(), Done(), Done(), Done(), Failed("not_found", "404"), Skipped("nothing to do"),
    Failed("network", "refused"), Snoozed(0, "not yet"), Interrupted("shutdown"),
)  # fmt: skip
RESULTS = st.sampled_from(ENDS)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("end"), WHICH, RESULTS, st.booleans()),
        st.tuples(st.just("end"), WHICH, RESULTS, st.booleans()),
        st.tuples(st.just("end at once"), st.lists(st.tuples(WHICH, RESULTS), min_size=2, max_size=6)),
        st.tuples(st.just("lose"), WHICH),
        st.tuples(st.sampled_from(("cancel", "skip", "retry", "retry", "retry from start")), WHICH),
        st.tuples(st.just("add"), WHICH, st.integers(1, 3)),
        st.tuples(st.just("add as a member"), WHICH, st.integers(1, 3)),
        st.tuples(st.just("open as a member"), WHICH),
        st.tuples(st.just("close"), WHICH),
        st.tuples(st.just("close"), WHICH),
        st.tuples(st.just("cancel batch"), WHICH),
        st.tuples(st.just("tick")),
    ),
    max_size=40,
)


class Plain:
    """What has come of each batch so far, by the states of its members alone."""

    def __init__(self, worker: Worker, in_threads: Callable[..., list[Any]]) -> None:
        self.worker, self.in_threads = worker, in_threads
        self.running: list[Grant] = []
        self.due: set[tuple[int, str]] = set()
        self.named = 0
        for parent in (None, 0, 1, 0):
            self.open(self.batches()[parent] if parent is not None else None)

    def batches(self) -> list[Batch]:
        return list(Batch.objects.order_by("pk"))

    def open(self, parent: Batch | None, member: Any = None, window: int = 0) -> None:
        self.named += 1
        calls = {event: Call("probe", {"of": self.named}) for event in BatchEvent.values}
        batches.open_batch(
            f"b{self.named}", "probe", ANN, callbacks=calls, parent=parent, member=member, window=window
        )

    def add(self, which: int, count: int) -> None:
        self._add(self._which(which), count)

    def _add(self, batch: Batch, count: int, member: Any = None) -> None:
        self.named += count
        keys = [f"m{self.named}.{n}" for n in range(count)]
        with suppress(BadInput):  # it is closed, or cancelled
            batches.add(batch, map(NewExecution, keys), member=member)

    def as_member(self, which: int, count: int = 0) -> None:
        members = [grant for grant in self.running if self._batch_of(grant)]
        if members:
            grant = members[which % len(members)]
            batch = self._batch_of(grant)
            with suppress(BadInput):  # it was cancelled
                if count:
                    self._add(batch, count, grant.lease_id)
                else:
                    self.open(batch, grant.lease_id)

    def _batch_of(self, grant: Grant) -> Any:
        return Execution.objects.select_related("batch").get(pk=grant.execution_id).batch

    def _which(self, which: int) -> Batch:
        every = self.batches()
        return every[which % len(every)]

    def end(self, which: int, result: Result, decides: bool) -> None:
        if grant := self._one(which):
            ending = Finish(grant.lease_id, result)
            if decides:
                finish.finish_batch([ending], None)
            else:  # as if its process had been killed after it
                finish.finish_leases([ending], database_now())

    def end_at_once(self, endings: list[tuple[int, Result]]) -> None:
        """Members that run end, and members that wait are cancelled, each in a thread of its own."""
        waiting = list(Execution.objects.waiting().filter(batch__isnull=False).order_by("pk")[:2])
        acts = [partial(executions.cancel, [member], ANN) for member in waiting]
        acts += [
            partial(_end, Finish(grant.lease_id, result))
            for which, result in endings
            if (grant := self._one(which))
        ]
        if connection.vendor == "postgresql" and acts:
            self.in_threads(len(acts), lambda n: acts[n]())
        else:
            for act in acts:
                act()

    def lose(self, which: int) -> None:
        if grant := self._one(which):
            Lease.objects.filter(pk=grant.lease_id).update(expires_at="2020-01-01T00:00Z")
            housekeeping.tick()

    def steer(self, verb: str, which: int) -> None:
        members = list(Execution.objects.filter(batch__isnull=False).order_by("pk"))
        if members:
            verbs = {"cancel": executions.cancel, "skip": executions.skip, "retry": executions.retry}
            act = verbs.get(verb, executions.retry_from_start)
            act([members[which % len(members)]], ANN)

    def begin(self) -> None:
        """Start what may start; callbacks are out of its way."""
        Execution.objects.filter(state=State.WAITING, batch=None).update(run_after="2030-01-01T00:00Z")
        waiting = Execution.objects.waiting().exclude(run_after=None).filter(batch__isnull=False)
        waiting.update(run_after=database_now())
        housekeeping.tick()
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))
        self.running += begin.begin(unstarted, self.worker.pk).grants
        self.running = [g for g in self.running if Lease.objects.filter(pk=g.lease_id).exists()]

    def _one(self, which: int) -> Grant | None:
        return self.running.pop(which % len(self.running)) if self.running else None

    def play(self, name: str, *given: Any) -> None:
        does: dict[str, Callable[..., Any]] = {
            "end": self.end, "end at once": self.end_at_once, "lose": self.lose, "add": self.add,
            "add as a member": self.as_member, "open as a member": self.as_member, "tick": housekeeping.tick,
            "close": lambda which: batches.close(self._which(which), ANN),
            "cancel batch": lambda which: batches.cancel(self._which(which), ANN),
        }  # fmt: skip
        if name in does:
            does[name](*given)
        else:
            self.steer(name, *given)

    def check(self) -> None:
        """After decisions until nothing is left to decide: what has completed, and what has fired."""
        for _ in range(5):
            dispatch()
        assert not Wakeup.objects.filter(limit__startswith="batch ").exists()
        succeeded: dict[int, bool | None] = {}
        for batch in reversed(self.batches()):
            inner = [succeeded[child.pk] for child in batch.children.all()]
            states = set(batch.executions.values_list("state", flat=True))
            is_complete = batch.closed_at is not None and states <= {*FINAL} and None not in inner
            failed = states & {State.FAILED, State.CANCELLED} or batch.cancelled_at or False in inner
            succeeded[batch.pk] = (not failed) if is_complete else None
            assert (batch.completed_at is not None, batch.succeeded) == (is_complete, succeeded[batch.pk])
            if is_complete:
                outcome = BatchEvent.FAILURE if failed else BatchEvent.SUCCESS
                self.due |= {(batch.pk, BatchEvent.COMPLETE.value), (batch.pk, outcome.value)}
        callbacks = list(BatchCallback.objects.all())
        assert {(c.batch_id, c.event) for c in callbacks if c.fired_at} == self.due
        self.check_each_was_inserted_once(callbacks)

    def check_each_was_inserted_once(self, callbacks: list[BatchCallback]) -> None:
        """What was inserted gets another key, so that a second one would be there beside it."""
        events = {f"batch:{c.batch_id}:{c.event}": (c.batch_id, c.event) for c in callbacks}
        inserted = list(Execution.objects.filter(batch=None))
        for execution in inserted:
            key = execution.key.partition("~")[0]
            Execution.objects.filter(pk=execution.pk).update(key=f"{key}~{execution.pk}")
        times = Counter(events[execution.key.partition("~")[0]] for execution in inserted)
        assert times == Counter(self.due)

    def run_to_the_end(self) -> None:
        for batch in self.batches():
            batches.close(batch, ANN)
        for _ in range(50 + 5 * self.named):
            self.begin()
            while self.running:
                self.end(0, Done(), decides=False)
            if not Execution.objects.filter(batch__isnull=False).exclude(state__in=FINAL).exists():
                return
        raise AssertionError("it does not come to its end")


def _end(ending: Finish) -> None:
    while True:
        with suppress(RowsBusy):  # as a worker does: it is left out, and ended with the next
            finish.finish_batch([ending], None)
            return


@pytest.mark.django_db(transaction=True)
def test_callbacks_fire_once_each_whenever_their_time_comes_however_members_end(
    make_worker: Callable[..., Worker], in_threads: Callable[..., list[Any]], sent: list[Any]
) -> None:

    @settings(
        max_examples=max(4, MODEL_EXAMPLES // 2),
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(slots=st.integers(2, 8), first=st.lists(st.integers(0, 3), min_size=4, max_size=4), moves=MOVES)
    def play(slots: int, first: list[int], moves: list[tuple[Any, ...]]) -> None:
        BatchCallback.objects.all().delete()
        for model in OLD_FIRST:
            model._default_manager.all().delete()
        for batch in Batch.objects.order_by("-pk"):
            batch.delete()
        process_state.reset_all()
        plain = Plain(make_worker(slots=slots), in_threads)
        for which, count in enumerate(first):
            plain.add(which, count)
        for move in moves:
            plain.begin()
            plain.play(*move)
            plain.check()
        plain.run_to_the_end()
        plain.check()
        assert all(batch.completed_at for batch in plain.batches())

    play()
