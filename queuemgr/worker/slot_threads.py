"""Starts the threads that the slots of a worker process share.

Apart from the tasks, which every process declares: most of what runs here is imported by workers only.
"""

from __future__ import annotations

from collections.abc import Callable

from queuemgr.flows import callbacks
from queuemgr.lifecycle import redispatch_timer
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.worker import (
    async_slots,
    lease_renewal,
    leased_task,
    pool_children,
    process_wide,
    usage_commits,
)
from queuemgr.worker.async_slots import AsyncSlots
from queuemgr.worker.background_thread import start_vital
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.group_commit import GroupCommitter
from queuemgr.worker.heartbeat import Heartbeat, stand_in_for_beat
from queuemgr.worker.leased_task import Threads
from queuemgr.worker.running_steps import RunningSteps
from queuemgr.worker.time_limits import StuckSteps, TimeLimitWatch
from queuemgr.worker.usage_commits import UsageCommitter


def start(*, is_parent: bool, leave: Callable[[], object] = lambda: None) -> None:
    """Start the threads the slots of this process share; called once per worker process.

    `leave` has the fleet give this worker no more work.
    """
    process_wide.remember_start()
    process_wide.ignore_stray_signals()
    worker = get_current_worker()
    steps, committer = RunningSteps(worker.name), GroupCommitter(worker)
    usage_commits.use(UsageCommitter())
    redispatch_timer.start(dispatch, start_vital)
    lease_renewal.start(worker, steps)
    Heartbeat(worker, steps, is_parent=is_parent)
    if is_parent:
        stand_in_for_beat()
        watch = TimeLimitWatch(worker, steps, StuckSteps(committer.end, leave))
        threads = Threads(steps, committer, watch.leave, watch.leave_damaged)
        leased_task.use(threads)
        if slots := worker.row.async_slots:
            commits = GroupCommitter(worker, for_async_slots=True)
            async_slots.use(AsyncSlots(slots, worker.name, threads, commits))
    else:
        pool_children.join_board()
        watch = TimeLimitWatch(worker, steps)
        leased_task.use(Threads(steps, committer, watch.leave))
    callbacks.when_one_hangs(watch.leave)
