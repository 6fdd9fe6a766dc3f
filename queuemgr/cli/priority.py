from __future__ import annotations

from typing import Any

from queuemgr import steering
from queuemgr.cli import steered
from queuemgr.cli.output import by_command
from queuemgr.enqueue import priority_of
from queuemgr.flow import PRIORITIES

NAME = "priority"
HELP = "give executions another priority; work under way keeps its slot and goes on at the new one"
EXAMPLES = f"""
  queue priority high arxiv:2101.00001 arxiv:2101.00002 --reason "asked for today"
  {steered.EXIT_CODES}
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("priority", choices=PRIORITIES, help="high, normal or low")
    steered.add_arguments(parser)


def run(options: dict[str, Any], out: Any) -> int:
    by, priority = by_command(options["reason"]), priority_of(options["priority"])
    return steered.steer(
        options, out, lambda one: steering.set_priority([one], priority, by), "changed"
    )
