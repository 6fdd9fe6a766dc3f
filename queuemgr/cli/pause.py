from __future__ import annotations

from datetime import timedelta
from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import above_zero
from queuemgr.cli.output import by_command
from queuemgr.operations import controls

NAME = "pause"
HELP = "pause a queue, a limit, a phase or everything: nothing more starts, running work continues"
EXAMPLES = """
  queue pause everything --reason "moving the database"
  queue pause {phase}.low
  queue pause host:api.example.org:443 --minutes 30 --reason "they asked us to"
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("target", help="everything, a queue (PHASE.low), a phase, a limit (host:…)")
    parser.add_argument("--minutes", type=above_zero, help="resume automatically after so long")
    parser.add_argument("--reason", default="", help="reason (recorded, and shown for what waits on it)")


def run(options: dict[str, Any], out: Any) -> int:
    minutes = options["minutes"]
    until = database_now() + timedelta(minutes=minutes) if minutes else None
    controls.pause(options["target"], by_command(options["reason"]), until)
    out.write(f"{options['target']} paused")
    return 0
