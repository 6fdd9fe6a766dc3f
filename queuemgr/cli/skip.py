from __future__ import annotations

from typing import Any

from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.operations import executions

NAME = "skip"
HELP = "skip waiting or failed executions: they end without being done"
EXAMPLES = f"""
  queue skip order-1001 --reason "withdrawn by the customer"
  running, done and cancelled executions are left unchanged; `queue retry` retries skipped ones
  {by_key.EXIT_CODES}
"""

add_arguments = by_key.add_arguments


def run(options: dict[str, Any], out: Any) -> int:
    by = by_command(options["reason"])
    return by_key.change_each(options, out, lambda one: executions.skip([one], by), "skipped")
