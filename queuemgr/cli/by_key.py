"""Changing executions named by key, one by one, and naming those that were left unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queuemgr.cli.arguments import add_reason
from queuemgr.cli.show import find
from queuemgr.models import Execution

CHANGED, UNCHANGED = 0, 1
EXIT_CODES = "exit codes: 0 all changed, 1 some left unchanged (named), 3 refused (nothing changed)"


def add_arguments(parser: Any) -> None:
    parser.add_argument("keys", nargs="+", metavar="KEY", help="keys of executions")
    parser.add_argument("--flow", help="their flow, if several flows have the key")
    add_reason(parser)


def change_each(options: dict[str, Any], out: Any, change: Callable[[Execution], int], done: str) -> int:
    """Call `change` for each execution once all are found; returns the exit code.

    Raises `BadInput` for an unknown key, before anything is changed.
    """
    executions = [find(key, options["flow"]) for key in options["keys"]]
    unchanged = [execution for execution in executions if not change(execution)]
    for execution in unchanged:
        execution.refresh_from_db()
        out.write(f"{execution.key} left unchanged: it is {execution.status}")
    out.write(f"{len(executions) - len(unchanged)} {done}, {len(unchanged)} left unchanged")
    return UNCHANGED if unchanged else CHANGED
