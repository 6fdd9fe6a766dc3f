"""Each periodic job that is late, or does not end, is named wherever the state of the fleet is shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import periodic_jobs as jobs
from queuemgr.local.checks import fleet
from queuemgr.models import PeriodicJob, Worker
from queuemgr.reporting import dashboard
from queuemgr.reporting.periodic_jobs import troubles
from queuemgr.worker import housekeeping

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = [*jobs.periods()]


@pytest.fixture
def on_time(static_root: None, make_worker: Callable[..., Worker]) -> None:
    make_worker()
    for name in JOBS:
        PeriodicJob.objects.create(name=jobs.row_of(name), ran_at=database_now())


def _shown() -> tuple[set[str], Any, list[str]]:
    """What `doctor`, /health/progress and the dashboard say."""
    answer = Client().get("/health/progress")
    doctor = {finding.what for finding in fleet.periodic_jobs() if finding.level == "bad"}
    return doctor, answer, [alarm.text for alarm in dashboard.read().alarms if alarm.level == "bad"]


def _is_shown_everywhere(sentence: str) -> bool:
    doctor, answer, alarms = _shown()
    return (
        any(sentence in what for what in doctor)
        and answer.status_code == 503
        and sentence in answer.json()["status"]
        and any(sentence in text for text in alarms)
    )


@pytest.mark.usefixtures("on_time")
def test_jobs_on_time_are_no_trouble() -> None:
    doctor, answer, alarms = _shown()
    assert (doctor, answer.status_code, alarms) == (set(), 200, [])


@pytest.mark.usefixtures("on_time")
@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_does_not_run_is_shown_everywhere(name: str) -> None:
    ago = database_now() - timedelta(seconds=3 * jobs.periods()[name] + 700)
    PeriodicJob.objects.filter(name=jobs.row_of(name)).update(ran_at=ago)
    assert _is_shown_everywhere("last tick was" if name == "tick" else f"periodic job {name} last ran")


@pytest.mark.usefixtures("on_time")
@pytest.mark.parametrize("name", [*JOBS, "bulk", "retention"])
def test_a_job_that_does_not_end_is_shown_everywhere(name: str) -> None:
    row, ago = jobs.row_of(name), database_now() - timedelta(seconds=700)
    PeriodicJob.objects.update_or_create(name=row, defaults={"ran_at": ago, "running_since": ago})
    assert _is_shown_everywhere(f"periodic job {row} began 70")


@pytest.mark.parametrize("name", JOBS[1:])
def test_a_job_that_never_ran_is_late_from_the_start_of_the_first_worker(
    name: str, on_time: None, make_worker: Callable[..., Worker]
) -> None:
    PeriodicJob.objects.filter(name=jobs.row_of(name)).delete()
    assert not troubles(database_now())
    Worker.objects.update(started_at=database_now() - timedelta(hours=2))
    assert [trouble.what.split(",")[0] for trouble in troubles(database_now())] == [
        f"the periodic job {name} has never run"
    ]


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_a_job_is_shown_as_running_while_it_runs(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    seen: list[object] = []

    def run() -> dict[str, int]:
        seen.append(PeriodicJob.objects.get(name="tick").running_since)
        if ends == "raises":
            raise RuntimeError
        return {}

    monkeypatch.setattr(housekeeping, "tick", run)
    with suppress(RuntimeError):
        housekeeping.tick_if_overdue()
    assert seen[0] is not None and PeriodicJob.objects.get().running_since is None
