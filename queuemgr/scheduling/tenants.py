"""Whether any work has a tenant: if not, dispatch skips the fair shares.

Once a process has seen a tenant it stops asking; until then it asks the database now and then.
"""

from __future__ import annotations

import time

from queuemgr.base import process_state, sql

ASK_AGAIN = 5.0
"""Seconds. Until then a tenant new to the fleet may get less than its fair share, though it is served."""

_any_known = False
_asked_at = float("-inf")


def note_tenant(tenant: str) -> None:
    """Remember that this process routed work of a tenant; an empty name is none."""
    global _any_known
    _any_known = _any_known or bool(tenant)


def any_tenants() -> bool:
    global _asked_at
    if not _any_known and time.monotonic() - _asked_at > ASK_AGAIN:
        _asked_at = time.monotonic()
        for tenant in sql.column("SELECT tenant FROM queuemgr_route WHERE tenant <> '' LIMIT 1"):
            note_tenant(tenant)
    return _any_known


def reset() -> None:
    """Ask the database anew."""
    global _any_known, _asked_at
    _any_known, _asked_at = False, float("-inf")


process_state.register(reset)
