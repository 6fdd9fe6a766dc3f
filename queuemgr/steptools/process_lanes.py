"""The lanes of this process, computed once from its settings and from what it may use of the machine."""

from __future__ import annotations

from functools import lru_cache

from queuemgr.base import process_state
from queuemgr.base.config import DJANGO_SETTINGS, LaneSettings, lane_settings
from queuemgr.steptools.lanes import Lanes, compute_lanes
from queuemgr.steptools.machine import this_machine


@lru_cache(maxsize=1)
def lanes() -> Lanes:
    """The only place these values are computed.

    Raises `ConfigurationError` for a setting that cannot work.
    """
    return compute_lanes(
        lane_settings().model_dump(), lambda name: LaneSettings.source(name, DJANGO_SETTINGS), this_machine()
    )


process_state.register_settings(lanes.cache_clear)
