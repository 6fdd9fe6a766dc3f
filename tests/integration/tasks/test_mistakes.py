"""What somebody reads who uses it for the first time, and makes a mistake: a sentence that names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission

from queuemgr import ConfigurationError, TaskFailed, queued
from queuemgr.base.errors import BadInput

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]


def send(to: str, host: str = "mail.example") -> str:
    return f"{to} {host}"


def numbers(until: int) -> Iterator[int]:
    yield from range(until)


def another(to: str) -> None: ...


class Mailer:
    def send(self, to: str) -> None: ...


def twice() -> None:
    queued(name="shop.send")(send)
    queued(name="shop.send")(another)


DECLARED: list[tuple[Callable[[], Any], str]] = [
    (lambda: queued(limits=2)(send), "limits=2 names no limit; write what it limits"),
    (lambda: queued(limits={"host {host}": 2})(send), "limit 'host {host}' has white space in it; use none"),
    (lambda: queued(limits={"host:{host}": 0})(send), "is 0, which limits nothing; write 1 or more"),
    (lambda: queued(limits={"hots:{hots}": 1})(send), "names 'hots'; its parameters: to, host"),
    (lambda: queued(limits={2: "host"})(send), "limit 2 is no name; write a text"),
    (lambda: queued(time_limit="30s")(send), "send: time_limit '30s' is not a number of seconds"),
    (lambda: queued(phase="my phase")(send), "send: phase 'my phase': a name has lower-case letters"),
    (lambda: queued(Mailer.send), "Mailer.send is a method: a worker has no object to call it of"),
    (lambda: queued(numbers), "numbers is a generator: calling it runs nothing"),
    (lambda: queued(lambda to: None), "write it with def, not lambda"),
    (lambda: queued({"host:{host}": 2}), "queued() decorates a function, not {'host:{host}': 2}"),
    (twice, "two tasks are called 'shop.send', tests.integration.tasks.test_mistakes.send and tests"),
]


@pytest.mark.parametrize(("declare", "said"), DECLARED, ids=[said for _, said in DECLARED])
def test_a_task_that_cannot_work_as_written_is_refused_where_it_is_declared(
    declare: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare()
    assert said in str(refused.value)


def test_a_module_may_be_imported_again() -> None:
    queued(name="shop.send")(send)
    assert queued(name="shop.send")(send).name == "shop.send"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda task: task.enqueue(Permission()), "not Permission; pass its primary key"),
        (lambda task: task.enqueue(["secret-word"]), "to: Input should be a valid string, not list"),
        (lambda task: task.enqueue("x" * 70_000), "shop.send/"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_by_its_type_and_not_by_its_value(
    call: Callable[[Any], Any], said: str
) -> None:
    task = queued(name="shop.send")(send)
    with pytest.raises(BadInput) as refused:
        call(task)
    assert said in str(refused.value) and "secret-word" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("delay", r"enqueue\(…\)"), ("apply_async", r"later\(when, …\)"), ("s", r"call\(…\)"),
        ("enque", "a queued function has no enque"),
    ],
)  # fmt: skip
def test_who_writes_what_a_task_of_celery_has_reads_what_to_write(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(queued(name="shop.send")(send), name)


def test_who_waits_without_a_worker_reads_why_it_waits() -> None:
    handle = queued(name="shop.send")(send).enqueue("ann")
    said = r"shop\.send/\S+ has not ended yet: it is waiting: no live worker consumes default\.normal"
    with pytest.raises(TimeoutError, match=said):
        handle.result(timeout=0)
    with pytest.raises(TimeoutError, match=said):
        asyncio.run(handle.aresult(timeout=0))


def returns_text(number: int) -> int:
    return "text"  # type: ignore[return-value]  # the mistake


def test_a_result_of_another_type_than_annotated_is_named_by_both(perform_all: Callable[..., int]) -> None:
    handle = queued(name="shop.wrong")(returns_text).enqueue(1)
    perform_all()
    with pytest.raises(TaskFailed, match=r"cannot be stored as JSON \(TypeError: a str, .* says int\)"):
        handle.result(timeout=0)
