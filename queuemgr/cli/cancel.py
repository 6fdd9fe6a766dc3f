from __future__ import annotations

from typing import Any

from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.cli.show import find
from queuemgr.operations import executions

NAME = "cancel"
HELP = "cancel executions: waiting ones at once, running ones when their worker polls (seconds)"
EXAMPLES = """
  queue cancel order-1001 --reason "wrong order"
"""


def add_arguments(parser: Any) -> None:
    by_key.add_arguments(parser)


def run(options: dict[str, Any], out: Any) -> int:
    chosen = [find(key, options["flow"]) for key in options["keys"]]
    cancelled = executions.cancel(chosen, by_command(options["reason"]))
    out.write(f"{cancelled} cancelled, {len(chosen) - cancelled} had ended or been cancelled")
    return 0
