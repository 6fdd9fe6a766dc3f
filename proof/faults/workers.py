"""Faults of workers and beats: killed, frozen, out of disk, with a wrong clock, or there twice."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from contextlib import suppress

import psutil

from proof.faults.fault import Fault, Scene
from proof.fleet import POOLS, worker
from proof.plan import PlannedFault
from tests.acceptance.fleet import STEP_QUEUES
from tests.acceptance.processes import Process

FULL_AT = 16 * 1024
"""Bytes at which the disk of a worker is full. Trace files are smaller, papers are larger."""

AHEAD = 600
"""Seconds by which a wrong clock is off."""


class KillWorkers:
    """SIGKILL of a worker and its children; it stays away for a while, as on a lost machine."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        group = scene.fleet.groups[planned.target]
        group.held_down = True
        group.kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups[planned.target].held_down = False


class RestartContainer:
    """SIGKILL of a worker that is started again at once, with the same host name and the same pid."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups[planned.target].kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        """Its supervisor starts it again."""


class FreezeWorkers:
    """SIGSTOP for longer than a lease, then SIGCONT: the worker resumes without its leases."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._frozen = scene.fleet.groups[planned.target].process
        with suppress(ProcessLookupError):
            self._frozen.freeze()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        with suppress(ProcessLookupError):
            self._frozen.thaw()


class TwinWorker:
    """A second worker of the same name, host name and pid, in a container beside the living first."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        pool, slots = {name: (pool, slots) for name, pool, slots in POOLS}[planned.target]
        command = worker(planned.target, pool, slots, STEP_QUEUES)
        prefix = scene.fleet.hosts.worker(planned.target)
        self._twin: Process = scene.fleet.start_beside(f"twin-{planned.target}", [*prefix, *command])

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        self._twin.kill_group()


class TwoBeats:
    """A second beat beside the first."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._second: Process = scene.fleet.start_beside("second-beat", scene.fleet.beat("second-beat"))

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        self._second.kill_group()


class NoBeat:
    """No beat at all: the workers' heartbeats replace it."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups["beat"].held_down = True
        scene.fleet.groups["beat"].kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups["beat"].held_down = False


class FullDisk:
    """No file of a worker's processes may grow beyond a few kilobytes: a write past it fails as on a full
    disk.

    By a limit of the kernel (RLIMIT_FSIZE), so that no disk has to be filled.
    """

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._bounded = _family(scene.fleet.groups[planned.target].process.pid)
        _bound(self._bounded, FULL_AT)

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        alive = scene.fleet.groups[planned.target].process.pid
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

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        shift = AHEAD if planned.seed % 2 else -AHEAD
        _restart(scene, planned.target, {"PROOF_CLOCK_SHIFT": str(shift)})

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        _restart(scene, planned.target, {"PROOF_CLOCK_SHIFT": "0"})


def _restart(scene: Scene, name: str, changed: dict[str, str]) -> None:
    """Ask it to end; the supervisor restarts it with the changed environment."""
    group = scene.fleet.groups[name]
    group.environment.update(changed)
    group.ask_to_end()


FAULTS: Mapping[str, type[Fault]] = {
    "kill workers": KillWorkers,
    "restart container": RestartContainer,
    "freeze workers": FreezeWorkers,
    "twin worker": TwinWorker,
    "two beats": TwoBeats,
    "no beat": NoBeat,
    "full disk": FullDisk,
    "wrong clock": WrongClock,
}
