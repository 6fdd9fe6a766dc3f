from __future__ import annotations

from typing import Any

from queuemgr.cli.output import by_command
from queuemgr.cli.show import find
from queuemgr.operations import executions as steering

NAME = "cancel"
HELP = "cancel executions: what waits at once, what runs as soon as its worker hears (seconds)"
EXAMPLES = """
  queue cancel arxiv:2101.00001 --reason "wrong paper"
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("keys", nargs="+", help="keys of executions")
    parser.add_argument("--flow", help="their flow, when several have such a key")
    parser.add_argument("--reason", default="", help="why, for the record")


def run(options: dict[str, Any], out: Any) -> int:
    executions = [find(key, options["flow"]) for key in options["keys"]]
    cancelled = steering.cancel(executions, by_command(options["reason"]))
    out.write(f"{cancelled} cancelled, {len(executions) - cancelled} had ended or been cancelled")
    return 0
