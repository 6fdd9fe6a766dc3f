"""Writing settings into rows where they changed since they were last written; each edit is audited.

The actor of an edit is the user of the command line that gave the setting, or `settings` where it comes
from the environment or from the code of this release: no database knows who set it there.
"""

from __future__ import annotations

import getpass
from collections.abc import Collection, Mapping
from typing import Any

from queuemgr.models import AuditEntry, Limit, RetryPolicy

SETTINGS = "settings"


def record_settings_change(
    action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any], *, forced: bool
) -> None:
    """Audit the values that differ, if any do. `forced`: given on a command line."""
    edited = {name: value for name, value in after.items() if before[name] != value}
    if edited:
        AuditEntry.objects.create(
            actor=getpass.getuser() if forced else SETTINGS,
            source="command" if forced else SETTINGS,
            reason="given on the command line" if forced else "setting changed",
            action=action,
            target=target,
            before={name: before[name] for name in edited},
            after=edited,
        )


def write_changed(
    action: str, row: Limit | RetryPolicy, values: Mapping[str, Any], forced: Collection[str] = ()
) -> bool:
    """Update the fields whose setting changed since it was last written, or is forced; keep operators' edits
    of the others. True if any was updated."""
    changed = {
        field: value
        for field, value in values.items()
        if field in forced or row.from_settings.get(field, ...) != value
    }
    if not changed:
        return False
    before = {field: getattr(row, field) for field in changed}
    record_settings_change(action, str(row), before, changed, forced=any(f in forced for f in changed))
    for field, value in changed.items():
        setattr(row, field, value)
    row.from_settings = dict(values)
    row.save()
    return True
