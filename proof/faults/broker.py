"""Faults of the broker: emptied, restarted, silent; and messages delivered again and late."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random

from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

from proof.faults.fault import Fault, Scene
from proof.fleet import Fleet
from proof.plan import PlannedFault
from proof.tables import Unreachable


class FlushBroker:
    """FLUSHALL: every message and every queue is lost."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        with suppress(RedisError), Redis.from_url(scene.fleet.broker_url, socket_timeout=5) as redis:
            redis.flushall()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        """A flush is not undone."""


class RestartBroker:
    """SIGKILL of the broker, which restarts empty on the same port."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups["redis"].held_down = True
        scene.fleet.broker.shut()
        scene.fleet.groups["redis"].kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups["redis"].held_down = False
        scene.fleet.groups["redis"].keep_up()
        scene.fleet.broker.open()


class StallBroker:
    """The network to the broker forwards nothing; connections stay open and silent."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.broker.stall()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.broker.flow()


class DeliverAgain:
    """Messages of past leases, the oldest included, and those of current leases twice more."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        with suppress(Unreachable):
            past = scene.fleet.tables.rows("SELECT lease_id FROM queuemgr_attempt ORDER BY id")
            now = scene.fleet.tables.rows("SELECT id AS lease_id FROM queuemgr_lease")
            some = Random(planned.seed).sample(past, min(20, len(past)))
            _send(scene.fleet, [str(row["lease_id"]) for row in [*past[:20], *some, *now, *now]])

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        """Sent messages are not taken back."""


def _send(fleet: Fleet, lease_ids: list[str]) -> None:
    """Send a message as the fleet does, to a queue that some worker consumes."""
    app = Celery("bystander", broker=fleet.broker_url, set_as_current=False)
    app.conf.broker_transport_options = {"socket_timeout": 5, "socket_connect_timeout": 2}
    with suppress(RedisError, OSError, OperationalError), app:
        for lease_id in lease_ids:
            app.send_task("probe.run", args=[lease_id], task_id=lease_id, queue="prep.normal", retry=False)


FAULTS: Mapping[str, type[Fault]] = {
    "flush broker": FlushBroker,
    "restart broker": RestartBroker,
    "stall broker": StallBroker,
    "deliver again and late": DeliverAgain,
}
