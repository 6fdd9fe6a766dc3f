"""The timeline: what became of the due times of a span and which follow, at a bounded price."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.models import Schedule, ScheduledRun
from queuemgr.reporting import schedule_timeline as timeline
from queuemgr.reporting.schedule_timeline import MOST_DUE_IN_A_CELL, MOST_RUNS, ZOOMS, Line, Span
from tests.integration.schedules.conftest import NOON

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
Make = Callable[..., Schedule]


def line_of(row: Schedule, zoom: str = "day", now: Any = NOON, at: Any = None) -> Line:
    row.refresh_from_db()
    (line,) = timeline.lines([row], Span.around(at or now, ZOOMS[zoom]), now)
    return line


def seen(line: Line) -> list[str]:
    """The worst of each cell that is not empty."""
    return [cell.kind for _, cell in sorted(line.cells.items())]


def run(row: Schedule, at: Any, outcome: str = "enqueued", **fields: Any) -> ScheduledRun:
    left_out = {"reason": "because"} if outcome != "enqueued" else {"execution_id": 1}
    return ScheduledRun(schedule=row, due_at=at, outcome=outcome, **{"decided_at": at, **left_out, **fields})


def store(runs: Iterable[ScheduledRun]) -> None:
    ScheduledRun.objects.bulk_create(runs, batch_size=500)


def test_each_run_is_shown_as_what_became_of_it_and_what_follows_as_due(make_schedule: Make) -> None:
    row = make_schedule("every 6h from start")
    ended = {"ended_at": NOON}
    store(
        [
            run(row, NOON - 9 * HOUR, ended_as="done", **ended),
            run(row, NOON - 8 * HOUR, ended_as="failed", **ended),
            run(row, NOON - 7 * HOUR, "skipped"),
            run(row, NOON - 6 * HOUR, "missed"),
            run(row, NOON - 5 * HOUR, ended_as="done", decided_at=NOON - 4 * HOUR, **ended),
            run(row, NOON - 4 * HOUR, ended_as="cancelled", **ended),
            run(row, NOON - 3 * HOUR),
        ]
    )
    assert seen(line_of(row)) == [
        "done", "failed", "skipped", "missed", "late", "ended", "running", "due", "due", "due",
    ]  # fmt: skip


def test_a_cell_is_shown_as_the_worst_in_it_and_says_all_of_it(make_schedule: Make) -> None:
    row = make_schedule("every 6h from start")
    store(
        [
            run(row, NOON - n * MINUTE, ended_at=NOON, ended_as="failed" if n == 5 else "done")
            for n in range(1, 9)
        ]
    )
    (cell,) = (cell for cell in line_of(row).cells.values() if cell.start < NOON)
    assert (cell.kind, cell.counts) == ("failed", {"done": 7, "failed": 1})


def test_due_times_missed_together_are_shown_as_far_as_they_reach_and_counted_once(
    make_schedule: Make,
) -> None:
    row = make_schedule("every 6h from start")
    store([run(row, NOON - 30 * HOUR, "missed", until=NOON - 22 * HOUR)])
    cells = [cell for cell in line_of(row).cells.values() if cell.start < NOON]
    assert len(cells) == 5
    assert {cell.kind for cell in cells} == {"missed"}
    assert sum(cell.counts["missed"] for cell in cells) == 1


@pytest.mark.parametrize("timing", ["every 1s from start", "cron * * * * * in UTC"])
@pytest.mark.parametrize("zoom", ["day", "week"])
def test_of_frequent_due_times_a_few_are_worked_out_for_each_cell(
    make_schedule: Make, monkeypatch: pytest.MonkeyPatch, timing: str, zoom: str
) -> None:
    row = make_schedule(timing)
    asked, next_due = [], timeline.next_due
    monkeypatch.setattr(timeline, "next_due", lambda *args: asked.append(args) or next_due(*args))
    line = line_of(row, zoom)
    cells = Span.around(NOON, ZOOMS[zoom]).cells // 2
    assert len(line.cells) == cells
    assert all(cell.more for cell in line.cells.values())
    assert len(asked) <= MOST_DUE_IN_A_CELL * cells + 1


def test_of_very_many_runs_the_latest_are_counted_and_it_says_since_when(make_schedule: Make) -> None:
    row = make_schedule("every 1s from start")
    first = NOON - 2 * HOUR
    store(
        run(row, first + timedelta(seconds=n), ended_at=NOON, ended_as="done") for n in range(MOST_RUNS + 500)
    )
    line = line_of(row)
    assert sum(cell.counts["done"] for cell in line.cells.values()) == MOST_RUNS
    assert line.counted_from == first
    closer = line_of(row, "hour", at=NOON - HOUR)
    assert closer.counted_from is not None


def test_what_falls_due_in_a_pause_is_shown_so_and_what_nobody_looked_at_too(make_schedule: Make) -> None:
    row = make_schedule("cron 0 * * * * in UTC", paused_at=NOON, paused_until=NOON + 150 * MINUTE)
    kinds = seen(line_of(row))
    assert kinds[:3] == ["paused", "paused", "due"]
    later = NOON + 90 * MINUTE
    assert seen(line_of(row, now=later))[0] == "overdue"


@pytest.mark.parametrize("timing", ["every 5m from end", "once 2026-05-04T12:30:00+00:00"])
def test_only_the_next_due_time_is_shown_where_no_other_is_known(make_schedule: Make, timing: str) -> None:
    line = line_of(make_schedule(timing))
    assert sum(cell.counts["due"] for cell in line.cells.values()) == 1


def test_a_run_that_waits_for_the_end_of_another_is_shown(make_schedule: Make) -> None:
    row = make_schedule("every 6h from start", held_due_at=NOON - HOUR)
    assert seen(line_of(row))[0] == "held"


def test_a_span_far_ahead_is_reached_without_all_due_times_before_it(make_schedule: Make) -> None:
    row = make_schedule("every 1s from start")
    assert line_of(row, "hour", at=NOON + timedelta(days=3000)).cells
