"""What a backoff may answer."""

from __future__ import annotations

import math

import pytest

from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.map_runner import Retries, any_error
from queuemgr.steptools.ordered_map import run_with_queue


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [math.inf, math.nan])
async def test_a_backoff_without_an_end_is_the_item_s_failure_and_no_retry_at_once(
    seconds: float,
) -> None:
    tries = 0

    async def worker(_item: int) -> None:
        nonlocal tries
        tries += 1
        raise OSError("busy")

    with pytest.raises(ValueError, match="seconds to wait") as caught:
        await run_with_queue(
            Lane("test", 1, 1), [1], worker, retries=3, backoff=lambda _error, _attempt: seconds
        )
    assert tries == 1
    assert isinstance(caught.value.__cause__, OSError), "the failure itself is not lost"


def test_a_backoff_of_less_than_nothing_is_no_wait() -> None:
    assert Retries(3, lambda _error, _attempt: -1.0, any_error).wait(OSError(), 1) == 0.0
