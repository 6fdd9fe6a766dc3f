"""A seed is a plan; a pause is charged to its fault; the page adds up the runs kept beside it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest

from proof import calm, machine, one_run, plan, pressure, report, run_records
from proof.faults import FAULTS
from proof.kinds import KINDS, LACKING, Kind, fitting, left_out
from proof.records import Attempt, Backlog, Edit, Execution, Fault, History
from proof.recovery import recovery_from
from proof.rules.violation import Violation
from queuemgr.base.rate import parse_rate

EVERYTHING = frozenset(LACKING)


def attempt(key: str, start: float, end: float, outcome: str = "done", cost: int = 0) -> Attempt:
    return Attempt(
        f"{key} {start}", key, "prep", "probe", "low", (), "alpha@host", start, start, end, outcome, cost
    )


def test_a_seed_always_gives_the_same_plan_and_another_seed_another() -> None:
    kinds = fitting("postgres", EVERYTHING)
    assert plan.faults(7, 600, kinds) == plan.faults(7, 600, kinds)
    assert plan.faults(7, 600, kinds) != plan.faults(8, 600, kinds)
    assert plan.edits(7, 600) == plan.edits(7, 600) != plan.edits(8, 600)


@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_every_kind_is_planned_in_turn_and_often_enough_in_half_an_hour(database: str) -> None:
    kinds = fitting(database, EVERYTHING)
    planned = plan.faults(7, 1800, kinds)
    times = {kind.name: sum(fault.kind == kind.name for fault in planned) for kind in kinds}
    assert min(times.values()) >= 4
    assert max(times.values()) - min(times.values()) <= 1


def test_faults_overlap_but_not_on_one_target_and_not_one_that_is_to_be_alone() -> None:
    planned = plan.faults(7, 1800, fitting("postgres", EVERYTHING))
    alone = {kind.name for kind in KINDS if kind.alone}
    overlap = 0
    for earlier, later in combinations(planned, 2):
        apart = earlier.at + earlier.lasts < later.at
        overlap += not apart
        assert apart or (earlier.target != later.target and not {earlier.kind, later.kind} & alone)
    assert overlap


def test_what_the_machine_does_not_permit_is_left_out_and_said() -> None:
    names = {kind.name for kind in fitting("postgres", ())}
    assert "kill workers" in names
    assert "lose host" not in names
    assert any(sentence.startswith("lose host: ") for sentence in left_out("postgres", ()))
    assert left_out("postgres", EVERYTHING) == []


def test_pgbouncer_stands_before_one_worker_in_a_mode_by_the_seed() -> None:
    """Unless a run asks for it before everyone, where no network can be cut."""
    even, odd = (one_run.RunOptions(seed, 1, "postgres") for seed in (6, 7))
    assert one_run.pooling(even) == ("transaction", False)
    assert one_run.pooling(odd) == ("session", False)
    assert one_run.pooling(replace(odd, pooler="transaction")) == ("transaction", True)
    assert ("pooler" in one_run.abilities(even)) == bool(machine.pooler())
    assert "hosts" not in one_run.abilities(replace(even, pooler="session"))


def test_what_is_known_to_fail_is_drawn_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Kind("fails", ("all",), fails="not survived yet")
    monkeypatch.setattr("proof.kinds.KINDS", (*KINDS, failing))
    assert failing not in fitting("sqlite", EVERYTHING)
    assert fitting("sqlite", EVERYTHING, ["fails"]) == (failing,)


def test_every_kind_has_a_fault_and_every_fault_a_kind() -> None:
    assert {kind.name for kind in KINDS} == set(FAULTS)


def test_edits_never_leave_a_reserve_that_fills_its_cap() -> None:
    edited = [edit.values for edit in plan.edits(7, 6000) if "reserved_high" in edit.values]
    assert edited
    assert all(f["reserved_high"] < f["max_running"] for f in edited)


def test_the_longest_pause_after_a_fault_is_its_recovery() -> None:
    fault = Fault("flush broker", "broker", 10, 10)
    attempts = [attempt("a", 9, 9.5), attempt("b", 10.5, 11), attempt("c", 13, 14), attempt("d", 30, 31)]
    assert recovery_from(fault, attempts).seconds == 17
    assert recovery_from(fault, [*attempts, attempt("e", 16, 17)]).seconds == 3


def test_a_lost_lease_counts_until_it_has_ended_and_its_work_until_its_turn_came() -> None:
    fault = Fault("kill workers", "alpha", 10, 12, bound=15, leases="alpha")
    others = [attempt(str(second), second, second + 0.5) for second in range(8, 40)]
    lost, again = attempt("a", 9, 18, "lost"), attempt("a", 31, 32)
    assert recovery_from(fault, [*others, lost, again]) == (8, 17, 21)
    assert recovery_from(fault, [*others, replace(lost, outcome="done")]) == (1, 17, 0)


SEEN = History(
    executions=[Execution("a", "done", 0, 5)],
    attempts=[attempt("a", 0, 3, "lost"), attempt("a", 4, 5)],
    edits=[Edit("fleet", "max_running", 3, 0, 0), Edit("fleet", "max_running", 2, 1, 2)],
    faults=[Fault("kill workers", "alpha", 1, 2)],
)


def report_of(
    seed: int, minutes: float, *found: Violation, database: str = "postgres"
) -> run_records.RunReport:
    return run_records.of(seed, minutes, database, SEEN, found)


def test_the_page_sums_the_runs_and_keeps_the_latest_of_equal_ones(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    report.add(page, report_of(1, 3, Violation("never lost", "a is gone")))
    report.add(page, report_of(1, 3))
    report.add(page, report_of(2, 1.5, database="sqlite"))
    text = page.read_text()
    assert (
        "4.5 minutes of faults in 2 runs: 2 executions, 4 attempts, 0 orders of an operator, 2 faults" in text
    )
    assert "| kill workers | 2 | 3.0 s | 3.0 s | 15 s |" in text
    assert "python -m proof --seed 2 --minutes 1.5 --database sqlite" in text
    assert text == report.written(run_records.read(run_records.file_of(page)))


def test_runs_stored_elsewhere_are_joined_and_those_of_an_earlier_release_dropped(tmp_path: Path) -> None:
    here, there = tmp_path / "proof.md", tmp_path / "there.md"
    run_records.file_of(here).write_text(json.dumps([{"seed": 1, "minutes": 3.0}]))
    report.add(here, report_of(1, 3))
    report.add(there, report_of(1, 3), report_of(2, 3))
    report.add(here, *run_records.read(run_records.file_of(there)))
    assert [run.seed for run in run_records.read(run_records.file_of(here))] == [1, 2]


def test_the_command_of_a_run_repeats_it() -> None:
    settings = {"faults": ["lose host", "slow link"], "one_host": False, "pooler": "session"}
    command = replace(report_of(1, 3), settings=settings).command
    assert command.endswith("--database postgres --faults 'lose host,slow link' --pooler session")


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
    assert list(pressure.counted(seen).values())[:4] == [3, 1, 1, 0]
    assert set(pressure.counted(replace(seen, attempts=[])).values()) == {0}


def test_the_matrix_counts_attempts_of_hostile_code_by_kind_database_and_pool(tmp_path: Path) -> None:
    ended = attempt("hostile/always-exits.7", 1, 2, "lost")
    elsewhere = replace(ended, worker="fork@host")
    seen = replace(SEEN, attempts=[ended, replace(ended, lease="again"), elsewhere])
    report.add(tmp_path / "proof.md", run_records.of(1, 3, "sqlite", seen, ()))
    assert "| code that ends its process | 5 | 0 | 0 | 1 | 2 |" in (tmp_path / "proof.md").read_text()


def test_the_page_says_how_much_of_each_rate_was_used(tmp_path: Path) -> None:
    """The keys of one pattern together, each judged on its own."""
    attempts, backlogs = [], []
    for limit, gap in (("calm:fast", 0.2), ("calm:each-3", 1.0), ("calm:each-4", 1.25)):
        keys = [f"{limit} {number}" for number in range(24 if gap >= 1 else 120)]
        attempts += [attempt(key, gap * n, gap * n + 0.1) for n, key in enumerate(keys, start=1)]
        backlogs.append(Backlog(limit, keys, 0, 60, slots=19))
    seen = replace(SEEN, attempts=attempts, backlogs=backlogs, rates=plan.RATES)
    run = run_records.of(1, 3, "sqlite", seen, ())
    assert "| `calm:fast` | 5/s | 1 | 100.0% | 100.0% |" in report.written([run])
    assert "| `calm:each-*` | 1/s | 2 | 91.4% | 82.8% |" in report.written([run])
    assert "rate 1/s of calm:each-*: 2 stretches judged" in report.summary(run)
    assert "no use of a rate was judged" in report.summary(report_of(1, 3))


def test_each_rate_of_the_calm_stretch_is_that_of_its_limit() -> None:
    for rate in chain.from_iterable(plan.CALM_WAVES):
        parsed = parse_rate(plan.CALM_LIMITS[report.rule_of(rate.limit)]["rate"])
        assert parsed is not None
        assert parsed.interval == rate.period / rate.starts
        assert parsed.burst == rate.burst


def test_a_machine_without_a_processor_to_spare_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm, "SPARE", 2.0)
    with calm.LoadWatch() as busy:
        time.sleep(4 * calm.SAMPLE)
    monkeypatch.setattr(calm, "SPARE", -1.0)
    with calm.LoadWatch() as idle:
        time.sleep(3 * calm.SAMPLE)
    assert busy.overloads and all(began < ended for began, ended in busy.overloads)
    assert idle.overloads == []


def test_a_violation_is_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    report.add(page, report_of(1, 3, Violation("never lost", "a is gone")))
    assert "- seed 1: never lost: a is gone" in page.read_text()


def test_the_result_of_a_run_replaces_that_of_an_equal_run(tmp_path: Path) -> None:
    left = tmp_path / "left"
    (left / "traces").mkdir(parents=True)
    for found in ("first", "second"):
        (left / "alpha.log").write_text(found)
        one_run._put_away(left, tmp_path / "kept")
    assert (tmp_path / "kept" / "alpha.log").read_text() == "second"
    assert (tmp_path / "kept" / "traces").is_dir()


def test_the_page_in_the_documentation_is_that_of_the_runs_beside_it() -> None:
    page = Path(__file__).parents[3] / "docs" / "proof.md"
    assert page.read_text() == report.written(run_records.read(run_records.file_of(page)))
