"""Periodic work with two beats is done once; with none, the workers' heartbeats stand in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

TASK_RESULTS = (
    "SELECT result FROM django_celery_results_taskresult "
    "WHERE task_name = 'queuemgr.tick' AND status = 'SUCCESS'"
)


def test_two_beats_do_no_harm_and_one_alone_carries_on(make_fleet: MakeFleet) -> None:
    """Nothing runs twice, usage is exact, periodic jobs run once a period even after a kill."""
    fleet = make_fleet(lease_seconds=4)
    began = datetime.now(UTC)
    first, _ = fleet.start_beat("beat-1"), fleet.start_beat("beat-2")
    workers = fleet.start_housekeeping(), fleet.start_worker(8, wait=False)
    fleet.enqueue(60, seconds=0.3, requests=2, trace=fleet.trace_file)
    fleet.wait_for_workers(*workers)
    fleet.wait_until_done(60)
    first.kill_group()
    ticks = len(fleet.database.rows(TASK_RESULTS))
    fleet.wait_until("ticks continue", lambda: len(fleet.database.rows(TASK_RESULTS)) > ticks + 1)

    assert fleet.outcomes() == {"done": 60}
    assert fleet.trace().started_again() == []
    assert fleet.one("SELECT SUM(spent) FROM queuemgr_allowanceusage WHERE limit_name = 'fleet'") == 120
    worked = [result for (result,) in fleet.database.rows(TASK_RESULTS) if result != "null"]
    periods = (datetime.now(UTC) - began) / timedelta(seconds=0.25)
    assert 2 < len(worked) <= periods + 1, "a tick within half a period of another does nothing"


def test_without_beat_work_still_starts_when_due(fleet: Fleet) -> None:
    """No beat at all, nothing else happening, and due work starts by itself."""
    fleet.enqueue(5)
    due = datetime.now(UTC) + timedelta(seconds=4)
    fleet.database.run("UPDATE queuemgr_execution SET run_after = %s", str(due.replace(tzinfo=None)))
    fleet.start_worker(4)
    fleet.wait_until_done(5)
    started = [datetime.fromisoformat(attempt["started"]) for attempt in fleet.attempts()]
    assert due <= min(started)
    assert max(started) < due + timedelta(seconds=5)
