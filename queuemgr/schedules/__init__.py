"""Schedules: what is enqueued again and again, at times of the clock or after intervals.

    from queuemgr import queued
    from queuemgr.schedules import Schedule, cron, every, once, register_schedule

    @queued(schedule=cron("30 3 * * *", zone="Europe/Berlin"))
    def nightly_import() -> None: ...

    register_schedule(Schedule("orders-eu", "orders", every(minutes=5), payload={"region": "eu"}))

Each schedule is a row, which people may edit, pause and run; each due time becomes one execution at most,
whatever number of processes look.
"""

from queuemgr.schedules.declaration import Schedule, register_schedule
from queuemgr.schedules.timing import cron, every, once

__all__ = ["Schedule", "cron", "every", "once", "register_schedule"]
