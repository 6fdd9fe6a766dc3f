"""The base of Celery tasks whose calls go through the queue.

    @shared_task(base=QueuedTask, limits={"host:{host}": 2})
    def send(host, subject): ...

    send.delay("mail.example", subject="hello").result(timeout=60)

`delay` and `apply_async` enqueue an execution; a worker runs the function under the limits, and Celery's
message is only a hint. `bind`, `self.retry`, `autoretry_for`, `countdown`, `eta`, `expires` and `priority` do
what they do in Celery.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from asgiref.sync import sync_to_async
from celery import Celery, Task, current_task
from celery.app.task import Context
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.db_connection import database
from queuemgr.base.errors import BadInput, ConfigurationError, SluiceError
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import NEVER
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.flows.retry_policy import MAX_DELAY, Policy
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.canvas_calls import MARK
from queuemgr.lifecycle.publish import NO_TIME_LIMIT
from queuemgr.operations import remote_work
from queuemgr.tasks import celery_results
from queuemgr.tasks.batch_calls import BatchRules, map_calls
from queuemgr.tasks.batch_handle import BatchHandle
from queuemgr.tasks.call_arguments import CallArguments
from queuemgr.tasks.celery_options import placing_of
from queuemgr.tasks.definition import DEFAULT_PHASE, EXPIRES, Cost, TaskDefinition, Upgrade, Uses
from queuemgr.tasks.enqueue_call import Placing, enqueue_call
from queuemgr.tasks.handle import Handle
from queuemgr.tasks.limit_templates import StatedLimits
from queuemgr.worker import dropped_messages
from queuemgr.worker.application_code import as_result
from queuemgr.worker.leased_task import LeasedTask, run_coroutine
from queuemgr.worker.work import Work

OUTCOMES = (Done, Skipped, Snoozed, Failed, Interrupted)
NO_RETRY = Policy(1)
CELERYS_MAX_RETRIES = 3
ALL_AT_ONCE = ("celery.map", "celery.starmap")
"""Tasks of Celery's that call another for each of many items, in one message, under no limit."""


_requests: ContextVar[tuple[str, Any]] = ContextVar("requests", default=("", None))
"""The task that the coroutine of this context calls, and its request: Celery keeps one for each thread."""


class CallOf(NamedTuple):
    """The arguments of a call."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class QueuedTask(LeasedTask):
    """Base of Celery tasks that go through the queue.

    `limits`, `cost`, `uses`, `retries`, `unique`, `upgrade`, `keep_failed_days` and `phase` are as in
    `queued`; the other options are Celery's. As in Celery, an exception is not retried unless `retries`,
    `autoretry_for` or `self.retry` say so.
    Raises `ConfigurationError` when it is declared with what cannot work.
    """

    abstract = True
    only_of_the_queue = False
    """Messages of the plain task that it was may wait in the broker."""
    was_a_plain_task = True
    """Whether such a message is a call; that of a function with `@queued` is none."""
    max_retries: int | None = CELERYS_MAX_RETRIES  # type: ignore[assignment]  # None: for ever, as in Celery
    limits: StatedLimits = ()
    cost: Cost = 0
    uses: Uses | None = None
    retries: int | Policy | None = 0
    unique: str | Unique = ""
    upgrade: Upgrade | None = None
    keep_failed_days: float | None = None
    phase = DEFAULT_PHASE
    definition: TaskDefinition

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse what Celery's worker would do with a message, and cannot do with a call."""
        super().__init_subclass__(**options)
        if stated := vars(cls).get("rate_limit"):
            raise ConfigurationError(
                f"{cls.name or cls.__name__}: rate_limit={stated!r} would be that of one worker; write "
                f"limits={{{cls.__name__!r}: {str(stated)!r}}}, which holds over all workers"
            )

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Called when the task is bound to an application: register the flow of it."""
        super().on_bound(app)
        if "definition" not in vars(cls):
            cls.definition = _definition_of(cls)
        cls.definition.register()
        cls.time_limit = cls.soft_time_limit = NO_TIME_LIMIT  # the step's limits are ours
        cls.ignore_result = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function at once, as any function; a worker that got a message runs what is leased.

        A message without a lease is a call by a process for which the task is still a plain one of Celery's:
        it is enqueued now, with the message's id as its key, so that a second delivery changes nothing.
        """
        if self.request.called_directly or getattr(self.request, "in_step", False):
            if getattr(current_task, "name", "") in ALL_AT_ONCE:
                dropped_messages.drop(f"it has {self.name} called many times at once, under no limit")
                raise Ignore
            return Task.__call__(self, *args, **kwargs)
        if self.request.is_eager:  # `apply()`: here and now, as in Celery
            return run_coroutine(self.run(*args, **kwargs), NEVER)
        if kwargs or args != (self.request.id,):
            return self._enqueue_message(args, kwargs)
        return super().__call__(str(args[0]))

    def _enqueue_message(self, args: Any, kwargs: Any) -> str:
        """Who can write to the broker may call what was a plain task of Celery's, as before, and no more."""
        if not self.was_a_plain_task:
            dropped_messages.drop(f"{self.name} is a function with @queued, which no message calls")
            return ""
        options = celery_results.options_of(self.request)
        why = celery_results.problem_of(options)
        if remote_work.OF_THE_QUEUE.match(str(self.request.id)):
            why = "its id begins as a key that the queue gives itself"
        if why:
            dropped_messages.drop(why)
            return ""
        with database():
            return self._enqueue(args, kwargs, options, of_message=True).key

    def apply_async(  # type: ignore[override]  # what it returns is ours
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> Handle[Any]:
        """Enqueue a call; see `celery_options` for what each option means.

        Raises `BadInput` for arguments the function would not take, and for options that cannot be honoured.
        """
        stated = {name: getattr(self, name, None) for name in ("priority", "queue", "expires")}
        return self._enqueue(args, kwargs, {**stated, **options, "task_id": task_id})

    def _enqueue(
        self, args: Any, kwargs: Any, options: dict[str, Any], *, of_message: bool = False
    ) -> Handle[Any]:
        """What cannot be enqueued is reported to Celery, where that is who called."""
        canvas = celery_results.canvas_of(self, options)
        try:
            placing = placing_of(self.definition, options, redis=self.is_redis)
            payload = self.definition.arguments.payload(args or (), kwargs or {})
            if canvas is None:
                return enqueue_call(self.definition, payload, placing)
            return celery_results.enqueue_called_by(canvas, self, payload, placing, of_message=of_message)
        except SluiceError as error:
            if canvas is None or (canvas.is_refusable and not of_message):
                raise
            celery_results.refuse(self, canvas, error)
            return Handle(self.definition.name, canvas.task_id)

    @property
    def is_redis(self) -> bool:
        """Whether its broker counts priorities as Redis does, from 0 as the highest."""
        url = str(self.app.conf.broker_url or "")
        return url.startswith(("redis", "rediss", "sentinel", "valkey", "unix"))

    def map(  # type: ignore[override]  # what it returns is ours
        self, it: Iterable[Any], **rules: Any
    ) -> BatchHandle[Any]:
        """Enqueue a call for each item as a batch; see `Queued.map`, which takes the same rules."""
        return map_calls(self.definition, it, Placing(), BatchRules(**rules))

    def retry(
        self, args: Any = None, kwargs: Any = None, exc: Exception | None = None, throw: bool = True,
        eta: datetime | None = None, countdown: float | None = None, max_retries: int | None = None,
        **options: Any,
    ) -> Retry:  # fmt: skip
        """Ask for another attempt, as in Celery: raises `Retry`, or `exc` when no more are left."""
        if self.request.is_eager:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        if args is not None or kwargs is not None:
            raise BadInput(f"{self.name}: retry() with other arguments: enqueue another call instead")
        most = self.max_retries if max_retries is None else max_retries
        if self.request.called_directly or (most is not None and self.request.retries >= most):
            raise exc or MaxRetriesExceededError(f"{self.name}[{self.request.id}] was retried {most} times")
        if countdown is None and eta is None:
            countdown = self.default_retry_delay
        asked = Retry(exc=exc, when=eta or countdown)  # type: ignore[arg-type]  # a float is a number
        asked.most = most  # type: ignore[attr-defined]  # read where it is caught
        if throw:
            raise asked
        return asked

    def perform(self, work: Work) -> object:
        """Call the function with the stored arguments; returns the outcome."""
        called = self._call_of(work)
        if not isinstance(called, CallOf):
            return called
        with self._request_of(work, called, self._retries(work)):
            try:
                returned = self.call(work, called.args, called.kwargs)
            except BaseException as error:
                return self._failure(error, work)
        return self._outcome(returned, work)

    async def aperform(self, work: Work) -> object:
        """As `perform`, in an async slot; calls of several coroutines take turns in its thread."""
        called = self._call_of(work)
        if not isinstance(called, CallOf):
            return called
        retries = await sync_to_async(self._retries)(work) if self._may_ask_retries else 0
        request = Context(**self._request_fields(work, called, retries))
        token = _requests.set((self.name, request))
        try:
            returned = await self.run(*called.args, **called.kwargs)
        except BaseException as error:
            return self._failure(error, work)
        finally:
            _requests.reset(token)
        return self._outcome(returned, work)

    @property
    def request(self) -> Any:
        """That of the call which this coroutine or thread runs."""
        name, request = _requests.get()
        return request if name and name == self.name else super().request

    def call(self, work: Work, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function; a coroutine runs to its end, in an event loop of its own."""
        return run_coroutine(self.run(*args, **kwargs), work.signal)

    def _call_of(self, work: Work) -> CallOf | Result:
        """What is called, or the outcome where nothing is."""
        payload = work.grant.payload
        if expired := _expired(payload):
            return Skipped(expired)
        try:
            return CallOf(*self.definition.arguments.call(self.definition.stored_arguments(payload)))
        except BadInput as error:
            return Failed("bad_payload", str(error))

    def _outcome(self, returned: Any, work: Work) -> object:
        return returned if isinstance(returned, OUTCOMES) else self._done(returned, work.grant.payload)

    def starmap(self, it: Any) -> NoReturn:
        """Refused: one message of Celery's would run all calls, under no limit. Raises `BadInput`."""
        raise BadInput(
            f"{self.name}: starmap and chunks do not go with a queued task: task.map(items) enqueues a call "
            "for each item, as a batch"
        )

    def chunks(self, it: Any, n: int) -> NoReturn:
        """Refused, as `starmap`."""
        self.starmap(it)

    @contextmanager
    def _request_of(self, work: Work, called: CallOf, retries: int) -> Iterator[None]:
        """`self.request` as Celery would have it."""
        self.push_request(**self._request_fields(work, called, retries))
        try:
            yield
        finally:
            self.pop_request()

    def _request_fields(self, work: Work, called: CallOf, retries: int) -> dict[str, Any]:
        return {
            "id": work.key, "args": tuple(called.args), "kwargs": dict(called.kwargs),
            "called_directly": False, "in_step": True, "retries": retries,
            "hostname": self.request.hostname, "is_eager": False,
        }  # fmt: skip

    @property
    def _may_ask_retries(self) -> bool:
        bound = not isinstance(inspect.getattr_static(type(self), "run", None), staticmethod)
        return bound or hasattr(self, "_orig_run")

    def _retries(self, work: Work) -> int:
        """How often it failed before, for tasks that may ask."""
        return len(work.attempts_so_far().failures) if self._may_ask_retries else 0

    def _failure(self, error: BaseException, work: Work) -> Result:
        if isinstance(error, Retry):
            return _retried(error)
        if isinstance(error, Ignore):
            return Skipped("the task raised Ignore")
        result = as_result(error, work.signal)
        if not isinstance(result, Failed) or result.kind != "unexpected":
            return result
        policy = NO_RETRY if isinstance(error, Reject) else self.definition.policy
        return replace(result, policy=policy)

    def _done(self, returned: object, payload: Mapping[str, Any]) -> Result:
        if returned is None or not (self.definition.keeps_result or MARK in payload):
            return Done()
        try:
            return Done(result=self.definition.arguments.store_result(returned))
        except Exception as error:
            said = f"what it returned cannot be stored as JSON ({describe_error(error)})"
            return Failed("unexpected", said, policy=NO_RETRY)


def _definition_of(task: type[QueuedTask]) -> TaskDefinition:
    """What the attributes of the task's class state."""
    run = inspect.getattr_static(task, "run")
    function = getattr(run, "__func__", run)
    bound = () if isinstance(run, staticmethod) else tuple(inspect.signature(function).parameters)[:1]
    limits = {name: value for name in _TIME_LIMITS if (value := getattr(task, name)) != NO_TIME_LIMIT}
    name, cost, uses, upgrade = (
        str(task.name),
        *(inspect.getattr_static(task, rule) for rule in ("cost", "uses", "upgrade")),
    )
    return TaskDefinition(
        name, CallArguments(name, function, leave_out=bound), limits=task.limits,
        cost=getattr(cost, "__func__", cost), uses=getattr(uses, "__func__", uses),
        retries=task.retries, unique=task.unique, phase=task.phase,
        keeps_result=not vars(task).get("ignore_result"), upgrade=getattr(upgrade, "__func__", upgrade),
        keep_failed_days=task.keep_failed_days, **limits,
    )  # fmt: skip


_TIME_LIMITS = ("soft_time_limit", "time_limit")


def _expired(payload: Mapping[str, Any]) -> str:
    """Why it is not run any more, or nothing."""
    expires = parse_datetime(payload.get(EXPIRES) or "")
    return f"it expired at {expires:%Y-%m-%d %H:%M:%S} UTC" if expires and expires < timezone.now() else ""


def _retried(asked: Retry) -> Failed:
    when = asked.when
    seconds = (when - timezone.now()).total_seconds() if isinstance(when, datetime) else float(when or 0)
    most = getattr(asked, "most", CELERYS_MAX_RETRIES)
    attempts = MAX_INTEGER if most is None else most + 1
    error = asked.exc if isinstance(asked.exc, BaseException) else None
    said = f"retry asked for: {describe_error(error)}" if error else "retry asked for"
    wait = min(max(seconds, 0.0), MAX_DELAY)  # of this call alone: no `retry_after`, which closes its limits
    return Failed("unexpected", said, policy=Policy(attempts, wait, wait), blames_service=error is not None)
