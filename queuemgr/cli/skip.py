from __future__ import annotations

from typing import Any

from queuemgr import steering
from queuemgr.cli import steered
from queuemgr.cli.output import by_command

NAME = "skip"
HELP = "leave out executions for good: those that wait, and those that failed and nobody wants"
EXAMPLES = f"""
  queue skip arxiv:2101.00001 --reason "withdrawn by its authors"
  what runs, is done or was cancelled is left alone; `queue retry` brings back what was skipped
  {steered.EXIT_CODES}
"""

add_arguments = steered.add_arguments


def run(options: dict[str, Any], out: Any) -> int:
    by = by_command(options["reason"])
    return steered.steer(options, out, lambda one: steering.skip([one], by), "skipped")
