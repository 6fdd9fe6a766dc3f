"""A PgBouncer of our own before the tests' PostgreSQL, on a free port, with nothing left of it at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from queuemgr.local.private_servers import free_port, wait_for_port
from tests.private_servers import POSTGRES

CONFIG = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users.txt
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
server_login_retry = 1
logfile = {directory}/pgbouncer.log
"""


class PgBouncer:
    """In session or in transaction mode, with at most `size` sessions on the server for each database."""

    def __init__(self, program: str, directory: Path, mode: str, size: int = 20) -> None:
        self._program, self._directory = program, directory
        directory.mkdir(mode=0o755)
        self.port = free_port()
        users = directory / "users.txt"
        users.touch(mode=0o600)
        users.write_text(f'"sluice" "{POSTGRES.password}"\n')
        self._config = directory / "pgbouncer.ini"
        self._config.write_text(
            CONFIG.format(server=POSTGRES.port, port=self.port, directory=directory, mode=mode, size=size)
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on the port it always has; as `nobody` where we are root, which it refuses to be."""
        as_nobody: dict[str, Any] = {}
        if os.getuid() == 0:
            as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            for its_own in (self._directory, self._directory / "users.txt", self._config):
                shutil.chown(its_own, "nobody", "nogroup")
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._config)],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            cwd="/",
            **as_nobody,
        )
        wait_for_port(self.port, self._process)

    def kill(self) -> None:
        """End it at once, with every connection through it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def url(self, database: str) -> str:
        return f"postgres://sluice:{POSTGRES.password}@127.0.0.1:{self.port}/{database}"
