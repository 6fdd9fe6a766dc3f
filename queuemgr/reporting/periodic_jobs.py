"""Do the periodic jobs run? Each of them, by its own period, and none for too long.

For `doctor`, /health/progress and the dashboard: the tick alone says little, since workers run it themselves
while the worker of the other jobs is held up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Min

from queuemgr.lifecycle import periodic_jobs
from queuemgr.models import PeriodicJob, Worker

LATE_PERIODS = 3
LATE_SECONDS = 15.0
"""A job is late once it has not run for so many of its periods, and so many seconds."""

LONG_SECONDS = 300.0
"""A job runs too long after this; those that have much to do end earlier and ask for another run."""

RESTART = "see the log of the worker on the queue housekeeping, and start that anew"


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a job, since how many seconds, and what to do."""

    what: str
    seconds: float
    remedy: str = field(default_factory=lambda: start_beat())
    job: str = ""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Job:
    """When a job last began, and since when it runs, if it does."""

    ran_at: datetime | None
    running_since: datetime | None


def start_beat() -> str:
    """A worker that consumes the queue housekeeping will do; with beat, jobs run in time."""
    app = getattr(settings, "SLUICE_CELERY_APP", "queuemgr")
    return f"start `celery -A {app} beat` and a worker on the queue housekeeping"


def troubles(now: datetime) -> list[Trouble]:
    """Those of a fleet whose jobs have ever run, the worst first. A tick that is late speaks for all jobs
    that are."""
    jobs = {row.name: Job(row.ran_at, row.running_since) for row in PeriodicJob.objects.all()}
    workers_since = Worker.objects.aggregate(first=Min("started_at"))["first"] if "tick" in jobs else None
    if workers_since is None:
        return []
    return sorted(_troubles(now, jobs, workers_since), key=lambda trouble: -trouble.seconds)


def _troubles(now: datetime, jobs: Mapping[str, Job], workers_since: datetime) -> Iterator[Trouble]:
    late = {name: trouble for name, trouble in _late(now, jobs, workers_since)}
    yield from [late["tick"]] if "tick" in late else late.values()
    for name, job in jobs.items():
        ran = (now - job.running_since).total_seconds() if job.running_since else 0.0
        if ran > LONG_SECONDS:
            yield Trouble(
                f"the periodic job {name} began {ran:.0f} s ago and has not ended", ran, RESTART, name
            )


def _late(now: datetime, jobs: Mapping[str, Job], workers_since: datetime) -> Iterator[tuple[str, Trouble]]:
    for name, every in periodic_jobs.periods().items():
        job = jobs.get(periodic_jobs.row_of(name))
        since = job.ran_at if job and job.ran_at else workers_since
        ago, runs = (now - since).total_seconds(), name != "tick" and job is not None and job.running_since
        if ago > LATE_PERIODS * every + LATE_SECONDS and not runs:
            yield name, Trouble(_sentence(name, ago, has_run=job is not None), ago, job=name)


def _sentence(name: str, ago: float, *, has_run: bool) -> str:
    if name == "tick":
        return f"the last tick was {ago:.0f} s ago"
    if has_run:
        return f"the periodic job {name} last ran {ago:.0f} s ago"
    return f"the periodic job {name} has never run, {ago:.0f} s after a worker started"
