"""What a function with `@queued` declares: limits, cost, name, and how payloads of other releases fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr import ConfigurationError, Handle, Policy, queued
from queuemgr.flows.flow import get_flow
from queuemgr.models import Execution, Limit, Route, State
from queuemgr.scheduling import limit_rows
from queuemgr.worker.beat import tick
from tests.integration.tasks.a_task import declare

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]


Perform = Callable[..., int]


def test_limits_are_rows_and_calls_wait_for_their_keys(perform_all: Perform) -> None:
    send = declare(limits={"host:{host}": 2, "mail": "50/m", "size:{count}": {"max_running": 9}}, cost=3)
    limit_rows.sync()
    assert Limit.objects.get(name="host:*").max_running == 2
    assert Limit.objects.get(name="mail").rate == "50/m"
    assert Limit.objects.get(name="size:*").max_running == 9
    send.enqueue("a.example")
    route = Route.objects.get()
    assert route.limit_keys.split() == ["host:a.example", "mail", "size:1"]
    assert route.cost == 3


def test_what_a_call_costs_may_depend_on_its_arguments() -> None:
    send = declare(cost=lambda host, count=1: 10 * count)
    send.enqueue("a.example", count=4)
    assert Route.objects.get().cost == 40


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limits": ["host:{hots}"]}, "names 'hots'; its parameters: host, count"),
        ({"limits": "host:{host}"}, "is a text; write a list"),
        ({"unique": "{hots}"}, "names 'hots'"),
        ({"retries": -1}, "retries=-1; write a number from 0"),
        ({"retries": Policy(0)}, "max_attempts is at least 1"),
        ({"priority": "urgent"}, "priority 'urgent' is not one of high, normal, low"),
        ({"phase": "Not A Phase"}, "phase 'Not A Phase'"),
        ({"time_limit": 0}, "time_limit 0 is not a number of seconds above 0"),
        ({"time_limit": "5m"}, "time_limit '5m' is not a number of seconds above 0"),
        ({"limits": {"host:{host}": "50/x"}}, "shop.send: limit 'host:*' with"),
        ({"limits": {"host:{host}": -1}}, "shop.send: limit 'host:*' with"),
        ({"limits": {"model": {"max_runing": 2}}}, "limit 'model' with no such field: max_runing"),
        ({"cost": -5}, "shop.send: cost: -5 is not between 0 and"),
        ({"cost": "5"}, "shop.send: cost: '5' is no whole number"),
    ],
)
def test_a_task_that_cannot_work_is_refused_when_it_is_declared(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(**options)
    assert said in str(refused.value)


@pytest.mark.parametrize("decorated", [3, "host", tick])
def test_what_is_no_function_is_refused_with_what_to_write(decorated: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"write its options by name: @queued\(limits=\{…\}\)"):
        queued(decorated)


def test_a_payload_of_another_release_is_tried_again_and_says_what_does_not_fit(perform_all: Perform) -> None:
    """While two releases run, the next attempt may meet the other."""
    send = declare()
    send.enqueue("a.example")
    Execution.objects.update(payload={"host": "a.example", "gone": 1})
    perform_all()
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == ("waiting", "bad_payload")
    assert "shop.send does not take this payload: gone" in execution.error_message


STORED: dict[str, dict[str, Any]] = {
    "as this release stores it": {"host": "a.example", "subject": "s"},
    "with a parameter that was renamed": {"server": "a.example", "subject": "s"},
    "with a parameter that is gone": {"host": "a.example", "subject": "s", "bcc": "x"},
    "without a parameter that is new": {"host": "a.example"},
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_what_an_earlier_release_stored_is_upgraded_before_it_runs(
    stored: dict[str, Any], perform_all: Perform
) -> None:
    def upgrade(arguments: dict[str, Any]) -> dict[str, Any]:
        arguments.pop("bcc", None)
        host = arguments.pop("server", None) or arguments["host"]
        return {"subject": "s", **arguments, "host": host}

    @queued(name="shop.upgraded", limits=["host:{host}"], cost=lambda host, subject: 1, upgrade=upgrade)
    def send(host: str, subject: str) -> str:
        return f"{host} {subject}"

    handle: Handle[str] = send.enqueue("b.example", "t")
    Execution.objects.update(payload=stored)
    perform_all()
    assert handle.result() == "a.example s"


@pytest.mark.parametrize("returned", [None, [1], 7])
def test_an_upgrade_that_returns_no_arguments_is_named(returned: Any, perform_all: Perform) -> None:
    fine = [True]

    @queued(name="shop.ill_upgraded", upgrade=lambda stored: stored if fine else returned)
    def send(host: str) -> None: ...

    send.enqueue("a.example")
    fine.clear()
    perform_all()
    kind = type(returned).__name__
    assert (
        f"shop.ill_upgraded: its upgrade of the payload returned a {kind}"
        in Execution.objects.get().error_message
    )


def test_a_name_of_two_hundred_characters_fits(perform_all: Perform) -> None:
    @queued(name="shop." + "x" * 195)
    def send() -> int:
        return 1

    handle = send.enqueue()
    perform_all()
    assert handle.result() == 1
    with pytest.raises(ConfigurationError, match="1 to 200 printable characters fit"):
        queued(name="y" * 201)(send.function)


def test_the_flow_of_a_task_is_one_step_in_the_phase_default() -> None:
    declare()
    ((phase, step, _),) = get_flow("shop.send").steps()
    assert (phase.name, step.name, step.task) == ("default", "run", "shop.send")
    assert State.WAITING == "waiting"
