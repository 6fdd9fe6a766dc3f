"""What the settings state is written into rows where it changed; each such edit is recorded too.

By whoever gave it on a command line, or, where it stands in the environment or in the code of this
release, by `settings`: who set it there, no database knows.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from queuemgr.models import AuditEntry

SETTINGS = "settings"


def record_settings_change(
    action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any], *, forced: bool
) -> None:
    """Record what differs; nothing when nothing does. `forced`: from a command line."""
    edited = {name: value for name, value in after.items() if before[name] != value}
    if edited:
        AuditEntry.objects.create(
            actor=getpass.getuser() if forced else SETTINGS,
            source="command" if forced else SETTINGS,
            reason="given on the command line" if forced else "stated so now",
            action=action,
            target=target,
            before={name: before[name] for name in edited},
            after=edited,
        )
