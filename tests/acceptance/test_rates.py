"""A rate is a promise in both directions, kept by real processes that nothing wakes but the rate itself."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

POLL_INTERVAL = 60
"""Seconds: longer than any of these tests, so that no poll helps."""

JITTER = 0.05
"""Seconds by which the operating system may delay one of two starts, so that they come closer together."""


def _fleet(make_fleet: MakeFleet, rate: str, slots: int = 6, pool: str = "threads") -> Fleet:
    fleet = make_fleet(poll_interval=POLL_INTERVAL, high_priority_reserved=0, max_workers=100)
    fleet.start_worker(slots, pool)
    fleet.queue("limit", "host:*", "--rate", rate, "--reason", "a promise")
    return fleet


def _starts(fleet: Fleet) -> list[float]:
    return sorted(run.start / 1e9 for run in fleet.trace().runs)


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.slow_proof)])
def test_fifty_starts_at_five_a_second_take_ten_seconds_and_never_come_faster(
    make_fleet: MakeFleet, pool: str
) -> None:
    """Idle slots, steps of no length, a poll interval of a minute."""
    fleet = _fleet(make_fleet, "5/s", pool=pool)
    fleet.enqueue(50, limit_key="host:r", trace=fleet.trace_file)
    fleet.wait_until_done(50)
    starts = _starts(fleet)
    # Looks once a second would take fifty. How exactly it is used is measured by `bench.rates` and the proof.
    assert starts[-1] - starts[0] < 20
    for number, start in enumerate(starts):
        assert start - starts[0] > number * 0.2 - JITTER


def test_many_keys_with_a_rate_each_and_longer_steps_use_all_of_it(make_fleet: MakeFleet) -> None:
    """Twenty keys of one a second and steps of 0.3 s: six starts of each take five seconds, and no minute."""
    fleet = _fleet(make_fleet, "1/s", slots=16)
    for key in range(20):
        fleet.enqueue(6, key_prefix=f"k{key}", limit_key=f"host:{key}", seconds=0.3, trace=fleet.trace_file)
    fleet.wait_until_done(120)
    by_key = [fleet.trace().where(limit_key=f"host:{key}").runs for key in range(20)]
    for runs in by_key:
        spans = sorted(run.start / 1e9 for run in runs)
        assert 5 - JITTER < spans[-1] - spans[0] < 10


def test_work_that_a_command_parked_starts_on_time_with_no_poll_to_help(make_fleet: MakeFleet) -> None:
    """A command has no timer, and nothing runs whose end would look again."""
    fleet = make_fleet(poll_interval=POLL_INTERVAL)
    fleet.start_worker(2)
    fleet.queue("pause", "host:r", "--minutes", "0.05")
    fleet.enqueue(1, limit_key="host:r")
    paused = time.monotonic()
    fleet.wait_until_done(1)
    assert time.monotonic() - paused < 10
