"""A parent of pool children reads their board from time to time and ends the leases of the dead."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from queuemgr.worker import pool_children


def test_a_child_that_began_another_lease_while_its_parent_looked_is_taken_for_dead_with_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, dead, ended = pool_children.Board(), {101}, []
    first, second, third = uuid4(), uuid4(), uuid4()

    def show(place: int, pid: int, lease: UUID) -> None:
        board._write(place, pid, lease.int, 1e12, 1e12)

    def end(lease: UUID, outcome: object) -> bool:
        """While the parent ends the first lease, the other child begins its next one and dies."""
        ended.append(lease)
        if lease == first:
            show(2, 102, third)
            dead.add(102)
        return True

    monkeypatch.setattr("queuemgr.lifecycle.redispatch_timer.schedule_redispatch", lambda seconds: None)
    monkeypatch.setattr(pool_children, "_is_gone", dead.__contains__)
    monkeypatch.setattr(pool_children, "_end_lease", end)
    show(1, 101, first)
    show(2, 102, second)
    watch = pool_children.ChildWatch(board, [])
    watch.look()
    watch.look()
    assert ended == [first, third]
