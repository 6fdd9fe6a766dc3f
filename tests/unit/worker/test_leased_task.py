"""What escapes while a step runs or ends leaves no lease without its outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.worker import leased_task
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.group_commit import LeaseEnd
from queuemgr.worker.leased_task import Threads
from queuemgr.worker.running_steps import RunningSteps

NEXT = Grant(uuid4(), 2, "papers", "next", "prep", "fetch", 0, "", {}, {})


@dataclass
class Committer:
    """Ends leases in a list instead of the database; the first `raises` times it raises."""

    raises: int = 0
    ended: list[Finish] = field(default_factory=list)

    def finish(self, grant: Grant, ending: Finish, runtime: float, *, wants_next: bool) -> LeaseEnd:
        if self.raises:
            self.raises -= 1
            raise SystemExit("the committer")
        self.ended.append(ending)
        return LeaseEnd("done", NEXT if wants_next else None)


class OneWorker(CurrentWorker):
    def __init__(self) -> None:
        """Without a row."""

    name = "w1"


def _raise(*args: Any, **kwargs: Any) -> Any:
    raise SystemExit("escaped")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> leased_task.LeasedTask:
    monkeypatch.setattr(leased_task, "get_current_worker", OneWorker)
    monkeypatch.setattr(leased_task, "continuation_of", lambda *args: None)
    monkeypatch.setattr(leased_task, "task_of", lambda grant: "papers.fetch")
    monkeypatch.setattr(leased_task.LeasedTask, "_call", lambda *args: Done())
    return leased_task.LeasedTask()


def run(task: leased_task.LeasedTask, committer: Committer) -> Grant | None:
    grant = Grant(uuid4(), 1, "papers", "one", "prep", "fetch", 0, "", {}, {})
    threads = Threads(RunningSteps("w1"), committer, leave=list)  # type: ignore[arg-type]
    return task._run_step(grant, None, threads, math.inf)


@pytest.mark.parametrize(
    "what", ["continuation_of", "outcome_of", "task_of", "limited", "termination_deferred"]
)
def test_what_escapes_before_a_lease_ends_is_its_outcome(
    task: leased_task.LeasedTask, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_task, what, _raise)
    committer = Committer()
    assert run(task, committer) is None
    assert [ending.result for ending in committer.ended] == [Failed("unexpected", "SystemExit: escaped")]


@pytest.mark.parametrize("what", ["step_began", "inside"])
def test_a_tracer_that_raises_before_a_step_ends_its_lease(
    task: leased_task.LeasedTask, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_task.tracing, what, _raise)
    committer = Committer()
    run(task, committer)
    assert len(committer.ended) == 1


def test_a_tracer_that_raises_after_a_lease_has_ended_loses_not_the_next(
    task: leased_task.LeasedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_task.tracing, "step_ended", _raise)
    committer = Committer()
    assert run(task, committer) is NEXT
    assert [ending.result for ending in committer.ended] == [Done()]


def test_a_process_that_cannot_even_record_that_ends_itself(
    task: leased_task.LeasedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(leased_task, "end_damaged_process", said.append)
    run(task, Committer(raises=2))
    assert said == ["it could not end a lease (SystemExit: the committer)"]
