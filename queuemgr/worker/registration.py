"""Registers a Celery worker with the fleet when it starts, and deregisters it at shutdown.

A bootstep, so that a plain `celery worker` command does it. The worker registers before its pool
forks, so that every child knows which worker it belongs to.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from celery import bootsteps
from celery.signals import worker_process_init, worker_process_shutdown, worker_shutdown
from django.db import Error as DatabaseError

from queuemgr import signals
from queuemgr.base import database_problems, fork_gate, private_memory, signal_delivery
from queuemgr.base.config import lane_settings
from queuemgr.base.db_connection import database
from queuemgr.base.errors import ConfigurationError, NameTaken
from queuemgr.base.queue_database import connection, get_connection
from queuemgr.base.redaction import describe_error
from queuemgr.base.scheduler_lock import database_now, hold_scheduler_lock
from queuemgr.base.signal_delivery import send_after_commit
from queuemgr.base.unreachable import why_away
from queuemgr.flows import callbacks
from queuemgr.flows.flow import HOUSEKEEPING, all_queues
from queuemgr.lifecycle import leases, lock_holds, redispatch_timer, tracing, unknown_steps
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Worker
from queuemgr.schedules import declared_rows
from queuemgr.scheduling import limit_rows, settings_sync
from queuemgr.scheduling.limit_rows import Limits
from queuemgr.steptools.lanes import banner
from queuemgr.steptools.process_lanes import lanes
from queuemgr.worker import (
    attempt_log,
    drain_orders,
    logging_guard,
    masked_conf,
    namesakes,
    pool_children,
    process_wide,
    remote_control,
    secrets_in_memory,
    slot_threads,
    unreadable_messages,
    worker_row,
)
from queuemgr.worker.async_slots import get_async_slots
from queuemgr.worker.background_thread import STEP_STUCK, end_process
from queuemgr.worker.current_worker import CurrentWorker, get_current_worker, set_current_worker
from queuemgr.worker.queue_consumption import QueueConsumption
from queuemgr.worker.restarting_consumer import RestartingConsumer
from queuemgr.worker.useless_processes import log_useless_worker

logger = logging.getLogger(__name__)

CELERYS_CONSUMER = "celery.worker.consumer:Consumer"
"""Celery's default of its setting `worker_consumer`."""

COULD_NOT_START = 3
"""Exit code of a worker that was refused at its start."""


class WorkerRegistration(bootsteps.StartStopStep):
    """Registers and deregisters the worker, and starts its heartbeat."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        private_memory.keep_private()
        secrets_in_memory.keep_secrets()
        unreadable_messages.install()
        remote_control.restrict()
        refuse_pool(parent.pool_cls)
        if parent.consumer_cls == CELERYS_CONSUMER:
            parent.consumer_cls = RestartingConsumer
        callbacks.when_one_hangs(partial(end_process, STEP_STUCK))  # `limits`, until there is more to end
        process_wide.remember_start()
        process_wide.ignore_stray_signals()
        consumed = frozenset(parent.app.amqp.queues.consume_from)
        log_useless_worker(consumed)
        queues = consumed & frozenset(all_queues())
        async_slots = lane_settings().async_slots
        if async_slots and queues:
            refuse_async_slots(parent.pool_cls)
        try:
            with database():
                for problem in database_problems.all_problems():
                    logger.warning("%s", problem)
                limits = limit_rows.stated()
                row = register(parent.hostname, sorted(queues), slots(parent), limits, async_slots)
        except (NameTaken, ConfigurationError, DatabaseError) as error:
            why = error if not isinstance(error, DatabaseError) else f"the database: {why_away(error)}"
            sys.stderr.write(f"{why}\n")
            raise SystemExit(COULD_NOT_START) from None
        logging_guard.install()
        attempt_log.install()
        masked_conf.mask_answers(parent.app)
        keep_pools_open()
        pool_children.make_board()
        redispatch_timer.share_with_children()
        if connection.vendor == "sqlite":
            fork_gate.install(forks_often=is_prefork(parent.pool_cls))
        worker_process_init.connect(_start_child)
        worker = CurrentWorker(row, bool(parent.task_events), limits=limits)
        worker.consumption = QueueConsumption(parent, worker.queues)
        set_current_worker(worker)
        with database():
            drain_orders.follow(worker)

    def start(self, parent: Any) -> None:
        show_lanes(parent)
        slot_threads.start(is_parent=True, leave=deregister_or_log)
        pool_children.watch(parent.pool)
        with database():
            dispatch()

    def stop(self, parent: Any) -> None:
        try:
            with database():
                deregister(get_current_worker().worker_id)
        except DatabaseError as error:  # its leases end as those of a killed worker do
            logger.warning("stopping unannounced: the database does not answer (%s)", describe_error(error))
        except Exception:
            logger.exception("this worker could not be deregistered: its leases expire")
        if running := get_async_slots():
            running.wait_until_idle()

    def terminate(self, parent: Any) -> None:
        if running := get_async_slots():
            running.abort()
        self.stop(parent)


@worker_process_shutdown.connect
def _store_counts(**kwargs: Any) -> None:
    """Of a child of a pool, which `deregister` does not run in."""
    try:
        with database():
            lock_holds.write_sums()
    except Exception:
        logger.warning("what this process counted of the scheduler lock is lost", exc_info=True)


@worker_process_shutdown.connect
@worker_shutdown.connect
def _send_last_of_all(**kwargs: Any) -> None:
    """`atexit` handlers do not run in the children of a pool."""
    signal_delivery.flush()
    tracing.stop()


def set_inherited_pools_aside() -> None:
    """Let a forked child open database connections of its own. Celery would close the pool that the child
    inherits, and with it the parent's connections on the server."""
    pools = getattr(connection, "_connection_pools", {})
    for alias in [alias for alias in pools if not alias.startswith(INHERITED)]:
        pools[INHERITED + alias] = pools.pop(alias)


INHERITED = "inherited "
"""Before the alias of a parent's pool: kept, since finalizing it would wait for its threads."""

os.register_at_fork(after_in_child=set_inherited_pools_aside)


def keep_pools_open() -> None:
    """Have the database connections of a process stay as long as it does. Celery closes the pool of a child
    before and after each task, under the threads that use it; a connection it still gives back."""
    if hasattr(DatabaseWrapper := type(get_connection()), "close_pool"):
        DatabaseWrapper.close_pool = lambda self: None


def _start_child(**kwargs: Any) -> None:
    """Connected after Celery's own receiver, which closes the pool of connections in a child that starts: the
    threads started here would find it closed."""
    get_current_worker().consumption = None  # its parent's, which alone has the connection
    slot_threads.start(is_parent=False)


def is_prefork(pool_class: Any) -> bool:
    """Whether it forks children."""
    return name_of(pool_class) == "prefork"


def name_of(pool_class: Any) -> str:
    """As the option `--pool` names it."""
    return str(pool_class.__module__.rpartition(".")[2])


def refuse_pool(pool_class: Any) -> None:
    """Raise `SystemExit` for pools with which leases are not safe."""
    name = name_of(pool_class)
    if name in ("gevent", "eventlet"):
        raise SystemExit(
            f"pool {name} is not supported: when its prefetch window is full it polls the broker only "
            "every two seconds, and it dies when the broker restarts; use -P threads or -P prefork"
        )


def refuse_async_slots(pool_class: Any) -> None:
    """Raise `SystemExit` for pools whose steps do not run in the worker's own process, as the loop does."""
    name = name_of(pool_class)
    if name not in ("thread", "solo"):
        raise SystemExit(
            f"pool {name} has no async slots, and SLUICE_ASYNC_SLOTS is set: use -P threads, or unset it: "
            "then asynchronous steps run in the children of the pool, each with an event loop of its own"
        )


def show_lanes(worker: Any) -> None:
    """Print the lanes' settings and their sources below Celery's own banner."""
    if getattr(worker, "quiet", True):
        return
    actual = slots(worker)
    settings = [
        replace(setting, value=actual, source="celery", rule="its --concurrency or setting")
        if setting.name == "slots" and setting.value != actual
        else setting
        for setting in lanes().settings
    ]
    print(banner(settings), file=sys.__stdout__, flush=True)


def slots(worker: Any) -> int:
    """Steps this worker may run at once; one that also runs the periodic jobs keeps a slot for them."""
    concurrency = int(worker.concurrency or 1)
    if HOUSEKEEPING in worker.app.amqp.queues.consume_from and concurrency > 1:
        return concurrency - 1
    return concurrency


def register(
    name: str, queues: list[str], slot_count: int, limits: Limits | None = None, async_slots: int = 0
) -> Worker:
    """Insert this worker's row, and before it the missing ones of `limits` (by default those stated now).
    Leases of an earlier run of the same name, whose process is gone, end at once instead of expiring. Raises
    `NameTaken` if another worker of its name is alive, and then has changed no limit."""
    limits = limit_rows.stated() if limits is None else limits
    limit_rows.sync(limits=limits, update=False)
    stated = declared_rows.with_schedules(limit_rows.statement(limits))
    if not queues:
        slot_count = async_slots = 0
    row = namesakes.register(name, queues, slot_count, stated, async_slots)
    # Once others can see what it states: else a tick would take it for something that no worker states.
    limit_rows.sync(limits=limits)
    declared_rows.sync()
    settings_sync.follow_workers()
    unknown_steps.offer_again(database_now())
    send_after_commit(signals.worker_started, lambda: [signals.WorkerEvent(name, tuple(queues))])
    return row


def deregister_or_log() -> None:
    """As `deregister`, for a process that will end after a grace whatever happens here."""
    try:
        with database():
            deregister(get_current_worker().worker_id)
    except Exception:
        logger.exception("this worker could not be deregistered: its leases expire")


def deregister(worker_id: int) -> None:
    """Take no more work and revoke leases that have not begun; running steps may finish within
    `SLUICE_SHUTDOWN_GRACE`."""
    worker = get_current_worker()
    worker.draining.set()
    with hold_scheduler_lock() as lock:
        worker_row.deregister(lock, worker_id)
    stopped = signals.WorkerEvent(worker.name, tuple(worker.queues))
    send_after_commit(signals.worker_stopped, lambda: [stopped])
    leases.revoke_unstarted_in(worker.queues)  # not under the lock: leases are locked before it
    dispatch()
    lock_holds.write_sums()
