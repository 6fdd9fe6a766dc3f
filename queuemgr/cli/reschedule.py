from __future__ import annotations

from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import by_key
from queuemgr.cli.arguments import TIME_FORMAT, timestamp
from queuemgr.cli.output import by_command
from queuemgr.operations import executions

NAME = "reschedule"
HELP = "start waiting executions no earlier than a given time, or as soon as possible"
EXAMPLES = f"""
  queue reschedule "2026-11-28 22:00" order-1001 --reason "cheaper at night"
  queue reschedule now order-1001
  running and ended executions are left unchanged
  {by_key.EXIT_CODES}
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("time", help=f"now, or a time ({TIME_FORMAT})", type=_time)
    by_key.add_arguments(parser)


def _time(text: str) -> Any:
    return None if text == "now" else timestamp(text)


def run(options: dict[str, Any], out: Any) -> int:
    by, when = by_command(options["reason"]), options["time"] or database_now()
    return by_key.change_each(
        options, out, lambda one: executions.set_run_after([one], when, by), "rescheduled"
    )
