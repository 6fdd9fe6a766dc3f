"""Hostile application code, callbacks that raise, and storage that is away."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from proof.application import switches
from proof.faults.fault import Fault, Scene
from proof.plan import PlannedFault
from proof.ways import WAYS

AT_ONCE = 8
"""How many items of hostile code are enqueued by one fault, each of a way of its own."""

AT_ONCE_THAT_KILL = 2


class HostileCode:
    """Some items of hostile code; they end by themselves."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        ways, rng = sorted(WAYS[planned.kind]), Random(planned.seed)
        most = AT_ONCE_THAT_KILL if any(e.kills for e in WAYS[planned.kind].values()) else AT_ONCE
        scene.work.ask(rng.sample(ways, min(most, len(ways))))

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        """Code that is enqueued is not taken back."""


class Switch:
    """Something of the application fails while a switch is on."""

    name = ""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        (scene.fleet.directory / self.name).touch()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        (scene.fleet.directory / self.name).unlink()


class CallbacksThatRaise(Switch):
    """The callbacks of one flow raise; those of another are to be called all the same."""

    name = switches.CALLBACKS_RAISE


class StorageAway(Switch):
    """The object store of the papers cannot be reached."""

    name = switches.STORAGE_AWAY


FAULTS: Mapping[str, type[Fault]] = {
    **dict.fromkeys(WAYS, HostileCode),
    "callbacks that raise": CallbacksThatRaise,
    "object storage away": StorageAway,
}
