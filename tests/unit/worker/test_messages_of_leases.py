"""A message that names no lease is dropped without a word of what it holds."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.worker import dropped_messages
from queuemgr.worker.leased_task import lease_named

LEASE = "11111111-1111-4111-8111-111111111111"
OTHERS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((LEASE, LEASE), {}), ((LEASE,), {"x": 1}), ((), {"lease_id": LEASE}), (("",), {}),
    (("/etc/x",), {}), ((7,), {}), ((None,), {}), ((True,), {}), (([LEASE],), {}), (({},), {}), ((1.5,), {}),
    ((LEASE + "1",), {}), (("\ud800",), {}), (("x" * 100_000,), {}), ((LEASE.encode(),), {}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "kwargs"), OTHERS, ids=range(len(OTHERS)))
def test_a_message_that_names_no_lease_is_dropped_and_not_quoted(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    dropped_messages._unreported.clear()
    assert lease_named(args, kwargs) is None
    assert dict(dropped_messages._unreported) == {"it names no lease": 1}
    dropped_messages._unreported.clear()


def test_the_lease_of_a_message_is_read() -> None:
    assert str(lease_named((LEASE,), {})) == LEASE
