from __future__ import annotations

from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.cli.replay import moment
from queuemgr.operations import executions

NAME = "run-after"
HELP = "have waiting executions start no earlier than a time, or as soon as they may"
EXAMPLES = f"""
  queue run-after "2026-11-28 22:00" arxiv:2101.00001 --reason "at night, when it is cheap"
  queue run-after now arxiv:2101.00001
  times are UTC unless they say otherwise; what runs or has ended is left alone
  {by_key.EXIT_CODES}
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("time", help="as 2026-11-28 06:00, or now", type=_time)
    by_key.add_arguments(parser)


def _time(text: str) -> Any:
    return None if text == "now" else moment(text)


def run(options: dict[str, Any], out: Any) -> int:
    by, when = by_command(options["reason"]), options["time"] or database_now()
    return by_key.steer(
        options, out, lambda one: executions.set_run_after([one], when, by), "given that time"
    )
