"""Several processes that act at once on one database, and die or lose their connection at any statement.

On PostgreSQL each is a thread with a connection of its own. SQLite has one writer at a time: there acts come
in a drawn order on one connection, and some while another is between two of its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from random import Random
from threading import Barrier

from django.db import connection

from queuemgr.base.errors import BadInput, LeaseLost, StillStoring, UniqueKeyBusy
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution, Lease, Route, Worker
from queuemgr.worker import housekeeping
from tests.model import mortal_processes
from tests.model.mortal_processes import process

MOST = 2_000
"""Decisions until all work must be done."""

LONG_AGO = "2020-01-01T00:00Z"
ENDS = 0.15
"""With which probability an act is a process's last."""

Act = Callable[[], object]


class Racer:
    """One process after another under one name: what it draws, and the leases that it runs."""

    def __init__(self, seed: str, worker: Worker) -> None:
        self.random, self.worker = Random(seed), worker
        self.running: list[Grant] = []
        self.ended = 0

    def does(self, act: Act, meanwhile: Act | None = None) -> bool:
        """Do it as a process that may die; whether it was done and said so."""
        fate = mortal_processes.drawn(self.random, ends=ENDS, longest=25)
        done = False
        with process(**fate, meanwhile=meanwhile) as one, suppress(*REFUSALS):
            act()
            done = True
        self.ended += one.ended
        return done and not one.ended

    def begin(self) -> None:
        """Start up to ten leases whose messages have come."""
        Worker.objects.filter(pk=self.worker.pk).update(seen_at=database_now())
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True)[:20])
        some = self.random.sample(unstarted, min(len(unstarted), 10))
        self.running += begin.begin(some, self.worker.pk).grants

    def end(self, results: Sequence[Result]) -> None:
        """End some of what it runs, in one transaction."""
        some = self.random.sample(self.running, min(len(self.running), self.random.randint(1, 6)))
        finish.finish_batch([Finish(each.lease_id, self.random.choice(results)) for each in some], None)
        self.running = [each for each in self.running if each not in some]

    def lose(self) -> None:
        """It is gone with a lease, which others find."""
        if self.running:
            Lease.objects.filter(pk=self.running.pop().lease_id).update(expires_at=LONG_AGO)
            housekeeping.tick()


REFUSALS = (RowsBusy, StillStoring, LeaseLost, BadInput, UniqueKeyBusy)
"""What an act may be refused with while others act."""


def race(racers: Sequence[Racer], acts: int, drawn: Callable[[Racer], Act]) -> None:
    """Each racer does so many acts, which it draws, while the others do theirs."""
    if connection.vendor == "postgresql":
        _in_threads(racers, acts, drawn)
        return
    choose = Random(len(racers) * acts)
    for _ in range(len(racers) * acts // 2):
        one, other = choose.sample(list(racers), 2)
        one.does(drawn(one), meanwhile=partial(other.does, drawn(other)))


def _in_threads(racers: Sequence[Racer], acts: int, drawn: Callable[[Racer], Act]) -> None:
    barrier = Barrier(len(racers))

    def run(racer: Racer) -> None:
        try:
            barrier.wait(timeout=60)
            for _ in range(acts):
                racer.does(drawn(racer))
        finally:
            connection.close()

    with ThreadPoolExecutor(len(racers)) as pool:
        list(pool.map(run, racers))


def run_to_the_end(racer: Racer, results: Sequence[Result]) -> None:
    """All processes are gone, and their leases expire; one that lives does what is left."""
    Lease.objects.update(expires_at=LONG_AGO)
    housekeeping.tick()
    for _ in range(MOST):
        _let_all_fall_due()
        Worker.objects.update(seen_at=database_now())
        dispatch()
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))
        racer.running = begin.begin(unstarted, racer.worker.pk).grants
        if not racer.running and not Execution.objects.unfinished().exists():
            return
        while racer.running:
            racer.end(results)
    raise AssertionError("it does not come to its end")


def _let_all_fall_due() -> None:
    """Of retries, too, and of the routes that are not read before: a machine may take all its decisions
    within the seconds of a backoff."""
    now = database_now()
    Execution.objects.waiting().exclude(run_after=None).update(run_after=now)
    Route.objects.update(head_at=now, parked_on="", parked_until=None)
