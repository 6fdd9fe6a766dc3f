"""A bulk action's pace, and the ids in its record: pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from queuemgr.operations.bulk.rate import CATCH_UP_SECONDS, FEWEST, MOST, chunk_size, clock_after, may_change
from queuemgr.steptools.number_ranges import ranges

START = datetime(2026, 6, 1, tzinfo=UTC)


@given(
    per_minute=st.integers(1, 10_000),
    looks=st.lists(st.floats(0, 3600), min_size=1, max_size=30),
    most=st.integers(1, 500),
)
def test_over_any_span_no_more_is_changed_than_the_rate_plus_one_catch_up(
    per_minute: int, looks: list[float], most: int
) -> None:
    """Whenever workers come back, and however long they were away."""
    now, clock = START, START
    done: list[tuple[datetime, int]] = []
    for seconds in looks:
        now += timedelta(seconds=seconds)
        changed = may_change(per_minute, clock, now, most)
        clock = clock_after(per_minute, clock, now, changed)
        done.append((now, changed))
    for first, (since, _) in enumerate(done):
        for until, _ in done[first:]:
            within = sum(n for at, n in done if since <= at <= until)
            span = (until - since).total_seconds() + CATCH_UP_SECONDS
            assert within <= span * per_minute / 60 + 1.001


def test_a_rate_is_reached_by_chunks_one_tick_apart() -> None:
    now = clock = START
    changed = 0
    for _ in range(120):
        now += timedelta(seconds=5)
        some = may_change(60, clock, now, 500)
        clock = clock_after(60, clock, now, some)
        changed += some
    assert changed in (600, 601)


def test_without_a_rate_a_chunk_is_as_large_as_allowed() -> None:
    assert may_change(0, START + timedelta(days=1), START, 250) == 250


def test_a_chunk_is_as_large_as_fits_into_its_time_and_no_larger() -> None:
    assert chunk_size(400, 0.1) == 200
    assert chunk_size(100, 0.0) == 200, "growing step by step"
    assert chunk_size(400, 0.01) == MOST
    assert chunk_size(100, 60.0) == FEWEST


def test_ids_are_recorded_in_few_characters() -> None:
    assert ranges([7, 1, 2, 3, 9, 10]) == "1-3, 7, 9-10"
    assert ranges([]) == ""
    assert len(ranges(range(1, 501))) == 5
