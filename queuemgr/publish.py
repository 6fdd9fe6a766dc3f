"""Sending leases out as Celery messages: a hint, in bounded time, never more.

A message that could not be sent is no loss: its lease runs out unstarted and is given out again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from celery import current_app
from kombu.exceptions import OperationalError

from queuemgr.errors import UnknownFlow, UnknownStep
from queuemgr.flow import get_flow
from queuemgr.grant import Grant

logger = logging.getLogger(__name__)

UNKNOWN_STEP = "queuemgr.unknown_step"
GIVE_UP = (OperationalError, OSError, TimeoutError)


def send(grants: Sequence[Grant]) -> int:
    """Publish these leases; stops at the first failure and returns how many went out."""
    if not grants:
        return 0
    sent = 0
    try:
        with current_app.producer_or_acquire(None) as producer:
            for sent, grant in enumerate(grants, start=1):
                current_app.send_task(
                    task_of(grant),
                    args=[str(grant.lease_id)],
                    task_id=str(grant.lease_id),
                    queue=grant.queue,
                    producer=producer,
                    retry=False,
                    ignore_result=True,
                    argsrepr=repr(grant.key),
                )
    except GIVE_UP as error:
        logger.warning("broker does not answer (%s): %d leases wait to be given out again",
                       type(error).__name__, len(grants) - sent + 1)
        return sent - 1
    return sent


def task_of(grant: Grant) -> str:
    """The Celery task that does this grant's step; a step that is gone goes to one that says so."""
    try:
        return get_flow(grant.flow).at(grant.phase, grant.step).step.task
    except (UnknownFlow, UnknownStep):
        return UNKNOWN_STEP
