"""What a task states of itself, and its flow: one step in one phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.meters import stored
from queuemgr.base.redaction import describe_error
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.callbacks import BadResult
from queuemgr.flows.flow import NORMAL, PRIORITIES, Context, Flow, Phase, Step, register_flow
from queuemgr.flows.retry_policy import Policy
from queuemgr.flows.unique import Unique, UniqueKey
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.step_rules import whole_number
from queuemgr.tasks.call_arguments import CallArguments
from queuemgr.tasks.limit_templates import KeyTemplate, StatedLimits, parse_template, values_of

DEFAULT_PHASE = "default"
STEP = "run"
EXPIRES = "@expires"
"""In the payload, beside the arguments: an ISO 8601 time after which it is not run any more."""

Cost = int | Callable[..., int]
Uses = Mapping[str, float | None] | Callable[..., Mapping[str, float | None]]
Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class TaskDefinition:
    """One task. `name` is its Celery name and the name of its flow.

    `cost` is how many requests a call may charge to the budgets: a number, or a function of the call's
    arguments; `uses` what else it is expected to use, by meter, as in `Step`. `retries` is how often an
    exception without an error kind is retried, or the whole policy; None leaves that to the policy of the
    kind "unexpected". `unique` as a text makes the key of a call from its arguments: calls of the same key
    are one execution; a `Unique` says which are, and how long. `soft_time_limit` and `time_limit` are in
    seconds. `upgrade` is given the arguments as they were stored, by name, and returns them as this release
    takes them. `keep_failed_days` is as in `Flow`.
    """

    name: str
    arguments: CallArguments
    limits: StatedLimits = ()
    cost: Cost = 0
    uses: Uses | None = None
    retries: int | Policy | None = None
    unique: str | Unique = ""
    phase: str = DEFAULT_PHASE
    priority: int = NORMAL
    soft_time_limit: float | None = None
    time_limit: float | None = None
    keeps_result: bool = True
    upgrade: Upgrade | None = None
    keep_failed_days: float | None = None

    def register(self) -> None:
        """Register its flow. Raises `ConfigurationError` for what cannot work."""
        self.policy, self.unique_key, self.unique_rule  # noqa: B018  # checked now
        self.arguments.check()
        self._check_limits()
        if not callable(self.cost):
            self._check_cost(self.cost)
        if self.uses is not None and not callable(self.uses):
            self._check_uses(self.uses)
        phase = self._phase
        unique = self.unique_of if self.unique_rule else None
        flow = Flow(
            self.name, (phase,), limits=self.stated_limits, unique=unique,
            keep_failed_days=self.keep_failed_days,
            limit_names=tuple(template.pattern for template, _ in self._templates),
            payload_model=None if self.upgrade else lambda: self.arguments.model,
        )  # fmt: skip
        register_flow(flow)

    @cached_property
    def policy(self) -> Policy | None:
        """Its own policy for exceptions without an error kind."""
        if self.retries is None or isinstance(self.retries, Policy):
            return self.retries and self.retries.checked()
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise ConfigurationError(f"{self.name}: retries={excerpt(self.retries)}; write a number from 0")
        return Policy(self.retries + 1, 5, 600, 5).checked()

    @cached_property
    def unique_key(self) -> KeyTemplate | None:
        """What makes the key of a call of its arguments."""
        if isinstance(self.unique, Unique) or not self.unique:
            return None
        return parse_template(self.name, self.unique, self.arguments.names)

    @cached_property
    def unique_rule(self) -> Unique | None:
        """Which calls are one execution while it lasts."""
        if not isinstance(self.unique, Unique):
            return None
        if unknown := set(self.unique.keys) - set(self.arguments.names):
            known = ", ".join(self.arguments.names) or "none"
            raise ConfigurationError(
                f"{self.name}: Unique names {', '.join(sorted(unknown))}; its parameters: {known}"
            )
        return self.unique

    def unique_of(self, payload: Mapping[str, Any]) -> UniqueKey | None:
        """The unique key of a call with this payload, which leaves out what has its default."""
        if self.unique_rule is None:
            return None
        names = self.unique_rule.keys or self.arguments.names
        given = {**self._defaults, **without_options(payload)}
        return self.unique_rule.of({name: given.get(name) for name in names})

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """The defaults of its parameters, as a payload would hold them."""
        return {n: self.arguments.stored({n: v})[n] for n, v in self.arguments.with_defaults({}).items()}

    @cached_property
    def _templates(self) -> list[tuple[KeyTemplate, Mapping[str, Any]]]:
        stated = values_of(self.name, self.limits)
        return [
            (parse_template(self.name, text, self.arguments.names), fields) for text, fields in stated.items()
        ]

    @property
    def _phase(self) -> Phase:
        try:
            return Phase(self.phase, 0, "waiting", "running", (self._step,))
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.name}: {str(error).removeprefix(f'step {STEP}: ')}") from None

    @property
    def _step(self) -> Step:
        templates = self._templates
        return Step(
            STEP,
            self.name,
            key=lambda context: [template.fill(self._arguments_of(context)) for template, _ in templates],
            cost=self._cost_of,
            uses=self._uses_of,
            soft_time_limit=self.soft_time_limit,
            time_limit=self.time_limit,
            is_async=self.arguments.is_of_coroutine,
        )

    def stated_limits(self) -> dict[str, Mapping[str, Any]]:
        """The fields it states, by limit."""
        return {template.pattern: fields for template, fields in self._templates if fields}

    def _check_limits(self) -> None:
        for name, fields in self.stated_limits().items():
            try:
                limit_rows.check(name, fields)
            except BadResult as error:
                raise ConfigurationError(
                    f"{self.name}: limit {str(error).removeprefix('returned ')}"
                ) from None

    def _check_cost(self, cost: Any) -> None:
        try:
            whole_number(cost, least=0)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.name}: cost: {error}") from None

    def _cost_of(self, context: Context) -> int:
        if not callable(self.cost):
            return self.cost
        args, kwargs = self.arguments.call(self.stored_arguments(context))
        return self.cost(*args, **kwargs)

    def _check_uses(self, uses: Any) -> None:
        """Raises `ConfigurationError`, for a meter that nobody knows say."""
        try:
            if isinstance(uses, Mapping):
                stored({name: 0 if number is None else number for name, number in uses.items()})
                return
            raise BadInput(f"{excerpt(uses)} is no mapping from meters to amounts")
        except BadInput as error:
            raise ConfigurationError(f"{self.name}: uses: {error}") from None

    def _uses_of(self, context: Context) -> Mapping[str, float | None]:
        if not callable(self.uses):
            return self.uses or {}
        args, kwargs = self.arguments.call(self.stored_arguments(context))
        return self.uses(*args, **kwargs)

    def _arguments_of(self, context: Context) -> dict[str, Any]:
        return self.arguments.with_defaults(self.stored_arguments(context))

    def stored_arguments(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments in a payload, as this release takes them. Raises `BadInput` where `upgrade` fails."""
        stored = without_options(payload)
        if self.upgrade is None:
            return stored
        try:
            upgraded = self.upgrade(stored)
        except Exception as error:
            raise BadInput(
                f"{self.name}: its upgrade of the payload raised {describe_error(error)}"
            ) from error
        if not isinstance(upgraded, Mapping):
            raise BadInput(f"{self.name}: its upgrade of the payload returned a {type(upgraded).__name__}")
        return upgraded


def definition_of(flow: Flow) -> TaskDefinition | None:
    """The task that a flow is made of; none for a flow that an application wrote."""
    owner = getattr(flow.limits, "__self__", None)
    return owner if isinstance(owner, TaskDefinition) else None


def without_options(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in a payload."""
    return {name: value for name, value in payload.items() if not name.startswith("@")}


def rank_of(task: str, priority: str) -> int:
    """The rank of a priority's name. Raises `ConfigurationError`."""
    if priority not in PRIORITIES:
        raise ConfigurationError(f"{task}: priority {priority!r} is not one of {', '.join(PRIORITIES)}")
    return PRIORITIES[priority]
