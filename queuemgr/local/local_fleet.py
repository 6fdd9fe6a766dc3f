"""A fleet on this machine: broker, workers and beat, each started by a plain command."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db.models import Sum

from queuemgr.base.config import queue_settings
from queuemgr.base.data_directory import data_directory, make_data_directory
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.private_memory import keep_private
from queuemgr.base.program_secrets import environment_of
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HOUSEKEEPING, PRIORITY_NAMES, all_phases, all_queues, queue_name
from queuemgr.local.private_broker import broker_of
from queuemgr.local.supervisor import TELL_SECONDS, Program, Supervisor
from queuemgr.models import Worker
from queuemgr.scheduling import limit_rows

READY_SECONDS = 60
ALREADY_CHECKED = {"CELERY_SKIP_CHECKS": "1"}
"""Django's checks import every page; the worker of steps runs them for both workers."""


@dataclass(frozen=True)
class FleetSpec:
    """What to run: slots, the Celery pool they are in, and the phases to serve (none: all)."""

    slots: int
    pool: str = "threads"
    phases: Sequence[str] = ()


def worker_command(slots: int, pool: str, queues: Sequence[str], name: str) -> list[str]:
    """The Celery command of a worker, as `manage.py worker` runs it."""
    return [
        *celery(), "worker", "--pool", pool, "--concurrency", str(slots), "--queues",
        ",".join(queues), "--hostname", f"{name}@%h", "--loglevel", "INFO", "--task-events",
    ]  # fmt: skip


def celery() -> list[str]:
    """`celery -A …`, run by this interpreter."""
    return [sys.executable, "-m", "celery", "-A", getattr(settings, "SLUICE_CELERY_APP", "queuemgr")]


def queues_of(phases: Sequence[str]) -> list[str]:
    """The queues of these phases (none: all); raises `ConfigurationError` for an unknown one."""
    unknown = set(phases) - set(all_phases())
    if unknown:
        raise ConfigurationError(
            f"no phase is called {', '.join(sorted(unknown))}; there are {', '.join(all_phases())}"
        )
    return [queue_name(p, rank) for p in phases for rank in PRIORITY_NAMES] or all_queues()


def _programs(spec: FleetSpec) -> list[Program]:
    """The worker of steps, the worker of periodic jobs (which must not wait for steps), and beat."""
    steps = worker_command(spec.slots, spec.pool, queues_of(spec.phases), "steps")
    jobs = worker_command(1, "solo", [HOUSEKEEPING], "housekeeping")
    schedule = str(data_directory() / "beat-schedule")
    beat = [*celery(), "beat", "--schedule", schedule, "--pidfile", "", "--loglevel", "WARNING"]
    quiet = ["--without-gossip", "--without-mingle"]
    return [
        Program("worker", steps, environment=environment_of(spec.phases or all_phases()),
                stop_seconds=queue_settings().shutdown_grace + 5),
        Program("housekeeping", [*jobs, *quiet],
                environment=environment_of([HOUSEKEEPING]) | ALREADY_CHECKED),
        Program("beat", beat, environment=environment_of(["beat"])),
    ]  # fmt: skip


@contextmanager
def running(
    spec: FleetSpec,
    also: Sequence[Program] = (),
    forced: Collection[str] = (),
    say: Callable[[str], object] = lambda line: None,
) -> Iterator[Supervisor]:
    """Run this fleet, and the programs in `also`, while the block runs.

    Limits and settings are written to the database before anything starts; settings in `forced`
    (given on this command line) replace what an operator had set.
    Where the project wants a private broker, it is started. `say` gets what is started, waited for and
    stopped, a line each. Raises `ConfigurationError` when another run
    uses the data directory, or a program does not start.
    """
    directory = make_data_directory()
    keep_private()  # it has the secrets of every program, and runs as long as they do
    with _only_run_in(directory):
        limit_rows.sync(forced, as_newest=not Worker.objects.running(database_now()).exists())
        with (
            broker_of(directory) as servers,
            Supervisor(directory, [*servers, *_programs(spec), *also], say) as supervisor,
        ):
            _wait_for_worker(spec.slots, supervisor, say)
            yield supervisor


def _wait_for_worker(slots: int, supervisor: Supervisor, say: Callable[[str], object]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    said_at = time.monotonic()
    while (there := _running_slots()) < slots:
        supervisor.check()
        if time.monotonic() > said_at + TELL_SECONDS:
            said_at = time.monotonic()
            say(f"waiting for the worker ({there} of {slots} slots)")
        if time.monotonic() > deadline:
            log = supervisor.logs / "worker.log"
            raise ConfigurationError(
                f"no worker with {slots} slots started within {READY_SECONDS} s: see {log}"
            )
        time.sleep(0.1)


def _running_slots() -> int:
    """Slots of drained workers too, which take no work until they are resumed."""
    return Worker.objects.running(database_now()).aggregate(slots=Sum("slots"))["slots"] or 0


@contextmanager
def _only_run_in(directory: Path) -> Iterator[None]:
    """Lock the data directory, so that two runs cannot use it at once."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(
                f"another run uses {directory}: stop it, or set SLUICE_DATA_DIR to another directory"
            ) from None
        yield
