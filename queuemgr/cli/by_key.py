"""Acting on executions named by key, and saying of each what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queuemgr.cli.show import find
from queuemgr.models import Execution

CHANGED, LEFT_ALONE = 0, 1
EXIT_CODES = (
    "exit codes: 0 all changed, 1 some were left alone (named), 3 refused (nothing changed)"
)


def add_arguments(parser: Any) -> None:
    parser.add_argument("keys", nargs="+", metavar="KEY", help="keys of executions")
    parser.add_argument("--flow", help="their flow, when several have such a key")
    parser.add_argument("--reason", default="", help="why, for the record")


def steer(options: dict[str, Any], out: Any, act: Callable[[Execution], int], did: str) -> int:
    """Act on each, all of them found first; returns the exit code. Raises `BadInput` for a key there
    is not."""
    executions = [find(key, options["flow"]) for key in options["keys"]]
    left = [execution for execution in executions if not act(execution)]
    for execution in left:
        execution.refresh_from_db()
        out.write(f"{execution.key} left alone: it is {execution.status}")
    out.write(f"{len(executions) - len(left)} {did}, {len(left)} left alone")
    return LEFT_ALONE if left else CHANGED
