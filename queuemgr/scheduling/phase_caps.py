"""The cap of each phase: what its flow declares, unless the setting `SLUICE_MAX_<PHASE>` says otherwise."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import Field, create_model

from queuemgr.base import process_state
from queuemgr.base.config import DJANGO_SETTINGS, QueueSettings, SettingsGroup
from queuemgr.base.errors import ConfigurationError
from queuemgr.flows.flow import all_phases


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
    return create_model("PhaseSettings", __base__=SettingsGroup, __doc__="The caps of the phases.", **fields)


def phase_caps() -> dict[str, int]:
    """Steps of each phase that may run at once in the fleet; 0: no cap.

    Raises `ConfigurationError` for a setting that cannot work.
    """
    config = load(phase_settings_group())
    return {phase: getattr(config, f"max_{phase}") for phase in all_phases()}


@lru_cache(maxsize=8)
def load(group: type[SettingsGroup]) -> SettingsGroup:
    """The settings of the phases, read once in a process."""
    return group.load(DJANGO_SETTINGS)


process_state.register_settings(load.cache_clear)
