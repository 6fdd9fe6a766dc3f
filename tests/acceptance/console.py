"""`manage.py queue …` again and again in one process: tests say much, and starting Django is slow.

Run as a program it is that process: a JSON list of arguments per line in, `[exit code, output]` out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Console:
    """An operator's shell beside a fleet."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as complaints:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.acceptance.console"], env=dict(environment), cwd=REPOSITORY,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True,
                start_new_session=True,
            )  # fmt: skip

    def queue(self, *arguments: str) -> tuple[int, str]:
        """Run `queue …`; returns its exit code and what it said."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.write(json.dumps(arguments) + "\n")
        self._popen.stdin.flush()
        code, said = json.loads(self._popen.stdout.readline())
        return int(code), str(said)

    def close(self) -> None:
        with self._popen:
            self._popen.kill()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(arguments: list[str]) -> tuple[int, str]:
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
    main()
