"""A fork waits for threads that use a connection, and for none that has left its blocks in any way."""

from __future__ import annotations

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
