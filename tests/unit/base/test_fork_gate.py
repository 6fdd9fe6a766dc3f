"""A fork waits for threads that use a connection, and for none that has left its blocks in any way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from queuemgr.base import db_connection, fork_gate

LEAVES: dict[str, Callable[[], object]] = {
    "a step that never left its block": lambda: db_connection.discard_connections(0),
    "a function that never left its block": lambda: db_connection.end_what_was_left(
        db_connection.Held(0, {})
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
def test_a_block_that_is_forgotten_holds_up_no_fork(
    leave: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = fork_gate.ForkGate()
    monkeypatch.setattr(fork_gate, "_gate", gate)
    monkeypatch.setattr(db_connection, "close_connections", lambda: None)
    monkeypatch.setattr(db_connection.connections, "all", lambda initialized_only: [])
    block = db_connection.database()  # kept, or Python would leave it
    block.__enter__()
    assert gate._inside
    leave()
    assert not gate._inside


def test_who_is_inside_enters_again_though_a_fork_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block in a block: the fork goes ahead once the outer one is left, and not before."""
    gate = fork_gate.ForkGate()
    monkeypatch.setattr(fork_gate, "_gate", gate)
    forked, waits = threading.Event(), threading.Event()

    def fork() -> None:
        waits.set()
        gate.before_fork()
        forked.set()
        gate.after_fork()

    with fork_gate.passed():
        forker = threading.Thread(target=fork)
        forker.start()
        waits.wait(20)
        while gate._forking is None:
            time.sleep(0.001)
        with fork_gate.passed():
            pass
        assert not forked.is_set()
    forker.join(20)
    assert forked.is_set()


@pytest.mark.parametrize("own", ["in a block", "in a transaction of its own"])
def test_who_forks_while_it_uses_the_database_waits_for_no_one_who_may_wait_for_it(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread is inside, and waits for the lock that the forking one holds."""
    gate, other, ends = fork_gate.ForkGate(), threading.Event(), threading.Event()

    def inside() -> None:
        gate.enter()
        other.set()
        ends.wait(60)
        gate.leave()

    thread = threading.Thread(target=inside)
    thread.start()
    other.wait(20)
    if own == "in a block":
        gate.enter()
    else:
        monkeypatch.setattr(fork_gate, "_is_in_transaction", lambda: True)
    began = time.monotonic()
    gate.before_fork()
    gate.after_fork()
    assert time.monotonic() - began < fork_gate.WAIT_SECONDS / 2
    ends.set()
    thread.join(20)
