"""For an application's settings: a group to subclass, whose fields are read from `SLUICE_<NAME>`.

    class PrintSettings(SettingsGroup):
        copies: int = Field(1, ge=1, description="copies of each page")

    @lru_cache(maxsize=1)
    def print_settings() -> PrintSettings:
        return PrintSettings.load(DJANGO_SETTINGS)

    reload_after_reset(print_settings)

A loader that is cached must be registered with `reload_after_reset`, because a command line may set
some of its settings later. `set_default` changes the default of a setting for one command.
`LaneSettings` is the queue's own group for what one process runs at once.
"""

from queuemgr.base.config import DJANGO_SETTINGS, LaneSettings, SettingsGroup, reload_after_reset, set_default

__all__ = ["DJANGO_SETTINGS", "LaneSettings", "SettingsGroup", "reload_after_reset", "set_default"]
