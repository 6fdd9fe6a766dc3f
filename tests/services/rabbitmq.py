"""A RabbitMQ of our own: node, ports, port mapper and data, with nothing left of them at the end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from glob import glob
from pathlib import Path

from queuemgr.base.errors import ConfigurationError
from queuemgr.local.private_servers import free_port, wait_for_port

PATIENCE = 4
"""Times 20 s for a node to start."""


class RabbitMQ:
    """A node on 127.0.0.1, which keeps its ports and its data when it is started again."""

    def __init__(self, epmd: str, directory: Path) -> None:
        directory.mkdir()
        self._epmd, self._directory = epmd, directory
        (self._server,) = glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
        self.port, self._mapper_port = free_port(), free_port()
        (directory / "plugins").write_text("[].\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),  # of the cookie
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"sluice-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        }
        self._mapper: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start the node, and before it the port mapper, which Erlang would otherwise leave running."""
        if self._mapper is None:
            self._mapper = self._spawn(self._epmd, "-port", str(self._mapper_port), "-address", "127.0.0.1")
            wait_for_port(self._mapper_port, self._mapper)
        self._node = self._spawn(self._server)
        for _ in range(PATIENCE):  # Erlang takes its time on a busy machine
            with suppress(ConfigurationError):
                return wait_for_port(self.port, self._node)
        raise ConfigurationError((self._directory / "output").read_text())

    def kill(self) -> None:
        """End the node at once, as a machine that lost its power."""
        _end(self._node)
        self._node = None

    def close(self) -> None:
        self.kill()
        _end(self._mapper)

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        with (self._directory / "output").open("ab") as out:
            return subprocess.Popen(
                command, env=self._environment, cwd=self._directory, stdin=quiet, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
