"""An operator's process beside the fleet: one line of JSON in for each command, one out.

`["queue", argument, …]` runs `manage.py queue`; `["edit", limit, {field: value}]` edits a limit as the
admin does. The response is `[succeeded, output]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from tests.fork_server import REPOSITORY


class Console:
    """The process, as the proof uses it; one command at a time."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._turn = threading.Lock()
        with log.open("ab") as complaints:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "proof.console"], env=dict(environment), cwd=REPOSITORY,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True,
                start_new_session=True,
            )  # fmt: skip

    def do(self, *what: Any) -> tuple[bool, str]:
        """Run a command; returns whether it succeeded, and its output."""
        stdin, stdout = self._popen.stdin, self._popen.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the console has no pipes")
        with self._turn:
            stdin.write(json.dumps(what) + "\n")
            stdin.flush()
            succeeded, output = json.loads(stdout.readline())
        return bool(succeeded), str(output)

    def close(self) -> None:
        with self._popen:
            self._popen.kill()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(_done(*json.loads(line))), flush=True)


def _done(verb: str, *what: Any) -> tuple[bool, str]:
    from django.core.exceptions import ValidationError
    from django.core.management import CommandError
    from django.db import DatabaseError, connection

    try:
        return True, _queue(*what) if verb == "queue" else _edit(*what)
    except (CommandError, DatabaseError, ValidationError) as error:
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


if __name__ == "__main__":
    main()
