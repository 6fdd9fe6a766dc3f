"""What a backoff may return."""

from __future__ import annotations

import math

import pytest

from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.map_runner import Retries
from queuemgr.steptools.ordered_map import run_with_queue


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [math.inf, math.nan])
async def test_an_infinite_backoff_fails_the_item_and_is_no_retry(seconds: float) -> None:
    attempts = 0

    async def worker(_item: int) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError("busy")

    with pytest.raises(ValueError, match="a delay of") as caught:
        await run_with_queue(
            Lane("test", 1, 1), [1], worker, retries=3, backoff=lambda _error, _attempt: seconds
        )
    assert attempts == 1
    assert isinstance(caught.value.__cause__, OSError), "the failure itself is not lost"


def test_a_negative_backoff_is_no_delay() -> None:
    assert Retries(3, lambda _error, _attempt: -1.0).delay(OSError(), 1) == 0.0
