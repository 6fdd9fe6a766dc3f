"""For an application's settings: a group to subclass, read as `SLUICE_<NAME>`.

class PrintSettings(SettingsGroup):
    copies: int = Field(1, ge=1, description="copies of each page")

@lru_cache(maxsize=1)
def print_settings() -> PrintSettings:
    return PrintSettings.load(DJANGO_SETTINGS)

reload_after_reset(print_settings)  # a command line may still set some
"""

from queuemgr.base.config import (
    DJANGO_SETTINGS,
    LaneSettings,
    SettingsGroup,
    reload_after_reset,
    set_default,
)

__all__ = ["DJANGO_SETTINGS", "LaneSettings", "SettingsGroup", "reload_after_reset", "set_default"]
