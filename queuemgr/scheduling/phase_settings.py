"""The settings of each phase: its cap, which its flow declares, and the time limits of its steps."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import Field, create_model

from queuemgr.base import process_state
from queuemgr.base.config import QueueSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import DJANGO_SETTINGS, SettingsGroup
from queuemgr.flows.flow import StepRef, all_phases


def phase_settings_group() -> type[SettingsGroup]:
    """The settings group with `max_<phase>` for every registered phase.

    Raises `ConfigurationError` for a phase named so that its setting is one the queue has.
    """
    return _group(tuple((phase.name, phase.max_running) for phase in all_phases().values()))


@lru_cache(maxsize=8)
def _group(caps: tuple[tuple[str, int], ...]) -> type[SettingsGroup]:
    fields: dict[str, Any] = {}
    for phase, cap in caps:
        name = f"max_{phase}"
        if name in QueueSettings.model_fields:
            raise ConfigurationError(
                f"phase {phase!r} needs another name: {QueueSettings.variable(name)} is a setting "
                "of the whole queue"
            )
        meaning = f"slots phase {phase} may use; 0: no cap"
        fields[name] = (int, Field(cap, ge=0, description=meaning))
        for setting, effect in (("soft_time_limit", "aborted"), ("time_limit", "ended")):
            meaning = f"seconds after which a step of phase {phase} is {effect}; 0: no limit"
            fields[f"{setting}_{phase}"] = (float, Field(0.0, ge=0, description=meaning))
    return create_model(
        "PhaseSettings", __base__=SettingsGroup, __doc__="The caps and time limits of the phases.", **fields
    )


def phase_caps() -> dict[str, int]:
    """Steps of each phase that may run at once in the fleet; 0: no cap.

    Raises `ConfigurationError` for a setting that cannot work.
    """
    config = load(phase_settings_group())
    return {phase: getattr(config, f"max_{phase}") for phase in all_phases()}


class TimeLimits(NamedTuple):
    """Seconds after which a step is asked to stop, and after which it is ended; infinite for no limit."""

    soft: float
    hard: float


def time_limits(ref: StepRef) -> TimeLimits:
    """The limits of a step: the smaller of its own and its phase's."""
    config, phase = load(phase_settings_group()), ref.phase.name
    soft = (ref.step.soft_time_limit, getattr(config, f"soft_time_limit_{phase}", 0))
    hard = (ref.step.time_limit, getattr(config, f"time_limit_{phase}", 0))
    return TimeLimits(*(min(filter(None, limits), default=math.inf) for limits in (soft, hard)))


@lru_cache(maxsize=8)
def load(group: type[SettingsGroup]) -> SettingsGroup:
    """The settings of the phases, read once in a process."""
    return group.load(DJANGO_SETTINGS)


process_state.register_settings(load.cache_clear)
