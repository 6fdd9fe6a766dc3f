from __future__ import annotations

from typing import Any

from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.flows.flow import PRIORITIES
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.operations import executions

NAME = "priority"
HELP = "change the priority of executions; running ones continue and keep their slot"
EXAMPLES = f"""
  queue priority high order-1001 order-1002 --reason "asked for today"
  {by_key.EXIT_CODES}
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("priority", choices=PRIORITIES, help="high, normal or low")
    by_key.add_arguments(parser)


def run(options: dict[str, Any], out: Any) -> int:
    by, priority = by_command(options["reason"]), priority_of(options["priority"])
    return by_key.change_each(
        options, out, lambda one: executions.set_priority([one], priority, by), "changed"
    )
