"""A worker that can run no step, and a beat without the periodic jobs, say so and why."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from queuemgr.flows import flow
from queuemgr.flows.flow import HOUSEKEEPING, all_queues
from queuemgr.lifecycle import periodic_jobs
from queuemgr.worker.beat_schedule import beat_schedule
from queuemgr.worker.useless_processes import log_useless_beat, reasons


@pytest.mark.parametrize("consumed", [["letters"], ["letters", "prep"], ["prep.normal2"]])
def test_a_worker_without_a_queue_of_ours_names_those_there_are(consumed: list[str]) -> None:
    (why,) = reasons(consumed)
    assert all(name in why for name in (*consumed, *all_queues()))


@pytest.mark.parametrize("consumed", [["letters", "prep.low"], [HOUSEKEEPING], all_queues()])
def test_a_worker_of_steps_or_of_periodic_jobs_says_nothing(consumed: list[str]) -> None:
    assert not list(reasons(consumed))


def test_a_worker_without_flows_names_the_modules_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_flows", {})
    (why,) = reasons(["celery"])
    assert "none is registered by pipeline.flows" in why


@pytest.mark.parametrize("missing", [*periodic_jobs.periods(), None])
def test_a_beat_without_periodic_jobs_says_which(
    missing: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {
        name: SimpleNamespace(task=job["task"])
        for name, job in beat_schedule().items()
        if name != f"queuemgr.{missing}"
    }
    caplog.set_level(logging.WARNING)
    log_useless_beat(sender=SimpleNamespace(scheduler=SimpleNamespace(schedule=entries)))
    assert [f"does not send queuemgr.{missing} of" in record.message for record in caplog.records] == (
        [True] if missing else []
    )
