"""Flows and queued tasks: what they state that cannot be meant, and where they are declared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.urls import get_resolver

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import ConfigurationError
from queuemgr.flows.flow import Flow, application_flows
from queuemgr.scheduling import limit_rows
from queuemgr.tasks.definition import TaskDefinition, definition_of
from queuemgr.worker import flow_modules

Stated = Mapping[str, Mapping[str, Any]]
"""Field values by limit."""


def declarations(**kwargs: Any) -> list[CheckMessage]:
    _import_views()
    tasks = [definition for flow in application_flows() if (definition := definition_of(flow))]
    stated = [(task.name, task.stated_limits()) for task in tasks]
    of_tasks = (message for task in tasks for message in _arguments(task))
    return [*conflicts(stated), *of_tasks, *_late(), *_limits_of_the_setting()]


def _import_views() -> None:
    """Views are imported by the first request, if by nothing before; what is wrong with them Django's own
    checks say."""
    with suppress(Exception):
        get_resolver().url_patterns  # noqa: B018  # imports the modules of every page


def conflicts(stated: Iterable[tuple[str, Stated]]) -> Iterator[CheckMessage]:
    """Fields of limits of which several flows state different values; each comes with its flow's name."""
    values: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for flow, limits in stated:
        for limit, fields in limits.items():
            for field, value in fields.items():
                values[limit, field][flow] = value
    for (limit, field), by_flow in values.items():
        if len({repr(value) for value in by_flow.values()}) > 1:
            said = ", ".join(f"{value!r} by {flow}" for flow, value in by_flow.items())
            yield Warning(
                f"The limit {limit!r} has several values of {field}: {said}; the last one counts.",
                hint="State it in one place: in one of them, or in an edit of the limit (`queue limit`).",
                id="queuemgr.W040",
            )


def _limits_of_the_setting() -> Iterator[CheckMessage]:
    try:
        limit_rows.of_the_setting(queue_settings())
    except ConfigurationError as error:
        yield Error(
            f"{error}.",
            hint="Write how many at once (2), a rate ('50/m') or fields ({'max_running': 2}).",
            id="queuemgr.E044",
        )


def _arguments(task: TaskDefinition) -> Iterator[CheckMessage]:
    if names := task.arguments.unreadable():
        yield Warning(
            f"{task.name}: the annotation of {', '.join(names)} is not known at run time, so it "
            "is neither checked nor converted: a call takes anything that JSON can hold.",
            hint="Import the type where the code runs, not under TYPE_CHECKING alone.",
            id="queuemgr.W041",
        )
    else:
        try:
            task.arguments.check()
        except ConfigurationError as error:
            yield Error(str(error), hint="Annotate what JSON can hold.", id="queuemgr.E042")


def _late() -> Iterator[CheckMessage]:
    for flow in application_flows():
        if flow.name not in flow_modules.known_at_start():
            yield Warning(
                f"{flow.name} was registered after all apps had been loaded{_where(flow)}: a worker that "
                "does not import the same module does not know it.",
                hint="Declare it in the module `flows` or `tasks` of an app, or import its module there.",
                id="queuemgr.W043",
            )


def _where(flow: Flow) -> str:
    definition = definition_of(flow)
    return f", by {definition.arguments.module}" if definition else ""
