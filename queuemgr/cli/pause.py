from __future__ import annotations

from datetime import timedelta
from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.config_options import above_zero
from queuemgr.cli.output import by_command
from queuemgr.operations import controls

NAME = "pause"
HELP = "stop starts through a queue, a limit, a phase, or everything; what runs goes on"
EXAMPLES = """
  queue pause everything --reason "moving the database"
  queue pause prep.low
  queue pause host:arxiv.org:443 --minutes 30 --reason "they asked us to"
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("target", help="everything, a queue (prep.low), a phase, a limit (host:…)")
    parser.add_argument("--minutes", type=above_zero, help="resume by itself after so many")
    parser.add_argument("--reason", default="", help="why, shown to whoever asks what waits")


def run(options: dict[str, Any], out: Any) -> int:
    minutes = options["minutes"]
    until = database_now() + timedelta(minutes=minutes) if minutes else None
    controls.pause(options["target"], by_command(options["reason"]), until)
    out.write(f"{options['target']} paused")
    return 0
