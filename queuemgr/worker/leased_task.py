"""The Celery task base of every step: it runs a step only while holding its lease.

A message means "lease X waits for a slot on this queue". The task that receives it runs the step of
lease X, then the step of each lease its slot is assigned when one ends, until none is assigned or
`SLUICE_SLOT_HANDOVER_SECONDS` have passed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async
from celery import Celery, Task, shared_task

from queuemgr.base import meters, overdue_calls, process_state
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import database
from queuemgr.base.errors import LeaseLost, StepFailed
from queuemgr.base.overdue_calls import Call
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle import attempts, canvas_calls, leases, log_context, tracing, unknown_steps
from queuemgr.lifecycle.attempts import AttemptsSoFar
from queuemgr.lifecycle.continuation import continuation_of, rule_that_hangs
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import NO_TIME_LIMIT, UNKNOWN_STEP, task_of
from queuemgr.models import Lease
from queuemgr.steptools.rate_limit_headers import Remaining, ResponseLimits, response_limits
from queuemgr.worker import dropped_messages, pool_children, process_wide
from queuemgr.worker.application_code import outcome_of, termination_deferred
from queuemgr.worker.background_thread import end_damaged_process
from queuemgr.worker.current_work import doing
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.group_commit import GroupCommitter, LeaseEnd
from queuemgr.worker.observed_limits import told_fleet, with_meter
from queuemgr.worker.running_steps import RunningStep, RunningSteps
from queuemgr.worker.shutting_down import is_shutting_down
from queuemgr.worker.step_usage import StepUsage
from queuemgr.worker.time_limits import limited

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What a step is called with: the grant of its lease, and the signal that aborts it."""

    grant: Grant
    signal: AbortSignal
    usage: StepUsage = field(default_factory=StepUsage, repr=False, compare=False, kw_only=True)
    began: float = field(default_factory=time.monotonic, repr=False, compare=False, kw_only=True)

    @property
    def key(self) -> str:
        return self.grant.key

    @staticmethod
    def database() -> AbstractContextManager[None]:
        """`with work.database():` around what a step reads from the database before it continues: the
        connection is closed at the end of the block, and none is held while the step works or waits."""
        return database()

    @property
    def inputs(self) -> dict[str, Any]:
        """The payload, and over it the context that earlier steps returned."""
        return {**self.grant.payload, **self.grant.context}

    def attempts_so_far(self) -> AttemptsSoFar:
        """The earlier attempts of this step that count against its retry policy."""
        with database():
            return attempts.so_far(self.grant)

    def is_last_attempt(self, kind: str, failures: int) -> bool:
        """Whether a failure of this kind, after `failures` earlier ones, will not be retried."""
        with database():
            return attempts.is_last(self.grant, kind, failures)

    def record_requests(self, requests: int = 1) -> None:
        """Record, before they are sent, that `requests` of the reserved requests are about to be sent.

        They are charged to the budgets even if the worker dies; the rest of the reservation is
        refunded. Raises `LeaseLost` when the lease is gone, and `StepFailed` of kind `over_reserved`
        when more would be sent than were reserved.
        """
        with database():
            if leases.record_requests(self.grant.lease_id, requests):
                return
            self._raise_if_gone()
        message = f"sending {requests} more requests would exceed what the step reserved (its cost)"
        raise StepFailed("over_reserved", message)

    def spend(self, **amounts: float | Decimal) -> None:
        """Record what the step uses of meters, in their units: `work.spend(tokens=812, usd=0.004)`.

        Call it before a request for what is known then, and after it for what the answer tells; amounts add
        up. They are charged even if the worker dies; what was reserved beyond them is given back at the end,
        all of it for an amount of 0.
        Raises `BadInput` for an unknown meter or no amount, `LeaseLost` when the lease is gone, and
        `StepFailed` of kind `over_reserved` where requests, or another strict meter, would exceed what the
        step reserved.
        """
        spent = meters.stored(amounts)
        if requests := spent.pop(meters.REQUESTS, 0):
            self.record_requests(requests)
        if spent:
            self.record_usage(spent)

    def record_usage(self, spent: meters.Amounts) -> None:
        """As `spend`, in the smallest parts of meters other than requests."""
        with self.usage.adding(spent) as total, database():
            self._raise_if_over_reserved(spent, total)
            if not leases.record_usage(self.grant.lease_id, meters.as_text(total, zeros=True)):
                self._raise_if_gone()

    def _raise_if_over_reserved(self, spent: meters.Amounts, total: meters.Amounts) -> None:
        strict = [name for name in spent if meters.meter_named(name).strict]
        reserved = leases.reserved_uses(self.grant.lease_id) if strict else {}
        for name in strict:
            if total[name] > reserved.get(name, 0):
                text = meters.meter_named(name).text
                held = text(reserved.get(name, 0))
                message = (
                    f"{text(total[name])} {name} would exceed the {held} that the step reserved (its uses)"
                )
                raise StepFailed("over_reserved", message)

    def observe(self, headers: Any, *, sent: float | None = None, limit: str = "") -> ResponseLimits:
        """Have the fleet know what a service's response says is left: `work.observe(response.headers)`. Until
        its reset nothing starts that is expected to use more; it never loosens what people allow.

        Meant are those of the step's limits that have an allowance of the meter, else all its keys of
        services; or `limit`. `sent`: when the request was, by `time.monotonic()`; else when the step began.
        """
        said = response_limits(headers)
        if said.by_meter:
            self.tell(said.by_meter, self.began if sent is None else sent, limit)
        return said

    async def aobserve(self, headers: Any, *, sent: float | None = None, limit: str = "") -> ResponseLimits:
        """As `observe`, for asynchronous steps."""
        return await sync_to_async(self.observe)(headers, sent=sent, limit=limit)

    def tell(self, said: Mapping[str, Remaining], sent: float, limit: str) -> None:
        """What `observe` does with what was read."""
        with database():
            if not told_fleet(self.grant.lease_id, said, sent, limit, self.usage):
                self._raise_if_gone()

    def raise_if_lost(self) -> None:
        """Raise `Aborted` when the step is aborted, `LeaseLost` when its lease is gone.

        Call it before a side effect that cannot be part of the result's transaction, such as moving
        a file to its final path.
        """
        self.signal.raise_if_aborted()
        with database():
            self._raise_if_gone()

    def _raise_if_gone(self) -> None:
        if not Lease.objects.filter(pk=self.grant.lease_id).exists():
            raise LeaseLost(f"lease {self.grant.lease_id} ended while its step ran")


def lease_named(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> UUID | None:
    """The lease of a message; None for one that names none, which is dropped: the queue has not sent it."""
    try:
        (named,) = () if kwargs else args
        return UUID(named)
    except (ValueError, TypeError, AttributeError):
        dropped_messages.drop("it names no lease")
        return None


class LeasedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """Base of step tasks: `@shared_task(base=LeasedTask, name="press.print")`.

    The function takes a `Work` and returns an outcome (`Done(...)`, `Skipped(...)`, `Snoozed(...)`), or
    None for `Done()`. It raises `StepFailed` to name the kind of failure; any other exception is
    recorded as "unexpected". Celery's own retries, results and time limits are not used.
    """

    abstract = True
    only_of_the_queue = True
    """Whether nobody but the queue sends its messages, which are due at once."""
    typing = False
    send_events = False
    acks_late = True
    reject_on_worker_lost = False
    ignore_result = True
    max_retries = 0
    time_limit = soft_time_limit = NO_TIME_LIMIT

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Called when the task is bound to an application. A rate limit that its settings state for all tasks
        would hold messages of leases back in the worker, whose slots they are."""
        cls.rate_limit = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if _threads is None:
            raise RuntimeError("this process has not started its threads")
        if (lease_id := lease_named(args, kwargs)) is None:
            return
        handover_ends = time.monotonic() + queue_settings().slot_handover_seconds
        grant, parent = _threads.committer.begin(lease_id), self.request.get(tracing.HEADER)
        while grant is not None:
            grant = self._run_step(grant, parent, _threads, handover_ends)
            parent = None  # an assigned lease came without a message

    def _run_step(self, grant: Grant, parent: str | None, threads: Threads, until: float) -> Grant | None:
        """Run a step and end its lease; returns the lease its slot is assigned next, if any.

        Whatever escapes from what runs meanwhile (a tracer, a rule, an attribute of an exception) ends the
        lease, too: a lease without an outcome would be waited for until it expires, and its step run again.
        """
        before = process_wide.before_step()
        ended: list[LeaseEnd] = []
        try:
            self._run_and_end(grant, parent, threads, until, ended)
        except BaseException as error:
            if is_shutting_down():
                raise
            _end_escaped(grant, error, threads, ended)
        finally:
            process_wide.put_back(before)  # a store and the rules of a flow may change it, too
        if is_shutting_down():
            raise SystemExit  # the outcome is stored; now end, as the parent of this pool asked
        if damage := process_wide.damage():
            threads.leave_damaged(damage)
            return None
        return ended[0].next_grant if ended else None

    def _run_and_end(
        self, grant: Grant, parent: str | None, threads: Threads, until: float, ended: list[LeaseEnd]
    ) -> None:
        """Adds to `ended` how the lease ended, as soon as it has."""
        here = get_current_worker().name
        span = tracing.step_began(grant, task_of(grant), parent, worker=here)
        with (
            tracing.inside(span),
            log_context.about(grant, here),
            threads.steps.running(grant) as step,
            pool_children.shown(grant.lease_id, step.limits.hard),
        ):
            usage = StepUsage()
            result = with_meter(outcome_of(partial(self._call, step, usage), step.signal), usage.lacking)
            with termination_deferred():
                with database(), threads.rules_timed(step, result):  # a rule may have read something
                    continuation = continuation_of(grant, result)
                ending = Finish(grant.lease_id, result, continuation)
                if not threads.steps.claim_end(step):
                    return  # it was ended for its time limit, and its process is about to end
                pool_children.show_ending(grant.lease_id)
                wants_next = time.monotonic() < until and not is_shutting_down()
                if process_wide.damage():
                    threads.steps.found_damage(step)
                    wants_next = False
                end = threads.committer.finish(grant, limited(ending, step), step.ran, wants_next=wants_next)
                ended.append(end)
        if canvas_calls.MARK in grant.payload:
            canvas_calls.step_ended(grant.flow, grant.key)
        tracing.step_ended(span, end.outcome, result)

    def _call(self, step: RunningStep, usage: StepUsage) -> object:
        """Call the step, once its rates allow it to start; returns whatever it returns."""
        step.signal.sleep(step.grant.not_before - time.monotonic())
        work = Work(step.grant, step.signal, usage=usage)
        with doing(work):
            # Celery's stubs know only its own class.
            task: LeasedTask = self.app.tasks[task_of(step.grant)]  # type: ignore[assignment]  # see above
            return task.perform(work)

    def perform(self, work: Work) -> object:
        """Do the step; returns whatever its function returns."""
        return self.run(work)


def _end_escaped(grant: Grant, error: BaseException, threads: Threads, ended: list[LeaseEnd]) -> None:
    """End its lease as failed unless it has ended, which adds to `ended`; if even that cannot be done, end
    this process, and its leases with it."""
    try:
        process_wide.raise_limits()
        with log_context.about(grant, get_current_worker().name):
            logger.error("%s: this escaped while its step ran or ended", grant, exc_info=error)
        if not ended:
            failed = Finish(grant.lease_id, Failed("unexpected", describe_error(error)))
            ended.append(threads.committer.finish(grant, failed, 0.0, wants_next=False))
        pool_children.show_idle()
    except BaseException as second:
        if is_shutting_down():
            raise
        end_damaged_process(f"it could not end a lease ({describe_error(second)})")


class Threads(NamedTuple):
    """What the slots of a process share: the steps that run, the thread that ends their leases, and what is
    done when a step has damaged the process, or a rule of its flow does not return."""

    steps: RunningSteps
    committer: GroupCommitter
    leave: Callable[[], object]
    leave_damaged: Callable[[str], object] = end_damaged_process

    def rules_timed(self, step: RunningStep, result: Result) -> AbstractContextManager[Call]:
        """Around the rules that say where it continues: one that hangs holds neither slot nor lease."""
        seconds = queue_settings().callback_seconds
        report = partial(self._rules_hang, step, result, seconds)
        return overdue_calls.timed(("rules", str(step.grant)), seconds, report)

    def _rules_hang(self, step: RunningStep, result: Result, seconds: float, call: Call) -> None:
        """End its lease with the result, and then the process, whose slot is stuck."""
        if not self.steps.claim_end(step):
            return
        step.stuck = True
        broke = rule_that_hangs(step.grant, result, seconds)
        with log_context.about(step.grant, get_current_worker().name):
            logger.error("%s: this process ends; it is here:", broke.message, extra={"lines": call.where()})
        ending = limited(Finish(step.grant.lease_id, result, broke), step)
        self.committer.finish(step.grant, ending, step.ran, wants_next=False)
        self.leave()


_threads: Threads | None = None


def _reset() -> None:
    global _threads
    _threads = None


process_state.register(_reset, in_forked_child=True)


def use(threads: Threads) -> None:
    """Have the steps of this process run with these."""
    global _threads
    _threads = threads


class LeaseOfAnotherRelease(LeasedTask):
    """Puts back leases of steps that this process does not know; the others it runs."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if (lease_id := lease_named(args, kwargs)) is None:
            return
        with database():
            if unknown_steps.put_back(lease_id):
                dispatch()
                return
        super().__call__(str(lease_id))


@shared_task(base=LeaseOfAnotherRelease, name=UNKNOWN_STEP)
def unknown_step(work: Work) -> Result:
    """Fail work whose step is gone since its lease began, as after a change of the flows in this process."""
    grant = work.grant
    message = f"this worker has no step {grant.phase}/{grant.step} in flow {grant.flow!r}"
    return Failed("unexpected", message)
