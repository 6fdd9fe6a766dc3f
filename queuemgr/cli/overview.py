"""What `queue --help` lists: the commands in groups, each in one line.

Written down, since the commands' own summaries are longer than a line, and asking for them imports them all.
"""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping

from django.core.management.base import DjangoHelpFormatter

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "work": {
        "enqueue": "enqueue items",
        "import": "enqueue the items in a file",
        "backfill": "enqueue held items and files in the inbox",
        "list": "executions that match filters",
        "search": "find anything by a part of its name",
        "show": "one execution: its state and its attempts",
        "attempts": "every attempt of an execution",
        "why": "why an execution waits, or how it ended",
        "cancel": "cancel executions",
        "priority": "change the priority of executions",
        "reschedule": "start waiting executions later, or now",
        "retry": "retry failed, cancelled or skipped executions",
        "retry-failed": "retry failed executions that match filters",
        "skip": "end executions without doing them",
        "failed": "dead letters: export, import, hand over",
        "prune": "delete old executions that have ended",
    },
    "batches and bulk actions": {
        "batch": "executions enqueued together, with progress and results",
        "bulk": "one action for all executions that match a filter",
    },
    "limits": {
        "limits": "every limit, with its usage",
        "limit": "show or change one limit",
        "remove-limit": "remove the row of a limit",
        "pause": "pause a queue, a limit, a phase or everything",
        "resume": "end a pause, or close a breaker",
        "policy": "show or change a retry policy",
    },
    "schedules": {"schedule": "what is enqueued by the clock"},
    "workers": {"run": "run a fleet on this machine", "worker": "list workers; have one take no new work"},
    "reports": {
        "stats": "counts, limits, budget, workers and forecast",
        "watch": "a live view of the fleet",
        "costs": "dollars, tokens and requests used",
        "export": "executions as JSON Lines",
        "replay": "simulate recorded work under other limits",
    },
    "alerts and webhooks": {
        "alerts": "alarms by e-mail, webhook and chat; silences",
        "webhook": "addresses that are notified when work ends",
    },
    "access and audit": {
        "user": "give a user a role",
        "roles": "the roles, and who holds them",
        "token": "API tokens: create, list, revoke",
        "audit": "who changed what, when and why",
        "undo": "undo one change",
    },
    "this command": {"completion": "a script that completes it in bash, zsh or fish"},
}
"""By the heading of their group."""

ASKS_FOR_HELP = ("-h", "--help")


class HelpFormatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Leaves the lines of the overview as they are."""


def overview() -> str:
    """The text below the options of `queue --help`."""
    lines = []
    for heading, commands in COMMANDS.items():
        lines += [f"{heading}:", *(f"    {name:<13} {line}" for name, line in commands.items()), ""]
    return "\n".join([*lines, "queue COMMAND --help shows a command's options and examples."])
