"""Faults of PgBouncer, where one stands before the database."""

from __future__ import annotations

from collections.abc import Mapping

from proof.faults.fault import Fault, Scene
from proof.plan import PlannedFault
from proof.servers import POOLER


class RestartPooler:
    """SIGKILL of PgBouncer: every connection is cut, the transactions behind them are rolled back."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups[POOLER].held_down = True
        scene.fleet.groups[POOLER].kill()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.groups[POOLER].held_down = False
        scene.fleet.groups[POOLER].keep_up()


FAULTS: Mapping[str, type[Fault]] = {"restart pooler": RestartPooler}
