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

from celery.utils.functional import maybe_list
from celery.worker import control
from celery.worker import state as worker_state

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


MAX_TEXT = 255
"""Characters of an argument's texts; ids of tasks have 36."""

MAX_IDS = 1_000
"""Ids in one argument, and revoked ids that a worker keeps, which two of its answers hold."""


def restrict() -> None:
    """Have this worker answer no other commands, also none that an application registers, and keep no more
    revoked ids than it can tell at once."""
    if not isinstance(control.Panel.data, RestrictedCommands):
        control.Panel.data = RestrictedCommands({**control.Panel.data, "revoke": revoke})
    worker_state.revoked.maxlen = MAX_IDS


def revoke(state: Any, task_id: Any, **arguments: Any) -> dict[str, str]:
    """Drop these tasks' messages when they come. Celery's own also asks the database about each id, and adds
    a row for it, while the worker takes no messages."""
    ids = [each for each in maybe_list(task_id) or () if isinstance(each, str)]
    worker_state.revoked.update(ids)
    logger.info("%d ids of tasks are revoked", len(ids))
    return {"ok": f"{len(ids)} ids are revoked"}


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
    """The command without the arguments that may not be given, nor any that are long."""

    @wraps(command)
    def limited(state: Any, **arguments: Any) -> Any:
        for argument in [key for key, value in arguments.items() if key not in ANSWERED[name]]:
            if arguments.pop(argument):  # those that clients leave at their default are empty
                return _refused(f"{name} with {argument}")
        for argument, value in arguments.items():
            if not _is_short(value):
                return _refused(f"{name} with so much of {argument}")
        return command(state, **arguments)

    return limited


def _is_short(value: Any, depth: int = 2) -> bool:
    """Whether it is a short text, or a few of them; some clients send ids with a list of two for each."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    if not isinstance(inner, list | tuple):
        return True
    return depth > 0 and len(value) <= MAX_IDS and all(_is_short(each, depth - 1) for each in inner)


def _refused(what: object) -> dict[str, str]:
    """The answer, in the form of Celery's own errors."""
    text = safe_text(str(what))[:100]
    logger.warning("refused the remote control command %s", text)
    return {"error": f"refused: workers of this fleet do not obey {text}; see docs/security.md"}
