"""A virtual environment whose programs are warm: see warm_python.py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.acceptance import warm_python
from tests.acceptance.adopter_project import wait_until


def environment_of(directory: Path) -> dict[str, str]:
    """The environment of a terminal in which the virtual environment of this directory is active."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{directory / 'bin'}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


class WarmEnvironment:
    """The programs `python` and `celery` of a virtual environment, each start a fork of one process."""

    def __init__(self, environment: Path, directory: Path) -> None:
        self.directory, self._log = directory, directory / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [environment / "bin" / "python", warm_python.__file__, directory], cwd=directory,
                env=environment_of(environment), stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until("Python is warm", self._is_ready)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return all((self.directory / "bin" / name).exists() for name in warm_python.PROGRAMS)

    def close(self) -> None:
        self._process.communicate()
