"""A batch with a window against the real database: whatever happens, in whatever order, beside a plain
model of who may have started and what was handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.lifecycle import batch_window, begin, finish
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import FINAL, AuditEntry, Batch, Execution, Lease, Wakeup, Worker
from queuemgr.operations import batches, executions
from queuemgr.operations.controls import Actor
from queuemgr.worker import housekeeping
from tests.model.empty_fleet import OLD_FIRST
from tests.private_servers import MODEL_EXAMPLES

ANN = Actor("ann", "test", "because")
WHICH = st.integers(0, 99)
ENDS: tuple[Result, ...] = (
    Done(), Done(), Done(), Failed("not_found", "404"), Skipped("nothing to do"),
    Failed("network", "refused"), Snoozed(0, "not yet"), Interrupted("shutdown"),
)  # fmt: skip
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("end"), WHICH, st.sampled_from(ENDS), st.booleans()),
        st.tuples(st.just("end"), WHICH, st.sampled_from(ENDS), st.booleans()),
        st.tuples(st.just("die after the end"), WHICH, st.sampled_from(ENDS)),
        st.tuples(st.just("lose"), WHICH),
        st.tuples(st.sampled_from(("cancel", "skip", "retry", "retry from start")), WHICH),
        st.tuples(st.just("hand over"), st.integers(1, 5)),
        st.tuples(st.just("tick")),
    ),
    max_size=25,
)


class Plain:
    """What a batch is to its reader: places in order, a window over them, and what was handed over."""

    def __init__(self, batch: Batch, worker: Worker, free_slots: Any) -> None:
        self.batch, self.worker, self.free_slots = batch, worker, free_slots
        self.running: list[Grant] = []
        self.started: set[int] = set()
        self.handed_over: list[int] = []
        self.reached = batch.window
        self.named = 0

    def members(self) -> list[Execution]:
        return list(self.batch.executions.order_by("batch_seq"))

    def head(self) -> int:
        return next((e.batch_seq for e in self.members() if e.state not in FINAL), self.named)

    def add(self, count: int) -> None:
        keys = [f"k{self.named + n}" for n in range(count)]
        assert batches.add(self.batch, map(NewExecution, keys)).new == count
        self.named += count

    def end(self, which: int, result: Result, next_too: bool) -> None:
        if lease := self._one(which):
            ended = finish.finish_batch(
                [Finish(lease.lease_id, result)], self.free_slots if next_too else None
            )
            self.running += ended.granted.assigned

    def die_after_the_end(self, which: int, result: Result) -> None:
        """Its end is committed, and whoever ended it decides nothing any more."""
        if lease := self._one(which):
            with transaction.atomic():
                finish.finish_leases([Finish(lease.lease_id, result)], database_now())

    def lose(self, which: int) -> None:
        if lease := self._one(which):
            Lease.objects.filter(pk=lease.lease_id).update(expires_at=self.batch.created_at)
            housekeeping.tick()

    def steer(self, verb: str, which: int) -> None:
        members = self.members()
        if members:
            verbs = {"cancel": executions.cancel, "skip": executions.skip, "retry": executions.retry}
            act = verbs.get(verb, executions.retry_from_start)
            act([members[which % len(members)]], ANN)

    def hand_over(self, limit: int) -> None:
        after = self.handed_over[-1] if self.handed_over else -1
        self.handed_over += [r.seq for r in batches.results(self.batch, after, limit)]

    def begin(self) -> None:
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))
        self.running += begin.begin(unstarted, self.worker.pk).grants

    def _one(self, which: int) -> Grant | None:
        return self.running.pop(which % len(self.running)) if self.running else None

    def check(self) -> None:
        """Nothing has started beyond the window, as far as its head has ever come."""
        self.reached = max(self.reached, self.head() + self.batch.window)
        leased = set(Lease.objects.values_list("execution__batch_seq", flat=True))
        assert all(seq < self.reached for seq in leased - self.started)
        self.started |= leased
        assert self.handed_over == sorted(set(self.handed_over))

    def check_nobody_waits_for_nothing(self) -> None:
        """Once a decision was made, all within the window may start, the head above all."""
        head, end = self.head(), self.head() + self.batch.window
        held = self.batch.executions.waiting().filter(run_after=None)
        assert not held.filter(batch_seq__gte=head, batch_seq__lt=end).exists()
        assert not Wakeup.objects.exists()

    def play(self, name: str, *given: Any) -> None:
        does: dict[str, Callable[..., None]] = {
            "add": self.add,
            "end": self.end,
            "die after the end": self.die_after_the_end,
            "lose": self.lose,
            "hand over": self.hand_over,
            "tick": housekeeping.tick,
        }
        if name in does:
            does[name](*given)
        else:
            self.steer(name, *given)

    def run_to_the_end(self) -> None:
        for _ in range(20 * self.named + 20):
            waiting = self.batch.executions.waiting().exclude(run_after=None)
            waiting.update(run_after=database_now())
            housekeeping.tick()
            self.begin()
            self.check()
            while self.running:
                self.end(0, Done(), next_too=False)
            if all(e.state in FINAL for e in self.members()):
                return
        raise AssertionError("it does not come to its end")


@pytest.mark.django_db(transaction=True)
def test_no_member_starts_beyond_the_window_all_end_and_results_come_once_in_order(
    make_worker: Callable[..., Worker], free_slots_of: Any, sent: list[Any]
) -> None:

    @settings(
        max_examples=max(5, MODEL_EXAMPLES // 2),
        deadline=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(window=st.integers(1, 4), slots=st.integers(1, 6), first=st.integers(4, 12), moves=MOVES)
    def play(window: int, slots: int, first: int, moves: list[tuple[Any, ...]]) -> None:
        for model in OLD_FIRST:
            model._default_manager.all().delete()
        Batch.objects.all().delete()
        process_state.reset_all()
        worker = make_worker(slots=slots)
        plain = Plain(batches.open_batch("b", "probe", ANN, window=window), worker, free_slots_of(worker))
        for move in [("add", first), *moves]:
            plain.play(*move)
            plain.begin()
            plain.check()
        housekeeping.tick()
        plain.check_nobody_waits_for_nothing()
        plain.run_to_the_end()
        plain.hand_over(1000)
        assert plain.handed_over == list(range(plain.named))

    play()
    assert not batch_window.first_unfinished(list(Batch.objects.values_list("pk", flat=True)))
    assert not Execution.objects.exclude(state__in=FINAL).exists()
    assert AuditEntry.objects.exists()
