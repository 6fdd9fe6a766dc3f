"""What can go wrong, by name.

Plain Python on purpose: steps raise these, and steps know neither Django nor Celery.
"""

from __future__ import annotations


class SluiceError(Exception):
    """Base of every error Sluicegate raises itself."""


class ConfigurationError(SluiceError):
    """A setting or an argument cannot work; the message names it, its value and the remedy."""


class UnknownFlow(SluiceError):
    """No flow of this name is registered."""


class UnknownStep(SluiceError):
    """The flow has no step of this name: a deployment removed it while work waited there."""


class IllegalMove(SluiceError):
    """An execution was asked to go from one state to another the table of moves does not allow."""


class NeverFits(SluiceError):
    """Refused at enqueue: no limit, however idle, could ever admit this work."""


class QueueFull(SluiceError):
    """New work was refused: the queue holds as many waiting executions as it may.

    `new` and `already` say what of the same call went in before, and stays.
    """

    def __init__(self, queue: str, depth: int, cap: int, new: int = 0, already: int = 0) -> None:
        self.queue, self.depth, self.cap, self.new, self.already = queue, depth, cap, new, already
        went_in = f"; {new} went in before it" + (f", {already} were there" if already else "")
        super().__init__(
            f"queue {queue} is full: {depth} wait, its max_pending is {cap}"
            f"{went_in if new or already else ''}. Wait until it drains, or raise max_pending"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.queue, self.depth, self.cap, self.new, self.already))


class BadInput(SluiceError):
    """What a person gave cannot be used; the message quotes it and says what would be right."""


class AuditLogIsImmutable(SluiceError):
    """A row of the record of changes was to be altered or deleted."""

    def __init__(self) -> None:
        super().__init__("the audit log is append-only: undo a change instead")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), ())


class CannotUndo(SluiceError):
    """A change is not undone: of its kind none is, it was undone already, or more has changed since."""


class LeaseLost(SluiceError):
    """The lease ended while its step ran (it expired, or was withdrawn): nothing may be stored."""


class Aborted(SluiceError):
    """The abort signal was set while work was under way; raised by the work itself."""


class StepFailed(SluiceError):
    """A step could not do its work.

    `kind` names the row of the retry policy table (see `retry_policy`) that decides what follows.
    `retry_after` is the wait in seconds a server asked for, or None; `limit` names the limit that
    stands for that server, where it is not the key the step works under.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retry_after: float | None = None,
        http_status: int | None = None,
        limit: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.http_status = http_status
        self.limit = limit

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild with keywords: an exception that cannot be unpickled takes a prefork pool down."""
        facts = (self.kind, self.message, self.retry_after, self.http_status, self.limit)
        return (_rebuild, (type(self), *facts))


def _rebuild(
    cls: type[StepFailed],
    kind: str,
    message: str,
    retry_after: float | None,
    status: int | None,
    limit: str,
) -> StepFailed:
    return cls(kind, message, retry_after=retry_after, http_status=status, limit=limit)
