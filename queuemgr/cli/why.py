from __future__ import annotations

from typing import Any

from queuemgr import explain
from queuemgr.cli.show import find

NAME = "why"
HELP = "why an execution waits, or what became of it, in a sentence"
EXAMPLES = """
  queue why arxiv:2101.00001
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("key", help="the execution's key")
    parser.add_argument("--flow", help="its flow, when several have this key")


def run(options: dict[str, Any], out: Any) -> int:
    out.write(explain.why(find(options["key"], options["flow"])))
    return 0
