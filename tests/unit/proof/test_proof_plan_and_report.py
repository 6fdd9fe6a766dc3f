"""A seed is a plan; a pause is charged to its fault; the page adds up the runs kept beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from proof import one_run, plan, pressure, report
from proof.checker import Violation
from proof.records import Attempt, Edit, Execution, Fault, History
from proof.recovery import seconds_until_work_went_on


def attempt(key: str, start: float, end: float, outcome: str = "done", cost: int = 0) -> Attempt:
    return Attempt(
        f"{key} {start}", key, "prep", "probe", "low", (), "alpha@host", start, start, end, outcome, cost
    )


def test_a_seed_always_gives_the_same_plan_and_another_seed_another() -> None:
    assert plan.faults(7, 600, "postgres") == plan.faults(7, 600, "postgres")
    assert plan.faults(7, 600, "postgres") != plan.faults(8, 600, "postgres")
    assert plan.edits(7, 600) == plan.edits(7, 600) != plan.edits(8, 600)


@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_every_kind_that_fits_the_database_is_planned_and_no_target_twice_at_once(database: str) -> None:
    planned = plan.faults(7, 600, database)
    fitting = {kind.name for kind in plan.KINDS if kind.only_on in ("", database)}
    assert {fault.kind for fault in planned} == fitting
    for earlier, later in ((a, b) for a in planned for b in planned if a.at < b.at):
        assert earlier.target != later.target or earlier.at + earlier.lasts < later.at


def test_edits_never_leave_a_reserve_that_fills_its_cap() -> None:
    edited = [edit.values for edit in plan.edits(7, 6000) if "reserved_high" in edit.values]
    assert edited
    assert all(f["reserved_high"] < f["max_running"] for f in edited)


def test_the_longest_pause_after_a_fault_is_its_recovery() -> None:
    fault = Fault("flush broker", "broker", 10, 10)
    attempts = [attempt("a", 9, 9.5), attempt("b", 10.5, 11), attempt("c", 13, 14), attempt("d", 30, 31)]
    assert seconds_until_work_went_on(fault, attempts) == 17
    assert seconds_until_work_went_on(fault, [*attempts, attempt("e", 16, 17)]) == 3


def test_work_lost_with_a_worker_counts_until_it_is_started_again_unless_it_waits_for_a_budget() -> None:
    fault = Fault("kill workers", "alpha", 10, 12)
    others = [attempt(str(second), second, second + 0.5) for second in range(8, 40)]
    lost, again = attempt("a", 9, 18, "lost"), attempt("a", 19, 20)
    assert seconds_until_work_went_on(fault, [*others, lost, again]) == 9
    costly = attempt("a", 9, 18, "lost", cost=1)
    assert seconds_until_work_went_on(fault, [*others, costly, again]) == 1


SEEN = History(
    executions=[Execution("a", "done", 0, 5)],
    attempts=[attempt("a", 0, 3, "lost"), attempt("a", 4, 5)],
    edits=[Edit("fleet", "max_running", 3, 0, 0), Edit("fleet", "max_running", 2, 1, 2)],
    faults=[Fault("kill workers", "alpha", 1, 2)],
)


def test_the_page_sums_the_runs_and_keeps_the_latest_of_equal_ones(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    report.add(page, report.of(1, 3, "postgres", SEEN, [Violation("never lost", "a is gone")]))
    report.add(page, report.of(1, 3, "postgres", SEEN, []))
    report.add(page, report.of(2, 1.5, "sqlite", SEEN, []))
    text = page.read_text()
    assert "4.5 minutes of faults in 2 runs: 2 executions, 4 attempts, 2 faults, 0 violations" in text
    assert "| kill workers | 2 | 3.0 s | 3.0 s |" in text
    assert "python -m proof --seed 2 --minutes 1.5 --database sqlite" in text
    assert text == report.written(report.read(page))


def test_the_page_says_how_often_each_rule_was_exercised() -> None:
    budget = Edit("fleet", "daily_budget", 5, 0, 0)
    high = Attempt("h", "high", "prep", "probe", "high", (), "alpha@host", 6, 6, 7, "done")
    created = [Execution("a", "done", 4.5, 8), Execution("high", "done", 4, 8)]
    costly = attempt("a", 4, 5, cost=3)
    seen = replace(
        SEEN,
        edits=[Edit("fleet", "max_running", 1, 0, 0), budget],
        attempts=[SEEN.attempts[0], costly, high],
        executions=created,
    )
    assert list(pressure.counted(seen).values()) == [3, 1, 1, 0]
    assert list(pressure.counted(replace(seen, attempts=[])).values()) == [0, 0, 0, 0]


def test_a_violation_is_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    report.add(page, report.of(1, 3, "postgres", SEEN, [Violation("never lost", "a is gone")]))
    assert "- seed 1: never lost: a is gone" in page.read_text()


def test_the_result_of_a_run_replaces_that_of_an_equal_run(tmp_path: Path) -> None:
    for found in ("first", "second"):
        left = tmp_path / "left"
        (left / "traces").mkdir(parents=True)
        (left / "alpha.log").write_text(found)
        one_run._put_away(left, tmp_path / "kept")
        assert not left.exists()
    assert (tmp_path / "kept" / "alpha.log").read_text() == "second"
    assert (tmp_path / "kept" / "traces").is_dir()
