"""The errors Sluicegate raises.

Plain Python: steps raise them, and steps import neither Django nor Celery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any


class SluiceError(Exception):
    """Base class of all errors raised by Sluicegate."""


class ConfigurationError(SluiceError):
    """A setting or an argument cannot work; the message names it, its value and what to do."""


class MissingExtra(ConfigurationError, ImportError):
    """What was asked for needs an extra of the distribution that is not installed; the message names it."""

    def __init__(self, extra: str, packages: Sequence[str]) -> None:
        verb = "is" if len(packages) == 1 else "are"
        super().__init__(f"{', '.join(packages)} {verb} not installed: pip install 'sluicegate[{extra}]'")


class RuleFailed(ConfigurationError):
    """A flow's rule (`key`, `cost`, `needed` and so on) raised, or returned what cannot be used.

    `at` is the step (a `StepRef`) whose rule it was, or None where no step is needed at all.
    """

    def __init__(self, message: str, at: Any = None) -> None:
        super().__init__(message)
        self.at = at


class UnknownFlow(SluiceError):
    """No flow of this name is registered."""


class UnknownStep(SluiceError):
    """The flow has no step of this name, as when a deployment removed it while work waited there."""


class IllegalMove(SluiceError):
    """A state change of an execution that the table of legal moves does not allow."""


class NeverFits(SluiceError):
    """Refused when enqueued: a limit could never admit this work, even when idle."""


class QueueFull(SluiceError):
    """Refused when enqueued: the queue has as many waiting executions as `max_pending` allows.

    `new` executions of the same call were enqueued before this one and stay; `already` existed.
    """

    def __init__(self, queue: str, depth: int, cap: int, new: int = 0, already: int = 0) -> None:
        self.queue, self.depth, self.cap, self.new, self.already = queue, depth, cap, new, already
        super().__init__(queue, depth, cap, new, already)

    def __str__(self) -> str:
        before = f"; {self.new} were enqueued before" + (f", {self.already} existed" if self.already else "")
        return (
            f"queue {self.queue} is full: {self.depth} wait, its max_pending is {self.cap}"
            f"{before if self.new or self.already else ''}. Wait until it drains, or raise max_pending"
        )

    def after(self, new: int, already: int) -> QueueFull:
        """The same refusal, with so many more enqueued before it."""
        return QueueFull(self.queue, self.depth, self.cap, self.new + new, self.already + already)


class NameTaken(SluiceError):
    """A worker is refused at its start: another of its name is alive, which had a heartbeat `ago` seconds
    before."""

    def __init__(self, name: str, host: str, pid: int, ago: float) -> None:
        self.name, self.host, self.pid, self.ago = name, host, pid, ago
        super().__init__(name, host, pid, ago)

    def __str__(self) -> str:
        return (
            f"another worker called {self.name} is alive (pid {self.pid} on {self.host}, heartbeat "
            f"{max(0.0, self.ago):.0f} s ago): stop it, or start this one under another name "
            "(`worker --name`, `celery worker -n`)"
        )


class UniqueKeyBusy(SluiceError):
    """Refused when enqueued: others take and release the unique key faster than this call finds out who has
    it. The same call may succeed a moment later."""


class BadInput(SluiceError):
    """Input from a person is invalid; the message quotes it and says what is valid."""


class BadPayload(BadInput):
    """A payload that its flow does not take; `fields` says what is wrong by the member it is at."""

    def __init__(self, message: str, fields: Mapping[str, str]) -> None:
        super().__init__(message)
        self.fields = fields

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.fields))


class AuditLogIsImmutable(SluiceError):
    """An attempt to alter or delete a row of the audit log."""

    def __str__(self) -> str:
        return "the audit log is append-only: undo a change instead"


class CannotUndo(SluiceError):
    """A change cannot be undone: its kind never can, it was undone before, or its target changed since."""


class StillStoring(SluiceError):
    """A step is storing its result, which takes longer than an action on its execution waits."""


class LeaseLost(SluiceError):
    """The lease ended while its step ran (it expired, or was revoked): nothing may be stored."""


class Aborted(SluiceError):
    """The abort signal was set while the step ran; raised by the step itself."""


class StepFailed(SluiceError):
    """A step failed.

    `kind` is the error kind, which selects the retry policy. `retry_after` is the delay in seconds a
    server asked for, or None. `limit` names the limit of that server, if it is not one of the step's
    own limit keys; `meter` the meter of which it has too little left, if it said so.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retry_after: float | None = None,
        http_status: int | None = None,
        limit: str = "",
        meter: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.http_status = http_status
        self.limit = limit
        self.meter = meter

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle with keywords: an exception that cannot be unpickled ends a prefork pool."""
        rebuild = partial(
            type(self), retry_after=self.retry_after, http_status=self.http_status, limit=self.limit,
            meter=self.meter,
        )  # fmt: skip
        return (rebuild, (self.kind, self.message))
