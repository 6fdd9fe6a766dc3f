"""The timeline of an execution, made from its rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from queuemgr.base.time_text import duration_text
from queuemgr.models import Attempt, AuditEntry, Outcome
from queuemgr.reporting.timeline import timeline

START = datetime(2026, 11, 28, 6, tzinfo=UTC)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def attempt(due: float, leased: float, started: float, ended: float, **columns: Any) -> Attempt:
    return Attempt(
        pk=1, phase="prep", step="fetch", due_at=second(due), leased_at=second(leased),
        started_at=second(started), ended_at=second(ended),
        **{"outcome": Outcome.DONE, **columns},
    )  # fmt: skip


def what_and_how_long(*attempts: Attempt, changes: Any = ()) -> list[tuple[str, str]]:
    entries = timeline(attempts, changes, START)
    return [
        (e.what, duration_text(e.lasted.total_seconds()) if e.lasted is not None else "") for e in entries
    ]


def test_each_wait_is_listed_with_its_reason() -> None:
    tries = (
        attempt(0, 30, 33, 43, outcome=Outcome.RETRIED, limit_keys="host:a"),
        attempt(103, 103, 103, 104),
    )
    assert what_and_how_long(*tries) == [
        ("enqueued", ""),
        ("waited for limits and slots", "30 s"),
        ("dispatched", "3.0 s"),
        ("prep/fetch failed, will be retried", "10 s"),
        ("waited before the retry", "1 min"),
        ("prep/fetch done", "1.0 s"),
    ]


def test_moments_too_short_to_matter_are_left_out() -> None:
    assert what_and_how_long(attempt(0, 0.2, 0.4, 0.5)) == [("enqueued", ""), ("prep/fetch done", "100 ms")]


def test_operator_actions_are_listed_when_they_happened_and_payloads_are_left_out() -> None:
    change = AuditEntry(
        at=second(5), actor="ann", action="edit payload", after={"payload": {"url": "x"}},
        reason="wrong address",
    )  # fmt: skip
    entries = timeline([attempt(0, 0, 0, 1), attempt(9, 9, 9, 10)], [change], None)
    assert [e.what for e in entries if e.kind != "wait"] == [
        "prep/fetch done", "edit payload by ann", "prep/fetch done",
    ]  # fmt: skip
    assert [e.detail for e in entries if e.kind == "change"] == ["payload edited; wrong address"]
