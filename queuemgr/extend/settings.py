"""For an application's settings: a group to subclass, read as `SLUICE_<NAME>`.

class PrintSettings(SettingsGroup):
    copies: int = Field(1, ge=1, description="copies of each page")

@lru_cache(maxsize=1)
def print_settings() -> PrintSettings:
    return PrintSettings.load(DJANGO_SETTINGS)

forget_on_change(print_settings)  # a command line may still set some
"""

from queuemgr.base.config import (
    DJANGO_SETTINGS,
    LaneSettings,
    SettingsGroup,
    forget_on_change,
    set_default,
)

__all__ = ["DJANGO_SETTINGS", "LaneSettings", "SettingsGroup", "forget_on_change", "set_default"]
