"""`python -m bench.slow_clients`: what 200 slow clients do to a web server's health check and to its pages.

The server is the one that `manage.py up` starts, unless `--command` names another.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import command_line
from queuemgr.local.private_servers import free_port, wait_for_port

OURS = sys.executable + " manage.py serve --port {port}"
CLIENTS = 200
DRIP_SECONDS = 1.0
HEALTH, PAGE = "/health/live", "/admin/login/?next=/admin/"
LARGE = "/static/unfold/css/styles.css"
"""Larger than the buffers of a socket whose reader reads nothing."""

REPOSITORY = Path(__file__).resolve().parent.parent

_HEAD = b"Host: localhost\r\nUser-Agent: slow\r\n"


def half_sent(path: str) -> bytes:
    """A request whose headers do not end."""
    return b"GET %b HTTP/1.1\r\n%bX-Padding: a" % (path.encode(), _HEAD)


def slow_body(path: str) -> bytes:
    """The headers of a form whose body comes a byte a second; its cookie makes Django read it all."""
    return (
        b"POST %b HTTP/1.1\r\n%bCookie: csrftoken=%b\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 100000\r\n\r\n" % (path.encode(), _HEAD, b"a" * 32)
    )


def never_read(path: str) -> bytes:
    """Four pipelined requests for a large file, of whose answers nothing is read."""
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), _HEAD) * 4


KINDS: Mapping[str, Callable[[], bytes]] = {
    "half-sent requests": lambda: half_sent(PAGE),
    "idle sockets": lambda: b"",
    "slow bodies": lambda: slow_body(PAGE),
    "slow readers": lambda: never_read(LARGE),
}
DRIPS = ("half-sent requests", "slow bodies")


@contextmanager
def slow_clients(port: int, count: int = CLIENTS, kinds: tuple[str, ...] = tuple(KINDS)) -> Iterator[None]:
    """Keep `count` slow connections open, of these kinds in turn; one that is ended is opened again."""
    stop = threading.Event()
    open_now: dict[int, socket.socket] = {}
    for number in range(count):
        open_now[number] = _opened(port, kinds[number % len(kinds)])
    dripping = threading.Thread(target=_drip, args=(port, kinds, open_now, stop))
    dripping.start()
    try:
        yield
    finally:
        stop.set()
        dripping.join()
        for client in open_now.values():
            client.close()


def _opened(port: int, kind: str) -> socket.socket:
    client = socket.socket()
    if kind == "slow readers":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(5)
    client.connect(("127.0.0.1", port))
    client.sendall(KINDS[kind]())
    client.setblocking(False)
    return client


def _drip(
    port: int, kinds: tuple[str, ...], open_now: dict[int, socket.socket], stop: threading.Event
) -> None:
    """Send a byte a second on each connection whose request has not ended."""
    while not stop.wait(DRIP_SECONDS):
        for number, client in open_now.items():
            kind = kinds[number % len(kinds)]
            try:
                if kind in DRIPS:
                    client.send(b"a")
            except BlockingIOError:
                continue
            except OSError:
                client.close()
                try:
                    open_now[number] = _opened(port, kind)
                except OSError:
                    continue


def health_seconds(port: int, seconds: float, *, timeout: float = 10, every: float = 0.05) -> list[float]:
    """How long each of many health checks took, one after the other, each on a connection of its own; one
    without an answer counts as `timeout`."""
    until, took = time.monotonic() + seconds, []
    while time.monotonic() < until:
        began = time.monotonic()
        took.append(timeout if answered(port, HEALTH, timeout) != 200 else time.monotonic() - began)
        time.sleep(every)
    return took


def answered(port: int, path: str, timeout: float = 10) -> int:
    """The status of a page asked for on a connection of its own; 0 without an answer in time."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        client.request("GET", path, headers={"Host": "localhost"})
        answer = client.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        client.close()


def pages_per_second(port: int, seconds: float, at_once: int = 8) -> float:
    """Answers a second, with `at_once` clients that keep their connections."""
    until, counts = time.monotonic() + seconds, [0] * at_once

    def ask(number: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        while time.monotonic() < until:
            try:
                client.request("GET", PAGE, headers={"Host": "localhost"})
                answer = client.getresponse()
                answer.read()
                counts[number] += answer.status == 200
            except (OSError, http.client.HTTPException):
                client.close()
        client.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def keeps_alive(port: int, seconds: float) -> bool:
    """Whether a connection that was idle for so long answers a second request."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        for pause in (seconds, 0):
            client.request("GET", HEALTH, headers={"Host": "localhost"})
            client.getresponse().read()
            client.auto_open = 0
            time.sleep(pause)
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def percentile(took: list[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def measure(port: int, seconds: float) -> dict[str, Any]:
    before = pages_per_second(port, seconds)
    found: dict[str, Any] = {"pages a second": round(before)}
    for kinds in ((), *((kind,) for kind in KINDS), tuple(KINDS)):
        with ExitStack() as stack:
            if kinds:
                stack.enter_context(slow_clients(port, CLIENTS, kinds))
                time.sleep(1)
            took = health_seconds(port, seconds)
            name = " + ".join(kinds) if len(kinds) < 2 else "all four"
            found[f"health, ms: {name or 'nobody slow'}"] = [
                round(1000 * percentile(took, share), 1) for share in (0.5, 0.99, 1.0)
            ]
            if len(kinds) > 1:
                found["pages a second, all four"] = round(pages_per_second(port, seconds))
    return found


@contextmanager
def served(command: str) -> Iterator[int]:
    """The port of a server started with this command, in a data directory of its own."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "SLUICE_DATA_DIR": directory, "SLUICE_LOG_LEVEL": "WARNING"}
        words = shlex.split(command.replace("{port}", str(port)))
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "-v0"], env=environment, cwd=REPOSITORY, check=True
        )
        server = subprocess.Popen(words, env=environment, cwd=REPOSITORY)
        try:
            wait_for_port(port, server)
            yield port
        finally:
            server.terminate()
            server.wait(40)


def main() -> None:
    parser = command_line.parser(
        "bench.slow_clients", __doc__, "--seconds 5",
        '--command "waitress-serve --listen 127.0.0.1:{port} project.wsgi:application"',
    )  # fmt: skip
    parser.add_argument("--command", default=OURS, help="of a server; {port} stands for its port")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument(
        "--idle", type=float, default=0, help="also whether a connection idle for so long answers"
    )
    options = parser.parse_args()
    with served(options.command) as port:
        found = measure(port, options.seconds)
        if options.idle:
            found[f"answers after {options.idle:g} s idle"] = keeps_alive(port, options.idle)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
