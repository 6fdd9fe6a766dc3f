"""Where each process of a run lives: all on this machine, or each group on a host of its own.

A host is a network, PID and UTS namespace: it has its own address, host name and process ids, and a worker
that is restarted there has the pid it had before. Packets between hosts pass through `packet_switch`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

PREFIX = "sluice-proof"
BOX = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""A PID namespace of its own, as in a container: its first process has pid 1, each time it is started."""

NETWORKS = "198.18.0.0/15"
"""The addresses set aside for tests of networks (RFC 2544); a run has 256 of them, by its pid."""

OPERATOR, DATABASE, BROKER = "operator", "database", "broker"
CUT = 1.0


class Hosts(Protocol):
    """Where processes live, and what may happen between them."""

    many: bool

    def address(self, host: str) -> str:
        """The address at which this host is reached."""

    def server(self, host: str) -> list[str]:
        """What to put before the command of a server on this host, whose pid it keeps."""

    def worker(self, host: str) -> list[str]:
        """The same for a worker, in a PID namespace where that is permitted."""

    def path(self, source: str, target: str, dropped: float = 0.0, delay: float = 0.0) -> None:
        """From now on, packets from one host to another are dropped with this probability, and delayed."""

    def close(self) -> None:
        """Take all of it down."""


class OneHost:
    """Everything on this machine's loopback; the worker `alpha` in a PID namespace if that is permitted."""

    many = False

    def __init__(self, *, boxes: bool) -> None:
        self._boxes = boxes

    def address(self, host: str) -> str:
        return "127.0.0.1"

    def server(self, host: str) -> list[str]:
        return []

    def worker(self, host: str) -> list[str]:
        return list(BOX) if self._boxes and host == "alpha" else []

    def path(self, source: str, target: str, dropped: float = 0.0, delay: float = 0.0) -> None:
        raise NotImplementedError("one host has no network to disturb")

    def close(self) -> None:
        """Nothing was set up."""


class ManyHosts:
    """A network namespace for each of these hosts, but none for the operator, which is this machine."""

    many = True

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [OPERATOR, *names]
        self._network = f"198.{18 + os.getpid() % 2}.{os.getpid() // 2 % 256}"
        for name in names:
            subprocess.run(["ip", "netns", "add", _namespace(name)], check=True)
        self._switch = self._started()

    def _started(self) -> subprocess.Popen[str]:
        namespaces = ["", *map(_namespace, self._names[1:])]
        command = [sys.executable, "-m", "proof.packet_switch", json.dumps(namespaces), self._network]
        switch = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if switch.stdout is None or switch.stdout.readline() != "ready\n":
            self._delete()
            raise RuntimeError("the network between the hosts could not be set up")
        return switch

    def address(self, host: str) -> str:
        return f"{self._network}.{self._number(host)}"

    def server(self, host: str) -> list[str]:
        return ["ip", "netns", "exec", _namespace(host)]

    def worker(self, host: str) -> list[str]:
        named = ["sh", "-c", 'hostname "$0"; exec "$@"', host]
        return [*self.server(host), *BOX, "--uts", *named]

    def path(self, source: str, target: str, dropped: float = 0.0, delay: float = 0.0) -> None:
        rule = [self._number(source), self._number(target), dropped, delay]
        if self._switch.stdin:
            self._switch.stdin.write(json.dumps(rule) + "\n")
            self._switch.stdin.flush()

    def close(self) -> None:
        with suppress(OSError):
            self._switch.communicate(timeout=5)
        self._switch.kill()
        self._delete()

    def _number(self, host: str) -> int:
        return self._names.index(host) + 1

    def _delete(self) -> None:
        delete_namespaces(map(_namespace, self._names[1:]))


def _namespace(host: str) -> str:
    return f"{PREFIX}-{os.getpid()}-{host}"


def delete_namespaces(names: Iterable[str]) -> None:
    """Delete these network namespaces; what still runs in one keeps it alive without a name."""
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def namespaces() -> list[str]:
    """The network namespaces of all runs on this machine."""
    try:
        return sorted(name for name in os.listdir("/run/netns") if name.startswith(f"{PREFIX}-"))
    except FileNotFoundError:
        return []
