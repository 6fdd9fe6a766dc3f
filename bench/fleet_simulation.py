"""A fleet as the scheduler lock sees it, event by event: workers that end steps, and one lock for what
starts.

Each decision is made by the real function, `queuemgr.scheduling.admission.admit`, of what would be idle
then; how long it holds the lock, and what ends, begins and messages take, is given. As in
`worker.group_commit`: what a process's slots ask for while one transaction runs is in its next one; who
ends leases decides in the same transaction if the lock is free, else waits for it, and after a tenth of a
second leaves the decision to its holder, which sends the leases of others' slots as messages. Pure.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import mean, median, quantiles

from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.capacity import group_of
from queuemgr.scheduling.decision_input import Snapshot, WaitingRoute

LOCK_WAIT = 0.1
BATCH_SIZE = 256
"""As `finish.LOCK_WAIT_MS` and `group_commit.BATCH_SIZE`."""

NOW = datetime(2030, 1, 1, tzinfo=UTC)
QUEUE, GROUP = "prep.normal", group_of(["prep.normal"], has_async=False)


@dataclass(frozen=True)
class Costs:
    """Seconds: what holds the lock for a decision and for each of its starts, what a transaction that ends or
    begins leases takes beside that, what a step takes of the one interpreter of its process, and what a
    message takes its sender, its way and its receiver."""

    hold: float
    hold_each: float
    end: float
    end_each: float
    begin: float
    begin_each: float
    step_each: float = 0.0003
    publish_each: float = 0.0002
    way: float = 0.002
    receive_each: float = 0.001


@dataclass(frozen=True)
class Seen:
    """What a simulated fleet did: starts a second, the share of the time in which the lock was held, starts
    of a decision that started something, the share of starts that came by message, and idle milliseconds of
    a slot between two steps (median, 99th percentile)."""

    rate: float
    held: float
    starts_a_hold: float
    by_message: float
    idle_median: float
    idle_p99: float


@dataclass(eq=False)
class _Worker:
    """A process: `ended` are slots whose steps wait for their end to be stored (since when), `messages`
    leases sent to it; `free` slots wait for a message, since when."""

    ended: deque[float] = field(default_factory=deque)
    messages: int = 0
    free: deque[float] = field(default_factory=deque)
    busy: bool = False
    sends_until: float = 0.0


def starts_of(idle: int, unstarted: int) -> int:
    """How many start now where work enough waits: the real decision."""
    route = WaitingRoute(
        id=1, phase="prep", priority=1, resumed=True, limit_keys="", cost=0, weight=1, due=max(1, idle),
        head_at=NOW, served_at=NOW,
    )  # fmt: skip
    snapshot = Snapshot(
        now=NOW, routes=(route,), rules={}, use={}, paused_queues={}, idle={GROUP: idle},
        unstarted={QUEUE: unstarted},
    )  # fmt: skip
    return len(admit(snapshot).starts)


class Simulation:
    """So many workers with so many slots each, and steps of so many seconds; work enough waits."""

    def __init__(
        self,
        workers: int,
        slots: int,
        seconds: float,
        costs: Costs,
        *,
        lock_wait: float = LOCK_WAIT,
        seed: int = 1,
    ) -> None:
        self._lock_wait = lock_wait
        self._costs, self._seconds, self._random = costs, seconds, random.Random(seed)
        self._workers = [_Worker() for _ in range(workers)]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.now = 0.0
        self._idle = self._unstarted = 0
        self._locked = self._marked = False
        self._waiting: deque[tuple[_Worker, list[float], float]] = deque()
        self._in_turn = 0
        self._starts: list[tuple[float, float, bool]] = []
        self._holds: list[tuple[float, float, int]] = []
        for worker in self._workers:
            for _ in range(slots):
                self._at(self._random.uniform(0, seconds or 0.001), self._ends(worker))

    def _at(self, delay: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + delay, self._number, act))

    def run(self, seconds: float) -> Seen:
        """What happens in the second half of this time, when the fleet has settled down."""
        while self._events and self._events[0][0] < seconds:
            self.now, _, act = heapq.heappop(self._events)
            act()
        since = seconds / 2
        starts = [(idle, sent) for at, idle, sent in self._starts if at >= since]
        holds = [(took, some) for at, took, some in self._holds if at >= since]
        idle = [each for each, _ in starts] or [0.0, 0.0]
        return Seen(
            rate=len(starts) / (seconds - since),
            held=sum(took for took, _ in holds) / (seconds - since),
            starts_a_hold=mean([some for _, some in holds if some] or [0]),
            by_message=sum(sent for _, sent in starts) / max(1, len(starts)),
            idle_median=1e3 * median(idle),
            idle_p99=1e3 * quantiles(idle, n=100)[98],
        )

    def _ends(self, worker: _Worker) -> Callable[[], None]:
        def act() -> None:
            worker.ended.append(self.now)
            self._turn(worker)

        return act

    def _turn(self, worker: _Worker) -> None:
        """The next transaction of a process, if none runs: begins first, then ends."""
        if worker.busy:
            return
        begun = min(worker.messages, len(worker.free), BATCH_SIZE)
        if begun:
            worker.busy, worker.messages = True, worker.messages - begun
            since = [worker.free.popleft() for _ in range(begun)]
            took = self._costs.begin + (self._costs.begin_each + self._costs.receive_each) * begun
            self._at(took, lambda: self._begun(worker, since))
        elif worker.ended:
            worker.busy = True
            since = [worker.ended.popleft() for _ in range(min(len(worker.ended), BATCH_SIZE))]
            each = self._costs.end_each + self._costs.step_each
            self._at(self._costs.end + each * len(since), lambda: self._stored(worker, since))

    def _begun(self, worker: _Worker, since: list[float]) -> None:
        self._unstarted -= len(since)
        self._idle -= len(since)
        for at in since:
            self._start(worker, at, sent=True)
        self._done(worker)

    def _start(self, worker: _Worker, idle_since: float, *, sent: bool) -> None:
        self._starts.append((self.now, self.now - idle_since, sent))
        self._at(self._seconds, self._ends(worker))

    def _done(self, worker: _Worker) -> None:
        worker.busy = False
        self._turn(worker)

    def _stored(self, worker: _Worker, since: list[float]) -> None:
        """Its endings are written, and the decision is next: at once where the lock is free."""
        self._idle += len(since)
        if not self._locked:
            self._decide(worker, since)
            return
        self._waiting.append((worker, since, self.now + self._lock_wait))
        self._at(self._lock_wait, self._give_up)

    def _give_up(self) -> None:
        """Whoever has waited long enough leaves a mark, and its slots wait for messages."""
        while self._waiting and self._waiting[0][2] <= self.now + 1e-9:
            worker, since, _ = self._waiting.popleft()
            self._marked = True
            worker.free.extend(since)
            self._done(worker)

    def _decide(self, worker: _Worker, since: list[float]) -> None:
        """Hold the lock for a decision over all that is idle in the fleet; its own slots come first."""
        self._locked, self._marked = True, False
        starts = starts_of(self._idle, self._unstarted)
        own = min(starts, len(since))
        self._idle -= own
        self._unstarted += starts - own
        took = self._costs.hold + self._costs.hold_each * starts
        self._holds.append((self.now, took, starts))
        self._at(took, lambda: self._committed(worker, since, own, starts - own))

    def _committed(self, worker: _Worker, since: list[float], own: int, others: int) -> None:
        self._locked = False
        for at in since[:own]:
            self._start(worker, at, sent=False)
        worker.free.extend(since[own:])
        worker.sends_until = max(worker.sends_until, self.now)
        for _ in range(others):
            worker.sends_until += self._costs.publish_each
            self._at(worker.sends_until - self.now + self._costs.way, self._received)
        if self._waiting:
            following, ended, _ = self._waiting.popleft()
            self._decide(following, ended)
        elif self._marked:
            self._decide(worker, [])
        if since:
            self._done(worker)

    def _received(self) -> None:
        """A message reaches a worker with a free slot, in turn; else one whose slot is about to be."""
        for _ in range(len(self._workers)):
            self._in_turn = (self._in_turn + 1) % len(self._workers)
            worker = self._workers[self._in_turn]
            if len(worker.free) > worker.messages:
                break
        worker.messages += 1
        self._turn(worker)
