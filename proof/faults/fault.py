"""What a fault is, and what it is done to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from proof.fleet import Fleet
from proof.plan import PlannedFault
from proof.records import Rewind
from proof.work import Work


@dataclass
class Scene:
    """What faults act on: the fleet and its work. `rewinds` are the restores of backups, `locks_lost` how
    many hosts disappeared while they held the scheduler lock."""

    fleet: Fleet
    work: Work
    rewinds: list[Rewind] = field(default_factory=list)
    locks_lost: int = 0


class Fault(Protocol):
    """One fault of one kind, a new instance for each time."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        """Cause it."""

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        """Undo it."""
