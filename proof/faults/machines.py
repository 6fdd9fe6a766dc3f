"""Faults of whole machines: everything is suspended, and the clock runs on meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from proof.faults.fault import Fault, Scene
from proof.plan import PlannedFault

TWO_DAYS = 2 * 86_400


class SuspendEverything:
    """SIGSTOP to every process, database and broker included, as when a laptop sleeps; when they resume, the
    wall clock is two days ahead."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._frozen = [group.process for group in scene.fleet.groups.values()]
        for process in self._frozen:
            with suppress(ProcessLookupError):
                process.freeze()
        for pid in scene.fleet.operators:
            os.kill(pid, signal.SIGSTOP)
        if scene.fleet.postgres:
            scene.fleet.postgres.freeze()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        scene.fleet.clock.step(TWO_DAYS)
        if scene.fleet.postgres:
            scene.fleet.postgres.thaw()
        for pid in scene.fleet.operators:
            os.kill(pid, signal.SIGCONT)
        for process in reversed(self._frozen):
            with suppress(ProcessLookupError):
                process.thaw()


FAULTS: Mapping[str, type[Fault]] = {"suspend everything": SuspendEverything}
