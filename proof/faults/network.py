"""Faults of the network between hosts: cut off, one way only, slow, lossy; and a host that disappears."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from proof.faults.fault import Fault, Scene
from proof.hosts import BROKER, CUT, DATABASE, OPERATOR
from proof.plan import PlannedFault
from proof.tables import Unreachable
from queuemgr.base import scheduler_lock

SLOW_SECONDS = 0.1
LOST_SHARE = 0.05

DISAPPEAR_WITHIN = 12.0
"""Seconds of trying to catch a host while it holds the scheduler lock."""


class CutHost:
    """No packet passes between a worker's host and some others; connections stay open."""

    peers: tuple[str, ...] = (DATABASE, BROKER)
    there, back = True, True
    dropped, delay = CUT, 0.0

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._disturb(scene, planned.target, self.dropped, self.delay)

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        self._disturb(scene, planned.target, 0.0, 0.0)

    def _disturb(self, scene: Scene, host: str, dropped: float, delay: float) -> None:
        for peer in self.peers:
            if self.there:
                scene.fleet.hosts.path(host, peer, dropped, delay)
            if self.back:
                scene.fleet.hosts.path(peer, host, dropped, delay)


class CutFromDatabase(CutHost):
    """A worker reaches the broker, not the database."""

    peers = (DATABASE,)


class CutFromBroker(CutHost):
    """A worker reaches the database, not the broker."""

    peers = (BROKER,)


class DeafHost(CutHost):
    """What a worker sends arrives, and no answer comes back."""

    there = False


class MuteHost(CutHost):
    """What is sent to a worker arrives, and nothing it sends."""

    back = False


class SlowLink(CutHost):
    """Each packet takes a tenth of a second."""

    dropped, delay = 0.0, SLOW_SECONDS


class LossyLink(CutHost):
    """One packet in twenty is lost."""

    dropped = LOST_SHARE


class LoseHost:
    """A host disappears at the moment it holds the scheduler lock: its network goes first, so that no
    connection is ever closed, then its processes are killed. The database ends the open transaction."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        others = (DATABASE, BROKER, OPERATOR)
        until = time.monotonic() + DISAPPEAR_WITHIN
        while time.monotonic() < until:
            self._set(scene, planned.target, others, CUT)
            if self._holds_the_lock(scene, planned.target):
                scene.locks_lost += 1
                break
            self._set(scene, planned.target, others, 0.0)
            time.sleep(0.01)
        self._set(scene, planned.target, others, CUT)
        scene.fleet.groups[planned.target].held_down = True
        scene.fleet.groups[planned.target].kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        self._set(scene, planned.target, (DATABASE, BROKER, OPERATOR), 0.0)
        scene.fleet.groups[planned.target].held_down = False

    @staticmethod
    def _set(scene: Scene, host: str, others: Iterable[str], dropped: float) -> None:
        for other in others:
            scene.fleet.hosts.path(host, other, dropped)
            scene.fleet.hosts.path(other, host, dropped)

    @staticmethod
    def _holds_the_lock(scene: Scene, host: str) -> bool:
        """Whether a session from there holds it, and waits for a statement that cannot come."""
        address, key = scene.fleet.address_of_sessions(host), scheduler_lock.SCHEDULER_LOCK
        with suppress(Unreachable):
            return bool(scene.fleet.tables.rows(
                "SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.granted "
                f"WHERE l.locktype = 'advisory' AND l.objid = {key & 0xFFFFFFFF} "
                f"AND a.client_addr = '{address}' AND a.state LIKE 'idle in transaction%'"
            ))  # fmt: skip
        return False


FAULTS: Mapping[str, type[Fault]] = {
    "cut off host": CutHost,
    "cut off from the database": CutFromDatabase,
    "cut off from the broker": CutFromBroker,
    "deaf host": DeafHost,
    "mute host": MuteHost,
    "slow link": SlowLink,
    "lossy link": LossyLink,
    "lose host": LoseHost,
}
