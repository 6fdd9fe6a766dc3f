"""Everyone there is in a fleet, as a state machine: moves in any order, and what holds after each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from queuemgr.base.errors import BadInput, NeverFits
from queuemgr.base.rate import parse_rate
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch, grant_to
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import FINAL, Attempt, Execution, Lease, Limit, State, Worker
from queuemgr.operations import controls, executions
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.capacity import group_of
from queuemgr.worker import housekeeping, lease_renewal
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.running_steps import RunningSteps
from tests.model import invariants
from tests.model.allowance_books import AllowanceBooks
from tests.model.busy_rows import when_free
from tests.model.empty_fleet import empty_fleet
from tests.model.fleet_moves import (
    ANN,
    ANY,
    DAY,
    EDITS,
    ENDINGS,
    GROUPS,
    KINDS,
    PAUSABLE,
    PRIORITIES,
    RESULTS,
    VERBS,
    WORK,
    Endings,
    Work,
)
from tests.model.passing_time import let_pass, next_day


@dataclass
class Surroundings:
    """What the test lends the machine: messages caught, threads, and when the last decision was."""

    sent: list[Grant]
    in_threads: Callable[..., list[Any]]
    decided_at: datetime | None = None


class FleetMachine(RuleBasedStateMachine):
    """Plays everyone there is: enqueuers, workers, the beat, an operator, and time.

    No rule has a precondition: threads make what there is differ from one play of a history to the
    next, and what is drawn must not.
    """

    around: Surroundings

    def __init__(self) -> None:
        super().__init__()
        empty_fleet()
        self.around.sent.clear()
        self.messages: list[UUID] = []
        self.running: list[tuple[Grant, int]] = []
        self.rates: dict[str, tuple[str, set[UUID]]] = {}
        self.allowances = AllowanceBooks()
        self.enqueued = 0
        self.finished: set[int] = set()

    @initialize(
        groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3),
        slots=st.integers(1, 6),
        edits=st.lists(st.sampled_from(EDITS), max_size=4),
        work=WORK,
    )
    def a_fleet(
        self, groups: list[tuple[str, ...]], slots: int, edits: list[tuple[str, Any]], work: list[Work]
    ) -> None:
        limit_rows.sync()
        for group in groups:
            self._enter(group, slots)
        for edit in edits:
            self._edit(*edit)
        self.before = invariants.books(database_now())
        self.work_comes(work, [])

    def _enter(self, queues: tuple[str, ...], slots: int) -> None:
        now = database_now()
        Worker.objects.create(
            name="w", host="test", pid=1, queues=list(queues), slots=slots, started_at=now, seen_at=now
        )  # fmt: skip

    # Enqueuers.

    @rule(work=WORK, endings=ENDINGS)
    def work_comes(self, work: list[Work], endings: Endings) -> None:
        self._meanwhile(endings)
        for kind, count, priority, delay in work:
            keys = [f"k{self.enqueued + number}" for number in range(count)]
            self.enqueued += count
            self._enqueue(keys, kind, priority, delay)

    def _enqueue(self, keys: list[str], kind: dict[str, Any], priority: int, delay: int | None) -> None:
        when = database_now() + timedelta(seconds=delay) if delay is not None else None
        try:
            made = enqueue_many(
                "model", [NewExecution(key, kind) for key in keys], priority=priority, run_after=when
            )
            assert made.new == len(keys)
        except NeverFits:
            assert not Execution.objects.filter(key__in=keys).exists()

    # Workers.

    @rule(which=ANY)
    def a_message_is_delivered_again(self, which: int) -> None:
        """Twice in a row, or long after its lease was begun, ended or ran out."""
        if not self.messages:
            return
        lease = self.messages[which % len(self.messages)]
        self._deliver(lease)
        if not Lease.objects.unstarted().filter(pk=lease).exists():
            assert not begin.begin([lease], Worker.objects.earliest("seen_at").pk).grants
        self._look_again_where_workers_differ()

    def _deliver(self, lease: UUID) -> None:
        worker = self._worker_for(lease)
        if worker is not None:
            self._begin([lease], worker)

    def _look_again_where_workers_differ(self) -> None:
        """A worker may take a message another could have taken too, and so strand a third lease that
        only it could run: the slot of the other is free then, and found so by the next decision."""
        if len({tuple(worker.queues) for worker in Worker.objects.all()}) > 1:
            dispatch()

    def _collect(self) -> None:
        self.messages += [grant.lease_id for grant in self.around.sent]
        self.around.sent.clear()

    def _worker_for(self, lease_id: UUID) -> int | None:
        """One with an idle slot on the queue of this lease."""
        lease = Lease.objects.filter(pk=lease_id).first()
        queue = f"{lease.phase}.{lease.get_priority_display()}" if lease else "prep.normal"
        for worker in Worker.objects.order_by("pk"):
            held = Lease.objects.filter(worker=worker).count()
            if queue in worker.queues and held < worker.slots and not worker.draining_at:
                return worker.pk
        return None

    def _begin(self, leases: list[UUID], worker: int) -> None:
        begun = when_free(lambda: begin.begin(leases, worker))
        self.running += [(grant, worker) for grant in begun.grants]

    def _meanwhile(self, endings: Endings) -> None:
        """Whatever else happens, work continues: messages come, steps end, their slots take the next.

        Of a lease lost meanwhile nothing is stored.
        """
        self._collect()
        for lease in Lease.objects.unstarted().values_list("pk", flat=True):
            self._deliver(lease)
        self._look_again_where_workers_differ()
        self.the_books_are_right()
        for which, result, next_too in endings:
            if self.running:
                granted, worker = self.running.pop(which % len(self.running))
                held = Lease.objects.filter(pk=granted.lease_id).exists()
                assert self._end(granted, worker, result, next_too=next_too) is held
                self.the_books_are_right()
                self.no_work_is_left_that_could_start()

    @rule(result=st.sampled_from(RESULTS), next_too=st.booleans())
    def all_steps_end_alike_and_what_starts_begins(self, result: Result, next_too: bool) -> None:
        for granted, worker in [self.running.pop() for _ in range(len(self.running))]:
            self._end(granted, worker, result, next_too=next_too)
            self.the_books_are_right()
        self._meanwhile([])

    def _end(self, granted: Grant, worker: int, result: Result, *, next_too: bool) -> bool:
        row = Worker.objects.get(pk=worker)
        next_too = next_too and row.draining_at is None
        free_slots = FreeSlots(worker, group_of(row.queues, has_async=False), 1) if next_too else None
        ending = [finish.Finish(granted.lease_id, result)]
        ended = when_free(lambda: finish.finish_batch(ending, free_slots))
        granted_now = ended.granted or grant_to(free_slots, wait_ms=5_000)
        self.running += [(assigned, worker) for assigned in granted_now.assigned]
        self.around.sent.extend(granted_now.to_send)
        return granted.lease_id in ended.outcomes

    @rule(which=ANY)
    def a_lease_is_renewed_and_requests_are_sent(self, which: int) -> None:
        if not self.running:
            return
        granted, worker = self.running[which % len(self.running)]
        lease = Lease.objects.filter(pk=granted.lease_id).first()
        steps = RunningSteps("w")
        with steps.running(granted) as step:
            lease_renewal.renew(CurrentWorker(Worker.objects.get(pk=worker)), steps)
        assert step.signal.aborted is (lease is None)
        if lease:
            spent = max(lease.spent, min(which % 4, lease.cost))
            Lease.objects.filter(pk=lease.pk).update(spent=spent)

    @rule(which=ANY, tokens=st.sampled_from((0, 40, 200, 450)), usd=st.sampled_from((0, 250_000, 600_000)))
    def a_step_reports_what_it_uses(self, which: int, tokens: int, usd: int) -> None:
        if self.running:
            self.allowances.spend(self.running[which % len(self.running)][0].lease_id, tokens, usd)

    @rule(group=st.sampled_from(GROUPS), which=ANY)
    def one_worker_registers_and_one_starts_draining(self, group: tuple[str, ...], which: int) -> None:
        self._enter(group, 1 + which % 3)
        workers = list(Worker.objects.filter(draining_at__isnull=True).order_by("pk"))
        stopped = workers[which % len(workers)]
        Worker.objects.filter(pk=stopped.pk).update(draining_at=database_now())
        dispatch()

    # The beat, and time.

    @rule()
    def the_beat_ticks(self) -> None:
        housekeeping.tick()

    @rule(seconds=st.sampled_from((1, 8, 33, 33, 66, 66, 100, 140, 700, DAY)), endings=ENDINGS)
    def time_passes(self, seconds: int, endings: Endings) -> None:
        """And every scheduled redispatch that is due runs."""
        self._meanwhile(endings)
        if seconds == DAY:
            next_day()
        else:
            let_pass(seconds)
        self._count_anew()
        dispatch()

    @rule(seconds=st.sampled_from((1, 40, 140, 700, 4000)))
    def the_clock_is_set_back(self, seconds: int) -> None:
        """What refills is judged from then on: a bucket is full at most once in each of the two times."""
        let_pass(-seconds)
        known = {
            *Lease.objects.values_list("pk", flat=True),
            *Attempt.objects.values_list("lease_id", flat=True),
        }
        self.rates = {name: (text, known) for name, (text, _) in self.rates.items()}
        self.allowances.clock_set_back(known)
        self._count_anew()
        dispatch()

    def _count_anew(self) -> None:
        """Before what time lets start starts: other days have other charges."""
        self.before = invariants.books(database_now())

    # An operator.

    @rule(verb=st.sampled_from(VERBS), name=st.sampled_from(PAUSABLE), which=ANY,
          edit=st.sampled_from(EDITS), priority=PRIORITIES, endings=ENDINGS)  # fmt: skip
    def an_operator_acts(
        self, verb: str, name: str, which: int, edit: tuple[str, Any], priority: int, endings: Endings
    ) -> None:
        self._meanwhile(endings)
        some = self._some(which, 1 + which % 3)
        if verb == "edit":
            self._edit(*edit)
        elif verb == "pause":
            until = database_now() + timedelta(seconds=60) if which % 2 else None
            controls.pause(name, ANN, until, new=True)
        elif verb == "resume":
            with suppress(BadInput):  # a key that has neither a row nor been closed
                controls.resume(name, ANN)
        elif verb == "cancel":
            executions.cancel(some, ANN)
        elif verb == "retry":
            self.finished -= {execution.pk for execution in some if execution.state != State.DONE}
            executions.retry(some, ANN)
        else:
            executions.set_priority(some, priority, ANN)

    def _edit(self, name: str, fields: dict[str, Any]) -> None:
        known = Limit.objects.filter(name=name).first()
        if "reserved_high" not in fields and known and known.reserved_high:
            fields = {"reserved_high": 0, **fields}
        if "rate" in fields:
            known_leases = {*Lease.objects.values_list("pk", flat=True)}
            ended = {*Attempt.objects.values_list("lease_id", flat=True)}
            self.rates[name] = (fields["rate"], known_leases | ended)
        if "allowances" in fields:
            self.allowances.edited(name, fields["allowances"])
        controls.edit_limit(name, ANN, new=True, **fields)

    def _some(self, which: int, count: int) -> list[Execution]:
        everything = list(Execution.objects.order_by("pk"))
        start = which % len(everything) if everything else 0
        return everything[start : start + count]

    # Several at once.

    @rule(
        acts=st.lists(
            st.tuples(
                st.sampled_from(("end", "end", "enqueue", "begin", "dispatch", "tick", "priority")),
                ANY,
                st.sampled_from(RESULTS),
                PRIORITIES,
            ),
            min_size=2,
            max_size=4,
        )
    )
    def several_act_at_once(self, acts: list[tuple[str, int, Result, int]]) -> None:
        """Each with a connection of its own; SQLite, in memory, knows one, so one after another."""
        self._collect()
        calls = [self._call(*act) for act in acts]
        if connection.vendor == "postgresql":
            self.around.in_threads(len(calls), lambda number: calls[number]())
        else:
            for call in calls:
                call()
        if any(act == "begin" for act, *_ in acts):
            self._look_again_where_workers_differ()

    def _call(self, act: str, which: int, result: Result, priority: int) -> Callable[[], object]:
        """What one of them does, chosen before any of them begins."""
        if act == "end" and self.running:
            granted, worker = self.running.pop(which % len(self.running))
            return lambda: self._end(granted, worker, result, next_too=bool(which % 2))
        if act == "enqueue":
            key, self.enqueued = f"k{self.enqueued}", self.enqueued + 1
            return lambda: self._enqueue([key], KINDS[which % len(KINDS)], priority, None)
        if act == "begin" and self.messages:
            lease = self.messages[which % len(self.messages)]
            worker_for = self._worker_for(lease)
            if worker_for is not None:
                return lambda: self._begin([lease], worker_for)
        if act == "priority":
            some = self._some(which, 2)
            return lambda: executions.set_priority(some, priority, ANN)
        return housekeeping.tick if act == "tick" else dispatch

    # What holds after every move.

    @invariant()
    def the_books_are_right(self) -> None:
        after = invariants.books(database_now())
        invariants.no_limit_is_passed(getattr(self, "before", after), after)
        self.before = after
        invariants.every_execution_is_in_one_place()
        invariants.attempts_and_charges_add_up()
        self.allowances.check(self.before.now)
        for name, (text, not_counted) in self.rates.items():
            rate = parse_rate(text)
            if rate:
                invariants.begins_conform(name, rate, not_counted)

    @invariant()
    def what_is_done_stays_done(self) -> None:
        final = set(Execution.objects.filter(state__in=FINAL).values_list("pk", flat=True))
        assert self.finished <= final
        self.finished = final

    @invariant()
    def no_work_is_left_that_could_start(self) -> None:
        """Looked at as of the last decision: what time has let start since is the next one's."""
        if self.around.decided_at:
            left = invariants.left_unstarted(self.around.decided_at)
            assert not left, f"left unstarted: {left}"
