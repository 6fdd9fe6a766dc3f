"""Ended executions go by state and age, a batch at once, and nothing that still counts goes with them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.db.models import Sum

from pipeline.config import pipeline_settings
from pipeline.models import FLOW, Document
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.settings_group import COMMAND_LINE
from queuemgr.flows import callbacks, flow
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle import minute_stats
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import ALL_TIME, Attempt, AuditEntry, Batch, Execution, MinuteStats, State
from queuemgr.operations import batches, executions, failure_retention
from queuemgr.operations.controls import Actor
from queuemgr.operations.undo import undo
from queuemgr.reporting import dashboard
from queuemgr.reporting.failure_retention import kept
from queuemgr.worker import housekeeping, retention
from tests.integration.cli.commands import queue
from tests.integration.operations.batch_fixtures import made

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "test")
ENDED = (State.DONE, State.SKIPPED, State.CANCELLED, State.FAILED)
Probes = Callable[..., list[Execution]]


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None: ...


def age(days: float = 10, **which: Any) -> None:
    """Have these have ended so long ago, with an attempt each."""
    then = database_now() - timedelta(days=days)
    rows = Execution.objects.filter(**which)
    for row in rows:
        Attempt.objects.create(
            lease_id=uuid4(), execution=row, phase=row.phase, step=row.step, priority=1,
            cost=2, leased_at=then, started_at=then, ended_at=then, outcome="done",
        )  # fmt: skip
    for state in ENDED:
        rows.filter(state=state).update(finished_at=then)


def ended(state: State, *keys: str) -> None:
    for key in keys:
        enqueue("probe", key)
    rows = Execution.objects.filter(key__in=keys)
    rows.update(state=state, finished_at=database_now(), route=None)


def keys() -> set[str]:
    return set(Execution.objects.values_list("key", flat=True))


def prune() -> dict[str, int]:
    minute_stats.roll_up(database_now())
    return dict(retention.run(60).by_state)


def test_ended_executions_are_kept_for_ever_unless_a_setting_says_otherwise() -> None:
    for state in ENDED:
        ended(state, state)
    age(days=4000)
    assert housekeeping.prune()["attempts"] == 0
    assert prune() == {}
    assert keys() == set(ENDED)


@pytest.mark.parametrize("state", ENDED)
def test_each_state_goes_by_its_own_days_and_takes_its_attempts(
    state: str, configure: Callable[..., None]
) -> None:
    configure(**{f"keep_{state}_days": 5})
    for each in ENDED:
        ended(each, f"{each}-old", f"{each}-new")
    enqueue("probe", "waiting")
    age(days=6, key__endswith="-old")
    age(days=4, key__endswith="-new")
    before = keys()
    assert prune() == {state: 1}
    assert before - keys() == {f"{state}-old"}
    assert not Attempt.objects.filter(execution__key=f"{state}-old").exists()
    assert Attempt.objects.count() == 7


def test_what_was_pruned_stays_in_the_statistics_and_its_key_may_come_again(
    configure: Callable[..., None],
) -> None:
    configure(keep_done_days=1)
    ended(State.DONE, *map(str, range(20)))
    age(days=2)
    assert prune() == {"done": 20}
    assert MinuteStats.objects.filter(minute=ALL_TIME).aggregate(n=Sum("attempts"))["n"] == 20
    assert all(check.is_right for check in dashboard.read().checks)
    assert enqueue("probe", "7")
    assert prune() == {}


def test_nothing_goes_before_its_attempts_are_in_the_statistics(configure: Callable[..., None]) -> None:
    configure(keep_done_days=1)
    ended(State.DONE, "a")
    age(days=2)
    assert not retention.run(60).by_state
    assert prune() == {"done": 1}


def test_a_batch_goes_whole_once_it_is_closed_and_every_member_may_go(configure: Callable[..., None]) -> None:
    configure(keep_done_days=1)
    for name, rules in {"open": {}, "closed": {}, "failed": {}, "windowed": {"window": 2}}.items():
        made(name, f"{name}-1 {name}-2 {name}-3", **rules)
    Execution.objects.update(state=State.DONE, finished_at=database_now(), route=None)
    Execution.objects.filter(key="failed-2").update(state=State.FAILED)
    for batch in Batch.objects.exclude(name="open"):
        batches.close(batch, ANN)
    Batch.objects.exclude(closed_at=None).update(closed_at=database_now() - timedelta(days=3))
    age(days=2)
    Execution.objects.filter(key="windowed-3").update(finished_at=database_now())
    assert prune() == {"done": 3}
    assert set(Batch.objects.values_list("name", flat=True)) == {"open", "failed", "windowed"}
    assert {key.partition("-")[0] for key in keys()} == {"open", "failed", "windowed"}
    assert len(keys()) == 9
    batches.add(batches.find("open"), [callbacks.NewExecution("open-4")])
    assert Execution.objects.get(key="open-4").batch_seq == 3


def test_one_retried_meanwhile_is_not_deleted(configure: Callable[..., None]) -> None:
    configure(keep_failed_days=1)
    ended(State.FAILED, "a", "b")
    age(days=2)
    chosen = list(Execution.objects.values_list("pk", flat=True))
    executions.retry(Execution.objects.filter(key="a"), ANN)
    deleted = retention._delete_of("probe", chosen, database_now() - timedelta(days=1))
    assert [row.key for row in deleted] == ["b"]


@pytest.mark.only_on("postgres", why="needs two connections")
def test_one_that_somebody_holds_is_left_for_the_next_time(configure: Callable[..., None]) -> None:
    configure(keep_done_days=1)
    ended(State.DONE, "a", "b")
    age(days=2)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            list(Execution.objects.select_for_update().filter(key="a"))
            held.set()
            let_go.wait(60)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    assert prune() == {"done": 1}
    let_go.set()
    holder.join()
    assert prune() == {"done": 1}


def test_what_a_flow_stored_goes_with_its_executions_or_both_stay(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(keep_done_days=1)
    ended(State.DONE, "a", "b")
    enqueue(FLOW, "doi:10.1/1", {"kind": "doi"})
    Execution.objects.filter(flow=FLOW).update(state=State.DONE, finished_at=database_now(), route=None)
    age(days=2)
    forgotten: list[str] = []
    probe = flow.get_flow("probe")

    def fail(keys: Any) -> None:
        raise SystemExit("no")

    monkeypatch.setitem(flow._flows, "probe", flow.replace(probe, forget=fail))
    assert prune() == {"done": 1}
    assert keys() == {"a", "b"}
    assert Attempt.objects.count() == 2
    monkeypatch.setitem(flow._flows, "probe", flow.replace(probe, forget=forgotten.extend))
    assert prune() == {"done": 2}
    assert sorted(forgotten) == ["a", "b"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_document_and_its_files_follow_its_execution_if_a_setting_says_so(
    kept: bool, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """Two documents of the same bytes share a PDF: it stays while one of them does."""
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("SLUICE_KEEP_DOCUMENTS", str(kept).lower())
    pipeline_settings.cache_clear()
    configure(keep_done_days=1)
    for number in (1, 2):
        key = f"doi:10.1/{number}"
        document = Document(key=key, kind="doi", source=key, pdf="pdf/shared.pdf")
        document.text.save(f"{number}.txt", ContentFile(b"text"))
        enqueue(FLOW, key, {"kind": "doi"})
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf/shared.pdf").write_bytes(b"%PDF")

    def end(key: str) -> set[str]:
        rows = Execution.objects.filter(key=key)
        rows.update(state=State.DONE, finished_at=database_now(), route=None)
        age(days=2, key=key)
        assert prune() == {"done": 1}
        return {path.name for path in tmp_path.rglob("*") if path.is_file()}

    everything = {"1.txt", "2.txt", "shared.pdf"}
    assert end("doi:10.1/1") == (everything if kept else {"2.txt", "shared.pdf"})
    assert end("doi:10.1/2") == (everything if kept else set())
    assert Document.objects.count() == (2 if kept else 0)
    pipeline_settings.cache_clear()


def test_prune_says_what_it_would_delete_and_then_deletes_it(configure: Callable[..., None]) -> None:
    ended(State.DONE, "a", "b")
    ended(State.FAILED, "c")
    age(days=2)
    minute_stats.roll_up(database_now())
    try:
        dry = queue("prune", "--dry-run", "--keep-done-days", "1", "--json").records[0]
        assert dry == {
            "dry_run": True,
            "executions": {"done": 2},
            "keep_days": {"done": 1, "skipped": 0, "cancelled": 0, "failed": 0},
            "keep_failed_days_of_flows": {},
        }
        assert keys() == {"a", "b", "c"}
        assert queue("prune", "--keep-done-days", "1", "--reason", "full disk").lines[0] == (
            "done: 2 deleted (kept 1 days)"
        )
    finally:
        os.environ.pop(COMMAND_LINE, None)
    assert keys() == {"c"}
    entry = AuditEntry.objects.get(action="prune")
    assert (entry.affected, entry.reason) == (2, "full disk")


def test_work_continues_and_the_sums_agree_while_thousands_are_deleted(
    played: Callable[..., Any], probes: Probes, configure: Callable[..., None]
) -> None:
    """A worker finishes and takes work as the retention of another process deletes what it ended before."""
    configure(keep_done_days=1, keep_failed_days=1)
    ended(State.DONE, *(f"old-{n}" for n in range(600)))
    age(days=2)
    minute_stats.roll_up(database_now())
    worker, work = played(slots=2), probes(40, prefix="new")
    outcomes: Counter[str] = Counter()
    held = worker.begin_all()
    for number in range(len(work)):
        outcomes.update(retention.run(0.02).by_state)
        following = [grant for grant in held if grant.key][1:]
        following += worker.end(held[0], Failed("not_found", "404") if number % 5 == 0 else None)
        held = following or worker.begin_all()
        if not held:
            break
    while (done := retention.run(1)).by_state or done.left:
        outcomes.update(done.by_state)
    assert outcomes == {"done": 600}
    assert Counter(Execution.objects.values_list("state", flat=True)) == {"done": 32, "failed": 8}
    assert all(check.is_right for check in dashboard.read().checks)


def test_failures_of_a_flow_are_kept_as_long_as_a_person_its_code_or_the_setting_says(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(keep_failed_days=5, keep_done_days=5)
    probe = flow.get_flow("probe")
    ended(State.FAILED, "failed")
    ended(State.DONE, "done")
    age(days=10)
    monkeypatch.setitem(flow._flows, "probe", replace(probe, keep_failed_days=30))
    assert prune() == {"done": 1}
    failure_retention.keep("probe", 0, ANN)
    monkeypatch.setitem(flow._flows, "probe", replace(probe, keep_failed_days=1))
    assert prune() == {}
    assert [each for each in kept() if each.flow == "probe"] == [("probe", 0, "a person")]
    failure_retention.keep("probe", None, ANN)
    assert prune() == {"failed": 1}
    changes = AuditEntry.objects.filter(action="keep failures").order_by("pk")
    assert [(change.before, change.after) for change in changes] == [
        ({"keep_failed_days": None}, {"keep_failed_days": 0}),
        ({"keep_failed_days": 0.0}, {"keep_failed_days": None}),
    ]


def test_failures_of_one_flow_go_although_all_others_are_kept_for_ever(
    configure: Callable[..., None], probes: Probes
) -> None:
    configure(keep_failed_days=0)
    ended(State.FAILED, "a")
    Execution.objects.update(flow="papers")
    ended(State.FAILED, "b")
    age(days=3)
    failure_retention.keep("probe", 2.5, ANN)
    assert prune() == {"failed": 1}
    assert keys() == {"a"}


def test_a_batch_with_a_failure_that_its_flow_keeps_stays_whole(configure: Callable[..., None]) -> None:
    configure(keep_failed_days=1, keep_done_days=1)
    batch = made("b", "x y")
    batches.close(batch, ANN)
    Execution.objects.update(state=State.DONE, route=None, finished_at=database_now())
    Execution.objects.filter(key__endswith="x").update(state=State.FAILED)
    Batch.objects.update(closed_at=database_now() - timedelta(days=3), completed_at=database_now())
    age(days=2)
    failure_retention.keep("probe", 0, ANN)
    assert prune() == {}
    failure_retention.keep("probe", 1, ANN)
    assert Counter(prune()) == Counter(done=1, failed=1)


def test_how_long_failures_are_kept_is_stated_shown_and_undone() -> None:
    assert queue("failed", "keep", "probe", "--days", "30", "--reason", "audit").code == 0
    assert "a person" in queue("failed", "keep").out
    assert '"keep_failed_days": 30' in next(
        line for line in queue("failed", "keep", "--json").out.splitlines() if '"probe"' in line
    )
    change = AuditEntry.objects.get(action="keep failures")
    assert (change.target, change.reason) == ("probe", "audit")
    undo(change, ANN)
    assert failure_retention.stated("probe") is None
    assert queue("failed", "keep", "probe").code == 3
    assert queue("failed", "keep", "nonsense", "--days", "1").code == 3


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf"), 10**9])
def test_days_that_are_none_are_refused(days: float) -> None:
    with pytest.raises(BadInput):
        failure_retention.keep("probe", days, ANN)
