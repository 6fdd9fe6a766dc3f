"""What a worker or a beat that starts says when it can do nothing for the queue, and why."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Any

from queuemgr.flows.flow import HOUSEKEEPING, all_queues, application_flows
from queuemgr.worker import flow_modules
from queuemgr.worker.beat_schedule import beat_schedule

logger = logging.getLogger(__name__)


def log_useless_worker(consumed: Collection[str]) -> None:
    for why in reasons(consumed):
        logger.warning("%s", why)


def reasons(consumed: Collection[str]) -> Iterator[str]:
    """Why a worker that consumes these queues runs no step. One for periodic jobs alone is none of those."""
    if not application_flows():
        yield (
            f"no flow or queued task is registered, so that there is no step to run: "
            f"{flow_modules.where_to_look()}; declare them there, in an app of INSTALLED_APPS"
        )
    elif not {HOUSEKEEPING, *all_queues()} & set(consumed):
        yield (
            f"this worker runs no step of the queue: it consumes {', '.join(sorted(consumed))}, and the "
            f"queues of flows are {', '.join(all_queues())}; name some of them in -Q, or leave -Q out"
        )


def log_useless_beat(sender: Any = None, **kwargs: Any) -> None:
    """Called when beat starts, with its service: say which periodic jobs are not on its schedule."""
    if missing := missing_jobs(sender.scheduler.schedule.values()):
        logger.warning(
            "beat does not send %s of the queue: its schedule was replaced after Django had been set up; "
            "state yours in CELERY_BEAT_SCHEDULE, or add to app.conf.beat_schedule instead of assigning it",
            ", ".join(missing),
        )


def missing_jobs(entries: Collection[Any]) -> list[str]:
    """The periodic jobs that none of these entries of a schedule sends."""
    sent = {entry.task for entry in entries}
    return [name for name, job in beat_schedule().items() if job["task"] not in sent]
