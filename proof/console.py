"""An operator's process beside the fleet: one line of JSON in for each command, one out.

`["queue", argument, …]` runs `manage.py queue`; `["edit", limit, {field: value}]` edits a limit as the
admin does; `["cap", queue, most]` caps what may wait in a queue; `["put", flow, key, payload]` enqueues as an
application does. The response is `[succeeded, output]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from tests.operator_console import OperatorConsole, serve


class Console(OperatorConsole):
    """The process, as the proof uses it."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        super().__init__("proof.console", environment, log)

    def do(self, *what: Any) -> tuple[bool, str]:
        """Run a command; returns whether it succeeded, and its output."""
        succeeded, output = self.ask(*what)
        return bool(succeeded), str(output)


def _done(verb: str, *what: Any) -> tuple[bool, str]:
    from django.core.exceptions import ValidationError
    from django.core.management import CommandError
    from django.db import DatabaseError, connection

    from queuemgr import SluiceError

    try:
        return True, VERBS[verb](*what)
    except (CommandError, DatabaseError, ValidationError, SluiceError) as error:
        return False, str(error)
    except SystemExit as stop:
        return not stop.code, f"exit code {stop.code}"
    finally:
        connection.close()


def _queue(*arguments: str) -> str:
    from django.core.management import call_command

    out = StringIO()
    call_command("queue", *arguments, stdout=out)
    return out.getvalue()


def _edit(limit: str, values: Mapping[str, Any]) -> str:
    from queuemgr.operations import controls

    controls.edit_limit(limit, controls.Actor("proof", "command"), **values)
    return ""


def _cap(queue: str, most: int) -> str:
    from queuemgr.operations import controls

    controls.edit_queue(queue, controls.Actor("proof", "command"), max_pending=most)
    return ""


def _put(flow: str, key: str, payload: Mapping[str, Any]) -> str:
    from queuemgr import enqueue

    enqueue(flow, key, payload)
    return ""


VERBS: Mapping[str, Callable[..., str]] = {"queue": _queue, "edit": _edit, "cap": _cap, "put": _put}


if __name__ == "__main__":
    serve(_done)
