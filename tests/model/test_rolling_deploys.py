"""Deploys in any order, forward and back, with restarts of old and new workers: whose limits are in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_queues
from queuemgr.models import Limit, Queue, RetryPolicy, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import settings_sync
from queuemgr.worker import process_identity, registration
from tests.private_servers import MODEL_EXAMPLES

NAME = "test:*"
ROLLBACK, HEARTBEATS, SETTLED = 60.0, 30.0, 600.0
RELEASES: Mapping[int, Mapping[str, Any]] = {
    1: {"max_running": 10, "reserved_high": 3},
    2: {"max_running": 2},
    3: {"max_running": 4, "rate": "5/s"},
    4: {"max_running": 1, "reserved_high": 0},
}
"""What each release states of the limit: more and fewer fields, and values that do not fit each other's."""


@dataclass
class SimulatedWorker:
    release: int
    seen: float
    alive: bool = True
    running: bool = True


@dataclass
class Deploys:
    """What is promised, in a few lines: by this the rows are judged."""

    order: list[int] = field(default_factory=list)
    in_force: int = 0
    since: float = 0.0
    now: float = 0.0
    workers: dict[str, SimulatedWorker] = field(default_factory=dict)

    def start(self, name: str, release: int) -> None:
        self.workers[name] = SimulatedWorker(release, self.now)
        if release not in self.order:
            self.order.append(release)
            self.in_force, self.since = release, self.now
        self.decide()

    def let_pass(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.workers.values():
            worker.seen = self.now if worker.alive else worker.seen
            worker.running &= self.now - worker.seen < HEARTBEATS
        self.decide()

    def decide(self) -> None:
        running = [w.release for w in self.workers.values() if w.running]
        lately = [w.release for w in self.workers.values() if self.now - w.seen < ROLLBACK]
        if not running:
            return
        age = self.order.index
        newest = max(running, key=age)
        if age(newest) > age(self.in_force) or (
            newest != self.in_force and not any(age(release) > age(newest) for release in lately)
        ):
            self.in_force, self.since = newest, self.now
        elif (
            self.in_force in lately
            and not any(age(release) > age(self.in_force) for release in lately)
            and self.now - self.since >= SETTLED
        ):
            self.order.remove(self.in_force)
            self.order.append(self.in_force)


class Fleet:
    """The same, with rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.promised = Deploys()
        self.edited: dict[str, int] = {}
        self._pid = 4_200_000
        monkeypatch.setattr(process_identity, "this_process", self._a_process_that_is_gone)

    def _a_process_that_is_gone(self) -> process_identity.ProcessIdentity:
        self._pid += 1  # beyond what Linux gives, so that the next worker of its name may start
        return process_identity.ProcessIdentity("here", "a-boot", 1, self._pid, 1)

    def start(self, name: str, release: int) -> None:
        registration.register(name, all_queues(), 1, {NAME: RELEASES[release]})
        self._promise(lambda: self.promised.start(name, release))

    def stop(self, name: str) -> None:
        Worker.objects.filter(name=name).update(draining_at=database_now())
        if worker := self.promised.workers.get(name):
            worker.alive = worker.running = False

    def kill(self, name: str) -> None:
        if worker := self.promised.workers.get(name):
            worker.alive = False

    def let_pass(self, seconds: float) -> None:
        step = timedelta(seconds=seconds)
        Worker.objects.update(seen_at=F("seen_at") - step)
        alive = [name for name, worker in self.promised.workers.items() if worker.alive]
        newest = [Worker.objects.filter(name=name).latest("pk").pk for name in alive]
        Worker.objects.filter(pk__in=newest).update(seen_at=database_now())
        for model in (Limit, Queue, RetryPolicy):
            model._default_manager.update(stated_at=F("stated_at") - step)
        settings_sync.follow_workers()
        self._promise(lambda: self.promised.let_pass(seconds))

    def edit(self, value: int) -> None:
        if Limit.objects.filter(name=NAME).exists():
            controls.edit_limit(NAME, Actor("ann", "test"), max_running=value, breaker_after=value)
            self.edited = {"max_running": value, "breaker_after": value}

    def _promise(self, happens: Any) -> None:
        before = self.promised.in_force
        happens()
        if self.promised.in_force != before:
            self.edited.pop("max_running", None)

    def check(self) -> None:
        row = Limit.objects.filter(name=NAME).first()
        if row is None:
            return
        stated = RELEASES[self.promised.in_force]
        assert row.from_settings == stated, f"{row.from_settings} instead of {stated}: {self.promised}"
        expected = {"rate": "", "reserved_high": 0, "breaker_after": 10, **stated, **self.edited}
        assert {name: getattr(row, name) for name in expected} == expected


NAMES = st.sampled_from(("a@here", "b@here", "c@here"))
MOVES = st.one_of(
    st.tuples(st.just("start"), NAMES, st.sampled_from(sorted(RELEASES))),
    st.tuples(st.just("stop"), NAMES),
    st.tuples(st.just("kill"), NAMES),
    st.tuples(st.just("let_pass"), st.sampled_from((5.0, 40.0, 70.0, 650.0))),
    st.tuples(st.just("edit"), st.integers(20, 30)),
)


def test_an_old_worker_never_restores_old_limits_and_a_rollback_takes_effect_by_itself(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, sent: list[Any]
) -> None:
    @settings(
        max_examples=4 * MODEL_EXAMPLES,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(MOVES, min_size=4, max_size=16))
    def play(moves: list[tuple[Any, ...]]) -> None:
        Worker.objects.all().delete()
        Limit.objects.filter(name=NAME).delete()
        fleet = Fleet(monkeypatch)
        for move, *arguments in moves:
            getattr(fleet, move)(*arguments)
            fleet.check()

    play()
