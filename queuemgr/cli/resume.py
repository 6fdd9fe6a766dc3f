from __future__ import annotations

from typing import Any

from queuemgr.cli.arguments import add_reason
from queuemgr.cli.output import by_command
from queuemgr.operations import controls

NAME = "resume"
HELP = "end a pause, or close the breaker of a limit"
EXAMPLES = """
  queue resume everything
  queue resume {phase}.low --reason "disk replaced"
  queue resume host:api.example.org:443
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("target", help="what is paused, or a limit whose breaker is open")
    add_reason(parser)


def run(options: dict[str, Any], out: Any) -> int:
    controls.resume(options["target"], by_command(options["reason"]))
    out.write(f"{options['target']} resumed")
    return 0
