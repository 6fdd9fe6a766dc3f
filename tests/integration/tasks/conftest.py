"""Tasks declared by one test, and a worker that performs their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import _state, current_app

from queuemgr.flows import flow
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import enqueue_at_commit
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.publish import task_of
from queuemgr.worker.application_code import outcome_of
from queuemgr.worker.current_work import doing
from queuemgr.worker.work import Work


@pytest.fixture
def declaring() -> Iterator[None]:
    """What a test declares is gone after it: its flows, and the tasks Celery would give every application."""
    flows, tasks = dict(flow._flows), dict(current_app.tasks)
    finalizers = set(_state._on_app_finalizers)
    yield
    for kept, now in ((flows, flow._flows), (tasks, current_app.tasks)):
        now.clear()
        now.update(kept)
    _state._on_app_finalizers.intersection_update(finalizers)


@pytest.fixture
def perform_all(declaring: None, played: Callable[..., Any]) -> Callable[..., int]:
    """Run whatever may start now, to its end; returns how many steps ran. `retries_too` waits for none."""

    def perform(*, at_most: int = 100) -> int:
        enqueue_at_commit.flush()
        worker, ran = played(), 0
        dispatch()
        while grants := worker.begin_all():
            for grant in grants:
                work = Work(grant, AbortSignal())
                task: Any = current_app.tasks[task_of(grant)]
                with doing(work):
                    result = outcome_of(lambda task=task, work=work: task.perform(work), work.signal)
                worker.end(grant, result, next_too=False)
                ran += 1
            if ran >= at_most:
                return ran
            dispatch()
        return ran

    return perform
