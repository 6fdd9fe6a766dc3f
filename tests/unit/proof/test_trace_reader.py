"""The reader of trace files must see every violation planted in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.trace import NEVER, Trace


def line(key: str, event: str, at: int, **more: Any) -> dict[str, Any]:
    return {
        "key": key, "event": event, "monotonic_ns": at, "phase": "prep", "priority": "normal",
        "limit_key": "", "worker": "a@host/1", **more,
    }  # fmt: skip


def run(key: str, start: int, end: int, **more: Any) -> list[dict[str, Any]]:
    return [line(key, "start", start, **more), line(key, "end", end, **more)]


def of(*runs: list[dict[str, Any]]) -> Trace:
    return Trace.of(each for lines in runs for each in lines)


def test_counts_the_most_that_ran_at_once() -> None:
    trace = of(run("a", 0, 10), run("b", 5, 15), run("c", 9, 20), run("d", 16, 30))
    assert trace.most_at_once() == 3


def test_a_run_that_starts_the_moment_another_ends_does_not_overlap_it() -> None:
    trace = of(run("a", 0, 10), run("b", 10, 20))
    assert trace.most_at_once() == 1
    assert trace.passed(1) == []


def test_sees_the_one_start_that_passed_a_cap() -> None:
    trace = of(run("a", 0, 10), run("b", 1, 10), run("c", 9, 12))
    assert trace.passed(3) == []
    assert [guilty.key for guilty in trace.passed(2)] == ["c"]


def test_sees_a_cap_passed_by_one_priority_only() -> None:
    trace = of(run("a", 0, 9, priority="low"), run("b", 1, 9, priority="low"), run("c", 2, 9))
    assert trace.where(priority="low").most_at_once() == 2
    assert len(trace.where(priority="low").passed(1)) == 1
    assert trace.where(priority="high").most_at_once() == 0


def test_distinguishes_phases_and_limit_keys() -> None:
    trace = of(run("a", 0, 9, limit_key="host:a"), run("b", 1, 9, limit_key="host:b", phase="wrap"))
    assert trace.most_at_once() == 2
    assert trace.where(limit_key="host:a").most_at_once() == 1
    assert trace.where(phase="wrap", limit_key="host:a").runs == ()


def test_a_start_without_an_end_counts_for_ever_and_is_named() -> None:
    trace = of([line("a", "start", 0)], run("b", 100, 200))
    assert trace.most_at_once() == 2
    assert [run.key for run in trace.unended()] == ["a"]


def test_a_start_without_an_end_ends_when_its_worker_died() -> None:
    trace = of([line("a", "start", 0)], run("b", 100, 200)).until({"a@": 50})
    assert trace.most_at_once() == 1
    assert trace.unended() == []
    assert of([line("a", "start", 0)]).until({"b@": 50}).runs[0].end == NEVER


def test_an_end_without_a_start_is_refused() -> None:
    with pytest.raises(ValueError, match="end without a start"):
        of([line("a", "end", 5)])


def test_names_keys_that_started_more_than_once() -> None:
    trace = of(run("a", 0, 5), run("b", 0, 5), run("a", 6, 9, worker="b@host/2"))
    assert trace.started_again() == ["a"]
    assert trace.overlapping() == []


def test_names_keys_of_which_two_runs_overlapped() -> None:
    trace = of(run("a", 0, 8), run("a", 7, 9, worker="b@host/2"), run("b", 0, 9))
    assert trace.overlapping() == ["a"]


def test_the_same_key_again_on_the_same_worker_after_a_lost_end_is_two_runs() -> None:
    trace = of([line("a", "start", 0)], run("a", 10, 20))
    assert len(trace.runs) == 2
    assert trace.started_again() == ["a"]


def test_ends_may_be_written_in_another_order_than_they_happened() -> None:
    lines = [line("a", "start", 0), line("b", "start", 3), line("b", "end", 9), line("a", "end", 5)]
    assert Trace.of(lines).most_at_once() == 2


def test_says_for_which_part_of_the_time_a_cap_was_full_while_work_waited() -> None:
    full = of(run("a", 0, 10), run("b", 0, 20), run("c", 10, 30), run("d", 20, 40))
    assert full.share_of_time_at(2) == 1.0
    idle = of(run("a", 0, 10), run("b", 0, 10), run("c", 20, 30), run("d", 20, 30))
    assert idle.share_of_time_at(2) == pytest.approx(0.5)
    assert full.share_of_time_at(3) == 0.0


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in run("a", 1, 2)))
    assert [(each.key, each.start, each.end) for each in Trace.read(path).runs] == [("a", 1, 2)]
