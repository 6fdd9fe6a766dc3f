"""The network between the hosts of a run: a process that reads the IP packets of each and hands them on.

`python -m proof.packet_switch` takes a JSON list of namespaces as its argument (an empty name is the
machine's own) and the first three numbers of their network; host n of them has the address ….n. Standard
input brings rules, one JSON line each: from host, to host, the share of packets dropped, the seconds each
is delayed.
It ends with its standard input, and its interfaces with it.

The kernel's own `tc netem` would do the same, where it is compiled in.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from typing import NamedTuple

SET_INTERFACE, TUN, NO_HEADER = 0x400454CA, 0x0001, 0x1000
NEW_NETWORK = 0x40000000
LONGEST = 65_535
MTU = 32_000
"""Large, so that a result takes few packets."""


class Path(NamedTuple):
    """What happens to the packets from one host to another."""

    dropped: float = 0.0
    delay: float = 0.0


def serve(namespaces: list[str], network: str) -> None:
    """Forward packets until standard input ends."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    links = {}
    for number, namespace in enumerate(namespaces, start=1):
        links[number] = _interface(namespace, home, f"{network}.{number}")
    os.set_blocking(0, False)
    print("ready", flush=True)
    _Switch(links).run()


def _interface(namespace: str, home: int, address: str) -> int:
    """A TUN device in this namespace; returns its file, which stays usable in ours."""
    _enter(os.open(f"/run/netns/{namespace}", os.O_RDONLY) if namespace else home)
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"sg{address.split('.')[-1]}x{os.getpid()}"[:15]
    fcntl.ioctl(file, SET_INTERFACE, struct.pack("16sH22x", name.encode(), TUN | NO_HEADER))
    for command in (
        ["addr", "add", f"{address}/24", "dev", name],
        ["link", "set", name, "mtu", str(MTU), "up"],
        ["link", "set", "lo", "up"],
    ):
        subprocess.run(["ip", *command], check=True)
    _enter(home)
    return file


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


class _Switch:
    def __init__(self, links: dict[int, int]) -> None:
        self._links = links
        self._numbers = {file: number for number, file in links.items()}
        self._paths: dict[tuple[int, int], Path] = {}
        self._delayed: list[tuple[float, int, int, bytes]] = []
        self._sent = 0
        self._rules = b""
        self._poll = select.epoll()
        for file in (0, *self._numbers):
            self._poll.register(file, select.EPOLLIN)

    def run(self) -> None:
        open_ = True
        while open_:
            wait = max(0.0, self._delayed[0][0] - time.monotonic()) if self._delayed else 10.0
            for file, _ in self._poll.poll(wait):
                if file:
                    self._forward(file)
                else:
                    open_ = self._read_rules()
            self._send_what_is_due()

    def _read_rules(self) -> bool:
        """Take the rules that have come; false at the end of standard input."""
        text = os.read(0, LONGEST)
        *lines, self._rules = (self._rules + text).split(b"\n")
        for source, target, dropped, delay in map(json.loads, lines):
            self._paths[source, target] = Path(dropped, delay)
        return bool(text)

    def _forward(self, file: int) -> None:
        try:
            packet = os.read(file, LONGEST)
        except BlockingIOError:
            return
        if packet[0] >> 4 != 4 or packet[19] not in self._links:
            return
        path = self._paths.get((self._numbers[file], packet[19]), Path())
        if path.dropped and random.random() < path.dropped:
            return
        if path.delay:
            self._sent += 1
            heapq.heappush(self._delayed, (time.monotonic() + path.delay, self._sent, packet[19], packet))
        else:
            self._send(packet[19], packet)

    def _send_what_is_due(self) -> None:
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(self._delayed)
            self._send(target, packet)

    def _send(self, target: int, packet: bytes) -> None:
        try:
            os.write(self._links[target], packet)
        except OSError:
            return  # a full queue drops packets, as networks do


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]), sys.argv[2])
