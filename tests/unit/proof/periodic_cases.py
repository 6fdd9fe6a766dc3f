"""Made-up histories of schedules, of what is unique and of batches: a clean one, and one with a violation."""

from __future__ import annotations

from typing import Any

from proof.records import Batch, Execution, History, OpenedBatch, Order, Rewind, ScheduledRun, UniqueCall
from tests.unit.proof.made_up_histories import NOON, attempt, of

SECONDS, PAUSES, MINUTES = "proof-seconds", "proof-pauses", "proof-minutes"
BY_A_PERSON, NOBODY = "paused by ann", "nothing ran schedules meanwhile"
REWIND = Rewind(NOON + 5, NOON + 15, NOON + 16)


def due(at: float, schedule: str = SECONDS, **more: Any) -> ScheduledRun:
    given = {"last": at, "decided": at + 0.5, "outcome": "enqueued", "reason": "", **more}
    key = f"probe/schedule:{schedule}@{at}" if given["outcome"] == "enqueued" else ""
    ended = given.get("ended")
    return ScheduledRun(
        schedule, NOON + at, NOON + given["last"], NOON + given["decided"], given["outcome"], given["reason"],
        key, None if ended is None else NOON + ended,
    )  # fmt: skip


def with_due(*runs: ScheduledRun, **more: Any) -> History:
    """These runs, and one of each schedule that has none of them."""
    named = {run.schedule for run in runs}
    every = [*runs, *(due(0, name) for name in (SECONDS, PAUSES, MINUTES) if name not in named)]
    attempts = [attempt(run.key, run.due - NOON, run.due - NOON + 1) for run in every if run.key]
    return of(*attempts, **{"scheduled": every, "faults": [], **more})


def with_calls(
    *calls: tuple[str, float], rule: str = "skip", spans: tuple[tuple[float, float], ...] = ((0, 5), (6, 9)),
    **more: Any,
) -> History:  # fmt: skip
    """Calls for one thing: what each got, and when; and its executions, each by its time."""
    attempts = [attempt(f"patient/{rule}-0.{n}", *span) for n, span in enumerate(spans)]
    made = [
        UniqueCall(f"{rule}-0", rule, f"patient/{rule}-0.{got}", NOON + at, NOON + at) for got, at in calls
    ]
    return of(*attempts, calls=made, **{"faults": [], **more})


def with_batch(*fired: str, member: str = "done", completed: float | None = 9, at: float = 9) -> History:
    """A batch with one member that ended at the ninth second, and what it called when."""
    ended = attempt("probe/b-0", 0, 9, outcome=member)
    calls = [f"patient/b:{event}" for event in fired]
    orders = [Order("cancel", "probe/b-0", NOON + 1, NOON + 2)] if member == "cancelled" else []
    executions = [Execution("probe/b-0", member, NOON, NOON + 9, batch="b")]
    executions += [Execution(call, "done", NOON + at, NOON + 20) for call in calls]
    return of(
        ended, *(attempt(call, 19, 20) for call in calls), executions=executions, orders=orders,
        opened=[OpenedBatch("b", NOON)], batches=[Batch("b", "", completed and NOON + completed)],
    )  # fmt: skip


CASES: dict[str, tuple[str, History, History]] = {
    "a due time that is missing": ("schedules", with_due(due(0), due(3)), with_due(due(0), due(6))),
    "a due time that comes twice": ("schedules", with_due(due(0), due(3)), with_due(due(0), due(0.5))),
    "a schedule that never runs": (
        "schedules", with_due(), of(attempt(due(0).key, 0, 1), scheduled=[due(0)], faults=[]),
    ),
    "a run too soon after the end of the one before": (
        "schedules",
        with_due(due(0, PAUSES, ended=2), due(6, PAUSES)), with_due(due(0, PAUSES, ended=3), due(6, PAUSES)),
    ),
    "a run without an execution": (
        "schedules",
        with_due(due(0)),
        of(*(attempt(due(0, name).key, 0, 1) for name in (PAUSES, MINUTES)), faults=[],
           scheduled=[due(0, name) for name in (SECONDS, PAUSES, MINUTES)]),
    ),
    "an execution of a schedule without a run": (
        "schedules",
        with_due(due(0)),
        of(*(attempt(due(0, name).key, 0, 1) for name in (SECONDS, PAUSES, MINUTES)),
           attempt(due(3).key, 3, 4), faults=[],
           scheduled=[due(0, name) for name in (SECONDS, PAUSES, MINUTES)]),
    ),
    "a due time missed without a cause": (
        "schedules",
        with_due(due(0, last=300, decided=400, outcome="missed", reason=NOBODY), steps=[NOON + 390]),
        with_due(due(0, last=300, decided=400, outcome="missed", reason=NOBODY)),
    ),
    "a due time skipped without a cause": (
        "schedules",
        with_due(due(0, outcome="skipped", reason=BY_A_PERSON)),
        with_due(due(0, outcome="skipped", reason="it was not inserted")),
    ),
    "two of what is unique at once": ("uniqueness", with_calls(), with_calls(spans=((0, 5), (2, 9)))),
    "a call that got what is not there": (
        "uniqueness", with_calls(("0", 1)), with_calls(("2", 1)),
    ),
    "a call that got what had ended": ("uniqueness", with_calls(("0", 4)), with_calls(("0", 7))),
    "a call that got what had begun": (
        "uniqueness", with_calls(("1", 5), rule="replace"), with_calls(("1", 8), rule="replace"),
    ),
    "a call lost that was acknowledged before the backup": (
        "uniqueness", with_calls(("2", 10), rewinds=[REWIND]), with_calls(("2", 4), rewinds=[REWIND]),
    ),
    "a batch that does not complete": (
        "fan-in", with_batch("on_complete", "on_success"), with_batch(completed=None),
    ),
    "a batch that is gone": (
        "fan-in", of(opened=()), of(opened=[OpenedBatch("b", NOON)]),
    ),
    "a callback that is missing": (
        "fan-in", with_batch("on_complete", "on_success"), with_batch("on_success"),
    ),
    "the wrong callback": (
        "fan-in", with_batch("on_complete", "on_failure", member="cancelled"),
        with_batch("on_complete", "on_success", member="cancelled"),
    ),
    "both callbacks, and nobody retried anything": (
        "fan-in", with_batch("on_complete", "on_success"),
        with_batch("on_complete", "on_success", "on_failure"),
    ),
    "a callback before the last member ended": (
        "fan-in", with_batch("on_complete", "on_success"), with_batch("on_complete", "on_success", at=8),
    ),
}  # fmt: skip
