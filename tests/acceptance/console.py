"""`manage.py queue …` again and again in one process. Run as a program it is that process."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from tests.fork_server import ForkServer
from tests.operator_console import OperatorConsole, serve


class Console(OperatorConsole):
    """An operator's shell beside a fleet."""

    def __init__(self, environment: Mapping[str, str], log: Path, server: ForkServer | None = None) -> None:
        super().__init__("tests.acceptance.console", environment, log, server)

    def queue(self, *arguments: str) -> tuple[int, str]:
        """Run `queue …`; returns its exit code and what it printed."""
        code, printed = self.ask(*arguments)
        return int(code), str(printed)


def _run(*arguments: str) -> tuple[int, str]:
    from django.core.management import CommandError, call_command

    out = StringIO()
    try:
        call_command("queue", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, f"{out.getvalue()}{error}"
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


if __name__ == "__main__":
    serve(_run)
