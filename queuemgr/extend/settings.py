"""For an application's settings: a group to subclass, whose fields are read from `SLUICE_<NAME>`.

    class PrintSettings(SettingsGroup):
        copies: int = Field(1, ge=1, description="copies of each page")

    @read_once
    def print_settings() -> PrintSettings:
        return PrintSettings.load(DJANGO_SETTINGS)

`read_once` caches what a loader returns until a command line sets some settings. `set_default` changes
the default of a setting for one command.
`queue_settings()` are the queue's own, such as `seed_limit`; `LaneSettings` is its group for what one process
runs at once. `keep_secrets_in_memory()` takes
secrets out of the environment of a process that starts others, or runs code of others; `keep_private()`
closes its memory to other processes of its user. A `wsgi.py` of your own calls both.
"""

from queuemgr.base.config import LaneSettings, queue_settings
from queuemgr.base.private_memory import keep_private
from queuemgr.base.program_secrets import keep_secrets_in_memory
from queuemgr.base.settings_group import DJANGO_SETTINGS, SettingsGroup, read_once, set_default

__all__ = [
    "DJANGO_SETTINGS", "LaneSettings", "SettingsGroup", "keep_private", "keep_secrets_in_memory",
    "queue_settings", "read_once", "set_default",
]  # fmt: skip
