"""Runs several programs on this machine together: starts them, restarts those that die, stops them.

The package `supervisor` does the work; this module writes its configuration and starts and stops its
process. That process has its own session, so that Ctrl-C reaches this process and not the workers.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from queuemgr.base.errors import ConfigurationError
from queuemgr.base.extras import need_extra
from queuemgr.base.program_secrets import all_secrets, program_secrets

PR_SET_PDEATHSIG = 1
"""Linux `prctl(2)`: set the signal this process gets when its parent dies."""

TELL_SECONDS = 2
"""Between two lines that say what has not stopped yet."""


@dataclass(frozen=True)
class Program:
    """A program to keep running. A lower `order` starts earlier and stops later; equal ones stop together."""

    name: str
    command: Sequence[str]
    order: int = 50
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_seconds: float = 10


class Supervisor:
    """A set of programs that run while the block runs. `say` gets what is started and stopped."""

    def __init__(
        self, directory: Path, programs: Sequence[Program], say: Callable[[str], object] = lambda line: None
    ) -> None:
        self._directory = directory
        self._say = say
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self.logs = directory / "log"

    def __enter__(self) -> Self:
        need_extra("local", "supervisor")
        self._say(f"starting {', '.join(program.name for program in self._programs)}")
        self.logs.mkdir(parents=True, exist_ok=True)
        self._stop_leftover()
        config = self._directory / "supervisord.conf"
        config.touch(mode=0o600)
        config.write_text(self._config())
        with (self.logs / "supervisord.out").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-W", "ignore", "-m", "queuemgr.local.supervisord",
                    ",".join(sorted(all_secrets(program_secrets()))), "-n", "-c", str(config),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self._secrets()},
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip
        return self

    def _secrets(self) -> dict[str, str]:
        """Those that programs are given. They inherit them: the configuration is a file. Raises
        `ConfigurationError` where two programs have different ones of a name."""
        known, given = all_secrets(program_secrets()), dict[str, str]()
        for program in self._programs:
            for name, value in program.environment.items():
                if name in known and value and given.setdefault(name, value) != value:
                    raise ConfigurationError(f"two programs are given different values of {name}")
        return given

    def __exit__(self, *exc_info: object) -> None:
        """Stop every program, kill those that do not stop in time, and wait until all have ended."""
        if self._process is None or self._process.poll() is not None:
            return
        since = self._log.stat().st_size if self._log.exists() else 0
        self._tell("stopping")
        self._process.terminate()
        deadline = time.monotonic() + 10 + sum(program.stop_seconds for program in self._programs)
        while time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TELL_SECONDS)
                return
            self._tell(f"waiting for {', '.join(self._not_stopped(since)) or 'the supervisor'}")
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tell(self, line: str) -> None:
        """Whoever read our output may have gone: that is no reason not to stop."""
        with suppress(OSError, ValueError):
            self._say(line)

    def _not_stopped(self, since: int) -> Iterator[str]:
        """Those whose end the supervisor has not logged since that place, and how long they have at most."""
        with suppress(OSError), self._log.open("rb") as log:
            log.seek(since)
            ended = set(re.findall(rb"(?:stopped|exited): ([\w-]+) \(", log.read()))
            for program in self._programs:
                if program.name.encode() not in ended:
                    yield f"{program.name} ({program.stop_seconds:.0f} s at most)"

    @property
    def _log(self) -> Path:
        return self.logs / "supervisord.log"

    def check(self) -> None:
        """Raise `ConfigurationError` if the supervisor itself has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise ConfigurationError(f"the supervisor of the programs has ended: see {self.logs}")

    @property
    def _pid_file(self) -> Path:
        return self._directory / "supervisord.pid"

    def _stop_leftover(self) -> None:
        """Stop the supervisor that an earlier run, killed by SIGKILL, left running in this directory."""
        with suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text())
            if b"supervisord" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                return
            os.kill(pid, signal.SIGTERM)
            for _ in range(300):
                os.kill(pid, 0)
                time.sleep(0.1)

    def _config(self) -> str:
        head = (
            f"[supervisord]\nnodaemon=true\numask=077\npidfile={self._pid_file}\n"
            f"logfile={self._log}\nlogfile_maxbytes=1MB\nlogfile_backups=1\n"
            f"childlogdir={self.logs}\nminfds=1024\n" + ("user=root\n" if os.getuid() == 0 else "")
        )
        return head + "".join([*map(self._section, self._programs), *self._groups()])

    def _groups(self) -> Iterator[str]:
        """One group per `order`: supervisor stops one group after another, and all of a group at once."""
        for order in sorted({program.order for program in self._programs}):
            names = ",".join(p.name for p in self._programs if p.order == order)
            yield f"\n[group:order-{order}]\nprograms={names}\npriority={order}\n"

    def _section(self, program: Program) -> str:
        command = shlex.join(program.command).replace("%", "%%")
        inherited = self._secrets()
        environment = ",".join(
            f'{name}="{value}"'.replace("%", "%%")
            for name, value in program.environment.items() if inherited.get(name) != value or not value
        )  # fmt: skip
        return (
            f"\n[program:{program.name}]\ncommand={command}\npriority={program.order}\n"
            f"environment={environment}\nautorestart=true\nstartsecs=1\nstartretries=10\n"
            f"stopwaitsecs={program.stop_seconds:.0f}\nstopsignal=TERM\nkillasgroup=true\n"
            f"redirect_stderr=true\nstdout_logfile={self.logs / program.name}.log\n"
            f"stdout_logfile_maxbytes=10MB\nstdout_logfile_backups=1\n"
        )


def _die_with_parent() -> None:
    """Between fork and exec: have the kernel send SIGTERM when the parent is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
