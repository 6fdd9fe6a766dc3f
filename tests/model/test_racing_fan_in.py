"""Processes that fill, end, cancel, retry and lose batches at once, nested and empty ones among them, and die
at any statement: each callback fires once when its time has come, and never otherwise."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db.models import F, Q

from queuemgr.base import transaction
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Batch, BatchCallback, BatchEvent, Execution, State, Worker
from queuemgr.operations import batches, executions
from queuemgr.operations.controls import Actor
from tests.model.racing_processes import Act, Racer, race, run_to_the_end
from tests.private_servers import DATABASE

ANN = Actor("ann", "test", "because")
RESULTS: tuple[Result, ...] = (
    Done(), Done(), Done(), Done(), Done(), Failed("not_found", "404"), Failed("network", "refused"),
    Snoozed(0, "not yet"), Skipped("nothing to do"), Interrupted("shutdown"),
)  # fmt: skip
ACTS = (
    *("end",) * 6, *("begin",) * 3, "open", "open", "add as a member", "open as a member", "lose", "cancel",
    "skip", "retry", "retry", "cancel batch", "close", "dispatch",
)  # fmt: skip


class Player(Racer):
    """A process that works, or a person."""

    given = 0

    def draw(self) -> Act:
        acts: dict[str, Act] = {
            "end": partial(self.end, RESULTS), "begin": self.begin, "open": self.open, "lose": self.lose,
            "add as a member": partial(self.as_member, self._add), "dispatch": dispatch,
            "open as a member": partial(self.as_member, self._open_within),
            "cancel": partial(self.steer, executions.cancel), "skip": partial(self.steer, executions.skip),
            "retry": partial(self.steer, executions.retry), "close": self.close,
            "cancel batch": self.cancel_batch,
        }  # fmt: skip
        return acts[self.random.choice(ACTS)]

    def _name(self) -> str:
        self.given += 1
        return f"{self.worker.name} {self.given}"

    def open(self) -> None:
        """A batch of up to eight members, often in another; mostly closed in the same transaction."""
        outer = Batch.objects.filter(closed_at=None).order_by("?").first() if self._tosses() else None
        window = self.random.choice((0, 0, 2))
        with transaction.atomic():
            batch = self._opened(outer, fail_fast=self.random.random() < 0.2, window=window)
            self._add(batch, count=self.random.randint(0, 8))
            if self.random.random() < 0.8:
                batches.close(batch, None)

    def _opened(self, parent: Batch | None, **rules: Any) -> Batch:
        calls = {event: Call("probe", {"calls": True}) for event in BatchEvent.values}
        return batches.open_batch(self._name(), "probe", None, callbacks=calls, parent=parent, **rules)

    def _add(self, batch: Batch, member: Grant | None = None, count: int = 2) -> None:
        new = [NewExecution(self._name()) for _ in range(count)]
        batches.add(batch, new, member=member and member.lease_id)

    def _open_within(self, batch: Batch, member: Grant) -> None:
        inner = self._opened(batch, member=member.lease_id)
        self._add(inner)
        batches.close(inner, None)

    def as_member(self, act: Callable[[Batch, Grant], None]) -> None:
        members = Execution.objects.select_related("batch").filter(batch__isnull=False)
        if self.running:
            member = self.random.choice(self.running)
            execution = members.filter(pk=member.execution_id).first()
            if execution and execution.batch:
                act(execution.batch, member)

    def steer(self, verb: Callable[..., object]) -> None:
        if some := list(Execution.objects.filter(batch__isnull=False).order_by("?")[:3]):
            verb(some, ANN)

    def close(self) -> None:
        if batch := Batch.objects.filter(closed_at=None).order_by("?").first():
            batches.close(batch, None)

    def cancel_batch(self) -> None:
        if batch := Batch.objects.filter(completed_at=None).order_by("?").first():
            batches.cancel(batch, ANN)

    def _tosses(self) -> bool:
        return self.random.random() < 0.5


def play(seed: int, acts: int, make_worker: Callable[..., Worker]) -> Counter[str]:
    """How many batches there were, nested ones and empty ones among them, and how many members."""
    players = [Player(f"{seed} {n}", make_worker(slots=50, name=f"w{seed}-{n}@test")) for n in range(4)]
    race(players, acts, Player.draw)  # type: ignore[arg-type]  # each of them is a player
    for batch in Batch.objects.filter(closed_at=None):
        batches.close(batch, None)
    run_to_the_end(players[0], [Done()])
    assert sum(player.ended for player in players)
    return check_callbacks()


def check_callbacks() -> Counter[str]:
    """By the members as they are at last. What had failed when its batch completed may have been retried
    since: then both of the other two have fired."""
    counted: Counter[str] = Counter()
    succeeded: dict[int, bool] = {}
    calls = Counter(Execution.objects.filter(key__startswith="batch:").values_list("key", flat=True))
    for batch in Batch.objects.order_by("-pk"):  # a batch is opened after the one it is in
        states = Counter(batch.executions.values_list("state", flat=True))
        failed = states[State.FAILED] + states[State.CANCELLED] or batch.cancelled_at
        succeeded[batch.pk] = not failed and all(succeeded[inner.pk] for inner in batch.children.all())
        assert (batch.completed_at is not None, batch.succeeded) == (True, succeeded[batch.pk]), batch
        fired = {event: calls[f"batch:{batch.pk}:{event}"] for event in BatchEvent.values}
        due = BatchEvent.SUCCESS if succeeded[batch.pk] else BatchEvent.FAILURE
        assert (fired[BatchEvent.COMPLETE], fired[due]) == (1, 1), (batch, fired)
        if not _was_retried(batch):
            assert sum(fired.values()) == 2, (batch, fired)
        counted += Counter(
            batches=1, members=states.total(), empty=not states, nested=batch.parent_id is not None,
            callbacks=sum(fired.values()),
        )  # fmt: skip
    assert set(calls.values()) <= {1}
    assert sum(calls.values()) == BatchCallback.objects.exclude(fired_at=None).count()
    return counted


def _was_retried(batch: Batch) -> bool:
    """Whether a person put back or skipped what had ended, in it or in a batch within it."""
    again = Q(attempts_counted_since__gt=F("created_at")) | Q(state=State.SKIPPED)
    inner = batch.children.all()
    return batch.executions.filter(again).exists() or any(_was_retried(each) for each in inner)


@pytest.fixture(autouse=True)
def _retries_are_not_rationed(configure: Callable[..., None]) -> None:
    configure(retry_percent=100)


@pytest.mark.parametrize("seed", range(2))
def test_each_callback_fires_once_in_any_race_of_processes_that_die(
    seed: int, transactional_db: None, make_worker: Callable[..., Worker], sent: list[Any]
) -> None:
    assert play(seed, 30, make_worker)["callbacks"] > 3


@pytest.mark.slow_proof
def test_the_callbacks_of_many_batches_in_long_races_fire_once_each(
    transactional_db: None, make_worker: Callable[..., Worker], sent: list[Any]
) -> None:
    counted, seed, since = Counter[str](), 100, time.process_time()
    while counted["members"] < 3_000:
        counted += play(seed, 300, make_worker)
        BatchCallback.objects.all().delete()
        Worker.objects.all().delete()
        Execution.objects.all().delete()
        for batch in Batch.objects.order_by("-pk"):
            batch.delete()
        seed += 1
    what = ", ".join(f"{number:,} {name}" for name, number in counted.items())
    print(f"{DATABASE}: {what}; 0 double, 0 missing, in {time.process_time() - since:.0f} s of processor")
