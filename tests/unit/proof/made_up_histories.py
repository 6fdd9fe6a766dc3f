"""Histories of a run of the proof, made up from a few attempts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from proof.records import Attempt, Backlog, Edit, Execution, Fault, History, Rate, Request, Run

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
DAY = "2026-01-31"


def attempt(key: str, start: float, end: float, **more: Any) -> Attempt:
    """Leased and started at a second after noon, done at another."""
    given = {
        "lease": f"{key} at {start}", "key": key, "phase": "prep", "step": "probe",
        "priority": "normal", "limits": (), "worker": "alpha@host", "leased": NOON + start,
        "started": NOON + start, "ended": NOON + end, "outcome": "done", **more,
    }  # fmt: skip
    return Attempt(**given)


def execution(key: str, created: float = 0, finished: float = 1000, state: str = "done") -> Execution:
    return Execution(key, state, NOON + created, NOON + finished)


def run(of: Attempt, start: float, end: float | None, **more: Any) -> Run:
    ends = None if end is None else NOON + end
    return Run(of.lease, of.key, f"{of.worker}/1", NOON + start, ends, **more)


def request(key: str, start: float, end: float | None) -> Request:
    return Request(key, NOON + start, None if end is None else NOON + end)


def limit(name: str, value: int | None, field: str = "max_running", at: float = -60) -> Edit:
    return Edit(name, field, value, NOON + at, NOON + at + 0.1)


AWAY = Fault("restart database", "database", NOON - 1, NOON + 1000, leases="any", messages=False)
"""A fault that excuses losses and pauses, where neither is what a case is about."""


def of(*attempts: Attempt, **more: Any) -> History:
    """A history of attempts, each execution done when its last attempt ended, unless given otherwise."""
    last = {a.key: max(b.ended for b in attempts if b.key == a.key) for a in attempts}
    done = [Execution(key, "done", NOON, ended) for key, ended in last.items()]
    return History(
        attempts=attempts,
        **{"executions": done, "enqueued": dict.fromkeys(last, NOON), "faults": [AWAY], **more},
    )


def under_a_rate(gap: float, slots: int = 19, runs: float = 0.01, started: int = 120, **more: Any) -> History:
    """A backlog of 120 under `5/s`, whose work starts with this gap and runs this long; so many start."""
    keys = [f"calm-{number}" for number in range(120)]
    starts = {key: gap * n for n, key in enumerate(keys[:started], start=1)}
    attempts = [attempt(key, at, at + runs, limits=("calm:fast",)) for key, at in starts.items()]
    executions = [execution(key, finished=at + runs) for key, at in starts.items()]
    backlog = Backlog("calm:fast", keys, NOON, NOON + 60, slots)
    return of(
        *attempts, executions=executions, faults=[], rates=[Rate("calm:fast", 5, 1)], backlogs=[backlog],
        **more,
    )  # fmt: skip
