"""A `database` block closes the connection at its end, and blocks nest."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from queuemgr.base import process_state
from queuemgr.base.db_connection import database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time the connection was closed."""
    found: list[str] = []
    monkeypatch.setattr(connection, "close", lambda: found.append(connection.alias))
    return found


def test_an_inner_block_leaves_the_connection_to_the_outer_one(closed: list[str]) -> None:
    with database():
        with database():
            pass
        with pytest.raises(ValueError, match="inside"), database():
            raise ValueError("inside")
        assert closed == []
    assert closed == ["default"]
    with database():
        pass
    assert closed == ["default"] * 2


def test_a_connection_in_a_transaction_stays_open(closed: list[str]) -> None:
    with transaction.atomic(), database():
        pass
    assert closed == []


def test_a_child_forked_in_a_block_closes_the_connections_of_its_own_blocks(closed: list[str]) -> None:
    with database():
        process_state.reset_all()  # as every forked child does
    with database():
        pass
    assert closed == ["default"] * 2
