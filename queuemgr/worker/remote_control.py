"""What a worker does for whoever reaches the broker: it answers questions, and forgets a revoked task.

Celery's remote control can also stop workers, resize pools, change rates, kill tasks, and have a worker
consume other queues. The fleet needs none of that: people drain, pause and cancel through the database, where
it is recorded who did. So a worker refuses it, and what looks on through Flower can only look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from celery.worker import control

from queuemgr.base.safe_text import safe_text

logger = logging.getLogger(__name__)

Command = Callable[..., Any]

ANSWERED: Mapping[str, frozenset[str]] = {
    name: frozenset(arguments.split())
    for name, arguments in {
        "ping": "",
        "stats": "",
        "clock": "",
        "active": "safe",
        "dump_active": "safe",
        "reserved": "",
        "dump_reserved": "",
        "scheduled": "",
        "dump_schedule": "",
        "revoked": "",
        "dump_revoked": "",
        "query_task": "ids",
        "registered": "builtins",
        "dump_tasks": "builtins",
        "active_queues": "",
        "conf": "with_defaults",
        "dump_conf": "with_defaults",
        "hello": "from_node revoked",
        "revoke": "task_id",
        "enable_events": "",
    }.items()
}
"""Commands, and the arguments that may be given. Workers that start say `hello`, Flower enables events every
few seconds. Of `revoke` not `terminate`, which kills processes; of `registered` no attributes to show."""


def restrict() -> None:
    """Have this worker answer no other commands, also none that an application registers."""
    if not isinstance(control.Panel.data, RestrictedCommands):
        control.Panel.data = RestrictedCommands(control.Panel.data)


class RestrictedCommands(dict[str, Command]):
    """The commands a worker answers; every other name is a command that refuses."""

    def __init__(self, commands: Mapping[str, Command]) -> None:
        answered = {name: commands[name] for name in ANSWERED if name in commands}
        super().__init__({name: _limited(name, command) for name, command in answered.items()})

    def __setitem__(self, name: str, command: Command) -> None:
        if name in ANSWERED:
            super().__setitem__(name, command)

    def __missing__(self, name: str) -> Command:
        return lambda state, **arguments: _refused(name)


def _limited(name: str, command: Command) -> Command:
    """The command without the arguments that may not be given."""

    @wraps(command)
    def limited(state: Any, **arguments: Any) -> Any:
        for argument in [key for key, value in arguments.items() if key not in ANSWERED[name]]:
            if arguments.pop(argument):  # those that clients leave at their default are empty
                return _refused(f"{name} with {argument}")
        return command(state, **arguments)

    return limited


def _refused(what: object) -> dict[str, str]:
    """The answer, in the form of Celery's own errors."""
    text = safe_text(str(what))[:100]
    logger.warning("refused the remote control command %s", text)
    return {"error": f"refused: workers of this fleet do not obey {text}; see docs/security.md"}
