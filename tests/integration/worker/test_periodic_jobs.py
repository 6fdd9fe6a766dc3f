"""Periodic jobs: by elapsed time whatever the clocks do, once however many claim them, never piled up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.beat import Scheduler
from django.test import override_settings

from project.celery import app
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import periodic_jobs, publish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.local.checks import fleet
from queuemgr.models import Execution, Lease, PeriodicJob, State
from queuemgr.worker import beat, expiry, housekeeping
from queuemgr.worker.beat_schedule import beat_schedule

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]


class Clock:
    """The database's clock, set by the test."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock(datetime(2026, 6, 1, tzinfo=UTC))
    monkeypatch.setattr(housekeeping, "database_now", moved)
    return moved


CHANGES = [
    ("Europe/Paris", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Europe/Paris", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
]
"""The moments at which these zones change between summer and winter time in 2026."""


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_periodic_jobs_follow_elapsed_time_through_a_change_of_summer_time(
    zone: str, change: datetime, clock: Clock
) -> None:
    """No hour without runs and no hour with two times as many, in any zone."""
    before, after = (change + timedelta(seconds=s) for s in (-1, 1))
    local = [moment.astimezone(ZoneInfo(zone)) for moment in (before, after)]
    assert local[0].utcoffset() != local[1].utcoffset()
    every = 60.0
    with override_settings(TIME_ZONE=zone):
        clock.now = change - timedelta(minutes=70)
        runs: list[datetime] = []
        while clock.now < change + timedelta(minutes=70):
            if housekeeping.claim("tick", every=every):
                runs.append(clock.now)
            clock.pass_by(30)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(runs)]
    assert set(gaps) == {every}
    assert len(runs) == 140


@pytest.mark.parametrize("jump", [-86_400, -3_600, -5, 3_600, 86_400])
def test_a_clock_set_back_or_forward_costs_a_job_at_most_two_periods(jump: float, clock: Clock) -> None:
    """Jobs do not stop until the old time comes again."""
    every = 10.0
    assert housekeeping.claim("tick", every)
    for offset in (jump, -jump):
        clock.pass_by(offset)
        waited = 0.0
        while not housekeeping.claim("tick", every) and waited <= 2 * every:
            clock.pass_by(1)
            waited += 1
        assert waited <= 2 * every
        clock.pass_by(1)
        assert not housekeeping.claim("tick", every), "and once only"


def test_a_job_runs_once_a_period_however_many_claim_it(clock: Clock) -> None:
    """Several beats, and workers that replace one."""
    done = 0
    for _ in range(100):
        done += sum(housekeeping.claim("tick", every=10) for _ in range(3))
        clock.pass_by(1)
    assert done == 10


def test_messages_of_days_without_workers_lead_to_one_run_of_each_job(clock: Clock) -> None:
    """Hundreds of old messages come at once; all but the first find nothing due."""
    for job in (beat.tick, beat.backfill, beat.prune, beat.roll_up):
        results = [job() for _ in range(300)]
        assert results[0] is not None
        assert results[1:] == [None] * 299, "skipped, and recorded as nothing done"


JOBS = ("tick", "seed", "prune", "roll_up", "alerts")


def test_beats_messages_expire_before_the_next_of_their_kind_is_sent() -> None:
    """Messages that no worker takes do not pile up in the broker."""
    schedule = beat_schedule()
    assert schedule.keys() == {f"queuemgr.{job}" for job in JOBS}
    for entry in schedule.values():
        assert 0 < entry["options"]["expires"] <= entry["schedule"]


def test_a_new_beat_sends_every_job_at_once() -> None:
    """On another host, or without its schedule file, beat does not wait a whole period first; the
    database knows what ran lately and refuses a second run."""
    scheduler = Scheduler(app, lazy=True)
    scheduler.update_from_dict(beat_schedule())
    assert _due(scheduler) == {f"queuemgr.{job}": True for job in JOBS}
    for name, entry in list(scheduler.schedule.items()):
        scheduler.schedule[name] = next(entry)
    scheduler.merge_inplace(beat_schedule())
    assert not any(_due(scheduler).values()), "one with a stored schedule resumes it"


def _due(scheduler: Scheduler) -> dict[str, bool]:
    return {name: entry.is_due()[0] for name, entry in scheduler.schedule.items()}


def test_when_a_job_last_ran_is_in_the_database(clock: Clock) -> None:
    """A beat without memory counts from the last run and not from its own start."""
    assert beat.backfill() is not None
    clock.pass_by(queue_settings().stale_interval / 4)
    assert beat.backfill() is None
    clock.pass_by(queue_settings().stale_interval / 4)
    assert beat.backfill() is not None


def test_a_job_killed_half_way_runs_a_period_later(
    clock: Clock, played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves no lock behind, and a run that did nothing does not count."""
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    with monkeypatch.context() as patched:
        patched.setattr(expiry, "database_now", _killed)
        with pytest.raises(SystemExit):
            beat.tick()
    assert Lease.objects.started().exists()
    assert beat.tick() is None, "skipped: another has it"
    clock.pass_by(queue_settings().poll_interval)
    assert beat.tick() == {"lost": 1, "started": 1}


def _killed() -> None:
    raise SystemExit(137)


@pytest.fixture
def silent_since(played: Played) -> Callable[[float], None]:
    """Set the last tick back by this many seconds."""
    played(slots=1)

    def silent(seconds: float) -> None:
        ran_at = database_now() - timedelta(seconds=seconds)
        PeriodicJob.objects.update_or_create(name="tick", defaults={"ran_at": ran_at})

    return silent


def test_doctor_reports_a_tick_that_is_overdue(silent_since: Callable[[float], None]) -> None:
    """Work done counts, not a process that is up."""
    silent_since(1)
    (finding,) = fleet.periodic_jobs()
    assert finding.level == "good"
    silent_since(600)
    (finding,) = fleet.periodic_jobs()
    assert finding.level != "good"
    assert "the last tick was 600 s ago" in finding.what
    assert "beat" in finding.remedy


def test_a_worker_that_runs_periodic_jobs_asks_for_those_of_a_missing_beat(
    clock: Clock, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the one worker of a small project: its tables would grow for ever."""
    played(slots=1)
    asked: list[str] = []
    monkeypatch.setattr(publish, "periodic_job", asked.append)
    assert housekeeping.ask_for_late_jobs(["default.high"]) == []
    assert housekeeping.ask_for_late_jobs(["housekeeping"]) == ["seed", "prune", "roll_up", "alerts"]
    assert asked == [f"queuemgr.{job}" for job in JOBS if job != "tick"]
    for job in (beat.backfill, beat.prune, beat.roll_up, beat.alerts):
        job()
    assert housekeeping.ask_for_late_jobs(["housekeeping"]) == []
    clock.pass_by(2 * periodic_jobs.ROLL_UP_SECONDS)
    assert housekeeping.ask_for_late_jobs(["housekeeping"]) == ["roll_up", "alerts"]


def test_a_worker_runs_the_tick_of_a_missing_beat(clock: Clock, played: Played, probes: Probes) -> None:
    """Leases expire and due work starts without any beat."""
    worker = played(slots=1)
    (execution,) = probes(1)
    worker.begin_all()
    housekeeping.tick_if_overdue()
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    housekeeping.tick_if_overdue()
    assert Lease.objects.started().exists(), "not overdue yet"
    clock.pass_by(2 * queue_settings().poll_interval)
    housekeeping.tick_if_overdue()
    assert not Lease.objects.started().exists()
    dispatch()
    execution.refresh_from_db()
    assert execution.state == State.LEASED
