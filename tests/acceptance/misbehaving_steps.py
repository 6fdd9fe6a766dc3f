"""Ways to end badly that no flow of ours has: a worker started with `-I tests.acceptance.misbehaving_steps`
has a probe's `fail` name one of these.

What they do once, they do at a probe's first try only.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from queuemgr.worker import probe_flow


class NeedsTwo(Exception):
    """Pickled well, and never unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


class CannotSay(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _holds_a_socket() -> None:
    error = ValueError("it holds a socket")
    error.held = socket.socket()  # type: ignore[attr-defined]  # an error that holds what no one can pickle
    raise error


def _raise(error: Exception) -> None:
    raise error


def _hold_the_interpreter() -> None:
    """One call into C that lets no other thread run, for about two seconds."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        sum(range(20_000_000))


def _ignore_every_error() -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def _spin() -> None:
    while True:
        pass


REQUEST = httpx.Request("POST", "http://model.test/v1/chat/completions")

WAYS: dict[str, Callable[[], object]] = {
    "odd-needs-two": lambda: _raise(NeedsTwo("one", "two")),
    "odd-cannot-say": lambda: _raise(CannotSay()),
    "odd-socket": _holds_a_socket,
    "odd-huge": lambda: _raise(ValueError("x" * 10_000_000)),
    "odd-surrogate": lambda: _raise(ValueError("half \ud83d of it")),
    "odd-status": lambda: httpx.Response(500, request=REQUEST).raise_for_status(),
    "once-exit": lambda: os._exit(1),
    "once-kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hold": _hold_the_interpreter,
    "hang-sleep": lambda: time.sleep(600),
    "hang-loop": _spin,
    "hang-deaf": _ignore_every_error,
}

_fail_or_die = probe_flow.fail_or_die


def fail_or_die(given: dict[str, Any]) -> None:
    way = str(given.get("fail", ""))
    if way not in WAYS:
        _fail_or_die(given)
    elif not way.startswith("once-") or _first_time(given):
        WAYS[way]()


def _first_time(given: dict[str, Any]) -> bool:
    """Once for each trace file and way, whichever process asks."""
    try:
        Path(f"{given['trace']}.{given['fail']}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


probe_flow.fail_or_die = fail_or_die
