"""Whether any work has a tenant: if not, dispatch skips the fair shares.

Until a process has found a tenant it checks the database every few seconds; afterwards it does not.
"""

from __future__ import annotations

import time

from queuemgr.base import process_state, sql

CHECK_SECONDS = 5.0
"""Seconds between checks for a first tenant; until one is found, fair shares are off."""

_any_known = False
_checked_at = float("-inf")


def note_tenant(tenant: str) -> None:
    """Remember that this process routed work of a tenant; an empty name is none."""
    global _any_known
    _any_known = _any_known or bool(tenant)


def any_tenants() -> bool:
    global _checked_at
    if not _any_known and time.monotonic() - _checked_at > CHECK_SECONDS:
        _checked_at = time.monotonic()
        for tenant in sql.column("SELECT tenant FROM queuemgr_route WHERE tenant <> '' LIMIT 1"):
            note_tenant(tenant)
    return _any_known


def reset() -> None:
    """Check the database anew."""
    global _any_known, _checked_at
    _any_known, _checked_at = False, float("-inf")


process_state.register(reset)
