"""The option of commands that pause something: for how long."""

from __future__ import annotations

from datetime import datetime, timedelta

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import above_zero
from queuemgr.cli.subcommands import Options, option

MINUTES = option("--minutes", type=above_zero, help="resume automatically after so long")


def end_of_pause(options: Options) -> datetime | None:
    minutes = options["minutes"]
    return database_now() + timedelta(minutes=minutes) if minutes else None
