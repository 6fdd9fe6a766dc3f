"""The database and the broker of a run, each on its host and with the run's clock."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from proof import machine
from proof.broker_proxy import BrokerProxy
from proof.hosts import BROKER, DATABASE, NETWORKS, OPERATOR, Hosts
from queuemgr.base.errors import ConfigurationError
from queuemgr.local.private_servers import PostgresServer, RedisServer, _postgres_bin, free_port

START_SECONDS = 20.0
AS_NOBODY = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups")
TRIES = 3
POOLER = "pgbouncer"


class Postgres(PostgresServer):
    """A private PostgreSQL on a host of the run, with the run's clock and a bound on what its log takes."""

    def __init__(self, directory: Path, hosts: Hosts, environment: dict[str, str]) -> None:
        super().__init__(directory)
        self._hosts, self._environment = hosts, environment
        self.address = hosts.address(DATABASE)

    @property
    def url(self) -> str:
        return f"postgres://sluice:{self.password}@{self.address}:{self.port}/postgres"

    @property
    def programs(self) -> Path:
        """The folder of its client programs."""
        return _postgres_bin(self.directory.parent.parent)

    def start(self) -> None:
        if not (self.directory / "PG_VERSION").exists():
            self._initialise()
            with (self.directory / "pg_hba.conf").open("a") as allowed:
                allowed.write(f"host all all {NETWORKS} scram-sha-256\n")
        self._process = self._spawn(
            "postgres", "-D", str(self.directory), "-p", str(self.port), "-k", "",
            "-c", f"listen_addresses={self.address}", "-c", "max_connections=300", "-c", "timezone=UTC",
            "-c", "log_min_messages=fatal", "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB",
        )  # fmt: skip
        wait_for_address(self.address, self.port, self._process)

    def start_again(self) -> None:
        """Start it after it was cut off: it may still hold its memory, so that the first start fails."""
        for _ in range(TRIES):
            with suppress(ConfigurationError):
                self.start()
                return

    def stop_at_once(self) -> None:
        """PostgreSQL's immediate shutdown: connections are cut, nothing is flushed first."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def freeze(self) -> None:
        """SIGSTOP to the server and to every session."""
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def _family(self) -> list[psutil.Process]:
        if self._process is None or not self.alive:
            return []
        with suppress(psutil.Error):
            server = psutil.Process(self._process.pid)
            return [server, *server.children(recursive=True)]
        return []

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        as_nobody = list(AS_NOBODY) if os.getuid() == 0 else []
        at_home = self._hosts.server(DATABASE) if program == "postgres" else []
        command = [*at_home, *as_nobody, str(self.programs / program), *arguments]
        with (self.directory.parent / "postgres.log").open("ab") as log:
            return subprocess.Popen(
                command, env={**os.environ, **self._environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd="/",
            )  # fmt: skip


class Redis(RedisServer):
    """A private broker on a host of the run."""

    def __init__(self, directory: Path, hosts: Hosts) -> None:
        super().__init__(directory)
        self.address = hosts.address(BROKER)
        text = self._config.read_text().replace("bind 127.0.0.1", f"bind {self.address}")
        self._config.write_text(text)
        self._prefix = hosts.server(BROKER)

    @property
    def command(self) -> list[str]:
        return [*self._prefix, *super().command]

    @property
    def url(self) -> str:
        return super().url.replace("127.0.0.1", self.address)


class Pooler:
    """PgBouncer before the database and on its host, in one of its modes."""

    def __init__(self, directory: Path, server: Postgres, mode: str, hosts: Hosts) -> None:
        directory.mkdir()
        self.port = free_port()
        url = server.url.replace(f":{server.port}/", f":{self.port}/")
        transactions = {"SLUICE_TRANSACTION_POOLING": "on"} if mode == "transaction" else {}
        self.settings = {"DATABASE_URL": url, **transactions}
        users, config = directory / "users.txt", directory / "pgbouncer.ini"
        users.touch(mode=0o600)
        users.write_text(f'"sluice" "{server.password}"\n')
        config.write_text(
            "[databases]\n"
            f"postgres = host={server.address} port={server.port} dbname=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = {server.address}\nlisten_port = {self.port}\npool_mode = {mode}\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\nunix_socket_dir =\n"
            "max_client_conn = 500\ndefault_pool_size = 100\n"
        )
        as_nobody = list(AS_NOBODY) if os.getuid() == 0 else []
        if as_nobody:
            shutil.chown(users, "nobody", "nogroup")
        self.command = [*hosts.server(DATABASE), *as_nobody, machine.pooler() or POOLER, str(config)]


class BrokerLink:
    """The way from the fleet to its broker, which can be stopped and refused: through a proxy on one host,
    by the network between many."""

    def __init__(self, redis: Redis, hosts: Hosts, workers: tuple[str, ...]) -> None:
        self._hosts, self._clients = hosts, (OPERATOR, *workers)
        self._proxy = None if hosts.many else BrokerProxy(redis.port)
        self.url = redis.url if self._proxy is None else _with_port(redis, self._proxy.port)

    def stall(self) -> None:
        """Forward nothing and answer nothing; connections stay open."""
        if self._proxy:
            self._proxy.stall()
        else:
            self._drop(1.0)

    def flow(self) -> None:
        if self._proxy:
            self._proxy.flow()
        else:
            self._drop(0.0)

    def shut(self) -> None:
        """Refuse connections; a host without a listener does so by itself."""
        if self._proxy:
            self._proxy.shut()

    def open(self) -> None:
        if self._proxy:
            self._proxy.open()

    def close(self) -> None:
        if self._proxy:
            self._proxy.close()

    def _drop(self, share: float) -> None:
        for client in self._clients:
            self._hosts.path(client, BROKER, share)
            self._hosts.path(BROKER, client, share)


def _with_port(redis: Redis, port: int) -> str:
    return redis.url.replace(f":{redis.port}/", f":{port}/")


def wait_for_address(address: str, port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for a server there; raises `ConfigurationError` after 20 s or when `process` has ended."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex((address, port)) == 0:
                return
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.02)
    raise ConfigurationError(f"no server listens on {address}:{port} after {START_SECONDS:g} s")
