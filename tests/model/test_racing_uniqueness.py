"""Processes that enqueue, start, end and lose work of the same unique keys at once, and die at any statement:
one execution at a time of each, and no call that was acknowledged comes to nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Attempt, Execution, Worker
from tests.model.racing_processes import Act, Racer, race, run_to_the_end
from tests.private_servers import DATABASE

KEYS = ["host"]
RULES = {
    "skip": Unique(keys=KEYS), "skip waiting": Unique(keys=KEYS, states="waiting"),
    "replace": Unique(keys=KEYS, on_conflict="replace"),
    "debounce": Unique(keys=KEYS, debounce=0.02, at_most=0.1),
}  # fmt: skip
CLOSE = timedelta(seconds=2)
"""From the time that an end or a start records until it is committed, on a machine that is busy."""

HOSTS = [f"{rule} {number}" for rule in RULES for number in range(2)]
RESULTS: tuple[Result, ...] = (
    Done(), Done(), Done(), Failed("not_found", "404"), Failed("network", "refused"), Snoozed(0, "not yet"),
    Skipped("nothing to do"), Interrupted("shutdown"),
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call that was acknowledged: its number, the key it got, and when it began and was over."""

    number: int
    key: str
    began: datetime
    over: datetime


class Caller(Racer):
    """A process that enqueues and works."""

    def __init__(self, seed: str, worker: Worker) -> None:
        super().__init__(seed, worker)
        self.calls: list[Call] = []
        self.given = 0

    def draw(self) -> Act:
        act = self.random.choice(("call", "call", "call", "begin", "begin", "end", "end", "dispatch", "lose"))
        acts: dict[str, Act] = {
            "call": self.call, "begin": self.begin, "end": partial(self.end, RESULTS), "dispatch": dispatch,
            "lose": self.lose,
        }  # fmt: skip
        return acts[act]

    def call(self) -> None:
        """Enqueue one to three, each for any host."""
        new: list[NewExecution] = []
        for host in self.random.choices(HOSTS, k=self.random.randint(1, 3)):
            self.given += 1
            number = self.worker.pk * 1_000_000 + self.given
            rule = RULES[host.rpartition(" ")[0]]
            new.append(NewExecution(f"{host}#{number}", {"host": host, "number": number}, unique=rule))
        began = database_now()
        done = enqueue_many("probe", new)
        assert done.new + done.already == len(new)
        over = database_now()
        self.calls += [Call(n.payload["number"], done.instead.get(n.key, n.key), began, over) for n in new]


def play(seed: int, acts: int, make_worker: Callable[..., Worker]) -> int:
    """How many calls were acknowledged."""
    callers = [Caller(f"{seed} {n}", make_worker(slots=50, name=f"w{seed}-{n}@test")) for n in range(4)]
    race(callers, acts, Caller.draw)  # type: ignore[arg-type]  # each of them is a caller
    held = list(Execution.objects.exclude(unique_key=None).values_list("unique_key", flat=True))
    assert len(held) == len(set(held))
    run_to_the_end(callers[0], [Done()])
    assert sum(caller.ended for caller in callers)
    check_one_at_a_time()
    calls = [call for caller in callers for call in caller.calls]
    check_no_call_came_to_nothing(calls)
    return len(calls)


def check_one_at_a_time() -> None:
    """What has ended holds no unique key."""
    assert not Execution.objects.exclude(unique_key=None).exists()
    check_spans()


def check_spans() -> None:
    """Of a host whose rule counts what runs, one has leases, from its first until it ends."""
    spans: dict[str, dict[int, tuple[datetime, datetime]]] = defaultdict(dict)
    for attempt in Attempt.objects.select_related("execution").filter(execution__key__startswith="skip "):
        execution, host = attempt.execution, attempt.execution.payload["host"]
        if host.startswith("skip waiting"):
            continue
        first, last = spans[host].get(execution.pk, (attempt.leased_at, attempt.ended_at))
        spans[host][execution.pk] = min(first, attempt.leased_at), max(last, attempt.ended_at)
    for host, of_host in spans.items():
        for earlier, later in pairwise(sorted(of_host.values())):
            assert earlier[1] <= later[0], f"two of {host} at once"


def check_no_call_came_to_nothing(calls: list[Call]) -> None:
    """What a call got had not ended before it; and where what waits counts, it began after it, with its
    payload or that of a call that was not over before it."""
    executions = {each.key: each for each in Execution.objects.all()}
    by_number = {call.number: call for call in calls}
    began: dict[int, datetime] = {}
    for pk, at in Attempt.objects.values_list("execution_id", "started_at"):
        began[pk] = min(at, began.get(pk, at))
    for call in calls:
        got = executions[call.key]
        assert got.finished_at is not None
        assert got.finished_at + CLOSE >= call.began, f"{call} got what had ended at {got.finished_at}"
        if call.key.startswith("skip "):
            continue
        first = began.get(got.pk, got.finished_at)
        assert first + CLOSE >= call.began, f"{call} got what had begun at {first}"
        stood = by_number.get(got.payload["number"])  # unknown: of a call that was not acknowledged
        assert stood is None or stood.over >= call.began, f"{call} was overwritten by {stood}"


@pytest.fixture(autouse=True)
def _retries_are_not_rationed(configure: Callable[..., None]) -> None:
    configure(retry_percent=100)


@pytest.mark.parametrize("seed", range(2))
def test_no_call_comes_to_nothing_and_one_of_each_runs_in_any_race_of_processes_that_die(
    seed: int, transactional_db: None, make_worker: Callable[..., Worker], sent: list[Any]
) -> None:
    assert play(seed, 25, make_worker) > 20


@pytest.mark.slow_proof
def test_many_thousand_calls_of_racing_processes_come_to_one_execution_each(
    transactional_db: None, make_worker: Callable[..., Worker], sent: list[Any]
) -> None:
    counted, seed, since = 0, 100, time.process_time()
    while counted < 10_000:
        counted += play(seed, 400, make_worker)
        Worker.objects.all().delete()
        Execution.objects.all().delete()
        seed += 1
    seconds = time.process_time() - since
    print(f"{DATABASE}: {counted:,} calls, 0 double, 0 lost, in {seconds:.0f} s of processor")
