"""What becomes of a due run while an earlier one has not ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

ALLOW, SKIP, QUEUE_ONE = "allow", "skip", "queue one"
POLICIES = (ALLOW, SKIP, QUEUE_ONE)


class Decision(NamedTuple):
    """The due times to enqueue now, the one that waits for the run before it to end, and those skipped."""

    enqueue: tuple[datetime, ...]
    held: datetime | None = None
    skipped: tuple[datetime, ...] = ()


def decide(due: Sequence[datetime], policy: str, *, is_running: bool, held: datetime | None) -> Decision:
    """`is_running`: a run that was enqueued before has not ended; `held` waits for the end of it.

    The one that waits is the earliest: it waits no longer because others follow it.
    """
    waiting = [*filter(None, (held,)), *(at for at in due if at != held)]
    if policy == ALLOW:
        return Decision(tuple(waiting))
    enqueue = () if is_running else tuple(waiting[:1])
    rest = waiting[len(enqueue) :]
    if policy == QUEUE_ONE and rest:
        return Decision(enqueue, rest[0], tuple(rest[1:]))
    return Decision(enqueue, None, tuple(rest))
