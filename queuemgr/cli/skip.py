from __future__ import annotations

from typing import Any

from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.operations import executions

NAME = "skip"
HELP = "leave out executions for good: those that wait, and those that failed and nobody wants"
EXAMPLES = f"""
  queue skip arxiv:2101.00001 --reason "withdrawn by its authors"
  what runs, is done or was cancelled is left alone; `queue retry` brings back what was skipped
  {by_key.EXIT_CODES}
"""

add_arguments = by_key.add_arguments


def run(options: dict[str, Any], out: Any) -> int:
    by = by_command(options["reason"])
    return by_key.steer(options, out, lambda one: executions.skip([one], by), "skipped")
