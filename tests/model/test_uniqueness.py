"""Unique keys against the real database, beside a plain model: who holds which, what becomes of the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, LOW, NORMAL, NewExecution
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import Enqueued, enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import FINAL, AuditEntry, Execution, Lease, Worker
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.testing.clock import Clock, clock
from tests.model.empty_fleet import OLD_FIRST
from tests.model.fleet_moves import MODEL
from tests.private_servers import MODEL_EXAMPLES

ANN = Actor("ann", "test", "because")
MINUTE = timedelta(minutes=1)
CLOSE = 3 * MINUTE
"""Between two moments that are the same: the machine may be busy, and what the model does takes no time."""

KEYS = ["host"]
RULES: tuple[Unique | None, ...] = (
    None,
    Unique(keys=KEYS),
    Unique(keys=KEYS, states="waiting"),
    Unique(keys=KEYS, states="all"),
    Unique(keys=KEYS, states="all", within=55 * MINUTE),
    Unique(keys=KEYS, within=25 * MINUTE),
    Unique(keys=KEYS, on_conflict="replace"),
    Unique(keys=KEYS, on_conflict="replace", states="waiting_or_running", within=95 * MINUTE),
    Unique(keys=KEYS, debounce=20 * MINUTE, at_most=45 * MINUTE),
    Unique(keys=KEYS, debounce=10 * MINUTE, states="waiting_or_running"),
)
RESULTS: tuple[Result, ...] = (
    Done(),
    Done(),
    Failed("not_found", "404"),
    Failed("network", "x"),
    Snoozed(600, "y"),
)
WHICH = st.integers(0, 99)
CALL = st.tuples(st.sampled_from(("a", "a", "a", "b")), WHICH)
"""Its host, and which of the rules of this play."""
MOVES = st.lists(
    st.one_of(
        *[
            st.tuples(
                st.just("enqueue"),
                st.lists(CALL, min_size=1, max_size=3),
                st.sampled_from((HIGH, NORMAL, LOW)),
                st.sampled_from((0, 0, 0, 30)),
            )
        ]
        * 3,
        st.tuples(st.just("lease")),
        st.tuples(st.just("begin")),
        st.tuples(st.just("end"), WHICH, st.sampled_from(RESULTS)),
        st.tuples(st.sampled_from(("cancel", "skip", "retry")), WHICH),
        st.tuples(st.just("pass"), st.sampled_from((10, 10, 20, 60))),
    ),
    min_size=8,
    max_size=25,
)


@dataclass
class Plain:
    """What an execution should be."""

    key: str
    host: str
    rule: Unique | None
    number: int
    priority: int
    due: datetime
    created: datetime
    state: str = "waiting"
    began: bool = False
    holds: bool = False

    def move(self, state: str) -> None:
        self.state = state
        states = self.rule.states if self.rule else ""
        if (states == "waiting" and state != "waiting") or (
            states == "waiting_or_running" and state in FINAL
        ):
            self.holds = False


class Plainly:
    """Calls one after another, each of which looks who holds its unique key."""

    def __init__(self, worker: Worker, time: Clock, rules: list[Unique | None]) -> None:
        self.worker, self.time, self.rules = worker, time, rules
        self.all: list[Plain] = []
        self.running: list[Grant] = []
        self.calls = 0

    def enqueue(self, given: list[tuple[str, int]], priority: int, minutes: int) -> None:
        calls = [(host, self.rules[which % len(self.rules)]) for host, which in given]
        if any(rule and rule.pause for _, rule in calls):
            minutes = 0
        now, new = self.time.now(), []
        run_after = now + minutes * MINUTE if minutes else None
        for host, rule in calls:
            self.calls += 1
            payload = {"host": host, "number": self.calls, "last": self.calls % 3}
            new.append(NewExecution(f"k{self.calls}", payload, unique=rule))
        done = enqueue_many("model", new, priority=priority, run_after=run_after)
        expected = [self._one(each, priority, run_after or now, now) for each in new]
        self._check_answer(done, [each.key for each in new], expected)

    def _one(self, each: NewExecution, priority: int, due: datetime, now: datetime) -> str:
        """Enqueue one plainly; returns the key of the execution it is."""
        host, number, rule = each.payload["host"], each.payload["number"], each.unique
        assert not rule or isinstance(rule, Unique)
        made = Plain(each.key, host, rule, number, priority, due, now, holds=rule is not None)
        if rule and rule.pause:
            made.due = now + rule.pause.each
        holder = next((e for e in self.all if e.holds and e.host == host), None) if rule else None
        if holder and holder.rule and holder.rule.window and holder.created + holder.rule.window <= now:
            holder.holds, holder = False, None
        if holder is None or rule is None:
            self.all.append(made)
            return made.key
        if rule.on_conflict != "skip" and holder.state == "waiting" and not holder.began:
            holder.number, holder.priority = number, priority
            if rule.pause:
                holder.due = min(made.due, holder.created + rule.pause.altogether)
            else:
                holder.due = due if due > now else min(due, holder.due)
        return holder.key

    def _check_answer(self, done: Enqueued, given: list[str], expected: list[str]) -> None:
        assert [done.instead.get(key, key) for key in given] == expected
        assert set(done.new_keys) == set(given) & set(expected)
        assert (done.new, done.already) == (len(set(given) & set(expected)), len(given) - done.new)

    def lease(self) -> None:
        dispatch()

    def begin(self) -> None:
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))
        self.running += begin.begin(unstarted, self.worker.pk).grants

    def end(self, which: int, result: Result) -> None:
        if self.running:
            lease = self.running.pop(which % len(self.running))
            finish.finish_batch([Finish(lease.lease_id, result)], None)

    def steer(self, verb: str, which: int) -> None:
        if self.all:
            one = Execution.objects.filter(key=self.all[which % len(self.all)].key)
            {"cancel": executions.cancel, "skip": executions.skip, "retry": executions.retry}[verb](one, ANN)

    def pass_(self, minutes: int) -> None:
        self.time.advance(minutes * MINUTE)
        Worker.objects.update(seen_at=database_now())
        Lease.objects.update(expires_at=database_now() + 60 * MINUTE)

    def play(self, name: str, *given: Any) -> None:
        own = {"enqueue": self.enqueue, "lease": self.lease, "begin": self.begin, "end": self.end}
        if name in ("cancel", "skip", "retry"):
            self.steer(name, *given)
        else:
            does: Callable[..., None] = {**own, "pass": self.pass_}[name]  # type: ignore[dict-item]  # each takes its own
            does(*given)

    def check(self) -> None:
        rows = {row.key: row for row in Execution.objects.all()}
        assert set(rows) == {each.key for each in self.all}
        for each in self.all:
            row = rows[each.key]
            if row.state != each.state:
                each.move(row.state)
            if each.state != "waiting":
                each.began = True  # handed to a worker, or ended: what it does is decided
            assert (row.unique_key is not None) == each.holds, (each, row.unique_key)
            if each.began:
                continue
            assert (row.payload["number"], row.priority) == (each.number, each.priority), each
            assert row.run_after is not None
            assert abs(row.run_after - each.due) < CLOSE, each
        held = [row.unique_key for row in rows.values() if row.unique_key is not None]
        assert len(held) == len(set(held))


@pytest.mark.django_db(transaction=True)
def test_calls_find_who_holds_their_unique_key_and_change_it_as_their_rules_say(
    make_worker: Callable[..., Worker], sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(flow._flows, "model", MODEL)

    @settings(
        max_examples=3 * MODEL_EXAMPLES,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(rules=st.lists(st.sampled_from(RULES), min_size=1, max_size=8), moves=MOVES)
    def play(rules: list[Unique | None], moves: list[tuple[Any, ...]]) -> None:
        for model in OLD_FIRST:
            model._default_manager.all().delete()
        process_state.reset_all()
        with clock() as time:
            plainly = Plainly(make_worker(slots=3), time, rules)
            for move in moves:
                plainly.play(*move)
                plainly.check()

    play()
    assert AuditEntry.objects.exists()
