"""`@queued` makes a function one that can be enqueued.

    @queued(limits={"host:{host}": 2}, retries=3)
    def send(host: str, subject: str) -> int: ...

    handle = send.enqueue("mail.example", subject="hello")
    handle.result(timeout=60)

Called as it is, the function runs here and now.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from asgiref.sync import sync_to_async
from celery import shared_task
from django.utils import timezone

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.call import Call
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.flows.retry_policy import Policy
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.schedules.declaration import Schedule, register_schedule
from queuemgr.schedules.misfires import RUN_ONCE
from queuemgr.schedules.overlap import SKIP
from queuemgr.schedules.timing import Timing
from queuemgr.tasks import declared_function
from queuemgr.tasks.batch_calls import BatchRules, Callback, call_of, map_calls
from queuemgr.tasks.batch_handle import BatchHandle
from queuemgr.tasks.call_arguments import CallArguments
from queuemgr.tasks.definition import DEFAULT_PHASE, Cost, TaskDefinition, Upgrade, Uses, rank_of
from queuemgr.tasks.enqueue_call import Placing, enqueue_call, enqueue_calls, handle_of
from queuemgr.tasks.handle import Handle
from queuemgr.tasks.limit_templates import StatedLimits
from queuemgr.tasks.queued_task import QueuedTask

CELERYS = {
    **dict.fromkeys(
        ("delay", "apply_async"), "enqueue(…), later(when, …) and using(priority=…) enqueue a call"
    ),
    **dict.fromkeys(("s", "si", "signature"), "call(…) is a call of it, for a batch"),
    "apply": "call it as any function",
}
"""What a task of Celery's has, and what is written instead; with `base=QueuedTask` a task has these."""

P = ParamSpec("P")
R = TypeVar("R")


class Queued(Generic[P, R]):
    """A function that can be enqueued. It takes the function's arguments, which are checked when it is."""

    def __init__(
        self, function: Callable[..., Any], definition: TaskDefinition, placing: Placing | None = None
    ) -> None:
        self.function, self.definition = function, definition
        self._placing = placing or Placing()
        update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The name of its flow, and of its Celery task."""
        return self.definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<queued {self.name}>"

    if not TYPE_CHECKING:  # to a type checker it has no other attribute

        def __getattr__(self, name: str) -> Any:
            if name not in CELERYS:
                raise AttributeError(f"a queued function has no {name}")
            raise AttributeError(f"{self!r} has no {name}: {CELERYS[name]}")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue this call; with the transaction around it, if there is one.

        Raises `BadInput` for arguments that cannot be stored, `NeverFits` and `QueueFull`.
        """
        return enqueue_call(self.definition, self._payload(*args, **kwargs), self._placing)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `enqueue`, from a coroutine."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Handle[R]]:
        """Enqueue many calls, each the function's arguments by name; a few hundred to a statement."""
        payloads = (self.definition.arguments.payload((), self._by_name(call)) for call in calls)
        return enqueue_calls(self.definition, payloads, self._placing)

    def map(
        self, items: Iterable[Any], /, *, name: str = "", window: int = 0, fail_fast: bool = False,
        on_complete: Callback = None, on_success: Callback = None, on_failure: Callback = None,
        parent: BatchHandle[Any] | None = None, allowances: str = "",
    ) -> BatchHandle[R]:  # fmt: skip
        """Enqueue a call for each item, as a batch; returns its handle.

        An item that is a mapping is the call's arguments by name, a tuple those by position, anything else
        its only argument. Items are read a few hundred at a time. A call whose `unique` key exists is no
        member. `window`: how far after the first unfinished call others may start (0: any). `fail_fast`: the
        first that fails for good cancels the rest. The callbacks are enqueued once all have ended:
        `on_complete` in any case, `on_success` when all are done or skipped, `on_failure` otherwise; each is
        a queued function, or `function.call(…)` with arguments. `parent`: the batch that completes after this
        one. `allowances`: what the calls may use together, as `5 usd in total`.

        Raises as `enqueue`, and `BadInput` for a callback that could not be enqueued. An error while items
        are added cancels the batch.
        """
        rules = BatchRules(name, window, fail_fast, on_complete, on_success, on_failure, parent, allowances)
        return map_calls(self.definition, items, self._placing, rules)

    async def amap(self, items: Iterable[Any], /, **rules: Any) -> BatchHandle[R]:
        """As `map`, from a coroutine."""
        return await sync_to_async(partial(self.map, items, **rules))()

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """This call, to be given to a batch as a callback. Raises `BadInput` for arguments it does not
        take."""
        return call_of(self.definition, self._payload(*args, **kwargs), self._placing)

    def later(self, when: datetime | timedelta | float, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue this call to run no earlier than `when`: a time, or how long from now, in seconds."""
        return self.using(run_after=when).enqueue(*args, **kwargs)

    def using(
        self, *, priority: str | None = None, run_after: datetime | timedelta | float | None = None,
        expires: datetime | timedelta | float | None = None, key: str = "",
    ) -> Queued[P, R]:  # fmt: skip
        """The same function, whose calls are placed so. `priority` is `high`, `normal` or `low`; a call that
        has not begun by `expires` is skipped; `key` names the call: the same key again is the same call."""
        placed = self._placing
        placing = Placing(
            placed.priority if priority is None else priority_of(priority),
            _moment(run_after) or placed.run_after,
            _moment(expires) or placed.expires,
            key or placed.key,
        )
        return Queued(self.function, self.definition, placing)

    def handle(self, key: str) -> Handle[R]:
        """The handle of the call with this key."""
        return handle_of(self.definition, key)

    def on_schedule(
        self, name: str, timing: Timing, /, *, arguments: Mapping[str, Any] | None = None,
        priority: str | None = None, misfire: str = RUN_ONCE, misfire_limit: int = 100, overlap: str = SKIP,
        jitter: int = 0,
    ) -> Schedule:  # fmt: skip
        """Declare a schedule that enqueues the function with these arguments; see
        `queuemgr.schedules.Schedule`. Raises `ConfigurationError` for a call the function would not take."""
        task, given = self.definition, dict(arguments or {})
        try:
            task.arguments.signature.bind(**given)
        except TypeError as error:
            raise ConfigurationError(
                f"schedule {name}: {task.name}{task.arguments.signature}: {error}"
            ) from None
        stated = Schedule(
            name, task.name, timing, lambda: self._payload(**given),
            priority=PRIORITY_NAMES[task.priority] if priority is None else priority,
            misfire=misfire, misfire_limit=misfire_limit, overlap=overlap, jitter=jitter,
        )  # fmt: skip
        return register_schedule(stated)

    def _by_name(self, call: Any) -> Mapping[str, Any]:
        if isinstance(call, Mapping):
            return call
        names = ", ".join(f"{name!r}: …" for name in self.definition.arguments.names)
        raise BadInput(
            f"{self.name}: enqueue_many() takes the arguments of each call by name, as {{{names}}}"
        )

    def _payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.definition.arguments.payload(args, kwargs)


@overload
def queued(function: Callable[P, Coroutine[Any, Any, R]], /) -> Queued[P, R]: ...
@overload
def queued(function: Callable[P, R], /) -> Queued[P, R]: ...
@overload
def queued(
    *, limits: StatedLimits = (), cost: Cost = 0, uses: Uses | None = None,
    retries: int | Policy | None = None, unique: str | Unique = "", priority: str = "normal",
    phase: str = DEFAULT_PHASE, soft_time_limit: float | None = None, time_limit: float | None = None,
    keep_result: bool = True, name: str = "", upgrade: Upgrade | None = None,
    keep_failed_days: float | None = None, schedule: Timing | None = None, misfire: str = RUN_ONCE,
    misfire_limit: int = 100, overlap: str = SKIP, jitter: int = 0,
) -> Decorator: ...  # fmt: skip
def queued(
    function: Any = None, /, *, limits: StatedLimits = (), cost: Cost = 0, uses: Uses | None = None,
    retries: int | Policy | None = None, unique: str | Unique = "", priority: str = "normal",
    phase: str = DEFAULT_PHASE, soft_time_limit: float | None = None, time_limit: float | None = None,
    keep_result: bool = True, name: str = "", upgrade: Upgrade | None = None,
    keep_failed_days: float | None = None, schedule: Timing | None = None, misfire: str = RUN_ONCE,
    misfire_limit: int = 100, overlap: str = SKIP, jitter: int = 0,
) -> Any:  # fmt: skip
    """Decorates a function, so that it can be enqueued.

    `limits` are keys with the names of parameters in braces, and what each allows: a number at once, a rate
    such as `"50/m"`, or fields of a limit; a list only names them. `cost` is how many requests a call may
    charge to the budgets, or a function of its arguments that says so; `uses` what else it is expected to
    use, by meter (`{"tokens": 1200}`; None: as lately), or such a function. `retries` is how often an
    exception is retried, or a `Policy`; None leaves it to the policy of unexpected errors. `unique` as a text
    makes the key of a call of its arguments, and calls with the same key are one execution for ever; a
    `Unique` says which calls are, how long, and what a further one does meanwhile. `phase` has a cap and
    queues of its own. The time limits are in seconds. `name` is the task's, by default that of the function
    with its module. `upgrade` is given the stored arguments of a call by name, of an earlier release perhaps,
    and returns them as the function takes them now; those that fit already it returns as they are.
    `keep_failed_days` is for how many days its failed calls are kept, 0: for ever; None: as
    SLUICE_KEEP_FAILED_DAYS says. `schedule` enqueues it without arguments at the times of `cron(…)`,
    `every(…)` or `once(…)`; `misfire`, `misfire_limit`, `overlap` and `jitter` are as in
    `queuemgr.schedules.Schedule`.

    Raises `ConfigurationError` for what cannot work.
    """

    def decorate(function: Any) -> Any:
        declared_function.check(function, name)
        full = name or f"{function.__module__}.{function.__qualname__}"
        definition = TaskDefinition(
            full, CallArguments(full, function), limits=limits, cost=cost, uses=uses, retries=retries,
            unique=unique,
            phase=phase, priority=rank_of(full, priority), soft_time_limit=soft_time_limit,
            time_limit=time_limit, keeps_result=keep_result, upgrade=upgrade,
            keep_failed_days=keep_failed_days,
        )  # fmt: skip
        definition.register()
        shared_task(base=QueuedTask, name=full, definition=definition, was_a_plain_task=False)(function)
        made: Queued[..., Any] = Queued(function, definition)
        if schedule is not None:
            made.on_schedule(
                full, schedule, priority=priority, misfire=misfire, misfire_limit=misfire_limit,
                overlap=overlap, jitter=jitter,
            )  # fmt: skip
        return made

    return decorate if function is None else decorate(function)


class Decorator:
    """What `queued(...)` returns; for type checkers."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Queued[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Queued[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        raise NotImplementedError


def _moment(when: datetime | timedelta | float | None) -> datetime | None:
    if when is None:
        return None
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise BadInput(f"{when} has no time zone: give one, as django.utils.timezone.now() has")
        return when
    try:
        return timezone.now() + (when if isinstance(when, timedelta) else timedelta(seconds=when))
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{excerpt(when)} is neither a time nor a number of seconds") from None
