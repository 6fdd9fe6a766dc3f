"""Callbacks of flows that fail."""

from __future__ import annotations

from collections.abc import Iterator

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import CheckResult
from queuemgr.lifecycle import callback_failures
from queuemgr.lifecycle.callback_failures import AGAIN_AFTER

RAISES = "correct the flow: the log has the traceback; the other flows continue"
HANGS = (
    "correct the flow: the log says where it hung, or what it broke; it is left out for "
    f"{AGAIN_AFTER.total_seconds() / 60:.0f} minutes each time, and the other flows continue"
)


def within_a_day() -> Iterator[CheckResult]:
    """Callbacks of flows that failed within a day, in whichever process; those of `checks` run here."""
    for failure in callback_failures.recent(database_now()):
        if failure.callback != "checks":
            times = f"{failure.times} times since {failure.since:%Y-%m-%d %H:%M} UTC"
            yield CheckResult("bad", f"{failure} ({times})", HANGS if failure.hung_at else RAISES)
