"""What was recorded of a run, as plain records: the only input of the checker.

Times are Unix seconds of the one machine's clock, read from the database, from the trace files of the
probes, from the paper server's log and from the faults caused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FINAL = frozenset({"done", "failed", "skipped", "cancelled"})


@dataclass(frozen=True, slots=True)
class Execution:
    """A row of the executions, at the end."""

    key: str
    state: str
    created: float
    finished: float | None = None
    error: str = ""
    batch: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the attempts: how one lease ended. `limits` are its limit keys."""

    lease: str
    key: str
    phase: str
    step: str
    priority: str
    limits: tuple[str, ...]
    worker: str
    leased: float
    started: float
    ended: float
    outcome: str
    cost: int = 0
    error: str = ""
    message: str = ""
    day: str = ""
    """The UTC day of `leased` by the database's clock, which may have been stepped; empty: by `leased`."""
    used: tuple[tuple[str, int], ...] = ()
    """What it used, by meter other than requests."""
    reserved: tuple[tuple[str, int], ...] = ()
    """What its step was stated to use; what was reserved is no less."""
    ahead: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Seconds by which the fleet's clock had been put ahead when it was leased, when it began, when it
    ended."""

    def amount(self, meter: str) -> int:
        """What was reserved of a meter at least."""
        return dict(self.reserved).get(meter, 0)

    def use(self, meter: str) -> int:
        """What it used of a meter."""
        return dict(self.used).get(meter, 0)

    @property
    def by_clock(self) -> tuple[float, float, float]:
        """When it was leased, began and ended by the fleet's clock."""
        leased, started, ended = self.ahead
        return self.leased + leased, self.started + started, self.ended + ended

    @property
    def names(self) -> tuple[str, ...]:
        """All limits it had to pass."""
        return ("fleet", f"phase:{self.phase}", *self.limits)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a probe by its own trace: from its start line to its end line, if it wrote one."""

    lease: str
    key: str
    worker: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a paper, as recorded by the paper server."""

    key: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """A value of a limit set by an operator; in force from some time between `began` and `done`.

    The value 0 is no cap; for a budget, None is none.
    """

    limit: str
    field: str
    value: Any
    began: float
    done: float


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `starts` starts in `period` seconds under a limit, and `burst` at once after a pause."""

    limit: str
    starts: float
    period: float
    burst: int = 1


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work under one rated limit and no other, enqueued at once while no fault was in effect and nothing else
    waited.

    All of it was acknowledged at `since`, and was watched up to `until`; the fleet had so many `slots`.
    """

    limit: str
    keys: Sequence[str]
    since: float
    until: float
    slots: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and when it was undone.

    `bound` is the seconds by which work continues: after its end if it `stops` all work while it lasts, else
    after its beginning. `leases` says whose leases it may cost: a
    worker, `any`, or nobody's (empty); `messages` whether messages may be lost in it.
    """

    kind: str
    target: str
    began: float
    ended: float
    bound: float = 15.0
    leases: str = ""
    messages: bool = True
    stops: bool = True

    @property
    def over(self) -> float:
        """When it excuses no pause any more."""
        return (self.ended if self.stops else self.began) + self.bound


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator asked for one execution: `cancel`, `retry` or `priority`.

    `changed` says whether the command reported a change.
    """

    verb: str
    key: str
    began: float
    done: float
    changed: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that was refused again and again from one time until another, and with what words."""

    began: float
    ended: float
    words: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """A backup taken at one time and restored at another: what was written between them is lost."""

    backup: float
    began: float
    restored: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests spent on a UTC day (`2026-01-31`) under a limit, by the database."""

    day: str
    name: str
    spent: int


@dataclass(frozen=True, slots=True)
class SpentInPeriod:
    """What was spent under a limit in a period of a calendar allowance, by the database: `tokens/minute` from
    a moment of the fleet's clock."""

    name: str
    allowance: str
    starts: float
    spent: int


@dataclass(frozen=True, slots=True)
class Refilled:
    """When a rolling allowance of a limit (`tokens/week`) will have refilled, by the database and the fleet's
    clock, all that was given back counted."""

    name: str
    allowance: str
    at: float


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """What became of the due times of a schedule from `due` to `last`, by the fleet's clock, which may have
    been stepped. `decided` is in real time; `key` that of the execution, if there is one."""

    schedule: str
    due: float
    last: float
    decided: float
    outcome: str
    reason: str = ""
    key: str = ""
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class UniqueCall:
    """A call for a thing of which there may be one, that was acknowledged, and the execution it got."""

    thing: str
    rule: str
    got: str
    began: float
    done: float


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """A batch that was acknowledged, with three callbacks."""

    name: str
    acknowledged: float


@dataclass(frozen=True, slots=True)
class Batch:
    """A row of the batches, at the end."""

    name: str
    around: str = ""
    completed: float | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Everything recorded of one run.

    `enqueued` are the keys whose enqueue was acknowledged, and when. `callbacks` are the times at which the
    callbacks of a well-behaved flow were called, and `steps` those at which the fleet's clock was put ahead
    by days. `overloads` are the times in which the machine itself had no processor to spare, as far as they
    were watched: while the backlogs lasted. `locks_lost` are the hosts that disappeared while they held the
    scheduler lock.
    """

    enqueued: Mapping[str, float] = field(default_factory=dict)
    executions: Sequence[Execution] = ()
    attempts: Sequence[Attempt] = ()
    runs: Sequence[Run] = ()
    requests: Sequence[Request] = ()
    edits: Sequence[Edit] = ()
    rates: Sequence[Rate] = ()
    faults: Sequence[Fault] = ()
    usage: Sequence[Usage] = ()
    periods: Sequence[SpentInPeriod] = ()
    refilled: Sequence[Refilled] = ()
    orders: Sequence[Order] = ()
    refusals: Sequence[Refusal] = ()
    rewinds: Sequence[Rewind] = ()
    callbacks: Sequence[float] = ()
    steps: Sequence[float] = ()
    backlogs: Sequence[Backlog] = ()
    overloads: Sequence[tuple[float, float]] = ()
    scheduled: Sequence[ScheduledRun] = ()
    calls: Sequence[UniqueCall] = ()
    opened: Sequence[OpenedBatch] = ()
    batches: Sequence[Batch] = ()
    leases_left: int = 0
    locks_lost: int = 0

    @property
    def calm_keys(self) -> frozenset[str]:
        """The keys of the work that was enqueued only when all other work was done."""
        return frozenset(key for backlog in self.backlogs for key in backlog.keys)

    def was_taken_back(self, moment: float) -> bool:
        """Whether what was written then was lost with the restore of a backup."""
        return any(r.backup <= moment <= r.restored for r in self.rewinds)


def is_periodic(key: str) -> bool:
    """Whether an execution is of a due time: something that continues whatever else stands still."""
    return "/schedule:" in key
