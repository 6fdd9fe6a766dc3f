"""The lanes of this process: worked out once, from its knobs and what it may use of the machine."""

from __future__ import annotations

from functools import lru_cache

from queuemgr.base.config import DJANGO_SETTINGS, LaneKnobs, forget_on_change, lane_knobs
from queuemgr.steptools.lanes import Lanes, worked_out
from queuemgr.steptools.machine import this_machine


@lru_cache(maxsize=1)
def lanes() -> Lanes:
    """The one place these numbers come from; nothing else computes one anew.

    Raises `ConfigurationError` for a knob that cannot work.
    """
    return worked_out(
        lane_knobs().model_dump(),
        lambda name: LaneKnobs.source(name, DJANGO_SETTINGS),
        this_machine(),
    )


forget_on_change(lanes)
