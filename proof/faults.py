"""The faults, one class for each kind: `begin` causes it, `end` undoes it after a while."""

from __future__ import annotations

import resource
import signal
from contextlib import suppress
from random import Random
from typing import Protocol

import psutil
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

from proof.checker import FREEZE
from proof.fleet import Fleet
from proof.plan import PlannedFault
from proof.tables import Unreachable
from queuemgr.base.errors import ConfigurationError
from queuemgr.local.private_servers import wait_for_port
from tests.acceptance.processes import Process

FULL_AT = 16 * 1024
"""Bytes at which the disk of a worker is full. Trace files are smaller, papers are larger."""

AHEAD = 600
"""Seconds by which a wrong clock is off."""


class Fault(Protocol):
    """One fault of one kind, a new instance for each time."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        """Cause it."""

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        """Undo it."""


class KillWorkers:
    """SIGKILL of a worker and its children; it stays away for a while, as on a lost machine."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        group = fleet.groups[planned.target]
        group.held_down = True
        group.kill()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.groups[planned.target].held_down = False


class FreezeWorkers:
    """SIGSTOP for longer than a lease, then SIGCONT: the worker resumes without its leases."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        self._frozen = fleet.groups[planned.target].process
        with suppress(ProcessLookupError):
            self._frozen.freeze()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        with suppress(ProcessLookupError):
            self._frozen.thaw()


class FlushBroker:
    """FLUSHALL: every message and every queue is lost."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        with suppress(RedisError), Redis.from_url(fleet.broker_url, socket_timeout=5) as redis:
            redis.flushall()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        """A flush is not undone."""


class RestartBroker:
    """SIGKILL of the broker, which restarts empty on the same port."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.groups["redis"].held_down = True
        fleet.proxy.shut()
        fleet.groups["redis"].kill()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.groups["redis"].held_down = False
        fleet.groups["redis"].keep_up()
        fleet.proxy.open()


class StallBroker:
    """The network to the broker forwards nothing; connections stay open and silent."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.proxy.stall()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.proxy.flow()


TRIES = 3


class RestartDatabase:
    """PostgreSQL's immediate shutdown, which cuts every connection; it recovers when started again."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        if fleet.postgres:
            fleet.postgres.stop_at_once()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        any(self._started(fleet) for _ in range(TRIES))

    @staticmethod
    def _started(fleet: Fleet) -> bool:
        """A server that was cut off may still hold its memory, so that the first start of the next one
        fails."""
        with suppress(ConfigurationError):
            if fleet.postgres:
                fleet.postgres.start()
                wait_for_port(fleet.postgres.port)
            return True
        return False


class DeliverAgain:
    """Messages of past leases, the oldest included, and those of current leases twice more."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        with suppress(Unreachable):
            past = fleet.tables.rows("SELECT lease_id FROM queuemgr_attempt ORDER BY id")
            now = fleet.tables.rows("SELECT id AS lease_id FROM queuemgr_lease")
            some = Random(planned.seed).sample(past, min(20, len(past)))
            _send(fleet, [str(row["lease_id"]) for row in [*past[:20], *some, *now, *now]])

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        """Sent messages are not taken back."""


def _send(fleet: Fleet, lease_ids: list[str]) -> None:
    """Send a message as the fleet does, to a queue that some worker consumes."""
    app = Celery("bystander", broker=fleet.broker_url, set_as_current=False)
    app.conf.broker_transport_options = {"socket_timeout": 5, "socket_connect_timeout": 2}
    with suppress(RedisError, OSError, OperationalError), app:
        for lease_id in lease_ids:
            app.send_task("probe.run", args=[lease_id], task_id=lease_id, queue="prep.normal", retry=False)


class TwoBeats:
    """A second beat beside the first."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        self._second: Process = fleet.start_beside("second-beat", fleet.beat("second-beat"))

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        self._second.kill_group()


class NoBeat:
    """No beat at all: the workers' heartbeats replace it."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.groups["beat"].held_down = True
        fleet.groups["beat"].kill()

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        fleet.groups["beat"].held_down = False


class FullDisk:
    """No file of a worker's processes may grow beyond a few kilobytes: a write past it fails as on a full
    disk.

    By a limit of the kernel (RLIMIT_FSIZE), so that no disk has to be filled.
    """

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        self._bounded = _family(fleet.groups[planned.target].process.pid)
        _bound(self._bounded, FULL_AT)

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        alive = fleet.groups[planned.target].process.pid
        _bound([*self._bounded, *_family(alive)], resource.RLIM_INFINITY)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _bound(processes: list[psutil.Process], size: int) -> None:
    for process in processes:
        with suppress(psutil.Error, OSError):
            _, most = process.rlimit(resource.RLIMIT_FSIZE)
            allowed = most if size < 0 else size if most < 0 else min(size, most)
            process.rlimit(resource.RLIMIT_FSIZE, (allowed, most))


class WrongClock:
    """A worker restarts with its clock ten minutes ahead or behind, and later with the right one."""

    def begin(self, fleet: Fleet, planned: PlannedFault) -> None:
        shift = AHEAD if planned.seed % 2 else -AHEAD
        _restart(fleet, planned.target, {"PROOF_CLOCK_SHIFT": str(shift)})

    def end(self, fleet: Fleet, planned: PlannedFault) -> None:
        _restart(fleet, planned.target, {"PROOF_CLOCK_SHIFT": "0"})


def _restart(fleet: Fleet, name: str, changed: dict[str, str]) -> None:
    """Ask it to end; the supervisor restarts it with the changed environment."""
    group = fleet.groups[name]
    group.environment.update(changed)
    with suppress(ProcessLookupError):
        group.process.signal(signal.SIGTERM)


FAULTS: dict[str, type[Fault]] = {
    "kill workers": KillWorkers,
    FREEZE: FreezeWorkers,
    "flush broker": FlushBroker,
    "restart broker": RestartBroker,
    "stall broker": StallBroker,
    "restart database": RestartDatabase,
    "deliver again and late": DeliverAgain,
    "two beats": TwoBeats,
    "no beat": NoBeat,
    "full disk": FullDisk,
    "wrong clock": WrongClock,
}
