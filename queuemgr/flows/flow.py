"""How an application declares its work: a flow is phases, a phase is steps, read top to bottom.

Plain data, no framework. A step names the Celery task that does it, the limit key it works under
and what it costs; `needed` lets a flow leave a step out for one execution.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from queuemgr.base.column_sizes import MAX_FLOW_NAME
from queuemgr.base.errors import ConfigurationError, UnknownFlow, UnknownStep
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.retry_policy import POLICIES, Policy
from queuemgr.flows.unique import Unique, UniqueKey

if TYPE_CHECKING:
    from pydantic import BaseModel

Context = Mapping[str, Any]
"""The payload of an execution and, over it, the context its steps returned so far."""

HIGH, NORMAL, LOW = 0, 1, 2
PRIORITIES: Mapping[str, int] = {"high": HIGH, "normal": NORMAL, "low": LOW}
"""Ranks by priority name: the lower rank starts first. People see names only."""

PRIORITY_NAMES: Mapping[int, str] = {rank: name for name, rank in PRIORITIES.items()}
HOUSEKEEPING = "housekeeping"

HAND_OVER = "queue.handover"
"""The flow that sends failed work to queues of others: `operations/handed_over_messages.py`."""


def queue_name(phase: str, priority: int) -> str:
    """The Celery queue of this phase and priority, such as `print.high`."""
    return f"{phase}.{PRIORITY_NAMES[priority]}"


def async_queue(queue: str) -> str:
    """The Celery queue of its leases that take async slots."""
    return f"{queue}.async"


@dataclass(frozen=True)
class Step:
    """One Celery task, and a checkpoint: a finished step is never run again.

    `key` names the limit it counts against, or several (`("host:api.example.org:443", "tenant:acme")`),
    with `weight` slots of each; every viewer sees these names, so nothing goes into one that only the
    payload may say. `resources` are how much of each it holds while it runs (`{"cpu": 1, "memory": 2}`).
    `cost` is how many requests it may charge to the budgets, and `uses` what else it is expected to use, by
    meter, in the meter's unit (`{"tokens": 1200, "usd": 0.02}`); None is the 90th percentile of what this
    step used lately. `soft_time_limit` and `time_limit` are in
    seconds: after the first its abort signal is set, after the second it is ended, whatever it does; both
    are recorded as `timeout`. The settings `SLUICE_SOFT_TIME_LIMIT_<PHASE>` and `SLUICE_TIME_LIMIT_<PHASE>`
    hold for every step of a phase; the smaller limit counts. Raises `ConfigurationError` for a limit that
    is not above zero. `is_async`: its task is an `async def`, for the async slots of workers that have some.
    """

    name: str
    task: str
    key: Callable[[Context], str | Iterable[str]] = lambda context: ""
    cost: Callable[[Context], int] = lambda context: 0
    needed: Callable[[Context], bool] = lambda context: True
    weight: Callable[[Context], int] = lambda context: 1
    resources: Callable[[Context], Mapping[str, int]] = lambda context: {}
    uses: Callable[[Context], Mapping[str, float | None]] = lambda context: {}
    soft_time_limit: float | None = None
    time_limit: float | None = None
    is_async: bool = False

    def __post_init__(self) -> None:
        for name, limit in (("soft_time_limit", self.soft_time_limit), ("time_limit", self.time_limit)):
            if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
                raise ConfigurationError(
                    f"step {self.name}: {name} {limit!r} is not a number of seconds above 0; None: no limit"
                )


PHASE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class Phase:
    """A run of steps under one cap. `rank` orders phases when slots are scarce: 0 starts first.

    `waiting` and `running` are the operator's words for an execution in this phase. `max_running` is
    how many of its steps may run at once in the fleet (0: no cap), unless `SLUICE_MAX_<PHASE>` says
    otherwise. Raises `ConfigurationError` for a name that is no lower-case identifier.
    """

    name: str
    rank: int
    waiting: str
    running: str
    steps: tuple[Step, ...]
    max_running: int = 0

    def __post_init__(self) -> None:
        if not PHASE_NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"phase {self.name!r}: a name has lower-case letters, digits and _, at most 32"
            )


class StepRef(NamedTuple):
    """The position of an execution in its flow: a step of a phase."""

    phase: Phase
    step: Step
    flow: str


@dataclass(frozen=True)
class NewExecution:
    """What `parse_item` makes of an item: a key, unique in the flow, and a payload; `item` is what its
    `store_items` is to store, if anything; `unique` is in place of its flow's, `priority`
    in place of that of the call that enqueues it."""

    key: str
    payload: dict[str, Any] = field(default_factory=dict)
    item: Any = field(default=None, compare=False, repr=False)
    unique: Unique | UniqueKey | None = None
    priority: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of `doctor`: its level (`good`, `note`, `bad`), what was found, the remedy."""

    level: str
    what: str
    remedy: str = ""


class Link(NamedTuple):
    """A labelled link to a page or a file about an item."""

    label: str
    address: str


UniqueKeyOf = Callable[[Mapping[str, Any]], UniqueKey | None]
"""What makes the unique key of a payload, if it has one."""


@dataclass(frozen=True)
class Flow:
    """A named list of phases.

    `parse_item` turns an item typed by a person into a `NewExecution`; `parse_remote_item` does the same
    for input from the network, which may not name local files. Both raise `BadInput`, and write nothing: they
    are called outside of any transaction. `store_items(new)` stores what they found, in the transaction that
    inserts the executions; also of those that a full queue refuses. `item_flags` are what a person may ask
    for each item, with a help text: as `{"force_ocr": "read every page"}`, for which `queue enqueue
    --force-ocr` sets this field of the payload, or what `with_flags(new, flags)` makes of it.
    `item_files` are files that a person may give for all items of a command, with a help text:
    `{"schema": "what to extract"}` makes `queue enqueue --schema FILE` and `queue import --schema FILE`, for
    which `with_file(new, name, content)` returns each item with what the file asks, or raises `BadInput`.
    `register_items(new)` stores items without enqueuing them, with their payloads and priorities, with which
    `backfill(limit)` enqueues at most `limit` of those, and returns how many. The periodic jobs call it,
    unless a schedule does (`has_scheduled_backfill`).
    `error_kinds` are the default retry policies of the error kinds only its steps use; the generic ones
    are in `retry_policy.POLICIES`.
    `limits()` returns the default limits of its steps' keys: field values by limit name. `limit_names` are
    names and patterns (`host:*`) of keys that it does not state and its steps use all the same: by them a
    name that a person writes is not taken for a mistyped one.
    `limit_settings` maps settings of the application to the limit whose `max_running` they set, or to a limit
    and another field, such as `("llm", "allowances")`, so that one on a command line overrides an operator's
    edit.
    `checks()` yields what `doctor` reports about this flow.
    `link(key)` is the URL of a page about an item, or empty; `artifacts(key)` are links to its files.
    `export(keys)` returns a JSON object about each of these items by key, without unknown ones.
    `cleanup()` deletes files that killed workers left behind and returns how many.
    `forget(keys)` deletes what the flow stored of items whose executions are about to be deleted by
    retention; without it that stays.
    `keep_failed_days` is for how many days its failed executions are kept, 0: for ever, in place of
    SLUICE_KEEP_FAILED_DAYS, which holds where it is None.
    `payload_model()` returns a pydantic model of its payloads: others are refused when they are enqueued
    through the API or the admin or edited, whose form has a field for each of its members.
    `unique` says of which executions there is one at a time: a `Unique`, whose keys are fields of payloads.

    Each of these may run for `SLUICE_CALLBACK_SECONDS`, except `register_items`.
    """

    name: str
    phases: tuple[Phase, ...]
    parse_item: Callable[[str], NewExecution] | None = None
    parse_remote_item: Callable[[str], NewExecution] | None = None
    store_items: Callable[[Sequence[NewExecution]], None] | None = None
    item_flags: Mapping[str, str] = field(default_factory=dict)
    with_flags: Callable[[NewExecution, Mapping[str, bool]], NewExecution] | None = None
    item_files: Mapping[str, str] = field(default_factory=dict)
    with_file: Callable[[NewExecution, str, bytes], NewExecution] | None = None
    register_items: Callable[[Sequence[NewExecution]], None] | None = None
    backfill: Callable[[int], int] | None = None
    has_scheduled_backfill: bool = False
    error_kinds: Mapping[str, Policy] = field(default_factory=dict)
    limits: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
    limit_settings: Mapping[str, str | tuple[str, str]] = field(default_factory=dict)
    checks: Callable[[], Iterable[CheckResult]] = tuple
    link: Callable[[str], str] = lambda key: ""
    artifacts: Callable[[str], Sequence[Link]] = lambda key: ()
    export: Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]] = lambda keys: {}
    cleanup: Callable[[], int] = lambda: 0
    forget: Callable[[Sequence[str]], None] | None = None
    unique: Unique | UniqueKeyOf | None = None
    keep_failed_days: float | None = None
    limit_names: tuple[str, ...] = ()
    payload_model: Callable[[], type[BaseModel]] | None = None

    def steps(self) -> Iterator[StepRef]:
        return (StepRef(phase, step, self.name) for phase in self.phases for step in phase.steps)

    def at(self, phase: str, step: str) -> StepRef:
        """The step of these names; raises `UnknownStep`."""
        for position in self.steps():
            if (position.phase.name, position.step.name) == (phase, step):
                return position
        raise UnknownStep(f"flow {self.name} has no step {phase}/{step}")

    def steps_after(self, ref: StepRef) -> list[StepRef]:
        """The steps behind this one, needed or not."""
        positions = list(self.steps())
        return positions[positions.index(ref) + 1 :]


_flows: dict[str, Flow] = {}
_derived: dict[str, Callable[[Sequence[Phase]], Flow]] = {}


def register_flow(flow: Flow) -> Flow:
    """Register a flow in this process; the same name again replaces it.

    Raises `ConfigurationError` when it redefines a kind of error the queue or another flow defines, and for
    a name that does not fit its column.
    """
    _check_names(flow)
    _check_days(flow)
    for kind, policy in flow.error_kinds.items():
        others = [known.error_kinds for known in _flows.values() if known.name != flow.name]
        if any(known.get(kind, policy) != policy for known in (POLICIES, *others)):
            raise ConfigurationError(f"flow {flow.name}: error kind {kind!r} is defined already")
    _flows[flow.name] = flow
    if flow.name not in _derived:
        _build_derived()
    return flow


MAX_NAME = 32


def _check_names(flow: Flow) -> None:
    named = [("flow", flow.name, MAX_FLOW_NAME), *(("step", ref.step.name, MAX_NAME) for ref in flow.steps())]
    for what, name, most in [*named, *(("error kind", kind, MAX_NAME) for kind in flow.error_kinds)]:
        if not (isinstance(name, str) and 0 < len(name) <= most and name.isprintable()):
            raise ConfigurationError(
                f"flow {flow.name}: {what} {name!r}: 1 to {most} printable characters fit"
            )


def _check_days(flow: Flow) -> None:
    days: Any = flow.keep_failed_days
    if days is None or (isinstance(days, int | float) and not isinstance(days, bool) and 0 <= days <= 36_600):
        return
    raise ConfigurationError(
        f"flow {flow.name}: keep_failed_days={excerpt(days)}; write a number of days, 0: for ever"
    )


def register_derived_flow(name: str, build: Callable[[Sequence[Phase]], Flow]) -> None:
    """Register a flow built from the phases of the application's flows, whenever those are registered."""
    _derived[name] = build
    _build_derived()


def _build_derived() -> None:
    phases = [*_phases_of(application_flows()).values()]
    for name, build in _derived.items():
        _flows[name] = build(phases)


def application_flows() -> tuple[Flow, ...]:
    """The flows applications registered, without the queue's own probe flow."""
    return tuple(flow for flow in _flows.values() if flow.name not in _derived)


def get_flow(name: str) -> Flow:
    """The flow of this name; raises `UnknownFlow`, which lists those registered."""
    try:
        return _flows[name]
    except KeyError:
        known = ", ".join(sorted(_flows)) or "none"
        raise UnknownFlow(f"no flow is called {name!r}; registered: {known}") from None


def is_async_step(flow: str, phase: str, step: str) -> bool:
    """Whether this process knows this step as one for async slots."""
    try:
        return get_flow(flow).at(phase, step).step.is_async
    except (UnknownFlow, UnknownStep):
        return False


def all_flows() -> tuple[Flow, ...]:
    return tuple(_flows.values())


def all_phases() -> dict[str, Phase]:
    """Every phase of every flow by name, in the order they were declared.

    Phases of the same name in several flows share queues and a cap: rank and words are those declared
    first, and the cap is the smallest above 0.
    """
    return _phases_of(application_flows() or _flows.values())


def _phases_of(flows: Iterable[Flow]) -> dict[str, Phase]:
    phases: dict[str, Phase] = {}
    for phase in (phase for flow in flows for phase in flow.phases):
        known = phases.setdefault(phase.name, phase)
        cap = min(filter(None, (known.max_running, phase.max_running)), default=0)
        if cap != known.max_running:
            phases[phase.name] = replace(known, max_running=cap)
    return phases


def all_error_kinds() -> dict[str, Policy]:
    """Every kind of error and its default retry policy: the generic ones, then those of the flows."""
    kinds = dict(POLICIES)
    for flow in _flows.values():
        kinds.update(flow.error_kinds)
    return kinds


def default_policy(kind: str) -> Policy:
    """The default policy of a kind of error; kinds nobody declared are treated as unexpected."""
    return all_error_kinds().get(kind, POLICIES["unexpected"])


def all_queues() -> list[str]:
    """The Celery queues of all phases and priorities, such as `print.high`."""
    return [queue_name(phase, rank) for phase in all_phases() for rank in PRIORITY_NAMES]


def operator_status(state: str, phase: str) -> str:
    """The word an operator sees: that of its phase, for waiting or running, else the state itself."""
    known = all_phases().get(phase)
    if known is None or state not in ("waiting", "leased", "running"):
        return state
    return known.waiting if state == "waiting" else known.running
