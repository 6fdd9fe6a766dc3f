"""Publishes leases as Celery messages, in bounded time. A message is only a hint.

If one cannot be sent nothing is lost: its lease expires unstarted and its execution is leased again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from celery import current_app
from kombu.exceptions import BatchPublishError, OperationalError  # type: ignore[attr-defined]  # old stubs

from queuemgr.base import process_state
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.base.redaction import clean, without_secrets
from queuemgr.flows.flow import HOUSEKEEPING, async_queue, get_flow
from queuemgr.lifecycle import log_context, tracing
from queuemgr.lifecycle.leases import Grant

logger = logging.getLogger(__name__)

UNKNOWN_STEP = "queuemgr.unknown_step"
"""The Celery task that takes leases of steps which this process does not know."""

LEASE_HEADER = "sluice_lease"
"""In every message of a lease: a worker that has no task of its name takes it by `UNKNOWN_STEP`."""

NO_TIME_LIMIT = 100 * 86_400
"""Seconds, of Celery's own limits: a message without one has its application's, and one message carries
a slot through many steps. The time limits of a step are ours (`worker/time_limits.py`)."""

AT_ONCE = 256
"""Most messages in one round trip to a broker that takes several in one (Redis). Others get one by one."""

JOB_PERIODS = 2
"""Ticks after which a message for a periodic job expires: a tick has sent another."""


@lru_cache(maxsize=1)
def broker_errors() -> tuple[type[Exception], ...]:
    """What is raised when the broker is down or does not answer, by whichever transport."""
    link = current_app.connection_for_write()
    return (*link.connection_errors, *link.channel_errors, OperationalError, BatchPublishError, OSError)


process_state.register(broker_errors.cache_clear)


MAX_ADDRESS = 200


def broker_address() -> str:
    """Where this process sends its messages, as text that is the same in processes that reach one another:
    without the password, and with the folder of messages that are files. Empty if it cannot work."""
    link = current_app.connection_for_write()
    options: Mapping[str, Any] = current_app.conf.broker_transport_options or {}
    place = [str(options[name]) for name in ("data_folder_in", "global_keyprefix") if options.get(name)]
    try:
        address = " ".join([link.as_uri(), *place])
    except (KeyError, ImportError):  # there is no such transport here
        return ""
    return without_secrets(re.sub(r"\b127\.0\.0\.1\b", "localhost", address))[:MAX_ADDRESS]


def send(grants: Sequence[Grant]) -> int:
    """Publish these leases; stops at the first failure and returns how many were sent for certain: of those
    collected for a round trip that failed, or was never made, none."""
    if not grants:
        return 0
    sent, collected = 0, False
    try:
        with current_app.producer_or_acquire(None) as producer, producer.batch(AT_ONCE):
            collected = producer.supports_batch_publish
            for grant in grants:
                _send(grant, producer)
                sent += 1
    except broker_errors() as error:
        sent = 0 if collected else sent
        _log_unsent(grants[sent:], (isinstance(error, BatchPublishError) and error.__cause__) or error)
    return sent


def _log_unsent(grants: Sequence[Grant], error: BaseException) -> None:
    """One line for all, about the first: while the broker is away there may be thousands a second."""
    if not grants:
        return
    with log_context.about(grants[0], log_context.NO_WORKER):
        logger.warning(
            "broker does not answer (%s): the work is stored; %d leases will be granted again, first %s",
            type(error).__name__, len(grants), grants[0],
        )  # fmt: skip


def periodic_job(task: str) -> None:
    """Ask the housekeeping worker to run a periodic job now; only a hint, as the tick asks again."""
    expires = queue_settings().poll_interval * JOB_PERIODS
    try:
        with current_app.producer_or_acquire(None) as producer:
            current_app.send_task(task, queue=HOUSEKEEPING, producer=producer, retry=False, expires=expires)
    except broker_errors() as error:
        logger.warning("broker does not answer (%s): %s waits for the tick", type(error).__name__, task)


def _send(grant: Grant, producer: Any) -> None:
    lease_id = str(grant.lease_id)
    current_app.send_task(
        task_of(grant),
        args=[lease_id],
        task_id=lease_id,
        queue=queue_of_async_slots(grant.queue) if grant.is_async else grant.queue,
        producer=producer,
        retry=False,
        ignore_result=True,
        time_limit=NO_TIME_LIMIT,
        soft_time_limit=NO_TIME_LIMIT,
        headers={**tracing.headers(grant), LEASE_HEADER: "1"},
        argsrepr=repr(clean(grant.key)),
    )


def queue_of_async_slots(queue: str) -> Any:
    """The Celery queue itself, by which it is sent to and consumed. By its name Celery would add it to those
    of the application, and a worker started without `-Q` consume it for its slots, too."""
    return current_app.amqp.queues.new_missing(async_queue(queue))


def task_of(grant: Grant) -> str:
    """The Celery task of this grant's step; for a step that no longer exists, one that fails saying so."""
    try:
        return get_flow(grant.flow).at(grant.phase, grant.step).step.task
    except (UnknownFlow, UnknownStep):
        return UNKNOWN_STEP
