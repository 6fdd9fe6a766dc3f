"""What a reason why work waits is about, and what a person can do about it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from queuemgr.flows.flow import all_queues
from queuemgr.scheduling.decision_input import ReasonKind

LIMIT, QUEUE, WORKER, FAILURES, SCHEDULE = "limit", "queue", "worker", "failures", "schedule"


class Thing(NamedTuple):
    """A limit, queue, worker, schedule or failures (`kind`); without a name it stands for all of them."""

    kind: str
    name: str = ""


class Remedy(NamedTuple):
    """Something to do (`verb`) to the limit, queue or worker of this name."""

    kind: str
    verb: str
    name: str


VERBS: dict[str, str] = {
    "capacity": "cap", "never": "cap", "paused": "resume",
    "breaker_open": "unblock", "half_open": "unblock", "provider": "unblock",
}  # fmt: skip
"""By the kind of a reason; what is not here ends with time, or with other work."""

ABOUT_NOTHING = ("run_after", "retries", "batch_window")
"""Kinds of reasons that are about no limit, queue or worker."""


def thing_of(kind: ReasonKind | str, name: str) -> Thing | None:
    """What a reason of this kind that names this is about."""
    if kind in ABOUT_NOTHING:
        return None
    if kind in ("workers", "drained"):
        return Thing(WORKER)
    return Thing(QUEUE if name in all_queues() else LIMIT, name)


def remedy_of(kind: ReasonKind | str, name: str) -> Remedy | None:
    thing, verb = thing_of(kind, name), VERBS.get(kind)
    return Remedy(thing.kind, verb, thing.name) if thing and verb else None
