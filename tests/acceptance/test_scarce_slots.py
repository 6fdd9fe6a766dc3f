"""With every slot busy: high work gets in beside long low work, short work passes by a long item."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

pytestmark = pytest.mark.slow_proof


def test_high_priority_work_starts_within_seconds_while_low_priority_work_fills_its_share(
    make_fleet: MakeFleet,
) -> None:
    """8 slots, 2 reserved, 100 low items of a minute, then five high ones of a second."""
    fleet = make_fleet(max_workers=8, high_priority_reserved=2)
    fleet.start_worker(8)
    fleet.enqueue(100, key_prefix="low", priority="low", seconds=60, trace=fleet.trace_file)
    fleet.wait_until("saturated", lambda: fleet.states()["running"] == 6)
    submitted = datetime.now(UTC)
    fleet.enqueue(5, key_prefix="high", priority="high", seconds=1, trace=fleet.trace_file)
    fleet.wait_until_done(5, "high-%", within=30)
    started = [datetime.fromisoformat(a["started"]) for a in fleet.attempts() if a["priority"] == "high"]
    assert len(started) == 5
    assert max((moment - submitted).total_seconds() for moment in started) < 9
    assert fleet.trace().where(priority="low").most_at_once() == 6


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_short_items_do_not_wait_behind_a_long_one_while_another_worker_is_idle(
    fleet: Fleet, pool: str
) -> None:
    """Two workers of one slot, one item of a minute, ten of a second."""
    workers = [fleet.start_worker(1, pool, name=name, wait=False) for name in ("one", "two")]
    fleet.wait_for_workers(*workers)
    fleet.enqueue(1, key_prefix="long", seconds=60)
    fleet.wait_until("it runs", lambda: fleet.states("long-%") == {"running": 1})
    fleet.enqueue(10, key_prefix="short", seconds=1)
    fleet.wait_until_done(10, "short-%", within=60)
    assert fleet.states("long-%") == {"running": 1}
