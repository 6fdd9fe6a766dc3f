"""200 slow clients of four kinds, and a web server that answers the others meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from bench.slow_clients import PAGE, answered, health_seconds, keeps_alive, slow_clients
from queuemgr.local.private_servers import free_port, wait_for_port
from tests.acceptance.fleet import Fleet

AT_MOST = 5.0
"""Seconds, on a machine busy with other tests; alone it is milliseconds, and the servers that this test is
to find give no answer at all."""


@pytest.fixture
def port(fleet: Fleet) -> Iterator[int]:
    port = free_port()
    fleet.start("web", sys.executable, "-W", "ignore", "manage.py", "serve", "--port", str(port))
    wait_for_port(port)
    yield port


def test_200_slow_clients_hold_up_neither_a_health_check_nor_a_page(port: int) -> None:
    """Requests sent by halves, idle sockets, bodies of a byte a second, and readers who do not read."""
    with slow_clients(port, 200):
        assert max(health_seconds(port, 4, timeout=2 * AT_MOST)) < AT_MOST
        began = time.monotonic()
        assert answered(port, PAGE, 2 * AT_MOST) == 200
        assert time.monotonic() - began < AT_MOST


def test_a_connection_idle_for_seconds_answers_again(port: int) -> None:
    """As one in the pool of a client."""
    assert keeps_alive(port, 3)
